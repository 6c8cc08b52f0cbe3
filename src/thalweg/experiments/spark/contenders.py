"""Who computes a workload's join on Spark. Each has settings for a Spark of its own.

Tried for Spark's joins, and left as Spark has it. All in seconds of processor time that the JVM took for six triggers
of 100,000 rows, because the machine was busy with other work:

- the default store with the parallel garbage collector: 61 and 59, with G1 63 and 60 (two runs each);
- RocksDB, state format 4, with a block cache of 256 MB (8) and up to three write buffers of 128 MB: 75, without 72.

The same settings for state format 2 were not compared: neither run ended within 130 seconds. Memory of RocksDB is not
bounded (``boundedMemoryUsage``), which is Spark's default.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from thalweg.experiments import machine
from thalweg.experiments.micro_batches import Files, Metrics, no_metrics
from thalweg.experiments.peers import spark_chain, spark_floor
from thalweg.options import Options
from thalweg.spark.app import App

FLOOR = "the floor: scan, shuffle, Python"
THALWEG = "thalweg"
DEFAULT_STORE = "Spark's joins, default state store"
ROCKSDB_2 = "Spark's joins, RocksDB, state format 2"
ROCKSDB_4 = "Spark's joins, RocksDB, state format 4"
SPARKS = (DEFAULT_STORE, ROCKSDB_2, ROCKSDB_4)
"""Spark's own joins."""


@dataclass(frozen=True, slots=True)
class Task:
    """What a query is made of.

    Attributes:
        files, triggers: the input: the files of the first so many triggers.
        directory: for Thalweg's commands; there are none.
        buckets: Thalweg's, if not as many as it has by default.

    """

    files: Files
    triggers: int
    directory: Path
    buckets: int | None = None


Query = tuple[DataFrame, Metrics]


@dataclass(frozen=True, slots=True)
class Contender:
    """One way to run over files.

    ``settings`` are those of its Spark; ``query`` makes a streaming DataFrame; ``joins`` is whether that is the join.
    """

    name: str
    settings: Mapping[str, str]
    query: Callable[[SparkSession, Task], Query]
    joins: bool = True


def _thalweg(spark: SparkSession, task: Task) -> Query:
    """Thalweg as a user has it: ``App.stream`` and ``App.sql``."""
    app = App(spark, directory=task.directory)
    for name, frame in task.files.frames(spark, task.triggers).items():
        app.stream(name, frame, time="ts")
    answer = app.sql(task.files.cql, Options(buckets=task.buckets))
    return answer, lambda progress: app.metrics(progress=progress)


def _chained(spark: SparkSession, task: Task) -> Query:
    return spark_chain.chain(task.files.workload, task.files.frames(spark, task.triggers)), no_metrics


def _floor(spark: SparkSession, task: Task) -> Query:
    frames = task.files.frames(spark, task.triggers)
    return spark_floor.floor(frames, spark.sparkContext.defaultParallelism), no_metrics


_ALIKE = {"spark.sql.shuffle.partitions": str(machine.cores())}
"""One partition of state, and one task, for each core, as Thalweg has it. The session itself is everyone's: it has the
fast way to write a checkpoint to a local disk."""

EVERYONE: dict[str, Contender] = {
    contender.name: contender
    for contender in (
        Contender(FLOOR, _ALIKE | spark_floor.SETTINGS, _floor, joins=False),
        Contender(THALWEG, {}, _thalweg),
        Contender(DEFAULT_STORE, _ALIKE | spark_chain.DEFAULT_STORE, _chained),
        Contender(ROCKSDB_2, _ALIKE | spark_chain.ROCKSDB_FORMAT_2, _chained),
        Contender(ROCKSDB_4, _ALIKE | spark_chain.ROCKSDB_FORMAT_4, _chained),
    )
}
"""All contenders by name, in the order in which they run."""
