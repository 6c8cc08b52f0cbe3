from dataclasses import replace

import pytest

from tests.plan.random_worlds import all_keepings, all_trees, random_graph, random_statistics, seeded
from thalweg.plan.cost import Costs, half_way, join_cost, productivity
from thalweg.plan.estimator import Estimator, TreeEstimator, splits_of, streams_of
from thalweg.plan.join_graph import JoinGraph
from thalweg.plan.plan_cost import plan_cost
from thalweg.plan.statistics import Statistics
from thalweg.plan.tree import Leaf, LinearPlan, TreePlan, left_deep

ROUND = Costs(
    base_insert=3,
    base_purge=2,
    probe=10,
    probe_again=4,
    candidate=1,
    scan=0.5,
    theta=0.25,
    state_insert=60,
    state_purge=40,
    result=7,
)


# Kang et al., join by join.


def test_half_way_productivities_of_jaqpot_figure_2a() -> None:
    assert productivity(0.005, 500) == pytest.approx(2.5)
    assert productivity(0.001, 5000) == pytest.approx(5)
    best_split = 300 * max(productivity(0.005, 500), productivity(0.001, 5000))
    assert best_split == pytest.approx(1_500)


def test_a_half_way_hash_join_searches_one_bucket() -> None:
    cost = half_way(rate=500, partner_size=700, selectivity=0.01, method="hash", costs=ROUND)
    assert cost.probe == pytest.approx(500 * (10 + 7 * 1))
    assert cost.insert == 500 * 3
    assert cost.purge == 500 * 2
    assert cost.output == pytest.approx(500 * 7)
    assert cost.total == pytest.approx(500 * 17 + 500 * 5)


def test_a_half_way_nested_loop_searches_the_whole_state() -> None:
    cost = half_way(rate=500, partner_size=700, selectivity=0.01, method="nested loop", costs=ROUND)
    assert cost.probe == pytest.approx(500 * 700 * (0.5 + 0.25))
    assert cost.output == pytest.approx(500 * 7)


def test_a_join_is_its_two_directions() -> None:
    # Equation 13: a against S_B and b against S_A.
    total = join_cost((500, 700), (5_000, 500), 0.001, "hash", ROUND)
    assert total == pytest.approx(500 * (10 + 0.5 + 5) + 700 * (10 + 5 + 5))


def test_a_two_way_plan_costs_what_the_join_does_and_its_results() -> None:
    graph = JoinGraph(2, (frozenset({0, 1}),))
    known = Statistics((500.0, 700.0), (5_000.0, 500.0), ({0: 1000.0, 1: 1000.0},))
    results = 500 * 0.5 + 700 * 5
    cost = plan_cost(TreePlan(left_deep([0, 1])), graph, known, ROUND)
    assert cost.total == pytest.approx(join_cost((500, 700), (5_000, 500), 0.001, "hash", ROUND) + 7 * results)


# Plans.


@pytest.fixture
def chain() -> tuple[JoinGraph, Statistics]:
    """A.k = B.k, B.x < C.x."""
    graph = JoinGraph(3, (frozenset({0, 1}),), (frozenset({1, 2}),))
    return graph, Statistics((10.0, 20.0, 5.0), (100.0, 200.0, 40.0), ({0: 50.0, 1: 100.0},), (0.5,))


def test_a_pipeline_by_hand(chain: tuple[JoinGraph, Statistics]) -> None:
    graph, known = chain
    cost = plan_cost(TreePlan(left_deep([0, 1, 2])).keeping_all(), graph, known, ROUND)
    a, b, c = cost.heads
    # A finds 200/100 = 2 partners in B, stores both, and each scans C's 40 tuples, of which 20 match.
    assert a.base == 10 * 5
    assert [s.probes for s in a.steps] == pytest.approx([10, 20])
    assert [s.candidates for s in a.steps] == pytest.approx([20, 800])
    assert [s.matches for s in a.steps] == pytest.approx([20, 400])
    assert [s.probing for s in a.steps] == pytest.approx([10 * 12, 20 * 40 * 0.75])
    assert [s.storing for s in a.steps] == pytest.approx([20 * 100, 0])
    assert a.results == pytest.approx(400 * 7)
    # B finds one partner in A.
    assert [s.probing for s in b.steps] == pytest.approx([20 * 11, 20 * 40 * 0.75])
    # C scans the state AB: 100 * 200 / 100 entries, half of which match.
    assert [s.method for s in c.steps] == ["nested loop"]
    assert c.steps[0].probing == pytest.approx(5 * 200 * 0.75)
    assert c.steps[0].matches == pytest.approx(5 * 100)
    assert c.total == pytest.approx(5 * 5 + 750 + 500 * 7)
    assert cost.total == pytest.approx(a.total + b.total + c.total)
    assert cost.storing == pytest.approx(40 * 100)
    assert cost.per_tuple == pytest.approx(cost.total / 35)


def test_without_the_state_it_is_recomputed(chain: tuple[JoinGraph, Statistics]) -> None:
    graph, known = chain
    cost = plan_cost(TreePlan(left_deep([0, 1, 2])), graph, known, ROUND)
    assert cost.storing == 0
    b, a = cost.heads[2].steps
    assert b.probing == pytest.approx(5 * 200 * 0.75)
    assert a.probing == pytest.approx(5 * 100 * 11)


def test_a_linear_plan_by_hand(chain: tuple[JoinGraph, Statistics]) -> None:
    graph, known = chain
    cost = plan_cost(LinearPlan(((1, 2), (2, 0), (1, 0))), graph, known, ROUND)
    c, a = cost.heads[1].steps
    assert (c.probing, c.matches) == pytest.approx((20 * 40 * 0.75, 400))
    assert (a.probing, a.matches) == pytest.approx((400 * 11, 400))


def test_several_classes_and_thetas_are_compared_on_every_candidate() -> None:
    graph = JoinGraph(2, (frozenset({0, 1}), frozenset({0, 1})), (frozenset({0, 1}),))
    known = Statistics((1.0, 1.0), (100.0, 100.0), ({0: 5.0, 1: 5.0}, {0: 4.0, 1: 4.0}), (0.5,))
    (step,) = plan_cost(TreePlan(left_deep([0, 1])), graph, known, ROUND).heads[0].steps
    assert step.probing == pytest.approx(10 + 5 * (1 + 3 * 0.25))
    assert step.matches == pytest.approx(2.5)


def test_one_stream_costs_its_window_and_its_results() -> None:
    cost = plan_cost(TreePlan(Leaf(0)), JoinGraph(1), Statistics((10.0,), (100.0,)), ROUND)
    assert cost.total == pytest.approx(10 * 5 + 10 * 7)


def test_the_same_key_again_is_cheaper_in_a_base_window() -> None:
    graph = JoinGraph(3, (frozenset(range(3)),))
    known = Statistics((1.0,) * 3, (10.0,) * 3, ({0: 10.0, 1: 10.0, 2: 10.0},))
    first, again = plan_cost(LinearPlan(((1, 2), (0, 2), (0, 1))), graph, known, ROUND).heads[0].steps
    assert (first.probing, again.probing) == pytest.approx((11, 5))
    state = plan_cost(TreePlan(left_deep([0, 1, 2])).keeping_all(), graph, known, ROUND).heads[2].steps[0]
    assert state.probing == pytest.approx(11)
    other_key = JoinGraph(3, (frozenset({0, 1}), frozenset({1, 2})))
    known = Statistics((1.0,) * 3, (10.0,) * 3, ({0: 10.0, 1: 10.0}, {1: 10.0, 2: 10.0}))
    steps = plan_cost(LinearPlan(((1, 2), (0, 2), (1, 0))), other_key, known, ROUND).heads[0].steps
    assert [step.probing for step in steps] == pytest.approx([11, 11])


@pytest.mark.parametrize(("streams", "measured"), [(4, 9.1e6), (8, 5.3e6), (12, 4.8e6), (20, 3.4e6)])
def test_the_constants_fit_the_measured_m_joins(streams: int, measured: float) -> None:
    graph = JoinGraph(streams, (frozenset(range(streams)),))
    known = Statistics((1000.0,) * streams, (10_000.0,) * streams, (dict.fromkeys(range(streams), 10_000.0),))
    m_join = TreePlan(left_deep(range(streams)))
    assert 1e9 / plan_cost(m_join, graph, known).per_tuple == pytest.approx(measured, rel=0.2)
    assert plan_cost(m_join.keeping_all(), graph, known).per_tuple > 2 * plan_cost(m_join, graph, known).per_tuple


@pytest.mark.parametrize("seed", range(10))
def test_steps_find_what_the_statistics_say(seed: int) -> None:
    rng = seeded(seed)
    graph = random_graph(rng, 5)
    known = random_statistics(rng, graph)
    plan = TreePlan(rng.choice(list(all_trees(range(5)))))
    for cost in (plan_cost(plan, graph, known), plan_cost(plan.keeping_all(), graph, known)):
        for head in cost.heads:
            bound = frozenset((head.stream,))
            for step in head.steps:
                target = step.probe.target
                expected = known.candidates(graph, bound, target, step.probe.key), known.matches(graph, bound, target)
                assert (step.candidates / step.probes, step.matches / step.probes) == pytest.approx(expected)
                bound |= target


# The same again, fast.


@pytest.mark.parametrize("seed", range(30))
def test_the_estimator_says_what_the_programs_cost(seed: int) -> None:
    rng = seeded(seed)
    graph = random_graph(rng, rng.randint(2, 6))
    known = random_statistics(rng, graph)
    estimator = Estimator(graph, known, Costs())
    trees = list(all_trees(range(graph.streams)))
    for tree in rng.sample(trees, min(3, len(trees))):
        fast = TreeEstimator(estimator, splits_of(tree))
        nodes = [frozenset(streams_of(mask)) for mask in fast.states]
        for plan in all_keepings(tree):
            kept = sum(1 << i for i, node in enumerate(nodes) if node in plan.kept)
            assert fast.total(kept) == pytest.approx(plan_cost(plan, graph, known).total, rel=1e-6)


@pytest.mark.parametrize("seed", range(10))
def test_more_of_anything_costs_more(seed: int) -> None:
    rng = seeded(seed)
    graph = random_graph(rng, 4)
    known = random_statistics(rng, graph)
    plan = TreePlan(rng.choice(list(all_trees(range(4))))).keeping_all()
    total = plan_cost(plan, graph, known).total
    stream = rng.randrange(4)

    def grown(values: tuple[float, ...]) -> tuple[float, ...]:
        return tuple(2 * v if s == stream else v for s, v in enumerate(values))

    # A higher rate with the same window size is a shorter window: only the head's own work grows.
    assert plan_cost(plan, graph, replace(known, rates=grown(known.rates))).total > total
    assert plan_cost(plan, graph, replace(known, windows=grown(known.windows))).total > total
    more_selective = replace(known, distinct=tuple({s: 2 * d for s, d in c.items()} for c in known.distinct))
    if graph.classes:
        assert plan_cost(plan, graph, more_selective).total < total
    assert plan_cost(plan, graph, known, replace(Costs(), state_insert=1000)).total > total
