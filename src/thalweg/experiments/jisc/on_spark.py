"""The drifting and the stationary streams again on Spark, where every bucket decides for itself."""

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
from thalweg.experiments.experiment import Claim, Report, Row, at_least, at_most, rounded
from thalweg.experiments.jisc.adaptivity import ADAPTIVE, INITIAL, Star, against_static, contenders_of
from thalweg.experiments.jisc.sizes import SEED, OnSpark
from thalweg.experiments.micro_batches import WARM_UP, Timings, check_results, run
from thalweg.options import Options
from thalweg.replayer import run as replayed
from thalweg.spark.app import App
from thalweg.spark.session import local_session

DRIFTING = "adaptivity: drifting streams on Spark"
STEADY = "adaptivity: stationary streams on Spark"

_LONG_AGO = 1_000_000_000
"""Seconds since 1970: files are taken in the order of their ages."""


def drifting_on_spark(sizes: OnSpark, report: Report) -> tuple[list[Row], list[Claim]]:
    """The adaptive plan against those that stay what they are.

    Wrong orders are dearer here, since a good part of a trigger is Spark's own.
    """
    rows: list[Row] = []
    gains = []
    for streams in sizes.streams:
        star = Star(streams, sizes.combinations)
        runs = _side_by_side(
            star, sizes, sizes.phases, contenders_of(star, sizes.phases, _seconds(star, sizes)), report
        )
        took = {name: sum(trigger.seconds for trigger in found[0].steady) for name, found in runs.items()}
        rows += [_row(DRIFTING, name, star, found[0]) for name, found in runs.items()]
        rows += against_static(DRIFTING, star, took)
        gains.append(took[INITIAL] / took[ADAPTIVE])
    claim = at_least("drifting streams on Spark: adaptive / the initial plan, rows/s", min(gains), 2)
    return sorted(rows, key=lambda row: str(row["part"])), [claim]


def stationary_on_spark(sizes: OnSpark, report: Report) -> tuple[list[Row], list[Claim]]:
    """Nothing to adapt to: the adaptive plan against the one that it begins with, chosen for these streams."""
    rows: list[Row] = []
    behind = []
    for streams in sizes.streams:
        star = Star(streams, sizes.combinations)
        contenders = contenders_of(star, 1, _seconds(star, sizes))
        runs = _side_by_side(star, sizes, 1, contenders, report, sizes.steady_rounds)
        best = {name: min(found, key=lambda run: run.seconds) for name, found in runs.items()}
        rows += [_row(STEADY, name, star, found) for name, found in best.items()]
        behind.append(best[ADAPTIVE].seconds / best[INITIAL].seconds)
    bar = "stationary streams on Spark: adaptive / the best static plan, time per trigger"
    return rows, [at_most(bar, max(behind), 1.05)]


def _seconds(star: Star, sizes: OnSpark) -> float:
    """How long a phase lasts, in event time."""
    return sizes.phase_triggers * sizes.trigger_tuples / star.rate


def _side_by_side(
    star: Star, sizes: OnSpark, phases: int, contenders: Mapping[str, Options], report: Report, rounds: int = 1
) -> dict[str, list[Timings]]:
    """Let contenders take turns.

    One run that is not counted comes first: Java is slower until it has compiled what runs often.
    """
    what = f"{'drifting' if phases > 1 else 'stationary'} on Spark, {star.streams} streams"
    report(f"{what}: Spark starts, Java warms up")
    spark = local_session(machine.cores())
    tables = star.tables(np.random.default_rng(SEED), phases, _seconds(star, sizes))
    results = replayed(star.cql, tables).summary.results
    runs: dict[str, list[Timings]] = {name: [] for name in contenders}
    with tempfile.TemporaryDirectory(prefix="thalweg-bench-") as scratch:
        files = Path(scratch, "files")
        _write(files, tables, phases * sizes.phase_triggers)
        _run(spark, star, tables, files, Path(scratch, "warm-up"), contenders[ADAPTIVE])
        for turn in range(rounds):
            for name in list(contenders)[:: -1 if turn % 2 else 1]:
                report(f"{what}: {name}, {turn + 1} of {rounds}")
                place = Path(scratch, f"{turn} {name}")
                runs[name].append(_run(spark, star, tables, files, place, contenders[name]))
                check_results(name, runs[name][-1], results)
    return runs


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
) -> Timings:
    app = App(spark, directory=scratch / "app")
    for name, table in tables.items():
        columns = ", ".join(f"{column} {'TIMESTAMP' if column == 'ts' else 'BIGINT'}" for column in table.column_names)
        frame = spark.readStream.schema(columns).option("maxFilesPerTrigger", 1).parquet(str(files / name))
        app.stream(name, frame, time="ts")
    answer = app.sql(star.cql, options)
    return run(answer, lambda progress: app.metrics(progress=progress), scratch / "checkpoint", "noop")


def _row(part: str, name: str, star: Star, found: Timings) -> Row:
    seconds = sum(trigger.seconds for trigger in found.steady)
    return {
        "part": part,
        "contender": name,
        "streams": star.streams,
        "tuples": sum(trigger.rows for trigger in found.triggers),
        "results": found.results,
        "triggers": len(found.steady),
        "not_counted": WARM_UP,
        "rows_per_s": round(sum(trigger.rows for trigger in found.steady) / seconds),
        "trigger_seconds": rounded(seconds / len(found.steady)),
        "median_trigger_seconds": rounded(found.seconds),
        "probing_seconds": rounded(sum(_probing(trigger.metrics["seconds"]) for trigger in found.steady)),
        "buckets": found.buckets,
        "probes": sum(trigger.metrics["probes"] for trigger in found.steady),
        "completions": sum(trigger.metrics["completions"] for trigger in found.steady),
        "plan_changes": sum(bucket["plan_changes"] for bucket in found.triggers[-1].metrics["buckets"]),
    }


def _probing(seconds: Mapping[str, float]) -> float:
    """The compiled join and what is around it, with the completion of keys that is part of it."""
    return seconds["probe"] + seconds["complete"]
