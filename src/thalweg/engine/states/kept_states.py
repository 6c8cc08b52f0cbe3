"""The kept states of a join, as stores: entries in flat memory, each with its key, its expiry and its components.

Whether a key's entries are all there is told by a directory, or, in a state that is complete, needs no telling. When a
state changes its status is decided elsewhere (:mod:`thalweg.engine.states.completion`,
:mod:`thalweg.engine.join.engine`); how it may is a table (:mod:`thalweg.engine.states.status`).
"""

from __future__ import annotations

import numpy as np

from thalweg.engine.kernels import states as state_kernels
from thalweg.engine.kernels import tables as k
from thalweg.engine.kernels.compiled import Int64s
from thalweg.engine.kernels.hashing import DIRECTORY_FIELDS
from thalweg.engine.machine.workspace import Workspace
from thalweg.engine.observations import StoreSize
from thalweg.engine.states.status import Status, change
from thalweg.engine.time_bounds import FOREVER
from thalweg.engine.windows.base_windows import BaseWindows
from thalweg.plan.tree import Node

_MOST_ROOM = 1 << 12
"""Entries that a new state has room for from the beginning, at most, if one that goes held as many."""
_SPARE_SLOTS = 8
"""So many times that, a young state's directory has slots: they are small, and each growth stops the kernel."""
_CACHE_LINE = 8
"""Words; a region of another size would push the next ones off their cache lines."""


class KeptStates:
    """The states above the base windows; which there are, the assembled programs say."""

    def __init__(self, workspace: Workspace, windows: BaseWindows) -> None:
        self._workspace = workspace
        self._windows = windows

    @property
    def _rows(self) -> Int64s:
        return self._workspace.states

    @property
    def _words(self) -> Int64s:
        return self._workspace.memory.words

    # -- What they hold -----------------------------------------------------------------

    def sizes(self) -> list[StoreSize]:
        """What every kept state holds."""
        sizes = []
        for index, node in enumerate(self._workspace.nodes):
            self.sweep(index)
            row = self._rows[index]
            live = None if row[k.N_COMPLETE] == Status.COMPLETE else int(row[k.N_LIVE])
            sizes.append(StoreSize(node, int(row[k.N_COUNT]), live, 8 * self.words(index)))
        return sizes

    def words(self, index: int) -> int:
        """The memory that a state takes: entries, hash heads, directory."""
        row = self._rows[index]
        words = int(row[k.N_CAPACITY]) * (int(row[k.N_STRIDE]) + 2)
        return words + (int(row[k.N_DIRECTORY_MASK]) + 1) * DIRECTORY_FIELDS

    def all_words(self) -> int:
        return sum(map(self.words, range(len(self._rows))))

    def with_status(self, *statuses: Status) -> list[int]:
        """The states that have one of these."""
        return np.flatnonzero(np.isin(self._rows[:, k.N_COMPLETE], statuses)).tolist()

    @property
    def any_lacks_for_now(self) -> bool:
        """Whether time will complete some state: whether one is young in any way."""
        return bool((self._rows[:, k.N_COMPLETE] >= Status.GATHERING).any())

    def entries(self, index: int) -> Int64s:
        row = self._rows[index]
        return self._workspace.region(int(row[k.N_REGION]), int(row[k.N_COUNT]), int(row[k.N_STRIDE]))

    def sweep(self, index: int) -> None:
        """Drop what is over."""
        held = self._rows[index, k.N_COUNT]
        state_kernels.sweep(self._words, self._workspace.tables, index, self._workspace.watermark)
        self._workspace.counters[k.C_PURGED] += held - self._rows[index, k.N_COUNT]

    def idle(self) -> int:
        """The states that are complete and have no entry, as bits."""
        bits = 0
        for index in self.with_status(Status.COMPLETE):
            entries = self.entries(index)
            if len(entries) and entries[-1, k.ENTRY_EXPIRY] <= self._workspace.watermark:
                self.sweep(index)
            bits |= int(self._rows[index, k.N_COUNT] == 0) << index
        return bits

    def share_within(self, nodes: tuple[Node, ...]) -> float:
        """Of the entries in all states, the share of those within some nodes."""
        within = [any(state <= node for node in nodes) for state in self._workspace.nodes]
        return float(self._rows[within, k.N_COUNT].sum() / max(1, self._rows[:, k.N_COUNT].sum()))

    # -- Beginning and ending -----------------------------------------------------------

    def new(self, node: Node, status: Status, room: int = 0) -> Int64s:
        """The row of a state that begins now, with room for so many entries."""
        memory, row = self._workspace.memory, np.zeros(k.STATE_FIELDS, np.int64)
        room = room or self._workspace.first_capacity
        row[k.N_STRIDE] = k.COMPONENTS + len(node)
        if self._workspace.keeps_masks:
            row[k.N_KEPT_MASK] = row[k.N_STRIDE]
            row[k.N_STRIDE] += 1
        row[k.N_CAPACITY] = room
        row[k.N_MASK] = 2 * room - 1
        row[k.N_REGION] = memory.allocate(room * int(row[k.N_STRIDE]), None)
        row[k.N_HEADS] = memory.allocate(2 * room, -1)
        row[k.N_COMPLETE], row[k.N_DIRECTORY_MASK] = status, -1
        if status != Status.COMPLETE:
            slots = _SPARE_SLOTS * self._workspace.first_capacity
            row[k.N_DIRECTORY] = memory.allocate(slots * DIRECTORY_FIELDS)
            row[k.N_DIRECTORY_MASK] = slots - 1
            row[k.N_BIRTH] = memory.allocate(self._birth_words)
            self._be_born(row, node)
        return row

    def rejuvenate(self, index: int, status: Status) -> None:
        """Let a state that has nothing of its absent keys store what comes from now on."""
        change(self._rows[index], status)
        self._be_born(self._rows[index], self._workspace.nodes[index])

    def _be_born(self, row: Int64s, node: Node) -> None:
        slices = [number for stream in node for number in range(stream, len(self._workspace.streams), self._streams)]
        births = self._births(row)
        births[:] = FOREVER
        births[slices] = self._workspace.streams[slices, k.S_NEXT]

    def free(self, row: Int64s) -> None:
        """Give back the memory of a state."""
        memory = self._workspace.memory
        memory.free(int(row[k.N_REGION]), int(row[k.N_CAPACITY] * row[k.N_STRIDE]))
        memory.free(int(row[k.N_HEADS]), int(row[k.N_MASK]) + 1)
        self._free_directory(row)

    def finish(self, index: int) -> None:
        """Make a state complete: what is not there does not exist, and no key needs a status."""
        row = self._rows[index]
        self._free_directory(row)
        change(row, Status.COMPLETE)
        row[[k.N_DIRECTORY, k.N_DIRECTORY_MASK, k.N_LIVE]] = 0, -1, 0
        self._workspace.counters[k.C_FINISHED] += 1

    def empty(self, index: int) -> None:
        """Drop all entries."""
        self._rows[index, k.N_COUNT] = 0
        state_kernels.relink(self._words, self._workspace.tables, index)

    def _free_directory(self, row: Int64s) -> None:
        if row[k.N_COMPLETE] != Status.COMPLETE:
            slots = int(row[k.N_DIRECTORY_MASK]) + 1
            self._workspace.memory.free(int(row[k.N_DIRECTORY]), slots * DIRECTORY_FIELDS)
            self._workspace.memory.free(int(row[k.N_BIRTH]), self._birth_words)

    @property
    def _streams(self) -> int:
        return len(self._workspace.layouts)

    @property
    def _birth_words(self) -> int:
        return -(-len(self._workspace.streams) // _CACHE_LINE) * _CACHE_LINE

    def _births(self, row: Int64s) -> Int64s:
        """Per slice of a stream, the sequence number that the first tuple after a state's birth got."""
        start = int(row[k.N_BIRTH])
        return self._words[start : start + len(self._workspace.streams)]

    def old_enough(self) -> list[int]:
        """The young states of which a window has no tuple left from before their birth."""
        slices = self._workspace.streams
        young = np.flatnonzero(self._rows[:, k.N_COMPLETE] >= Status.GATHERING)
        births = self._words[self._rows[young, k.N_BIRTH, None] + np.arange(len(slices))]
        have_turned = (slices[:, k.S_OLDEST] >= births).reshape(len(young), self._workspace.slices, self._streams)
        found: list[int] = young[have_turned.all(axis=1).any(axis=1)].tolist()
        return found

    # -- Room ---------------------------------------------------------------------------

    def resize(self, index: int, capacity: int) -> None:
        """Move a state to regions of another size."""
        memory, row = self._workspace.memory, self._rows[index]
        stride = int(row[k.N_STRIDE])
        region = memory.allocate(capacity * stride, None)
        heads = memory.allocate(2 * capacity, None)
        entries = self.entries(index)
        memory.words[region : region + entries.size] = entries.reshape(-1)
        memory.free(int(row[k.N_REGION]), int(row[k.N_CAPACITY]) * stride)
        memory.free(int(row[k.N_HEADS]), int(row[k.N_MASK]) + 1)
        row[k.N_REGION], row[k.N_CAPACITY] = region, capacity
        row[k.N_HEADS], row[k.N_MASK] = heads, 2 * capacity - 1
        state_kernels.relink(memory.words, self._workspace.tables, index)

    def evict(self, index: int, most: int, slots: int) -> None:
        """Make cold keys of a state absent until it has about ``most`` entries; it stays incomplete from now on."""
        memory, row = self._workspace.memory, self._rows[index]
        old, had = int(row[k.N_DIRECTORY]), int(row[k.N_DIRECTORY_MASK]) + 1
        directory = memory.allocate(slots * DIRECTORY_FIELDS)
        workspace = self._workspace
        state_kernels.evict(self._words, workspace.tables, workspace.frames, index, directory, slots - 1, most)
        if row[k.N_COMPLETE] == Status.COMPLETE:
            row[k.N_BIRTH] = memory.allocate(self._birth_words)
        else:
            memory.free(old, had * DIRECTORY_FIELDS)
        change(row, Status.INCOMPLETE)

    def move_keys(self, index: int, slots: int) -> None:
        """Give a directory more slots."""
        memory, row = self._workspace.memory, self._rows[index]
        old, had = int(row[k.N_DIRECTORY]), int(row[k.N_DIRECTORY_MASK]) + 1
        directory = memory.allocate(slots * DIRECTORY_FIELDS)
        state_kernels.move_keys(self._words, self._workspace.tables, index, directory, slots - 1)
        memory.free(old, had * DIRECTORY_FIELDS)

    def renew_keys(self, index: int, slots: int) -> None:
        """Move the live keys of a state to a directory of so many slots, without those that nothing has any more."""
        workspace, row = self._workspace, self._rows[index]
        old, had = int(row[k.N_DIRECTORY]), int(row[k.N_DIRECTORY_MASK]) + 1
        stream, fields = self.carrier(index) or (-1, np.zeros(0, np.int64))
        directory = workspace.memory.allocate(slots * DIRECTORY_FIELDS)
        state_kernels.renew_keys(
            self._words, workspace.tables, index, directory, slots - 1, stream, fields, workspace.watermark
        )
        workspace.memory.free(old, had * DIRECTORY_FIELDS)

    def slots_enough(self, index: int) -> int:
        """Slots for the keys that a base window below can have."""
        carrier = self.carrier(index)
        return 0 if carrier is None else 2 << self._windows.held(carrier[0]).bit_length()

    # -- Keys ---------------------------------------------------------------------------

    def carrier(self, index: int) -> tuple[int, Int64s] | None:
        """The smallest base window of a stream that carries a state's whole key, and where its tuples have it.

        A window in several slices is not looked through.
        """
        workspace, classes = self._workspace, self._workspace.key_classes(index)
        layouts = workspace.layouts
        whole = [s for s in workspace.nodes[index] if not layouts[s].is_sliced]
        streams = [s for s in whole if set(classes) <= layouts[s].codes.keys()]
        if not streams:
            return None
        stream = min(sorted(streams), key=self._windows.held)
        codes = workspace.layouts[stream].codes
        return stream, np.array([codes[c] for c in classes], np.int64)

    def rekey(self, index: int) -> None:
        """Give the entries of a complete state the key by which its new sibling probes it."""
        self.sweep(index)
        workspace, entries = self._workspace, self.entries(index)
        node = workspace.nodes[index]
        codes = np.zeros((len(entries), max(1, len(workspace.graph.classes))), np.int64)
        for attribute in workspace.key_classes(index):
            stream = min(s for s in node if attribute in workspace.layouts[s].codes)
            components = entries[:, k.COMPONENTS + sorted(node).index(stream)]
            codes[:, attribute] = self._windows.words_of(stream, components, workspace.layouts[stream].codes[attribute])
        start, count = workspace.assembly.keys[index]
        state_kernels.key_entries(entries, codes, workspace.assembly.lists, start, count)
        state_kernels.relink(self._words, workspace.tables, index)

    # -- Windows that states refer to ---------------------------------------------------

    def sweep_holding(self, stream: int) -> None:
        """Drop what is over in the states that have components of a stream."""
        for index in self._holding(stream):
            self.sweep(index)

    def renumber(self, stream: int, alive: Int64s, first: int) -> None:
        """Follow a window whose tuples got new numbers from ``first`` on, in the order of these old ones."""
        renumbered = np.arange(first, first + len(alive))
        for index in self._holding(stream):
            component = k.COMPONENTS + sorted(self._workspace.nodes[index]).index(stream)
            entries = self.entries(index)
            entries[:, component] = renumbered[np.searchsorted(alive, entries[:, component])]
            if self._rows[index, k.N_COMPLETE] != Status.COMPLETE:
                births = self._births(self._rows[index])
                births[stream] = first + np.searchsorted(alive, births[stream])

    def _holding(self, stream: int) -> list[int]:
        return [i for i, node in enumerate(self._workspace.nodes) if stream in node]

    def room_of(self, row: Int64s) -> int:
        """The room that a state leaves to another: what it made use of, as far as it is prepared in no time."""
        used = max(self._workspace.first_capacity, 1 << int(row[k.N_COUNT]).bit_length())
        return min(int(row[k.N_CAPACITY]), used, _MOST_ROOM)
