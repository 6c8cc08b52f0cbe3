"""What it costs that there could be a budget, where none is set; and what a budget costs that refuses nothing."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from thalweg.engine.join_bucket import JoinBucket
from thalweg.experiments import answers
from thalweg.experiments.experiment import Claim, Report, Row, at_most, rounded
from thalweg.experiments.jaqpot.sizes import SEED, Unlimited
from thalweg.experiments.laps import Lap, side_by_side
from thalweg.experiments.workloads import Workload
from thalweg.options import Options
from thalweg.replayer import open_replay

PART = "no budget: side by side"

NONE = "no budget"
AGAIN = "no budget, again"
ENOUGH = "a budget of 100%"
"""The first two are the same: what tells them apart is noise."""
_PIECES = 6


def without_and_with(sizes: Unlimited, report: Report) -> tuple[list[Row], list[Claim]]:
    """The 4-way join of ``thalweg bench engine``, driven by all of them at the same time."""
    workload = Workload(tuples=sizes.tuples)
    tables = workload.arrivals(np.random.default_rng(SEED))
    cuts = [workload.total * piece // (_PIECES + 1) for piece in range(1, _PIECES + 2)]

    def start(name: str) -> Callable[[int], Lap]:
        budget = "100%" if name == ENOUGH else None
        replay = open_replay(workload.cql, tables, options=Options(adaptive=False, states="none", budget=budget))
        steps, position = replay.steps(), 0

        def to(end: int) -> Lap:
            nonlocal position
            started = time.process_time()
            while position < end and (done := next(steps, None)) is not None:
                position = done
            seconds = time.process_time() - started
            found = answers.NOTHING
            for table in replay.answer:
                found = found.joined(answers.fingerprint(answers.ids_of(table)))
            replay.answer.clear()
            return Lap(seconds, {}, found)

        to(cuts[0])
        return to

    laps = side_by_side(start, cuts, dict.fromkeys((NONE, AGAIN, ENOUGH), sizes.rounds), lambda text: report(text))
    tuples = cuts[-1] - cuts[0]
    rows: list[Row] = []
    for name, mine in laps.items():
        noise = mine.noise_beside(laps[NONE]) if name != NONE else None
        rows.append(
            {
                "part": PART,
                "contender": name,
                "results": mine.results,
                "tuples_per_s": round(tuples / mine.median),
                "times_as_slow": rounded(1 / mine.times_as_fast_as(laps[NONE])),
                "noise": None if noise is None else rounded(noise),
            }
        )
    return rows, [at_most("no budget: joins that are given accounts to pay from", _with_accounts(workload), 0)]


def _with_accounts(workload: Workload) -> int:
    """Whether the kernels of a join without a budget are those that pay: they are compiled without that."""
    tables = {name: table.slice(0, _A_FEW) for name, table in workload.arrivals(np.random.default_rng(SEED)).items()}
    replay = open_replay(workload.cql, tables, options=Options(states="none"))
    for _ in replay.steps():
        continue
    bucket = replay.driver.bucket
    return int(not isinstance(bucket, JoinBucket) or bucket.accounts is not None)


_A_FEW = 100
