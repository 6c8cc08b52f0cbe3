"""Freshness first, then results."""

from __future__ import annotations

import math

import pytest

from tests.plan.allocation.linear_programs import most_fresh_results
from tests.plan.allocation.models import AB, asking, fresh_model, tame_model
from tests.plan.allocation.test_freshness import three_streams
from tests.plan.random_worlds import seeded
from thalweg.errors import FreshnessError
from thalweg.plan.allocation import allocate, saturation
from thalweg.plan.allocation.freshness import refresh_rates, residence
from thalweg.plan.allocation.jaqpot import jaqpot
from thalweg.plan.allocation.set_cover import Cover, cost_of, greedy_cover, least_cover

SEEDS = range(60)
COVERS = [least_cover, greedy_cover]


@pytest.mark.parametrize("cover", COVERS)
@pytest.mark.parametrize("seed", SEEDS)
def test_freshness_holds_within_the_budget(seed: int, cover: Cover) -> None:
    rng = seeded(seed)
    model = fresh_model(rng)
    needed = cost_of(model, cover(model, refresh_rates(model)))
    budget = needed + rng.uniform(0, 1) * (saturation(model) - needed)
    found = jaqpot(model, budget, cover)
    assert found.granted <= budget * (1 + 1e-9)
    for stream, seconds in zip(model.streams, residence(model, found.flows.entries(model)), strict=True):
        assert stream.freshness is None or seconds <= stream.freshness * (1 + 1e-6)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_allocation_with_these_refresh_rates_yields_more(seed: int) -> None:
    rng = seeded(seed)
    model = fresh_model(rng)
    refresh = refresh_rates(model)
    needed = cost_of(model, least_cover(model, refresh))
    budget = needed + rng.uniform(0.01, 1) * (saturation(model) - needed)
    best = most_fresh_results(model, budget, refresh)
    assert jaqpot(model, budget).results == pytest.approx(best, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("seed", SEEDS)
def test_without_freshness_it_is_grepp(seed: int) -> None:
    rng = seeded(seed)
    model = tame_model(rng)
    budget = rng.uniform(0, 1.2) * saturation(model)
    assert allocate(model, budget, "jaqpot").allowances == allocate(model, budget, "grepp").allowances


@pytest.mark.parametrize("seed", SEEDS)
def test_a_budget_too_small_is_refused_with_what_it_holds(seed: int) -> None:
    rng = seeded(seed)
    model = fresh_model(rng)
    needed = cost_of(model, least_cover(model, refresh_rates(model)))
    if not needed:
        assert jaqpot(model, 0).results == 0
        return
    budget = needed * rng.uniform(0.05, 0.95)
    with pytest.raises(FreshnessError, match=r"Raise the budget, or ask for no more than") as caught:
        jaqpot(model, budget)
    held = [None if math.isinf(each) else each for each in caught.value.least]
    assert [each is None for each in held] == [stream.freshness is None for stream in model.streams]
    assert jaqpot(asking(model, [each and each * (1 + 1e-9) for each in held]), budget).granted <= budget * (1 + 1e-9)
    with pytest.raises(FreshnessError):
        jaqpot(asking(model, [each and each * 0.999 for each in held]), budget)


def test_freshness_is_bought_before_results() -> None:
    # A and B enter the state with two probes each; C yields as much for one.
    model = three_streams(60, None, None)
    assert refresh_rates(model) == pytest.approx({AB: 20})
    found = allocate(model, 100, "jaqpot")
    assert found.allowances == (pytest.approx((20, 20)), pytest.approx((0, 0)), pytest.approx((60,)))
    assert found.results == pytest.approx(80)
    assert allocate(model, 100, "grepp").allowances[0] == (0, 0)


def test_the_error_says_what_it_takes() -> None:
    with pytest.raises(FreshnessError) as caught:
        allocate(three_streams(60, 110, None), 20, "jaqpot")
    assert str(caught.value) == (
        "budget: 20 probes/s do not hold the freshness that was asked, which takes 40 probes/s. "
        "Raise the budget, or ask for no more than A 110 s, B 201.667 s."
    )


def test_no_budget_at_all_holds_nothing() -> None:
    with pytest.raises(FreshnessError, match=r"takes 40 probes/s\. Raise the budget\.$") as caught:
        allocate(three_streams(60, None, None), 0, "jaqpot")
    assert caught.value.least == (math.inf, math.inf, math.inf)
