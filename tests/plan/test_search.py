import statistics as summary
from itertools import pairwise, permutations

import pytest

from tests.plan.random_worlds import (
    all_keepings,
    all_orders,
    all_trees,
    random_graph,
    random_statistics,
    seeded,
    with_order,
    without_cross_products,
)
from thalweg.errors import PlanError
from thalweg.plan import orders, state_search, tree_search
from thalweg.plan.compiler import compile_programs
from thalweg.plan.cost import Costs
from thalweg.plan.estimator import Estimator, TreeEstimator, splits_of
from thalweg.plan.join_graph import JoinGraph
from thalweg.plan.plan_cost import plan_cost
from thalweg.plan.search import choose_plan, choose_states, rank, resolve_plan
from thalweg.plan.statistics import Statistics
from thalweg.plan.tree import Join, Leaf, LinearPlan, Plan, Tree, TreePlan, format_plan, left_deep, parse_plan

World = tuple[JoinGraph, Statistics]


def world(seed: int, streams: int, theta_share: float = 0.2) -> World:
    rng = seeded(seed)
    graph = random_graph(rng, streams, theta_share)
    return graph, random_statistics(rng, graph)


def cost(plan: Plan, of: World) -> float:
    return plan_cost(plan, *of).total


def one_class(streams: int, window: float = 1000.0) -> World:
    graph = JoinGraph(streams, (frozenset(range(streams)),))
    return graph, Statistics((10.0,) * streams, (window,) * streams, ({s: window for s in range(streams)},))  # noqa: C420


# Exact searches against trying everything.


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("streams", [2, 3, 4, 5])
def test_the_best_pipeline_is_the_best_of_all_trees(streams: int, seed: int) -> None:
    here = world(seed, streams)
    trees = [t for t in all_trees(range(streams)) if without_cross_products(t, here[0])]
    best = min(cost(TreePlan(tree).keeping_all(), here) for tree in trees)
    found = choose_plan(*here, "all")
    assert isinstance(found, TreePlan)
    assert found == found.keeping_all()
    assert without_cross_products(found.tree, here[0])
    assert cost(found, here) == pytest.approx(best)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("streams", [2, 3, 4, 5])
def test_the_best_linear_plan_has_the_best_order_of_every_head(streams: int, seed: int) -> None:
    here = world(seed, streams)
    found = choose_plan(*here, "none")
    assert isinstance(found, LinearPlan)
    for head, chosen in enumerate(plan_cost(found, *here).heads):
        candidates = (with_order(head, order, streams) for order in all_orders(head, here[0]))
        assert chosen.total == pytest.approx(min(plan_cost(plan, *here).heads[head].total for plan in candidates))


@pytest.mark.parametrize("seed", range(20))
def test_the_states_to_keep_are_the_best_of_all_subsets(seed: int) -> None:
    here = world(seed, 5)
    tree = seeded(seed).choice(list(all_trees(range(5))))
    best = min(cost(plan, here) for plan in all_keepings(tree))
    found = choose_states(tree, *here)
    assert found.tree == tree
    assert cost(found, here) == pytest.approx(best)


def best_of_all(here: World) -> float:
    """The cheapest tree with the cheapest of its states kept, or linear plan."""
    trees = [t for t in all_trees(range(here[0].streams)) if without_cross_products(t, here[0])]
    estimator = Estimator(*here, Costs())
    kept = min(state_search.best_states(estimator, splits_of(tree)).cost for tree in trees)
    return min(kept, cost(choose_plan(*here, "none"), here))


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("streams", [2, 3, 4, 5])
def test_auto_is_the_best_of_all_plans_for_a_few_streams(streams: int, seed: int) -> None:
    here = world(seed, streams)
    assert cost(choose_plan(*here), here) == pytest.approx(best_of_all(here))


def test_auto_is_close_to_the_best_of_all_plans_for_some_more() -> None:
    worlds = [world(seed, 6) for seed in range(6)]
    ratios = [cost(choose_plan(*here), here) / best_of_all(here) for here in worlds]
    assert min(ratios) > 1 - 1e-9
    assert summary.mean(ratios) < 1.05
    assert max(ratios) < 1.5


# Beyond.


def pipeline_cost(estimator: Estimator, splits: dict[int, tuple[int, int]]) -> float:
    tree = TreeEstimator(estimator, splits)
    return tree.total((1 << len(tree.states)) - 1)


def test_the_greedy_tree_is_close_to_the_exact_one() -> None:
    ratios = []
    for seed in range(40):
        estimator = Estimator(*world(seed, 8), Costs())
        exact = tree_search._exact_tree(estimator)
        greedy = tree_search._rotated(estimator, tree_search._greedy_tree(estimator))
        ratios.append(pipeline_cost(estimator, greedy) / pipeline_cost(estimator, exact))
    assert min(ratios) > 1 - 1e-9
    assert summary.median(ratios) < 1.05
    assert max(ratios) < 4


def test_moving_subtrees_reaches_every_tree() -> None:
    estimator = Estimator(*one_class(5), Costs())
    forest = tree_search.Forest(estimator)
    every = {frozenset(splits): splits for splits in tree_search.all_trees(forest, estimator.all)}
    assert len(every) == 105
    neighbours = {
        nodes: {frozenset(tree) for tree in tree_search.regrafted(forest, splits)} for nodes, splits in every.items()
    }
    for nodes, near in neighbours.items():
        assert nodes not in near
        assert near <= every.keys()
        assert all(nodes in neighbours[other] for other in near)
    reached = {next(iter(every))}
    while not reached >= (further := set().union(*(neighbours[nodes] for nodes in reached))):
        reached |= further
    assert reached == every.keys()


def test_the_greedy_orders_are_close_to_the_exact_ones() -> None:
    ratios = []
    for seed in range(40):
        here = world(seed, 8)
        estimator = Estimator(*here, Costs())
        exact, greedy = (LinearPlan(tuple(f(estimator))) for f in (orders._exact_orders, orders._greedy_orders))
        ratios.append(cost(greedy, here) / cost(exact, here))
    assert min(ratios) > 1 - 1e-9
    assert summary.median(ratios) < 1.05
    assert max(ratios) < 20


def test_flipping_states_is_close_to_trying_all_subsets() -> None:
    ratios = []
    for seed in range(40):
        estimator = Estimator(*world(seed, 8), Costs())
        tree = TreeEstimator(estimator, tree_search._exact_tree(estimator))
        every = (1 << len(tree.states)) - 1
        flipped, _ = min(state_search._flipped(tree, start) for start in (0, every))
        ratios.append(flipped / min(tree.total(kept) for kept in range(every + 1)))
    assert min(ratios) > 1 - 1e-9
    assert summary.median(ratios) < 1.001
    assert max(ratios) < 1.5


@pytest.mark.parametrize("streams", [1, 2, 3, 9, 11, 13, 20])
@pytest.mark.parametrize("states", ["auto", "all", "none"])
def test_any_number_of_streams_gets_a_plan_that_compiles(streams: int, states: str) -> None:
    here = world(4, streams)
    plan = choose_plan(*here, states)  # type: ignore[arg-type]
    aliases = [f"s{s}" for s in range(streams)]
    read = parse_plan(format_plan(plan, aliases), aliases)
    assert (read.tree if isinstance(read, TreePlan) else read) == (plan.tree if isinstance(plan, TreePlan) else plan)
    programs = compile_programs(plan, here[0], rank(*here))
    assert all(sum(len(s.target) for s in p.probes) == streams - 1 for p in programs.heads)


# What the choices amount to.


@pytest.mark.parametrize("seed", range(15))
@pytest.mark.parametrize("streams", [3, 5, 7])
def test_auto_never_costs_more_than_all_or_none(streams: int, seed: int) -> None:
    here = world(seed, streams)
    auto, every, none = (cost(choose_plan(*here, states), here) for states in ("auto", "all", "none"))  # type: ignore[arg-type]
    assert auto <= min(every, none) * (1 + 1e-6)


@pytest.mark.parametrize("seed", range(10))
def test_the_dearer_a_stored_entry_the_dearer_the_best_plan(seed: int) -> None:
    graph, known = world(seed, 4)
    costs = [Costs(state_insert=insert) for insert in (0, 50, 500, 5_000)]
    totals = [plan_cost(choose_plan(graph, known, "auto", c), graph, known, c).total for c in costs]
    assert all(cheap <= dear * (1 + 1e-6) for cheap, dear in pairwise(totals))


def test_with_about_one_match_per_probe_nothing_is_worth_storing() -> None:
    here = one_class(4)
    assert choose_plan(*here) == LinearPlan(((1, 2, 3), (0, 2, 3), (0, 1, 3), (0, 1, 2)))


def test_a_dear_nested_loop_below_a_selective_join_is_worth_storing() -> None:
    # A and B meet by nested loop and rarely match; C comes often and asks for the pairs.
    graph = JoinGraph(3, (frozenset({0, 2}),), (frozenset({0, 1}),))
    known = Statistics((10.0, 10.0, 1000.0), (1000.0, 1000.0, 1000.0), ({0: 10.0, 2: 10.0},), (0.0001,))
    plan = choose_plan(graph, known)
    assert plan == TreePlan(Join(Join(Leaf(0), Leaf(1)), Leaf(2)), frozenset({frozenset({0, 1})}))


def test_dropping_the_price_of_storing_keeps_everything() -> None:
    graph, known = one_class(4)
    free = Costs(state_insert=0, state_purge=0)
    kept = choose_states(left_deep([0, 1, 2, 3]), graph, known, free).kept
    assert kept == TreePlan(left_deep([0, 1, 2, 3])).keeping_all().kept


def test_equally_good_plans_are_chosen_in_the_order_of_the_streams() -> None:
    assert format_plan(choose_plan(*one_class(4), "all"), "ABCD") == "((A B) C) D"


def test_cross_products_only_where_nothing_connects() -> None:
    # A-B, C-D: the pairs are joined first, though a cross product of the tiny windows A and C would be cheaper.
    graph = JoinGraph(4, (frozenset({0, 1}), frozenset({2, 3})))
    known = Statistics((1.0,) * 4, (1.0, 1000.0, 1.0, 1000.0), ({0: 1.0, 1: 1.0}, {2: 1.0, 3: 1.0}))
    tree = choose_plan(graph, known, "all")
    assert format_plan(tree, "ABCD") == "(A B) (C D)"
    linear = choose_plan(graph, known, "none")
    assert isinstance(linear, LinearPlan)
    assert [order[0] for order in linear.orders] == [1, 0, 3, 2]


@pytest.mark.parametrize("streams", [3, 13])
def test_streams_that_nothing_connects_still_get_a_plan(streams: int) -> None:
    graph, known = JoinGraph(streams), Statistics((1.0,) * streams, (10.0,) * streams)
    for states in ("auto", "all", "none"):
        plan = choose_plan(graph, known, states)  # type: ignore[arg-type]
        assert len(compile_programs(plan, graph).heads) == streams


def test_one_stream_is_a_leaf() -> None:
    for states in ("auto", "all", "none"):
        assert choose_plan(JoinGraph(1), Statistics((1.0,), (1.0,)), states) == TreePlan(Leaf(0))  # type: ignore[arg-type]


def test_two_streams_are_a_tree_or_two_orders() -> None:
    here = one_class(2)
    assert choose_plan(*here) == choose_plan(*here, "all") == TreePlan(left_deep([0, 1]))
    assert choose_plan(*here, "none") == LinearPlan(((1,), (0,)))


@pytest.mark.parametrize("states", ["auto", "all", "none"])
def test_renumbering_the_streams_changes_no_cost(states: str) -> None:
    graph, known = world(11, 4)
    assert graph.classes
    assert graph.thetas
    totals = []
    for order in permutations(range(4)):
        renamed = JoinGraph(
            4,
            tuple(frozenset(order[s] for s in c) for c in graph.classes),
            tuple(frozenset(order[s] for s in t) for t in graph.thetas),
        )
        moved = Statistics(
            tuple(known.rates[order.index(s)] for s in range(4)),
            tuple(known.windows[order.index(s)] for s in range(4)),
            tuple({order[s]: d for s, d in c.items()} for c in known.distinct),
            known.thetas,
            tuple({frozenset(order[s] for s in p): v for p, v in c.items()} for c in known.common),
        )
        totals.append(cost(choose_plan(renamed, moved, states), (renamed, moved)))  # type: ignore[arg-type]
    assert totals == pytest.approx([totals[0]] * 24)


# A plan that a user wrote.


def left(tree_text: str) -> Tree:
    plan = parse_plan(tree_text, "ABCD")
    assert isinstance(plan, TreePlan)
    return plan.tree


def test_a_written_tree_is_kept_as_it_is() -> None:
    here = one_class(4)
    text = "(D B) (A C)"
    assert resolve_plan(text, here[0], "ABCD", here[1], "all") == TreePlan(left(text)).keeping_all()
    assert resolve_plan(text, here[0], "ABCD", here[1], "none") == TreePlan(left(text))
    assert resolve_plan(text, here[0], "ABCD", here[1]) == choose_states(left(text), *here)


def test_a_written_linear_order_keeps_no_states() -> None:
    here = one_class(2)
    for states in ("auto", "none"):
        plan = resolve_plan("A: B; B: A", here[0], "AB", here[1], states)  # type: ignore[arg-type]
        assert plan == LinearPlan(((1,), (0,)))
    with pytest.raises(PlanError, match="a linear order keeps no states, so states='all' cannot hold"):
        resolve_plan("A: B; B: A", here[0], "AB", here[1], "all")


def test_a_written_tree_may_hold_a_cross_product() -> None:
    graph = JoinGraph(3, (frozenset({0, 1}), frozenset({1, 2})))
    known = Statistics((1.0,) * 3, (10.0,) * 3, ({0: 10.0, 1: 10.0}, {1: 10.0, 2: 10.0}))
    plan = resolve_plan("(A C) B", graph, "ABC", known, "all")
    assert plan == TreePlan(left_deep([0, 2, 1])).keeping_all()
