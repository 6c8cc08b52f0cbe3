"""Set difference over windows: ``A EXCEPT B EXCEPT C ...`` on a key (JISC 4.7).

R(tau) holds the tuples of stream 0 alive at instant tau for which no tuple of any other stream with
the same key is. ISTREAM emits a tuple whenever it enters R, DSTREAM whenever it leaves: both may
happen more than once in its life, as blockers come and go.

The n-ary difference is taken in one step: blockers of all streams are counted together per key. So no
intermediate difference is kept, whatever the order of the plan. A pipeline of binary differences keeps ``A - B`` to
find out what is in ``(A - B) - C``; here nothing would ever look at it, for the count of a key answers for all
streams at once. Every tuple costs one lookup as it comes, in any order. A pipeline over five streams of one rate, whose
windows hold 2,000 tuples with 1,000 keys, makes 1.5 probes of windows and states per tuple, and 0.8 insertions and as
many removals. A change of plan therefore leaves nothing to complete.

State is bounded by the windows' contents (at their peak, and one batch).
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from thalweg.cql.query import Output, RangeWindow, Window
from thalweg.engine.kernels import difference as kernels
from thalweg.engine.kernels import difference_records as r
from thalweg.engine.kernels.difference import Arrivals
from thalweg.engine.storage.arrays import Int64s, grown
from thalweg.errors import ThalwegError

END_OF_INPUT = kernels.FOREVER
"""The watermark that no tuple comes after: whatever leaves at all has left."""


class SetDifference:
    """Stream 0 minus all others; ``windows`` in the order of the query."""

    __image__: ClassVar = ("_records", "_key_directory", "_queue_directory", "_watermark")

    def __init__(self, windows: tuple[Window, ...], output: Output) -> None:
        self._entering = output is Output.ISTREAM
        self._window = np.array([_encoded(window) for window in windows], np.int64)
        self._records = r.empty_pool(len(windows))
        self._key_directory = np.full(1, r.NOTHING, np.int64)
        self._queue_directory = np.full(1, r.NOTHING, np.int64)
        self._watermark = -END_OF_INPUT

    def advance(self, arrivals: Arrivals, watermark: int) -> tuple[Int64s, Int64s]:
        """Take in tuples, and return what is emitted before the watermark: instants, and rows of stream 0.

        ``arrivals`` are all tuples older than the watermark that no call before had, in their total
        order; :data:`END_OF_INPUT` says that no more will come. What is emitted comes in time
        order, and within an instant in an order that depends on the input alone.
        """
        self._check(arrivals.time, watermark)
        self._watermark = max(watermark, self._watermark)
        count = len(arrivals.time)
        self._reserve(count)
        room = len(self) + count
        times, rows = np.empty(2 * room, np.int64), np.empty(2 * room, np.int64)
        parts: list[tuple[Int64s, Int64s]] = []
        finished, arrived = False, 0
        while not finished:
            finished, arrived, emitted = kernels.advance(
                arrivals,
                arrived,
                watermark,
                self._window,
                self._entering,
                self._records,
                self._key_directory,
                self._queue_directory,
                times,
                rows,
            )
            parts.append((times[:emitted].copy(), rows[:emitted].copy()))
        if len(parts) == 1:
            return parts[0]
        return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])

    def __len__(self) -> int:
        """How many tuples are held."""
        return int(self._records[r.POOL, r.TUPLES])

    @property
    def bytes(self) -> int:
        """Memory of everything held."""
        return self._records.nbytes + self._key_directory.nbytes + self._queue_directory.nbytes

    @property
    def keys(self) -> Int64s:
        """The codes of the keys in use: the caller may forget all others."""
        keys = self._in_use(r.KEY)
        codes: Int64s = keys[keys[:, r.CODE] != r.NOTHING, r.CODE]
        return codes

    def rows(self, stream: int) -> Int64s:
        """The row numbers of the tuples held of a stream."""
        tuples = self._in_use(r.TUPLE)
        rows: Int64s = tuples[tuples[:, r.STREAM] == stream, r.ROW]
        return rows

    def _in_use(self, role: int) -> Int64s:
        records = self._records[: self._records[r.POOL, r.USED]]
        in_use: Int64s = records[records[:, r.ROLE] == role]
        return in_use

    def _check(self, times: Int64s, watermark: int) -> None:
        if len(times) and not self._watermark <= times[0] <= times[-1] < watermark:
            raise ThalwegError(
                f"tuples of times {times[0]} to {times[-1]} between the watermarks {self._watermark} and {watermark}"
            )
        if np.any(times[1:] < times[:-1]):
            raise ThalwegError("tuples of a set difference are out of time order")

    def _reserve(self, arrivals: int) -> None:
        """Make room for each arrival to be a new tuple, key and partition, and keep directories half empty."""
        partitioned = bool(self._window[:, kernels.PARTITIONED].any())
        needed = int(self._records[r.POOL, r.IN_USE]) + (3 if partitioned else 2) * arrivals
        self._records = grown(self._records, needed)
        if len(self._key_directory) < len(self._records):
            self._key_directory = self._directory(r.KEY, r.UNBLOCKABLE + 1)
            if partitioned:
                self._queue_directory = self._directory(r.QUEUE, r.STREAM_QUEUES + len(self._window))

    def _directory(self, role: int, first: int) -> Int64s:
        size = 2 ** (len(self._records) - 1).bit_length()  # for each key or queue there is a tuple too
        directory = np.full(size, r.NOTHING, np.int64)
        r.enlist(directory, self._records, role, first)
        return directory


def _encoded(window: Window) -> tuple[int, int, int]:
    if isinstance(window, RangeWindow):
        if window.width_us is None:
            return kernels.UNBOUNDED, 0, 0
        return kernels.RANGE, window.width_us, 0
    return kernels.ROWS, window.rows, int(bool(window.partition_by))
