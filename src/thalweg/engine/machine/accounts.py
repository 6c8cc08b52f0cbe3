"""The accounts of a join that runs under a budget, and what they say about the results that were left out.

A plan under a budget keeps no states. So every program has a probe per other stream, and accounts outlive a change of
plan: stream and step say which account it is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from thalweg.engine.kernels import accounts as k
from thalweg.engine.kernels.compiled import Int64s
from thalweg.plan.program import Programs

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
        results: [stream] results found by its tuples.
        full: an unbiased estimate of the results that would have been found if nothing had been refused.
        variance: of this estimate.

    """

    fed: Int64s
    allowed: Int64s
    refused: Int64s
    hopeless: Int64s
    results: Int64s
    full: float = 0.0
    variance: float = 0.0

    @staticmethod
    def nothing(streams: int) -> Spent:
        """Of a join that has not begun."""
        steps = np.zeros((streams, max(0, streams - 1)), np.int64)
        return Spent(np.zeros(streams, np.int64), steps, steps, steps, np.zeros(streams, np.int64))

    @property
    def wanted(self) -> Int64s:
        """Probes that were asked for."""
        both: Int64s = self.allowed + self.refused
        return both

    @property
    def found(self) -> Int64s:
        """[stream, step] What the allowed probes led to: probes of the next step, or results."""
        behind: Int64s = np.column_stack([self.wanted[:, 1:], self.results])
        return behind

    @property
    def share(self) -> float | None:
        """The estimated share of the full answer that was found; None if something was refused without a chance."""
        if not self.refused.any():
            return 1.0
        if self.hopeless.any() or not self.full:
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
            self.results + other.results,
            self.full + other.full,
            self.variance + other.variance,
        )


class Accounts:
    """An account for each stream and step; nobody is refused anything until somebody says what is fed.

    Attributes:
        programs: those that pay, as they are without gates.

    """

    def __init__(self, tables: k.Accounts, programs: Programs) -> None:
        self._tables, self.programs = tables, programs

    @staticmethod
    def new_tables(streams: int) -> k.Accounts:
        """Those of a join of so many streams."""
        table = np.zeros((streams, max(0, streams - 1), k.ACCOUNT_FIELDS), np.int64)
        table[:, :, k.P_FEED], table[:, :, k.P_SPREAD] = k.UNLIMITED, _LEAST_SPREAD
        table[:, :, k.P_POINT] = np.random.default_rng(_SEED).integers(0, k.ONE, table.shape[:2])
        tally = np.zeros(k.TALLIES, np.int64)
        tally[k.A_SEED] = _SEED
        latest = np.full(table.shape[:2], k.NOBODY)
        return k.Accounts(table, latest, np.ones(streams), np.zeros((streams + 1, 2)), tally)

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
        table, sums = self._tables.table, self._tables.sums
        if not table.shape[1]:
            return Spent.nothing(len(table))
        allowed, refused, hopeless = (table[:, :, column].copy() for column in (k.P_ALLOWED, k.P_REFUSED, k.P_HOPELESS))
        fed, results = table[:, 0, k.P_FED].copy(), table[:, -1, k.P_RESULTS].copy()
        return Spent(fed, allowed, refused, hopeless, results, float(sums[0, k.Y]), float(sums[0, k.V]))
