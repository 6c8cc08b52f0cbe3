"""Figures 7, 8, 9, 11 and 12: throughput while a plan changes, when it does not, and when it does so often.

Every plan is a left-deep pipeline that keeps all its states, as in the paper, whatever would be the best here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from thalweg.experiments.experiment import Claim, Report, Row, at_least, at_most
from thalweg.experiments.jisc.driving import (
    CACQ,
    JISC,
    MOVING_STATE,
    PARALLEL_TRACK,
    PRINTED,
    STAIRS,
    STAIRS_JISC,
    Changes,
    Drive,
    faster,
)
from thalweg.experiments.jisc.sizes import SEED, Normal, Often, Stage
from thalweg.experiments.jisc.workloads import Tuples, Uniform, all_incomplete, one_incomplete, pipeline
from thalweg.experiments.laps import Lap, Laps, side_by_side
from thalweg.plan.join_graph import JoinGraph
from thalweg.plan.search import choose_plan
from thalweg.plan.tree import Plan

Change = Callable[[Sequence[int]], list[int]]

FIGURE_7 = "figure 7: while the plan changes, one state incomplete"
FIGURE_8 = "figure 8: while the plan changes, all states incomplete"
FIGURE_9 = "figure 9: normal operation"
FIGURE_11 = "figure 11: changes from time to time, all states incomplete"
FIGURE_12 = "figure 12: changes from time to time, one state incomplete"
RIVALS = (MOVING_STATE, PARALLEL_TRACK, PRINTED)
"""Those that JISC is asked to be ahead of."""
CLOSE = (JISC, MOVING_STATE)
"""Those that are close to each other: it takes more rounds to tell."""
SLOW = (PRINTED, STAIRS, STAIRS_JISC)
"""Those that take many times as long: fewer rounds tell."""
PLAIN = "plain pipeline"
AUTO = "auto"

_PIECE = 1 << 13
"""Tuples after which contenders take turns; what a change of plan takes belongs to the piece that it begins."""

_CHANGES: dict[str, Change] = {
    FIGURE_7: one_incomplete,
    FIGURE_8: all_incomplete,
    FIGURE_11: all_incomplete,
    FIGURE_12: one_incomplete,
}


@dataclass(frozen=True, slots=True)
class _Course:
    """Tuples to be driven through: up to ``start`` to warm up, then on the clock to ``end``, with changes of plan."""

    workload: Uniform
    tuples: Tuples
    start: int
    end: int
    changes: Changes = ()

    @property
    def cuts(self) -> list[int]:
        return [*range(self.start, self.end, _PIECE), self.end]

    @property
    def settled(self) -> list[int]:
        """The pieces in which nothing of a change is left: whatever was incomplete is complete.

        In a turn all tuples from before a change leave the windows, in half of one it is noticed.
        """
        changed = [position for position, _ in self.changes]
        last = [max((c for c in changed if c < end), default=self.start) for end in self.cuts[1:]]
        return [i for i, begun in enumerate(self.cuts[:-1]) if begun >= last[i] + 2 * self.workload.turn]

    def begin(self, plan: Plan, policy: str) -> Callable[[int], Lap]:
        """Warm up; what is returned drives on."""
        drive = Drive(policy, self.workload, plan, self.tuples)
        drive.to(self.start)
        return partial(self._go_on, drive)

    def _go_on(self, drive: Drive, end: int) -> Lap:
        return drive.to(end, [change for change in self.changes if drive.position <= change[0] < end])


def migration_stage(figure: str, sizes: Stage, report: Report) -> tuple[list[Row], list[Claim]]:
    """From a change of plan until all tuples from before have left the windows (JISC 6.1)."""
    rows: list[Row] = []
    points: list[dict[str, Laps]] = []
    for joins in sizes.joins:
        workload = Uniform(joins, sizes.window)
        start = sizes.warm_turns * workload.turn
        tuples = workload.tuples(np.random.default_rng(SEED), start + workload.turn)
        old = range(workload.streams)
        course = _Course(workload, tuples, start, start + workload.turn, [(start, pipeline(_CHANGES[figure](old)))])
        often = sizes.rounds * max(1, sizes.joins[-1] // joins)  # short stages: noise weighs more, and rounds cost less
        rounds = _rounds((JISC, *RIVALS, CACQ, STAIRS, STAIRS_JISC), often, sizes.slow_rounds) | {PARALLEL_TRACK: often}
        tell = _prefixed(report, f"{_short(figure)}, {joins} joins")
        points.append(side_by_side(partial(course.begin, pipeline(old)), course.cuts, rounds, tell))
        rows += _rows(figure, {"joins": joins, "window": sizes.window}, workload.turn, points[-1])
    claims = _ahead(_short(figure), points)
    if figure == FIGURE_7:
        most = f"{_short(figure)}, {sizes.joins[-1]} joins: jisc / "
        claims += [
            at_least(f"{most}the better Parallel Track, tuples/s", _least(points[-1:], (PARALLEL_TRACK, PRINTED)), 1.8),
            at_least(f"{most}Parallel Track as printed, tuples/s", _least(points[-1:], (PRINTED,)), 4),
        ]
    return rows, claims


def changes_from_time_to_time(figure: str, sizes: Often, report: Report) -> tuple[list[Row], list[Claim]]:
    """A change every so many tuples (JISC 6.4): there and back, each time with the same states incomplete.

    What is timed are whole periods, which begin with their changes. Two turns after a change JISC and Moving State run
    the same programs over the same complete states: what differs there is noise, the more the longer the period.
    """
    rows: list[Row] = []
    points: list[dict[str, Laps]] = []
    workload = Uniform(sizes.joins, sizes.window)
    start = sizes.warm_turns * workload.turn
    tuples = workload.tuples(np.random.default_rng(SEED), start + max(map(sizes.timed, sizes.periods)))
    one = list(range(workload.streams))
    plans = pipeline(one), pipeline(_CHANGES[figure](one))
    for period, often in zip(sizes.periods, sizes.rounds, strict=True):
        rounds = _rounds((JISC, *RIVALS, CACQ), often, sizes.slow_rounds)
        timed = sizes.timed(period)
        positions = range(start, start + timed, period)
        changes = [(position, plans[turn % 2]) for turn, position in enumerate(positions, start=1)]
        course = _Course(workload, tuples, start, start + timed, changes)
        tell = _prefixed(report, f"{_short(figure)}, every {period:,} tuples")
        alike = dict.fromkeys(CLOSE, course.settled)
        points.append(side_by_side(partial(course.begin, plans[0]), course.cuts, rounds, tell, alike))
        columns: Row = {"period": period, "turns": round(period / workload.turn, 2), "joins": sizes.joins}
        rows += _rows(figure, {**columns, "window": sizes.window}, timed, points[-1])
    return rows, _ahead(_short(figure), points)


def normal_operation(parts: Sequence[Normal], report: Report) -> tuple[list[Row], list[Claim]]:
    """All states complete (JISC 6.2).

    The plain pipeline is the same engine with the same plan from the first tuple on: its states began
    complete, and nothing of a migration was ever there. JISC comes from a change of plan, and has completed its states
    since. What both share, and a pipeline without migration would not need, is one comparison per probe and per entry
    stored: whether the state is complete.
    """
    rows: list[Row] = []
    claims: list[Claim] = []
    for sizes in parts:
        workload = Uniform(sizes.joins, sizes.window, sizes.method, "decks")
        start = sizes.warm_turns * workload.turn
        tuples = workload.tuples(np.random.default_rng(SEED), start + sizes.tuples)
        course = _Course(workload, tuples, start, start + sizes.tuples)
        rounds = dict.fromkeys((JISC, PLAIN, CACQ, AUTO), sizes.rounds)
        tell = _prefixed(report, f"figure 9, {sizes.method}")
        laps = side_by_side(partial(_begin_normally, course), course.cuts, rounds, tell)
        columns: Row = {"method": sizes.method, "joins": sizes.joins, "window": sizes.window}
        rows += _rows(FIGURE_9, columns, sizes.tuples, laps)
        if sizes.method == "hash":
            claims.append(
                at_most("figure 9: jisc / plain pipeline, time per tuple", 1 / faster(laps, JISC, PLAIN), 1.03)
            )
        behind = max(1 / faster(laps, AUTO, other) for other in (PLAIN, CACQ))
        claims.append(
            at_most(f"figure 9, {sizes.method}: auto / the better of pipeline and CACQ, time per tuple", behind, 1.05)
        )
    return rows, claims


def _begin_normally(course: _Course, name: str) -> Callable[[int], Lap]:
    workload = course.workload
    plan: Plan = pipeline(range(workload.streams))
    if name == CACQ:
        return course.begin(plan, CACQ)
    if name == AUTO:
        plan = choose_plan(JoinGraph.of(workload.query), workload.statistics, "auto")
    if name != JISC:
        return course.begin(plan, JISC)
    drive = Drive(JISC, workload, pipeline(all_incomplete(range(workload.streams))), course.tuples)
    drive.to(course.start, [(workload.turn, plan)])
    return drive.to


def _rounds(names: Sequence[str], close: int, slow: int) -> dict[str, int]:
    """How often each takes part: ``close`` ones so often, ``slow`` ones so rarely, the others in between."""
    rounds = dict.fromkeys(names, max(slow, close // 3)) | dict.fromkeys(CLOSE, close)
    return {name: slow if name in SLOW else rounds[name] for name in names}


def _rows(part: str, columns: Row, tuples: int, laps: dict[str, Laps]) -> list[Row]:
    return [
        {
            "part": part,
            "policy": name,
            **columns,
            "tuples": tuples,
            **each.columns(tuples),
            "jisc_speedup": round(faster(laps, JISC, name), 4),
            "noise": _noise(laps, name),
        }
        for name, each in laps.items()
    ]


def _noise(laps: dict[str, Laps], name: str) -> float | None:
    """Of JISC's speedup: what is not much farther from 1 is a tie."""
    noise = laps[JISC].noise_beside(laps[name])
    return None if noise is None else round(noise, 4)


def _ahead(figure: str, points: Sequence[dict[str, Laps]]) -> list[Claim]:
    """Times, and against the closest rival what noise does not touch."""
    more = max(_work(laps[JISC]) / _work(laps[MOVING_STATE]) for laps in points)
    return [
        *(
            at_least(f"{figure}, in every point: jisc / {name}, tuples/s", _least(points, (name,)), 1)
            for name in RIVALS
        ),
        at_most(f"{figure}, in every point: jisc / {MOVING_STATE}, probes, candidates and entries", more, 1),
    ]


def _work(laps: Laps) -> int:
    return sum(laps.work[name] for name in ("probes", "candidates", "stored"))


def _least(points: Sequence[dict[str, Laps]], names: Sequence[str]) -> float:
    return min(faster(laps, JISC, name) for laps in points for name in names)


def _short(figure: str) -> str:
    return figure.partition(":")[0]


def _prefixed(report: Report, prefix: str) -> Report:
    return lambda text: report(f"{prefix}: {text}")
