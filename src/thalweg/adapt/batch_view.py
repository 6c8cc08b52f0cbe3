"""What a controller may see of a join if its decisions are committed (:mod:`thalweg.adapt.batch_spending`).

Attempts at a batch must decide the same, whatever their engines have been through. So a controller sees no windows and
no work of an engine. It sees the rows of batches, as they were about to be taken, and what accounts have counted. Both
are the same in every attempt.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from thalweg.adapt.monitor import LOOK_ROWS, NO_WORK
from thalweg.cql.query import Query, RangeWindow, RowsWindow
from thalweg.engine.bucket import Bucket
from thalweg.engine.kernels.compiled import Int64s
from thalweg.engine.machine.accounts import Spent
from thalweg.engine.observations import Counts, Glimpse, WindowGlimpse
from thalweg.engine.rows.layout import layouts
from thalweg.engine.time_bounds import FOREVER, NEVER
from thalweg.plan.program import Rank
from thalweg.plan.statistics import Statistics
from thalweg.plan.tree import Plan


class Watched(Protocol):
    """What a controller asks of a bucket."""

    @property
    def counts(self) -> Counts:
        """The work that it has done."""

    def glimpse(self, most: int) -> Glimpse:
        """A look at up to so many tuples of every window."""

    def transition(self, plan: Plan, rank: Rank | None = None) -> None:
        """Run under another plan from the next row on."""


class BatchView:
    """The rows of the last batch of a bucket, and what was counted of all of them.

    Calls: for every batch :meth:`begin_batch`, :meth:`end_batch`; then a controller may look.
    """

    def __init__(self, query: Query) -> None:
        self._counts = NO_WORK
        self._arrived, self._came = [0] * len(query.streams), [0] * len(query.streams)
        self._rates: list[float] | None = None  # tuples per microsecond
        self._time = NEVER
        self.serve(query)

    def serve(self, query: Query) -> None:
        """There are other readers, whose windows may last longer."""
        self._query = query
        self._lifetimes = [layout.lifetime for layout in layouts(query)]
        self._rows: list[Int64s] = [np.zeros((0, layout.width), np.int64) for layout in layouts(query)]

    def of(self, join: Bucket, known: Statistics) -> Watched:
        """For a controller; ``known``: what was committed of the streams."""
        return _View(join, self._counts, self._glimpse(known))

    def begin_batch(self, join: Bucket) -> None:
        """The rows of a batch have been offered. Those of static relations are there for all time."""
        held = join.glimpse(LOOK_ROWS).windows if any(ref.is_static for ref in self._query.streams) else ()
        for stream, coming in enumerate(join.glimpse_coming(LOOK_ROWS)):
            is_static = self._query.streams[stream].is_static
            self._rows[stream] = held[stream].words if is_static else coming.words
            self._came[stream] = coming.arrived

    def end_batch(self, spent: Spent, time: int | None) -> None:
        """A batch has been taken, and event time has come so far."""
        self._arrived = [before + more for before, more in zip(self._arrived, self._came, strict=True)]
        now = NEVER if time is None else time
        if NEVER < self._time < now:
            rates = [came / (now - self._time) for came in self._came]
            self._rates = (
                rates if self._rates is None else [(a + b) / 2 for a, b in zip(self._rates, rates, strict=True)]
            )
        self._time = now
        done = spent.fed.sum(), spent.allowed.sum(), spent.found.sum(), 0, 0, spent.results.sum()
        self._counts = tuple(before + int(more) for before, more in zip(self._counts, done, strict=True))

    def filled(self, windows: Sequence[float]) -> list[float]:
        """For each stream the share of its window that was there on average while the last batch was taken.

        ``windows``: what they will hold.
        """
        before = [arrived - came / 2 for arrived, came in zip(self._arrived, self._came, strict=True)]
        shares = [min(1.0, each / most) for each, most in zip(before, windows, strict=True)]
        return [1.0 if ref.is_static else share for ref, share in zip(self._query.streams, shares, strict=True)]

    def _glimpse(self, known: Statistics) -> Glimpse:
        windows = zip(self._rows, self._arrived, strict=True)
        return Glimpse(
            self._time,
            tuple(
                WindowGlimpse(words, self._held(stream, arrived, known), arrived)
                for stream, (words, arrived) in enumerate(windows)
            ),
        )

    def _held(self, stream: int, arrived: int, known: Statistics) -> float:
        """About how many tuples a window holds."""
        ref = self._query.streams[stream]
        if isinstance(ref.window, RangeWindow) and not ref.is_static:
            lifetime = self._lifetimes[stream]
            if lifetime >= FOREVER:
                return float(arrived)
            return known.windows[stream] if self._rates is None else self._rates[stream] * lifetime
        if isinstance(ref.window, RowsWindow) and not ref.window.partition_by:
            return float(min(arrived, ref.window.rows))
        return known.windows[stream]

    def to_json(self) -> dict[str, Any]:
        """What is committed with a batch."""
        return {"counts": self._counts, "arrived": self._arrived, "rates": self._rates, "time": self._time}

    def restore(self, known: Mapping[str, Any]) -> None:
        """Go on where :meth:`to_json` was."""
        self._counts, self._arrived = tuple(known["counts"]), list(known["arrived"])
        self._rates, self._time = known["rates"], known["time"]


class _View:
    def __init__(self, join: Bucket, counts: Counts, glimpse: Glimpse) -> None:
        self._join, self.counts, self._glimpse = join, counts, glimpse

    def glimpse(self, most: int) -> Glimpse:  # noqa: ARG002 - the rows were taken before
        return self._glimpse

    def transition(self, plan: Plan, rank: Rank | None = None) -> None:
        self._join.transition(plan, rank)
