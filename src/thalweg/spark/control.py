"""Commands to running queries, as one more stream of each query: they reach all its buckets in the same batch."""

from __future__ import annotations

import json

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from thalweg.engine.time_bounds import NEVER
from thalweg.spark import data_sources
from thalweg.spark.command_files import CommandFiles
from thalweg.spark.command_source import MOST_COMMANDS, QUERY, CommandSource
from thalweg.spark.description import Description


def register(spark: SparkSession) -> None:
    """Let a session know the source of commands."""
    data_sources.register(spark, CommandSource)


def commands(
    spark: SparkSession,
    files: CommandFiles,
    bucket_keys: tuple[int, ...],
    name: str,
    described: Description,
    *,
    tells_starts: bool,
    is_ending: bool = False,
    prices: str = "",
) -> DataFrame:
    """The commands that are sent from now on as packed rows, each for every bucket.

    ``name`` is the query's, ``described`` what a checkpoint remembers of it. ``tells_starts``,
    ``is_ending`` and ``prices``: see :class:`CommandSource`.
    """
    files.prepare()
    source = (
        spark.readStream.format(CommandSource.name())
        .option("directory", files.address)
        .option("before", json.dumps(files.names()))
        .option("most", MOST_COMMANDS)
        .option(QUERY, json.dumps(described))
        .option("name", name)
        .option("tells_starts", tells_starts)
        .option("is_ending", is_ending)
        .option("prices", prices)
        .load()
    )
    return source.select(
        F.explode(F.array(*(F.lit(key).cast("int") for key in bucket_keys))).alias("bucket"),
        F.lit(-1).cast("int").alias("stream"),
        F.lit(0).cast("bigint").alias("place"),
        F.lit(None).cast("binary").alias("body"),
        F.lit(None).cast("binary").alias("rejected"),
        F.lit(NEVER).cast("bigint").alias("newest"),
        F.lit(0).cast("bigint").alias("moment"),
        F.lit(0).cast("bigint").alias("bad"),
        F.col("command"),
    )
