"""The query of the job, over rows that are written by hand. No Spark is started."""

from __future__ import annotations

from job import QUERY

import thalweg

SECOND = 1_000_000


def answer(trades: list[tuple[int, int]], quotes: list[tuple[int, int]]) -> list[int]:
    """The spreads that come of these prices and bids (second, value) of one symbol with one piece of news."""
    streams = {
        name: {"ts": [s * SECOND for s, _ in rows], "sym": ["S1"] * len(rows), column: [value for _, value in rows]}
        for name, column, rows in (("trades", "px", trades), ("quotes", "bid", quotes))
    }
    news = {"ts": [0], "sym": ["S1"], "headline": ["S1 rises"]}
    return sorted(row["spread"] for row in thalweg.replay(QUERY, {**streams, "news": news}).to_pylist())


def test_a_trade_above_the_bid_is_a_result() -> None:
    assert answer(trades=[(10, 105), (11, 98)], quotes=[(9, 100)]) == [5]


def test_a_quote_is_valid_for_five_seconds() -> None:
    assert answer(trades=[(10, 105)], quotes=[(5, 100), (6, 101)]) == [4]
