"""The log of a bucket: the rows of its base windows, in chunks.

A chunk is what one batch brought of one stream. Chunks whose rows have all left their windows are dropped. Others are
merged, eight batches into one, and eight of those, so that their number grows with the logarithm of
the batches that a window reaches over; what has left is not taken along. A merged batch is as good as the ones it was
made of, because the answer does not depend on how the input was cut into batches.

Reading and writing go through Spark one value at a time, at about a millisecond each. So chunks of one batch lie
together in one value, a *bundle*, if their streams have the same RANGE window: they come and go together. (Of streams
with other windows, one could hold on to the many rows of another.)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from itertools import groupby
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from thalweg.cql.query import Query, RangeWindow, StreamRef
from thalweg.engine.bucket import Bucket
from thalweg.engine.instants import NEVER
from thalweg.engine.kernels.compiled import Int64s
from thalweg.spark.packing import bundle, event_times, time_column, unbundle

_MERGED = 8
"""How many batches are merged into one."""
_SMALL = 1 << 16
"""Rows that are worth merging however few there are in all."""
_LARGE = 8
"""A merged chunk has at most this part of the rows in the log: it goes as a whole."""
_NUMBER = "__thalweg_number"


class Log(Protocol):
    """Where chunks are kept; written and read within one transaction with the record."""

    def put(self, batch: int, home: int, body: bytes) -> None:
        """Keep a bundle of what a batch brought, by the number of one of its streams."""

    def get(self, batch: int, home: int) -> bytes:
        """What was put."""

    def drop(self, batch: int, home: int) -> None:
        """Forget a bundle."""

    def bundles(self) -> Iterator[tuple[int, int, bytes]]:
        """All of them: batch, home, body; in any order."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A chunk of the log.

    Attributes:
        batch: the last one that rows are of.
        stream: theirs.
        rows: how many.
        first: the bucket numbers rows as they come; this is the least,
        end: and this is past the greatest of these.
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


class Chunks:
    """What is in the log of a bucket."""

    def __init__(self, query: Query) -> None:
        self._streams = query.streams
        self._homes = [_home(query, stream) for stream in range(len(query.streams))]
        self._chunks: list[Chunk] = []
        self._numbers = [0] * len(query.streams)
        self._held = [0] * len(query.streams)

    def __len__(self) -> int:
        return len(self._chunks)

    def read(self, log: Log) -> dict[tuple[int, int], pa.Table]:
        """The rows by batch and stream, to be taken by a bucket that numbers them from 0 on."""
        bodies = {(batch, home): body for batch, home, body in log.bundles()}
        tables = {key: _plain(table) for key, table in self._unpacked(self._chunks, bodies).items()}
        self._numbers = [0] * len(self._streams)
        self._chunks = [self._numbered(chunk, tables[chunk.batch, chunk.stream].num_rows) for chunk in self._chunks]
        return tables

    @staticmethod
    def _unpacked(chunks: Sequence[Chunk], bodies: Mapping[tuple[int, int], bytes]) -> dict[tuple[int, int], pa.Table]:
        """The tables of these chunks, all those of some bundles, by batch and stream."""
        waiting = {place: iter(unbundle(body)) for place, body in bodies.items()}
        ordered = sorted(chunks, key=lambda chunk: (chunk.batch, chunk.stream))
        return {(chunk.batch, chunk.stream): next(waiting[chunk.place]) for chunk in ordered}

    def batches(self, tables: Mapping[tuple[int, int], pa.Table]) -> Iterator[tuple[int, dict[int, pa.Table]]]:
        """Batch by batch, its watermark and its rows by stream."""
        for batch, group in groupby(self._chunks, key=lambda chunk: chunk.batch):
            parts = list(group)
            yield parts[0].watermark, {chunk.stream: tables[batch, chunk.stream] for chunk in parts}

    def add(self, batch: int, tables: Mapping[int, pa.Table], watermark: int, log: Log) -> None:
        """Put into the log what is still needed of rows that the bucket has just taken."""
        needed = {}
        for stream, table in sorted(tables.items()):
            newest = int(times_of(self._streams[stream], table).max())
            chunk = Chunk(batch, stream, table.num_rows, 0, 0, newest, watermark, self._homes[stream])
            chunk = self._numbered(chunk, table.num_rows)
            if self._may_be_needed(chunk, watermark):
                needed[chunk] = self._in_time(stream, table, watermark)
        self._put(needed, log)
        self._chunks += needed

    @staticmethod
    def _put(needed: Mapping[Chunk, pa.Table], log: Log) -> None:
        """Write chunks, which are in the order of their streams, in their bundles."""
        for batch, home in dict.fromkeys(chunk.place for chunk in needed):
            log.put(batch, home, bundle(t for chunk, t in needed.items() if chunk.place == (batch, home)))

    def _numbered(self, chunk: Chunk, rows: int) -> Chunk:
        first = self._numbers[chunk.stream]
        self._numbers[chunk.stream] += rows
        return replace(chunk, rows=rows, first=first, end=first + rows)

    def tidy(self, bucket: Bucket, watermark: int, log: Log) -> None:
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
        for place in dict.fromkeys(chunk.place for chunk in self._chunks):
            if place not in kept:
                log.drop(*place)
        self._chunks = [chunk for chunk in self._chunks if chunk.place in kept]
        while run := self._run(left):
            self._merge(run, bucket, watermark, log)

    def _held_rows(self, bucket: Bucket) -> dict[int, Int64s]:
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
        limit = max(_SMALL, sum(rows) // _LARGE)
        for start in range(len(batches) - _MERGED + 1):
            run = slice(start, start + _MERGED)
            if len({batch[0].span for batch in batches[run]}) == 1 and sum(rows[run]) <= limit:
                return batches[run]
        return []

    def _merge(self, run: Sequence[Sequence[Chunk]], bucket: Bucket, watermark: int, log: Log) -> None:
        last = run[-1][0]
        old = [chunk for batch in run for chunk in batch]
        places = dict.fromkeys(chunk.place for chunk in old)
        tables = self._unpacked(old, {place: log.get(*place) for place in places})
        for place in places:
            log.drop(*place)
        merged = {}
        for stream in range(len(self._streams)):
            chunks = [chunk for chunk in old if chunk.stream == stream]
            if not chunks:
                continue
            parts = [tables[chunk.batch, stream] for chunk in chunks]
            table = self._rows_left(chunks, parts, bucket, watermark)
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
        self, chunks: Sequence[Chunk], tables: Sequence[pa.Table], bucket: Bucket, watermark: int
    ) -> pa.Table:
        """The rows of chunks of one stream that have not left its window."""
        stream = chunks[0].stream
        table = pa.concat_tables(map(_plain, tables))
        if not self._counts_rows(stream):
            return self._in_time(stream, table, watermark)
        numbers = np.concatenate([_numbers(chunk, table) for chunk, table in zip(chunks, tables, strict=True)])
        alive = np.isin(numbers, bucket.rows(stream))
        return table.append_column(_NUMBER, pa.array(numbers)).filter(pa.array(alive))

    def to_json(self) -> dict[str, Any]:
        return {"chunks": [astuple(chunk) for chunk in self._chunks], "numbers": self._numbers, "held": self._held}

    def restore(self, known: Mapping[str, Any]) -> None:
        """Go on where :meth:`to_json` was."""
        self._chunks = [Chunk(*chunk) for chunk in known["chunks"]]
        self._numbers, self._held = list(known["numbers"]), list(known["held"])


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


def _plain(table: pa.Table) -> pa.Table:
    """A chunk's rows as they came, without their numbers."""
    return table.drop_columns(_NUMBER) if _NUMBER in table.column_names else table


def _numbers(chunk: Chunk, table: pa.Table) -> Int64s:
    """The numbers of the rows of a ROWS window: without gaps, or as they were noted when some had left."""
    if chunk.end - chunk.first == table.num_rows:
        return np.arange(chunk.first, chunk.end)
    numbers: Int64s = table.column(_NUMBER).to_numpy()
    return numbers
