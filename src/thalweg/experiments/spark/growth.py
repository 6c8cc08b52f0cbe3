"""How Thalweg's time changes with one thing at a time: window, streams, keys, buckets, columns that nobody reads."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from thalweg.experiments import micro_batches
from thalweg.experiments.experiment import Claim, Report, Row, at_most
from thalweg.experiments.micro_batches import Extra, Timings, window_first
from thalweg.experiments.spark.comparison import check, rows_of, speed, timed
from thalweg.experiments.spark.contenders import THALWEG
from thalweg.experiments.spark.processes import Ask, Job
from thalweg.experiments.spark.sizes import SEED, Sizes
from thalweg.experiments.workloads import MICROSECONDS, Workload

_OWN_COLUMNS = 3
"""Event time, key and id."""

Point = tuple[Workload, int | None]
"""A join, and into how many buckets it is divided; None: as many as it has by default."""


def wide_streams(sizes: Sizes, ask: Ask, report: Report) -> tuple[list[Row], list[Claim]]:
    """The same rows in narrow and in wide streams; of each stream the query selects one column."""
    load = replace(sizes.loads[0], names=(THALWEG,))
    rows: list[Row] = []
    seconds = []
    for columns in (_OWN_COLUMNS, sizes.wide_columns):
        extra = Extra(numbers=columns - _OWN_COLUMNS)
        outcomes = timed(sizes.workload, load, ask, _telling(report, columns), extra)
        (row,) = rows_of("streams of many columns, one of them selected", sizes.workload, outcomes)
        rows.append({**row, "columns": columns})
        seconds.append(outcomes[THALWEG].run.seconds)
    narrow, wide = seconds
    what = f"streams of {sizes.wide_columns} columns / of {_OWN_COLUMNS}, seconds per trigger"
    return rows, [at_most(f"thalweg, {what}", wide / narrow, sizes.bars.wide)]


def _telling(report: Report, columns: int) -> Report:
    return lambda text: report(f"streams of {columns} columns: {text}")


def measure_growth(sizes: Sizes, ask: Ask, report: Report) -> list[Row]:
    """All points in one process, after a run that does not count."""
    parts = _parts(sizes)
    points = list(dict.fromkeys(point for some in parts.values() for point in some))
    counts = sizes.growth_counts
    with tempfile.TemporaryDirectory(prefix="thalweg-bench-") as scratch:
        report(f"growth: writing files for {len(points)} queries")
        jobs = []
        inputs = []
        for number, (workload, buckets) in enumerate([(sizes.workload, None), *points]):
            place = Path(scratch, str(number))
            ends = window_first(workload, sizes.growth_rows, counts.triggers)
            inputs.append(micro_batches.write(place / "in", workload, ends, SEED))
            jobs.append(Job(inputs[-1].files, counts.triggers, place, buckets=buckets, warm_up=counts.warm_up))
        report(f"growth: timing {len(points)} queries of thalweg, {sizes.growth_rows:,} rows per trigger")
        runs = ask(THALWEG, jobs).runs
    for run, made in zip(runs, inputs, strict=True):
        check(THALWEG, run, made, counts.triggers)
    measured = dict(zip(points, runs[1:], strict=True))
    return [_row(part, point[0], measured[point]) for part, some in parts.items() for point in some]


def _parts(sizes: Sizes) -> dict[str, list[Point]]:
    base = sizes.workload
    return {
        "growth: window, keys in proportion": [(_with_window(base, s), None) for s in sizes.window_seconds],
        "growth: number of streams": [(replace(base, streams=count), None) for count in sizes.stream_counts],
        "growth: keys": [(replace(base, keys=count), None) for count in sizes.key_counts],
        "growth: buckets": [(base, count) for count in sizes.bucket_counts],
    }


def _with_window(base: Workload, seconds: int) -> Workload:
    window_us = seconds * MICROSECONDS
    return replace(base, window_us=window_us, keys=max(1, base.keys * window_us // base.window_us))


def _row(part: str, workload: Workload, run: Timings) -> Row:
    return {
        "part": part,
        "streams": workload.streams,
        "window_s": workload.window_s,
        "keys": workload.keys,
        "buckets": run.buckets,
        **speed(run),
        "results_per_trigger": run.steady[-1].results,
        "state_bytes": run.state_bytes,
    }
