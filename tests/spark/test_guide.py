"""The guide's two versions of a job, run as they are printed, give the same rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from tests.spark.runs import cut, write_stream
from tests.test_docs import ROOT, blocks


def test_both_versions_of_the_guide_give_the_same_rows(spark: SparkSession, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    for name, column in {"trades": "px", "quotes": "bid", "news": "headline"}.items():
        times = pa.array(np.sort(rng.integers(0, 60_000_000, 400)), pa.timestamp("us", "UTC"))
        values = [f"{name} {i}" for i in range(400)] if column == "headline" else rng.random(400)
        symbols = [f"S{i}" for i in rng.integers(0, 40, 400)]
        write_stream(tmp_path / name, cut(pa.table({"ts": times, "sym": symbols, column: values}), 2))
    names: dict[str, object] = {"spark": spark, "root": str(tmp_path)}
    partitions = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    try:
        for block in blocks(ROOT / "docs" / "guide.md", "python"):
            exec(block, names)  # noqa: S102 - our own guide
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", partitions or "200")
    chained, joined = (
        sorted(map(tuple, spark.read.parquet(str(tmp_path / "out" / version)).collect()))
        for version in ("chained", "thalweg")
    )
    assert len(joined) > 100
    assert chained == joined
