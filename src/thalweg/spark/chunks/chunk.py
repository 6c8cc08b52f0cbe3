"""A chunk of the log, and its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pyarrow as pa

from thalweg.cql.query import StreamRef
from thalweg.engine.kernels.compiled import Int64s
from thalweg.engine.time_bounds import NEVER
from thalweg.spark.packing import event_times, time_column

Place = tuple[int, int]
"""Where a bundle lies: its batch, and the stream that is its home."""
_NUMBER = "__thalweg_number"

_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class Chunk:
    """A chunk of the log.

    Attributes:
        batch: the last one that rows are of.
        stream: theirs.
        rows: how many are in the log.
        first, end: of a ROWS window, the least of the numbers of its rows, and one past the greatest. The rows of such
            a stream are numbered as they come.
        newest: the newest event time.
        watermark: that of the end of the batch.
        home: which bundle of the batch it is in: that of this stream.
        span: how many batches were merged.

    """

    batch: int
    stream: int
    rows: int
    first: int
    end: int
    newest: int
    watermark: int
    home: int
    span: int = 1

    @property
    def place(self) -> Place:
        """The bundle that it is in; its chunks lie there in the order of their streams."""
        return self.batch, self.home


def times_of(ref: StreamRef, table: pa.Table) -> Int64s:
    """The event times of rows of a stream; those of a static relation were there before everything."""
    times: Int64s = packed_times(ref, table).to_numpy()
    return times


def packed_times(ref: StreamRef, table: pa.Table) -> pa.ChunkedArray:
    """The same, NULL where a row has none."""
    if ref.time is None:
        return pa.chunked_array([np.full(table.num_rows, NEVER, np.int64)])
    return event_times(table, time_column(ref.time, ref.schema.field(ref.time).type))


def plain(table: pa.Table) -> pa.Table:
    """A chunk's rows as they came, without their numbers."""
    return table.drop_columns(_NUMBER) if _NUMBER in table.column_names else table


def numbered(chunk: Chunk, table: pa.Table) -> pa.Table:
    """The rows of a chunk of a ROWS window with their numbers, in the last column."""
    return with_numbers(plain(table), numbers_of(chunk, table))


def with_numbers(table: pa.Table, numbers: Int64s) -> pa.Table:
    """Rows with numbers in a further column."""
    return table.append_column(_NUMBER, pa.array(numbers))


def placed(values: Sequence[_Value], places: Sequence[int]) -> list[_Value]:
    """Values of streams in the order of their new positions.

    >>> placed("abc", [2, 0, 1])
    ['b', 'c', 'a']
    """
    return [value for _, value in sorted(zip(places, values, strict=True), key=lambda pair: pair[0])]


def with_common_columns(tables: Sequence[pa.Table]) -> list[pa.Table]:
    """Rows of one stream with the columns that all of them have: queries that ran before may have carried others."""
    first, *others = (table.schema for table in tables)
    names = [field.name for field in first if all(_has(schema, field) for schema in others)]
    return [table.select(names) for table in tables]


def _has(schema: pa.Schema, field: pa.Field) -> bool:
    return field.name in schema.names and schema.field(field.name).type == field.type


def numbers_of(chunk: Chunk, table: pa.Table) -> Int64s:
    """The numbers of the rows of a ROWS window: without gaps, or as they were noted when some had left."""
    if _NUMBER in table.column_names:
        numbers: Int64s = table.column(_NUMBER).to_numpy()
        return numbers
    return np.arange(chunk.first, chunk.end)
