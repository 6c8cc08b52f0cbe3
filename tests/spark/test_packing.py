"""Rows on their way into buckets."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest

from thalweg.cql import Source, bind
from thalweg.plan.partitioning import choose_partitioning
from thalweg.spark.bucket_spec import Delivery, Outcome
from thalweg.spark.bucket_task import _emitted
from thalweg.spark.packing import PARTITION, PASSES, Packer, T, hash_column, unblob

SCHEMA = pa.schema([(T, pa.int64()), ("ts", pa.int64())])


def rows_of(packer: Packer, *batches: pa.RecordBatch, partition: int = 0) -> list[dict[str, Any]]:
    """What a task sends that takes these batches of one partition."""
    return task_of(packer, [(partition, batch) for batch in batches])


def task_of(packer: Packer, batches: Iterable[tuple[int, pa.RecordBatch]]) -> list[dict[str, Any]]:
    """What a task sends that takes these batches, each of its partition."""
    handed = (
        batch.append_column(PARTITION, pa.array([partition] * batch.num_rows, pa.int32()))
        for partition, batch in batches
    )
    return [row for packed in packer(handed) for row in packed.to_pylist()]


def test_times_that_no_window_can_reach_are_bad() -> None:
    times = [5, None, 2**61, -(2**61), 7]
    query = bind("SELECT ts FROM a [RANGE 5 SECONDS]", {"a": Source(pa.schema([("ts", pa.int64())]), "ts")})[0]
    packer = Packer(0, SCHEMA, T, choose_partitioning(query, 1), (0,), keeps_rejected=True)
    column = pa.array(times, pa.int64())
    (row,) = rows_of(packer, pa.record_batch([column, column], schema=SCHEMA))
    assert (row["bad"], row["newest"]) == (3, 7)
    assert unblob(row["body"])["ts"].to_pylist() == [5, 7]
    assert unblob(row["rejected"])["ts"].to_pylist() == [None, 2**61, -(2**61)]


def test_no_blob_is_large_and_their_places_order_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("thalweg.spark.packing._BODY_BYTES", 64)
    query = bind("SELECT ts FROM a [RANGE 5 SECONDS]", {"a": Source(pa.schema([("ts", pa.int64())]), "ts")})[0]
    packer = Packer(0, SCHEMA, T, choose_partitioning(query, 1), (0,), keeps_rejected=True)
    times = [*range(10), *[None] * 5]
    column = pa.array(times, pa.int64())
    rows = rows_of(packer, pa.record_batch([column, column], schema=SCHEMA))
    assert [row["place"] for row in rows] == list(range(len(rows)))
    assert [row["bad"] for row in rows] == [5] + [0] * (len(rows) - 1)
    bodies = [unblob(row["body"]) for row in rows if row["body"]]
    assert [time for body in bodies for time in body["ts"].to_pylist()] == list(range(10))
    assert [body.num_rows for body in bodies] == [3, 3, 3, 1]
    rejected = [unblob(row["rejected"]) for row in rows if row["rejected"]]
    assert [body.num_rows for body in rejected] == [3, 2]


BODIES = [("one", b"x" * 6), ("two", b"y" * 4), ("one", b"z" * 20), ("two", b"w")]
RESULTS = [Delivery(reader, 0, body) for reader, body in BODIES]
"""Of two readers, who share the frames."""


def test_results_go_to_spark_in_frames_that_are_not_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("thalweg.spark.bucket_task._FRAME_BYTES", 10)
    outcome = Outcome(batch=0, results=RESULTS, kept_out=[], record="", metrics={"a": 1})
    frames = [list(zip(frame["reader"], frame["body"], strict=True)) for frame in _emitted(7, outcome)]
    assert frames == [BODIES[:2], BODIES[2:3], BODIES[3:]]
    assert [text for frame in _emitted(7, outcome) for text in frame["metrics"]] == ['{"a": 1}', None, None, None]


def test_a_batch_without_results_still_tells_its_metrics() -> None:
    (frame,) = _emitted(7, Outcome(batch=0, results=[], kept_out=[], record="", metrics={"a": 1}))
    row = frame[["bucket", "body", "metrics"]].to_dict("records")
    assert row == [{"bucket": 7, "body": None, "metrics": '{"a": 1}'}]


def test_what_spark_adds_up_is_told_once() -> None:
    metrics = {"results": 2, "state_bytes": 2**60 + 1, "savings": {"suspensions": 3}}
    (frame,) = _emitted(7, Outcome(batch=0, results=RESULTS[:2], kept_out=[], record="", metrics=metrics))
    assert frame[["results", "state_bytes", "suspensions", "probes"]].values.tolist() == [
        [2, 2**60 + 1, 3, 0],
        [0, 0, 0, 0],
    ]


@pytest.mark.parametrize("keeps_rejected", [True, False])
def test_rows_that_fail_a_selection_still_say_when_they_are_from(keeps_rejected: bool) -> None:
    query = bind("SELECT ts FROM a [RANGE 5 SECONDS]", {"a": Source(pa.schema([("ts", pa.int64())]), "ts")})[0]
    packer = Packer(0, SCHEMA, T, choose_partitioning(query, 1), (0,), keeps_rejected)
    column = pa.array([5, None, 9, 7], pa.int64())
    passes = pa.array([True, True, False, False])
    rows = rows_of(
        packer, pa.record_batch([column, column, passes], schema=SCHEMA.append(pa.field(PASSES, pa.bool_())))
    )
    assert [(row["bad"], row["newest"]) for row in rows] == ([(1, 9), (0, 9)] if keeps_rejected else [(1, 9)])
    assert [unblob(row["body"])["ts"].to_pylist() for row in rows if row["body"]] == [[5]]
    rejected = [unblob(row["rejected"]) for row in rows]
    if keeps_rejected:
        assert [part["ts"].to_pylist() for part in rejected] == [[None], [9, 7]]
    else:
        assert [part.to_pydict() for part in rejected] == [{T: [9, 7]}]


def test_a_batch_is_packed_in_parts_that_are_not_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("thalweg.spark.packing._FLUSH_BYTES", 80)
    query = bind("SELECT ts FROM a [RANGE 5 SECONDS]", {"a": Source(pa.schema([("ts", pa.int64())]), "ts")})[0]
    packer = Packer(0, SCHEMA, T, choose_partitioning(query, 1), (0,), keeps_rejected=False)
    column = pa.array(range(10), pa.int64())
    batch = pa.record_batch([column, column], schema=SCHEMA)
    rows = rows_of(packer, batch, batch.slice(0, 0), batch)
    assert [row["place"] for row in rows] == list(range(len(rows)))
    bodies = [unblob(row["body"])["ts"].to_pylist() for row in rows]
    assert bodies == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


NARROW = pa.schema([("ts", pa.int64()), ("k", pa.int64())])
TWO = "SELECT a.ts FROM a [RANGE 5 SECONDS], b [RANGE 5 SECONDS] WHERE a.k = b.k"


def a_partition(rng: random.Random, number: int) -> list[pa.RecordBatch]:
    """Batches of one partition, with bad rows and rows that fail a selection; their values name the partition."""
    made = []
    for batch in range(rng.choice([0, 1, 1, 3])):
        count = rng.randrange(1, 6)
        values = [1000 * number + 10 * batch + i for i in range(count)]
        times = pa.array([None if rng.random() < 0.2 else value for value in values], pa.int64())
        columns = {
            T: times,
            "ts": pa.array(values),
            hash_column(0): pa.array([rng.getrandbits(63) - 2**62 for _ in values]),
            PASSES: pa.array([rng.random() < 0.7 for _ in values]),
        }
        made.append(pa.record_batch(columns))
    return made


@pytest.mark.parametrize("seed", range(100))
def test_it_does_not_matter_which_partitions_a_task_takes(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    monkeypatch.setattr("thalweg.spark.packing._FLUSH_BYTES", rng.choice([64, 200, 1 << 20]))
    query = bind(TWO, {name: Source(NARROW, "ts") for name in "ab"})[0]
    packer = Packer(0, SCHEMA, T, choose_partitioning(query, 4), tuple(range(4)), keeps_rejected=rng.random() < 0.5)
    partitions = [a_partition(rng, number) for number in range(12)]
    alone = [rows_of(packer, *batches, partition=number) for number, batches in enumerate(partitions)]
    groups: list[list[int]] = [[] for _ in range(3)]
    if rng.random() < 0.5:
        groups = [list(range(4 * task, 4 * task + 4)) for task in range(3)]
    else:
        for number in rng.sample(range(12), 12):
            rng.choice(groups).append(number)
    together = [
        task_of(packer, [(number, batch) for number in group for batch in partitions[number]]) for group in groups
    ]
    want = [row for rows in alone for row in rows]
    got = [row for rows in together for row in rows]
    assert received(got) == received(want)
    for bucket in range(4):
        for rows in together:
            heard = [row["newest"] for row in rows if row["bucket"] == bucket]
            assert not rows or max(heard) == max(row["newest"] for row in rows)
    assert len([row for row in got if row["body"] is None and row["rejected"] is None]) <= 3 * 4


def received(rows: list[dict[str, Any]]) -> tuple[dict[int, list[int]], dict[int, list[Any]], int]:
    """By bucket, the rows in their order, and those that can join nothing in any order; and how many are bad."""
    bodies: dict[int, list[int]] = {}
    rejected: dict[int, list[Any]] = {}
    for row in sorted(rows, key=lambda row: int(row["place"])):
        if row["body"] is not None:
            bodies.setdefault(row["bucket"], []).extend(unblob(row["body"])["ts"].to_pylist())
        if row["rejected"] is not None:
            rejected.setdefault(row["bucket"], []).extend(map(str, unblob(row["rejected"]).to_pylist()))
    return bodies, {bucket: sorted(texts) for bucket, texts in rejected.items()}, sum(row["bad"] for row in rows)


def test_bad_rows_are_counted_though_nothing_else_is_left_to_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("thalweg.spark.packing._FLUSH_BYTES", 64)
    query = bind("SELECT ts FROM a [RANGE 5 SECONDS]", {"a": Source(pa.schema([("ts", pa.int64())]), "ts")})[0]
    packer = Packer(0, SCHEMA, T, choose_partitioning(query, 1), (0,), keeps_rejected=False)
    times = [[1, 2, 3, 4], [None] * 4]
    columns = [pa.array(values, pa.int64()) for values in times]
    rows = rows_of(packer, *(pa.record_batch([column, column], schema=SCHEMA) for column in columns))
    assert [(row["bad"], row["newest"], row["body"] is None) for row in rows] == [(0, 4, False), (4, 4, True)]


def test_partitions_in_a_row_share_blobs() -> None:
    query = bind("SELECT ts FROM a [RANGE 5 SECONDS]", {"a": Source(pa.schema([("ts", pa.int64())]), "ts")})[0]
    packer = Packer(0, SCHEMA, T, choose_partitioning(query, 1), (0,), keeps_rejected=False)
    column = pa.array([1, 2], pa.int64())
    batch = pa.record_batch([column, column], schema=SCHEMA)
    rows = task_of(packer, [(number, batch) for number in (3, 4, 5, 9, 1)])
    assert [(row["place"] >> 32, unblob(row["body"]).num_rows) for row in rows] == [(3, 6), (9, 2), (1, 2)]
