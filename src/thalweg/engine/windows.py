"""The base windows of a join: rings of tuples in flat memory, and the paths by which probes find them.

A window is a region of the memory, as wide as its stream's layout says, with a link for every access path behind
each tuple. Nothing is unlinked: chains run from new to old, and end where the window does. What is done for every tuple
is in :mod:`thalweg.engine.kernels`; here is what moves windows, and builds their paths anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from thalweg.engine.assembly_lists import Path
from thalweg.engine.kernels import tables as k
from thalweg.engine.kernels import windows as window_kernels
from thalweg.engine.kernels.compiled import Int64s
from thalweg.engine.observations import Glimpse, StoreSize, WindowGlimpse
from thalweg.engine.time_bounds import FOREVER
from thalweg.engine.workspace import Workspace
from thalweg.plan.sampling import spread


@dataclass(frozen=True, slots=True)
class Heads:
    """The hash heads of all access paths by one key: for each hash, one head per stream."""

    start: int
    mask: int
    streams: tuple[int, ...]

    @property
    def words(self) -> int:
        return (self.mask + 1) * len(self.streams)


class BaseWindows:
    """The windows of a join."""

    __image__: ClassVar = ("_partitions", "_links", "_heads")

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        n = len(workspace.layouts)
        self._partitions = [0] * n
        self._links: list[dict[tuple[int, ...], int]] = [{} for _ in range(n)]
        self._heads: dict[tuple[int, ...], Heads] = {}
        for row, layout in zip(workspace.streams, workspace.layouts, strict=True):
            row[k.S_PREFIX] = layout.width
            row[k.S_OFFERED], row[k.S_OFFERED_MASK] = layout.offered, layout.offered_mask
            row[k.S_KEPT_MASK] = layout.kept_mask or 0
            row[k.S_LIFETIME] = layout.lifetime
            row[k.S_ROWS] = layout.rows
            row[k.S_MASK] = workspace.first_capacity - 1

    @property
    def _streams(self) -> Int64s:
        return self._workspace.streams

    # -- What they hold -----------------------------------------------------------------

    def held(self, stream: int) -> int:
        """How many tuples a base window holds, those among them that died in its middle included."""
        return int(self._streams[stream, k.S_NEXT] - self._streams[stream, k.S_OLDEST])

    def all_held(self) -> int:
        """How many tuples all base windows hold."""
        return int((self._streams[:, k.S_NEXT] - self._streams[:, k.S_OLDEST]).sum())

    @property
    def are_empty(self) -> bool:
        return bool((self._streams[:, k.S_NEXT] == self._streams[:, k.S_OLDEST]).all())

    def rows(self, stream: int) -> Int64s:
        """The row numbers of the tuples in a base window."""
        row = self._streams[stream]
        tuples = self.window(stream)[np.arange(row[k.S_OLDEST], row[k.S_NEXT]) & row[k.S_MASK]]
        if row[k.S_ROWS]:
            tuples = tuples[tuples[:, self._workspace.layouts[stream].width + k.ALIVE] != k.DEAD]
        numbers: Int64s = tuples[:, k.ROW]
        return numbers

    def first_rows(self) -> list[int]:
        """Per stream, the row number of the tuple that came first of those held; a great number if none is."""
        self.purge()
        rows = []
        for stream, row in enumerate(self._streams):
            first = self.window(stream)[row[[k.S_OLDEST]] & row[k.S_MASK], k.ROW]
            rows.append(int(first[0]) if self.held(stream) else np.iinfo(np.int64).max)
        return rows

    def glimpse(self, most: int) -> Glimpse:
        """A look at up to ``most`` tuples of every base window: it takes the same time whatever they hold."""
        time = self._workspace.watermark
        windows = []
        for stream, layout in enumerate(self._workspace.layouts):
            row = self._streams[stream]
            oldest, following = int(row[k.S_OLDEST]), int(row[k.S_NEXT])
            words = self.window(stream)[spread(oldest, following, most) & int(row[k.S_MASK])]
            joining = np.ones(len(words), np.bool_)
            if layout.rows:
                joining = words[:, layout.width + k.ALIVE] == k.JOINING
            elif layout.lifetime < FOREVER:
                joining = words[:, k.T] > time - layout.lifetime
            taken = words[joining, : layout.width]
            held = (following - oldest) * len(taken) / max(1, len(words))
            windows.append(WindowGlimpse(taken, held, following - int(row[k.S_RENUMBERED])))
        return Glimpse(time, tuple(windows))

    def sizes(self) -> list[StoreSize]:
        """What every base window holds."""
        streams = range(len(self._workspace.layouts))
        return [StoreSize(frozenset((s,)), self.held(s), None, 8 * self.words(s)) for s in streams]

    def window(self, stream: int) -> Int64s:
        row = self._streams[stream]
        capacity, stride = int(row[k.S_MASK]) + 1, int(row[k.S_STRIDE])
        return self._workspace.region(int(row[k.S_REGION]), capacity, stride)

    def _count_alive(self, stream: int) -> int:
        row = self._streams[stream]
        held = np.arange(row[k.S_OLDEST], row[k.S_NEXT]) & row[k.S_MASK]
        return int((self.window(stream)[held, self._workspace.layouts[stream].width + k.ALIVE] != k.DEAD).sum())

    def words(self, stream: int) -> int:
        row = self._streams[stream]
        words = (int(row[k.S_MASK]) + 1) * int(row[k.S_STRIDE])
        words += sum(self._heads[key].mask + 1 for key in self._links[stream])
        return words + self._partitions[stream] * k.PARTITION_FIELDS

    def purge(self) -> None:
        """Drop what is over at the beginning of every window."""
        window_kernels.purge(self._workspace.memory.words, self._streams, self._workspace.watermark)

    # -- Room ---------------------------------------------------------------------------

    def fill(self, batches: Sequence[Int64s]) -> None:
        """Put tuples in time order into RANGE windows that are empty, and index them once."""
        for stream, (layout, held) in enumerate(zip(self._workspace.layouts, batches, strict=True)):
            row = self._streams[stream]
            capacity = max(int(row[k.S_MASK]) + 1, 1 << len(held).bit_length())
            self.relocate(stream, capacity, int(row[k.S_STRIDE]))
            self.window(stream)[: len(held), : layout.width] = held[:, : layout.width]
            row[k.S_OLDEST], row[k.S_NEXT] = 0, len(held)
        for key, heads in list(self._heads.items()):
            self._workspace.memory.free(heads.start, heads.words)
            self._allocate_heads(key, heads.streams)

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

    def double(self, stream: int) -> None:
        """Give a window twice the room."""
        row = self._streams[stream]
        self.relocate(stream, 2 * (int(row[k.S_MASK]) + 1), int(row[k.S_STRIDE]))

    def relocate(self, stream: int, capacity: int, stride: int) -> None:
        """Move a base window to a region of another size; its access paths are built separately."""
        row = self._streams[stream]
        old_start, old_stride, old_mask = int(row[k.S_REGION]), int(row[k.S_STRIDE]), int(row[k.S_MASK])
        region = self._workspace.memory.allocate(capacity * stride)
        held = np.arange(row[k.S_OLDEST], row[k.S_NEXT])
        kept = min(stride, old_stride)
        tuples = self.window(stream)[held & old_mask, :kept]
        row[k.S_REGION], row[k.S_STRIDE], row[k.S_MASK] = region, stride, capacity - 1
        self.window(stream)[held & (capacity - 1), :kept] = tuples
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

    @property
    def _paths(self) -> tuple[Path, ...]:
        return self._workspace.assembly.paths

    def install_paths(self) -> None:
        """Give every access path of the new programs its link field and hash heads.

        Paths by the same classes share a region of heads, in which those of one key are
        neighbours. What the old programs used in the same way stays as it is.
        """
        paths = self._workspace.assembly.paths
        for stream, layout in enumerate(self._workspace.layouts):
            mine = [key for owner, key in paths if owner == stream]
            links = {key: link for key, link in self._links[stream].items() if key in mine}
            free = iter(sorted(set(range(len(mine))) - set(links.values())))
            links |= {key: next(free) for key in mine if key not in links}
            self._links[stream] = links
            row = self._streams[stream]
            row[k.S_PATH] = next((i for i, (owner, _) in enumerate(paths) if owner == stream), 0)
            row[k.S_PATHS] = len(mine)
            stride = layout.first_link + max([0, *links.values()]) + 1
            if row[k.S_STRIDE] < stride:
                self.relocate(stream, int(row[k.S_MASK]) + 1, stride)
        for i, (stream, key) in enumerate(paths):
            layout = self._workspace.layouts[stream]
            self._workspace.paths[i, k.P_LINK] = layout.first_link + self._links[stream][key]
            self._workspace.paths[i, [k.P_FIELDS, k.P_COUNT]] = self._workspace.assembly.path_fields[i]
        old, self._heads = self._heads, {}
        for key in dict.fromkeys(key for _, key in paths):
            streams = tuple(stream for stream, other in paths if other == key)
            kept = old.pop(key, None)
            if kept is not None and kept.streams == streams:
                self._heads[key] = kept
                self._place_heads(key)
            else:
                if kept is not None:
                    self._workspace.memory.free(kept.start, kept.words)
                self._allocate_heads(key, streams)
        for dropped in old.values():
            self._workspace.memory.free(dropped.start, dropped.words)

    def _allocate_heads(self, key: tuple[int, ...], streams: tuple[int, ...]) -> None:
        """Hash heads for the paths by ``key``: four times as many as the largest window has room for, or as many."""
        mask = int(self._streams[list(streams), k.S_MASK].max())
        if key not in self._workspace.assembly.rare:
            mask = 4 * mask + 3
        self._heads[key] = Heads(self._workspace.memory.allocate((mask + 1) * len(streams), -1), mask, streams)
        self._place_heads(key)
        for stream in streams:
            self._fill_path(stream, key)

    def _fill_path(self, stream: int, key: tuple[int, ...]) -> None:
        path = self._paths.index((stream, key))
        window_kernels.fill_path(self._workspace.memory.words, self._workspace.tables, stream, path)

    def _place_heads(self, key: tuple[int, ...]) -> None:
        heads = self._heads[key]
        for i, stream in enumerate(heads.streams):
            row = self._workspace.paths[self._paths.index((stream, key))]
            row[[k.P_HEADS, k.P_SPAN, k.P_MASK]] = heads.start + i, len(heads.streams), heads.mask

    def index(self, stream: int) -> None:
        """Build the access paths of a window anew after it moved; with more hash heads if it outgrew them."""
        for key in self._links[stream]:
            heads = self._heads[key]
            if heads.mask < self._streams[stream, k.S_MASK]:
                self._workspace.memory.free(heads.start, heads.words)
                self._allocate_heads(key, heads.streams)
            else:
                window_kernels.clear_path(
                    self._workspace.memory.words, self._workspace.paths, self._paths.index((stream, key))
                )
                self._fill_path(stream, key)
