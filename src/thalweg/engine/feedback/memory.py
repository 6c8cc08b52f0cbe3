"""The memory of feedback: what is remembered of demands, what is missing in states, Bloom filters (JIT IV).

Tables begin small and grow with the windows. What they hold can be forgotten: a demand is asked again, and before gaps
are forgotten, the entries that they concern are.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from thalweg.engine.feedback.savings import Savings
from thalweg.engine.kernels import feedback_tables as fb
from thalweg.engine.kernels import tables as k
from thalweg.engine.kernels.compiled import Int64s
from thalweg.engine.kernels.filters import renew_filters
from thalweg.engine.kernels.gaps import settle
from thalweg.engine.kernels.hashing import DIRECTORY_FIELDS
from thalweg.engine.machine.workspace import Workspace
from thalweg.engine.states.kept_states import KeptStates
from thalweg.engine.states.status import Status
from thalweg.engine.storage.memory import Memory
from thalweg.engine.windows.base_windows import BaseWindows

_FIRST_SLOTS = 1 << 6


class FeedbackMemory:
    """What the gates of the programs that run remember, and what was counted since the start."""

    __image__: ClassVar = ("_tally", "_unstored")

    def __init__(self, workspace: Workspace, windows: BaseWindows, states: KeptStates) -> None:
        self._workspace = workspace
        self._windows = windows
        self._states = states
        self._tally = np.zeros(fb.TALLIES, np.int64)
        self._unstored = 0

    @property
    def tables(self) -> fb.Feedback | None:
        """Those of the programs that run; None: they have no gates."""
        return self._workspace.assembly.feedback

    @property
    def gapped(self) -> list[int]:
        """The states that something may be missing in because a gate was closed."""
        if self.tables is None:
            return []
        gapped: list[int] = np.flatnonzero(self.tables.gaps[:, fb.O_KIND_COUNT]).tolist()
        return gapped

    @property
    def tally(self) -> Int64s:
        """What was counted since the start."""
        return self._tally if self.tables is None else self._tally + self.tables.tally

    @property
    def tests(self) -> int:
        """How often a demand was looked into under the programs that run."""
        return 0 if self.tables is None else int(self.tables.tally[fb.T_TESTS])

    @property
    def savings(self) -> Savings:
        """What feedback saved since the start."""
        suspended = 0 if self.tables is None else self.tables.demands[:, fb.D_WANTING].sum()
        unstored = self._unstored + self._unstored_bytes()
        return Savings(*map(int, (*self.tally[fb.T_SUSPENSIONS :], suspended, unstored)))

    def words(self) -> int:
        """How much memory it takes."""
        feedback = self.tables
        if feedback is None:
            return 0
        demands = ((feedback.demands[:, fb.D_MASK] + 1) * feedback.demands[:, fb.D_STRIDE]).sum()
        gaps = sum((int(feedback.gaps[i, fb.O_MASK]) + 1) * DIRECTORY_FIELDS for i in self.gapped)
        return int(demands) + gaps + sum(_filter_words(int(mask)) for mask in feedback.filters[:, fb.F_MASK])

    def begin(self) -> None:
        """Let the consumers of the plan that runs speak to their producers.

        Of a state in which something may be missing, only keys that something has probed are live from then on: what
        is not asked for is not stored. The others are as complete as they were.
        """
        feedback, memory = self.tables, self._workspace.memory
        if feedback is None:
            return
        for index in self.gapped:
            row = self._workspace.states[index]
            if row[k.N_COMPLETE] != Status.INCOMPLETE:
                count = int(row[k.N_COUNT])
                self._states.evict(index, count + 1, max(self._workspace.first_capacity, 4 << count.bit_length()))
        for row in feedback.demands:
            _place_demand(row, memory, _FIRST_SLOTS if row[fb.D_KEY_COUNT] else 4)
        for index in self.gapped:
            _place_gaps(feedback.gaps[index], memory, _FIRST_SLOTS)
        for row in feedback.filters:
            row[fb.F_REGION] = memory.allocate(_filter_words(int(row[fb.F_MASK])))
        renew_filters(memory.words, self._workspace.tables, feedback.filters, self._workspace.watermark)

    def end(self) -> None:
        """Forget all demands, and the entries that something may be missing beside."""
        feedback, memory = self.tables, self._workspace.memory
        if feedback is None:
            return
        for index in self.gapped:
            self._settle(index, feedback)
        for row in feedback.demands:
            memory.free(int(row[fb.D_TABLE]), int((row[fb.D_MASK] + 1) * row[fb.D_STRIDE]))
        for index in self.gapped:
            row = feedback.gaps[index]
            memory.free(int(row[fb.O_TABLE]), int(row[fb.O_MASK] + 1) * DIRECTORY_FIELDS)
        for row in feedback.filters:
            memory.free(int(row[fb.F_REGION]), _filter_words(int(row[fb.F_MASK])))
        self._tally += feedback.tally
        self._unstored += self._unstored_bytes()

    def make_room(self) -> None:
        """Empty the tables that are filling up; larger ones, as long as they are small for what windows hold."""
        feedback, memory = self.tables, self._workspace.memory
        if feedback is None:
            return
        held = max(map(self._windows.held, range(len(self._workspace.layouts))))
        most = max(_FIRST_SLOTS, 1 << held.bit_length())
        for row in feedback.demands:
            slots = int(row[fb.D_MASK]) + 1
            if 4 * row[fb.D_COUNT] > 3 * row[fb.D_MASK]:
                memory.free(int(row[fb.D_TABLE]), slots * int(row[fb.D_STRIDE]))
                _place_demand(row, memory, min(2 * slots, most) if row[fb.D_KEY_COUNT] else slots)
        for index, row in enumerate(feedback.gaps):
            slots = int(row[fb.O_MASK]) + 1
            if 4 * row[fb.O_COUNT] > 3 * row[fb.O_MASK]:
                self._settle(index, feedback)
                memory.free(int(row[fb.O_TABLE]), slots * DIRECTORY_FIELDS)
                _place_gaps(row, memory, min(2 * slots, most))
        feedback.tally[fb.T_IS_FULL] = 0

    def _unstored_bytes(self) -> int:
        """What the tuples that this plan withheld would have taken in the states that they stopped before."""
        if self.tables is None:
            return 0
        workspace = self._workspace
        gates = np.flatnonzero(workspace.assembly.steps[:, k.X_OP] == k.GATE)
        stopped = workspace.work.rows[gates, k.W_LEFT_OUT]
        words = np.append(workspace.states[:, k.N_STRIDE], 0)[self.tables.gates[:, fb.Q_STORES]]  # -1: no state
        return 8 * int((stopped * words).sum())

    def _settle(self, index: int, feedback: fb.Feedback) -> None:
        """Drop the entries of a state that may be short of others."""
        workspace, row = self._workspace, self._workspace.states[index]
        old, had = int(row[k.N_DIRECTORY]), int(row[k.N_DIRECTORY_MASK]) + 1
        keys = min(int(row[k.N_LIVE]), int(row[k.N_COUNT]))
        slots = min(had, max(workspace.first_capacity, self._states.slots_enough(index), 4 << keys.bit_length()))
        directory = workspace.memory.allocate(slots * DIRECTORY_FIELDS)
        settle(
            workspace.memory.words,
            workspace.tables,
            workspace.frames,
            feedback.gaps,
            index,
            directory,
            slots - 1,
            workspace.watermark,
        )
        workspace.memory.free(old, had * DIRECTORY_FIELDS)
        # What joined without feedback before needed far more room, and every entry's way out is as long as that.
        room = max(workspace.first_capacity, 4 << int(row[k.N_COUNT]).bit_length())
        if room < row[k.N_CAPACITY]:
            self._states.resize(index, room)


def _place_demand(row: Int64s, memory: Memory, slots: int) -> None:
    row[fb.D_TABLE] = memory.allocate(slots * int(row[fb.D_STRIDE]))
    row[[fb.D_MASK, fb.D_COUNT, fb.D_WANTING]] = slots - 1, 0, 0


def _place_gaps(row: Int64s, memory: Memory, slots: int) -> None:
    row[fb.O_TABLE] = memory.allocate(slots * DIRECTORY_FIELDS)
    row[[fb.O_MASK, fb.O_COUNT, fb.O_ALL]] = slots - 1, 0, 0


def _filter_words(mask: int) -> int:
    return (mask + 64) // 64
