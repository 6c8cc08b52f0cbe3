"""Rows on their way into buckets."""

from __future__ import annotations

import pyarrow as pa
import pytest

from thalweg.cql import Source, bind
from thalweg.plan.partitioning import choose_partitioning
from thalweg.spark.operator import _emitted
from thalweg.spark.packing import PASSES, Packer, T, unblob
from thalweg.spark.resident import Outcome

SCHEMA = pa.schema([(T, pa.int64()), ("ts", pa.int64())])


def test_times_that_no_window_can_reach_are_bad() -> None:
    times = [5, None, 2**61, -(2**61), 7]
    query = bind("SELECT ts FROM a [RANGE 5 SECONDS]", {"a": Source(pa.schema([("ts", pa.int64())]), "ts")})[0]
    packer = Packer(0, SCHEMA, T, choose_partitioning(query, 1), (0,), keeps_rejected=True)
    column = pa.array(times, pa.int64())
    (packed,) = packer(iter([pa.record_batch([column, column], schema=SCHEMA)]))
    (row,) = packed.to_pylist()
    assert (row["bad"], row["newest"]) == (3, 7)
    assert unblob(row["body"])["ts"].to_pylist() == [5, 7]
    assert unblob(row["rejected"])["ts"].to_pylist() == [None, 2**61, -(2**61)]


def test_no_blob_is_large_and_their_places_order_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("thalweg.spark.packing._BODY_BYTES", 64)
    query = bind("SELECT ts FROM a [RANGE 5 SECONDS]", {"a": Source(pa.schema([("ts", pa.int64())]), "ts")})[0]
    packer = Packer(0, SCHEMA, T, choose_partitioning(query, 1), (0,), keeps_rejected=True)
    times = [*range(10), *[None] * 5]
    column = pa.array(times, pa.int64())
    (packed,) = packer(iter([pa.record_batch([column, column], schema=SCHEMA)]))
    rows = packed.to_pylist()
    assert [row["place"] for row in rows] == list(range(len(rows)))
    assert [row["bad"] for row in rows] == [5] + [0] * (len(rows) - 1)
    bodies = [unblob(row["body"]) for row in rows if row["body"]]
    assert [time for body in bodies for time in body["ts"].to_pylist()] == list(range(10))
    assert [body.num_rows for body in bodies] == [3, 3, 3, 1]
    rejected = [unblob(row["rejected"]) for row in rows if row["rejected"]]
    assert [body.num_rows for body in rejected] == [3, 2]


def test_results_go_to_spark_in_frames_that_are_not_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("thalweg.spark.operator._FRAME_BYTES", 10)
    outcome = Outcome(batch=0, results=[b"x" * 6, b"y" * 4, b"z" * 20, b"w"], kept_out=[], record="", metrics={"a": 1})
    frames = [frame["body"].tolist() for frame in _emitted(7, outcome)]
    assert frames == [[b"x" * 6, b"y" * 4], [b"z" * 20], [b"w"]]
    assert [text for frame in _emitted(7, outcome) for text in frame["metrics"]] == ['{"a": 1}', None, None, None]


def test_a_batch_without_results_still_tells_its_metrics() -> None:
    (frame,) = _emitted(7, Outcome(batch=0, results=[], kept_out=[], record="", metrics={"a": 1}))
    row = frame[["bucket", "body", "metrics"]].to_dict("records")
    assert row == [{"bucket": 7, "body": None, "metrics": '{"a": 1}'}]


def test_what_spark_adds_up_is_told_once() -> None:
    metrics = {"results": 2, "state_bytes": 2**60 + 1, "savings": {"suspensions": 3}}
    (frame,) = _emitted(7, Outcome(batch=0, results=[b"x", b"y"], kept_out=[], record="", metrics=metrics))
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
    (packed,) = packer(
        iter([pa.record_batch([column, column, passes], schema=SCHEMA.append(pa.field(PASSES, pa.bool_())))])
    )
    rows = packed.to_pylist()
    assert [(row["bad"], row["newest"]) for row in rows] == ([(1, 9), (0, 9)] if keeps_rejected else [(1, 9)])
    assert [unblob(row["body"])["ts"].to_pylist() for row in rows if row["body"]] == [[5]]
    rejected = [unblob(row["rejected"]) for row in rows]
    if keeps_rejected:
        assert [part["ts"].to_pylist() for part in rejected] == [[None], [9, 7]]
    else:
        assert [part.to_pydict() for part in rejected] == [{T: [9, 7]}]


def test_a_batch_is_packed_in_parts_that_are_not_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("thalweg.spark.packing._FLUSH_BYTES", 64)
    query = bind("SELECT ts FROM a [RANGE 5 SECONDS]", {"a": Source(pa.schema([("ts", pa.int64())]), "ts")})[0]
    packer = Packer(0, SCHEMA, T, choose_partitioning(query, 1), (0,), keeps_rejected=False)
    column = pa.array(range(10), pa.int64())
    batch = pa.record_batch([column, column], schema=SCHEMA)
    rows = [row for packed in packer(iter([batch, batch.slice(0, 0), batch])) for row in packed.to_pylist()]
    assert [row["place"] for row in rows] == list(range(len(rows)))
    bodies = [unblob(row["body"])["ts"].to_pylist() for row in rows]
    assert bodies == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
