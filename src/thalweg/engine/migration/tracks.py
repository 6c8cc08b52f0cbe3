"""What plans that run side by side consist of, and what they have in common."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from thalweg.engine.join.engine import JoinEngine
from thalweg.engine.kernels.compiled import Int64s
from thalweg.engine.kernels.tables import ROW


class Track:
    """An engine, and the number of the first tuple of each stream that it got."""

    __image__: ClassVar = ("engine", "starts")

    def __init__(self, engine: JoinEngine, starts: Int64s) -> None:
        self.engine = engine
        self.starts = starts


class Numbers:
    """The tuples of a stream, numbered as they arrive, with their rows."""

    __image__: ClassVar = ("_rows", "_first")

    def __init__(self) -> None:
        self._rows = np.zeros(0, np.int64)
        self._first = 0

    @property
    def next(self) -> int:
        return self._first + len(self._rows)

    def add(self, words: Int64s) -> Int64s:
        """The same new tuples with numbers for rows."""
        numbered = words.copy()
        numbered[:, ROW] = np.arange(self.next, self.next + len(words))
        self._rows = np.concatenate([self._rows, words[:, ROW]])
        return numbered

    def rows(self, numbers: Int64s) -> Int64s:
        """The rows of tuples."""
        rows: Int64s = self._rows[numbers - self._first]
        return rows

    def forget(self, before: int) -> None:
        """No tuple with a lesser number will be asked for."""
        self._rows = self._rows[before - self._first :].copy()
        self._first = before
