"""From freshness to refresh rates."""

from __future__ import annotations

import pytest

from tests.plan.allocation.models import AB, C, asking, fresh_model
from tests.plan.random_worlds import all_trees, seeded
from thalweg.errors import FreshnessError
from thalweg.plan.allocation import AllocationModel, StreamLoad, model_of_tree
from thalweg.plan.allocation.flows import unlimited
from thalweg.plan.allocation.freshness import least_freshness, refresh_rates, residence
from thalweg.plan.tree import joins, left_deep, state_nodes


def three_streams(*seconds: float | None) -> AllocationModel:
    """(A B) C: every second 100 tuples of each stream, 200 entries into AB, which holds 1,000; windows of 10 s."""
    loads = tuple(StreamLoad(name, 100, 1000) for name in "ABC")
    model = model_of_tree(left_deep([0, 1, 2]), loads, {AB: 0.001, AB | C: 0.001}, {AB: 1000})
    return asking(model, seconds)


@pytest.mark.parametrize("streams", range(2, 7))
def test_a_tree_of_k_streams_has_k_minus_2_susceptible_states(streams: int) -> None:
    """Lemma 2, for every shape."""
    loads = [StreamLoad(f"S{i}", 100, 1000) for i in range(streams)]
    for shape in all_trees(range(streams)):
        sizes = dict.fromkeys(state_nodes(shape), 10.0)
        model = model_of_tree(shape, loads, {join.node: 0.001 for join in joins(shape)}, sizes)
        assert len(model.states) == streams - 2


def test_with_nothing_refused_a_tuple_stays_in_its_window_and_then_in_the_state() -> None:
    assert least_freshness(three_streams(None, None, None)) == pytest.approx((15, 15, 10))


def test_a_state_may_be_refreshed_as_slowly_as_the_strictest_stream_allows() -> None:
    assert refresh_rates(three_streams(20, 60, 1000)) == pytest.approx({AB: 100})  # 10 s are left for 1,000 entries
    assert refresh_rates(three_streams(None, 60, None)) == pytest.approx({AB: 20})


def test_nothing_is_refreshed_for_streams_that_ask_for_nothing() -> None:
    assert refresh_rates(three_streams(None, None, 10)) == {AB: 0}


def test_what_no_budget_can_hold_is_refused_with_what_can_be_held() -> None:
    assert refresh_rates(three_streams(15, 15, 10)) == pytest.approx({AB: 200})
    with pytest.raises(FreshnessError) as caught:
        refresh_rates(three_streams(14.9, None, 12))
    assert caught.value.least == pytest.approx((15, 15, 10))
    assert str(caught.value) == (
        "freshness of stream 'A': 14.9 s cannot be held by this plan with any budget. "
        "The least that it can hold: A 15 s, C 10 s."
    )


@pytest.mark.parametrize("seed", range(40))
def test_refresh_rates_hold_what_was_asked_and_never_exceed_what_there_is(seed: int) -> None:
    rng = seeded(seed)
    model = fresh_model(rng)
    rates, full = refresh_rates(model), unlimited(model).entries(model)
    assert all(rate <= full[node] for node, rate in rates.items())
    for stream, seconds in zip(model.streams, residence(model, rates), strict=True):
        assert stream.freshness is None or seconds <= stream.freshness * (1 + 1e-9)
