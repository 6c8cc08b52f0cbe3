"""The drifting streams again on Spark, where every bucket decides for itself."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from thalweg.experiments import machine
from thalweg.experiments.experiment import Claim, Report, Row, at_least, rounded
from thalweg.experiments.jisc.adaptivity import ADAPTIVE, INITIAL, Star, against_static, contenders_of
from thalweg.experiments.jisc.sizes import SEED, OnSpark
from thalweg.experiments.micro_batches import WARM_UP, Run, check_results, run
from thalweg.options import Options
from thalweg.replayer import run as replayed
from thalweg.spark.app import App
from thalweg.spark.session import local_session

PART = "adaptivity: drifting streams on Spark"

_LONG_AGO = 1_000_000_000
"""Seconds since 1970: files are taken in the order of their ages."""


def drifting_on_spark(sizes: OnSpark, report: Report) -> tuple[list[Row], list[Claim]]:
    """The adaptive plan against those that stay what they are.

    Wrong orders are dearer here, since a good part of a trigger is Spark's own. One run that is not counted comes
    first: Java is slower until it has compiled what runs often.
    """
    report("starting Spark")
    spark = local_session(machine.cores())
    star = Star(sizes.streams, sizes.combinations)
    seconds = sizes.phase_triggers * sizes.trigger_tuples / star.rate
    tables = star.tables(np.random.default_rng(SEED), sizes.phases, seconds)
    results = replayed(star.cql, tables).summary.results
    runs: dict[str, Run] = {}
    with tempfile.TemporaryDirectory(prefix="thalweg-bench-") as scratch:
        files = Path(scratch, "files")
        _write(files, tables, sizes.phases * sizes.phase_triggers)
        contenders = contenders_of(star, sizes.phases, seconds)
        report("drifting on Spark: Java warms up")
        _run(spark, star, tables, files, Path(scratch, "warm-up"), contenders[ADAPTIVE])
        for number, (name, options) in enumerate(contenders.items()):
            report(f"drifting on Spark: {name}")
            runs[name] = _run(spark, star, tables, files, Path(scratch, str(number)), options)
            check_results(name, runs[name], results)
    took = {name: sum(trigger.seconds for trigger in found.steady) for name, found in runs.items()}
    rows = [_row(name, star, found) for name, found in runs.items()] + against_static(PART, star, took)
    gain = took[INITIAL] / took[ADAPTIVE]
    return rows, [at_least("drifting streams on Spark: adaptive / the initial plan, rows/s", gain, 2)]


def _write(directory: Path, tables: Mapping[str, pa.Table], triggers: int) -> None:
    """A file per stream and trigger, cut at common times."""
    end = max(int(table["ts"][-1].as_py()) for table in tables.values()) + 1
    for name, table in tables.items():
        (directory / name).mkdir(parents=True)
        cuts = np.searchsorted(table["ts"].to_numpy(), np.linspace(0, end, triggers + 1))
        timed = table.set_column(0, "ts", table["ts"].cast(pa.timestamp("us", "UTC")))
        for trigger in range(triggers):
            path = directory / name / f"{trigger:04d}.parquet"
            pq.write_table(timed.slice(cuts[trigger], cuts[trigger + 1] - cuts[trigger]), path)
            os.utime(path, (_LONG_AGO + trigger, _LONG_AGO + trigger))


def _run(
    spark: SparkSession, star: Star, tables: Mapping[str, pa.Table], files: Path, scratch: Path, options: Options
) -> Run:
    app = App(spark, directory=scratch / "app")
    for name, table in tables.items():
        columns = ", ".join(f"{column} {'TIMESTAMP' if column == 'ts' else 'BIGINT'}" for column in table.column_names)
        frame = spark.readStream.schema(columns).option("maxFilesPerTrigger", 1).parquet(str(files / name))
        app.stream(name, frame, time="ts")
    answer = app.sql(star.cql, options)
    return run(answer, lambda progress: app.metrics(progress=progress), scratch / "checkpoint", "noop")


def _row(name: str, star: Star, found: Run) -> Row:
    seconds = sum(trigger.seconds for trigger in found.steady)
    return {
        "part": PART,
        "contender": name,
        "streams": star.streams,
        "tuples": sum(trigger.rows for trigger in found.triggers),
        "results": found.results,
        "triggers": len(found.steady),
        "not_counted": WARM_UP,
        "rows_per_s": round(sum(trigger.rows for trigger in found.steady) / seconds),
        "trigger_seconds": rounded(seconds / len(found.steady)),
        "probing_seconds": rounded(sum(_probing(trigger.metrics["seconds"]) for trigger in found.steady)),
        "buckets": found.buckets,
        "probes": sum(trigger.metrics["probes"] for trigger in found.steady),
        "completions": sum(trigger.metrics["completions"] for trigger in found.steady),
        "plan_changes": sum(bucket["plan_changes"] for bucket in found.triggers[-1].metrics["buckets"]),
    }


def _probing(seconds: Mapping[str, float]) -> float:
    """The compiled join and what is around it, with the completion of keys that is part of it."""
    return seconds["probe"] + seconds["complete"]
