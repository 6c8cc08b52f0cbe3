"""What plans, and changes between them, are said to cost."""

from __future__ import annotations

import pytest

from thalweg.adapt.drift import drift
from thalweg.adapt.prices import TRANSITION, Prices, transition_price
from thalweg.plan import JoinGraph, Statistics, parse_plan, plan_cost
from thalweg.plan.tree import TreePlan

GRAPH = JoinGraph(4, classes=(frozenset({0, 1}), frozenset({1, 2}), frozenset({2, 3})))
KNOWN = Statistics(
    (100.0, 50.0, 10.0, 10.0),
    (1000.0, 500.0, 100.0, 100.0),
    ({0: 100.0, 1: 100.0}, {1: 10.0, 2: 10.0}, {2: 50.0, 3: 50.0}),
)


def tree(text: str) -> TreePlan:
    plan = parse_plan(text, "ABCD")
    assert isinstance(plan, TreePlan)
    return plan.keeping_all()


@pytest.mark.parametrize("text", ["((A B) C) D", "(A B) (C D)"])
@pytest.mark.parametrize("keeping", [True, False])
def test_prices_make_predicted_work_cost_what_was_predicted(text: str, keeping: bool) -> None:
    plan = tree(text) if keeping else tree(text).keeping_none()
    cost = plan_cost(plan, GRAPH, KNOWN)
    steps = list(cost.steps())
    work = (
        sum(head.rate for head in cost.heads),
        sum(step.probes for step in steps),
        sum(step.candidates for step in steps),
        sum(step.matches for step in steps if step.stores is not None),
        0.0,
        sum(head.steps[-1].matches for head in cost.heads),
    )
    assert Prices.of(cost).total(work) == pytest.approx(cost.total)


def test_a_change_costs_the_states_that_it_leaves_incomplete() -> None:
    old = tree("((A B) C) D")
    same = transition_price(old, old, GRAPH, KNOWN)
    other = transition_price(old, tree("(A B) (C D)"), GRAPH, KNOWN)
    assert TRANSITION < same < other
    assert other - same == pytest.approx(KNOWN.size(GRAPH, frozenset({2, 3})) * (56 + 13 + 90))
    assert transition_price(old, old.keeping_none(), GRAPH, KNOWN) == same


def test_drift_is_the_largest_factor() -> None:
    assert drift(GRAPH, KNOWN, KNOWN) == 0
    doubled = Statistics(KNOWN.rates, KNOWN.windows, ({0: 50.0, 1: 100.0}, *KNOWN.distinct[1:]), common=({}, {}, {}))
    assert drift(GRAPH, KNOWN, doubled) == 0  # B's 100 values still decide
    fewer = Statistics(KNOWN.rates, KNOWN.windows, ({0: 50.0, 1: 50.0}, *KNOWN.distinct[1:]))
    assert drift(GRAPH, KNOWN, fewer) == pytest.approx(drift(GRAPH, fewer, KNOWN))
    assert 0.6 < drift(GRAPH, KNOWN, fewer) < 0.7  # almost twice as many partners
    faster = Statistics(tuple(3 * rate for rate in KNOWN.rates), KNOWN.windows, KNOWN.distinct)
    assert drift(GRAPH, KNOWN, faster) == 0  # all alike: no plan gets better or worse by it


def test_what_was_next_to_nothing_and_still_is_has_not_moved() -> None:
    rare, rarer = (
        Statistics(KNOWN.rates, KNOWN.windows, ({0: n, 1: n}, *KNOWN.distinct[1:])) for n in (100_000.0, 300_000.0)
    )
    assert drift(GRAPH, rare, rarer) < 0.05
