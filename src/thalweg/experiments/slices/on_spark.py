"""Registered queries on Spark: many over one join against one that has all of their results; how soon one more enters.

The one query selects all rows. The many select disjoint shares of the same rows, so that all of them together publish
exactly the rows of the one: what is compared is what serving many costs, at equal output.

A query that is registered while they run takes effect at the boundary of a batch. What is timed is how long that takes
from the call until its first results are published, in seconds and in triggers that bring rows: the one that is going
on when it is registered counts as the first.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from thalweg.errors import ThalwegError
from thalweg.experiments import machine
from thalweg.experiments.experiment import Claim, Report, Row, at_most, rounded
from thalweg.experiments.micro_batches import Files, MicroBatches, file_name, rows_of_files, window_first, write
from thalweg.experiments.slices.sizes import ON_SPARK, SEED, OnSpark
from thalweg.experiments.workloads import Workload
from thalweg.spark.app import App
from thalweg.spark.metrics import metrics_of
from thalweg.spark.session import local_session

PART = ON_SPARK
ENTERING = "a query enters a run on Spark"

_LATE = "late"
_PATIENCE_SECONDS = 120.0
_LOOK_SECONDS = 0.02


def serve_on_spark(sizes: OnSpark, report: Report) -> tuple[list[Row], list[Claim]]:
    """Triggers of one query, and of many with the same results; then one more enters beside them."""
    report(f"{PART}: Spark starts")
    spark = local_session(machine.cores())
    served: list[Row] = []
    entered: list[Row] = []
    claims: list[Claim] = []
    for streams in sizes.streams:
        workload = Workload(
            streams=streams, keys=sizes.keys, rate=sizes.rate, window_us=round(sizes.window_s * 1_000_000)
        )
        with tempfile.TemporaryDirectory(prefix="thalweg-bench-") as scratch:
            report(f"{PART}: {streams} streams are written")
            ends = window_first(workload, sizes.rows, sizes.triggers)
            batches = write(Path(scratch, "files"), workload, ends, SEED)
            found, claim = _serve(spark, batches, sizes, Path(scratch), report)
            served += found
            claims.append(claim)
            entered += _enter(spark, batches, sizes, Path(scratch), report)
    most = max(int(str(row["most_triggers"])) for row in entered)
    claims.append(at_most("on Spark: triggers until a query that is registered has results", most, 2))
    return [*served, *entered], claims


def _serve(
    spark: SparkSession, batches: MicroBatches, sizes: OnSpark, scratch: Path, report: Report
) -> tuple[list[Row], Claim]:
    streams = batches.files.workload.streams
    seconds: dict[int, list[float]] = {count: [] for count in sizes.queries}
    _run(spark, batches, sizes, 1, scratch / "warm-up")
    for turn in range(sizes.rounds):
        for count in sizes.queries[:: -1 if turn % 2 else 1]:
            report(f"{PART}: {streams} streams, {count:,} queries, {turn + 1} of {sizes.rounds}")
            seconds[count] += _run(spark, batches, sizes, count, scratch / f"{turn} {count}")
    medians = {count: statistics.median(each) for count, each in seconds.items()}
    rows: list[Row] = [
        {
            "part": PART,
            "streams": streams,
            "queries": count,
            "rows_per_trigger": sizes.rows,
            "triggers": len(each),
            "trigger_seconds": rounded(medians[count]),
            "fastest": rounded(min(each)),
            "slowest": rounded(max(each)),
            "times_one": rounded(medians[count] / medians[1]),
        }
        for count, each in seconds.items()
    ]
    many = 100 if 100 in medians else max(medians)
    claim = f"on Spark, {streams} streams: {many} registered queries / one with the same results, seconds per trigger"
    return rows, at_most(claim, medians[many] / medians[1], 1.5)


def _app(spark: SparkSession, batches: MicroBatches, sizes: OnSpark, count: int, directory: Path) -> App:
    """An app with so many queries, which share out the results."""
    app = App(spark, directory=directory)
    for name, frame in batches.files.frames(spark, sizes.triggers).items():
        app.stream(name, frame, time="ts")
    for number in range(count):
        app.register(f"q{number}", _share(batches, number, count))
    return app


def _share(batches: MicroBatches, number: int, count: int) -> str:
    text, window = batches.files.cql.split("\nWINDOW")
    return f"{text} AND s1.id % {count} = {number}\nWINDOW{window}"


def _run(spark: SparkSession, batches: MicroBatches, sizes: OnSpark, count: int, scratch: Path) -> list[float]:
    """The seconds of the steady triggers of so many queries; their results are compared with those of a bare join."""
    app = _app(spark, batches, sizes, count, scratch / "app")
    started = app.start(scratch / "runs", trigger={"availableNow": True})
    started.awaitTermination()
    (query,) = started.runs.values()
    told = [progress for progress in query.recentProgress if rows_of_files(progress)]
    directories = [row["directory"] for row in app.queries()]
    found = [pq.read_table(path).to_pandas().to_numpy() for path in directories if any(Path(path).glob("*.parquet"))]
    if sorted(map(tuple, np.concatenate(found).tolist())) != sorted(map(tuple, batches.ids.T.tolist())):
        raise ThalwegError(f"{count} registered queries published other results than the join has")
    return [progress.durationMs["triggerExecution"] / 1_000 for progress in told[sizes.warm_up :]]


def _enter(spark: SparkSession, batches: MicroBatches, sizes: OnSpark, scratch: Path, report: Report) -> list[Row]:
    rows: list[Row] = []
    streams = batches.files.workload.streams
    for count in sizes.queries:
        seconds, triggers = [], []
        for turn in range(sizes.rounds):
            report(f"{ENTERING}: {streams} streams, beside {count:,}, {turn + 1} of {sizes.rounds}")
            took, passed = _enter_once(spark, batches, sizes, count, scratch / f"entering {turn} {count}")
            seconds.append(took)
            triggers.append(passed)
        rows.append(
            {
                "part": ENTERING,
                "streams": streams,
                "queries": count,
                "seconds": rounded(statistics.median(seconds)),
                "slowest": rounded(max(seconds)),
                "most_triggers": max(triggers),
            }
        )
    return rows


def _enter_once(
    spark: SparkSession, batches: MicroBatches, sizes: OnSpark, count: int, scratch: Path
) -> tuple[float, int]:
    """Seconds and triggers until a query that is registered beside so many others has results."""
    feed = _Feed(batches.files, scratch / "files")
    feed.bring(sizes.warm_up)
    app = _app(spark, replace(batches, files=feed.files), sizes, count, scratch / "app")
    started, began = app.start(scratch / "runs"), time.perf_counter()
    try:
        (query,) = started.runs.values()
        while _taken(query) < sum(feed.files.rows(sizes.warm_up)):
            _look(query, "its first files are not taken", began)
        before, asked = _last_batch(query), time.perf_counter()
        feed.bring(1)
        app.register(_LATE, _share(batches, 0, 2))
        while (first := _first_results(query)) is None:
            if _taken(query) >= sum(feed.files.rows(feed.brought)):
                feed.bring(1)
            _look(query, "a query that was registered has no results", asked)
        passed = [each for each in query.recentProgress if rows_of_files(each) and before < each.batchId <= first]
        return time.perf_counter() - asked, len(passed)
    finally:
        started.stop()


class _Feed:
    """Files that come one after the other, as they are taken: so a run goes on for as long as somebody looks at it.

    Attributes:
        files: where they come to be.
        brought: how many of each stream have.

    """

    def __init__(self, files: Files, directory: Path) -> None:
        self.files = replace(files, directory=directory)
        self.brought = 0
        self._from = files.directory
        for name in files.workload.names:
            (directory / name).mkdir(parents=True)

    def bring(self, count: int) -> None:
        """Let the next files be there."""
        for number in range(self.brought, self.brought + count):
            for name in self.files.workload.names:
                place = Path(name, file_name(number))
                os.link(self._from / place, self.files.directory / place)
        self.brought += count


def _look(query: StreamingQuery, what: str, since: float) -> None:
    """Wait a moment before the next look at a run, if it still goes on."""
    if not query.isActive or time.perf_counter() - since > _PATIENCE_SECONDS:
        raise ThalwegError(f"{what} after {_PATIENCE_SECONDS:g} seconds, or the run has ended")
    time.sleep(_LOOK_SECONDS)


def _taken(query: StreamingQuery) -> int:
    """The rows that a run has taken from files."""
    return sum(map(rows_of_files, query.recentProgress))


def _last_batch(query: StreamingQuery) -> int:
    progress = query.lastProgress
    return -1 if progress is None else int(progress.batchId)


def _first_results(query: StreamingQuery) -> int | None:
    """The batch that brought the first results of the one that came late."""
    for progress in query.recentProgress:
        if rows_of_files(progress) and metrics_of(progress)["queries"].get(_LATE, 0):
            return int(progress.batchId)
    return None
