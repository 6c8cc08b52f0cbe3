"""Programs run by a naive interpreter that trusts nothing but their steps."""

import random
from dataclasses import replace
from itertools import product

import pytest

from tests.plan.random_worlds import all_keepings, all_trees, random_graph, random_statistics, seeded
from thalweg.plan.compiler import compile_programs
from thalweg.plan.join_graph import JoinGraph
from thalweg.plan.program import Emit, Probe, Program, Programs, Rank, Store
from thalweg.plan.search import rank
from thalweg.plan.tree import LinearPlan, Node, Plan, TreePlan, parse_plan

Row = tuple[int, dict[int, int], dict[int, int]]
"""(number, value per class, operand per theta)"""
Combination = dict[int, Row]


def targets(program: Program) -> list[list[int]]:
    return [sorted(probe.target) for probe in program.probes]


ONE_CLASS = JoinGraph(4, (frozenset(range(4)),))


def test_a_pipeline_probes_siblings_and_stores_on_the_way_up() -> None:
    plan = parse_plan("((A B) C) D", "ABCD")
    assert isinstance(plan, TreePlan)
    programs = compile_programs(plan.keeping_all(), ONE_CLASS)
    assert [targets(p) for p in programs.heads] == [
        [[1], [2], [3]],
        [[0], [2], [3]],
        [[0, 1], [3]],
        [[0, 1, 2]],
    ]
    assert [state for _, state in programs.heads[0].stored_probes()] == [frozenset({0, 1}), frozenset({0, 1, 2}), None]
    assert programs.keys == {frozenset({0, 1}): (0,), frozenset({0, 1, 2}): (0,)}
    assert targets(programs.completions[frozenset({0, 1, 2})]) == [[2], [0, 1]]  # no tuple of it, no completion


def test_a_tree_that_keeps_nothing_is_an_m_join() -> None:
    programs = compile_programs(parse_plan("(A B) (C D)", "ABCD"), ONE_CLASS)
    assert [targets(p) for p in programs.heads] == [
        [[1], [2], [3]],
        [[0], [2], [3]],
        [[3], [0], [1]],
        [[2], [0], [1]],
    ]
    assert programs.completions == {}
    assert all(state is None for program in programs.heads for _, state in program.stored_probes())


def test_a_linear_plan_is_followed_to_the_letter() -> None:
    plan = LinearPlan(((3, 1, 2), (0, 2, 3), (1, 3, 0), (2, 1, 0)))
    programs = compile_programs(plan, ONE_CLASS)
    assert [targets(p) for p in programs.heads] == [[[s] for s in order] for order in plan.orders]


def test_a_state_whose_key_is_not_at_hand_is_passed_over() -> None:
    # A.x = B.x, B.y = C.y: the state AB is probed by y, which D (A.z = D.z) does not have.
    graph = JoinGraph(4, (frozenset({0, 1}), frozenset({1, 2}), frozenset({0, 3})))
    plan = TreePlan(parse_plan("((A B) C) D", "ABCD").tree, frozenset({frozenset({0, 1})}))  # type: ignore[union-attr]
    programs = compile_programs(plan, graph)
    assert programs.keys == {frozenset({0, 1}): (1,)}
    assert targets(programs.heads[2]) == [[0, 1], [3]]
    assert targets(programs.heads[3]) == [[0], [1], [2]]


def test_nested_loops_look_nothing_up_and_keep_the_keys() -> None:
    plan = TreePlan(parse_plan("((A B) C) D", "ABCD").tree).keeping_all()  # type: ignore[union-attr]
    looked_up = compile_programs(plan, ONE_CLASS, fills=True)
    loops = compile_programs(plan, ONE_CLASS, fills=True, nested_loops=True)
    assert loops.keys == looked_up.keys
    for one, other in zip(_all(looked_up), _all(loops), strict=True):
        assert [replace(probe, loops=bool(probe.key)) for probe in one.probes] == list(other.probes)
        assert [probe.scans for probe in one.probes] == [not probe.key for probe in one.probes]
        assert all(probe.scans for probe in other.probes)


def _all(programs: Programs) -> list[Program]:
    return [*programs.heads, *programs.completions.values(), *programs.fills.values()]


def test_the_rank_orders_the_parts_of_what_is_not_kept() -> None:
    plan = parse_plan("((A B) C) D", "ABCD")
    prefer_high: Rank = lambda _bound, target: -max(target)  # noqa: E731
    assert targets(compile_programs(plan, ONE_CLASS, prefer_high).heads[3]) == [[2], [1], [0]]
    assert targets(compile_programs(plan, ONE_CLASS).heads[3]) == [[0], [1], [2]]


def test_several_classes_only_share_a_hash_so_all_are_checked() -> None:
    graph = JoinGraph(2, (frozenset({0, 1}), frozenset({0, 1})), (frozenset({0, 1}),))
    (probe,) = compile_programs(parse_plan("A B", "AB"), graph).heads[0].probes
    assert probe == Probe(frozenset({1}), (0, 1), (0, 1), (0,))


class Interpreter:
    """Runs programs over windows that never forget."""

    def __init__(self, graph: JoinGraph, programs: Programs) -> None:
        self.graph = graph
        self.programs = programs
        self.windows: list[list[Combination]] = [[] for _ in range(graph.streams)]
        self.states: dict[Node, list[Combination]] = {node: [] for node in programs.keys}

    def arrive(self, stream: int, row: Row) -> list[Combination]:
        results = self._run(self.programs.heads[stream], {stream: row}, {})
        self.windows[stream].append({stream: row})
        return results

    def complete(self, node: Node, key: dict[int, int]) -> list[Combination]:
        """The entries of one key of a state, computed from its children."""
        kept = self.states[node]
        self.states[node] = []
        self._run(self.programs.completions[node], {}, key)
        computed, self.states[node] = self.states[node], kept
        return computed

    def _run(self, program: Program, start: Combination, given: dict[int, int]) -> list[Combination]:
        found = [start]
        for each in program.instructions:
            if isinstance(each, Probe):
                found = [grown for bound in found for grown in self._probe(each, bound, given)]
            elif isinstance(each, Store):
                assert set().union(*found) <= each.state
                self.states[each.state] += found
            else:
                assert each == Emit()
                return found
        return found

    def _probe(self, step: Probe, bound: Combination, given: dict[int, int]) -> list[Combination]:
        (first, *others) = step.target
        entries = self.states[step.target] if others else self.windows[first]
        return [bound | entry for entry in entries if self._match(step, bound, entry, given)]

    def _match(self, step: Probe, bound: Combination, entry: Combination, given: dict[int, int]) -> bool:
        ours = {c: self._value(bound, c, given) for c in (*step.key, *step.checks)}
        theirs = {c: self._value(entry, c, {}) for c in (*step.key, *step.checks)}
        if len(step.key) == 1 and ours[step.key[0]] != theirs[step.key[0]]:
            return False
        if sum(ours[c] for c in step.key) % 2 != sum(theirs[c] for c in step.key) % 2:  # a poor hash of several classes
            return False
        return all(ours[c] == theirs[c] for c in step.checks) and all(
            holds(self.graph, theta, bound | entry) for theta in step.thetas
        )

    def _value(self, combination: Combination, cls: int, given: dict[int, int]) -> int:
        values = [row[1][cls] for stream, row in combination.items() if stream in self.graph.classes[cls]]
        return values[0] if values else given[cls]


def holds(graph: JoinGraph, theta: int, combination: Combination) -> bool:
    low, high = sorted(graph.thetas[theta])
    return combination[low][2][theta] < combination[high][2][theta]


def naive(graph: JoinGraph, node: Node, rows: list[tuple[int, Row]]) -> list[Combination]:
    """All combinations of one row per stream of ``node`` that satisfy the predicates inside it."""
    per_stream = [[(stream, row) for stream, row in rows if stream == wanted] for wanted in sorted(node)]
    combinations = [dict(choice) for choice in product(*per_stream)]
    return [
        c
        for c in combinations
        if all(len({c[s][1][cls] for s in members & node}) <= 1 for cls, members in enumerate(graph.classes))
        and all(holds(graph, theta, c) for theta, ends in enumerate(graph.thetas) if ends <= node)
    ]


def numbers(combinations: list[Combination]) -> list[list[tuple[int, int]]]:
    return sorted(sorted((stream, row[0]) for stream, row in c.items()) for c in combinations)


def some_plans(rng: random.Random, streams: int) -> list[Plan]:
    trees = list(all_trees(range(streams)))
    plans: list[Plan] = [rng.choice(list(all_keepings(rng.choice(trees)))) for _ in range(3)]
    plans.append(TreePlan(rng.choice(trees)).keeping_all())
    others = [[s for s in range(streams) if s != head] for head in range(streams)]
    plans.append(LinearPlan(tuple(tuple(rng.sample(o, len(o))) for o in others)))
    return plans


@pytest.mark.parametrize("seed", range(40))
def test_programs_find_every_result_once_and_keep_every_state_whole(seed: int) -> None:
    rng = seeded(seed)
    graph = random_graph(rng, rng.randint(2, 5))
    statistics = random_statistics(rng, graph)
    rows: list[tuple[int, Row]] = []
    for number in range(5 * graph.streams):
        values = {cls: rng.randrange(3) for cls in range(len(graph.classes))}
        operands = {theta: rng.randrange(6) for theta in range(len(graph.thetas))}
        rows.append((rng.randrange(graph.streams), (number, values, operands)))
    for plan in some_plans(rng, graph.streams):
        programs = compile_programs(plan, graph, rng.choice([None, rank(graph, statistics)]))
        interpreter = Interpreter(graph, programs)
        results = [result for stream, row in rows for result in interpreter.arrive(stream, row)]
        assert numbers(results) == numbers(naive(graph, frozenset(range(graph.streams)), rows))
        for node, entries in interpreter.states.items():
            assert numbers(entries) == numbers(naive(graph, node, rows))
            check_completion(interpreter, node, entries)


def check_completion(interpreter: Interpreter, node: Node, entries: list[Combination]) -> None:
    """Each key of a state, computed anew, has the entries that the state has for it."""
    classes = interpreter.programs.keys[node]
    by_key: dict[tuple[int, ...], list[Combination]] = {}
    for entry in entries:
        key = tuple(interpreter._value(entry, cls, {}) for cls in classes)
        by_key.setdefault(key, []).append(entry)
    for key, expected in by_key.items():
        assert numbers(interpreter.complete(node, dict(zip(classes, key, strict=True)))) == numbers(expected)
