"""Rows on their way into buckets."""

from __future__ import annotations

import pyarrow as pa
import pytest

from thalweg.cql import Source, bind
from thalweg.plan.partitioning import choose_partitioning
from thalweg.spark.packing import PASSES, Packer, T, unblob

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


@pytest.mark.parametrize("keeps_rejected", [True, False])
def test_rows_that_fail_a_selection_still_say_when_they_are_from(keeps_rejected: bool) -> None:
    query = bind("SELECT ts FROM a [RANGE 5 SECONDS]", {"a": Source(pa.schema([("ts", pa.int64())]), "ts")})[0]
    packer = Packer(0, SCHEMA, T, choose_partitioning(query, 1), (0,), keeps_rejected)
    column = pa.array([5, None, 9, 7], pa.int64())
    passes = pa.array([True, True, False, False])
    (packed,) = packer(
        iter([pa.record_batch([column, column, passes], schema=SCHEMA.append(pa.field(PASSES, pa.bool_())))])
    )
    (row,) = packed.to_pylist()
    assert (row["bad"], row["newest"]) == (1, 9)
    assert unblob(row["body"])["ts"].to_pylist() == [5]
    rejected = unblob(row["rejected"])
    if keeps_rejected:
        assert rejected["ts"].to_pylist() == [None, 9, 7]
    else:
        assert rejected.to_pydict() == {T: [9, 7]}
