"""Parallel Track as it is usually described, for comparison (JISC 3.3 and 4.3)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from thalweg.cql.query import Query
from thalweg.engine.kernels import results as k
from thalweg.engine.kernels.compiled import Int64s
from thalweg.engine.migration.parallel_track import ParallelTrack
from thalweg.engine.migration.tracks import Track
from thalweg.engine.time_bounds import NEVER
from thalweg.plan.program import Rank
from thalweg.plan.slices import Slicing
from thalweg.plan.tree import Plan
from thalweg.policies import DEFAULT_POLICIES, Policies

_PERIOD = 1 << 10
"""Tuples between two walks through an old plan's states."""
_FIRST_SLOTS = 1 << 10


class PrintedParallelTrack(ParallelTrack):
    """Parallel Track as it is described: all tracks emit, the root eliminates duplicates, old plans are walked through.

    Results are kept in a hash table until they leave the window; every so many tuples each operator of an old
    plan looks through its whole state for tuples from before the change (JISC 3.3 and 4.3).
    """

    __image__: ClassVar = ("_seen", "_seen_count", "_settled")
    _stretch = _PERIOD

    def __init__(
        self,
        query: Query,
        plan: Plan,
        rank: Rank | None = None,
        policies: Policies = DEFAULT_POLICIES,
        slicing: Slicing | None = None,
    ) -> None:
        super().__init__(query, plan, rank, policies, slicing)
        self._seen, self._seen_count = self._new_table(_FIRST_SLOTS), 0
        self._settled = NEVER

    def _new_table(self, slots: int) -> Int64s:
        return np.zeros((slots, self._tracks[0].engine.machine.columns), np.int64)

    def _merged(self, found: list[list[Int64s]]) -> Int64s:
        results = np.concatenate([block for blocks in found for block in blocks])
        is_new = np.empty(len(results), np.bool_)
        done = 0
        while done < len(results):
            done, self._seen_count = k.admit(self._seen, self._seen_count, results, done, is_new)
            if done < len(results):
                self._make_room()
        self._checked += len(results)
        self._duplicates += len(results) - int(is_new.sum())
        self._settled = self._tracks[0].engine.watermark
        return results[is_new]

    def _make_room(self) -> None:
        """Drop the results that had left before this stretch; double the table if it stays more than a quarter full."""
        slots = len(self._seen)
        while True:
            table = self._new_table(slots)
            self._seen_count = k.move(self._seen, table, self._settled)
            self._seen = table
            if 4 * self._seen_count <= slots:
                return
            slots *= 2

    def _is_over(self, track: Track, newer: Track) -> bool:
        return track.engine.count_before(newer.starts) == 0

    def _end(self, track: Track) -> None:
        super()._end(track)
        if len(self._tracks) == 1:
            self._seen, self._seen_count = self._new_table(_FIRST_SLOTS), 0
