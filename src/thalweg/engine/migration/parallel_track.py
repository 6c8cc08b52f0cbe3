"""Parallel Track: old and new plan run side by side until the old one has nothing of its own to say (JISC 3.3).

Design
    Each plan is a *track*: an engine that gets every tuple since the change that began it. A change begins a track
    that is empty, so it needs no state of another; changes that come quickly make more than two.

    Tuples are numbered as they arrive, and engines see these numbers in the place of row numbers. A result whose
    oldest component arrived between the starts of two tracks can be found by all tracks up to the older of
    them, and is emitted by that one alone: one comparison per component tells duplicates, nothing is remembered.

Invariant
    All tracks have processed the same tuples since they began. Windows of a track hold tuples in the order of their
    numbers, so the first that is held tells whether all tuples from before another number have left. A track from which
    all tuples from before the next one's start have left finds nothing that the next does not, and ends.

Cost
    Every tuple is processed once per track. In a window that never ends (unbounded, a static relation, or a silent
    partition of a ROWS window), neither does a track, and every change adds one; such a join does not adapt by
    itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import astuple, fields, replace
from itertools import pairwise
from typing import ClassVar

import numpy as np

from thalweg.cql.query import Query
from thalweg.engine.feedback.gates import Gated
from thalweg.engine.feedback.savings import Savings
from thalweg.engine.join.engine import JoinEngine
from thalweg.engine.kernels.compiled import Int64s
from thalweg.engine.kernels.tables import ROW
from thalweg.engine.machine.accounts import Accounts
from thalweg.engine.migration.tracks import Numbers, Track
from thalweg.engine.observations import Counts, Glimpse, StoreSize, Work
from thalweg.engine.rows.batch import in_time_order
from thalweg.plan.program import Rank
from thalweg.plan.slices import Slicing
from thalweg.plan.tree import Plan
from thalweg.policies import DEFAULT_POLICIES, Policies

_STRETCH = 1 << 12
"""Tuples that a track runs ahead of the others: their results wait to be merged, and then tracks may end."""


class ParallelTrack:
    """See :class:`thalweg.engine.migration.joiner.Joiner` for the order of calls."""

    __image__: ClassVar[tuple[str, ...]] = (
        "_tracks",
        "_numbers",
        "_deaths",
        "_ended",
        "_saved",
        "_tuples",
        "_checked",
        "_duplicates",
    )
    _stretch = _STRETCH

    def __init__(
        self,
        query: Query,
        plan: Plan,
        rank: Rank | None = None,
        policies: Policies = DEFAULT_POLICIES,
        slicing: Slicing | None = None,
    ) -> None:
        self._query = query
        self._policies = policies
        self._slicing = slicing
        self._width = 2 + len(query.streams)
        """Columns of a result up to its row numbers. What follows belongs to readers."""
        self._numbers = [Numbers() for _ in query.streams]
        self._tracks = [self._begin(plan, rank, np.zeros(len(query.streams), np.int64))]
        self._deaths = np.empty((0, 3), np.int64)
        self._ended = np.zeros(len(Work._fields), np.int64)
        self._saved = np.zeros(len(fields(Savings)), np.int64)
        self._tuples, self._checked, self._duplicates = 0, 0, 0
        self._ended_seconds = 0.0

    def _begin(self, plan: Plan, rank: Rank | None, starts: Int64s) -> Track:
        return Track(JoinEngine(self._query, plan, rank, self._policies, slicing=self._slicing), starts)

    @property
    def plan(self) -> Plan:
        return self._tracks[-1].engine.plan

    # -- Running ------------------------------------------------------------------------

    def offer(self, batches: Sequence[Int64s], watermark: int | None = None) -> None:
        numbered = [numbers.add(batch) for numbers, batch in zip(self._numbers, batches, strict=True)]
        for track in self._tracks:
            track.engine.offer(numbered, watermark)

    def load(self, batches: Sequence[Int64s], watermark: int) -> None:
        ordered = [in_time_order(batch) for batch in batches]
        numbered = [numbers.add(batch) for numbers, batch in zip(self._numbers, ordered, strict=True)]
        self._tracks[0].engine.load(numbered, watermark)

    def advance(self, limit: int | None = None) -> Iterator[Int64s]:
        left = np.iinfo(np.int64).max if limit is None else limit
        while True:
            oldest = self._tracks[0].engine
            before = oldest.work.tuples
            alone = len(self._tracks) == 1
            most = left if alone else min(left, self._stretch)
            if alone:
                for block in oldest.advance(most if limit is not None else None):
                    yield self._named(block)
            else:
                results = self._merged([list(self._copies(track, most)) for track in self._tracks])
                if len(results):
                    yield self._named(in_time_order(results))
                self._end_tracks()
            taken = oldest.work.tuples - before
            self._tuples += taken
            left -= taken
            if taken < most or not left:
                return

    def _copies(self, track: Track, limit: int) -> Iterator[Int64s]:
        yield np.empty((0, track.engine.machine.columns), np.int64)
        for block in track.engine.advance(limit):
            yield block.copy()

    def _merged(self, found: list[list[Int64s]]) -> Int64s:
        """What the tracks found in one stretch, each result once."""
        kept = [np.concatenate(found[-1])]
        for blocks, newer in zip(found, self._tracks[1:], strict=False):
            results = np.concatenate(blocks)
            own = (results[:, 2 : self._width] < newer.starts).any(axis=1)
            self._checked += len(results)
            self._duplicates += len(results) - int(own.sum())
            kept.append(results[own])
        return np.concatenate(kept)

    def _named(self, results: Int64s) -> Int64s:
        """The same results with rows in the place of numbers."""
        named = results.copy("K")
        for stream, numbers in enumerate(self._numbers):
            named[:, 2 + stream] = numbers.rows(results[:, 2 + stream])
        return named

    # -- Plans --------------------------------------------------------------------------

    def transition(self, plan: Plan, rank: Rank | None = None) -> None:
        """Begin another track with the next tuple; one that has got no tuple yet takes the plan over instead."""
        youngest = self._tracks[-1]
        coming, watermark = youngest.engine.unprocessed()
        starts = np.array([n.next - len(part) for n, part in zip(self._numbers, coming, strict=True)], np.int64)
        if (starts == youngest.starts).all():
            youngest.engine.transition(plan, rank)
            return
        self._tracks.append(self._begin(plan, rank, starts))
        self._tracks[-1].engine.offer(coming, watermark)

    def _end_tracks(self) -> None:
        """Drop the tracks that find nothing which the next one does not."""
        for track, newer in pairwise(tuple(self._tracks)):
            if self._is_over(track, newer):
                self._end(track)

    def _is_over(self, track: Track, newer: Track) -> bool:
        return bool((np.array(track.engine.windows.first_rows()) >= newer.starts).all())

    def _end(self, track: Track) -> None:
        deaths = track.engine.take_deaths()
        if track is self._tracks[0]:
            self._deaths = np.concatenate([self._deaths, self._named_deaths(deaths)])
            self._tracks[1].engine.take_deaths()  # the same ones
        self._ended += track.engine.work
        self._ended_seconds += track.engine.seconds
        self._saved += astuple(replace(track.engine.savings, suspended=0))
        self._tracks.remove(track)

    # -- What it holds ------------------------------------------------------------------

    def take_deaths(self) -> Int64s:
        """What left the windows of the oldest track; the others saw a part of the same."""
        deaths = [track.engine.take_deaths() for track in self._tracks]
        taken = np.concatenate([self._deaths, self._named_deaths(deaths[0])])
        self._deaths = np.empty((0, 3), np.int64)
        self._forget()
        return taken

    def _named_deaths(self, deaths: Int64s) -> Int64s:
        for stream, numbers in enumerate(self._numbers):
            mine = deaths[:, 0] == stream
            deaths[mine, 1] = numbers.rows(deaths[mine, 1])
        return deaths

    def _forget(self) -> None:
        """Forget the rows of tuples that no track holds."""
        firsts = np.min([track.engine.windows.first_rows() for track in self._tracks], axis=0)
        unprocessed = self._tracks[0].engine.unprocessed()[0]
        for numbers, first, coming in zip(self._numbers, firsts, unprocessed, strict=True):
            numbers.forget(min(int(first), numbers.next - len(coming)))

    def held(self, stream: int) -> int:
        return self._tracks[0].engine.held(stream)

    def rows(self, stream: int) -> Int64s:
        return self._numbers[stream].rows(self._tracks[0].engine.rows(stream))

    def tuples(self, stream: int) -> Int64s:
        """Those of the oldest track, with their rows."""
        return self._numbered(stream, self._tracks[0].engine.tuples(stream))

    def unprocessed(self) -> tuple[list[Int64s], int | None]:
        """Per stream, the offered tuples that were not taken yet; and the watermark they were offered with."""
        coming, watermark = self._tracks[0].engine.unprocessed()
        return [self._numbered(stream, words) for stream, words in enumerate(coming)], watermark

    def _numbered(self, stream: int, words: Int64s) -> Int64s:
        """Tuples with rows in the place of numbers."""
        named = words.copy()
        named[:, ROW] = self._numbers[stream].rows(words[:, ROW])
        return named

    def glimpse(self, most: int) -> Glimpse:
        seen = self._tracks[0].engine.glimpse(most)
        counted = zip(seen.windows, self._numbers, strict=True)
        return replace(seen, windows=tuple(replace(window, arrived=numbers.next) for window, numbers in counted))

    def sizes(self) -> list[StoreSize]:
        """What the stores of every track hold, those of the oldest first."""
        return [size for track in self._tracks for size in track.engine.sizes()]

    @property
    def work(self) -> Work:
        sums = self._ended.copy()
        for track in self._tracks:
            sums += track.engine.work
        done = Work(*map(int, sums))
        return done._replace(
            tuples=self._tuples,
            results=done.results - self._duplicates,
            checked=self._checked,
            duplicates=self._duplicates,
        )

    @property
    def counts(self) -> Counts:
        return self.work.counts

    @property
    def seconds(self) -> float:
        return self._ended_seconds + sum(track.engine.seconds for track in self._tracks)

    @property
    def savings(self) -> Savings:
        """Of all tracks, those that have ended included."""
        return sum((track.engine.savings for track in self._tracks), Savings(*map(int, self._saved)))

    @property
    def accounts(self) -> Accounts | None:
        """None: what one plan refuses, another would find."""
        return None

    @property
    def gated(self) -> Gated | None:
        """That of the newest track: the others end soon."""
        return self._tracks[-1].engine.gated

    def furnish(self, count: int) -> list[Track]:
        """So many tracks, to be made what those of an image are."""
        missing = range(count - len(self._tracks))
        new = [self._begin(self.plan, None, np.zeros(len(self._numbers), np.int64)) for _ in missing]
        return [*self._tracks, *new][:count]
