"""A limit to what windows, states and feedback may take: cold keys of states make room."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from thalweg.engine.kernels import tables as k
from thalweg.engine.kernels.hashing import DIRECTORY_FIELDS
from thalweg.engine.machine.workspace import Workspace
from thalweg.engine.states.kept_states import KeptStates


class MemoryLimit:
    """Windows take what they need. States that would grow past what is left make cold keys absent instead.

    ``most``: bytes; None: any number. ``words_used``: how many words there are in use now.
    """

    def __init__(
        self, workspace: Workspace, states: KeptStates, most: int | None, words_used: Callable[[], int]
    ) -> None:
        self._workspace = workspace
        self._states = states
        self._most = most
        self._words_used = words_used
        workspace.memory.is_frugal = most is not None

    @property
    def exists(self) -> bool:
        return self._most is not None

    def may_grow(self, words: int) -> bool:
        """Whether there may be so many more."""
        return self._most is None or 8 * (self._words_used() + words) <= self._most

    def keep(self) -> None:
        """Make the largest states smaller while they take more than the windows leave."""
        rows, states = self._workspace.states, self._states
        while not self.may_grow(0):
            grown = np.flatnonzero(rows[:, k.N_CAPACITY] > self._workspace.first_capacity).tolist()
            if not grown:
                return
            largest = max(grown, key=states.words)
            capacity = int(rows[largest, k.N_CAPACITY]) // 2
            states.sweep(largest)
            states.evict(largest, capacity // 2, capacity)
            states.resize(largest, max(capacity, 1 << int(rows[largest, k.N_COUNT]).bit_length()))
            if rows[largest, k.N_CAPACITY] > capacity:
                return  # one key alone takes it all

    def make_room(self, index: int) -> None:
        """Drop expired entries; double the state if that does not free half of it, or make cold keys absent."""
        states, row = self._states, self._workspace.states[index]
        states.sweep(index)
        capacity, stride = int(row[k.N_CAPACITY]), int(row[k.N_STRIDE])
        if 2 * row[k.N_COUNT] <= capacity:
            return
        if not self.may_grow(capacity * (stride + 2)):
            states.evict(index, capacity // 2, capacity)
            if 4 * row[k.N_COUNT] <= 3 * capacity:
                return
        states.resize(index, 2 * capacity)

    def make_room_for_keys(self, index: int) -> None:
        """Give a directory four times the room, up to that for as many keys as its state can have.

        Later, forget those that nothing has any more. If it stays more than a quarter full all the same, double it.
        """
        states, row = self._states, self._workspace.states[index]
        slots = int(row[k.N_DIRECTORY_MASK]) + 1
        enough = min(4 * slots, states.slots_enough(index))
        if slots < enough and self.may_grow((enough - slots) * DIRECTORY_FIELDS):
            states.move_keys(index, enough)
            return
        states.sweep(index)
        states.renew_keys(index, slots)
        if 4 * (row[k.N_LIVE] + 1) > slots:
            if not self.may_grow(slots * DIRECTORY_FIELDS):
                states.evict(index, int(row[k.N_COUNT]) // 2, slots)
            if 4 * (row[k.N_LIVE] + 1) > slots:
                states.renew_keys(index, 2 * slots)
