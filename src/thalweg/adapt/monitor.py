"""What is known of a running join: decayed averages over looks into its windows and at its counters.

A look takes a bounded sample of every base window, whatever they hold, and compares it pair by pair, as the
planner does before a join begins (:mod:`thalweg.plan.sampling`). What was counted is averaged, not what was
estimated from it: shares of pairs, tuples, time and work each fade by the same factor with every new look.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from thalweg.cql.query import Query
from thalweg.engine.observations import Glimpse, Work
from thalweg.engine.rows.layout import layouts
from thalweg.engine.time_bounds import FOREVER, NEVER
from thalweg.engine.windows.sampling import sample_windows
from thalweg.plan import sampling
from thalweg.plan.sampling import MICROSECONDS, Contents
from thalweg.plan.statistics import Statistics

LOOK_ROWS = 1_000
"""Tuples of a window to look at: the million pairs of two such samples show a hundred matches where a window has ten
thousand keys, and comparing them takes some tens of microseconds."""


NO_WORK = Work(0, 0, 0, 0, 0, 0).counts


class Faded:
    """A share of pairs, of which old ones count less and less."""

    __slots__ = ("pairs", "satisfied")

    def __init__(self, pairs: float = 0.0, satisfied: float = 0.0) -> None:
        self.pairs = pairs
        self.satisfied = satisfied

    def add(self, tally: sampling.Tally, memory: float) -> None:
        self.pairs = memory * self.pairs + tally.pairs
        self.satisfied = memory * self.satisfied + tally.satisfied

    def share(self) -> float | None:
        """Never zero: less than one in the pairs seen. None: hardly any pair was seen."""
        return min(max(self.satisfied, 0.5) / self.pairs, 1.0) if self.pairs >= 1 else None


class Monitor:
    """Averages of one bucket's streams and work; ``memory`` is what a new look leaves of the old ones."""

    def __init__(self, query: Query, memory: float) -> None:
        self._query = query
        self._memory = memory
        n = len(query.streams)
        self._lifetimes = [layout.lifetime for layout in layouts(query)]
        self._arrived = [0.0] * n
        self._elapsed = 0.0
        self._held = [0.0] * n
        self._looks = 0.0
        self._agreements = [
            {(a, b): Faded() for a in sorted(c.members) for b in sorted(c.members) if a <= b} for c in query.classes
        ]
        self._thetas = [Faded() for _ in query.thetas]
        self._work = [0.0] * len(NO_WORK)
        # The last look, which the next one is compared with.
        self._began = self._time = NEVER
        self._arrivals = [0] * n

    # -- Looking ------------------------------------------------------------------------

    def look(self, glimpse: Glimpse, work: Sequence[int]) -> None:
        """Take in what the windows show, and the work done since the last look, as :data:`Counts`."""
        memory = self._memory
        self._count_arrivals(glimpse)
        for stream, window in enumerate(glimpse.windows):
            self._held[stream] = memory * self._held[stream] + window.held
        self._looks = memory * self._looks + 1
        samples = sample_windows(self._query, glimpse)
        look = [[Contents(len(sample.times), np.arange(len(sample.times))) for sample in samples]]
        for cls, attribute in enumerate(self._query.classes):
            for pair, tally in sampling.agreement(attribute.members, cls, samples, look).items():
                self._agreements[cls][pair].add(tally, memory)
        for theta, predicate in enumerate(self._query.thetas):
            left, right = (samples[side.stream].operands[theta] for side in (predicate.left, predicate.right))
            self._thetas[theta].add(sampling.satisfaction(predicate, [left], [right]), memory)
        self._work = [memory * old + new for old, new in zip(self._work, work, strict=True)]

    def _count_arrivals(self, glimpse: Glimpse) -> None:
        came = [window.arrived - before for window, before in zip(glimpse.windows, self._arrivals, strict=True)]
        if self._time > NEVER and min(came) >= 0:
            self._arrived = [self._memory * old + new for old, new in zip(self._arrived, came, strict=True)]
            self._elapsed = self._memory * self._elapsed + max(glimpse.time - self._time, 0)
        if self._began == NEVER:
            self._began = glimpse.time
        self._time = glimpse.time
        self._arrivals = [window.arrived for window in glimpse.windows]

    def forget(self) -> None:
        """The streams have changed: what was seen of them before says nothing about them now."""
        self._arrived, self._elapsed = [0.0] * len(self._arrived), 0.0
        self._held, self._looks = [0.0] * len(self._held), 0.0
        for faded in (*(each for pairs in self._agreements for each in pairs.values()), *self._thetas):
            faded.pairs = faded.satisfied = 0.0
        self.forget_work()

    def forget_work(self) -> None:
        """Another plan: the work of the old one says nothing about it."""
        self._work = [0.0] * len(self._work)

    # -- What is known ------------------------------------------------------------------

    @staticmethod
    def statistics_of(query: Query, glimpse: Glimpse) -> Statistics:
        """What a single look says."""
        monitor = Monitor(query, memory=1.0)
        monitor.look(glimpse, NO_WORK)
        return monitor.statistics()

    @property
    def work(self) -> tuple[float, ...]:
        """Average counts, in the order of :data:`Counts`."""
        return tuple(self._work)

    def statistics(self) -> Statistics:
        """What the planner needs to know, as it is now."""
        rates = self._rates()
        return Statistics.of_shares(
            self._query,
            rates,
            [self._window(stream, rate) for stream, rate in enumerate(rates)],
            [{pair: faded.share() for pair, faded in cls.items()} for cls in self._agreements],
            [faded.share() for faded in self._thetas],
        )

    def _rates(self) -> list[float]:
        """Tuples per second; while no time has passed, at least in proportion."""
        if self._elapsed == 0:
            return [float(max(count, 1)) for count in self._arrivals]
        return [max(count, 0.5) * MICROSECONDS / self._elapsed for count in self._arrived]

    def _window(self, stream: int, rate: float) -> float:
        """Its size; of one that is still filling up, what it will hold."""
        held, lifetime = self._held[stream] / max(self._looks, 1e-9), self._lifetimes[stream]
        if lifetime >= FOREVER or self._time - self._began >= lifetime or self._elapsed == 0:
            return held
        return max(held, rate * lifetime / MICROSECONDS)

    # -- What is remembered -------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        return {
            "arrived": self._arrived,
            "elapsed": self._elapsed,
            "held": self._held,
            "looks": self._looks,
            "agreements": [[[*pair, f.pairs, f.satisfied] for pair, f in cls.items()] for cls in self._agreements],
            "thetas": [[f.pairs, f.satisfied] for f in self._thetas],
            "work": self._work,
            "began": self._began,
            "time": self._time,
            "arrivals": self._arrivals,
        }

    def restore(self, known: Mapping[str, Any]) -> None:
        """Be what another monitor of the same query was."""
        self._arrived, self._elapsed = list(known["arrived"]), known["elapsed"]
        self._held, self._looks = list(known["held"]), known["looks"]
        self._agreements = [{(a, b): Faded(pairs, hits) for a, b, pairs, hits in cls} for cls in known["agreements"]]
        self._thetas = [Faded(*pair) for pair in known["thetas"]]
        self._work = list(known["work"])
        self._began, self._time, self._arrivals = known["began"], known["time"], list(known["arrivals"])
