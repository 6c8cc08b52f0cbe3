"""The engine's memory: one int64 array in regions.

Everything of a join that lasts lies in one array, so that kernels take one argument
whatever the query, and so that a whole engine can be saved, mapped or shipped as a
single flat thing.

The array comes from an arena: the heap, or a file that other processes of the host can
map too. To a kernel both are the same plain array.
"""

from __future__ import annotations

import logging
import mmap
import os
import sys
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, Protocol

import numpy as np

from thalweg.engine.kernels.compiled import Float64s, Int64s
from thalweg.engine.storage.image_files import is_kept_in, new_part

_NO_RESERVE = 0x4000
"""Linux's MAP_NORESERVE, which Python names from 3.13 on."""


_SMALL = 1 << 22
"""Bytes in pages of the usual size: a small join is not to take up large ones."""

_log = logging.getLogger(__name__)


class Arena(Protocol):
    """Words that are 0 until they are written, and can become more."""

    words: Int64s

    def grow(self, count: int) -> None:
        """Have at least ``count`` words; those that are there keep their values. OSError: the disk is full."""

    least_returned: int
    """Words of a region that is worth giving back."""

    def give_back(self, start: int, count: int) -> None:
        """Let the system have the pages of some words, if it takes them; what the words hold is lost."""

    def take_back(self, start: int, count: int) -> None:
        """Have pages for some words again that may have been given back. OSError: the disk is full."""


class HeapArena:
    """Words of this process alone.

    Addresses are reserved for as much as the machine has, where it lets us; so growing copies nothing, and a join does
    not stall, whatever its windows hold, because something needs room. What nobody has written takes up nothing.
    """

    least_returned = 4 * mmap.PAGESIZE // 8

    def __init__(self, count: int) -> None:
        self._region = _reserved_region()
        self._reserved = np.frombuffer(b"" if self._region is None else self._region, np.int64)
        self.words: Int64s = self._reserved[:count]
        self.grow(count)

    def grow(self, count: int) -> None:
        if count <= len(self._reserved):
            self.words = self._reserved[:count]
            return
        grown = np.zeros(count, np.int64)
        grown[: len(self.words)] = self.words
        self.words = grown

    def give_back(self, start: int, count: int) -> None:
        if self._region is not None and len(self.words) <= len(self._reserved):
            _give_back(self._region, mmap.MADV_DONTNEED, start, count)

    def take_back(self, start: int, count: int) -> None:
        """Pages come when they are written."""


def _give_back(region: mmap.mmap, advice: int, start: int, count: int) -> None:
    """Of some words, the pages that nothing else is on."""
    first, end = -(-8 * start // mmap.PAGESIZE), 8 * (start + count) // mmap.PAGESIZE
    if first < end:
        with suppress(OSError):  # then they stay: not every file system can
            region.madvise(advice, first * mmap.PAGESIZE, (end - first) * mmap.PAGESIZE)


def _reserved_region() -> mmap.mmap | None:
    """Zeros without pages, as many as the machine has memory for; none where the system does not give any away."""
    if sys.platform != "linux":
        return None
    size = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        region = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE)
    except OSError:  # addresses, or promises of memory, are limited
        return None
    with suppress(OSError):  # a hint: as numpy does for large arrays, and for those alone
        region.madvise(mmap.MADV_HUGEPAGE, _SMALL, size - _SMALL)
    return region


class MappedArena:
    """Words in a file, shared by all processes that map it.

    Growing extends the file and maps it anew: nothing is copied. A file never shrinks, so that a process that maps it
    cannot lose what it looks at.

    To write to a mapped page that the disk has no room for ends the process. So the room for all words is taken when
    the file grows, or when a region serves again whose pages were given back: a full disk is an OSError there. (A file
    system that copies what is written over, such as btrfs, cannot promise that room.)

    The file stays open: it can grow, and keeps what it holds, also if someone deletes its name.
    """

    least_returned = 1 << 17  # some file systems write what they are to forget

    def __init__(self, path: Path, *, is_new: bool = False) -> None:
        self.path = path
        self.words: Int64s = np.zeros(0, np.int64)
        self._descriptor = os.open(path, os.O_RDWR | (os.O_CREAT | os.O_EXCL if is_new else 0), 0o600)
        weakref.finalize(self, os.close, self._descriptor)
        self.grow(0)

    def grow(self, count: int) -> None:
        """Have at least ``count`` words, and all that the file has by now."""
        has = os.fstat(self._descriptor).st_size
        size = -(-max(has, count * 8, 1) // mmap.PAGESIZE) * mmap.PAGESIZE
        if size == self.words.nbytes:
            return
        self._take_room(has, size - has)
        self._region = mmap.mmap(self._descriptor, size)
        # A view of the mapping, not numpy's memmap: for that, numba would compile every kernel again.
        self.words = np.frombuffer(self._region, np.int64)

    def give_back(self, start: int, count: int) -> None:
        if sys.platform == "linux":
            _give_back(self._region, mmap.MADV_REMOVE, start, count)

    def take_back(self, start: int, count: int) -> None:
        self._take_room(8 * start, 8 * count)

    def _take_room(self, start: int, count: int) -> None:
        """Have room on the disk for some bytes of the file, which extend it if it is shorter."""
        if sys.platform == "linux":
            if count:
                os.posix_fallocate(self._descriptor, start, count)
        else:
            os.truncate(self._descriptor, max(os.fstat(self._descriptor).st_size, start + count))


class Memory:
    """Words handed out in regions; a freed region serves the next request of its size.

    Stores grow by doubling, so what one of them has outgrown adds up to no more than what it uses.
    """

    __image__: ClassVar = ("_used", "_free", "_file")

    is_frugal = False
    """Whether the pages of regions that wait to serve again are given back meanwhile."""

    def __init__(self, words: int = 1 << 12) -> None:
        self._arena: Arena = HeapArena(words)
        self._used = 0
        self._free: dict[int, list[int]] = {}

    @property
    def words(self) -> Int64s:
        return self._arena.words

    @property
    def reserved(self) -> int:
        """Words of all regions; those that wait to serve again are among them, if they keep their pages."""
        waiting = sum(size * len(starts) for size, starts in self._free.items() if self._is_returned(size))
        return self._used - waiting

    def _is_returned(self, size: int) -> bool:
        return self.is_frugal and size >= self._arena.least_returned

    @property
    def floats(self) -> Float64s:
        """The same bytes, read as float64."""
        return self.words.view(np.float64)

    def allocate(self, size: int, fill: int | None = 0) -> int:
        """The first word of a region of ``size`` words, each set to ``fill`` (None: whatever they are)."""
        if self._free.get(size):
            start = self._free[size].pop()
            if size >= self._arena.least_returned:
                self._have_room(lambda arena: arena.take_back(start, size))
        else:
            start = self._used
            if start + size > len(self.words):
                self._have_room(lambda arena: arena.grow(max(2 * len(arena.words), start + size)))
            self._used += size
            if not fill:
                return start  # never used: 0 already, and its pages need not exist yet
        if fill is not None:
            self.words[start : start + size] = fill
        return start

    def _have_room(self, ask: Callable[[Arena], None]) -> None:
        """Ask the arena for room; where the disk has none, go on in memory of this process alone."""
        try:
            ask(self._arena)
        except OSError as error:
            _log.warning("a live engine leaves its file for the memory of its process: %s", error)
            heap = HeapArena(len(self.words))
            heap.words[: self._used] = self.words[: self._used]
            self._arena = heap
            ask(heap)

    def free(self, start: int, size: int) -> None:
        self._free.setdefault(size, []).append(start)
        if self._is_returned(size):
            self._arena.give_back(start, size)

    def keep_in(self, directory: Path) -> None:
        """Live in a file of this directory from now on; free if it already does."""
        if is_kept_in(directory, self._file):
            return
        mapped = MappedArena(new_part(directory), is_new=True)
        mapped.grow(len(self.words))
        mapped.words[: self._used] = self.words[: self._used]
        self._arena = mapped
        for size, starts in self._free.items():
            if self._is_returned(size):
                for start in starts:
                    mapped.give_back(start, size)

    @property
    def _file(self) -> Path | None:
        return self._arena.path if isinstance(self._arena, MappedArena) else None

    @_file.setter
    def _file(self, path: Path) -> None:
        if path == self._file:
            self._arena.grow(0)  # another process may have made it longer; pages already mapped stay so
        else:
            self._arena = MappedArena(path)
