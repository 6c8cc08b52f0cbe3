"""Figures 10 to 17: what JIT saves, against window, rate, number of streams and number of values.

At every point all contenders join the same tuples. Nested loops are timed while the stores are looked into; for hash
joins, which take milliseconds, that is done in a run of its own, and others, side by side, are timed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from thalweg.experiments.experiment import Claim, Report, Row, at_least, at_most, below, rounded
from thalweg.experiments.jit.driving import (
    AUTO_HASH,
    CONTENDERS,
    HASH,
    JIT_HASH,
    JIT_LOOPS,
    LOOPS,
    PUSH_HASH,
    PUSH_LOOPS,
    Contender,
    Course,
    Peaks,
)
from thalweg.experiments.jit.sizes import SEED, Family, Figure, Parameter, Sizes
from thalweg.experiments.jit.workloads import Clique
from thalweg.experiments.laps import Lap, Laps, race

LABELS: dict[Parameter, str] = {
    "window_min": "the window in minutes",
    "rate": "tuples per second and stream",
    "streams": "the number of streams",
    "dmax": "the greatest value",
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one contender did at one point."""

    laps: Laps
    peaks: Peaks

    @property
    def seconds(self) -> float:
        return self.laps.median

    @property
    def candidates(self) -> int:
        return self.laps.work["candidates"]

    @property
    def intermediate(self) -> int:
        """Intermediate results that were produced; every one of them is stored, for all states are kept."""
        return self.laps.work["stored"]

    def columns(self) -> Row:
        work = self.laps.work
        return {
            "tuples": work["tuples"],
            "results": work["results"],
            "cpu_seconds": rounded(self.seconds),
            "probes": work["probes"],
            "candidates": work["candidates"],
            "produced": work["stored"] + work["results"],
            **self.peaks.columns(),
            "suspensions": work["suspensions"],
            "resumptions": work["resumptions"],
            "withheld": work["withheld"],
            "unprobed": work["unprobed"],
        }


Point = Mapping[Contender, Outcome]

_WORST = 1.1
"""What `auto` may cost in the worst point of all. Deciding may cost 3% of the work, a change of programs as much again,
and the greatest of many ratios has the noise of all of them: 1.07 was measured twice on machines that were not idle."""


def measure_figures(sizes: Sizes, report: Report) -> tuple[list[Row], list[Claim]]:
    """All figures, and what they are asked to show. A point that several figures share is measured once."""
    rows: list[Row] = []
    claims: list[Claim] = []
    points: dict[Clique, Point] = {}
    for family in sizes.families:
        for figure in family.figures:
            for clique in family.points(figure):
                if clique not in points:
                    tell = _telling(report, f"figure {figure.number}, {figure.parameter} {_value(clique, figure):g}")
                    points[clique] = _measure(clique, sizes, tell)
                rows += _rows(title(family, figure), clique, points[clique])
        claims += _claims_of(family, points)
    behind = max(_behind(each) for each in points.values())
    return rows, [*claims, at_most("hash, in every point: auto / push, processor time, less its noise", behind, _WORST)]


def _behind(point: Point) -> float:
    """How many times push's time auto takes, less the standard error of that.

    The worst of many points is asked for, and noise alone makes the worst of many worse.
    """
    auto, push = point[AUTO_HASH].laps, point[PUSH_HASH].laps
    return push.times_as_fast_as(auto) - (push.noise_beside(auto) or 0.0)


def title(family: Family, figure: Figure) -> str:
    """The part that shows a figure."""
    return f"figure {figure.number}: against {LABELS[figure.parameter]}, {family.defaults.shape} plans"


def _measure(clique: Clique, sizes: Sizes, report: Report) -> Point:
    peaks = {name: Peaks() for name in CONTENDERS}
    laps: dict[str, Laps] = {}
    for contenders in (LOOPS, HASH):
        names = [contender.name for contender in contenders]
        end = sizes.end(clique, by_hash=contenders == HASH)
        course = Course(clique, clique.tuples(np.random.default_rng(SEED), end), end)
        laps |= race(partial(_drive, course, peaks), names, 1, report, warm_up=False)
        if contenders == HASH:
            laps |= course.drive_side_by_side(names, sizes.rounds, report)
    return {contender: Outcome(laps[name], peaks[name]) for name, contender in CONTENDERS.items()}


def _drive(course: Course, peaks: Mapping[str, Peaks], name: str) -> Lap:
    return course.drive(name, peaks[name])


def _rows(part: str, clique: Clique, point: Point) -> list[Row]:
    rows: list[Row] = []
    for contender, outcome in point.items():
        push = point[PUSH_LOOPS if contender in LOOPS else PUSH_HASH]
        rows.append(
            {
                "part": part,
                "method": contender.method,
                "production": contender.production,
                **{name: getattr(clique, name) for name in LABELS},
                **outcome.columns(),
                "times_less_cpu": rounded(push.seconds / outcome.seconds),
                "noise": _noise(push, outcome),
                "times_fewer_candidates": rounded(_times_fewer(push.candidates, outcome.candidates)),
                "times_less_state": rounded(push.peaks.state_bytes / outcome.peaks.state_bytes),
                "times_less_memory": rounded(push.peaks.all_bytes / outcome.peaks.all_bytes),
            }
        )
    return rows


def _noise(push: Outcome, outcome: Outcome) -> float | None:
    """The standard error of ``times_less_cpu``; None: timed too few times to tell."""
    noise = outcome.laps.noise_beside(push.laps)
    return None if noise is None else rounded(noise)


def _claims_of(family: Family, points: Mapping[Clique, Point]) -> list[Claim]:
    shape = family.defaults.shape
    mine = [points[clique] for figure in family.figures for clique in family.points(figure)]
    claims = _of_bushy_plans(points[family.defaults]) if shape == "bushy" else _of_left_deep_plans(mine)
    for figure in family.figures:
        if figure.amplifies:
            claims += _of_growth(family, figure, points)
    return claims


def _of_growth(family: Family, figure: Figure, points: Mapping[Clique, Point]) -> list[Claim]:
    """What feedback saves grows; of the number of streams, the paper says that the work with feedback grows slower."""
    ends = (family.points(figure)[i] for i in (0, -1))
    (low, least), (high, greatest) = ((f"{_value(clique, figure):g}", points[clique]) for clique in ends)
    where = f"figure {figure.number}, nested loops"
    saved = f"{where}: candidates saved by jit, at {low} / at {high}"
    claims = [below(saved, _ratio(_saved(least), _saved(greatest)), 1)]
    if figure.parameter == "streams":
        slower = f"{where}: candidates more at {high} than at {low}, jit / push"
        claims.append(below(slower, _growth(least, greatest), 1))
    else:
        times = f"{where}: push / jit, candidates, at {low} / at {high}"
        claims.append(below(times, _gain(least) / _gain(greatest), 1))
    return claims


def _of_bushy_plans(defaults: Point) -> list[Claim]:
    fewer = {each: defaults[each].intermediate / defaults[PUSH_HASH].intermediate for each in (JIT_HASH, AUTO_HASH)}
    return [
        at_least("bushy defaults, nested loops: push / jit, candidates", _gain(defaults), 10),
        at_most(
            "bushy defaults, nested loops: jit / push, peak bytes of states and of what feedback remembers",
            _state(defaults),
            0.5,
        ),
        below("bushy defaults, nested loops: jit / push, peak bytes in all", _memory(defaults), 1),
        at_most("bushy defaults, hash: jit / push, intermediate results", fewer[JIT_HASH], 0.7),
        at_most("bushy defaults, hash: auto / push, intermediate results", fewer[AUTO_HASH], 0.7),
    ]


def _of_left_deep_plans(points: Sequence[Point]) -> list[Claim]:
    where = "left-deep plans, nested loops, in every point: jit / push"
    return [
        below(f"{where}, candidates", max(1 / _gain(point) for point in points), 1),
        below(
            f"{where}, peak bytes of states and of what feedback remembers", max(_state(point) for point in points), 1
        ),
    ]


def _gain(point: Point) -> float:
    """How many times fewer candidates nested loops looked at with feedback."""
    return _times_fewer(point[PUSH_LOOPS].candidates, point[JIT_LOOPS].candidates)


def _saved(point: Point) -> int:
    """How many candidates nested loops did not look at because of feedback."""
    return point[PUSH_LOOPS].candidates - point[JIT_LOOPS].candidates


def _growth(least: Point, greatest: Point) -> float:
    """How much faster the work grows with feedback: "scales more gracefully", as the paper has it of N."""
    jit, push = (greatest[each].candidates - least[each].candidates for each in (JIT_LOOPS, PUSH_LOOPS))
    return _ratio(jit, push)


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole > 0 else float("inf")


def _state(point: Point) -> float:
    jit, push = point[JIT_LOOPS].peaks, point[PUSH_LOOPS].peaks
    return (jit.state_bytes + jit.feedback_bytes) / push.state_bytes


def _memory(point: Point) -> float:
    return point[JIT_LOOPS].peaks.all_bytes / point[PUSH_LOOPS].peaks.all_bytes


def _times_fewer(push: int, other: int) -> float:
    return push / max(1, other)


def _value(clique: Clique, figure: Figure) -> float:
    return float(getattr(clique, figure.parameter))


def _telling(report: Report, what: str) -> Report:
    return lambda text: report(f"{what}: {text}")
