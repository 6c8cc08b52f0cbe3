"""Everybody over the same files: answers, speed, memory, and where Thalweg's time goes."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

import pyarrow.parquet as pq

from thalweg.experiments import answers, micro_batches
from thalweg.experiments.contenders import KERNEL
from thalweg.experiments.experiment import Claim, Report, Row, at_least, at_most, rounded
from thalweg.experiments.micro_batches import Extra, MicroBatches, Timings, check_results, check_rows, window_first
from thalweg.experiments.spark.contenders import EVERYONE, FLOOR, SPARKS, THALWEG
from thalweg.experiments.spark.processes import Ask, Job, Outcome
from thalweg.experiments.spark.sizes import SEED, Bars, Load, Sizes
from thalweg.experiments.workloads import Workload

_SPARK_PARTS = ("addBatch", "queryPlanning", "latestOffset", "getBatch", "walCommit", "commitOffsets")

Outcomes = dict[str, Outcome]
"""By contender."""


def compare_answers(sizes: Sizes, ask: Ask, report: Report) -> list[Row]:
    """Every answer, compared with the kernel's result by result."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="thalweg-bench-") as scratch:
        ends = window_first(sizes.check, sizes.check_rows, sizes.check_triggers)
        made = micro_batches.write(Path(scratch, "in"), sizes.check, ends, SEED)
        for number, name in enumerate(name for name, contender in EVERYONE.items() if contender.joins):
            report(f"checking the answer of {name}")
            place = Path(scratch, str(number))
            job = Job(made.files, sizes.check_triggers, place, place / "answer")
            run = ask(name, [job]).run
            check_rows(name, run, made.files.rows(sizes.check_triggers))
            found = answers.ids_of(pq.read_table(place / "answer", columns=list(sizes.check.outputs)))
            answers.check_same(made.ids, found, (KERNEL, name))
            rows.append(
                {
                    "part": "answers, compared result by result",
                    "contender": name,
                    "same_as": KERNEL,
                    "streams": sizes.check.streams,
                    "window_s": sizes.check.window_s,
                    "triggers": sizes.check_triggers,
                    "rows": sum(trigger.rows for trigger in run.triggers),
                    "results": found.shape[1],
                }
            )
    return rows


def timed(workload: Workload, load: Load, ask: Ask, report: Report, extra: Extra | None = None) -> Outcomes:
    """What everyone who takes part made of triggers of one size."""
    what = f"{load.rows:,} rows per trigger"
    report(f"writing files, {what}")
    found = {}
    with tempfile.TemporaryDirectory(prefix="thalweg-bench-") as scratch:
        ends = window_first(workload, load.rows, max(load.of(name).triggers for name in load.names))
        made = micro_batches.write(Path(scratch, "in"), workload, ends, SEED, extra or Extra())
        for number, name in enumerate(load.names):
            report(f"timing {name}, {what}")
            counts = load.of(name)
            job = Job(made.files, counts.triggers, Path(scratch, str(number)), warm_up=counts.warm_up)
            found[name] = ask(name, [job])
            check(name, found[name].run, made, counts.triggers)
    return found


def check(name: str, run: Timings, made: MicroBatches, triggers: int) -> None:
    """Raise unless the rows and the number of results are right."""
    rows = made.files.rows(triggers)
    check_rows(name, run, rows)
    check_results(name, run, made.results(triggers) if EVERYONE[name].joins else sum(rows))


def rows_of(part: str, workload: Workload, outcomes: Mapping[str, Outcome]) -> list[Row]:
    """A row for each contender."""
    return [
        {
            "part": part,
            "contender": name,
            "streams": workload.streams,
            "window_s": workload.window_s,
            **speed(outcome.run),
            "first_trigger": rounded(outcome.run.first.seconds),
            "first_rows": outcome.run.first.rows,
            "peak_bytes": outcome.peaks.tree,
            "peak_jvm_bytes": outcome.peaks.jvm,
            "results": outcome.run.results,
        }
        for name, outcome in outcomes.items()
    ]


def speed(run: Timings) -> Row:
    """What the steady triggers took."""
    return {
        "rows_per_trigger": run.steady[0].rows,
        "warm_up": run.warm_up,
        "steady": len(run.steady),
        "rows_per_s": rounded(run.rows_per_second),
        "seconds": rounded(run.seconds),
        "fastest": rounded(run.fastest),
        "slowest": rounded(run.slowest),
    }


def attribution(runs: list[Timings]) -> list[Row]:
    """Where the time of Thalweg's triggers goes: of steady ones, and of the first of every run."""
    cases = [("steady", run) for run in runs] + [("first", run.only(0)) for run in runs]
    return [_by_spark(kind, run) for kind, run in cases] + [_in_buckets(kind, run) for kind, run in cases]


def _by_spark(kind: str, run: Timings) -> Row:
    """Triggers as Spark divides them; most of ``addBatch`` is what the tasks take."""
    return {
        "part": "where the time of thalweg's triggers goes, in seconds, by Spark's account",
        "trigger": kind,
        "rows_per_trigger": run.steady[0].rows,
        "seconds": rounded(run.seconds),
        **{name: rounded(run.part(name)) for name in _SPARK_PARTS},
    }


def _in_buckets(kind: str, run: Timings) -> Row:
    """Triggers as the buckets divide their own time, which they spend side by side on all cores."""
    return {
        "part": "where the time of thalweg's triggers goes, in seconds, all buckets together",
        "trigger": kind,
        "rows_per_trigger": run.steady[0].rows,
        "buckets": run.buckets,
        **{name: rounded(seconds) for name, seconds in run.phases().items()},
        "rebuilds": run.rebuilds,
        "steady": len(run.steady),
        "state_bytes": run.state_bytes,
    }


def claims_of(load: Load, outcomes: Mapping[str, Outcome], bars: Bars) -> list[Claim]:
    """What the triggers of the first load are asked to show; leaves out comparisons with those who took no part."""
    speeds = {name: outcome.run.rows_per_second for name, outcome in outcomes.items()}
    what = f"rows/s, {load.rows:,} rows per trigger"
    first = outcomes[THALWEG].run.first
    claims = []
    if rivals := [speeds[name] for name in SPARKS if name in speeds]:
        best = f"thalweg / the best of Spark's {len(rivals)} ways to join, {what}"
        claims.append(at_least(best, speeds[THALWEG] / max(rivals), bars.best_of_spark))
    if FLOOR in speeds:
        claims.append(at_least(f"thalweg / {FLOOR}, {what}", speeds[THALWEG] / speeds[FLOOR], bars.floor))
    new = f"the first trigger of a new query ({first.rows:,} rows), seconds on this machine"
    return [*claims, at_most(new, first.seconds, bars.first_seconds)]


def claim_of_tiny(load: Load, outcomes: Mapping[str, Outcome], bars: Bars) -> Claim:
    """What a trigger that brings next to nothing is asked to show."""
    what = f"thalweg, a trigger of {load.rows:,} rows, seconds on this machine"
    return at_most(what, outcomes[THALWEG].run.seconds, bars.tiny_seconds)
