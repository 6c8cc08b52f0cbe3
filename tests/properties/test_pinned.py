"""Cases that once went wrong, or that a paper gets wrong; each runs under every choice of kept states.

To add one, paste what a failing property printed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import pytest

from tests.cases import Case, Item, Out, Range, Stream
from tests.expressions import Cmp, Col, ResultTime
from tests.oracle import expected
from tests.properties.conformity import check


def _keyed(name: str, *times: int) -> Stream:
    return Stream(name, (("ts", "timestamp"), ("k", "int64")), tuple((t, 7) for t in times))


JISC_LOSS = Case(
    # After the transition at position 4, state ST starts without entries. s' at 10 joins t and would
    # store (s', t); r at 11 then finds something in ST, and must still get the old (s, t).
    streams=(_keyed("R", 11), _keyed("S", 0, 10), _keyed("T", 1), _keyed("U", 2, 3)),
    items=tuple(Item(name, name, Range(100)) for name in "RSTU"),
    select=(*(Out(Col(name, "ts"), name.lower()) for name in "RSTU"), Out(ResultTime(), "rt")),
    where=tuple(Cmp("=", Col(left, "k"), Col(right, "k")) for left, right in ("RS", "ST", "TU")),
    plan="((R S) T) U",
    transitions=((4, "((S T) R) U"),),
)

PINNED: dict[str, Case] = {
    "a new entry must not hide that old ones are missing": JISC_LOSS,
}


@pytest.mark.parametrize("states", ["all", "none", "auto"])
@pytest.mark.parametrize("name", PINNED)
def test_pinned(name: str, states: Literal["all", "none", "auto"]) -> None:
    check(replace(PINNED[name], states=states))


def test_the_lost_results_are_expected() -> None:
    assert sum(expected(JISC_LOSS).values()) == 4
