"""The grid of buckets as data, and the way of a row to its buckets."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from sqlglot import exp

from thalweg.errors import PlanError

Int64s = np.ndarray[tuple[int], np.dtype[np.int64]]
Int32s = np.ndarray[tuple[int], np.dtype[np.int32]]

Kind = Literal["key", "hypercube", "grid", "single"]

BLOCK = 1 << 16
"""Rows routed at a time, so that the passes over them stay in the processor's cache."""


@dataclass(frozen=True, slots=True)
class Axis:
    """One dimension of the grid of buckets.

    Attributes:
        share: how many coordinates it has.
        classes: the attribute classes whose members are hashed together; empty for an axis of rows.
        stream: the stream of an axis of rows.

    """

    share: int
    classes: tuple[int, ...] = ()
    stream: int | None = None


@dataclass(frozen=True, slots=True)
class Coordinate:
    """How the tuples of one stream find their coordinate on one axis.

    ``hash``: by one hash of all ``expressions``, in which values that SQL calls equal are equal (NULL and NULL,
    NaN and NaN, -0.0 and 0.0). ``row``: by a hash of anything that is fixed about the row. ``all``: copied to all.
    """

    kind: Literal["hash", "row", "all"]
    expressions: tuple[exp.Expression, ...] = ()


BY_ROW = Coordinate("row")
TO_ALL = Coordinate("all")


@dataclass(frozen=True, slots=True)
class Partitioning:
    """A grid of buckets, and what each stream knows of it.

    Attributes:
        kind: ``key``: every stream knows the one axis, no tuple is copied (only static relations, if they do not know
            it); ``hypercube``: several axes, or streams
            that are copied, and some axis of keys; ``grid``: axes of rows alone; ``single``: one bucket.
        buckets: how many there are, the product of the shares.
        reason: why it is so, in one sentence.
        axes: the dimensions; a bucket's number is that of its coordinates, the last axis varying fastest.
        coordinates: for each stream, its way to a coordinate on each axis.

    """

    kind: Kind
    buckets: int
    reason: str
    axes: tuple[Axis, ...]
    coordinates: tuple[tuple[Coordinate, ...], ...]

    def known(self, stream: int) -> tuple[Coordinate, ...]:
        """The coordinates of which :meth:`route` needs hashes, in its order."""
        return tuple(c for c in self.coordinates[stream] if c.kind != "all")

    def copies(self, stream: int) -> int:
        """How many buckets each tuple of a stream goes to."""
        pairs = zip(self.axes, self.coordinates[stream], strict=True)
        return math.prod(axis.share for axis, coordinate in pairs if coordinate.kind == "all")

    def is_first_copy(self, stream: int, bucket: int) -> bool:
        """Whether tuples of a stream that reach this bucket have no copy in one with a lesser number."""
        stride = self.buckets
        for axis, coordinate in zip(self.axes, self.coordinates[stream], strict=True):
            stride //= axis.share
            if coordinate.kind == "all" and bucket // stride % axis.share:
                return False
        return True

    def route(self, stream: int, hashes: Sequence[Int64s], count: int) -> tuple[Int64s, Int32s]:
        """The buckets of ``count`` rows of a stream: pairs of row number and bucket number.

        ``hashes`` are well mixed 64-bit hashes, one array for each of :meth:`known`. Within a bucket the
        rows keep their order.
        """
        needed = len(self.known(stream))
        if len(hashes) != needed or any(h.shape != (count,) or h.dtype != np.int64 for h in hashes):
            given = ", ".join(f"{h.dtype}{list(h.shape)}" for h in hashes) or "none"
            raise PlanError(f"stream {stream} is routed by {needed} arrays of {count} 64-bit hashes, not by: {given}")
        own = np.zeros(count, np.int32)
        copies = np.zeros(1, np.int32)
        given_hashes, stride = list(hashes), self.buckets
        for axis, coordinate in zip(self.axes, self.coordinates[stream], strict=True):
            stride //= axis.share
            if coordinate.kind == "all":
                copies = np.add.outer(copies, np.arange(axis.share, dtype=np.int32) * np.int32(stride)).ravel()
            else:
                _add_coordinates(own, given_hashes.pop(0), axis.share, stride)
        rows = np.arange(count, dtype=np.int64)
        if len(copies) == 1:
            return rows, own
        return np.tile(rows, len(copies)), np.add.outer(copies, own).ravel()


def _add_coordinates(buckets: Int32s, hashes: Int64s, share: int, stride: int) -> None:
    """Scale the upper 32 bits of each hash to ``0 .. share - 1``, and add ``stride`` times that to its bucket."""
    for start in range(0, len(hashes), BLOCK):
        bits = hashes[start : start + BLOCK].view(np.uint64) >> np.uint64(32)
        bits *= np.uint64(share)
        bits >>= np.uint64(32)
        bits *= np.uint64(stride)
        buckets[start : start + BLOCK] += bits.astype(np.int32)
