"""Figure 19: the memory-optimal chain against the CPU-optimal one, for 12 to 36 queries of table 4.

The paper's queries have no selections there, and its chains have a slice per window. Here a slice is for tuples that
are of use for the same time. Without selections that is all of them, so both chains are one slice: there is nothing to
merge, and routing costs the same. So the queries are also given a selection each. Then there is a slice for each of
them, unless the CPU-optimal chain merges some.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from thalweg.experiments.experiment import Claim, Report, Row, at_least, rounded
from thalweg.experiments.slices.driving import Course, Method, counted_work, faster
from thalweg.experiments.slices.sizes import SEED, Chains
from thalweg.experiments.slices.strategies import METHODS, of_auto
from thalweg.experiments.slices.workloads import Asked, Distribution, Queries, keys_for, poisson, windows_of
from thalweg.plan.slices import share
from thalweg.settings import Sharing

FIGURE_19 = "figure 19: the memory-optimal against the CPU-optimal chain"

CONTENDERS: tuple[Sharing, ...] = ("memory", "auto", "pull_up")
_WINDOWS: tuple[Distribution, ...] = ("uniform", "mostly-small", "small-large")
_LEAST_SELECTED = 0.2


def compare_chains(sizes: Chains, report: Report) -> tuple[list[Row], list[Claim]]:
    """Drive all; ``auto`` is the CPU-optimal chain."""
    rows: list[Row] = []
    raced = []
    for method, selecting, count, windows, rate in product(
        METHODS, (False, True), sizes.queries, _WINDOWS, sizes.rates
    ):
        queries = _queries(count, windows, sizes.joined, selecting=selecting)
        streams = poisson(np.random.default_rng(SEED), 2, rate, sizes.seconds, sizes.joined)
        where = f"{count} queries, {windows}, {rate}/s"
        course = Course(queries, streams, rate, sizes.seconds)
        laps, held = course.race(CONTENDERS, method, sizes.rounds, lambda text, where=where: report(f"{where}: {text}"))  # type: ignore[misc]
        raced.append(laps)
        for strategy in CONTENDERS:
            speedup, noise = faster(laps, strategy, "memory")
            rows.append(
                {
                    "part": FIGURE_19,
                    "method": method,
                    "selections": count if selecting else 0,
                    "queries": count,
                    "windows": windows,
                    "rate": rate,
                    "strategy": strategy,
                    "slices": _slices(queries, strategy, method),
                    **held[strategy].columns(),
                    "results": laps[strategy].results,
                    "cpu_seconds": rounded(laps[strategy].median),
                    "results_per_s": round(laps[strategy].results / laps[strategy].median),
                    "speedup_over_memory": rounded(speedup),
                    "noise": rounded(noise),
                    "counted_work": counted_work(laps[strategy].work),
                }
            )
    cpu = [faster(laps, "auto", "memory") for laps in raced]
    return rows, [
        at_least(
            "figure 19, every setting: results/s, CPU-optimal / memory-optimal, and its noise",
            min(speedup + noise for speedup, noise in cpu),
            0.95,
        ),
        of_auto("figure 19", raced, CONTENDERS),
    ]


def _queries(count: int, windows: Distribution, joined: float, *, selecting: bool) -> Queries:
    """Queries of table 4; each with a selection of its own, if they select."""
    shares = np.random.default_rng(SEED).permutation(np.linspace(_LEAST_SELECTED, 0.99, count))
    asked = [
        Asked(window, float(part) if selecting else 1.0)
        for window, part in zip(windows_of(windows, count), shares, strict=True)
    ]
    return Queries(tuple(asked), keys_for(joined))


def _slices(queries: Queries, strategy: Sharing, method: Method) -> int:
    """Of the stream that has most of them."""
    return max(map(len, share(queries.group, strategy, is_keyed=method == "hash").slicing.ends))
