"""Whether adapting pays: streams that drift and streams that do not, against plans that stay what they are.

A hub is joined with every other stream on an attribute of its own. In each phase one of these others has few partners
for the hub's tuples and arrives twice as often, the rest have more than one. Whoever probes the selective one first
is spared most of the work; which one it is changes from phase to phase.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from thalweg import cql
from thalweg.driver.planning import plan_for
from thalweg.experiments import answers
from thalweg.experiments.experiment import Claim, Report, Row, at_least, at_most, rounded
from thalweg.experiments.jisc.sizes import SEED, Adapting
from thalweg.experiments.laps import Lap, Laps, side_by_side
from thalweg.options import Options
from thalweg.plan.difference import format_any
from thalweg.replayer import open_replay
from thalweg.replayer.arrivals import arrivals, measured_statistics

DRIFTING = "adaptivity: drifting streams"
STEADY = "adaptivity: stationary streams"
ADAPTIVE = "adaptive"
INITIAL = "the initial plan"
OTHER = "the plan of another phase"

_WINDOW_S = 1.0
_RATE = 2_000.0
"""Tuples per second and stream."""
_RESULTS = 0.5
"""Results of a hub tuple, when the windows are full."""
_BATCH = 1 << 14
"""Tuples handed over at once: the plan can change between two batches."""
_PIECE = 1 << 15
"""Tuples after which contenders take turns."""
_COUNTS = ("probes", "candidates", "stored", "completions")


@dataclass(frozen=True, slots=True)
class Star:
    """The join of a hub with ``streams - 1`` others.

    A hub tuple has so many ``combinations`` of partners in those that are not selective: the more, the dearer an order
    that begins with them.

    >>> print(Star(3).cql)
    SELECT h.id AS id0, a1.id AS id1, a2.id AS id2
    FROM h, a1, a2
    WHERE h.k1 = a1.k AND h.k2 = a2.k
    WINDOW RANGE 1 SECONDS
    """

    streams: int
    combinations: float = 100.0

    @property
    def others(self) -> range:
        return range(1, self.streams)

    @property
    def cql(self) -> str:
        outputs = ", ".join(f"a{other}.id AS id{other}" for other in self.others)
        return (
            f"SELECT h.id AS id0, {outputs}\n"
            f"FROM h, {', '.join(f'a{other}' for other in self.others)}\n"
            f"WHERE {' AND '.join(f'h.k{other} = a{other}.k' for other in self.others)}\n"
            f"WINDOW RANGE {_WINDOW_S:g} SECONDS"
        )

    @property
    def rate(self) -> float:
        """Tuples per second of all streams together: one of them arrives twice as often."""
        return _RATE * (self.streams + 1)

    def tables(self, rng: np.random.Generator, phases: int, seconds: float) -> dict[str, pa.Table]:
        """The streams, with phases of so many seconds."""
        parts = [self.phase(rng, phase, phase * seconds, seconds) for phase in range(phases)]
        return {name: _numbered(pa.concat_tables([part[name] for part in parts])) for name in parts[0]}

    def phase(self, rng: np.random.Generator, number: int, start: float, seconds: float) -> dict[str, pa.Table]:
        """The streams in one phase: the first of the others is selective, then the last, then the one before it."""
        selective = 1 + -number % (self.streams - 1)
        partners = dict.fromkeys(self.others, self.combinations ** (1 / (self.streams - 2)))
        partners[selective] = _RESULTS / self.combinations
        rate = {other: _RATE * (2 if other == selective else 1) for other in self.others}
        domains = {other: round(_WINDOW_S * rate[other] / partners[other]) for other in self.others}
        hub = {f"k{other}": domains[other] for other in self.others}
        tables = {"h": _arrivals(rng, start, seconds, _RATE, hub)}
        for other in self.others:
            tables[f"a{other}"] = _arrivals(rng, start, seconds, rate[other], {"k": domains[other]})
        return tables


def _arrivals(
    rng: np.random.Generator, start: float, seconds: float, rate: float, domains: Mapping[str, int]
) -> pa.Table:
    times = np.sort(rng.uniform(start, start + seconds, round(rate * seconds)))
    keys = {name: rng.integers(0, domain, len(times)) for name, domain in domains.items()}
    return pa.table({"ts": (1e6 * times).astype(np.int64), **keys})


def _numbered(table: pa.Table) -> pa.Table:
    return table.append_column("id", pa.array(np.arange(len(table))))


def drifting(sizes: Adapting, report: Report) -> tuple[list[Row], list[Claim]]:
    """The adaptive plan against the best plan for each of the phases, kept throughout."""
    rows: list[Row] = []
    gains = []
    for streams in sizes.streams:
        star = Star(streams)
        tables = star.tables(np.random.default_rng(SEED), sizes.phases, sizes.phase_seconds)
        contenders = contenders_of(star, sizes.phases, sizes.phase_seconds)
        course = _Course(star, tables, contenders)
        laps = course.drive(dict.fromkeys(contenders, sizes.rounds), report, f"drifting, {streams} streams")
        rows += _rows(DRIFTING, course, laps)
        gains.append(laps[ADAPTIVE].times_as_fast_as(laps[INITIAL]))
        rows += against_static(DRIFTING, star, {name: each.median for name, each in laps.items()})
    return _by_part(rows), [at_least("drifting streams: adaptive / the initial plan, tuples/s", min(gains), 2)]


def contenders_of(star: Star, phases: int, seconds: float) -> dict[str, Options]:
    """The plan that adapts, the initial one, and the best one for each of the other phases, kept throughout."""
    contenders = {ADAPTIVE: _options(adaptive=True), INITIAL: _options(adaptive=False)}
    for phase in range(1, min(phases, star.streams - 1)):
        text = _plan_of(star, phase, seconds)
        contenders[f"the plan of phase {phase + 1}"] = _options(adaptive=False, plan=text)
    return contenders


def against_static(part: str, star: Star, seconds: Mapping[str, float]) -> list[Row]:
    """The adaptive plan beside the best and the worst of the others, known in hindsight."""
    static = {name: took for name, took in seconds.items() if name != ADAPTIVE}
    named = (("the best static plan in hindsight", min), ("the worst static plan", max))
    return [
        {
            "part": f"{part}, adaptive against static plans",
            "streams": star.streams,
            "against": against,
            "which": which,
            "times_as_fast": round(static[which] / seconds[ADAPTIVE], 3),
        }
        for against, pick in named
        for which in [pick(static, key=static.__getitem__)]
    ]


def stationary(sizes: Adapting, report: Report) -> tuple[list[Row], list[Claim]]:
    """Nothing to adapt to: what watching costs, and whether a good plan is left alone."""
    rows: list[Row] = []
    behind, monitoring = [], []
    for streams in sizes.streams:
        star = Star(streams)
        tables = star.tables(np.random.default_rng(SEED), 1, sizes.steady_seconds)
        contenders = {
            ADAPTIVE: _options(adaptive=True),
            INITIAL: _options(adaptive=False),
            OTHER: _options(adaptive=False, plan=_plan_of(star, 1, sizes.phase_seconds)),
        }
        course = _Course(star, tables, contenders)
        rounds = dict.fromkeys(contenders, sizes.steady_rounds) | {OTHER: 1}  # many times as slow: once is enough
        laps = course.drive(rounds, report, f"stationary, {streams} streams")
        rows += _rows(STEADY, course, laps)
        ahead = {name: laps[name].times_as_fast_as(laps[ADAPTIVE]) for name in (INITIAL, OTHER)}
        monitoring.append(ahead[INITIAL])
        behind.append(max(ahead.values()))
    return rows, [
        at_most("stationary streams: adaptive / the best static plan, time per tuple", max(behind), 1.05),
        at_most("stationary streams: watching / not watching, time per tuple", max(monitoring), 1.02),
    ]


def _options(*, adaptive: bool, plan: str | None = None) -> Options:
    return Options(plan=plan, adaptive=adaptive, batch_size=_BATCH)


def _plan_of(star: Star, phase: int, seconds: float) -> str:
    """The planner's choice for streams as they are in a phase."""
    rng = np.random.default_rng(SEED)
    part = star.phase(rng, phase, 0.0, seconds)
    tables = {name: _numbered(table) for name, table in part.items()}
    (query,) = cql.bind(star.cql, {name: cql.Source(table.schema, "ts") for name, table in tables.items()})
    streams = arrivals([(name, table, "ts") for name, table in tables.items()], None)
    plan = plan_for(query, measured_statistics(query, streams), None, "auto")
    return format_any(plan, query.aliases)


class _Course:
    """Tables that contenders replay side by side."""

    def __init__(self, star: Star, tables: Mapping[str, pa.Table], contenders: Mapping[str, Options]) -> None:
        self.star = star
        self._tables = tables
        self._contenders = contenders
        self._rides: dict[str, _Ride] = {}
        total = sum(len(table) for table in tables.values())
        first = min(round(star.rate * _WINDOW_S), total // 2)
        self._cuts: list[int] = [*range(first, total, _PIECE), total]
        self._begun = 0

    @property
    def tuples(self) -> int:
        """How many are on the clock: all but the first batches, those of a window."""
        return self._cuts[-1] - self._begun

    def drive(self, rounds: Mapping[str, int], report: Report, what: str) -> dict[str, Laps]:
        return side_by_side(self._begin, self._cuts, rounds, lambda text: report(f"{what}: {text}"))

    def _begin(self, name: str) -> Callable[[int], Lap]:
        self._rides[name] = _Ride(self.star, self._tables, self._contenders[name])
        self._rides[name].to(self._cuts[0])
        self._begun = self._rides[name].position  # batches are the same for all
        return self._rides[name].to

    def plan_changes(self, name: str) -> int:
        """How often a contender has changed its plan, in its last round."""
        return len(self._rides[name].replay.plans) - 1


class _Ride:
    """A replay on its way. Its clock does not run while the answer is taken down."""

    def __init__(self, star: Star, tables: Mapping[str, pa.Table], options: Options) -> None:
        self.replay = open_replay(star.cql, tables, options=options)
        self._steps = self.replay.steps()
        self.position = 0
        self._seen = dict.fromkeys(_COUNTS, 0)

    def to(self, end: int) -> Lap:
        """Go on until ``end`` tuples are done."""
        started = time.process_time()
        while self.position < end and (position := next(self._steps, None)) is not None:
            self.position = position
        seconds = time.process_time() - started
        found = answers.NOTHING
        for table in self.replay.answer:
            found = found.joined(answers.fingerprint(answers.ids_of(table)))
        self.replay.answer.clear()
        before = self._seen
        self._seen = {name: getattr(self.replay.driver.bucket.work, name) for name in _COUNTS}
        return Lap(seconds, {name: count - before[name] for name, count in self._seen.items()}, found)


def _rows(part: str, course: _Course, laps: Mapping[str, Laps]) -> list[Row]:
    return [
        {
            "part": part,
            "contender": name,
            "streams": course.star.streams,
            "tuples": course.tuples,
            **each.columns(course.tuples),
            "plan_changes": course.plan_changes(name),
            "times_as_slow_as_adaptive": rounded(laps[ADAPTIVE].times_as_fast_as(each)),
        }
        for name, each in laps.items()
    ]


def _by_part(rows: Sequence[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: str(row["part"]))
