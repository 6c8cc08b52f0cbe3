"""The kept states of a join, as stores: entries in flat memory, each with its key, its expiry and its components.

Whether a key's entries are all there is told by a directory, or, in a state that is complete, needs no telling; how
keys become live and absent is not decided here (:mod:`thalweg.engine.join`).
"""

from __future__ import annotations

import numpy as np

from thalweg.cql.query import Query
from thalweg.engine.kernels import states as state_kernels
from thalweg.engine.kernels import tables as k
from thalweg.engine.kernels import windows as window_kernels
from thalweg.engine.kernels.compiled import Int64s
from thalweg.engine.kernels.hashing import DIRECTORY_FIELDS
from thalweg.engine.observations import StoreSize
from thalweg.engine.windows import BaseWindows
from thalweg.plan.join_graph import JoinGraph
from thalweg.plan.tree import Node

_CACHE_LINE = 8
"""Words; a region of another size would push the next ones off their cache lines."""


class KeptStates(BaseWindows):
    """The states above the base windows; which there are, the assembled programs say."""

    def __init__(self, query: Query, capacity: int) -> None:
        super().__init__(query, capacity)
        self.graph = JoinGraph.of(query)
        self._states = np.zeros((0, k.STATE_FIELDS), np.int64)
        self._counters = np.zeros(k.COUNTERS, np.int64)

    @property
    def _nodes(self) -> tuple[Node, ...]:
        return self._assembly.nodes

    def _key_classes(self, index: int) -> tuple[int, ...]:
        start, count = self._assembly.keys[index]
        return tuple(int(c) for c in self._assembly.lists[start : start + count])

    def sizes(self) -> list[StoreSize]:
        """What every base window and kept state holds."""
        sizes = []
        for stream in range(len(self.layouts)):
            size = 8 * self._window_words(stream)
            sizes.append(StoreSize(frozenset((stream,)), self.held(stream), None, size))
        for index, node in enumerate(self._nodes):
            self._sweep(index)
            row = self._states[index]
            live = None if row[k.N_COMPLETE] == k.COMPLETE else int(row[k.N_LIVE])
            sizes.append(StoreSize(node, int(row[k.N_COUNT]), live, 8 * self._state_words(index)))
        return sizes

    def _state_words(self, index: int) -> int:
        row = self._states[index]
        words = int(row[k.N_CAPACITY]) * (int(row[k.N_STRIDE]) + 2)
        return words + (int(row[k.N_DIRECTORY_MASK]) + 1) * DIRECTORY_FIELDS

    def _entries(self, index: int) -> Int64s:
        row = self._states[index]
        count, stride = int(row[k.N_COUNT]), int(row[k.N_STRIDE])
        return self._memory.words[row[k.N_REGION] : row[k.N_REGION] + count * stride].reshape(count, stride)

    def _sweep(self, index: int) -> None:
        held = self._states[index, k.N_COUNT]
        state_kernels.sweep(self._memory.words, self._tables, index, self.watermark)
        self._counters[k.C_PURGED] += held - self._states[index, k.N_COUNT]

    def _resize(self, index: int, capacity: int) -> None:
        """Move a state to regions of another size."""
        row = self._states[index]
        stride = int(row[k.N_STRIDE])
        region = self._memory.allocate(capacity * stride, None)
        heads = self._memory.allocate(2 * capacity, None)
        entries = self._entries(index)
        self._memory.words[region : region + entries.size] = entries.reshape(-1)
        self._memory.free(int(row[k.N_REGION]), int(row[k.N_CAPACITY]) * stride)
        self._memory.free(int(row[k.N_HEADS]), int(row[k.N_MASK]) + 1)
        row[k.N_REGION], row[k.N_CAPACITY] = region, capacity
        row[k.N_HEADS], row[k.N_MASK] = heads, 2 * capacity - 1
        state_kernels.relink(self._memory.words, self._tables, index)

    def _free_state(self, row: Int64s) -> None:
        self._memory.free(int(row[k.N_REGION]), int(row[k.N_CAPACITY] * row[k.N_STRIDE]))
        self._memory.free(int(row[k.N_HEADS]), int(row[k.N_MASK]) + 1)
        self._close_directory(row)

    def _close_directory(self, row: Int64s) -> None:
        """Make a state complete: what is not there does not exist, and no key needs a status."""
        if row[k.N_COMPLETE] != k.COMPLETE:
            slots = int(row[k.N_DIRECTORY_MASK]) + 1
            self._memory.free(int(row[k.N_DIRECTORY]), slots * DIRECTORY_FIELDS)
            self._memory.free(int(row[k.N_BIRTH]), self._birth_words)
            row[[k.N_COMPLETE, k.N_DIRECTORY, k.N_DIRECTORY_MASK, k.N_LIVE]] = k.COMPLETE, 0, -1, 0

    @property
    def _birth_words(self) -> int:
        return -(-len(self.layouts) // _CACHE_LINE) * _CACHE_LINE

    def _births(self, row: Int64s) -> Int64s:
        """Per stream, the sequence number that the first tuple after a state's birth got."""
        start = int(row[k.N_BIRTH])
        return self._memory.words[start : start + len(self.layouts)]

    def _rekey(self, index: int) -> None:
        """Give the entries of a complete state the key by which its new sibling probes it."""
        self._sweep(index)
        entries = self._entries(index)
        classes = self._key_classes(index)
        codes = np.zeros((len(entries), max(1, len(self.graph.classes))), np.int64)
        for attribute in classes:
            stream = min(s for s in self._nodes[index] if attribute in self.layouts[s].codes)
            component = entries[:, k.COMPONENTS + sorted(self._nodes[index]).index(stream)]
            window = self._window(stream)
            slots = component & int(self._streams[stream, k.S_MASK])
            codes[:, attribute] = window[slots, self.layouts[stream].codes[attribute]]
        start, count = self._assembly.keys[index]
        state_kernels.key_entries(entries, codes, self._assembly.lists, start, count)
        state_kernels.relink(self._memory.words, self._tables, index)

    # -- Windows that states refer to ---------------------------------------------------

    def _widen(self, stream: int) -> None:
        """Make room in a base window: drop what died in its middle, or double it."""
        row = self._streams[stream]
        capacity = int(row[k.S_MASK]) + 1
        if row[k.S_ROWS] and 2 * self._count_alive(stream) <= capacity:
            self._renumber(stream)
        else:
            self._relocate(stream, 2 * capacity, int(row[k.S_STRIDE]))
        self._index(stream)

    def _renumber(self, stream: int) -> None:
        """Close the gaps that dead tuples left in a partitioned ROWS window.

        One silent partition would otherwise hold on to everything that came after its tuples.
        """
        holding = [i for i, node in enumerate(self._nodes) if stream in node]
        for index in holding:
            self._sweep(index)
        row = self._streams[stream]
        window = self._window(stream)
        held = np.arange(row[k.S_OLDEST], row[k.S_NEXT])
        alive = held[window[held & row[k.S_MASK], self.layouts[stream].width + k.ALIVE] != k.DEAD]
        tuples = window[alive & row[k.S_MASK]]
        first = int(row[k.S_NEXT])
        renumbered = np.arange(first, first + len(alive))
        window[renumbered & row[k.S_MASK]] = tuples
        row[k.S_OLDEST], row[k.S_NEXT] = first, first + len(alive)
        row[k.S_RENUMBERED] += len(alive)
        window_kernels.rejoin_partitions(self._memory.words, self._tables, stream, self._partitions[stream])
        for index in holding:
            component = k.COMPONENTS + sorted(self._nodes[index]).index(stream)
            entries = self._entries(index)
            entries[:, component] = renumbered[np.searchsorted(alive, entries[:, component])]
            if self._states[index, k.N_COMPLETE] != k.COMPLETE:
                births = self._births(self._states[index])
                births[stream] = first + np.searchsorted(alive, births[stream])
