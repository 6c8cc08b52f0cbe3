"""New rows on their way into a bucket."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from thalweg.engine.kernels.compiled import Int64s
from thalweg.engine.kernels.tables import ROW, T


@dataclass(frozen=True, slots=True)
class Batch:
    """New rows of one stream with their event times.

    ``rows`` are their row numbers where the payload is already known to the bucket;
    without them, the bucket keeps the columns it needs itself. ``numbers`` are the row numbers that it is to give
    them then, in rising order and above all before; without them, rows are numbered as they come.
    """

    table: pa.Table
    times: Int64s
    rows: Int64s | None = None
    numbers: Int64s | None = None


def in_time_order(words: Int64s) -> Int64s:
    """Rows of words sorted by their time; ties stay in the order in which they came."""
    times = words[:, T]
    if (times[1:] >= times[:-1]).all():
        return words
    return words[np.argsort(times, kind="stable")]


def in_row_order(words: Int64s) -> Int64s:
    """Rows of words in the order in which they came."""
    rows = words[:, ROW]
    return words if (rows[1:] >= rows[:-1]).all() else words[np.argsort(rows, kind="stable")]


class Waiting:
    """Tuples held back, per stream, until the watermark has passed them."""

    __image__: ClassVar = ("_words",)

    def __init__(self, widths: list[int]) -> None:
        self._words: list[Int64s] = [np.zeros((0, width), np.int64) for width in widths]

    def __len__(self) -> int:
        return sum(map(len, self._words))

    def add(self, stream: int, words: Int64s) -> None:
        self._words[stream] = np.concatenate([self._words[stream], words])

    def before(self, watermark: int) -> list[Int64s]:
        """What the watermark has passed, in time order per stream; it waits no longer."""
        released = []
        for stream, words in enumerate(self._words):
            waiting = in_time_order(words)
            ready = int(np.searchsorted(waiting[:, T], watermark))
            released.append(waiting[:ready])
            self._words[stream] = waiting[ready:]
        return released

    def all(self, stream: int) -> Int64s:
        """What waits in a stream."""
        return self._words[stream]

    def values(self, field: int) -> Int64s:
        """A field of everything that waits."""
        return np.concatenate([words[:, field] for words in self._words])

    def rows(self, stream: int, field: int) -> Int64s:
        """The row numbers, found in this field, of what waits in a stream."""
        return self._words[stream][:, field]
