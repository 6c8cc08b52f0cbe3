"""What was published for a reader, as a DataFrame: all of it so far, or as a stream.

Spark reads the parquet files of the reader's directory as any others. It is told the columns, since there may be no
file yet.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from thalweg.spark.outbox.directory import Outbox

_AS_WRITTEN = {"datetimeRebaseMode": "CORRECTED"}
"""Dates of long ago mean what Arrow means by them."""


def read_stream(spark: SparkSession, directory: str | Path, reader: str) -> DataFrame:
    """A stream of the rows of a reader: those that were published, and those that will be."""
    columns, path = _place(directory, reader)
    return spark.readStream.schema(columns).options(**_AS_WRITTEN).parquet(path)


def read_table(spark: SparkSession, directory: str | Path, reader: str) -> DataFrame:
    """The rows that were published for a reader so far."""
    columns, path = _place(directory, reader)
    return spark.read.schema(columns).options(**_AS_WRITTEN).parquet(path)


def _place(directory: str | Path, reader: str) -> tuple[StructType, str]:
    outbox = Outbox(directory)
    return from_arrow_schema(outbox.schema(reader)), str(outbox.places.reader(reader))
