"""Saving for looks and searches."""

from __future__ import annotations

import pytest

from thalweg.adapt.ledger import Ledger
from thalweg.adapt.search_fund import SearchFund
from thalweg.plan.join_graph import JoinGraph
from thalweg.settings import States


def chain(streams: int) -> JoinGraph:
    """Each stream meets the next one by a key of their own."""
    return JoinGraph(streams, classes=tuple(frozenset((s, s + 1)) for s in range(streams - 1)))


@pytest.mark.parametrize("states", ["none", "all", "auto"])
@pytest.mark.parametrize("streams", range(3, 13))
def test_who_has_saved_all_there_can_be_can_pay_for_a_look_and_a_search(streams: int, states: States) -> None:
    """What was left after the look was a hair less than the price of the search, for ever."""
    fund = SearchFund(chain(streams), states, Ledger())
    fund.put(1e18)
    assert fund.has_look
    fund.pay_look()
    assert fund.pay_search() == states
