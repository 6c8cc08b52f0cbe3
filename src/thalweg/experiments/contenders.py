"""Who computes a workload's join, each ready to run on the same arrivals."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from thalweg.experiments import answers
from thalweg.experiments.answers import Ids
from thalweg.experiments.experiment import Report
from thalweg.experiments.peers import duckdb_join, mjoin
from thalweg.experiments.timing import Contender
from thalweg.experiments.workloads import Workload
from thalweg.options import Options

THALWEG = "thalweg"
KERNEL = "bare M-Join kernel"


@dataclass(frozen=True, slots=True)
class Rival:
    """One way to compute the join.

    ``answer`` does the work that is timed; ``ids`` turns what it returned into row numbers, to be checked.
    """

    name: str
    threads: int
    includes: str
    answer: Callable[[], object]
    ids: Callable[[Any], Ids]

    @property
    def contender(self) -> Contender:
        return Contender(self.name, self.answer, self.threads)


def thalweg(
    workload: Workload, arrivals: Mapping[str, pa.Table], options: Options | None = None, name: str = THALWEG
) -> Rival:
    """The engine end to end: query text and Arrow tables in, Arrow table out, on one core."""
    from thalweg.replayer import run

    return Rival(
        name,
        1,
        "query text and Arrow tables to Arrow table",
        lambda: run(workload.cql, arrivals, time="ts", options=options).table,
        answers.ids_of,
    )


def kernel(workload: Workload, arrivals: Mapping[str, pa.Table]) -> Rival:
    """The M-Join and nothing else: the input is merged and the output allocated before the clock starts."""
    merged = mjoin.merge(arrivals, workload.window_us)
    out = np.empty_like(mjoin.join(merged, workload.window_us))
    out.fill(0)
    return Rival(
        KERNEL,
        1,
        "merged int64 arrays to row numbers; no merge, no output columns",
        lambda: mjoin.join(merged, workload.window_us, out),
        np.copy,  # the next run writes into the same memory
    )


@contextmanager
def duckdb_peer(name: str, sql: str, arrivals: Mapping[str, pa.Table], threads: int) -> Iterator[Rival]:
    """DuckDB in batch on the same Arrow tables, connected before the clock starts."""
    with duckdb_join.connected(arrivals, threads) as connection:
        yield Rival(
            f"{name}, {threads} thread{'s'[: threads > 1]}",
            threads,
            "SQL text and Arrow tables to Arrow table",
            partial(duckdb_join.answer, connection, sql),
            answers.ids_of,
        )


def check(rivals: Sequence[Rival], report: Report, *, exactly: bool) -> int:
    """Run each rival once and compare all answers with the first; returns the number of results.

    This is everyone's warm-up too.
    """
    first, *others = rivals
    report(f"computing the answer by {first.name}")
    expected = first.ids(first.answer())
    for rival in others:
        report(f"checking the answer of {rival.name}")
        found = rival.ids(rival.answer())
        names = (first.name, rival.name)
        if exactly:
            answers.check_same(expected, found, names)
        else:
            answers.check_fingerprints(answers.fingerprint(expected), answers.fingerprint(found), names)
    return int(expected.shape[1])
