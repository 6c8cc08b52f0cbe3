"""Thalweg on Spark against Spark's own chained joins, and against the least that any join in Python can cost there.

Every contender runs in a process of its own, with a Java heap of 6 GiB (or a quarter of a machine that has less than
24), all cores, one partition of state per core, the same files (one for each stream and trigger), the same number of
triggers and the same warm-up. Answers go nowhere (sink ``noop``). A trigger's time is what Spark reports as
``triggerExecution``. The first ones are left out; of the others the median, the fastest and the slowest are
reported. A contender whose triggers take very long takes part in fewer; columns ``warm_up`` and ``steady`` say so.

Before, on a smaller input, every answer is written out and compared, result by result, with the bare M-Join kernel's.
All of it: inner joins over RANGE windows emit their results as these arise, so none waits for a watermark when
the input ends. The timed runs are held to the numbers of rows and results.

Read in this order: :mod:`~thalweg.experiments.spark.contenders` (who takes part, and what was tried to make Spark's
joins fast), :mod:`~thalweg.experiments.spark.sizes` (how much is measured, and the bars),
:mod:`~thalweg.experiments.spark.processes` (one for each contender), then the parts:

- :mod:`~thalweg.experiments.spark.comparison`: a join of 4 streams, one match per probe, window 10 s, in triggers of
  some sizes; the fixed cost of a trigger that brings next to nothing; where the time of Thalweg's triggers goes;
- :mod:`~thalweg.experiments.spark.restarts`: from a checkpoint with many tuples in windows, and with wide rows in
  one bucket;
- :mod:`~thalweg.experiments.spark.growth`: Thalweg's times with columns that nobody reads, and with the window, the
  number of streams, the keys and the buckets.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from importlib.metadata import version

from thalweg.engine.compilation import ready_kernels
from thalweg.experiments import machine
from thalweg.experiments.experiment import Claim, Document, Keep, Report, Row, Scale, Value
from thalweg.experiments.spark.comparison import (
    attribution,
    claim_of_tiny,
    claims_of,
    compare_answers,
    rows_of,
    timed,
)
from thalweg.experiments.spark.contenders import THALWEG
from thalweg.experiments.spark.growth import measure_growth, wide_streams
from thalweg.experiments.spark.processes import Ask, Job, Outcome, heap_mib, in_own_process
from thalweg.experiments.spark.restarts import restart_with_many_tuples, restart_with_wide_rows
from thalweg.experiments.spark.sizes import SIZES, Sizes


def run(scale: Scale, report: Report, keep: Keep) -> Document:
    """Measure at a scale, in processes on this machine."""
    report("loading the kernels")
    ready_kernels()
    return measure(scale, SIZES[scale], report, keep, partial(in_own_process, settings={}))


def measure(scale: Scale, sizes: Sizes, report: Report, keep: Keep, ask: Ask) -> Document:
    """Measure all parts in the given sizes; ``ask`` has contenders do jobs."""
    document = Document(bench="spark", scale=scale, machine=_machine(), rows=[], claims=[])

    def noted(name: str, jobs: Sequence[Job]) -> Outcome:
        outcome = ask(name, jobs)
        document["machine"].update(outcome.machine)
        return outcome

    def found(rows: list[Row], claims: list[Claim]) -> None:
        document["rows"] += rows
        document["claims"] += claims
        keep(document)

    found(compare_answers(sizes, noted, report), [])
    tiny = timed(sizes.workload, sizes.tiny, noted, report)
    runs = [tiny[THALWEG].run]
    found(rows_of("fixed cost of a trigger", sizes.workload, tiny), [claim_of_tiny(sizes.tiny, tiny, sizes.bars)])
    for load in sizes.loads:
        outcomes = timed(sizes.workload, load, noted, report)
        runs.append(outcomes[THALWEG].run)
        claims = claims_of(load, outcomes, sizes.bars) if load == sizes.loads[0] else []
        found(rows_of("the workload", sizes.workload, outcomes), claims)
    found(attribution(runs), [])
    found(*wide_streams(sizes, noted, report))
    found(*restart_with_many_tuples(sizes, noted, report))
    found(restart_with_wide_rows(sizes, noted, report), [])
    found(measure_growth(sizes, noted, report), [])
    return document


def _machine() -> dict[str, Value]:
    return {**machine.describe(), "pyspark": version("pyspark"), "heap_mib": heap_mib()}
