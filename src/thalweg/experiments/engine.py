"""The engine against DuckDB in batch, a bare M-Join kernel and its own plain-Python twin.

Every answer is checked before anything is timed; that first run is everyone's warm-up (it compiles or loads
kernels), so times are those of a process that has been running. Contenders are timed in turns; the median
counts, and the fastest and slowest are shown beside it. Whoever may use one thread is held on one core, and
``cores`` says how many each kept busy: less than it may use means that others were using the machine.

The parts:

- *the workload*: 4 streams of 1,000,000 tuples, one match per probe, window 10 s. It has the same size at
  both scales, for DuckDB's plain SQL gets slower per tuple the longer the streams are;
- *growth* with the length of the streams, the window, and the number of streams;
- *kept states*: a pipeline that keeps every intermediate state against an M-Join that keeps none;
- *the twin*: the same engine uncompiled, on a small input;
- *memory*: the engine fed batch by batch with an input and one ten times as long;
- *start*: a bare import, and fresh processes with and without compiled kernels on disk.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from thalweg.experiments import answers, child, contenders, machine
from thalweg.experiments.contenders import KERNEL, THALWEG, Rival
from thalweg.experiments.experiment import Claim, Document, Report, Row, Scale, at_least, at_most, below, rounded
from thalweg.experiments.peers import mjoin
from thalweg.experiments.peers.duckdb_join import bucket_sql, plain_sql
from thalweg.experiments.timing import Timing, take_turns
from thalweg.experiments.workloads import MICROSECONDS, Workload
from thalweg.options import Options

SEED = 20_030_909
PLAIN = "DuckDB, plain SQL"
BUCKET = "DuckDB, time bucket in the key"

FED_AT_ONCE_US = 2 * MICROSECONDS
"""How much time a batch of the memory part covers: a fifth of the workload's window."""
NOT_WANTED_AT_IMPORT = ("pyspark", "py4j", "numba", "llvmlite", "thalweg.engine.kernels")
"""What a bare import must not load: Spark and the kernels."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much each part of the experiment measures.

    Attributes:
        workload: the join that the claims are about.
        rounds: how often each contender is timed.
        lengths: tuples per stream of the growth with length.
        window_tuples: tuples per stream of the growth with the window.
        window_seconds: the windows; the key domain grows in proportion.
        stream_counts: the numbers of streams; ``stream_total`` tuples are dealt out to them.
        state_counts: the numbers of streams of the kept states part, with ``state_total`` tuples.
        twin_tuples: tuples per stream for the uncompiled twin.
        memory_tuples: tuples per stream of the shorter input of the memory part.
        starts: fresh processes per median.
        compiling: whether to start a process that has to compile the kernels, too.

    """

    workload: Workload
    rounds: int
    lengths: tuple[int, ...]
    window_tuples: int
    window_seconds: tuple[int, ...]
    stream_counts: tuple[int, ...]
    stream_total: int
    state_counts: tuple[int, ...]
    state_total: int
    twin_tuples: int
    memory_tuples: int
    starts: int
    compiling: bool = True


SIZES: dict[Scale, Sizes] = {
    "quick": Sizes(
        workload=Workload(),
        rounds=3,
        lengths=(250_000, 500_000),
        window_tuples=250_000,
        window_seconds=(1, 10, 100),
        stream_counts=(2, 4, 6, 8, 10, 12),
        stream_total=600_000,
        state_counts=(4, 8, 12),
        state_total=400_000,
        twin_tuples=20_000,
        memory_tuples=100_000,
        starts=5,
    ),
    "paper": Sizes(
        workload=Workload(),
        rounds=5,
        lengths=(250_000, 500_000),
        window_tuples=1_000_000,
        window_seconds=(1, 10, 100),
        stream_counts=(2, 4, 6, 8, 10, 12),
        stream_total=4_800_000,
        state_counts=(4, 8, 12),
        state_total=2_400_000,
        twin_tuples=50_000,
        memory_tuples=500_000,
        starts=9,
    ),
}


def run(scale: Scale, report: Report) -> Document:
    """Measure at a scale."""
    return measure(scale, SIZES[scale], report)


def measure(scale: Scale, sizes: Sizes, report: Report) -> Document:
    """Measure all parts in the given sizes."""
    headline, claims = _workload(sizes, report)
    rows = [*headline, *_growth(sizes, headline, report), *_kept_states(sizes, report), *_twin(sizes, report)]
    for part in (_memory, _start):
        measured, wanted = part(sizes, report)
        rows += measured
        claims += wanted
    return Document(bench="engine", scale=scale, machine=machine.describe(), rows=rows, claims=claims)


def _workload(sizes: Sizes, report: Report) -> tuple[list[Row], list[Claim]]:
    workload, threads = sizes.workload, machine.cores()
    report("generating the workload")
    arrivals = workload.arrivals(np.random.default_rng(SEED))
    with ExitStack() as open_peers:
        duckdb = [
            open_peers.enter_context(contenders.duckdb_peer(name, sql(workload), arrivals, count))
            for name, sql in ((PLAIN, plain_sql), (BUCKET, bucket_sql))
            for count in sorted({1, threads})
        ]
        rivals = [contenders.kernel(workload, arrivals), contenders.thalweg(workload, arrivals), *duckdb]
        results = contenders.check(rivals, report, exactly=True)
        times = take_turns([rival.contender for rival in rivals], sizes.rounds, report)
    rows = [
        {**_row("the workload", rival, workload, results, times[rival.name]), "includes": rival.includes}
        for rival in rivals
    ]
    plain = min(times[rival.name].median for rival in duckdb if rival.name.startswith(PLAIN))
    engine = times[THALWEG].median
    return rows, [
        at_least("thalweg end to end / bare M-Join kernel, tuples/s", times[KERNEL].median / engine, 0.4),
        at_least("thalweg on one core / DuckDB's plain SQL on its best number of threads, tuples/s", plain / engine, 3),
    ]


def _growth(sizes: Sizes, headline: Sequence[Row], report: Report) -> list[Row]:
    """How the speed changes with length (up to the workload's, measured already), window and number of streams."""
    part = "growth: length of the streams"
    rows: list[Row] = []
    for tuples in sizes.lengths:
        rows += _compare(part, replace(sizes.workload, tuples=tuples), sizes, report, PLAIN)
    compared = {row["contender"] for row in rows}
    for row in headline:
        if row["contender"] in compared:
            rows.append({**{name: value for name, value in row.items() if name != "includes"}, "part": part})
    for seconds in sizes.window_seconds:
        workload = replace(
            sizes.workload,
            tuples=sizes.window_tuples,
            window_us=seconds * MICROSECONDS,
            keys=round(sizes.workload.rate * seconds),
        )
        rows += _compare("growth: window, keys in proportion", workload, sizes, report, BUCKET)
    for count in sizes.stream_counts:
        workload = replace(sizes.workload, streams=count, tuples=sizes.stream_total // count)
        rows += _compare("growth: number of streams", workload, sizes, report, BUCKET)
    return rows


def _compare(part: str, workload: Workload, sizes: Sizes, report: Report, peer: str) -> list[Row]:
    """The engine, the kernel and one way to ask DuckDB, on a workload of their own."""
    tell = _prefixed(report, f"{part}, {workload.streams} streams, {workload.window_s:g} s, {workload.total:,} tuples")
    arrivals = workload.arrivals(np.random.default_rng(SEED))
    sql = plain_sql(workload) if peer == PLAIN else bucket_sql(workload)
    with contenders.duckdb_peer(peer, sql, arrivals, machine.cores()) as duckdb:
        rivals = [contenders.kernel(workload, arrivals), contenders.thalweg(workload, arrivals), duckdb]
        return _timed(part, workload, rivals, sizes.rounds, tell)


def _kept_states(sizes: Sizes, report: Report) -> list[Row]:
    """Whether a stored state earns its keep on this workload."""
    rows: list[Row] = []
    for count in sizes.state_counts:
        workload = replace(sizes.workload, streams=count, tuples=sizes.state_total // count)
        arrivals = workload.arrivals(np.random.default_rng(SEED))
        rivals = [
            contenders.thalweg(workload, arrivals, Options(states="none"), "thalweg, no state kept (M-Join)"),
            contenders.thalweg(workload, arrivals, Options(states="all"), "thalweg, all states kept (pipeline)"),
            contenders.thalweg(workload, arrivals, Options(states="auto"), "thalweg, the planner's choice"),
        ]
        rows += _timed(
            "kept states", workload, rivals, sizes.rounds, _prefixed(report, f"kept states, {count} streams")
        )
    return rows


def _timed(part: str, workload: Workload, rivals: Sequence[Rival], rounds: int, report: Report) -> list[Row]:
    results = contenders.check(rivals, report, exactly=False)
    times = take_turns([rival.contender for rival in rivals], rounds, report)
    return [_row(part, rival, workload, results, times[rival.name]) for rival in rivals]


def _twin(sizes: Sizes, report: Report) -> list[Row]:
    """The engine's own functions, interpreted instead of compiled."""
    workload = replace(sizes.workload, tuples=sizes.twin_tuples)
    arrivals = workload.arrivals(np.random.default_rng(SEED))
    compiled = contenders.thalweg(workload, arrivals)
    report("replaying by the plain-Python twin")
    found = child.ask("replay", child.workload_arguments(workload, SEED), {"NUMBA_DISABLE_JIT": "1"})
    expected = answers.fingerprint(compiled.ids(compiled.answer()))
    twin = answers.Fingerprint(*found["fingerprint"])
    answers.check_fingerprints(expected, twin, (THALWEG, "its plain-Python twin"))
    times = take_turns([compiled.contender], sizes.rounds, report)
    uncompiled = Rival("thalweg, plain-Python twin", 1, compiled.includes, compiled.answer, compiled.ids)
    once = Timing((found["seconds"],), (found["cpu_seconds"],))
    return [
        _row("the twin", rival, workload, expected.rows, timing)
        for rival, timing in ((compiled, times[THALWEG]), (uncompiled, once))
    ]


def _memory(sizes: Sizes, report: Report) -> tuple[list[Row], list[Claim]]:
    """Ten times the input in the same memory: the engine fed batch by batch, results counted and dropped."""
    rows: list[Row] = []
    state_bytes, peak_bytes = [], []
    for tuples in (sizes.memory_tuples, 10 * sizes.memory_tuples):
        workload = replace(sizes.workload, tuples=tuples)
        report(f"feeding about {workload.total:,} tuples in batches")
        found = child.ask("feed", {**child.workload_arguments(workload, SEED), "span_us": FED_AT_ONCE_US})
        slices = list(workload.slices(np.random.default_rng(SEED), FED_AT_ONCE_US))
        arrivals = {name: pa.concat_tables([each[name] for each in slices]) for name in workload.names}
        expected = answers.fingerprint(mjoin.join(mjoin.merge(arrivals, workload.window_us), workload.window_us))
        answers.check_fingerprints(expected, answers.Fingerprint(*found["fingerprint"]), (KERNEL, "the fed engine"))
        state_bytes.append(found["state_bytes"])
        peak_bytes.append(found["peak_bytes"])
        rows.append(
            {
                "part": "memory",
                "streams": workload.streams,
                "tuples": sum(len(table) for table in arrivals.values()),
                "window_s": workload.window_s,
                "results": expected.rows,
                "state_bytes": found["state_bytes"],
                "peak_bytes": found["peak_bytes"],
                "peak_bytes_above_start": found["peak_bytes"] - found["start_bytes"],
            }
        )
    more = "10 times the input / the input"
    return rows, [
        at_most(f"state memory, {more}", state_bytes[1] / state_bytes[0], 1.1),
        at_most(f"peak memory of the process, {more}", peak_bytes[1] / peak_bytes[0], 1.1),
    ]


def _start(sizes: Sizes, report: Report) -> tuple[list[Row], list[Claim]]:
    """How long a user waits before anything happens."""
    report("starting fresh processes")
    imports = [child.import_cost() for _ in range(sizes.starts)]
    unwanted = {name for each in imports for name in each["modules"] if name in NOT_WANTED_AT_IMPORT}
    small = child.workload_arguments(replace(sizes.workload, tuples=1_000), SEED)
    child.ask("replay", small)  # leaves compiled kernels on disk
    warm = [child.ask("replay", small)["wall_seconds"] for _ in range(sizes.starts)]
    import_seconds = [each["seconds"] for each in imports]
    rows = [
        _start_row("import thalweg", import_seconds),
        _start_row("process that replays 4,000 tuples, kernels on disk", warm),
    ]
    if sizes.compiling:
        report("starting a process that has to compile the kernels")
        with tempfile.TemporaryDirectory() as empty:
            compiling = child.ask("replay", small, {"NUMBA_CACHE_DIR": empty})["wall_seconds"]
        rows.append(_start_row("process that replays 4,000 tuples, kernels to be compiled", [compiling]))
    return rows, [
        below("import thalweg, seconds", statistics.median(import_seconds), 0.5),
        at_most("modules of Spark or of the kernels loaded by import thalweg", len(unwanted), 0),
    ]


def _row(part: str, rival: Rival, workload: Workload, results: int, timing: Timing) -> Row:
    return {
        "part": part,
        "contender": rival.name,
        "streams": workload.streams,
        "tuples": workload.total,
        "window_s": workload.window_s,
        "keys": workload.keys,
        "threads": rival.threads,
        "results": results,
        "tuples_per_s": round(workload.total / timing.median),
        "seconds": rounded(timing.median),
        "fastest": rounded(timing.fastest),
        "slowest": rounded(timing.slowest),
        "cores": rounded(timing.cores),
    }


def _start_row(what: str, seconds: Sequence[float]) -> Row:
    return {
        "part": "start",
        "what": what,
        "seconds": rounded(statistics.median(seconds)),
        "fastest": rounded(min(seconds)),
        "slowest": rounded(max(seconds)),
    }


def _prefixed(report: Report, prefix: str) -> Report:
    return lambda text: report(f"{prefix}: {text}")
