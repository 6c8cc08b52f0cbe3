"""The columns of the tuples that windows hold, in Arrow, found by row number."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thalweg.engine.kernels.compiled import Int64s
from thalweg.engine.storage.image_files import is_kept_in, new_part
from thalweg.errors import InputError

_NUMBER = "__thalweg_number"
_SMALL_CHUNK = 1 << 16
"""Rows that are worth merging however few are held: copying them takes about a millisecond."""
_LARGE_CHUNKS = 8
"""A merged chunk is at most this part of what is held: chunks are forgotten as a whole."""
_WORTH_UNITING = 2
"""Chunks with at most so many rows for each that is asked for are united first: that costs less than to ask each."""
_MOST_BYTES = 1 << 30
"""Of a column that is united: far below the 2 GiB of text that Arrow can have in one array."""


class Rows(Protocol):
    """Rows that can be found by number."""

    def append(self, table: pa.Table, numbers: Int64s | None = None) -> Int64s:
        """Keep further rows; returns their numbers: the next ones, or those given."""

    def load(self, tables: Sequence[pa.Table]) -> list[Int64s]:
        """Keep the rows of these tables, as the first ones; returns the numbers of those of each."""

    def take(self, column: str, rows: Int64s) -> pa.Array:
        """The values of a column in these rows."""

    def is_due(self, held: int) -> bool:
        """Whether so much more is kept than these many rows that :meth:`retain` is worth its while."""

    def retain(self, rows: Int64s) -> None:
        """Only these rows will be asked for again."""


class _Chunk:
    """Rows in one piece: in memory, or in a file that is read when they are first asked for.

    The file is mapped from the beginning, so what is in it can be read also if someone deletes it.

    They are numbered from ``first`` on without gaps, or else each of them by the column ``_NUMBER``, in rising order.
    """

    def __init__(
        self, first: int, end: int, count: int, table: pa.Table | None = None, path: Path | None = None
    ) -> None:
        self.first = first
        self.end = end
        self.count = count
        self.path = path
        self._table = table
        self._mapped = None if path is None else _mapped(path)

    @property
    def numbers(self) -> Int64s:
        if self.count == self.end - self.first:
            return np.arange(self.first, self.end)
        numbers: Int64s = self.table.column(_NUMBER).to_numpy()
        return numbers

    def places(self, rows: Int64s) -> Int64s:
        """Where rows with these numbers are."""
        if self.count == self.end - self.first:
            return rows - self.first
        return np.searchsorted(self.numbers, rows)

    @property
    def table(self) -> pa.Table:
        if self._table is None:
            self._table = pa.ipc.open_file(self._mapped).read_all()
        return self._table

    def only(self, rows: Int64s) -> _Chunk:
        """These of its rows."""
        table = self.table.take(pa.array(self.places(rows)))
        if _NUMBER not in table.column_names:
            table = table.append_column(_NUMBER, pa.array(rows))
        return _Chunk(int(rows[0]), int(rows[-1]) + 1, len(rows), table)

    def keep_in(self, directory: Path) -> None:
        """Have a file in this directory, and let it serve in the place of memory."""
        if is_kept_in(directory, self.path):
            return
        path = new_part(directory)
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, self.table.schema) as writer:
            writer.write_table(self.table)
        self._mapped = _mapped(path)
        self.path, self._table = path, None


class Payload:
    """Rows of one stream, numbered in the order of arrival; old ones can be forgotten.

    Only the columns that results need are kept. Rows stay in the chunks in which they came, so that
    nothing is copied for the sake of what is already there; chunks of a kind of size are merged as in a
    binary counter, so a row is copied a logarithmic number of times, and there are few chunks to look into.
    Chunks go when all their rows are done with. Where that leaves too much (one silent partition of a ROWS window
    holds on to the rows that came with its own), what is needed is moved together.
    """

    __image__: ClassVar = ("_next", "_files")

    def __init__(self, schema: pa.Schema, columns: Sequence[str]) -> None:
        self._schema: pa.Schema = _decoded(schema.empty_table().select(list(columns))).schema
        self._chunks: list[_Chunk] = []
        self._firsts = np.zeros(0, np.int64)
        self._next = 0

    def append(self, table: pa.Table, numbers: Int64s | None = None) -> Int64s:
        """Keep rows; returns their numbers."""
        count = table.num_rows
        rows = np.arange(self._next, self._next + count) if numbers is None else numbers
        if not count:
            return rows
        first, self._next = int(rows[0]), int(rows[-1]) + 1
        if len(self._schema):
            new = self._needed(table).combine_chunks()
            if self._next - first != count:
                new = new.append_column(_NUMBER, pa.array(rows))
            self._place([*self._chunks, _Chunk(first, self._next, count, new)])
            self._merge()
        return rows

    def load(self, tables: Sequence[pa.Table]) -> list[Int64s]:
        """Keep rows in the pieces in which they were kept before: nothing is copied."""
        numbers = []
        filled: list[_Chunk] = []
        for table in tables:
            start = self._next
            if len(self._schema):
                for piece in self._needed(table).to_batches():
                    first, self._next = self._next, self._next + piece.num_rows
                    filled.append(_Chunk(first, self._next, piece.num_rows, pa.Table.from_batches([piece])))
            self._next = start + table.num_rows
            numbers.append(np.arange(start, self._next))
        self._place(filled)
        return numbers

    def _needed(self, table: pa.Table) -> pa.Table:
        return _decoded(table.select(self._schema.names))

    def is_due(self, held: int) -> bool:
        """Whether a good part of what is kept may be done with, if ``held`` rows are needed."""
        return self._count() > _tolerable(held) + _SMALL_CHUNK

    def retain(self, rows: Int64s) -> None:
        """Let go of chunks with none of these rows; if too much of the rest is done with, keep these rows alone."""
        rows = np.unique(rows)
        ends = [(chunk, *np.searchsorted(rows, [chunk.first, chunk.end])) for chunk in self._chunks]
        needed = [(chunk, rows[start:end]) for chunk, start, end in ends if start < end]
        self._place([chunk for chunk, _ in needed])
        if self._count() > _tolerable(len(rows)):
            self._place([self._merged([chunk.only(mine) for chunk, mine in needed])])

    def _count(self) -> int:
        return sum(chunk.count for chunk in self._chunks)

    def take(self, column: str, rows: Int64s) -> pa.Array:
        """The values of a column in these rows; of a dictionary column, what its codes stand for."""
        if not len(rows):
            return pa.array([], self._schema.field(column).type)
        oldest, newest = np.searchsorted(self._firsts, [rows.min(), rows.max()], side="right").tolist()
        chunks = self._chunks[oldest - 1 : newest]
        if len(chunks) == 1:
            return _gather(chunks[0], column, rows)
        size = sum(chunk.table.column(column).nbytes for chunk in chunks)
        if size <= _MOST_BYTES and sum(chunk.count for chunk in chunks) <= _WORTH_UNITING * len(rows):
            return _gather(self._merged(chunks, [column]), column, rows)
        return self._scattered(column, rows)

    def _scattered(self, column: str, rows: Int64s) -> pa.Array:
        """Few rows of many: those of one chunk after the other, and then back in order."""
        places = np.searchsorted(self._firsts, rows, side="right") - 1
        order = np.argsort(places.astype(np.int16), kind="stable")  # 16 bits are sorted in linear time
        rows, places = rows[order], places[order]
        starts = np.flatnonzero(np.diff(places, prepend=places[0] - 1))
        ends = [*starts[1:].tolist(), len(rows)]
        parts = [
            _gather(self._chunks[places[start]], column, rows[start:end])
            for start, end in zip(starts, ends, strict=True)
        ]
        back = np.empty(len(rows), np.int64)
        back[order] = np.arange(len(rows))
        return pa.concat_arrays(parts).take(pa.array(back))

    def keep_in(self, directory: Path) -> None:
        """Have every chunk in a file of this directory; those that are there already cost nothing."""
        for chunk in self._chunks:
            chunk.keep_in(directory)

    def _place(self, chunks: list[_Chunk]) -> None:
        self._chunks = chunks
        self._firsts = np.array([chunk.first for chunk in chunks], np.int64)

    def _merge(self) -> None:
        """Merge the newest chunks while none of them is more than twice as large as those after it together."""
        limit = max(_SMALL_CHUNK, self._count() // _LARGE_CHUNKS)
        start = len(self._chunks) - 1
        count = self._chunks[start].count
        while start and (older := self._chunks[start - 1].count) < 2 * count and older + count <= limit:
            start -= 1
            count += older
        if start < len(self._chunks) - 1:
            self._place([*self._chunks[:start], self._merged(self._chunks[start:])])

    def _merged(self, chunks: Sequence[_Chunk], columns: Sequence[str] | None = None) -> _Chunk:
        """Chunks in one piece: all columns, or these."""
        first, end, count = chunks[0].first, chunks[-1].end, sum(chunk.count for chunk in chunks)
        names = self._schema.names if columns is None else columns
        table = pa.concat_tables([chunk.table.select(names) for chunk in chunks]).combine_chunks()
        if count < end - first:
            table = table.append_column(_NUMBER, pa.array(np.concatenate([chunk.numbers for chunk in chunks])))
        return _Chunk(first, end, count, table)

    @property
    def _files(self) -> list[tuple[int, int, int, Path | None]]:
        return [(chunk.first, chunk.end, chunk.count, chunk.path) for chunk in self._chunks]

    @_files.setter
    def _files(self, files: Sequence[tuple[int, int, int, Path]]) -> None:
        mapped = {chunk.path: chunk for chunk in self._chunks if chunk.path is not None}
        self._place([mapped.get(file[-1]) or _Chunk(*file[:-1], path=file[-1]) for file in files])


def _mapped(path: Path) -> pa.Buffer:
    """The bytes of a file, which need no open file."""
    with pa.memory_map(str(path)) as source:
        return source.read_buffer()


def _gather(chunk: _Chunk, column: str, rows: Int64s) -> pa.Array:
    held, places = chunk.table.column(column), pa.array(chunk.places(rows))
    # Arrow leaves a column in several arrays if its texts are too long for one.
    return held.chunk(0).take(places) if held.num_chunks == 1 else held.take(places).combine_chunks()


def _tolerable(held: int) -> int:
    """How many rows may be kept where so many are needed."""
    return held + held // 2 + _SMALL_CHUNK


def _decoded(table: pa.Table) -> pa.Table:
    """Dictionaries as what they stand for: Arrow cannot always unite those of several tables."""
    for position, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            table = table.set_column(position, field.name, table.column(position).cast(field.type.value_type))
    return table


class TablePayload:
    """Rows of a table that is there as a whole, numbered as they stand in it."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table
        self._columns: dict[str, pa.Array] = {}

    def append(self, table: pa.Table, numbers: Int64s | None = None) -> Int64s:  # noqa: ARG002 - there are none
        raise InputError(f"these streams are complete; {table.num_rows} more rows cannot be added")

    def load(self, tables: Sequence[pa.Table]) -> list[Int64s]:
        raise InputError(f"these streams are complete; {len(tables)} more tables cannot be added")

    def take(self, column: str, rows: Int64s) -> pa.Array:
        """The values of a column in these rows."""
        if column not in self._columns:
            self._columns[column] = self._table.column(column).combine_chunks()
        return pc.take(self._columns[column], pa.array(rows), boundscheck=False)

    def is_due(self, held: int) -> bool:  # noqa: ARG002 - nothing to let go of: the table belongs to the caller
        return False

    def retain(self, rows: Int64s) -> None:
        """Nothing to let go of."""
