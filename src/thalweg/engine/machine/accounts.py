"""The accounts of a join that runs under a budget, and what they say about the results that were left out.

Accounts outlive a change of plan: stream and step say which account it is. A program has at most a probe for each other
stream; where states are kept, it has fewer. A probe that has to complete a key first is charged for that, too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from thalweg.engine.kernels import accounts as k
from thalweg.engine.kernels.compiled import Float64s, Int64s
from thalweg.engine.rows.layout import StreamLayout
from thalweg.engine.time_bounds import FOREVER
from thalweg.errors import PlanError
from thalweg.plan.allocation.division import Division, Way
from thalweg.plan.allocation.harvest import SEGMENTS
from thalweg.plan.program import Programs
from thalweg.plan.slices import MOST_SELECTIONS
from thalweg.plan.tree import Node

_SEED = 1
"""Where the random numbers begin, so that runs repeat."""
_SPREAD_TUPLES = 64
"""A shortage is spread over the probes that so many tuples pay for: a burst meets no empty account, and what was saved
is soon spent."""
_LEAST_SPREAD = 16
"""And over so many at least: with fewer, chances would jump from probe to probe."""
_SAVINGS = 2
"""An account holds so many times what a shortage is spread over: quiet times pay for a burst, and not for more."""
_MOST_FEED = 1 << 20
"""More probes than any tuple makes at one step. Sums of them have to fit a word."""

_MOST_WAYS = 4
"""A way for most tuples, one for those that look at a part more, one for those that look everywhere; and one to spare.
"""

Feeds = Sequence[Sequence[float]]
"""[stream][step]: the probes that each tuple of the stream pays for; infinite: all that it asks for."""


@dataclass(frozen=True, slots=True)
class Spent:
    """What accounts were asked for.

    Attributes:
        fed: [stream] tuples that have arrived.
        allowed: [stream, step] probes.
        refused: likewise.
        hopeless: likewise, the refused probes that had no chance. Nothing can be said about what they would have found.
        paid: likewise, what allowed probes were charged: one that looks at a part of a window counts as that part, and
            what completes a key counts, too.
        shed: [stream] tuples that were kept out of their window.
        completing: likewise, probes that completed keys which the step asked for.
        ended: likewise, the matches that were results.
        looked: [stream, step] probes, if tuples go several ways: as if all went all of them.
        parts: [stream, step, part] their matches likewise, by the part of the window.
        estimates: [stream] an unbiased estimate of the results that its tuples would have found if nothing had been
            refused.
        variances: of these.

    """

    fed: Int64s
    allowed: Int64s
    refused: Int64s
    hopeless: Int64s
    paid: Float64s
    shed: Int64s
    completing: Int64s
    ended: Int64s
    looked: Float64s
    parts: Float64s
    estimates: Float64s
    variances: Float64s

    @staticmethod
    def nothing(streams: int) -> Spent:
        """Of a join that has not begun."""
        steps = np.zeros((streams, max(0, streams - 1)), np.int64)
        nobody, work = np.zeros(streams, np.int64), steps.astype(np.float64)
        parts = np.zeros((*steps.shape, SEGMENTS))
        none = np.zeros(streams)
        return Spent(nobody, steps, steps, steps, work, nobody, steps, steps, work, parts, none, none)

    @property
    def full(self) -> float:
        """An unbiased estimate of the results that would have been found if nothing had been refused."""
        return float(self.estimates.sum())

    @property
    def variance(self) -> float:
        """Of this estimate."""
        return float(self.variances.sum())

    @property
    def wanted(self) -> Int64s:
        """Probes that were asked for."""
        both: Int64s = self.allowed + self.refused
        return both

    @property
    def found(self) -> Int64s:
        """[stream, step] What the allowed probes led to: probes of the next step, or results."""
        behind: Int64s = self.ended.copy()
        behind[:, :-1] += self.wanted[:, 1:]
        return behind

    @property
    def results(self) -> Int64s:
        """[stream] Results found by its tuples."""
        found: Int64s = self.ended.sum(axis=1)
        return found

    @property
    def is_complete(self) -> bool:
        """Whether nothing was left out: no probe, no part of one, no tuple."""
        return not self.refused.any() and not self.shed.any() and bool((self.paid >= self.allowed).all())

    @property
    def is_known(self) -> bool:
        """Whether it can be said what was left out: all of it had a chance."""
        return not self.shed.any() and not self.hopeless.any()

    def share_of(self, stream: int) -> tuple[float, float] | None:
        """The estimated share of the results that a stream's tuples would have found, and its standard error."""
        full = float(self.estimates[stream])
        if not self.is_known or not full:
            return None
        share = int(self.results[stream]) / full
        return share, share * math.sqrt(float(self.variances[stream])) / full

    @property
    def share(self) -> float | None:
        """The estimated share of the full answer that was found; None if something was refused without a chance.

        What shed tuples would have found is not known either.
        """
        if self.is_complete:
            return 1.0
        if not self.is_known or not self.full:
            return None
        return int(self.results.sum()) / self.full

    @property
    def error(self) -> float | None:
        """The standard error of the share."""
        share = self.share
        return None if share is None else share * math.sqrt(self.variance) / self.full if self.full else 0.0

    def __add__(self, other: Spent) -> Spent:
        return Spent(
            self.fed + other.fed,
            self.allowed + other.allowed,
            self.refused + other.refused,
            self.hopeless + other.hopeless,
            self.paid + other.paid,
            self.shed + other.shed,
            self.completing + other.completing,
            self.ended + other.ended,
            self.looked + other.looked,
            self.parts + other.parts,
            self.estimates + other.estimates,
            self.variances + other.variances,
        )


class Accounts:
    """An account for each stream and step; nobody is refused anything until somebody says what is fed.

    Attributes:
        programs: those that pay, as they are without gates.

    """

    def __init__(self, tables: k.Accounts, programs: Programs) -> None:
        self._tables, self.programs = tables, programs

    @staticmethod
    def new_tables(layouts: Sequence[StreamLayout], seed: int | None = None) -> k.Accounts:
        """Those of a join of streams with these layouts; ``seed``: where the random numbers begin."""
        seed = _SEED if seed is None else seed
        streams = len(layouts)
        steps = max(0, streams - 1)
        rng = np.random.default_rng(seed)
        table = np.zeros((streams, steps, k.ACCOUNT_FIELDS), np.int64)
        table[:, :, k.P_FEED], table[:, :, k.P_SPREAD] = k.UNLIMITED, _LEAST_SPREAD
        table[:, :, k.P_POINT] = rng.integers(0, k.ONE, table.shape[:2])
        tally = np.zeros(k.TALLIES, np.int64)
        tally[k.A_SEED], tally[k.A_WAYS] = seed, 1
        draws = np.zeros((streams, 3), np.int64)
        draws[:, k.D_POINT] = rng.integers(0, k.ONE, streams)
        return k.Accounts(
            table,
            np.full(table.shape[:2], k.NOBODY),
            np.ones(streams),
            np.zeros((streams + 1, 3)),
            np.zeros((streams, 2)),
            tally,
            draws,
            np.full((streams, _MOST_WAYS), k.ONE),
            np.array([_width(layout) for layout in layouts], np.int64),
            np.full((streams, steps, SEGMENTS), k.ALL_WAYS),
            np.full((streams, steps), k.ALL_WAYS),
            np.full((streams, steps, _MOST_WAYS), k.ONE),
            np.full((streams, steps, _MOST_WAYS), SEGMENTS),
            np.full(streams + 1, k.ALL_WAYS),
            np.zeros(streams + 1, np.int64),
            np.ones(1 + MOST_SELECTIONS),
            np.zeros((streams, steps)),
            np.zeros((streams, steps, SEGMENTS)),
        )

    def begin(self, layouts: Sequence[StreamLayout], seed: int) -> None:
        """Be as new: nothing was asked for, and nothing was saved. Readers weigh what they weighed."""
        weights, tally = self._tables.weights.copy(), self._tables.tally.copy()
        for mine, new in zip(self._tables, Accounts.new_tables(layouts, seed), strict=True):
            mine[...] = new
        self._tables.weights[:] = weights
        self._tables.tally[[k.A_WEIGHED, k.A_IN_ORDER]] = tally[[k.A_WEIGHED, k.A_IN_ORDER]]

    def is_whole(self, target: Node) -> bool:
        """Whether what a step probes is one part: a state, or a window that time does not end."""
        return len(target) > 1 or not self._tables.widths[min(target)]

    def follow(self, division: Division) -> None:
        """Let tuples in, look around and pay as a division says, from the next one on."""
        self.set_feeds(division.feeds)
        self._set_ways(division.ways, division.admitted)
        for stream, path in enumerate(division.costs if not division.ways else ()):
            for step, cost in enumerate(path):
                self._tables.costs[stream, step, 0] = round(min(cost, k.MOST_COST) * k.ONE)

    def weigh(self, weights: Sequence[float]) -> None:
        """Let probes for those count more who weigh more. By the bits of masks; only ratios matter."""
        least = min(weights)
        self._tables.weights[: len(weights)] = [weight / least for weight in weights]
        self._tables.tally[k.A_WEIGHED] = max(weights) > least

    def _set_ways(self, ways: Sequence[Way], admitted: Sequence[float]) -> None:
        tables = self._tables
        if ways and self.programs.keys:
            raise PlanError("tuples look at parts of windows, and leave no gaps in states. Keep none.")
        tables.tally[k.A_WAYS] = max(1, len(ways))
        tables.ways[:] = k.ONE
        tables.parts[:] = k.ALL_WAYS
        tables.costs[:] = k.ONE
        tables.oldest[:] = SEGMENTS
        for stream, share in enumerate(admitted):
            tables.ways[stream, 0] = round(share * k.ONE)
        if ways:
            ends = np.cumsum([way.share for way in ways])
            tables.ways[:, : len(ways)] = np.round(ends / ends[-1] * k.ONE)
            tables.parts[:] = 0
        for place, way in enumerate(ways):
            for stream, path in enumerate(way.parts):
                probes = self.programs.heads[stream].probes
                for step, parts in enumerate(path):
                    is_whole = step < len(probes) and self.is_whole(probes[step].target)
                    self._look_at(stream, step, place, None if parts and is_whole else parts)  # of one part: all of it
        tables.looking[:] = np.bitwise_or.reduce(tables.parts, axis=2)

    def _look_at(self, stream: int, step: int, way: int, parts: Sequence[int] | None) -> None:
        """``parts``: those of the window that a way looks at; None: all of it."""
        tables = self._tables
        seen = range(SEGMENTS) if parts is None else parts
        for part in seen:
            tables.parts[stream, step, part] |= 1 << way
        tables.costs[stream, step, way] = k.ONE if parts is None else k.ONE * len(seen) // SEGMENTS
        tables.oldest[stream, step, way] = max(seen, default=-1)

    def set_feeds(self, feeds: Feeds) -> None:
        """What each tuple pays for from now on; an account that was unlimited begins half full."""
        table = self._tables.table
        for stream, path in enumerate(feeds):
            for step, probes in enumerate(path):
                account = table[stream, step]
                was_unlimited = account[k.P_FEED] == k.UNLIMITED
                if math.isinf(probes):
                    account[k.P_FEED] = k.UNLIMITED
                    continue
                spread = max(_LEAST_SPREAD, round(min(probes, _MOST_FEED) * _SPREAD_TUPLES))
                cap = _SAVINGS * spread * k.ONE if probes > 0 else 0
                account[k.P_FEED] = round(min(probes, _MOST_FEED) * k.ONE)
                account[k.P_SPREAD], account[k.P_CAP] = spread, cap
                account[k.P_CREDIT] = cap // _SAVINGS if was_unlimited else min(account[k.P_CREDIT], cap)

    @property
    def spent(self) -> Spent:
        """What was asked for until now."""
        k.fold_all(self._tables)
        tables = self._tables
        table = tables.table
        if not table.shape[1]:
            return replace(Spent.nothing(len(table)), shed=tables.draws[:, k.D_SHED].copy())
        allowed, refused, hopeless = (table[:, :, column].copy() for column in (k.P_ALLOWED, k.P_REFUSED, k.P_HOPELESS))
        return Spent(
            table[:, 0, k.P_FED].copy(),
            allowed,
            refused,
            hopeless,
            table[:, :, k.P_PAID] / k.PAID + table[:, :, k.P_COMPLETING],
            tables.draws[:, k.D_SHED].copy(),
            table[:, :, k.P_COMPLETING].copy(),
            table[:, :, k.P_RESULTS].copy(),
            tables.looked.copy(),
            tables.found.copy(),
            tables.totals[:, k.Y].copy(),
            tables.totals[:, k.V].copy(),
        )


def _width(layout: StreamLayout) -> int:
    """The time that a part of a window takes; 0: no time ends it, so it is one part."""
    lasts = layout.rows == 0 and 0 < layout.lifetime < FOREVER
    return -(-layout.lifetime // SEGMENTS) if lasts else 0
