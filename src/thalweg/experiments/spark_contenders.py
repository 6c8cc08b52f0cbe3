"""Who computes a workload's join on Spark, each ready to run over the same files."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from thalweg.experiments import answers
from thalweg.experiments.answers import Ids
from thalweg.experiments.micro_batches import (
    WARM_UP,
    Metrics,
    MicroBatches,
    Run,
    check_results,
    check_rows,
    no_metrics,
    run,
)
from thalweg.experiments.peers import spark_chain, spark_floor
from thalweg.options import Options
from thalweg.spark.app import App

FLOOR = "the floor: scan, shuffle, Python"
THALWEG = "thalweg"
DEFAULT_STORE = "Spark's joins, default state store"
ROCKSDB_STORE = "Spark's joins, RocksDB state store"


@dataclass(frozen=True, slots=True)
class Contender:
    """One way to run over files.

    ``query`` makes a streaming DataFrame over the first so many triggers; ``joins`` is whether that is the join.
    """

    name: str
    spark: SparkSession
    query: Callable[[MicroBatches, int], DataFrame]
    metrics: Metrics = no_metrics
    joins: bool = True

    def timed(self, files: MicroBatches, triggers: int, warm_up: int = WARM_UP) -> Run:
        """Run, drop the answer, and see that the rows and the number of results were right."""
        with tempfile.TemporaryDirectory(prefix="thalweg-bench-") as scratch:
            self._clear()
            found = run(self.query(files, triggers), self.metrics, Path(scratch), "noop")
        check_rows(self.name, found, files, triggers)
        check_results(self.name, found, files.results(triggers) if self.joins else sum(files.rows(triggers)))
        return replace(found, warm_up=warm_up)

    def restarted(self, files: MicroBatches, triggers: int) -> tuple[Run, Run]:
        """Run over the first so many triggers, and then over the others from its checkpoint, in a new run."""
        with tempfile.TemporaryDirectory(prefix="thalweg-bench-") as scratch:
            self._clear()
            before = run(self.query(files, triggers), self.metrics, Path(scratch), "noop")
            self._clear()
            after = run(self.query(files, len(files.ends)), self.metrics, Path(scratch), "noop")
        whole = Run((*before.triggers, *after.triggers))
        check_rows(self.name, whole, files, len(files.ends))
        check_results(self.name, whole, files.results(len(files.ends)))
        return before, after

    def answer(self, files: MicroBatches) -> Ids:
        """Run over all files and keep the answer: the ids of the results."""
        with tempfile.TemporaryDirectory(prefix="thalweg-bench-") as scratch:
            kept = Path(scratch, "answer")
            triggers = len(files.ends)
            found = run(self.query(files, triggers), self.metrics, Path(scratch, "checkpoint"), "parquet", kept)
            ids = answers.ids_of(pq.read_table(kept, columns=list(files.workload.outputs)))
        check_rows(self.name, found, files, triggers)
        return ids

    def _clear(self) -> None:
        """Nobody pays for what the one before left in Spark's memory: states of queries that have ended stay loaded."""
        jvm: Any = self.spark.sparkContext._jvm
        stores = getattr(jvm.org.apache.spark.sql.execution.streaming.state, "StateStore$")
        getattr(stores, "MODULE$").stop()
        jvm.java.lang.System.gc()


def thalweg(spark: SparkSession, directory: Path, options: Options | None = None) -> Contender:
    """Thalweg as a user has it: ``App.stream`` and ``App.sql``. ``directory`` is for its commands; there are none."""
    app = App(spark, directory=directory)

    def query(files: MicroBatches, triggers: int) -> DataFrame:
        for name, frame in files.frames(spark, triggers).items():
            app.stream(name, frame, time="ts")
        return app.sql(files.workload.cql, options)

    return Contender(THALWEG, spark, query, lambda progress: app.metrics(progress=progress))


def default_store(spark: SparkSession) -> Contender:
    """Spark's chained joins with the state store that it has by default."""
    return _chained(DEFAULT_STORE, spark_chain.session(spark, spark_chain.DEFAULT_STORE))


def rocksdb_store(spark: SparkSession) -> Contender:
    """Spark's chained joins with state in RocksDB, where Thalweg has its own."""
    return _chained(ROCKSDB_STORE, spark_chain.session(spark, spark_chain.ROCKSDB_STORE))


def _chained(name: str, spark: SparkSession) -> Contender:
    def query(files: MicroBatches, triggers: int) -> DataFrame:
        return spark_chain.chain(files.workload, files.frames(spark, triggers))

    return Contender(name, spark, query)


def floor(spark: SparkSession) -> Contender:
    """No join at all."""
    own = spark_chain.session(spark, spark_floor.FLOOR_SETTINGS)

    def query(files: MicroBatches, triggers: int) -> DataFrame:
        return spark_floor.floor(files.frames(own, triggers), spark.sparkContext.defaultParallelism)

    return Contender(FLOOR, own, query, joins=False)


def everyone(spark: SparkSession, directory: Path) -> dict[str, Contender]:
    """All contenders by name, in the order in which they run: those that fill the heap come last."""
    ordered = (floor(spark), thalweg(spark, directory), rocksdb_store(spark), default_store(spark))
    return {contender.name: contender for contender in ordered}
