"""Random input shedding."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.plan.allocation.models import figure_2a, random_model
from tests.plan.random_worlds import seeded
from thalweg.plan.allocation import AllocationModel, allocate, saturation
from thalweg.plan.allocation.flows import Flows, unlimited


def thinned(model: AllocationModel, share: float) -> Flows:
    """The naive twin: the flows of a plan whose streams bring less, and whose windows and states hold less."""
    streams = [replace(s, rate=s.rate * share, window=s.window * share) for s in model.streams]
    half_ways = [replace(h, partner=h.partner * share ** len(h.target)) for h in model.half_ways]
    return unlimited(replace(model, streams=tuple(streams), half_ways=tuple(half_ways)))


@pytest.mark.parametrize("seed", range(40))
def test_what_is_let_in_flows_through_smaller_windows_and_states(seed: int) -> None:
    rng = seeded(seed)
    model = random_model(rng)
    budget = rng.uniform(0.01, 0.99) * saturation(model)
    found = allocate(model, budget, "random_shedding")
    twin = thinned(model, found.admitted)
    assert 0 < found.admitted < 1
    for path, expected in zip(found.flows.probes, twin.probes, strict=True):
        assert path == pytest.approx(expected)
    for path, expected in zip(found.flows.matches, twin.matches, strict=True):
        assert path == pytest.approx(expected)
    assert found.granted == pytest.approx(budget)


def test_half_of_the_tuples_make_a_quarter_of_the_results() -> None:
    model = figure_2a()
    found = allocate(model, 600, "random_shedding")
    assert found.admitted == pytest.approx(0.5)
    assert found.results == pytest.approx((500 * 2.5 + 700 * 5) / 4)
    assert allocate(model, 1_200, "random_shedding").admitted == 1
