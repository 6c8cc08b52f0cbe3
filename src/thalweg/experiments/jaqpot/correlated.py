"""Streams that lag behind each other, as in GrubJoin: most partners are of one age. Window harvesting is made for that.

Something is seen by one stream, and some seconds later by another. So most partners of a tuple lie in one part of the
other window. Window harvesting finds out which, and looks there alone. Policies that know of probes only cannot.
"""

from __future__ import annotations

import statistics
from operator import truediv

import numpy as np
import pyarrow as pa

from thalweg.experiments.experiment import Claim, Report, Row, at_least, at_most, rounded
from thalweg.experiments.jaqpot.driving import ALL, Course
from thalweg.experiments.jaqpot.sizes import SEED, Correlated
from thalweg.experiments.jaqpot.workloads import Workload, numbered
from thalweg.experiments.workloads import MICROSECONDS

CORRELATED = "correlated streams: results by budget"

LAGS = (0.0, 0.25, 0.6)
"""Of each stream, in windows: it sees what the first stream has seen so long ago."""
_RELATED = 0.7
"""The share of the tuples that are about what was seen; the others are about anything else of that time."""
_PARTNERS = 3.0
"""Tuples of a stream about the same thing."""


def lagged(sizes: Correlated, seed: int) -> Workload:
    """Three streams, joined on what their tuples are about."""
    rng = np.random.default_rng(seed)
    step = _PARTNERS / sizes.rate
    tables: dict[str, pa.Table] = {}
    for name, lag in zip("abc", LAGS, strict=True):
        count = rng.poisson(sizes.rate * sizes.seconds)
        times = np.sort(rng.uniform(0, sizes.seconds, count))
        seen = times - lag * sizes.window_s
        other = times - rng.uniform(0, sizes.window_s, count)
        things = np.floor(np.where(rng.random(count) < _RELATED, seen, other) / step).astype(np.int64)
        tables[name] = numbered(pa.table({"ts": (times * MICROSECONDS).astype(np.int64), "thing": things}))
    equal = ((("a", "thing"), ("b", "thing")), (("b", "thing"), ("c", "thing")))
    window = round(sizes.window_s * MICROSECONDS)
    return Workload(tables, (window,) * len(tables), "microseconds", equal, "(a b) c", sizes.seconds)


def harvest_and_others(sizes: Correlated, report: Report) -> tuple[list[Row], list[Claim]]:
    """All policies at all budgets."""
    course = Course(lagged(sizes, SEED), (sizes.seconds,))
    rows: list[Row] = []
    shares: dict[str, list[float]] = {policy: [] for policy in ALL}
    stale = 0
    for share in sizes.shares:
        for policy in ALL:
            report(f"correlated streams, {share}%: {policy}")
            found = course.run(policy, round(share / 100 * course.saturation))
            shares[policy].append(found.total / course.full.total)
            stale += found.stale
            rows.append(
                {
                    "part": CORRELATED,
                    "budget_%": share,
                    "policy": policy,
                    "results": found.total,
                    "share_of_full": rounded(shares[policy][-1]),
                    "probes_of_full": rounded(found.probes / course.full.probes),
                    "candidates_of_full": rounded(found.candidates / course.full.candidates),
                }
            )
    return rows, [
        at_least(
            "correlated streams: results, jaqpot / random input shedding, the mean over budgets",
            statistics.mean(map(truediv, shares["jaqpot"], shares["random_shedding"])),
            1.5,
        ),
        at_most("correlated streams: stale results at 1.5 times the windows", stale, 0),
    ]
