"""A workload as files that Spark takes one per stream and trigger, and what its triggers took.

The first trigger brings as many tuples as a window holds, every later one an equal share. So a query has full
windows and warm code behind it when its second trigger begins, and has dropped a whole share of state when its
third ends: from the third on, triggers are *steady*, and only they are compared. Where triggers are short, more of
them are left out: the Java runtime compiles what it has seen often, on the same cores, for half a minute and more.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.listener import StreamingQueryProgress

from thalweg.errors import ThalwegError
from thalweg.experiments.answers import Ids
from thalweg.experiments.peers import mjoin
from thalweg.experiments.workloads import MICROSECONDS, Workload

WARM_UP = 2
"""Triggers that are never compared."""

_SCHEMA = pa.schema({"ts": pa.timestamp("us", "UTC"), "k": pa.int64(), "id": pa.int64()})
_SPARK_SCHEMA = "ts TIMESTAMP, k BIGINT, id BIGINT"
_LONG_AGO = 1_000_000_000
"""Seconds since 1970: files are taken in the order of their ages, which writing them does not make distinct enough."""


Metrics = Callable[[StreamingQueryProgress], dict[str, Any]]
"""Finds Thalweg's metrics in what Spark reports of a micro-batch."""


@dataclass(frozen=True, slots=True)
class MicroBatches:
    """Files of a workload.

    Attributes:
        directory: has a directory for each stream, with a file for each trigger.
        workload: what the files hold.
        ends: for each trigger, how many tuples of each stream there are up to its end.
        ids: the results of the join, by the bare M-Join kernel.

    """

    directory: Path
    workload: Workload
    ends: tuple[int, ...]
    ids: Ids

    def rows(self, triggers: int) -> list[int]:
        """The rows of all streams in each of the first triggers."""
        return [self.workload.streams * share for share in np.diff(self.ends[:triggers], prepend=0).tolist()]

    def results(self, triggers: int) -> int:
        """The results among the tuples of the first triggers.

        A join that emits its results as they arise has emitted these by then: none of them waits for a watermark.
        """
        return int((self.ids < self.ends[triggers - 1]).all(axis=0).sum())

    def frames(self, spark: SparkSession, triggers: int) -> dict[str, DataFrame]:
        """The streams, as far as the first triggers go."""
        files = "{" + ",".join(map(_file, range(triggers))) + "}"
        return {
            name: spark.readStream.schema(_SPARK_SCHEMA)
            .option("maxFilesPerTrigger", 1)
            .parquet(str(self.directory / name / files))
            for name in self.workload.names
        }


def write(directory: Path, workload: Workload, rows: int, triggers: int, seed: int) -> MicroBatches:
    """Write a workload of as many tuples as the triggers take, ``rows`` in each of them but the first."""
    share = rows // workload.streams
    ends = tuple(tuples_of_window(workload) + share * trigger for trigger in range(triggers))
    workload = replace(workload, tuples=ends[-1])
    arrivals = workload.arrivals(np.random.default_rng(seed))
    for name, table in arrivals.items():
        (directory / name).mkdir(parents=True)
        for trigger, (start, end) in enumerate(zip((0, *ends), ends, strict=False)):
            path = directory / name / _file(trigger)
            pq.write_table(table.slice(start, end - start).cast(_SCHEMA), path)
            os.utime(path, (_LONG_AGO + trigger, _LONG_AGO + trigger))
    ids = mjoin.join(mjoin.merge(arrivals, workload.window_us), workload.window_us)
    return MicroBatches(directory, workload, ends, ids)


def _file(trigger: int) -> str:
    return f"{trigger:04d}.parquet"


@dataclass(frozen=True, slots=True)
class Trigger:
    """What is known of a micro-batch.

    Attributes:
        rows, results: what went in and out; a sink that does not count has -1 results.
        seconds: how long the whole of it took.
        parts: Spark's own division of that time.
        metrics: Thalweg's, as ``App.metrics`` has them; empty in other queries.

    """

    rows: int
    results: int
    seconds: float
    parts: dict[str, float]
    metrics: dict[str, Any]

    @staticmethod
    def of(progress: StreamingQueryProgress, metrics: Metrics) -> Trigger:
        parts = {name: milliseconds / 1000 for name, milliseconds in progress.durationMs.items()}
        return Trigger(
            rows=progress.numInputRows,
            results=progress.sink.numOutputRows,
            seconds=parts.pop("triggerExecution"),
            parts=parts,
            metrics=metrics(progress),
        )


@dataclass(frozen=True, slots=True)
class Run:
    """The triggers of a query, from its first; the first ``warm_up`` are not compared.

    >>> calls = [Trigger(10, 0, seconds, {"addBatch": 0.5}, {}) for seconds in (9.0, 5.0, 1.0, 3.0, 2.0)]
    >>> run = Run(tuple(calls))
    >>> run.seconds, run.fastest, run.slowest, run.rows_per_second, run.part("addBatch")
    (2.0, 1.0, 3.0, 5.0, 0.5)
    """

    triggers: tuple[Trigger, ...]
    warm_up: int = WARM_UP

    @property
    def steady(self) -> tuple[Trigger, ...]:
        return self.triggers[self.warm_up :]

    @property
    def results(self) -> int:
        return sum(trigger.results for trigger in self.triggers)

    @property
    def seconds(self) -> float:
        """Of a steady trigger: the median."""
        return statistics.median(trigger.seconds for trigger in self.steady)

    @property
    def fastest(self) -> float:
        return min(trigger.seconds for trigger in self.steady)

    @property
    def slowest(self) -> float:
        return max(trigger.seconds for trigger in self.steady)

    @property
    def rows_per_second(self) -> float:
        return self.steady[0].rows / self.seconds

    def part(self, name: str) -> float:
        """Seconds that a steady trigger spent in a part of Spark's: the median."""
        return statistics.median(trigger.parts.get(name, 0.0) for trigger in self.steady)

    def phases(self) -> dict[str, float]:
        """Seconds that Thalweg's buckets, taken together, spent in each phase of a steady trigger: the medians."""
        spent = [trigger.metrics["seconds"] for trigger in self.steady]
        return {name: statistics.median(each[name] for each in spent) for name in spent[0]}

    @property
    def rebuilds(self) -> int:
        """How often, in the steady triggers, one of Thalweg's buckets had to be made anew from its log."""
        return sum(trigger.metrics["rebuilds"] for trigger in self.steady)

    @property
    def buckets(self) -> int:
        return len(self.triggers[-1].metrics["buckets"])

    @property
    def state_bytes(self) -> int:
        """Memory of Thalweg's buckets at the end."""
        held: int = self.triggers[-1].metrics["state_bytes"]
        return held


def no_metrics(progress: StreamingQueryProgress) -> dict[str, Any]:  # noqa: ARG001 - as others ask for it
    """The metrics of a query that is not Thalweg's."""
    return {}


def run(answer: DataFrame, metrics: Metrics, checkpoint: Path, sink: str, path: Path | None = None) -> Run:
    """Run a query over all files it can see; the triggers without rows, which only drop state, do not count."""
    writer = answer.writeStream.format(sink).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start(None if path is None else str(path))
    try:
        query.awaitTermination()
    finally:
        query.stop()
    return Run(tuple(Trigger.of(progress, metrics) for progress in query.recentProgress if progress.numInputRows))


def check_rows(name: str, found: Run, files: MicroBatches, triggers: int) -> None:
    """Raise unless every trigger took the rows of its files, and no others."""
    rows = [trigger.rows for trigger in found.triggers]
    if rows != files.rows(triggers):
        raise ThalwegError(f"{name} took {rows} rows in its triggers, and the files have {files.rows(triggers)}")


def check_results(name: str, found: Run, results: int) -> None:
    """Raise unless as many rows were delivered as there are results; for sinks that count them, as ``noop`` does."""
    if found.results != results:
        raise ThalwegError(f"{name} delivered {found.results} rows, and there are {results}")


def tuples_of_window(workload: Workload) -> int:
    """Tuples of a stream that a window holds.

    >>> tuples_of_window(Workload(rate=1_000, window_us=2_500_000))
    2500
    """
    return max(1, round(workload.rate * workload.window_us / MICROSECONDS))
