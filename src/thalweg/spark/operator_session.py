"""The session of Spark that the operator runs in, with the settings that it needs."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from thalweg.errors import OptionError
from thalweg.spark.buckets import default_partitions
from thalweg.spark.packing import BATCH_ROWS

_BATCH_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
_ANY_BYTES, _FEW_BYTES = (1 << 31) - 1, 1 << 26
"""Spark holds a batch that it hands to Python below a number of bytes by measuring it again after every row. That takes
longer than all else that it does with a row of numbers. It does not measure where any number will do: where the
rows of a batch are too few to exceed what Arrow can hold, unless they are huge."""


def check_session(given: object) -> None:
    """Refuse what is no session that queries can be put together in."""
    kind = f"{type(given).__module__}.{type(given).__qualname__}"
    if ".connect." in kind:
        raise OptionError(
            "thalweg.App runs in the driver of a classic Spark session, and was given a session of Spark Connect "
            f"({kind}). A client of Spark Connect does not reach the driver's JVM, in which thalweg puts queries "
            "together. Run the job in the driver: with spark-submit, or with "
            'SparkSession.builder.config("spark.api.mode", "classic").'
        )
    if not hasattr(given, "_jsparkSession"):
        raise OptionError(
            f"App({given!r}): what an app takes first is a SparkSession. A directory has a name: App(directory=...)."
        )


def operator_session(spark: SparkSession) -> SparkSession:
    """A session of the same Spark with the settings that the operator needs; the caller's stays as it is."""
    clone = SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())
    for name, value in {
        "spark.sql.shuffle.partitions": str(default_partitions(spark.sparkContext.defaultParallelism)),
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        # Every attempt at a batch has state files of its own, and the commit says which of them count.
        "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(BATCH_ROWS),
        # With this, workers that pack and workers that join would be told apart, and each kind started by itself.
        "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
        # Times mean the same as in process. Whether what cannot be computed is an error or NULL, the session says.
        "spark.sql.session.timeZone": "UTC",
    }.items():
        clone.conf.set(name, value)
    if clone.conf.get(_BATCH_BYTES, "1") == "1":  # not set: what the caller set stands
        clone.conf.set(_BATCH_BYTES, str(_ANY_BYTES))
    return clone


def measure_huge(spark: SparkSession, schema: pa.Schema) -> None:
    """Have Spark measure the batches that it hands to Python from now on, if rows of this kind may be huge."""
    is_unmeasured = spark.conf.get(_BATCH_BYTES) == str(_ANY_BYTES)
    if is_unmeasured and any(map(_may_be_huge, schema.types)):
        spark.conf.set(_BATCH_BYTES, str(_FEW_BYTES))


def _may_be_huge(kind: pa.DataType) -> bool:
    """Whether values tend to be documents, pictures or long lists, of which a few thousand may not fit a batch."""
    return any(is_such(kind) for is_such in (pa.types.is_nested, pa.types.is_binary, pa.types.is_large_binary))


def moved(df: DataFrame, session: SparkSession) -> DataFrame:
    """The same DataFrame in another session of the same Spark."""
    jvm: Any = session._jvm
    java = jvm.org.apache.spark.sql.classic.Dataset.ofRows(session._jsparkSession, df._jdf.logicalPlan())
    return DataFrame(java, session)
