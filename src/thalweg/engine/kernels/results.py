"""A set of results, known by the rows that they are made of: duplicate elimination by hashing."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from thalweg.engine.kernels.compiled import Int64s, jit

# A slot of the table; then a row per stream. A result has its time in the place of the first.
TAKEN, EXPIRY, ROWS = 0, 1, 2
LOW = 0x7FFFFFFF


@jit
def _place(table: Int64s, results: Int64s, i: int) -> int:
    """The slot of a result, or the free one where it would go."""
    mask = table.shape[0] - 1
    hashed = 0
    for column in range(ROWS, results.shape[1]):
        hashed = ((hashed & LOW) * 0x5D588B65) ^ ((results[i, column] & LOW) * 0x1E3779B1)
        hashed ^= hashed >> 29
    slot = hashed & mask
    while table[slot, TAKEN] == 1:
        same = True
        for column in range(ROWS, results.shape[1]):
            if table[slot, column] != results[i, column]:
                same = False
                break
        if same:
            break
        slot = (slot + 1) & mask
    return slot


@jit
def admit(table: Int64s, count: int, results: Int64s, start: int, is_new: NDArray[np.bool_]) -> tuple[int, int]:
    """Put results into the table until it is half full; (where it stopped, how many the table has).

    Args:
        table: [slot, (taken, expiry, row per stream)], its length a power of two.
        count: how many slots of it are taken.
        results: [result, (time, expiry, row per stream)].
        start: the first of them to look at.
        is_new: set to whether the table did not have the result.

    """
    for i in range(start, results.shape[0]):
        if 2 * (count + 1) > table.shape[0]:
            return i, count
        slot = _place(table, results, i)
        is_new[i] = table[slot, TAKEN] == 0
        if is_new[i]:
            table[slot, TAKEN] = 1
            table[slot, EXPIRY] = results[i, EXPIRY]
            for column in range(ROWS, results.shape[1]):
                table[slot, column] = results[i, column]
            count += 1
    return results.shape[0], count


@jit
def move(table: Int64s, into: Int64s, watermark: int) -> int:
    """Put what has not expired into another table that has room for it; returns how much that is."""
    count = 0
    for i in range(table.shape[0]):
        if table[i, TAKEN] == 1 and table[i, EXPIRY] > watermark:
            slot = _place(into, table, i)
            for column in range(table.shape[1]):
                into[slot, column] = table[i, column]
            count += 1
    return count
