"""Whether adapting pays: streams that drift and streams that do not, against plans that stay what they are.

A hub is joined with every other stream on an attribute of its own. In each phase one of these others has few partners
for the hub's tuples and arrives twice as often, the rest have more than one. Whoever probes the selective one first
is spared most of the work; which one it is changes from phase to phase.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from thalweg import cql
from thalweg.arrivals import arrivals
from thalweg.experiments import answers
from thalweg.experiments.experiment import Claim, Report, Row, at_least, at_most, rounded
from thalweg.experiments.jisc.sizes import SEED, Adapting
from thalweg.experiments.laps import Lap, Laps, race
from thalweg.options import Options
from thalweg.plan.difference import format_any
from thalweg.planning import measured_statistics, plan_for
from thalweg.replayer import run

DRIFTING = "adaptivity: drifting streams"
STEADY = "adaptivity: stationary streams"
ADAPTIVE = "adaptive"
INITIAL = "the initial plan"

_WINDOW_S = 1.0
_RATE = 2_000.0
"""Tuples per second and stream."""
_FEW = 0.005
"""Partners of a hub tuple in the selective stream."""
_MANY = 100.0
"""Combinations of partners that it has in the others together."""
_BATCH = 1 << 13
"""Tuples handed over at once: the plan can change between two batches."""


@dataclass(frozen=True, slots=True)
class Star:
    """The join of a hub with ``streams - 1`` others.

    >>> print(Star(3).cql)
    SELECT h.id AS id0, a1.id AS id1, a2.id AS id2
    FROM h, a1, a2
    WHERE h.k1 = a1.k AND h.k2 = a2.k
    WINDOW RANGE 1 SECONDS
    """

    streams: int

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
        partners = dict.fromkeys(self.others, _MANY ** (1 / (self.streams - 2))) | {selective: _FEW}
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
        contenders = {ADAPTIVE: _options(adaptive=True), INITIAL: _options(adaptive=False)}
        for phase in range(1, min(sizes.phases, streams - 1)):
            text = _plan_of(star, phase, sizes.phase_seconds)
            contenders[f"the plan of phase {phase + 1}"] = _options(adaptive=False, plan=text)
        laps, changes = _race(
            star, tables, contenders, sizes.rounds, report, f"drifting, {streams} streams", warm_up=False
        )
        rows += _rows(DRIFTING, star, tables, laps, changes)
        static = {name: each.median for name, each in laps.items() if name != ADAPTIVE}
        gains.append(static[INITIAL] / laps[ADAPTIVE].median)
        for name, pick in (("the best static plan in hindsight", min), ("the worst static plan", max)):
            seconds = pick(static.values())
            rows.append(
                {
                    "part": "adaptivity: drifting streams, adaptive against static plans",
                    "streams": streams,
                    "against": name,
                    "which": next(plan for plan, took in static.items() if took == seconds),
                    "times_as_fast": round(seconds / laps[ADAPTIVE].median, 3),
                }
            )
    return _by_part(rows), [at_least("drifting streams: adaptive / the initial plan, tuples/s", min(gains), 2)]


def stationary(sizes: Adapting, report: Report) -> tuple[list[Row], list[Claim]]:
    """Nothing to adapt to: what watching costs, and whether a good plan is left alone."""
    rows: list[Row] = []
    behind, monitoring = [], []
    for streams in sizes.streams:
        star = Star(streams)
        tables = star.tables(np.random.default_rng(SEED), 1, sizes.steady_seconds)
        what = f"stationary, {streams} streams"
        contenders = {ADAPTIVE: _options(adaptive=True), INITIAL: _options(adaptive=False)}
        laps, changes = _race(star, tables, contenders, sizes.steady_rounds, report, what)
        if streams > 3:  # many times as slow: once is enough
            other = {"the plan of another phase": _options(adaptive=False, plan=_plan_of(star, 1, sizes.phase_seconds))}
            slow, unchanged = _race(star, tables, other, 1, report, what, warm_up=False)
            laps, changes = laps | slow, changes | unchanged
        rows += _rows(STEADY, star, tables, laps, changes)
        # A few per cent are less than laps differ by; what disturbs them only ever makes them slower.
        monitoring.append(min(laps[ADAPTIVE].seconds) / min(laps[INITIAL].seconds))
        behind.append(
            min(laps[ADAPTIVE].seconds) / min(min(each.seconds) for name, each in laps.items() if name != ADAPTIVE)
        )
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


def _race(
    star: Star,
    tables: Mapping[str, pa.Table],
    contenders: Mapping[str, Options],
    rounds: int,
    report: Report,
    what: str,
    *,
    warm_up: bool = True,
) -> tuple[dict[str, Laps], dict[str, int]]:
    changes: dict[str, int] = {}

    def lap(name: str) -> Lap:
        started = time.process_time()
        found = run(star.cql, tables, options=contenders[name])
        seconds = time.process_time() - started
        summary = found.summary
        changes[name] = len(summary.plans) - 1
        counts = {each: getattr(summary, each) for each in ("probes", "candidates", "stored", "completions")}
        return Lap(seconds, counts, answers.fingerprint(answers.ids_of(found.table)))

    laps = race(lap, list(contenders), rounds, lambda text: report(f"{what}: {text}"), warm_up=warm_up)
    return laps, changes


def _rows(
    part: str, star: Star, tables: Mapping[str, pa.Table], laps: Mapping[str, Laps], changes: Mapping[str, int]
) -> list[Row]:
    tuples = sum(len(table) for table in tables.values())
    return [
        {
            "part": part,
            "contender": name,
            "streams": star.streams,
            "tuples": tuples,
            **each.columns(tuples),
            "plan_changes": changes[name],
            "times_as_slow_as_adaptive": rounded(each.median / laps[ADAPTIVE].median),
        }
        for name, each in laps.items()
    ]


def _by_part(rows: Sequence[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: str(row["part"]))
