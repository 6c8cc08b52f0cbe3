"""Whether the output ever stalls: how long results take, with a hundred changes of plan and with none.

Tuples arrive at half the speed that the engine was seen to have. Every ``interval`` it takes those that have arrived,
as a streaming runtime does. A result's latency is the time from the arrival of its newest tuple to the end of the batch
that brought it out, on a clock that advances by the processor time that batches take: what else the machine
does leaves no trace in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from thalweg.experiments import answers
from thalweg.experiments.answers import Fingerprint
from thalweg.experiments.experiment import Claim, Report, Row, at_most, rounded
from thalweg.experiments.jisc.driving import JISC, MOVING_STATE, PARALLEL_TRACK, Drive
from thalweg.experiments.jisc.sizes import SEED, NoStall
from thalweg.experiments.jisc.workloads import Uniform, pipeline
from thalweg.experiments.timing import one_core
from thalweg.plan.tree import Plan

PART = "no stall: latency of results"

_LOAD = 0.5
"""Of the engine's speed: neither idle nor ever behind, if nothing stalls it."""
_WARM_TURNS = 3


def latency_of_results(sizes: NoStall, report: Report) -> tuple[list[Row], list[Claim]]:
    workload = Uniform(sizes.joins, sizes.window, keys="decks")
    start = _WARM_TURNS * workload.turn
    tuples = workload.tuples(np.random.default_rng(SEED), start)
    report("no stall: how fast the engine is")
    with one_core():
        drive = Drive(JISC, workload, pipeline(range(workload.streams)), tuples)
        drive.to(start - workload.turn)
        speed = workload.turn / drive.to(start).seconds
        share = max(1, round(_LOAD * speed * sizes.interval))
        tuples = workload.tuples(np.random.default_rng(SEED), start + share * sizes.batches)
        rows: list[Row] = []
        found: dict[str, Fingerprint] = {}
        latencies: dict[str, NDArray[np.float64]] = {}
        for name, policy, changes in (
            ("jisc, no change", JISC, 0),
            (JISC, JISC, sizes.changes),
            (MOVING_STATE, MOVING_STATE, sizes.changes),
            (PARALLEL_TRACK, PARALLEL_TRACK, sizes.changes),
        ):
            report(f"no stall: {name}")
            drive = Drive(policy, workload, pipeline(range(workload.streams)), tuples)
            drive.to(start)
            plans = dict(_plans(workload, sizes, changes))
            latencies[name], found[name], work = _latencies(drive, plans, share, sizes)
            p50, p99 = np.percentile(latencies[name], (50, 99))
            rows.append(
                {
                    "part": PART,
                    "policy": name,
                    "joins": sizes.joins,
                    "window": sizes.window,
                    "changes": changes,
                    "tuples_per_s": round(share / sizes.interval),
                    "results": found[name].rows,
                    "p50_ms": rounded(1000 * p50),
                    "p99_ms": rounded(1000 * p99),
                    "max_ms": rounded(1000 * latencies[name].max()),
                    **work,
                }
            )
    for name in found:
        answers.check_fingerprints(found["jisc, no change"], found[name], ("jisc, no change", name))
    calm = float(np.percentile(latencies["jisc, no change"], 99))
    claim = f"no stall: greatest latency through {sizes.changes} changes / 99th percentile without any"
    return rows, [at_most(claim, float(latencies[JISC].max()) / calm, 3)]


def _plans(workload: Uniform, sizes: NoStall, changes: int) -> Iterator[tuple[int, Plan]]:
    """(batch, plan): random swaps, close ones likelier, as JISC 5.2 assumes."""
    rng = np.random.default_rng(SEED)
    order = list(range(workload.streams))
    pairs = [(i, j) for i in range(workload.streams) for j in range(i + 1, workload.streams)]
    weights = np.array([1 / (j - i) for i, j in pairs])
    for change in range(changes):
        i, j = pairs[rng.choice(len(pairs), p=weights / weights.sum())]
        order[i], order[j] = order[j], order[i]
        yield (change * sizes.batches) // changes, pipeline(order)


def _latencies(
    drive: Drive, plans: dict[int, Plan], share: int, sizes: NoStall
) -> tuple[NDArray[np.float64], Fingerprint, dict[str, int]]:
    found = answers.NOTHING
    waits: list[NDArray[np.float64]] = []
    work: dict[str, int] = {}
    now = 0.0
    for batch in range(sizes.batches):
        changes: Sequence[tuple[int, Plan]] = [(drive.position, plans[batch])] if batch in plans else []
        lap = drive.to(drive.position + share, changes, at_once=share)
        arrived = sizes.interval * (batch + (np.arange(share) + 1) / share)
        now = max(now, sizes.interval * (batch + 1)) + lap.seconds
        waits.append(now - arrived)  # every tuple of a deck makes one result
        found = found.joined(lap.found)
        work = {name: work.get(name, 0) + count for name, count in lap.work.items()}
    return np.concatenate(waits), found, work
