"""Kernels look words up by unsigned integers, and say so if they are asked to count from the end."""

from __future__ import annotations

import numpy as np
import pytest
from numba.core.errors import UnsupportedError

from thalweg.engine.kernels.compiled import Int64s, jit

LAST = -1


@jit
def _touch(words: Int64s, table: Int64s, at: int) -> int:
    words[at] += 1
    row = table[at]
    row[0], table[at, 1] = words[at], at
    return row[0] + table[at][1] + words[1:][at - 1] + table[at - 1 :, 2].sum()


@jit
def _last_of_row(table: Int64s, row: int) -> int:
    return table[row, LAST]


def test_words_are_read_and_written_as_in_python() -> None:
    told = []
    for touch in (_touch, _touch.py_func):  # type: ignore[attr-defined] # numba's
        words, table = np.arange(5), np.arange(15).reshape(5, 3)
        told.append((touch(words, table, 2), words.tolist(), table.tolist()))
    assert told[0] == told[1]


def test_a_kernel_that_counts_from_the_end_is_not_compiled() -> None:
    with pytest.raises(UnsupportedError, match="do not count from the end of an array, as by -1"):
        _last_of_row(np.arange(6).reshape(2, 3), 1)
