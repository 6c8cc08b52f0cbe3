"""From plans to budget models."""

from __future__ import annotations

import pytest

from tests.plan.random_worlds import all_orders, all_trees, random_graph, random_statistics, seeded
from thalweg.errors import AllocationError
from thalweg.plan import JoinGraph, LinearPlan, Statistics, TreePlan, parse_plan, plan_cost
from thalweg.plan.allocation import model_of_plan, model_of_programs, model_of_tree, saturation
from thalweg.plan.allocation.flows import unlimited
from thalweg.plan.allocation.model import AllocationModel, StreamLoad
from thalweg.plan.compiler import compile_programs
from thalweg.plan.passes import Setting, apply_passes
from thalweg.plan.tree import joins, state_nodes


def names(model: AllocationModel) -> list[list[str]]:
    return [[model.name_of(model.half_ways[index]) for index in path] for path in model.paths]


def one_class(streams: int) -> tuple[JoinGraph, Statistics]:
    graph = JoinGraph(streams, (frozenset(range(streams)),))
    known = Statistics((100.0,) * streams, (1000.0,) * streams, (dict.fromkeys(range(streams), 500.0),))
    return graph, known


def test_paths_of_a_pipeline_meet() -> None:
    graph, known = one_class(4)
    plan = parse_plan("((A B) C) D", "ABCD")
    assert isinstance(plan, TreePlan)
    model = model_of_plan(plan.keeping_all(), graph, known)
    assert names(model) == [
        ["A ⋉ B", "A⋈B ⋉ C", "A⋈B⋈C ⋉ D"],
        ["B ⋉ A", "A⋈B ⋉ C", "A⋈B⋈C ⋉ D"],
        ["C ⋉ A⋈B", "A⋈B⋈C ⋉ D"],
        ["D ⋉ A⋈B⋈C"],
    ]
    assert len(model.half_ways) == 6
    assert [state.node for state in model.states] == [frozenset({0, 1}), frozenset({0, 1, 2})]


def test_what_is_not_kept_is_probed_in_parts_and_cannot_be_stale() -> None:
    graph, known = one_class(3)
    model = model_of_plan(parse_plan("(A B) C", "ABC"), graph, known)
    assert names(model)[2] == ["C ⋉ A", "A⋈C ⋉ B"]
    assert model.states == ()


def test_paths_of_a_linear_plan_are_on_their_own_unless_they_go_on_alike() -> None:
    graph, known = one_class(4)
    model = model_of_plan(parse_plan("A: B C D; B: A D C; C: D A B; D: C A B", "ABCD"), graph, known)
    assert model.paths[0][1:] != model.paths[1][1:]  # both go on from A⋈B, but to different streams
    assert model.paths[2][1:] == model.paths[3][1:]
    assert model.states == ()


@pytest.mark.parametrize("seed", range(30))
def test_with_nothing_refused_it_is_what_the_cost_model_says(seed: int) -> None:
    rng = seeded(seed)
    graph = random_graph(rng, rng.randint(2, 5))
    known = random_statistics(rng, graph)
    shape = rng.choice(list(all_trees(range(graph.streams))))
    kept = frozenset(node for node in state_nodes(shape) if rng.random() < 0.6)
    orders = tuple(rng.choice(list(all_orders(head, graph))) for head in range(graph.streams))
    for plan in (TreePlan(shape, kept), LinearPlan(orders)):
        model, cost = model_of_plan(plan, graph, known), plan_cost(plan, graph, known)
        full = unlimited(model)
        for head in cost.heads:
            assert full.probes[head.stream] == pytest.approx([step.probes for step in head.steps])
            assert full.matches[head.stream] == pytest.approx([step.matches for step in head.steps])
        assert saturation(model) == pytest.approx(sum(step.probes for step in cost.steps()))
        # What goes into a state is what the statistics say of its combinations.
        entries = full.entries(model)
        assert entries.keys() == (kept if isinstance(plan, TreePlan) else set())
        for node, rate in entries.items():
            assert rate == pytest.approx(known.arrivals(graph, node))


def test_a_tree_in_plain_numbers_is_the_plan_that_keeps_everything() -> None:
    graph, known = one_class(4)
    plan = parse_plan("(A B) (C D)", "ABCD")
    assert isinstance(plan, TreePlan)
    sizes = {node: known.size(graph, node) for node in state_nodes(plan.tree)}
    selectivities = {j.node: known.selectivity(graph, j.left.node, j.right.node) for j in joins(plan.tree)}
    streams = [StreamLoad("ABCD"[i], known.rates[i], known.windows[i]) for i in range(4)]
    plain = model_of_tree(plan.tree, streams, selectivities, sizes)
    derived = model_of_plan(plan.keeping_all(), graph, known, names="ABCD")
    assert names(plain) == names(derived)
    assert plain.streams == derived.streams
    assert saturation(plain) == pytest.approx(saturation(derived))


def test_a_tree_of_many_streams_has_its_states_whatever_order_a_set_has() -> None:
    """The members 6, 7 and 8 of a set come as 8, 6, 7."""
    plan = parse_plan("((A B) (C D)) ((E F) ((G H) I))", "ABCDEFGHI")
    assert isinstance(plan, TreePlan)
    loads = [StreamLoad(name, 100.0, 100.0) for name in "ABCDEFGHI"]
    sizes = dict.fromkeys(state_nodes(plan.tree), 100.0)
    model = model_of_tree(plan.tree, loads, {join.node: 0.01 for join in joins(plan.tree)}, sizes)
    assert len(model.states) == 7


def test_freshness_and_names_are_those_of_the_query() -> None:
    graph, known = one_class(2)
    model = model_of_plan(parse_plan("A B", "AB"), graph, known, names=["trades", "quotes"], freshness=[None, 15.0])
    assert [(stream.name, stream.freshness) for stream in model.streams] == [("trades", None), ("quotes", 15.0)]


def test_numbers_that_are_not_those_of_the_plan() -> None:
    graph, known = one_class(2)
    with pytest.raises(AllocationError, match="2 programs, 2 rates, 2 names and 1 values of freshness"):
        model_of_plan(parse_plan("A B", "AB"), graph, known, freshness=[15.0])
    plan = parse_plan("(A B) C", "ABC")
    assert isinstance(plan, TreePlan)
    streams = [StreamLoad(name, 1, 1) for name in "ABC"]
    selectivities = {join.node: 0.5 for join in joins(plan.tree)}
    with pytest.raises(AllocationError, match=r"or a selectivity or size is missing of \[\[0, 1\]\]"):
        model_of_tree(plan.tree, streams, selectivities, {})
    with pytest.raises(AllocationError, match=r"2 streams do not make the tree \(A B\) C"):
        model_of_tree(plan.tree, streams[:2], selectivities, {frozenset({0, 1}): 1.0})


def test_an_eddy_has_no_paths() -> None:
    graph, known = one_class(3)
    plan = parse_plan("(A B) C", "ABC")
    routed = apply_passes(compile_programs(plan, graph), Setting(plan, graph, routed=True))
    with pytest.raises(AllocationError, match="an eddy decides after every probe"):
        model_of_programs(routed, graph, known)
