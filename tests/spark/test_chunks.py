"""The log of a bucket stays small, whatever its windows do."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from tests.spark.simulated import SimulatedQuery, simulated_spec
from thalweg.cql import Source, bind
from thalweg.errors import CheckpointError
from thalweg.plan.partitioning import choose_partitioning

SCHEMA = pa.schema([("ts", pa.timestamp("us")), ("k", pa.int64()), ("v", pa.int64())])
BATCHES = 400


def rows(keys: list[int], time: int, first: int) -> tuple[pa.Table, list[int | None]]:
    columns = [[time] * len(keys), keys, range(first, first + len(keys))]
    table = pa.table([pa.array(c, t) for c, t in zip(columns, SCHEMA.types, strict=True)], schema=SCHEMA)
    return table, [time] * len(keys)


def start(cql: str, directory: Path, troubled: float) -> SimulatedQuery:
    query = bind(cql, {"A": Source(SCHEMA, "ts"), "B": Source(SCHEMA, "ts")})[0]
    partitioning = choose_partitioning(query, 1)
    spec = simulated_spec(query, partitioning, [0, 0])
    return SimulatedQuery(spec, partitioning, random.Random(1), directory, troubled=troubled)


def run(cql: str, directory: Path, batches: list[tuple[list[int], list[int]]], troubled: float) -> SimulatedQuery:
    running = start(cql, directory, troubled)
    for time, (a, b) in enumerate(batches):
        running.batch([rows(a, time, 100 * time), rows(b, time, 100 * time)])
    return running


def pairs(answer: list[pa.Table]) -> list[tuple[int, int]]:
    return sorted((row["x"], row["y"]) for table in answer for row in table.to_pylist())


@pytest.fixture
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("thalweg.spark.chunks.window_log._SMALL", 50)
    monkeypatch.setattr("thalweg.engine.rows.payload._SMALL_CHUNK", 50)


@pytest.mark.parametrize("troubled", [0.0, 0.3])
@pytest.mark.usefixtures("_small")
def test_a_silent_partition_does_not_hold_on_to_the_log(tmp_path: Path, troubled: float) -> None:
    cql = "SELECT a.v AS x, b.v AS y FROM A a [PARTITION BY k ROWS 2], B b [PARTITION BY k ROWS 2] WHERE a.k = b.k"
    noise = [([i % 2] * 5, [i % 3] * 5) for i in range(BATCHES)]
    running = run(cql, tmp_path, [([99], [98]), *noise], troubled)
    (bucket,) = running.buckets
    assert bucket.chunks < 60
    assert bucket.rows < 300
    running.batch([rows([98], 1_000, 7), rows([99], 1_000, 8)])
    assert pairs(running.batch([None, None], [{"command": "end"}])) == [(0, 8), (7, 0)]


@pytest.mark.parametrize("troubled", [0.0, 0.3])
@pytest.mark.usefixtures("_small")
def test_a_long_window_of_many_batches_has_few_chunks(tmp_path: Path, troubled: float) -> None:
    cql = "SELECT a.v AS x, b.v AS y FROM A a, B b WHERE a.k = b.k WINDOW RANGE 300 MICROSECONDS"
    running = run(cql, tmp_path, [([1000 + i], [-i]) for i in range(BATCHES)], troubled)
    (bucket,) = running.buckets
    assert bucket.chunks < 100
    assert 2 * 300 <= bucket.rows < 2.5 * 300
    answer = running.batch([rows([-(BATCHES - 299), -(BATCHES - 301)], BATCHES, 0), rows([1399], BATCHES, 1)])
    assert pairs(answer) == [(0, 100 * (BATCHES - 299)), (100 * 399, 1)]


def test_large_batches_of_dead_rows_are_merged_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("thalweg.spark.chunks.window_log._SMALL", 50)
    cql = "SELECT a.v AS x, b.v AS y FROM A a [PARTITION BY k ROWS 1], B b [PARTITION BY k ROWS 1] WHERE a.k = b.k"
    batches = [([1000 + i, *([1] * 40)], [2000 + i, *([2] * 40)]) for i in range(100)]
    running = run(cql, tmp_path, batches, 0.0)
    assert running.buckets[0].rows < 20 * 82


@pytest.mark.parametrize(
    ("cql", "values"),
    [
        ("SELECT a.v AS x FROM A a [RANGE 9 SECONDS], B b [RANGE 9 SECONDS] WHERE a.k = b.k", 1),
        ("SELECT a.v AS x FROM A a [RANGE 9 SECONDS], B b [RANGE 8 SECONDS] WHERE a.k = b.k", 2),
        ("SELECT a.v AS x FROM A a [ROWS 9], B b [ROWS 9] WHERE a.k = b.k", 2),
    ],
)
def test_streams_of_one_range_window_share_a_value(tmp_path: Path, cql: str, values: int) -> None:
    assert run(cql, tmp_path, [([1], [2])], 0.0).buckets[0].chunks == values


@pytest.mark.parametrize("troubled", [0.0, 0.3])
@pytest.mark.usefixtures("_small")
def test_a_window_that_shrinks_between_two_runs_parts_what_lay_together(tmp_path: Path, troubled: float) -> None:
    cql = "SELECT a.v AS x, b.v AS y FROM A a [RANGE 30 MICROSECONDS], B b [RANGE {} MICROSECONDS] WHERE a.k = b.k"
    before = run(cql.format(30), tmp_path / "before", [([1], [1])] * 20, troubled)
    after = start(cql.format(12), tmp_path / "after", troubled)
    after.buckets[0].go_on_from(before.buckets[0])
    for time in range(20, 60):
        answer = after.batch([rows([1], time, 100 * time), rows([1], time, 100 * time)])
        partners = [(a, time) for a in range(time - 29, time)] + [(time, b) for b in range(time - 11, time + 1)]
        assert pairs(answer) == sorted((100 * a, 100 * b) for a, b in partners if a >= 0), time
    assert after.buckets[0].homes == {0, 1}


QUERIES = {
    "RANGE": "SELECT a.v AS x, b.v AS y FROM A a [RANGE 50 MICROSECONDS], B b [RANGE 40 MICROSECONDS] WHERE a.k = b.k",
    "ROWS": "SELECT a.v AS x, b.v AS y FROM A a [ROWS 7], B b [RANGE 50 MICROSECONDS] WHERE a.k = b.k",
    "PARTITION BY": "SELECT a.v AS x, b.v AS y FROM A a [PARTITION BY k ROWS 2], B b [ROWS 9] WHERE a.k = b.k",
    "DSTREAM": "DSTREAM (SELECT a.v AS x, b.v AS y FROM A a, B b WHERE a.k = b.k WINDOW RANGE 50 MICROSECONDS)",
    "aggregate": "SELECT a.k, COUNT(*) AS n FROM A a, B b WHERE a.k = b.k GROUP BY a.k WINDOW RANGE 50 MICROSECONDS",
    "EXCEPT": "SELECT k FROM A [RANGE 50 MICROSECONDS] EXCEPT SELECT k FROM B [RANGE 40 MICROSECONDS]",
}


@pytest.mark.parametrize("cql", QUERIES.values(), ids=QUERIES)
def test_an_engine_built_anew_writes_what_one_that_lived_on_writes(
    cql: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches reach over more time than windows, so that some of their rows have left before they are logged."""
    monkeypatch.setattr("thalweg.spark.chunks.window_log._SMALL", 150)
    monkeypatch.setattr("thalweg.engine.rows.payload._SMALL_CHUNK", 4)
    lived, lost = start(cql, tmp_path / "lived", 0.0), start(cql, tmp_path / "lost", 0.0)
    rng = random.Random(7)
    time = 0
    for number in range(60):
        times = range(time, time + rng.choice([2, 2, 2, 5, 100]))
        time = times[-1]
        batch: list[tuple[pa.Table, Sequence[int | None]] | None] = []
        for _ in "AB":
            parts = [rows([rng.randrange(3)], time, 100 * number + n)[0] for n, time in enumerate(times)]
            batch.append((pa.concat_tables(parts), times))
        lost.buckets[0].lose_engines()
        assert pairs_of(lived.batch(batch)) == pairs_of(lost.batch(batch))
        assert lived.buckets[0].committed == lost.buckets[0].committed, number
    assert lost.buckets[0].metrics[-1]["rebuilds"] == 1
    assert lived.buckets[0].metrics[-1]["rebuilds"] == 0


def pairs_of(answer: list[pa.Table]) -> list[tuple[object, ...]]:
    return sorted(tuple(row.values()) for table in answer for row in table.to_pylist())


def test_a_large_bundle_lies_in_several_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("thalweg.spark.chunks.bundles._PIECE_BYTES", 1_000)
    cql = "SELECT a.v AS x, b.v AS y FROM A a, B b WHERE a.k = b.k WINDOW RANGE 300 MICROSECONDS"
    running = run(cql, tmp_path, [(list(range(100)), list(range(0, 200, 2)))], 0.0)
    (bucket,) = running.buckets
    assert 4 <= bucket.chunks <= 8
    assert bucket.rows == 200
    bucket.lose_engines()
    answer = running.batch([rows([4, 150], 1, 1_000), None])
    assert pairs(answer) == [(1_000, 2), (1_001, 75)]
    assert bucket.metrics[-1]["rebuilds"] == 1


def test_what_is_read_back_is_what_was_put_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint of which files are missing, or are of another attempt, never goes on with fewer rows."""
    monkeypatch.setattr("thalweg.spark.chunks.bundles._PIECE_BYTES", 1_000)
    cql = "SELECT a.v AS x, b.v AS y FROM A a, B b WHERE a.k = b.k WINDOW RANGE 300 MICROSECONDS"
    running = run(cql, tmp_path, [(list(range(100)), [1])] * 3, 0.0)
    (bucket,) = running.buckets
    _, held = bucket.committed
    batch, number = max(held)
    whole = dict(held)
    others = run(cql, tmp_path / "other", [(list(range(50)), [1])] * 3, 0.0).buckets[0].committed[1]
    for damage in (None, whole[batch, number][:-1], b"", others[0, 0], bytes(len(whole[batch, number]))):
        held.clear()
        held.update({key: body for key, body in whole.items() if key != (batch, number)})
        if damage is not None:
            held[batch, number] = damage
        bucket.lose_engines()
        with pytest.raises(CheckpointError, match=f"batch {batch} "):
            running.batch([rows([1], 3, 9), None])
    held.clear()
    held.update(whole)
    assert len(pairs(running.batch([rows([1], 3, 300), None]))) == 3
