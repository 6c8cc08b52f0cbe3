"""Counterexamples found once, and the summary of a replay."""

from __future__ import annotations

import datetime

import thalweg
from thalweg.replayer import run

EPOCH = datetime.datetime(1970, 1, 1)


def test_a_tuple_pushed_out_at_the_very_end_leaves_then() -> None:
    """The deaths of the last batch were once forgotten when the input ended."""
    streams = {"a": {"ts": [0], "k": [0]}, "c": {"ts": [0, 0, 0, 0], "k": [0, 0, 0, 0], "id": [0, 1, 2, 3]}}
    text = "SELECT DSTREAM c.id, RESULT_TIME() AS t FROM a [RANGE 8 SECONDS], c [ROWS 3] WHERE a.k = c.k"
    rows = thalweg.replay(text, streams).to_pylist()
    assert [(row["id"], row["t"] - EPOCH) for row in rows] == [
        (0, datetime.timedelta()),
        *((i, datetime.timedelta(seconds=8)) for i in (1, 2, 3)),
    ]


def test_results_keep_their_times_when_the_output_fills_up() -> None:
    """Arrow once shared the kernel's output memory, which the next block overwrote."""
    count = 300
    stream = {"ts": list(range(count)), "k": [0] * count}
    text = "SELECT a.ts AS x, b.ts AS y, RESULT_TIME() AS t FROM a, b WHERE a.k = b.k WINDOW RANGE 1 SECOND"
    table = thalweg.replay(text, {"a": stream, "b": stream})
    assert table.num_rows == count**2
    for row in table.to_pylist():
        assert row["t"] - EPOCH == datetime.timedelta(microseconds=max(row["x"], row["y"]))


def test_the_summary_says_what_happened() -> None:
    streams = {name: {"ts": list(range(100)), "k": [i % 5 for i in range(100)]} for name in "abc"}
    text = "SELECT a.k FROM a, b, c WHERE a.k = b.k AND b.k = c.k WINDOW RANGE 10 MICROSECONDS"
    summary = run(text, streams, options={"plan": "(a b) c", "states": "all"}, transitions=[(150, "(b c) a")]).summary
    assert summary.tuples_in == {"a": 100, "b": 100, "c": 100}
    assert [(use.position, use.plan) for use in summary.plans] == [(0, "(a b) c"), (150, "(b c) a")]
    assert [size.name for size in summary.states] == ["a", "b", "c", "b⋈c"]
    assert summary.completions > 0
    assert summary.states[0].tuples <= 11
