"""The base windows of a join: rings of tuples in flat memory.

A window has a ring for each of its slices (:mod:`thalweg.plan.slices`), each with a row of ``streams``; most windows
are one slice. A ring is a region of the memory, as wide as its stream's layout says, with a link for every access path
behind each tuple (:mod:`thalweg.engine.windows.access_paths`). What is done for every tuple is in
:mod:`thalweg.engine.kernels`; here is what moves windows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from thalweg.engine.kernels import tables as k
from thalweg.engine.kernels import windows as window_kernels
from thalweg.engine.kernels.compiled import Float64s, Int64s
from thalweg.engine.machine.workspace import Workspace
from thalweg.engine.observations import Glimpse, StoreSize, WindowGlimpse
from thalweg.engine.time_bounds import FOREVER, NEVER
from thalweg.engine.windows.access_paths import AccessPaths
from thalweg.plan.sampling import spread


class BaseWindows:
    """The windows of a join."""

    __image__: ClassVar = ("_partitions", "_paths")

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        n = len(workspace.layouts)
        self._partitions = [0] * n
        self._paths = AccessPaths(workspace)
        for number, row in enumerate(workspace.streams):
            layout, place = workspace.layouts[number % n], number // n
            is_used = place < len(layout.ends)
            row[k.S_PREFIX] = layout.width
            row[k.S_OFFERED], row[k.S_OFFERED_MASK] = layout.offered, layout.offered_mask
            row[k.S_KEPT_MASK] = layout.kept_mask or 0
            row[k.S_LIFETIME] = layout.ends[place] if is_used else 0
            row[k.S_ROWS] = layout.rows
            row[k.S_MASK] = workspace.first_capacity - 1 if is_used else 0
            row[k.S_OLDEST] = row[k.S_NEXT] = row[k.S_RENUMBERED] = _first_number(place * n)
            row[k.S_MORE] = number + n if place + 1 < len(layout.ends) else -1
            row[k.S_NEWEST] = NEVER

    @property
    def _streams(self) -> Int64s:
        return self._workspace.streams

    # -- What they hold -----------------------------------------------------------------

    def held(self, stream: int) -> int:
        """How many tuples a base window holds, those among them that died in its middle included."""
        rows = self._streams[self._workspace.slices_of(stream)]
        return int((rows[:, k.S_NEXT] - rows[:, k.S_OLDEST]).sum())

    def all_held(self) -> int:
        """How many tuples all base windows hold."""
        return int((self._streams[:, k.S_NEXT] - self._streams[:, k.S_OLDEST]).sum())

    @property
    def are_empty(self) -> bool:
        return bool((self._streams[:, k.S_NEXT] == self._streams[:, k.S_OLDEST]).all())

    def rows(self, stream: int) -> Int64s:
        """The row numbers of the tuples in a base window."""
        return np.concatenate([tuples[:, k.ROW] for tuples in self._tuples(stream)])

    def tuples(self, stream: int) -> Int64s:
        """The tuples in a base window, slice by slice, as the layout has them."""
        return np.concatenate([tuples[:, : self._workspace.layouts[stream].width] for tuples in self._tuples(stream)])

    def _tuples(self, stream: int) -> Iterator[Int64s]:
        """Those of a base window, slice by slice, as they came."""
        for number in self._workspace.slices_of(stream):
            row = self._streams[number]
            tuples = self.window(number)[np.arange(row[k.S_OLDEST], row[k.S_NEXT]) & row[k.S_MASK]]
            if row[k.S_ROWS]:
                tuples = tuples[tuples[:, self._workspace.layouts[stream].width + k.ALIVE] != k.DEAD]
            yield tuples

    def first_rows(self) -> list[int]:
        """Per stream, the row number of the tuple that came first of those held; a great number if none is."""
        self.purge()
        firsts = []
        for stream in range(len(self._workspace.layouts)):
            first = np.iinfo(np.int64).max
            for number in self._workspace.slices_of(stream):
                row = self._streams[number]
                if row[k.S_OLDEST] < row[k.S_NEXT]:
                    first = min(first, int(self.window(number)[int(row[k.S_OLDEST] & row[k.S_MASK]), k.ROW]))
            firsts.append(first)
        return firsts

    def glimpse(self, most: int) -> Glimpse:
        """A look at up to ``most`` tuples of every base window: it takes the same time whatever they hold.

        Tuples are as the layouts of the query have them that know of no masks.
        """
        time = self._workspace.watermark
        windows = []
        for stream, layout in enumerate(self._workspace.layouts):
            rows = self._workspace.slices_of(stream)
            all_held, arrived = 0.0, 0
            parts = []
            for number in rows:
                row = self._streams[number]
                oldest, following, lifetime = int(row[k.S_OLDEST]), int(row[k.S_NEXT]), int(row[k.S_LIFETIME])
                count = most if len(rows) == 1 else -(-most * (following - oldest) // max(1, self.held(stream)))
                words = self.window(number)[spread(oldest, following, count) & int(row[k.S_MASK])]
                joining = np.ones(len(words), np.bool_)
                if layout.rows:
                    joining = words[:, layout.width + k.ALIVE] == k.JOINING
                elif lifetime < FOREVER:
                    joining = words[:, k.T] > time - lifetime
                taken = words[joining, : layout.width]
                all_held += (following - oldest) * len(taken) / max(1, len(words))
                arrived += following - int(row[k.S_RENUMBERED])
                parts.append(taken if layout.kept_mask is None else np.delete(taken, layout.kept_mask, axis=1))
            windows.append(WindowGlimpse(np.concatenate(parts), all_held, arrived))
        return Glimpse(time, tuple(windows))

    def sizes(self) -> list[StoreSize]:
        """What every base window holds."""
        if self._workspace.slices > 1:
            self.purge()  # a slice is purged by what comes into it, and nothing may for long
        streams = range(len(self._workspace.layouts))
        return [StoreSize(frozenset((s,)), self.held(s), None, 8 * self.words(s)) for s in streams]

    def slice_sizes(self, stream: int) -> list[int]:
        """How many tuples each slice of a window holds."""
        self.purge()
        rows = self._streams[self._workspace.slices_of(stream)]
        sizes: list[int] = (rows[:, k.S_NEXT] - rows[:, k.S_OLDEST]).tolist()
        return sizes

    def lineage_masks(self, stream: int, most: int) -> tuple[Int64s, Float64s]:
        """Masks of some tuples of every slice, with the number of tuples that ever came for which each stands."""
        masks, weights = [np.zeros(0, np.int64)], [np.zeros(0, np.float64)]
        kept_mask = self._workspace.layouts[stream].kept_mask
        for number in self._workspace.slices_of(stream):
            row = self._streams[number]
            places = spread(int(row[k.S_OLDEST]), int(row[k.S_NEXT]), most) & int(row[k.S_MASK])
            if len(places) and kept_mask is not None:
                masks.append(self.window(number)[places, kept_mask])
                weights.append(np.full(len(places), float(row[k.S_NEXT] - row[k.S_RENUMBERED]) / len(places)))
        return np.concatenate(masks), np.concatenate(weights)

    def window(self, number: int) -> Int64s:
        """The ring of a slice, given by its row."""
        row = self._streams[number]
        capacity, stride = int(row[k.S_MASK]) + 1, int(row[k.S_STRIDE])
        return self._workspace.region(int(row[k.S_REGION]), capacity, stride)

    def words_of(self, stream: int, numbers: Int64s, field: int) -> Int64s:
        """A word of each of these tuples, given by their sequence numbers."""
        words = np.zeros(len(numbers), np.int64)
        slices = stream + (numbers >> k.SLICE_SHIFT)
        for number in self._workspace.slices_of(stream):
            mine = slices == number
            words[mine] = self.window(number)[numbers[mine] & self._streams[number, k.S_MASK], field]
        return words

    def _count_alive(self, stream: int) -> int:
        row = self._streams[stream]
        held = np.arange(row[k.S_OLDEST], row[k.S_NEXT]) & row[k.S_MASK]
        return int((self.window(stream)[held, self._workspace.layouts[stream].width + k.ALIVE] != k.DEAD).sum())

    def words(self, stream: int) -> int:
        """The memory that a window takes: tuples, hash heads, partitions."""
        slices = self._workspace.slices_of(stream)
        rows = self._streams[slices]
        words = int(((rows[:, k.S_MASK] + 1) * rows[:, k.S_STRIDE]).sum())
        words += len(slices) * self._paths.heads_per_slice(stream)
        return words + self._partitions[stream] * k.PARTITION_FIELDS

    def purge(self) -> None:
        """Drop what is over at the beginning of every window."""
        window_kernels.purge(self._workspace.memory.words, self._streams, self._workspace.watermark)

    # -- Room ---------------------------------------------------------------------------

    def fill(self, batches: Sequence[Int64s]) -> None:
        """Put offered tuples, in order, into windows that are empty, and index them once."""
        for stream, (layout, offered) in enumerate(zip(self._workspace.layouts, batches, strict=True)):
            if layout.rows and layout.partition is not None and len(offered):
                offered = offered[_places_from_end(offered[:, layout.partition]) < layout.rows]
                self.reserve_partitions(stream, int(offered[:, layout.partition].max()) + 1)
            for number in self._workspace.slices_of(stream):
                row = self._streams[number]
                held = offered
                if layout.is_sliced:
                    held = offered[offered[:, layout.width] == number - stream]
                capacity = max(int(row[k.S_MASK]) + 1, 1 << len(held).bit_length())
                self.relocate(number, capacity, int(row[k.S_STRIDE]))
                self.window(number)[: len(held), : layout.width] = held[:, : layout.width]
                first = _first_number(number - stream)
                row[k.S_OLDEST], row[k.S_NEXT] = first, first + len(held)
                reached = np.maximum.accumulate(held[:, k.T])
                row[k.S_NEWEST] = reached[-1] if len(held) else NEVER
                row[k.S_LAG] = (reached - held[:, k.T]).max(initial=0)
                if layout.rows:
                    joins = held[:, layout.offered_mask] != 0
                    self.window(number)[: len(held), layout.width + k.ALIVE] = np.where(joins, k.JOINING, k.COUNTED)
                    words, tables = self._workspace.memory.words, self._workspace.tables
                    window_kernels.rejoin_partitions(words, tables, stream, self._partitions[stream])
        self._paths.index_all()

    def is_sparse(self, stream: int) -> bool:
        """Whether half of what a partitioned ROWS window holds has died in its middle."""
        capacity = int(self._streams[stream, k.S_MASK]) + 1
        return bool(self._streams[stream, k.S_ROWS]) and 2 * self._count_alive(stream) <= capacity

    def close_gaps(self, stream: int) -> Int64s:
        """Renumber the tuples of a ROWS window, without the dead ones; the old numbers, in the order of the new ones.

        The new ones begin where the old ones ended. One silent partition would otherwise hold on to everything that
        came after its tuples.
        """
        row, layout = self._streams[stream], self._workspace.layouts[stream]
        window = self.window(stream)
        held = np.arange(row[k.S_OLDEST], row[k.S_NEXT])
        alive: Int64s = held[window[held & row[k.S_MASK], layout.width + k.ALIVE] != k.DEAD]
        tuples = window[alive & row[k.S_MASK]]
        first = int(row[k.S_NEXT])
        window[np.arange(first, first + len(alive)) & row[k.S_MASK]] = tuples
        row[k.S_OLDEST], row[k.S_NEXT] = first, first + len(alive)
        row[k.S_RENUMBERED] += len(alive)
        words, tables = self._workspace.memory.words, self._workspace.tables
        window_kernels.rejoin_partitions(words, tables, stream, self._partitions[stream])
        return alive

    def double(self, number: int) -> None:
        """Give a slice twice the room."""
        row = self._streams[number]
        self.relocate(number, 2 * (int(row[k.S_MASK]) + 1), int(row[k.S_STRIDE]))

    def relocate(self, number: int, capacity: int, stride: int) -> None:
        """Move a slice to a region of another size; its access paths are built separately."""
        row = self._streams[number]
        old_start, old_stride, old_mask = int(row[k.S_REGION]), int(row[k.S_STRIDE]), int(row[k.S_MASK])
        region = self._workspace.memory.allocate(capacity * stride)
        held = np.arange(row[k.S_OLDEST], row[k.S_NEXT])
        kept = min(stride, old_stride)
        tuples = self.window(number)[held & old_mask, :kept]
        row[k.S_REGION], row[k.S_STRIDE], row[k.S_MASK] = region, stride, capacity - 1
        self.window(number)[held & (capacity - 1), :kept] = tuples
        if old_stride:
            self._workspace.memory.free(old_start, (old_mask + 1) * old_stride)

    def reserve_partitions(self, stream: int, count: int) -> None:
        have = self._partitions[stream]
        if count <= have:
            return
        row = self._streams[stream]
        room = max(2 * have, count, 16)
        region = self._workspace.memory.allocate(room * k.PARTITION_FIELDS)
        old = int(row[k.S_PARTITIONS])
        words = self._workspace.memory.words
        words[region : region + have * k.PARTITION_FIELDS] = words[old : old + have * k.PARTITION_FIELDS]
        if have:
            self._workspace.memory.free(old, have * k.PARTITION_FIELDS)
        row[k.S_PARTITIONS] = region
        self._partitions[stream] = room

    # -- Access paths -------------------------------------------------------------------

    def install_paths(self) -> None:
        """Give every access path of the new programs its place."""
        self._paths.install(self.relocate)

    def index(self, number: int) -> None:
        """Build the access paths of a slice anew after it moved."""
        self._paths.index(number)


def _places_from_end(partitions: Int64s) -> Int64s:
    """For each tuple, how many of its partition come after it."""
    order = np.argsort(partitions, kind="stable")
    alike = partitions[order]
    ends = np.searchsorted(alike, alike, side="right")
    places = np.empty(len(order), np.int64)
    places[order] = ends - 1 - np.arange(len(order))
    return places


def _first_number(below: int) -> int:
    """The sequence number of the first tuple of a slice that is so many rows below its stream's first one."""
    return below << k.SLICE_SHIFT
