"""A workload as files that Spark takes one per stream and trigger, and what its triggers took.

The first trigger brings as many tuples as a window holds, every later one an equal share. So a query has full
windows and warm code behind it when its second trigger begins, and has dropped a whole share of state when its
third ends: from the third on, triggers may be *steady*, and only steady ones are compared. An experiment leaves out
more of them where triggers are short: the Java runtime compiles what it has seen often, on the same cores.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
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
_SPARK_TYPES = {pa.timestamp("us", "UTC"): "TIMESTAMP", pa.int64(): "BIGINT", pa.binary(): "BINARY"}
_VALUES = 1_000
"""Extra numbers are below this."""
_LONG_AGO = 1_000_000_000
"""Seconds since 1970: files are taken in the order of their ages, which writing them does not make distinct enough."""


Metrics = Callable[[StreamingQueryProgress], dict[str, Any]]
"""Finds Thalweg's metrics in what Spark reports of a micro-batch."""


@dataclass(frozen=True, slots=True)
class Extra:
    """Columns that every stream has beside its event time, key and id.

    Attributes:
        numbers: so many of BIGINT, which no query selects.
        payload: bytes of a BINARY, which the query selects; 0: there is none.

    """

    numbers: int = 0
    payload: int = 0

    @property
    def schema(self) -> pa.Schema:
        """All columns of a stream."""
        numbers = [pa.field(f"n{number}", pa.int64()) for number in range(1, self.numbers + 1)]
        return pa.schema([*_SCHEMA, *numbers, *([pa.field("payload", pa.binary())] if self.payload else [])])

    def with_columns(self, table: pa.Table, rng: np.random.Generator) -> pa.Table:
        """A stream's rows with random values in these columns."""
        rows = table.num_rows
        columns = table.cast(_SCHEMA).columns
        columns += [pa.array(rng.integers(0, _VALUES, rows)) for _ in range(self.numbers)]
        if self.payload:
            ends = pa.array(np.arange(rows + 1, dtype=np.int32) * self.payload).buffers()[1]
            columns.append(
                pa.Array.from_buffers(pa.binary(), rows, [None, ends, pa.py_buffer(rng.bytes(rows * self.payload))])
            )
        return pa.table(columns, schema=self.schema)


_NOTHING_MORE = Extra()


@dataclass(frozen=True, slots=True)
class Files:
    """Where the files of a workload are, and what they hold.

    Attributes:
        directory: has a directory for each stream, with a file for each trigger.
        workload: the join.
        ends: for each trigger, how many tuples of each stream there are up to its end.
        extra: what the streams have beside the columns of the workload.

    """

    directory: Path
    workload: Workload
    ends: tuple[int, ...]
    extra: Extra = _NOTHING_MORE

    @property
    def cql(self) -> str:
        """The query: it selects all ids, and all payloads."""
        if not self.extra.payload:
            return self.workload.cql
        payloads = ", ".join(f"{name}.payload AS payload_{name}" for name in self.workload.names)
        return self.workload.cql.replace("\nFROM", f", {payloads}\nFROM", 1)

    def rows(self, triggers: int) -> list[int]:
        """The rows of all streams in each of the first triggers."""
        return [self.workload.streams * share for share in np.diff(self.ends[:triggers], prepend=0).tolist()]

    def frames(self, spark: SparkSession, triggers: int) -> dict[str, DataFrame]:
        """The streams, as far as the first triggers go."""
        files = "{" + ",".join(map(file_name, range(triggers))) + "}"
        columns = ", ".join(f"{field.name} {_SPARK_TYPES[field.type]}" for field in self.extra.schema)
        return {
            name: spark.readStream.schema(columns)
            .option("maxFilesPerTrigger", 1)
            .parquet(str(self.directory / name / files))
            for name in self.workload.names
        }

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "directory": str(self.directory)}

    @staticmethod
    def from_json(known: dict[str, Any]) -> Files:
        """The files that :meth:`to_json` described."""
        return Files(
            Path(known["directory"]), Workload(**known["workload"]), tuple(known["ends"]), Extra(**known["extra"])
        )


@dataclass(frozen=True, slots=True)
class MicroBatches:
    """Files, and the results of their join by the bare M-Join kernel."""

    files: Files
    ids: Ids

    def results(self, triggers: int) -> int:
        """The results among the tuples of the first triggers.

        A join that emits its results as they arise has emitted these by then: none of them waits for a watermark.
        """
        return int((self.ids < self.files.ends[triggers - 1]).all(axis=0).sum())


def window_first(workload: Workload, rows: int, triggers: int) -> tuple[int, ...]:
    """Ends of triggers: a window's tuples in the first, an equal share of ``rows`` in all others.

    >>> window_first(Workload(streams=4, rate=1_000, window_us=2_000_000), 400, 3)
    (2000, 2100, 2200)
    """
    share = rows // workload.streams
    return tuple(tuples_of_window(workload) + share * trigger for trigger in range(triggers))


def write(
    directory: Path, workload: Workload, ends: tuple[int, ...], seed: int, extra: Extra = _NOTHING_MORE
) -> MicroBatches:
    """Write a workload of as many tuples as the triggers take."""
    workload = replace(workload, tuples=ends[-1])
    arrivals = workload.arrivals(np.random.default_rng(seed))
    rng = np.random.default_rng((seed, 1))
    for name, table in arrivals.items():
        (directory / name).mkdir(parents=True)
        for trigger, (start, end) in enumerate(zip((0, *ends), ends, strict=False)):
            path = directory / name / file_name(trigger)
            part = extra.with_columns(table.slice(start, end - start), rng)
            pq.write_table(part, path, use_dictionary=[name for name in part.column_names if name != "payload"])
            os.utime(path, (_LONG_AGO + trigger, _LONG_AGO + trigger))
    ids = mjoin.join(mjoin.merge(arrivals, workload.window_us), workload.window_us)
    return MicroBatches(Files(directory, workload, ends, extra), ids)


def file_name(trigger: int) -> str:
    """The file that a stream has for a trigger."""
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
            rows=rows_of_files(progress),
            results=progress.sink.numOutputRows,
            seconds=parts.pop("triggerExecution"),
            parts=parts,
            metrics=metrics(progress),
        )


def rows_of_files(progress: StreamingQueryProgress) -> int:
    """The rows that a trigger read from files; Thalweg's commands come from another source."""
    return sum(source.numInputRows for source in progress.sources if source.description.startswith("FileStreamSource"))


@dataclass(frozen=True, slots=True)
class Timings:
    """The triggers of a query, from its first; the first ``warm_up`` are not compared.

    >>> calls = [Trigger(10, 0, seconds, {"addBatch": 0.5}, {}) for seconds in (9.0, 5.0, 1.0, 3.0, 2.0)]
    >>> run = Timings(tuple(calls))
    >>> run.seconds, run.fastest, run.slowest, run.rows_per_second, run.part("addBatch")
    (2.0, 1.0, 3.0, 5.0, 0.5)
    >>> run.only(0).seconds
    9.0
    """

    triggers: tuple[Trigger, ...]
    warm_up: int = WARM_UP

    @property
    def steady(self) -> tuple[Trigger, ...]:
        return self.triggers[self.warm_up :]

    @property
    def first(self) -> Trigger:
        return self.triggers[0]

    def only(self, trigger: int) -> Timings:
        """One trigger of it, as if it were all."""
        return Timings((self.triggers[trigger],), warm_up=0)

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


def run(answer: DataFrame, metrics: Metrics, checkpoint: Path, sink: str, path: Path | None = None) -> Timings:
    """Run a query over all files it can see; the triggers without rows, which only drop state, do not count."""
    writer = answer.writeStream.format(sink).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start(None if path is None else str(path))
    try:
        query.awaitTermination()
    finally:
        query.stop()
    return Timings(tuple(Trigger.of(progress, metrics) for progress in query.recentProgress if rows_of_files(progress)))


def check_rows(name: str, found: Timings, rows: list[int]) -> None:
    """Raise unless every trigger took the rows of its files, and no others."""
    taken = [trigger.rows for trigger in found.triggers]
    if taken != rows:
        raise ThalwegError(f"{name} took {taken} rows in its triggers, and the files have {rows}")


def check_results(name: str, found: Timings, results: int) -> None:
    """Raise unless as many rows were delivered as there are results; for sinks that count them, as ``noop`` does."""
    if found.results != results:
        raise ThalwegError(f"{name} delivered {found.results} rows, and there are {results}")


def tuples_of_window(workload: Workload) -> int:
    """Tuples of a stream that a window holds.

    >>> tuples_of_window(Workload(rate=1_000, window_us=2_500_000))
    2500
    """
    return max(1, round(workload.rate * workload.window_us / MICROSECONDS))
