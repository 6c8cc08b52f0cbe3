"""Registered queries on Spark: many over one join against one that has all of their results.

The one query selects all rows. The many select disjoint shares of the same rows, so that all of them together publish
exactly the rows of the one: what is compared is what serving many costs, at equal output.
"""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from thalweg.errors import ThalwegError
from thalweg.experiments import machine
from thalweg.experiments.experiment import Claim, Report, Row, at_most, rounded
from thalweg.experiments.micro_batches import MicroBatches, rows_of_files, window_first, write
from thalweg.experiments.slices.sizes import SEED, OnSpark
from thalweg.experiments.workloads import Workload
from thalweg.spark.app import App
from thalweg.spark.session import local_session

PART = "registered queries on Spark"


def serve_on_spark(sizes: OnSpark, report: Report) -> tuple[list[Row], list[Claim]]:
    """Triggers of one query, and of many with the same results."""
    report("registered queries on Spark: Spark starts")
    spark = local_session(machine.cores())
    workload = Workload(streams=2, keys=sizes.keys, rate=sizes.rate, window_us=sizes.window_s * 1_000_000)
    seconds: dict[int, list[float]] = {count: [] for count in sizes.queries}
    with tempfile.TemporaryDirectory(prefix="thalweg-bench-") as scratch:
        batches = write(Path(scratch, "files"), workload, window_first(workload, sizes.rows, sizes.triggers), SEED)
        _run(spark, batches, sizes, 1, Path(scratch, "warm-up"))
        for turn in range(sizes.rounds):
            for count in sizes.queries[:: -1 if turn % 2 else 1]:
                report(f"{PART}: {count}, {turn + 1} of {sizes.rounds}")
                seconds[count] += _run(spark, batches, sizes, count, Path(scratch, f"{turn} {count}"))
    medians = {count: statistics.median(each) for count, each in seconds.items()}
    rows: list[Row] = [
        {
            "part": PART,
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
    claim = f"on Spark: {many} registered queries / one with the same results, seconds per trigger"
    return rows, [at_most(claim, medians[many] / medians[1], 1.5)]


def _run(spark: SparkSession, batches: MicroBatches, sizes: OnSpark, count: int, scratch: Path) -> list[float]:
    """The seconds of the steady triggers of so many queries; their results are compared with those of a bare join."""
    app = App(spark, directory=scratch / "app")
    for name, frame in batches.files.frames(spark, sizes.triggers).items():
        app.stream(name, frame, time="ts")
    text, window = batches.files.cql.split("\nWINDOW")
    for number in range(count):
        app.register(f"q{number}", f"{text} AND s1.id % {count} = {number}\nWINDOW{window}")
    started = app.start(scratch / "runs", trigger={"availableNow": True})
    started.awaitTermination()
    (query,) = started.runs.values()
    told = [progress for progress in query.recentProgress if rows_of_files(progress)]
    directories = [row["directory"] for row in app.queries()]
    found = [pq.read_table(path).to_pandas().to_numpy() for path in directories if any(Path(path).glob("*.parquet"))]
    if sorted(map(tuple, np.concatenate(found).tolist())) != sorted(map(tuple, batches.ids.T.tolist())):
        raise ThalwegError(f"{count} registered queries published other results than the join has")
    return [progress.durationMs["triggerExecution"] / 1_000 for progress in told[sizes.warm_up :]]
