"""The paths by which probes find tuples in base windows: hash heads, and links from tuple to tuple.

A window has a path for each key by which some program looks it up. A head leads to the newest tuple of a hash, and each
tuple has a link to the next older one. Nothing is unlinked: chains run from new to old, and end where the window does.
Kernels extend paths tuple by tuple; here they are placed, and built anew.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from thalweg.engine.kernels import tables as k
from thalweg.engine.kernels import windows as window_kernels
from thalweg.engine.kernels.compiled import Int64s
from thalweg.engine.machine.workspace import Workspace
from thalweg.engine.programs.assembly_lists import Path


@dataclass(frozen=True, slots=True)
class Heads:
    """The hash heads of all access paths by one key: for each hash, one head per slice."""

    start: int
    mask: int
    rows: tuple[int, ...]

    @property
    def words(self) -> int:
        return (self.mask + 1) * len(self.rows)


class AccessPaths:
    """The paths of all windows of a join."""

    __image__: ClassVar = ("_links", "_heads")

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._links: list[dict[tuple[int, ...], int]] = [{} for _ in workspace.layouts]
        self._heads: dict[tuple[int, ...], Heads] = {}

    @property
    def _streams(self) -> Int64s:
        return self._workspace.streams

    def heads_per_slice(self, stream: int) -> int:
        """How many hash heads a slice of a window has."""
        return sum(self._heads[key].mask + 1 for key in self._links[stream])

    def index_all(self) -> None:
        """Build all paths anew, with as many heads as windows need now."""
        for key, heads in list(self._heads.items()):
            self._workspace.memory.free(heads.start, heads.words)
            self._allocate_heads(key, heads.rows)

    @property
    def _all(self) -> tuple[Path, ...]:
        return self._workspace.assembly.paths

    def _path_in(self, number: int, key: tuple[int, ...]) -> int:
        """The row of an access path of a slice. Those of all first slices lie first, then those of all second ones."""
        n = len(self._workspace.layouts)
        return self._all.index((number % n, key)) + number // n * len(self._all)

    def install(self, relocate: Callable[[int, int, int], None]) -> None:
        """Give every access path of the new programs its link field and hash heads.

        ``relocate(number, capacity, stride)`` makes tuples of a slice wide enough for their links.

        Paths by the same classes share a region of heads, in which those of one key are
        neighbours. What the old programs used in the same way stays as it is.
        """
        paths, workspace = self._workspace.assembly.paths, self._workspace
        for stream, layout in enumerate(workspace.layouts):
            mine = [key for owner, key in paths if owner == stream]
            links = {key: link for key, link in self._links[stream].items() if key in mine}
            free = iter(sorted(set(range(len(mine))) - set(links.values())))
            links |= {key: next(free) for key in mine if key not in links}
            self._links[stream] = links
            stride = layout.first_link + max([0, *links.values()]) + 1
            first = next((i for i, (owner, _) in enumerate(paths) if owner == stream), 0)
            for place, number in enumerate(workspace.slices_of(stream)):
                row = self._streams[number]
                row[k.S_PATH], row[k.S_PATHS] = first + place * len(paths), len(mine)
                if row[k.S_STRIDE] < stride:
                    relocate(number, int(row[k.S_MASK]) + 1, stride)
        for i, (stream, key) in enumerate(paths):
            layout = workspace.layouts[stream]
            for each in range(i, len(workspace.paths), len(paths)):
                workspace.paths[each, k.P_LINK] = layout.first_link + self._links[stream][key]
                workspace.paths[each, [k.P_FIELDS, k.P_COUNT]] = workspace.assembly.path_fields[i]
        old, self._heads = self._heads, {}
        for key in dict.fromkeys(key for _, key in paths):
            owners = [stream for stream, other in paths if other == key]
            rows = tuple(number for stream in owners for number in workspace.slices_of(stream))
            kept = old.pop(key, None)
            if kept is not None and kept.rows == rows:
                self._heads[key] = kept
                self._place_heads(key)
            else:
                if kept is not None:
                    workspace.memory.free(kept.start, kept.words)
                self._allocate_heads(key, rows)
        for dropped in old.values():
            workspace.memory.free(dropped.start, dropped.words)

    def _allocate_heads(self, key: tuple[int, ...], rows: tuple[int, ...]) -> None:
        """Hash heads for the paths by ``key``: four times as many as the largest slice has room for, or as many."""
        mask = int(self._streams[list(rows), k.S_MASK].max())
        if key not in self._workspace.assembly.rare:
            mask = 4 * mask + 3
        self._heads[key] = Heads(self._workspace.memory.allocate((mask + 1) * len(rows), -1), mask, rows)
        self._place_heads(key)
        for number in rows:
            self._fill_path(number, key)

    def _fill_path(self, number: int, key: tuple[int, ...]) -> None:
        path = self._path_in(number, key)
        window_kernels.fill_path(self._workspace.memory.words, self._workspace.tables, number, path)

    def _place_heads(self, key: tuple[int, ...]) -> None:
        heads = self._heads[key]
        for i, number in enumerate(heads.rows):
            row = self._workspace.paths[self._path_in(number, key)]
            row[[k.P_HEADS, k.P_SPAN, k.P_MASK]] = heads.start + i, len(heads.rows), heads.mask

    def index(self, number: int) -> None:
        """Build the access paths of a slice anew after it moved; with more hash heads if it outgrew them."""
        for key in self._links[number % len(self._workspace.layouts)]:
            heads = self._heads[key]
            if heads.mask < self._streams[number, k.S_MASK]:
                self._workspace.memory.free(heads.start, heads.words)
                self._allocate_heads(key, heads.rows)
            else:
                window_kernels.clear_path(
                    self._workspace.memory.words, self._workspace.paths, self._path_in(number, key)
                )
                self._fill_path(number, key)
