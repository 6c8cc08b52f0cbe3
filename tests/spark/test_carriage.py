"""What travels of a stream, and what later queries find in the log."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

from tests.spark.simulated import SimulatedQuery, simulated_spec
from thalweg.cql import Source, bind
from thalweg.errors import CheckpointError
from thalweg.plan.partitioning import choose_partitioning
from thalweg.spark.carriage import Kept
from thalweg.spark.division import divide

EXTRA = ("p", "q", "r")
SCHEMA = pa.schema([("ts", pa.timestamp("us")), ("k", pa.int64()), *((name, pa.int64()) for name in EXTRA)])
CATALOG = {**{name: Source(SCHEMA, "ts") for name in "ab"}, "s": Source(SCHEMA, None)}


@pytest.mark.parametrize(
    ("cql", "carried", "computed"),
    [
        ("SELECT a.p FROM a [NOW], b [NOW] WHERE a.k = b.k", ["ts k p", "ts k"], [0, 0]),
        ("SELECT 1 AS x FROM a [NOW], b [NOW] WHERE a.k + a.p = b.q", ["ts", "ts q"], [1, 0]),
        ("SELECT a.k FROM a [NOW], b [NOW] WHERE a.k = b.k AND b.r > 3", ["ts k", "ts k"], [0, 0]),
        ("SELECT a.k FROM a [NOW], b [ROWS 3] WHERE a.k = b.k AND b.r > 3", ["ts k", "ts k"], [0, 1]),
        ("SELECT a.k FROM a [NOW], b [PARTITION BY p ROWS 3] WHERE a.k = b.k", ["ts k", "ts k p"], [0, 0]),
        ("SELECT a.k FROM a [NOW], b [NOW] WHERE a.p < b.q AND a.r + b.r = 3", ["ts k p r", "ts q r"], [0, 0]),
        ("SELECT * FROM a [NOW], b [NOW] WHERE a.k = b.k", ["ts k p q r", "ts k p q r"], [0, 0]),
        (
            "SELECT a.p, SUM(b.q) AS x FROM a [NOW], b [NOW] WHERE a.k = b.k AND b.r > 3 GROUP BY a.p",
            ["ts k p", "ts k q r"],
            [0, 0],
        ),
        ("SELECT k FROM a [NOW] EXCEPT SELECT p FROM b [NOW] WHERE q = 3", ["ts k", "ts p q"], [0, 0]),
        ("SELECT a.k FROM a [NOW] CROSS JOIN s", ["ts k", "ts"], [0, 0]),
    ],
)
def test_what_a_query_reads_is_carried(cql: str, carried: list[str], computed: list[int]) -> None:
    division = divide(bind(cql, CATALOG)[0])
    assert [" ".join(each.columns.names) for each in division.carried] == carried
    assert [len(columns) for columns in division.computed] == computed
    for ref, each, names in zip(division.inside.streams, division.carried, division.computed, strict=True):
        assert ref.schema.names == [*each.columns.names, *names]


def test_what_is_kept_is_carried_and_not_read() -> None:
    query = bind("SELECT a.k FROM a [NOW], b [NOW] WHERE a.k = b.k", CATALOG)[0]
    division = divide(query, {"a": Kept(("q",))})
    assert [" ".join(each.columns.names) for each in division.carried] == ["ts k q", "ts k"]
    assert [" ".join(ref.schema.names) for ref in division.inside.streams] == ["ts k", "ts k"]


@pytest.fixture
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("thalweg.spark.chunks.window_log._SMALL", 3)
    monkeypatch.setattr("thalweg.spark.chunks.window_log._MERGED", 2)
    monkeypatch.setattr("thalweg.spark.chunks.window_log._LARGE", 1)


Row = dict[str, int]


def rows_at(time: int, rng: random.Random) -> list[Row]:
    return [{"ts": time, "k": rng.randrange(3), **{name: rng.randrange(1000) for name in EXTRA}} for _ in range(2)]


def as_batch(rows: list[Row]) -> tuple[pa.Table, list[int | None]]:
    return pa.Table.from_pylist(rows, schema=SCHEMA), [row["ts"] for row in rows]


def start(reads: list[str], window: str, kept: Kept, rng: random.Random, directory: Path) -> SimulatedQuery:
    """A query that reads these columns of stream ``a``."""
    selected = ", ".join(f"a.{name} AS {name}" for name in reads)
    text = f"SELECT {selected}, b.p AS other FROM a [{window}], b [{window}] WHERE a.k = b.k"  # noqa: S608 - ours
    query = bind(text, CATALOG)[0]
    partitioning = choose_partitioning(query, 1)
    spec = simulated_spec(query, partitioning, [0, 0], keep={"a": kept})
    return SimulatedQuery(spec, partitioning, rng, directory, troubled=0.2)


@pytest.mark.parametrize("window", ["RANGE 9 MICROSECONDS", "PARTITION BY k ROWS 4"])
@pytest.mark.parametrize("seed", range(15))
@pytest.mark.usefixtures("_small")
def test_queries_that_read_other_columns_go_on_from_each_other(tmp_path: Path, window: str, seed: int) -> None:
    """A query is refused exactly if a query before it did not carry what it needs. Else it answers as one that stays.

    The one that stays reads all columns and is never restarted.
    """
    rng = random.Random(seed)
    staying = start(["k", *EXTRA], window, Kept(), rng, tmp_path / "staying")
    before: SimulatedQuery | None = None
    has = set(EXTRA)
    time = results = 0
    for number in range(12):
        reads = ["k", *rng.sample(EXTRA, rng.randrange(2))]
        kept = Kept(tuple(name for name in EXTRA if rng.random() < 0.7), required=rng.random() < 0.5)
        running = start(reads, window, kept, rng, tmp_path / str(number))
        if before is not None:
            running.buckets[0].go_on_from(before.buckets[0])
        lacking = {*reads[1:], *(kept.columns if kept.required else ())} - has
        if lacking:
            said = ", ".join(f"'{name}'" for name in EXTRA if name in lacking)
            with pytest.raises(CheckpointError, match=f"{said} of stream 'a'"):
                running.batch([as_batch(rows_at(time, rng)), None])
            continue
        for _ in range(rng.randrange(1, 6)):
            batch = [as_batch(rows_at(time, rng)), as_batch(rows_at(time, rng))]
            got, want = running.batch(batch), staying.batch(batch)
            results += sum(table.num_rows for table in got)
            assert chosen(got, [*reads, "other"]) == chosen(want, [*reads, "other"])
            time += 1
        has &= {*reads, *kept.columns}
        before = running
    assert results > 10


def chosen(answer: list[pa.Table], columns: list[str]) -> list[tuple[int, ...]]:
    return sorted(tuple(row[name] for name in columns) for table in answer for row in table.to_pylist())
