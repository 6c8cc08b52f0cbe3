"""Figures 17 and 18: three queries of table 3, by every strategy. Memory, rate of service and counted work in one run.

A setting is a distribution of windows, a share that the selection lets pass, a share of pairs that join, and a rate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import exp, log
from typing import get_args

import numpy as np

from thalweg.experiments.experiment import Claim, Report, Row, at_least, at_most, below, rounded
from thalweg.experiments.laps import Laps
from thalweg.experiments.slices.driving import Course, Held, Method, best_of, counted_work, faster
from thalweg.experiments.slices.sizes import SEED, Setting, Strategies
from thalweg.experiments.slices.workloads import poisson, three_queries
from thalweg.settings import Sharing

CONTENDERS: tuple[Sharing, ...] = ("memory", "auto", "pull_up", "push_down", "none")
_PAPERS: tuple[Sharing, ...] = ("pull_up", "push_down")
"""The rivals that the paper has."""
METHODS: tuple[Method, ...] = get_args(Method)


def part(method: Method) -> str:
    """The part that shows what was measured with joins of this kind."""
    return f"figures 17 and 18: three queries, {method}"


@dataclass(frozen=True, slots=True)
class Point:
    """One setting at one rate, by joins of one kind."""

    setting: Setting
    rate: int
    method: Method
    laps: Mapping[Sharing, Laps]
    held: Mapping[Sharing, Held]

    def ratio(self, other: Sharing) -> float:
        """The counted work of the memory-optimal chain, to that of another strategy."""
        return counted_work(self.laps["memory"].work) / counted_work(self.laps[other].work)

    def rows(self) -> list[Row]:
        rows: list[Row] = []
        for strategy, laps in self.laps.items():
            speedup, noise = faster(self.laps, "memory", strategy)
            rows.append(
                {
                    "part": part(self.method),
                    "windows": self.setting.windows,
                    "selected": self.setting.selected,
                    "joined": self.setting.joined,
                    "rate": self.rate,
                    "strategy": strategy,
                    **self.held[strategy].columns(),
                    "results": laps.results,
                    "cpu_seconds": rounded(laps.median),
                    "results_per_s": round(laps.results / laps.median),
                    "memory_speedup": rounded(speedup),
                    "noise": rounded(noise),
                    "counted_work": counted_work(laps.work),
                    **laps.work,
                }
            )
        return rows


def compare_strategies(sizes: Strategies, report: Report) -> tuple[list[Row], list[Claim]]:
    """Drive all settings, by nested loops as in the paper and by hash."""
    points = []
    for method, setting, rate in product(METHODS, sizes.settings, sizes.rates):
        queries = three_queries(setting.windows, setting.selected, setting.joined)
        rng = np.random.default_rng(SEED)
        streams = poisson(rng, 2, rate, sizes.seconds, setting.joined)
        course = Course(queries, streams, rate, sizes.seconds)
        where = f"{setting.windows}, {setting.selected:g} selected, {setting.joined:g} joined, {rate}/s"
        laps, held = course.race(CONTENDERS, method, sizes.rounds, lambda text, where=where: report(f"{where}: {text}"))  # type: ignore[misc]
        points.append(Point(setting, rate, method, laps, held))
    return [row for point in points for row in point.rows()], _claims(points)


def _claims(points: list[Point]) -> list[Claim]:
    loops = [point for point in points if point.method == "nested loops"]
    hashed = [point for point in points if point.method == "hash"]
    high = max(point.setting.joined for point in points)
    fast = max(point.rate for point in points)
    others: list[Sharing] = [name for name in CONTENDERS if name != "memory"]
    rivals = [name for name in others if name != "auto"]
    more = max(point.held["memory"].tuples / min(point.held[name].tuples for name in rivals) for point in points)
    off = max(abs(point.held["memory"].tuples / point.held["memory"].least - 1) for point in points)
    where = f"{high:g} of pairs join, {fast}/s"
    every = "three queries, every setting"
    claims = [
        below(f"{every}: tuples held, memory / the least of pull_up, push_down and none", more, 1),
        at_most(f"{every}: tuples held by the memory-optimal chain, off the least possible by", off, 0.02),
        *(
            below(f"{every}, nested loops: counted work, memory / {other}", max(p.ratio(other) for p in loops), 1)
            for other in _PAPERS
        ),
    ]
    for method, mine in (("nested loops", loops), ("hash", hashed)):
        gains = [
            faster(point.laps, "memory", "pull_up")
            for point in mine
            if point.setting.joined == high and point.rate == fast
        ]
        mean = exp(sum(log(gain) for gain, _ in gains) / len(gains))
        claims.append(at_least(f"three queries, {method}, {where}: results/s, memory / pull_up, the mean", mean, 1.3))
        claims.append(of_auto(f"three queries, {method}", [point.laps for point in mine], others))
    return claims


def of_auto(where: str, raced: Sequence[Mapping[Sharing, Laps]], others: Sequence[Sharing]) -> Claim:
    """How far ``auto`` is behind the best of the others at worst, less the noise of that.

    The worst of many points is asked for, and noise alone makes the worst of many worse.
    """
    behind = []
    for laps in raced:
        rivals: list[Sharing] = ["memory", *(name for name in others if name != "auto")]
        speedup, noise = faster(laps, "auto", best_of(laps, rivals))
        behind.append(speedup + noise)
    return at_least(f"{where}, every setting: results/s, auto / the best strategy, and its noise", min(behind), 0.95)
