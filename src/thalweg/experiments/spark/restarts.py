"""Restarts: a process fills windows and ends, a new one goes on from its checkpoint.

Nothing of the first process is left but the checkpoint: no engine, no compiled Java code. So the first trigger
after it has what every first trigger has, and the windows are rebuilt from the log within it.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from thalweg.experiments import micro_batches
from thalweg.experiments.experiment import Claim, Report, Row, at_most, rounded
from thalweg.experiments.micro_batches import Extra, Timings, window_first
from thalweg.experiments.spark.comparison import check
from thalweg.experiments.spark.contenders import THALWEG
from thalweg.experiments.spark.processes import Ask, Job, Outcome
from thalweg.experiments.spark.sizes import SEED, Payload, Sizes
from thalweg.experiments.workloads import MICROSECONDS, Workload

_AFTER = 2
"""Triggers after a restart: the first, and one to compare it with."""
_KEYS_PER_TUPLE = 20
"""Wide rows have few partners: a result is twice as wide as they are."""


def restart_with_many_tuples(sizes: Sizes, ask: Ask, report: Report) -> tuple[list[Row], list[Claim]]:
    """Windows with many narrow tuples, filled by one trigger."""
    window_us = sizes.window_of_restart_s * MICROSECONDS
    keys = max(1, sizes.workload.keys * window_us // sizes.workload.window_us)
    workload = replace(sizes.workload, window_us=window_us, keys=keys)
    ends = window_first(workload, sizes.tiny.rows, 1 + _AFTER)
    before, after = _restarted(workload, ends, Extra(), None, ask, report)
    held = before.run.triggers[-1].metrics["state_tuples"]
    what = f"the first trigger after a restart with {held:,} tuples in windows, seconds on this machine"
    return (
        [_row("a restart with full windows", before, after, Extra())],
        [at_most(what, after.run.first.seconds, sizes.bars.restart_seconds)],
    )


def restart_with_wide_rows(sizes: Sizes, ask: Ask, report: Report) -> list[Row]:
    """Windows of wide rows in one bucket, filled by triggers of moderate size."""
    payload, extra = sizes.payload, Extra(payload=sizes.payload.row_bytes)
    before, after = _restarted(*wide_rows(payload, sizes.tiny.rows), extra, 1, ask, report)
    size = f"{payload.window_bytes / (1 << 30):g} GiB"
    return [_row(f"a restart with {size} of windows in one bucket", before, after, extra)]


def wide_rows(payload: Payload, tiny_rows: int) -> tuple[Workload, tuple[int, ...]]:
    """A join of two streams whose windows hold all rows, and the ends of its triggers.

    >>> workload, ends = wide_rows(Payload(window_bytes=1000, trigger_bytes=400, row_bytes=10), 2)
    >>> ends, workload.window_s * workload.rate >= 2 * ends[-1]
    ((20, 40, 60, 61, 62), True)
    """
    streams = 2
    share = max(1, payload.trigger_bytes // payload.row_bytes // streams)
    filled = [share * trigger for trigger in range(1, payload.fill_triggers + 1)]
    small = max(1, tiny_rows // streams)
    ends = (*filled, *(filled[-1] + small * trigger for trigger in range(1, _AFTER + 1)))
    rate = Workload().rate
    window_s = round(2 * ends[-1] / rate) + 1
    return Workload(
        streams=streams, keys=_KEYS_PER_TUPLE * ends[-1], rate=rate, window_us=window_s * MICROSECONDS
    ), ends


def _restarted(
    workload: Workload, ends: tuple[int, ...], extra: Extra, buckets: int | None, ask: Ask, report: Report
) -> tuple[Outcome, Outcome]:
    tuples, fills = workload.streams * ends[-_AFTER - 1], len(ends) - _AFTER
    report(f"restart: writing files for windows of {tuples:,} tuples")
    with tempfile.TemporaryDirectory(prefix="thalweg-bench-") as scratch:
        made = micro_batches.write(Path(scratch, "in"), workload, ends, SEED, extra)
        place = Path(scratch, "query")
        report(f"restart: filling windows of {tuples:,} tuples")
        before = ask(THALWEG, [Job(made.files, fills, place, buckets=buckets)])
        check(THALWEG, before.run, made, fills)
        report(f"restart: going on with windows of {tuples:,} tuples")
        after = ask(THALWEG, [Job(made.files, len(ends), place, buckets=buckets)])
        check(THALWEG, Timings((*before.run.triggers, *after.run.triggers)), made, len(ends))
    return before, after


def _row(part: str, before: Outcome, after: Outcome, extra: Extra) -> Row:
    last = before.run.triggers[-1]
    first, second = after.run.triggers
    return {
        "part": part,
        "state_tuples": last.metrics["state_tuples"],
        "payload_bytes": last.metrics["state_tuples"] * extra.payload,
        "buckets": before.run.buckets,
        "fill_triggers": len(before.run.triggers),
        "slowest_fill": rounded(max(trigger.seconds for trigger in before.run.triggers)),
        "first_trigger_after": rounded(first.seconds),
        "rebuild_all_buckets": rounded(first.metrics["seconds"]["rebuild"]),
        "rebuilds": first.metrics["rebuilds"],
        "next_trigger": rounded(second.seconds),
        "peak_jvm_bytes_before": before.peaks.jvm,
        "peak_worker_bytes_before": before.peaks.worker,
        "peak_jvm_bytes_after": after.peaks.jvm,
        "peak_worker_bytes_after": after.peaks.worker,
    }
