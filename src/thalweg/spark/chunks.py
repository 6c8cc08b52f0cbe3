"""The log of a bucket: the rows of its base windows, in chunks.

Design
    A chunk is what one batch brought of one stream. Chunks whose rows have all left their windows are dropped. Others
    are merged, eight batches into one, and eight of those, so that their number grows with the logarithm of the batches
    that a window reaches over. Rows that have left are not merged. A merged batch is as good as those it was made of,
    because the answer does not depend on how the input was cut into batches.

    Reading and writing go through Spark one value at a time, at about a millisecond each. So chunks of one batch lie
    together, in one *bundle*, if their streams have the same RANGE window: they come and go together. (Of streams with
    other windows, one could hold on to the many rows of another.) A bundle is one value, or several *pieces* if it is
    large: Spark copies a value several times on its way, and cannot send one of two gigabytes at all.

Invariant
    What is put and dropped is a function of the log as it was committed and of the batch's rows. It does not depend on
    which engine ran the batch: one that lived on, or one that was built anew. So two attempts at a batch write the same
    keys and the same bytes. What is read back is verified: the checksum of every piece, the rows of every chunk.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from itertools import groupby
from typing import Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from thalweg.cql.query import Query, RangeWindow, StreamRef
from thalweg.engine.bucket import AnyBucket
from thalweg.engine.kernels.compiled import Int64s
from thalweg.engine.time_bounds import NEVER
from thalweg.errors import CheckpointError
from thalweg.spark.packing import bundle, event_times, in_parts, time_column, unbundle

_MERGED = 8
"""How many batches are merged into one."""
_SMALL = 1 << 16
"""Rows that are worth merging however few there are in all."""
_LARGE = 8
"""A merged chunk has at most this part of the rows in the log: it goes as a whole."""
_PIECE_BYTES = 1 << 25
"""How large a piece is at most, unless a single row is larger. Batches that are merged have no more in all: merging
more would copy much and save few values."""
_PIECES = 1 << 16
"""Pieces that a bundle may have: a number in the log is that of the bundle's home times this, plus the piece's."""
_COMPRESSION = "zstd"
"""Spark moves 30 to 50 MB/s between a worker and its state store. zstd compresses several times faster than that."""
_NUMBER = "__thalweg_number"

_Value = TypeVar("_Value")


class Log(Protocol):
    """Where pieces are kept; written and read within one transaction with the record."""

    def put(self, batch: int, number: int, body: bytes) -> None:
        """Keep a piece of what a batch brought."""

    def get(self, batch: int, number: int) -> bytes | None:
        """What was put; None if there is nothing."""

    def drop(self, batch: int, number: int) -> None:
        """Forget a piece."""


class Rows(Protocol):
    """What becomes of the rows of a log."""

    def rows(self, stream: int, chunk: Chunk, table: pa.Table) -> pa.Table:
        """What is left of a chunk, whose stream has this position now; the very table if that is all of it."""


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
    def place(self) -> tuple[int, int]:
        """The bundle that it is in; its chunks lie there in the order of their streams."""
        return self.batch, self.home


@dataclass(frozen=True, slots=True)
class Piece:
    """A value of the log: how many bytes it has, and their checksum."""

    size: int
    checksum: int

    @staticmethod
    def of(body: bytes) -> Piece:
        return Piece(len(body), zlib.crc32(body))


class Chunks:
    """What is in the log of a bucket."""

    def __init__(self, query: Query) -> None:
        self._streams = query.streams
        self._homes = [_home(query, stream) for stream in range(len(query.streams))]
        self._chunks: list[Chunk] = []
        self._bundles: dict[tuple[int, int], tuple[Piece, ...]] = {}
        self._numbers = [0] * len(query.streams)
        self._held = [0] * len(query.streams)

    def __len__(self) -> int:
        return len(self._chunks)

    # -- Reading --------------------------------------------------------------------------

    def read(self, log: Log) -> Iterator[tuple[Chunk, pa.Table]]:
        """The chunks with their rows, batch by batch, as few at a time as lie together."""
        for _, group in groupby(self._chunks, key=lambda chunk: chunk.batch):
            batch = list(group)
            for place in dict.fromkeys(chunk.place for chunk in batch):
                yield from self._unpacked([chunk for chunk in batch if chunk.place == place], log)

    def numbers(self, chunk: Chunk, table: pa.Table) -> Int64s | None:
        """The numbers that the rows of a chunk have had since they came; None: their window counts no rows."""
        return _numbers(chunk, table) if self._counts_rows(chunk.stream) else None

    def next_numbers(self, stream: int, rows: int) -> Int64s | None:
        """The numbers that the next rows of a stream get; None: its window counts no rows."""
        first = self._numbers[stream]
        return np.arange(first, first + rows) if self._counts_rows(stream) else None

    def _unpacked(self, chunks: Sequence[Chunk], log: Log) -> Iterator[tuple[Chunk, pa.Table]]:
        """The rows of these chunks, which are all those of one bundle."""
        place = chunks[0].place
        slices = (table for number in range(len(self._bundles[place])) for table in self._piece(place, number, log))
        for chunk in sorted(chunks, key=lambda chunk: chunk.stream):
            parts: list[pa.Table] = []
            rows = 0
            while rows < chunk.rows and (part := next(slices, None)) is not None:
                parts.append(part)
                rows += part.num_rows
            if rows != chunk.rows:
                what = f"{rows} rows of stream {chunk.stream}, and {chunk.rows} were put there"
                raise _damaged(chunk.batch, what)
            yield chunk, pa.concat_tables(parts)

    def _piece(self, place: tuple[int, int], number: int, log: Log) -> list[pa.Table]:
        """The tables of one value of the log."""
        batch, home = place
        known = self._bundles[place][number]
        body = log.get(batch, _key(home, number))
        if body is None:
            raise _damaged(batch, f"no piece {number} of the rows of stream {home}, which has {known.size} bytes")
        if Piece.of(body) != known:
            what = f"{len(body)} bytes of stream {home} that are not the {known.size} bytes which were put there"
            raise _damaged(batch, what)
        return unbundle(body)

    # -- Writing --------------------------------------------------------------------------

    def add(self, batch: int, tables: Mapping[int, pa.Table], watermark: int, log: Log) -> None:
        """Put into the log what is still needed of rows that the bucket has just taken."""
        needed = {}
        for stream, table in sorted(tables.items()):
            first = end = 0
            if self._counts_rows(stream):
                first, end = self._numbers[stream], self._numbers[stream] + table.num_rows
                self._numbers[stream] = end
            alive = self._in_time(stream, table, watermark)
            if alive.num_rows:
                newest = int(times_of(self._streams[stream], alive).max())
                home = self._homes[stream]
                chunk = Chunk(batch, stream, alive.num_rows, first, end, newest, watermark, home)
                needed[chunk] = alive
        self._put(needed, log)
        self._chunks += needed

    def _put(self, needed: Mapping[Chunk, pa.Table], log: Log) -> None:
        """Write chunks, which are in the order of their streams, in their bundles."""
        for place in dict.fromkeys(chunk.place for chunk in needed):
            batch, home = place
            pieces: list[Piece] = []
            for body in _bodies(table for chunk, table in needed.items() if chunk.place == place):
                log.put(batch, _key(home, len(pieces)), body)
                pieces.append(Piece.of(body))
            self._bundles[place] = tuple(pieces)

    def _drop(self, place: tuple[int, int], log: Log) -> None:
        batch, home = place
        for number in range(len(self._bundles.pop(place))):
            log.drop(batch, _key(home, number))

    def tidy(self, bucket: AnyBucket, watermark: int, log: Log) -> None:
        """Drop the chunks whose rows have all left their windows, and merge batches."""
        held = self._held_rows(bucket)
        left = {}
        for chunk in self._chunks:
            rows = chunk.rows if self._may_be_needed(chunk, watermark) else 0
            if rows and chunk.stream in held:
                first, end = np.searchsorted(held[chunk.stream], [chunk.first, chunk.end])
                rows = int(end - first)
            left[chunk] = rows
        kept = {chunk.place for chunk, rows in left.items() if rows}
        for place in [place for place in self._bundles if place not in kept]:
            self._drop(place, log)
        self._chunks = [chunk for chunk in self._chunks if chunk.place in kept]
        while run := self._run(left):
            self._merge(run, bucket, watermark, log)

    def _held_rows(self, bucket: AnyBucket) -> dict[int, Int64s]:
        """The numbers of the rows in those ROWS windows that have far fewer of them than the log."""
        logged = [0] * len(self._streams)
        for chunk in self._chunks:
            logged[chunk.stream] += chunk.rows
        overgrown = [s for s, rows in enumerate(logged) if rows > 2 * self._held[s] + _SMALL and self._counts_rows(s)]
        held = {stream: np.unique(bucket.rows(stream)) for stream in overgrown}
        for stream, rows in held.items():
            self._held[stream] = len(rows)
        return held

    def _counts_rows(self, stream: int) -> bool:
        return not isinstance(self._streams[stream].window, RangeWindow)

    def _may_be_needed(self, chunk: Chunk, watermark: int) -> bool:
        window = self._streams[chunk.stream].window
        # A result that leaves at the watermark itself has not been said to leave.
        return (
            not isinstance(window, RangeWindow)
            or window.width_us is None
            or chunk.newest + window.width_us >= watermark
        )

    def _in_time(self, stream: int, table: pa.Table, watermark: int) -> pa.Table:
        """The rows that have not left a RANGE window."""
        window = self._streams[stream].window
        if not isinstance(window, RangeWindow) or window.width_us is None:
            return table
        alive = times_of(self._streams[stream], table) >= watermark - window.width_us
        return table if alive.all() else table.filter(pa.array(alive))

    def _run(self, left: Mapping[Chunk, int]) -> list[list[Chunk]]:
        """Batches in a row that are as many and as small as it takes to merge them; [] if there are none.

        ``left``: how many rows of a chunk may be needed, where that is known; they are what is merged.
        """
        batches = [list(group) for _, group in groupby(self._chunks, key=lambda chunk: chunk.batch)]
        rows = [sum(left.get(chunk, chunk.rows) for chunk in batch) for batch in batches]
        sizes = [self._size(batch) for batch in batches]
        limit = max(_SMALL, sum(rows) // _LARGE)
        for start in range(len(batches) - _MERGED + 1):
            run = slice(start, start + _MERGED)
            is_even = len({batch[0].span for batch in batches[run]}) == 1
            if is_even and sum(rows[run]) <= limit and sum(sizes[run]) <= _PIECE_BYTES:
                return batches[run]
        return []

    def _size(self, chunks: Iterable[Chunk]) -> int:
        """Bytes of the bundles that chunks are in."""
        return sum(piece.size for place in {chunk.place for chunk in chunks} for piece in self._bundles[place])

    def _merge(self, run: Sequence[Sequence[Chunk]], bucket: AnyBucket, watermark: int, log: Log) -> None:
        last = run[-1][0]
        old = [chunk for batch in run for chunk in batch]
        places = dict.fromkeys(chunk.place for chunk in old)
        tables: dict[Chunk, pa.Table] = {}
        for place in places:
            tables.update(self._unpacked([chunk for chunk in old if chunk.place == place], log))
        for place in places:
            self._drop(place, log)
        merged = {}
        for stream in range(len(self._streams)):
            chunks = [chunk for chunk in old if chunk.stream == stream]
            if not chunks:
                continue
            table = self._rows_left(chunks, [tables[chunk] for chunk in chunks], bucket, watermark)
            if table.num_rows:
                chunk = Chunk(
                    last.batch,
                    stream,
                    table.num_rows,
                    chunks[0].first,
                    chunks[-1].end,
                    int(times_of(self._streams[stream], table).max()),
                    last.watermark,
                    self._homes[stream],
                    last.span * _MERGED,
                )
                merged[chunk] = table
        self._put(merged, log)
        gone = {chunk.batch for chunk in old}
        start = next(i for i, chunk in enumerate(self._chunks) if chunk.batch in gone)
        rest = [chunk for chunk in self._chunks if chunk.batch not in gone]
        self._chunks = [*rest[:start], *merged, *rest[start:]]

    def _rows_left(
        self, chunks: Sequence[Chunk], tables: Sequence[pa.Table], bucket: AnyBucket, watermark: int
    ) -> pa.Table:
        """The rows of chunks of one stream that have not left its window."""
        stream = chunks[0].stream
        table = pa.concat_tables(_common([plain(table) for table in tables]))
        if not self._counts_rows(stream):
            return self._in_time(stream, table, watermark)
        numbers = np.concatenate([_numbers(chunk, table) for chunk, table in zip(chunks, tables, strict=True)])
        alive = np.isin(numbers, bucket.rows(stream))
        return table.append_column(_NUMBER, pa.array(numbers)).filter(pa.array(alive))

    def rewrite(self, places: Sequence[int], change: Rows, log: Log) -> None:
        """Write the log of a query that has changed anew: what is left of each chunk, under the streams' new positions.

        ``places`` has the new position of each stream.
        """
        unmoved = list(places) == sorted(places)
        batches = [list(group) for _, group in groupby(self._chunks, key=lambda chunk: chunk.batch)]
        self._chunks = []
        for batch in batches:
            bundles = dict.fromkeys(chunk.place for chunk in batch)
            tables: dict[Chunk, pa.Table] = {}
            for place in bundles:
                tables.update(self._unpacked([chunk for chunk in batch if chunk.place == place], log))
            left = {chunk: change.rows(places[chunk.stream], chunk, table) for chunk, table in tables.items()}
            if unmoved and all(left[chunk] is table for chunk, table in tables.items()):
                self._chunks += batch
                continue
            for place in bundles:
                self._drop(place, log)
            needed = {}
            for chunk, table in sorted(left.items(), key=lambda pair: places[pair[0].stream]):
                if table.num_rows:
                    stream = places[chunk.stream]
                    needed[self._rewritten(chunk, stream, table)] = table
            self._put(needed, log)
            self._chunks += needed
        self._numbers, self._held = (placed(values, places) for values in (self._numbers, self._held))

    def _rewritten(self, chunk: Chunk, stream: int, table: pa.Table) -> Chunk:
        newest = int(times_of(self._streams[stream], table).max())
        return replace(chunk, stream=stream, rows=table.num_rows, newest=newest, home=self._homes[stream])

    # -- What is remembered ---------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        return {
            "chunks": [astuple(chunk) for chunk in self._chunks],
            "bundles": [[*place, [astuple(piece) for piece in pieces]] for place, pieces in self._bundles.items()],
            "numbers": self._numbers,
            "held": self._held,
        }

    def restore(self, known: Mapping[str, Any]) -> None:
        """Go on where :meth:`to_json` was."""
        self._chunks = [Chunk(*chunk) for chunk in known["chunks"]]
        self._bundles = {
            (batch, home): tuple(Piece(*piece) for piece in pieces) for batch, home, pieces in known["bundles"]
        }
        self._numbers, self._held = list(known["numbers"]), list(known["held"])


def _key(home: int, piece: int) -> int:
    """The number of a piece in the log, unique among those of its batch."""
    return home * _PIECES + piece


def _bodies(tables: Iterable[pa.Table]) -> Iterator[bytes]:
    """Tables, in order, as bytes in pieces."""
    waiting: list[pa.Table] = []
    size = 0
    for part in (part for table in tables for part in in_parts(table.combine_chunks(), _PIECE_BYTES)):
        if waiting and size + part.nbytes > _PIECE_BYTES:
            yield bundle(waiting, _COMPRESSION)
            waiting, size = [], 0
        waiting.append(part)
        size += part.nbytes
    yield bundle(waiting, _COMPRESSION)


def _damaged(batch: int, found: str) -> CheckpointError:
    return CheckpointError(
        f"the checkpoint is damaged: for batch {batch} the state store has {found}. "
        "Nothing was changed. Restore the checkpoint directory from a copy, or start with a new one."
    )


def _home(query: Query, stream: int) -> int:
    """The stream in whose bundle the chunks of this one are put: the first with the same RANGE window."""
    own = query.streams[stream]
    if not isinstance(own.window, RangeWindow) or own.is_static:
        return stream
    return next(s for s, ref in enumerate(query.streams) if ref.window == own.window and not ref.is_static)


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
    return plain(table).append_column(_NUMBER, pa.array(_numbers(chunk, table)))


def placed(values: Sequence[_Value], places: Sequence[int]) -> list[_Value]:
    """Values of streams in the order of their new positions.

    >>> placed("abc", [2, 0, 1])
    ['b', 'c', 'a']
    """
    return [value for _, value in sorted(zip(places, values, strict=True), key=lambda pair: pair[0])]


def _common(tables: Sequence[pa.Table]) -> list[pa.Table]:
    """Rows of one stream with the columns that all of them have: queries that ran before may have carried others."""
    first, *others = (table.schema for table in tables)
    names = [field.name for field in first if all(_has(schema, field) for schema in others)]
    return [table.select(names) for table in tables]


def _has(schema: pa.Schema, field: pa.Field) -> bool:
    return field.name in schema.names and schema.field(field.name).type == field.type


def _numbers(chunk: Chunk, table: pa.Table) -> Int64s:
    """The numbers of the rows of a ROWS window: without gaps, or as they were noted when some had left."""
    if _NUMBER in table.column_names:
        numbers: Int64s = table.column(_NUMBER).to_numpy()
        return numbers
    return np.arange(chunk.first, chunk.end)
