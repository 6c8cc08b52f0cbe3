"""The answers of all contenders compared where there are some: the paper's joins hardly have results.

A clique of six streams with 200 values per column joins nothing in five hours. So every plan is driven through the same
join over a few values first, which also compiles what is not compiled yet.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from thalweg.experiments.experiment import Report, Row
from thalweg.experiments.jit.driving import CONTENDERS, Course
from thalweg.experiments.jit.sizes import SEED, Family
from thalweg.experiments.jit.workloads import Clique
from thalweg.experiments.laps import race
from thalweg.plan.tree import format_plan

ANSWERS = "answers: the same plans over few values"

_HELD = 20
"""Tuples in a window."""
_ALIVE = 50
"""Results that are alive at a time, about."""
_TURNS = 4


def check_answers(families: tuple[Family, ...], report: Report) -> list[Row]:
    """Drive every plan of the families; raises if two answers differ."""
    rows: list[Row] = []
    for family in families:
        for streams in sorted({point.streams for figure in family.figures for point in family.points(figure)}):
            few = _over_few_values(replace(family.defaults, streams=streams))
            end = _TURNS * few.window
            course = Course(few, few.tuples(np.random.default_rng(SEED), end), end)
            plan = format_plan(few.plan, few.names)
            laps = race(course.drive, list(CONTENDERS), 1, _telling(report, plan), warm_up=False)
            some = next(iter(laps.values()))
            rows.append(
                {
                    "part": ANSWERS,
                    "shape": few.shape,
                    "streams": streams,
                    "plan": plan,
                    "dmax": few.dmax,
                    "results": some.results,
                    "contenders": len(laps),
                }
            )
    return rows


def _over_few_values(clique: Clique) -> Clique:
    n = clique.streams
    wide = min(2, clique.wide)
    values = (_HELD**n / wide ** (n - 1) / _ALIVE) ** (2 / (n * (n - 1)))  # there are n(n - 1) / 2 predicates
    return replace(clique, window_min=_HELD / 60, rate=1.0, dmax=max(2, round(values)), wide=wide)


def _telling(report: Report, plan: str) -> Report:
    return lambda text: report(f"answers of {plan}: {text}")
