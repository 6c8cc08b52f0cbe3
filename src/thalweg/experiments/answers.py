"""Whether two answers are the same multiset of rows: exactly, or by a fingerprint that costs a glance."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thalweg.errors import ThalwegError

Ids = NDArray[np.integer]
"""Ids of results: one row per stream, one column per result."""


class Fingerprint(NamedTuple):
    """The number of rows and two independent 64-bit sums over them; their order leaves no trace."""

    rows: int
    first: int
    second: int

    def joined(self, other: Fingerprint) -> Fingerprint:
        """The fingerprint of both multisets together."""
        return Fingerprint(self.rows + other.rows, *((a + b) % 2**64 for a, b in zip(self[1:], other[1:], strict=True)))


NOTHING = Fingerprint(0, 0, 0)
"""The fingerprint of no rows."""


def ids_of(answer: pa.Table) -> Ids:
    """The id columns of an answer.

    >>> ids_of(pa.table({"id1": [4, 5], "id2": [6, 7]}))
    array([[4, 5],
           [6, 7]])
    """
    return np.stack([column.to_numpy() for column in answer.columns])


def fingerprint(ids: Ids) -> Fingerprint:
    """The fingerprint of a multiset of rows.

    >>> fingerprint(np.array([[1, 2], [3, 4]])) == fingerprint(np.array([[2, 1], [4, 3]]))
    True
    >>> fingerprint(np.array([[1, 2], [3, 4]])) == fingerprint(np.array([[1, 2], [4, 3]]))
    False
    """
    sums = [int(_hash_rows(ids, seed).sum(dtype=np.uint64)) for seed in _SEEDS]
    return Fingerprint(ids.shape[1], *sums)


def check_same(expected: Ids, found: Ids, names: tuple[str, str]) -> None:
    """Raise unless both have the same rows, compared one by one after sorting."""
    if expected.shape != found.shape:
        raise ThalwegError(f"{names[0]} has {expected.shape[1]} results, {names[1]} has {found.shape[1]}")
    differing = np.flatnonzero((_sorted(expected) != _sorted(found)).any(axis=0))
    if len(differing):
        row = int(differing[0])
        raise ThalwegError(
            f"{names[0]} and {names[1]} differ in {len(differing)} of {expected.shape[1]} results, first in row {row} "
            f"of the sorted answers: {_sorted(expected)[:, row].tolist()} against {_sorted(found)[:, row].tolist()}"
        )


def check_fingerprints(expected: Fingerprint, found: Fingerprint, names: tuple[str, str]) -> None:
    """Raise unless both fingerprints agree."""
    if expected != found:
        raise ThalwegError(
            f"{names[0]} and {names[1]} answer differently: {expected.rows} and {found.rows} results"
            + (", other rows" if expected.rows == found.rows else "")
        )


def check_distinct(ids: Ids) -> None:
    """Raise if a row is there twice.

    >>> check_distinct(np.array([[1, 2, 1], [3, 4, 4]]))
    """
    hashes = np.sort(_hash_rows(ids, _SEEDS[0]))
    again = int((hashes[1:] == hashes[:-1]).sum())
    if again:
        raise ThalwegError(f"{again} of {ids.shape[1]} results were found twice")


_SEEDS = (0x243F6A8885A308D3, 0x13198A2E03707344)
_ODD = 0x9E3779B97F4A7C15
_MIX = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)


def _hash_rows(ids: Ids, seed: int) -> NDArray[np.uint64]:
    """A 64-bit hash per row: the finalizer of splitmix64 after every column."""
    hashes = np.full(ids.shape[1], seed, dtype=np.uint64)
    for column in ids:
        hashes = hashes * np.uint64(_ODD) + column.astype(np.uint64)
        hashes = (hashes ^ (hashes >> np.uint64(30))) * np.uint64(_MIX[0])
        hashes = (hashes ^ (hashes >> np.uint64(27))) * np.uint64(_MIX[1])
        hashes ^= hashes >> np.uint64(31)
    return hashes


def _sorted(ids: Ids) -> Ids:
    order = np.lexsort(ids[::-1])
    return ids[:, order]
