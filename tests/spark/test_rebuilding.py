"""Runs that lose their engines before every batch, beside the same ones that do not. Without Spark."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from tests.spark.simulated import SimulatedQuery, shared_spec
from thalweg.cql import Source
from thalweg.spark.run import Run
from thalweg.spark.shared_run import Registered

SECOND = 1_000_000
SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.int64()), ("v", pa.int64()), ("id", pa.int64())])
CATALOG = {name: Source(SCHEMA, "ts") for name in ("a", "b")}
Row = tuple[int, int | None, int, int]
Step = tuple[Sequence[Row], Sequence[Row], Sequence[Mapping[str, object]]]
"""Rows of both streams (second, k, v, id), and commands."""
WINDOW = "WINDOW RANGE 9 SECONDS"
JOIN = "FROM a, b WHERE a.k = b.k"
STEADY = f"SELECT a.id AS one, b.id AS two {JOIN} {WINDOW}"
LARGE = "CAST('1e19' AS DECIMAL(38, 0))"
END: Step = ((), (), [{"command": "end"}])


def play(
    directory: Path, texts: Mapping[str, str], steps: Sequence[Step], buckets: int = 1
) -> tuple[SimulatedQuery, SimulatedQuery]:
    """Two runs, of which the second one loses its engines all the time; they have committed the same."""
    registered = tuple(Registered(name, text) for name, text in texts.items())
    run = Run("run1", registered[0].text, buckets, registered, CATALOG, {name: tuple(SCHEMA.names) for name in CATALOG})
    spec = shared_spec(run, registered, lateness=5 * SECOND)
    lives_on, loses = (
        SimulatedQuery(spec, run.partitioning, random.Random(0), directory / name) for name in ("lives on", "loses")
    )
    for *rows, commands in steps:
        for bucket in loses.buckets:
            bucket.lose_engines()
        for each in (lives_on, loses):
            each.batch([_given(mine) for mine in rows], commands)
        for one, other in zip(lives_on.buckets, loses.buckets, strict=True):
            assert one.committed == other.committed
    return lives_on, loses


def _given(rows: Sequence[Row]) -> tuple[pa.Table, list[int]] | None:
    times = [second * SECOND for second, *_ in rows]
    columns = [times, *([row[place] for row in rows] for place in (1, 2, 3))]
    table = pa.table([pa.array(each, field.type) for each, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)
    return (table, times) if rows else None


def test_a_refusal_names_the_row_that_came_first(tmp_path: Path) -> None:
    """Windows that were filled anew hold their rows in another order."""
    text = STEADY.replace("WHERE", "WHERE 6 / (a.id - a.v) > 1 AND")
    enter = {"command": "enter", "name": "new", "text": text}
    steps: list[Step] = [
        ([(5, 1, 100, 100)], [(5, 1, 0, 1)], []),
        ([(3, 1, 200, 200)], [], []),
        ([(6, 1, 1, 2)], [], [enter]),
    ]
    for each in play(tmp_path, {"steady": STEADY}, steps):
        record, _ = each.buckets[0].committed
        [refused] = json.loads(record or "")["refused"]
        assert "The row has a.id = 100, a.v = 100." in refused
        assert each.failed["new"][0] == 3


@pytest.mark.parametrize("key", ["a.k", "a.k + 0"])
def test_who_enters_is_not_asked_of_rows_that_no_window_holds(tmp_path: Path, key: str) -> None:
    """The log has rows without a key. They join nothing, so a query that enters fails for none of them."""
    steady = STEADY.replace("a.k", key)
    text = steady.replace("WHERE", "WHERE 6 / (a.id - a.v) > -9 AND")
    steps: list[Step] = [
        ([(5, None, 100, 100), (5, 1, 0, 1)], [(5, 1, 0, 1)], []),
        ([(6, 1, 1, 2)], [], [{"command": "enter", "name": "new", "text": text}]),
        ([(7, 1, 1, 3)], [], []),
        ([(8, 1, 1, 4)], [], []),
        END,
    ]
    for each in play(tmp_path, {"steady": steady}, steps):
        assert each.failed == {}
        assert [row["one"] for row in each.answer("new")] == [2, 3, 4]


@pytest.mark.parametrize("other", range(2, 8))
def test_who_enters_gets_no_results_of_rows_that_waited_before(tmp_path: Path, other: int) -> None:
    """Windows that count rows take them when the watermark has passed: also in a batch that has none for a bucket."""
    join = "FROM a [PARTITION BY k ROWS 3], b [PARTITION BY k ROWS 3] WHERE a.k = b.k"
    counted = f"SELECT a.k, COUNT(*) AS n {join} GROUP BY a.k"
    steps: list[Step] = [
        ([(1, 1, 0, 1), (3, 1, 0, 2)], [(2, 1, 0, 1)], []),
        ([(30, other, 0, 9)], [(30, other, 0, 9)], []),
        ([(31, other, 0, 9)], [(31, other, 0, 9)], [{"command": "enter", "name": "new", "text": counted}]),
        ([(60, 1, 0, 3)], [(60, 1, 0, 3)], []),
        END,
    ]
    for each in play(tmp_path, {"steady": f"SELECT a.id {join}"}, steps, buckets=4):
        assert [row for row in each.answer("new") if row["k"] == 1] == [{"k": 1, "n": 4}]


@pytest.mark.parametrize(
    ("function", "summed"), [("SUM", "a.v"), ("SUM", f"a.v * {LARGE}"), ("AVG", f"a.v * {LARGE}")], ids=repr
)
def test_a_sum_that_overflows_ends_its_query_alone(tmp_path: Path, function: str, summed: str) -> None:
    text = f"SELECT a.k, {function}({summed}) AS s {JOIN} GROUP BY a.k {WINDOW}"
    half = 2**62
    steps: list[Step] = [
        ([(0, 1, half, 1)], [(0, 1, 0, 1)], []),
        ([(1, 1, half, 2), (1, 1, half, 3)], [(1, 1, 0, 2)], []),
        ([(20, 1, half, 4)], [(20, 1, 0, 4)], []),
        END,
    ]
    for each in play(tmp_path, {"steady": STEADY, "summed": text}, steps):
        assert len(each.answer("steady")) == 7
        batch, reason = each.failed["summed"]
        assert batch == 3  # which passes the seconds of the sums
        assert "overflows" in reason
        assert each.answer("summed") == []
