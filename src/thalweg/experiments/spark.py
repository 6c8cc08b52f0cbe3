"""Thalweg on Spark against Spark's own chained joins, and against the least that any join in Python can cost there.

Everyone reads the same files, one for each stream and trigger, in one Spark on all cores with one partition of
state per core; answers go nowhere (sink ``noop``). A trigger's time is what Spark reports as ``triggerExecution``;
the first ones are left out, and the median of the others counts. How many those are is in columns ``warm_up`` and
``steady``. What is left out takes everyone about half a minute at least: two triggers of a join that
needs many seconds for each, dozens of one that needs less than one. Where a trigger takes a minute, one steady
one has to do.

Before, on a smaller input, every answer is written out and compared, result by result, with the bare M-Join kernel's.
All of it: inner joins over RANGE windows emit their results as these arise, so none waits for a watermark when
the input ends. The timed runs are held to the numbers of rows and results.

The parts:

- *the workload*: 4 streams, one match per probe, window 10 s, in triggers of some sizes;
- *where the time goes* in Thalweg's triggers: by Spark's account, and inside of Thalweg's buckets;
- *the fixed cost* of a trigger that brings next to nothing;
- *a restart* from a checkpoint with large windows, whose intermediate results are not restored;
- *growth* of Thalweg's times with the window, the number of streams, the keys and the buckets.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path

from pyspark.sql import SparkSession

from thalweg.experiments import answers, machine, micro_batches, spark_contenders
from thalweg.experiments.contenders import KERNEL
from thalweg.experiments.experiment import Claim, Document, Report, Row, Scale, Value, at_least, rounded
from thalweg.experiments.micro_batches import WARM_UP, MicroBatches, Run
from thalweg.experiments.spark_contenders import DEFAULT_STORE, FLOOR, ROCKSDB_STORE, THALWEG, Contender
from thalweg.experiments.workloads import MICROSECONDS, Workload
from thalweg.options import Options
from thalweg.spark.session import local_session

SEED = 20_030_909
_MOST_HEAP_GIB = 8
_SPARK_PARTS = ("addBatch", "queryPlanning", "latestOffset", "getBatch", "walCommit", "commitOffsets")


@dataclass(frozen=True, slots=True)
class Load:
    """Triggers of one size.

    For each contender that takes part, how many steady ones are measured, and how many come before, if more than
    :data:`WARM_UP`.
    """

    rows: int
    steady: Mapping[str, int]
    warm_up: Mapping[str, int] = field(default_factory=dict)

    def before(self, name: str) -> int:
        """Triggers of a contender that are not compared."""
        return self.warm_up.get(name, WARM_UP)

    @property
    def triggers(self) -> int:
        """The most that anybody runs."""
        return max(self.before(name) + steady for name, steady in self.steady.items())


BARS: dict[int, dict[str, float]] = {
    400_000: {DEFAULT_STORE: 12, ROCKSDB_STORE: 45, FLOOR: 0.4},
    2_000_000: {DEFAULT_STORE: 20, FLOOR: 0.4},
}
"""For rows per trigger and a contender: by what factor Thalweg's rows/s should exceed its."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much each part of the experiment measures.

    Attributes:
        workload: the join; its number of tuples follows from the triggers.
        check: the smaller join whose answers are compared, ``check_rows`` per trigger in ``check_triggers``.
        loads: the sizes of triggers of the workload; Thalweg takes part in each.
        tiny: triggers that bring next to nothing.
        restart_seconds: the window of the restart part; the key domain grows in proportion.
        growth_rows, growth_steady: the triggers of the growth parts.
        window_seconds: the windows; the key domain grows in proportion.
        stream_counts: the numbers of streams; the rows of a trigger are dealt out to them.
        key_counts: the key domains.
        bucket_counts: into how many buckets the join is divided.
        bars: what the claims ask for, see :data:`BARS`.

    """

    workload: Workload
    check: Workload
    check_rows: int
    check_triggers: int
    loads: tuple[Load, ...]
    tiny: Load
    restart_seconds: int
    growth_rows: int
    growth_steady: int
    window_seconds: tuple[int, ...]
    stream_counts: tuple[int, ...]
    key_counts: tuple[int, ...]
    bucket_counts: tuple[int, ...]
    bars: Mapping[int, Mapping[str, float]] = field(default_factory=lambda: BARS)


_EVERYONE = (FLOOR, THALWEG, ROCKSDB_STORE, DEFAULT_STORE)

_CHECK = Workload(keys=2_000, window_us=2 * MICROSECONDS)
"""As many matches per probe as in the workload, and many windows in few tuples."""

SIZES: dict[Scale, Sizes] = {
    "quick": Sizes(
        workload=Workload(),
        check=_CHECK,
        check_rows=4_000,
        check_triggers=20,
        loads=(
            Load(400_000, {FLOOR: 9, THALWEG: 9, ROCKSDB_STORE: 1, DEFAULT_STORE: 1}, {FLOOR: 60, THALWEG: 60}),
            Load(2_000_000, {FLOOR: 5, THALWEG: 5, DEFAULT_STORE: 1}, {FLOOR: 10, THALWEG: 10}),
        ),
        tiny=Load(400, dict.fromkeys(_EVERYONE, 9), dict.fromkeys(_EVERYONE, 20)),
        restart_seconds=2_500,
        growth_rows=200_000,
        growth_steady=2,
        window_seconds=(1, 10, 100),
        stream_counts=(2, 4, 8),
        key_counts=(5_000, 10_000, 100_000),
        bucket_counts=(1, 2, 8),
    ),
    "paper": Sizes(
        workload=Workload(),
        check=_CHECK,
        check_rows=8_000,
        check_triggers=50,
        loads=(
            Load(400_000, {FLOOR: 15, THALWEG: 15, ROCKSDB_STORE: 2, DEFAULT_STORE: 3}, {FLOOR: 100, THALWEG: 60}),
            Load(2_000_000, {FLOOR: 9, THALWEG: 9, DEFAULT_STORE: 1}, {FLOOR: 20, THALWEG: 20}),
        ),
        tiny=Load(400, dict.fromkeys(_EVERYONE, 15), dict.fromkeys(_EVERYONE, 50)),
        restart_seconds=2_500,
        growth_rows=400_000,
        growth_steady=5,
        window_seconds=(1, 10, 100),
        stream_counts=(2, 4, 6, 8, 12),
        key_counts=(5_000, 10_000, 20_000, 100_000),
        bucket_counts=(1, 2, 4, 8, 16),
    ),
}


def run(scale: Scale, report: Report) -> Document:
    """Measure at a scale, in a Spark on this machine."""
    report("starting Spark")
    spark = local_session(machine.cores(), **{"spark.driver.memory": f"{_heap_gib()}g"})
    return measure(scale, SIZES[scale], report, spark)


def _heap_gib() -> int:
    """A third of the machine for Spark's heap, which holds the default state store; Python and RocksDB need theirs."""
    total = machine.describe()["memory_gib"]
    return max(1, min(_MOST_HEAP_GIB, int(float(total or 0)) // 3))


def measure(scale: Scale, sizes: Sizes, report: Report, spark: SparkSession) -> Document:
    """Measure all parts in the given sizes."""
    with tempfile.TemporaryDirectory(prefix="thalweg-bench-") as commands:
        contenders = spark_contenders.everyone(spark, Path(commands))
        rows = _answers(sizes, contenders, report)
        loads = [(load, _load(sizes.workload, load, contenders, report)) for load in sizes.loads]
        for _, found in loads:
            rows += _rows("the workload", sizes.workload, found)
        rows += [_by_spark(found[THALWEG]) for _, found in loads]
        rows += [_in_buckets(found[THALWEG]) for _, found in loads]
        tiny = _load(sizes.workload, sizes.tiny, contenders, report)
        rows += _rows("fixed cost of a trigger", sizes.workload, tiny)
        rows.append(_restart(sizes, contenders[THALWEG], report))
        rows += _growth(sizes, spark, Path(commands), report)
    claims = [claim for load, found in loads for claim in _claims(load, found, sizes.bars)]
    return Document(bench="spark", scale=scale, machine=_machine(spark), rows=rows, claims=claims)


def _answers(sizes: Sizes, contenders: Mapping[str, Contender], report: Report) -> list[Row]:
    """Every answer, compared with the kernel's result by result."""
    rows: list[Row] = []
    with _files(sizes.check, sizes.check_rows, sizes.check_triggers) as files:
        for name, contender in contenders.items():
            if not contender.joins:
                continue
            report(f"checking the answer of {name}")
            found = contender.answer(files)
            answers.check_same(files.ids, found, (KERNEL, name))
            rows.append(
                {
                    "part": "answers, compared result by result",
                    "contender": name,
                    "same_as": KERNEL,
                    "streams": sizes.check.streams,
                    "window_s": sizes.check.window_s,
                    "triggers": sizes.check_triggers,
                    "rows": sum(files.rows(sizes.check_triggers)),
                    "results": found.shape[1],
                }
            )
    return rows


def _load(workload: Workload, load: Load, contenders: Mapping[str, Contender], report: Report) -> dict[str, Run]:
    """The runs of all who take part."""
    report(f"writing files for triggers of {load.rows:,} rows")
    runs = {}
    with _files(workload, load.rows, load.triggers) as files:
        for name, contender in contenders.items():
            if name in load.steady:
                report(f"timing {name}, {load.rows:,} rows per trigger")
                before = load.before(name)
                runs[name] = contender.timed(files, before + load.steady[name], before)
    return runs


def _restart(sizes: Sizes, contender: Contender, report: Report) -> Row:
    """The first trigger of a query that goes on where another left full windows, beside the one after it."""
    window_us = sizes.restart_seconds * MICROSECONDS
    keys = max(1, sizes.workload.keys * window_us // sizes.workload.window_us)
    workload = replace(sizes.workload, window_us=window_us, keys=keys)
    report(f"writing files for windows of {sizes.restart_seconds:,} s")
    with _files(workload, sizes.tiny.rows, 3) as files:
        report("filling the windows, and starting again")
        before, after = contender.restarted(files, 1)
    first, second = after.triggers
    return {
        "part": "a restart with full windows",
        "state_tuples": before.triggers[-1].metrics["state_tuples"],
        "buckets": before.buckets,
        "trigger_before": rounded(before.triggers[-1].seconds),
        "first_trigger_after": rounded(first.seconds),
        "rebuild_all_buckets": rounded(first.metrics["seconds"]["rebuild"]),
        "rebuilds": first.metrics["rebuilds"],
        "next_trigger": rounded(second.seconds),
    }


def _growth(sizes: Sizes, spark: SparkSession, commands: Path, report: Report) -> list[Row]:
    """How Thalweg's speed changes with one thing at a time."""
    base = sizes.workload
    parts: dict[str, list[tuple[Workload, int | None]]] = {
        "growth: window, keys in proportion": [
            (
                replace(
                    base,
                    window_us=seconds * MICROSECONDS,
                    keys=max(1, base.keys * seconds * MICROSECONDS // base.window_us),
                ),
                None,
            )
            for seconds in sizes.window_seconds
        ],
        "growth: number of streams": [(replace(base, streams=count), None) for count in sizes.stream_counts],
        "growth: keys": [(replace(base, keys=count), None) for count in sizes.key_counts],
        "growth: buckets": [(base, count) for count in sizes.bucket_counts],
    }
    load = Load(sizes.growth_rows, {THALWEG: sizes.growth_steady})
    measured: dict[tuple[Workload, int | None], Run] = {}
    rows: list[Row] = []
    for part, points in parts.items():
        for workload, buckets in points:
            if (workload, buckets) not in measured:
                contender = spark_contenders.thalweg(spark, commands, Options(buckets=buckets))
                told = _prefixed(report, part)
                measured[workload, buckets] = _load(workload, load, {THALWEG: contender}, told)[THALWEG]
            found = measured[workload, buckets]
            rows.append(
                {
                    "part": part,
                    "streams": workload.streams,
                    "window_s": workload.window_s,
                    "keys": workload.keys,
                    "buckets": found.buckets,
                    **_speed(found),
                    "results_per_trigger": found.steady[-1].results,
                    "state_bytes": found.state_bytes,
                }
            )
    return rows


@contextmanager
def _files(workload: Workload, rows: int, triggers: int) -> Iterator[MicroBatches]:
    with tempfile.TemporaryDirectory(prefix="thalweg-bench-") as directory:
        yield micro_batches.write(Path(directory), workload, rows, triggers, SEED)


def _rows(part: str, workload: Workload, runs: Mapping[str, Run]) -> list[Row]:
    return [
        {
            "part": part,
            "contender": name,
            "streams": workload.streams,
            "window_s": workload.window_s,
            **_speed(found),
            "results": found.results,
        }
        for name, found in runs.items()
    ]


def _speed(found: Run) -> Row:
    return {
        "rows_per_trigger": found.steady[0].rows,
        "warm_up": found.warm_up,
        "steady": len(found.steady),
        "rows_per_s": rounded(found.rows_per_second),
        "seconds": rounded(found.seconds),
        "fastest": rounded(found.fastest),
        "slowest": rounded(found.slowest),
    }


def _by_spark(found: Run) -> Row:
    """A trigger of Thalweg's as Spark divides it; most of ``addBatch`` is what the tasks take."""
    return {
        "part": "where the time of thalweg's triggers goes, in seconds, by Spark's account",
        "rows_per_trigger": found.steady[0].rows,
        "trigger": rounded(found.seconds),
        **{name: rounded(found.part(name)) for name in _SPARK_PARTS},
    }


def _in_buckets(found: Run) -> Row:
    """A trigger of Thalweg's as its buckets divide their own time, which they spend side by side on all cores."""
    return {
        "part": "where the time of thalweg's triggers goes, in seconds, all buckets together",
        "rows_per_trigger": found.steady[0].rows,
        "buckets": found.buckets,
        **{name: rounded(seconds) for name, seconds in found.phases().items()},
        "rebuilds": found.rebuilds,
        "steady": len(found.steady),
        "state_bytes": found.state_bytes,
    }


def _claims(load: Load, runs: Mapping[str, Run], bars: Mapping[int, Mapping[str, float]]) -> list[Claim]:
    """The claims at this size of trigger about those who were measured at it."""
    return [
        at_least(
            f"thalweg / {name}, rows/s, {load.rows:,} rows per trigger",
            runs[THALWEG].rows_per_second / runs[name].rows_per_second,
            bar,
        )
        for name, bar in bars.get(load.rows, {}).items()
        if name in runs
    ]


def _machine(spark: SparkSession) -> dict[str, Value]:
    java = spark.sparkContext._jvm
    own: dict[str, Value] = {"pyspark": version("pyspark"), "spark_master": spark.sparkContext.master}
    if java is not None:
        own["java"] = str(java.java.lang.System.getProperty("java.version"))
        own["heap_gib"] = round(java.java.lang.Runtime.getRuntime().maxMemory() / 2**30, 1)
    return {**machine.describe(), **own}


def _prefixed(report: Report, prefix: str) -> Report:
    return lambda text: report(f"{prefix}: {text}")
