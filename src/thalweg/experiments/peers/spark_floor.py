"""The least that any join in Python can cost on Spark: rows are read, shuffled by key and shown to Python."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame

from thalweg.spark.packing import BATCH_ROWS

SETTINGS = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(BATCH_ROWS),
    "spark.sql.execution.arrow.maxBytesPerBatch": str((1 << 31) - 1),
}
"""What is handed to Python at a time, as Thalweg has it: Spark does not measure a batch after every row."""


def floor(frames: Mapping[str, DataFrame], partitions: int) -> DataFrame:
    """The rows of all streams, as they are, by way of a shuffle and of Python."""
    rows = reduce(DataFrame.unionAll, frames.values())
    return rows.repartition(partitions, "k").mapInArrow(_as_they_are, rows.schema)


def _as_they_are(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches
