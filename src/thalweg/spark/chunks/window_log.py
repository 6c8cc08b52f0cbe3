"""Which chunks a bucket still needs, and which of them are merged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, replace
from itertools import groupby
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from thalweg.cql.query import Query, RangeWindow
from thalweg.engine.bucket import AnyBucket
from thalweg.engine.kernels.compiled import Int64s
from thalweg.spark.chunks.bundles import Bundles, Log
from thalweg.spark.chunks.chunk import Chunk, numbers_of, placed, plain, times_of, with_common_columns, with_numbers

_MERGED = 8
"""How many batches are merged into one."""
_SMALL = 1 << 16
"""Rows that are worth merging however few there are in all."""
_LARGE = 8
"""A merged chunk has at most this part of the rows in the log: it goes as a whole."""


class Rows(Protocol):
    """What becomes of the rows of a log."""

    def rows(self, stream: int, chunk: Chunk, table: pa.Table) -> pa.Table:
        """What is left of a chunk, whose stream has this position now; the very table if that is all of it."""


class Chunks:
    """What is in the log of a bucket."""

    def __init__(self, query: Query) -> None:
        self.serve(query)
        self._chunks: list[Chunk] = []
        self._bundles = Bundles()
        self._numbers = [0] * len(query.streams)
        self._held = [0] * len(query.streams)

    def __len__(self) -> int:
        return len(self._chunks)

    def serve(self, query: Query, boundaries: Iterable[int] = ()) -> None:
        """Keep what this query needs from now on. Batches on both sides of a boundary are not merged."""
        self._streams = query.streams
        self._homes = [_home(query, stream) for stream in range(len(query.streams))]
        self._boundaries = frozenset(boundaries)

    @property
    def oldest(self) -> int | None:
        """The first batch that rows are of; None: there are no rows. Of merged batches, it is the last one."""
        return min((chunk.batch for chunk in self._chunks), default=None)

    # -- Reading --------------------------------------------------------------------------

    def read(self, log: Log) -> Iterator[tuple[Chunk, pa.Table]]:
        """The chunks with their rows, batch by batch, as few at a time as lie together."""
        for _, group in groupby(self._chunks, key=lambda chunk: chunk.batch):
            batch = list(group)
            for place in dict.fromkeys(chunk.place for chunk in batch):
                yield from self._bundles.read([chunk for chunk in batch if chunk.place == place], log)

    def numbers(self, chunk: Chunk, table: pa.Table) -> Int64s | None:
        """The numbers that the rows of a chunk have had since they came; None: their window counts no rows."""
        return numbers_of(chunk, table) if self._counts_rows(chunk.stream) else None

    def next_numbers(self, stream: int, rows: int) -> Int64s | None:
        """The numbers that the next rows of a stream get; None: its window counts no rows."""
        first = self._numbers[stream]
        return np.arange(first, first + rows) if self._counts_rows(stream) else None

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
        self._bundles.put(needed, log)
        self._chunks += needed

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
            self._bundles.drop(place, log)
        self._chunks = [chunk for chunk in self._chunks if chunk.place in kept]
        while run := self._mergeable(left):
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

    def _mergeable(self, left: Mapping[Chunk, int]) -> list[list[Chunk]]:
        """Batches in a row that are as many and as small as it takes to merge them; [] if there are none.

        ``left``: how many rows of a chunk may be needed, where that is known; they are what is merged.
        """
        batches = [list(group) for _, group in groupby(self._chunks, key=lambda chunk: chunk.batch)]
        rows = [sum(left.get(chunk, chunk.rows) for chunk in batch) for batch in batches]
        limit = max(_SMALL, sum(rows) // _LARGE)
        for start in range(len(batches) - _MERGED + 1):
            row = slice(start, start + _MERGED)
            is_even = len({batch[0].span for batch in batches[row]}) == 1
            first, last = batches[start][0].batch, batches[start + _MERGED - 1][0].batch
            if any(first < boundary <= last for boundary in self._boundaries):
                continue
            chunks = (chunk for batch in batches[row] for chunk in batch)
            if is_even and sum(rows[row]) <= limit and self._bundles.fit_a_piece(chunks):
                return batches[row]
        return []

    def _merge(self, run: Sequence[Sequence[Chunk]], bucket: AnyBucket, watermark: int, log: Log) -> None:
        last = run[-1][0]
        old = [chunk for batch in run for chunk in batch]
        places = dict.fromkeys(chunk.place for chunk in old)
        tables: dict[Chunk, pa.Table] = {}
        for place in places:
            tables.update(self._bundles.read([chunk for chunk in old if chunk.place == place], log))
        for place in places:
            self._bundles.drop(place, log)
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
        self._bundles.put(merged, log)
        gone = {chunk.batch for chunk in old}
        start = next(i for i, chunk in enumerate(self._chunks) if chunk.batch in gone)
        rest = [chunk for chunk in self._chunks if chunk.batch not in gone]
        self._chunks = [*rest[:start], *merged, *rest[start:]]

    def _rows_left(
        self, chunks: Sequence[Chunk], tables: Sequence[pa.Table], bucket: AnyBucket, watermark: int
    ) -> pa.Table:
        """The rows of chunks of one stream that have not left its window."""
        stream = chunks[0].stream
        table = pa.concat_tables(with_common_columns([plain(table) for table in tables]))
        if not self._counts_rows(stream):
            return self._in_time(stream, table, watermark)
        numbers = np.concatenate([numbers_of(chunk, table) for chunk, table in zip(chunks, tables, strict=True)])
        alive = np.isin(numbers, bucket.rows(stream))
        return with_numbers(table, numbers).filter(pa.array(alive))

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
                tables.update(self._bundles.read([chunk for chunk in batch if chunk.place == place], log))
            left = {chunk: change.rows(places[chunk.stream], chunk, table) for chunk, table in tables.items()}
            if unmoved and all(left[chunk] is table for chunk, table in tables.items()):
                self._chunks += batch
                continue
            for place in bundles:
                self._bundles.drop(place, log)
            needed = {}
            for chunk, table in sorted(left.items(), key=lambda pair: places[pair[0].stream]):
                if table.num_rows:
                    stream = places[chunk.stream]
                    needed[self._rewritten(chunk, stream, table)] = table
            self._bundles.put(needed, log)
            self._chunks += needed
        self._numbers, self._held = (placed(values, places) for values in (self._numbers, self._held))

    def _rewritten(self, chunk: Chunk, stream: int, table: pa.Table) -> Chunk:
        newest = int(times_of(self._streams[stream], table).max())
        return replace(chunk, stream=stream, rows=table.num_rows, newest=newest, home=self._homes[stream])

    # -- What is remembered ---------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        return {
            "chunks": [astuple(chunk) for chunk in self._chunks],
            "bundles": self._bundles.to_json(),
            "numbers": self._numbers,
            "held": self._held,
        }

    def restore(self, known: Mapping[str, Any]) -> None:
        """Go on where :meth:`to_json` was."""
        self._chunks = [Chunk(*chunk) for chunk in known["chunks"]]
        self._bundles.restore(known["bundles"])
        self._numbers, self._held = list(known["numbers"]), list(known["held"])


def _home(query: Query, stream: int) -> int:
    """The stream in whose bundle the chunks of this one are put: the first with the same RANGE window."""
    own = query.streams[stream]
    if not isinstance(own.window, RangeWindow) or own.is_static:
        return stream
    return next(s for s, ref in enumerate(query.streams) if ref.window == own.window and not ref.is_static)
