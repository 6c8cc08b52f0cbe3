"""What an eddy may choose from, under a plan."""

from __future__ import annotations

from thalweg.plan.compiler import compile_programs
from thalweg.plan.join_graph import JoinGraph
from thalweg.plan.passes import Setting, apply_passes
from thalweg.plan.program import Program, Programs, Store
from thalweg.plan.tree import LinearPlan, Node, Plan, TreePlan, parse_plan


def tree(text: str) -> TreePlan:
    plan = parse_plan(text, "ABCD")
    assert isinstance(plan, TreePlan)
    return plan


def compile_routes(plan: Plan, graph: JoinGraph) -> Programs:
    return apply_passes(compile_programs(plan, graph), Setting(plan, graph, routed=True))


def climbs(programs: Programs) -> tuple[tuple[Node, ...], ...]:
    return tuple(tuple(each.state for each in head.instructions if isinstance(each, Store)) for head in programs.heads)


def modules(program: Program) -> list[tuple[str, tuple[int, ...]]]:
    return [("".join("ABCD"[s] for s in sorted(step.target)), step.key) for step in program.probes]


ONE_CLASS = JoinGraph(4, (frozenset(range(4)),))
X, Y = 0, 1
TWO_CLASSES = JoinGraph(4, (frozenset({0, 1, 2}), frozenset({2, 3})), (frozenset({0, 3}),))
"""A.x = B.x = C.x, C.y = D.y, and a theta between A and D."""


def test_without_states_there_is_a_stem_per_stream_in_the_order_of_the_plan() -> None:
    routes = compile_routes(LinearPlan(((3, 1, 2), (0, 2, 3), (1, 3, 0), (2, 1, 0))), ONE_CLASS)
    assert [[name for name, _ in modules(program)] for program in routes.heads] == [
        ["D", "B", "C"],
        ["A", "C", "D"],
        ["B", "D", "A"],
        ["C", "B", "A"],
    ]
    assert climbs(routes) == ((), (), (), ())
    assert all(program.unordered for program in routes.heads)


def test_a_tuple_climbs_through_the_kept_states_of_its_stream() -> None:
    routes = compile_routes(tree("((A B) C) D").keeping_all(), ONE_CLASS)
    lower, upper = frozenset({0, 1}), frozenset({0, 1, 2})
    assert climbs(routes) == ((lower, upper), (lower, upper), (upper,), ())
    assert modules(routes.heads[3])[0] == ("ABC", (X,))
    assert {name for name, _ in modules(routes.heads[3])} == {"ABC", "AB", "A", "B", "C"}
    assert "AB" not in {name for name, _ in modules(routes.heads[0])}


def test_a_stem_is_looked_up_by_each_class_and_scanned_if_it_shares_none_with_the_head() -> None:
    routes = compile_routes(tree("((A B) C) D"), TWO_CLASSES)
    assert set(modules(routes.heads[0])) == {("B", (X,)), ("C", (X,)), ("C", (Y,)), ("D", (Y,)), ("D", ())}
    by_y = next(step for step in routes.heads[0].probes if step.key == (Y,) and step.target == {2})
    assert by_y.checks == (X,)
    scanned = next(step for step in routes.heads[0].probes if not step.key)
    assert scanned.thetas == (0,)


def test_completion_is_that_of_the_plan() -> None:
    plan = tree("(A B) (C D)").keeping_all()
    routes = compile_routes(plan, TWO_CLASSES)
    assert routes.completions.keys() == plan.kept
    assert not any(program.unordered for program in routes.completions.values())
