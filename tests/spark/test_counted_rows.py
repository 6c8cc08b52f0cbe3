"""Rows of ROWS windows that fail a selection: they count in the bucket that has the others of their partition."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

import thalweg
from tests.spark.runs import FileRun, write_stream

TEXT = """
SELECT a.k, a.v, b.w FROM a [PARTITION BY k ROWS 2], b [RANGE 30 SECONDS]
WHERE a.k = b.k AND a.v > 3
"""


def test_they_lie_with_their_partition_though_its_key_is_computed(spark: SparkSession, tmp_path: Path) -> None:
    """The keys have different types, so that of ``a`` is cast before it is hashed."""
    rng = random.Random(7)
    times = pa.array([1_000_000 * i for i in range(60)], pa.timestamp("us", "UTC"))
    small = pa.array([rng.randrange(6) for _ in range(60)], pa.int32())
    a = pa.table({"ts": times, "k": small, "v": [rng.randrange(8) for _ in range(60)]})
    b = pa.table({"ts": times, "k": pa.array([rng.randrange(6) for _ in range(60)], pa.int64()), "w": range(60)})
    write_stream(tmp_path / "in" / "a", [a])
    write_stream(tmp_path / "in" / "b", [b])
    run = FileRun(spark, tmp_path, TEXT)
    run.run({"buckets": 8})
    run.end({"buckets": 8})
    found = Counter(tuple(row) for row in spark.read.parquet(str(tmp_path / "out")).collect())
    expected = Counter(tuple(row.values()) for row in thalweg.replay(TEXT, {"a": a, "b": b}).to_pylist())
    assert len(expected) > 20
    assert found == expected
