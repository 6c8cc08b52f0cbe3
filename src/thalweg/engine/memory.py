"""The engine's memory: one int64 array in regions.

Everything of a join that lasts lies in one array, so that kernels take one argument
whatever the query, and so that a whole engine can be saved, mapped or shipped as a
single flat thing.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from thalweg.engine.kernels.join import Float64s, Int64s


class Memory:
    """Words handed out in regions; a freed region serves the next request of its size.

    Stores grow by doubling, so what one of them has outgrown adds up to no more than what it uses.
    """

    def __init__(self, words: int = 1 << 12) -> None:
        self.words: Int64s = np.zeros(words, np.int64)
        self._used = 0
        self._free: defaultdict[int, list[int]] = defaultdict(list)

    @property
    def floats(self) -> Float64s:
        """The same bytes, read as float64."""
        return self.words.view(np.float64)

    def allocate(self, size: int, fill: int = 0) -> int:
        """The first word of a region of ``size`` words, each set to ``fill``."""
        if self._free[size]:
            start = self._free[size].pop()
        else:
            start = self._used
            self._used += size
            if self._used > len(self.words):
                grown = np.zeros(max(2 * len(self.words), self._used), np.int64)
                grown[:start] = self.words[:start]
                self.words = grown
        self.words[start : start + size] = fill
        return start

    def free(self, start: int, size: int) -> None:
        self._free[size].append(start)
