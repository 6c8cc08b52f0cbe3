"""Commands to a running query, as a stream like any other.

A command is a small JSON file in a directory that the query reads as one of its inputs, so it reaches all buckets in
the same batch, and a batch that is run again after a crash meets the same commands.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from thalweg.engine.instants import NEVER
from thalweg.errors import OptionError
from thalweg.spark.commands import Command, parse_command

_SCHEMA = "command STRING"


def send(directory: Path, command: Command) -> Path:
    """Put a command where the query reads it; commands are obeyed in the order in which they were sent."""
    directory.mkdir(parents=True, exist_ok=True)
    name = f"{command['at']}-{uuid.uuid4().hex[:8]}.json"
    hidden = directory / f".{name}"
    # The time leads, so that sorting the texts puts commands of one batch into their order.
    hidden.write_text(json.dumps({"command": json.dumps(command)}) + "\n")
    return hidden.replace(directory / name)


def sent(directory: Path) -> Iterator[Command]:
    """The commands in a directory; what is none is passed over, as the query refuses it."""
    for file in sorted(directory.glob("[!.]*.json")):
        try:
            yield parse_command(json.loads(file.read_text())["command"])
        except (ValueError, KeyError, TypeError, OptionError):
            continue


def commands(spark: SparkSession, directory: Path, bucket_keys: tuple[int, ...]) -> DataFrame:
    """The commands of a directory as packed rows, each for every bucket."""
    directory.mkdir(parents=True, exist_ok=True)
    place = f"file:{directory.absolute()}"  # Spark takes spaces and the like as they are
    source = spark.readStream.schema(_SCHEMA).json(place)
    return source.where("command IS NOT NULL").select(
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
