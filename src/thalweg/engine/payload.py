"""The columns of the tuples that windows hold, in Arrow, found by row number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thalweg.engine.kernels.join import Int64s
from thalweg.errors import InputError


class Rows(Protocol):
    """Rows that can be found by number."""

    def append(self, table: pa.Table) -> Int64s:
        """Keep further rows; returns their numbers."""

    def take(self, column: str, rows: Int64s) -> pa.Array:
        """The values of a column in these rows."""

    def forget(self, before: int) -> None:
        """Rows numbered below ``before`` will not be asked for again."""


class Payload:
    """Rows of one stream, numbered in the order of arrival; old ones can be forgotten.

    Only the columns that results need are kept.
    """

    def __init__(self, schema: pa.Schema, columns: Sequence[str]) -> None:
        self._columns = list(columns)
        self._table: pa.Table = schema.empty_table().select(self._columns)
        self._first = 0
        self._count = 0

    @property
    def next_row(self) -> int:
        """The number that the next row will get."""
        return self._first + self._count

    def append(self, table: pa.Table) -> Int64s:
        """Keep rows; returns their numbers."""
        rows = np.arange(self.next_row, self.next_row + table.num_rows)
        self._table = pa.concat_tables([self._table, table.select(self._columns)])
        self._count += table.num_rows
        return rows

    def forget(self, before: int) -> None:
        """Let go of rows numbered below ``before``, once they are most of what is held."""
        stale = min(before, self.next_row) - self._first
        if 2 * stale > self._count:
            # Taken, not sliced: a slice would hold on to the memory of all.
            self._table = self._table.take(pa.array(np.arange(stale, self._count)))
            self._first += stale
            self._count -= stale

    def take(self, column: str, rows: Int64s) -> pa.Array:
        """The values of a column in these rows."""
        held = self._table.column(column)
        if held.num_chunks != 1:
            self._table = self._table.combine_chunks()
            held = self._table.column(column)
        if not self._count:
            return pa.array([], held.type)
        return held.chunk(0).take(pa.array(rows - self._first))


class TablePayload:
    """Rows of a table that is there as a whole, numbered as they stand in it."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table
        self._columns: dict[str, pa.Array] = {}

    def append(self, table: pa.Table) -> Int64s:
        raise InputError(f"these streams are complete; {table.num_rows} more rows cannot be added")

    def take(self, column: str, rows: Int64s) -> pa.Array:
        """The values of a column in these rows."""
        if column not in self._columns:
            self._columns[column] = self._table.column(column).combine_chunks()
        return pc.take(self._columns[column], pa.array(rows), boundscheck=False)

    def forget(self, before: int) -> None:
        """Nothing to let go of: the table belongs to the caller."""
