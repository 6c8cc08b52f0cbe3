"""Spark's own way to join many streams: a chain of binary stream-stream joins.

Written as Spark's guide asks for it. Every input has a watermark; every pair of streams has its interval condition,
so that each join knows when its state may go. A join behind a join may see only one event time, and the
first stream's is the one that has a condition with all others: it stays the event time of the chain, and the
times of the others travel on as plain numbers. All joins have the same key, so rows are shuffled once.

The streams are read in time order, so with a watermark that allows no disorder nothing is late, and an inner join
emits a result as soon as its last tuple has come: the answer is complete at the end of the input.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame
from pyspark.sql.functions import col, expr, unix_micros

from thalweg.experiments.workloads import Workload

LATENESS = "0 seconds"

_STORE = "spark.sql.streaming.stateStore"
_PROVIDERS = "org.apache.spark.sql.execution.streaming.state"
_FORMAT = "spark.sql.streaming.join.stateFormatVersion"

DEFAULT_STORE = {
    f"{_STORE}.providerClass": f"{_PROVIDERS}.HDFSBackedStateStoreProvider",
}
"""State as maps on the heap, what changed written to files: what Spark does unless told otherwise."""
_ROCKSDB = {
    f"{_STORE}.providerClass": f"{_PROVIDERS}.RocksDBStateStoreProvider",
    # What Spark's guide advises for speed: write what changed, and do not look up each key only to count keys.
    f"{_STORE}.rocksdb.changelogCheckpointing.enabled": "true",
    f"{_STORE}.rocksdb.trackTotalNumberOfRows": "false",
}
ROCKSDB_FORMAT_2 = {**_ROCKSDB, _FORMAT: "2"}
"""State in RocksDB, laid out as Spark does unless told otherwise: four stores for each join."""
ROCKSDB_FORMAT_4 = {**_ROCKSDB, _FORMAT: "4"}
"""State in RocksDB in Spark's newest layout: one store for each join, in which rows that leave are found by time."""


def chain(workload: Workload, frames: Mapping[str, DataFrame]) -> DataFrame:
    """The workload's join over its streams (columns ``ts``, ``k``, ``id``), as a streaming DataFrame."""
    first, *others = (frames[name].withWatermark("ts", LATENESS) for name in workload.names)
    joined = first.select("k", col("ts").alias("t1"), col("id").alias("id1"))
    for number, frame in enumerate(others, start=2):
        other = frame.select(
            col("k").alias(f"k{number}"),
            col("ts").alias(f"t{number}"),
            col("id").alias(f"id{number}"),
            unix_micros("ts").alias(f"us{number}"),
        )
        joined = joined.join(other, _condition(number, workload.window_us)).drop(f"k{number}", f"t{number}")
    return joined.select(*workload.outputs)


def _condition(number: int, window_us: int) -> Column:
    """What joins stream ``number`` to those before it: the key, and less than a window between any two times."""
    window = expr(f"INTERVAL '{window_us / 1_000_000:.6f}' SECOND")
    with_first = [
        col("k") == col(f"k{number}"),
        col(f"t{number}") > col("t1") - window,
        col(f"t{number}") < col("t1") + window,
    ]
    with_others = [
        condition
        for earlier in range(2, number)
        for condition in (
            col(f"us{number}") > col(f"us{earlier}") - window_us,
            col(f"us{number}") < col(f"us{earlier}") + window_us,
        )
    ]
    return reduce(and_, with_first + with_others)
