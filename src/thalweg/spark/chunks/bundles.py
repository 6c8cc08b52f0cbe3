"""The bundles of a log, in which chunks lie together, as values of Spark's state store."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any, Protocol

import pyarrow as pa

from thalweg.errors import CheckpointError
from thalweg.spark.chunks.chunk import Chunk, Place
from thalweg.spark.packing import bundle, in_parts, unbundle

_PIECE_BYTES = 1 << 25
"""How large a piece is at most, unless a single row is larger. Batches that are merged have no more in all: merging
more would copy much and save few values."""
PIECES = 1 << 16
"""Pieces that a bundle may have: a number in the log is that of the bundle's home times this, plus the piece's."""
_COMPRESSION = "zstd"
"""Spark moves 30 to 50 MB/s between a worker and its state store. zstd compresses several times faster than that."""


class Log(Protocol):
    """Where pieces are kept; written and read within one transaction with the record."""

    def put(self, batch: int, number: int, body: bytes) -> None:
        """Keep a piece of what a batch brought."""

    def get(self, batch: int, number: int) -> bytes | None:
        """What was put; None if there is nothing."""

    def drop(self, batch: int, number: int) -> None:
        """Forget a piece."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A value of the log: how many bytes it has, and their checksum."""

    size: int
    checksum: int

    @staticmethod
    def of(body: bytes) -> Piece:
        return Piece(len(body), zlib.crc32(body))


class Bundles:
    """The bundles of one log, with the sizes and checksums of their pieces."""

    def __init__(self) -> None:
        self._pieces: dict[Place, tuple[Piece, ...]] = {}

    def __iter__(self) -> Iterator[Place]:
        return iter(self._pieces)

    def read(self, chunks: Sequence[Chunk], log: Log) -> Iterator[tuple[Chunk, pa.Table]]:
        """The rows of these chunks, which are all those of one bundle."""
        place = chunks[0].place
        slices = (table for number in range(len(self._pieces[place])) for table in self._piece(place, number, log))
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

    def _piece(self, place: Place, number: int, log: Log) -> list[pa.Table]:
        """The tables of one value of the log."""
        batch, home = place
        known = self._pieces[place][number]
        body = log.get(batch, _key(home, number))
        if body is None:
            raise _damaged(batch, f"no piece {number} of the rows of stream {home}, which has {known.size} bytes")
        if Piece.of(body) != known:
            what = f"{len(body)} bytes of stream {home} that are not the {known.size} bytes which were put there"
            raise _damaged(batch, what)
        return unbundle(body)

    def put(self, needed: Mapping[Chunk, pa.Table], log: Log) -> None:
        """Write chunks, which are in the order of their streams, in their bundles."""
        for place in dict.fromkeys(chunk.place for chunk in needed):
            batch, home = place
            pieces: list[Piece] = []
            for body in _bodies(table for chunk, table in needed.items() if chunk.place == place):
                log.put(batch, _key(home, len(pieces)), body)
                pieces.append(Piece.of(body))
            self._pieces[place] = tuple(pieces)

    def drop(self, place: Place, log: Log) -> None:
        """Forget a bundle."""
        batch, home = place
        for number in range(len(self._pieces.pop(place))):
            log.drop(batch, _key(home, number))

    def fit_a_piece(self, chunks: Iterable[Chunk]) -> bool:
        """Whether the bundles that chunks are in have no more bytes than a piece may have."""
        size = sum(piece.size for place in {chunk.place for chunk in chunks} for piece in self._pieces[place])
        return size <= _PIECE_BYTES

    def to_json(self) -> list[Any]:
        return [[*place, [astuple(piece) for piece in pieces]] for place, pieces in self._pieces.items()]

    def restore(self, known: Iterable[Any]) -> None:
        """Go on where :meth:`to_json` was."""
        self._pieces = {(batch, home): tuple(Piece(*piece) for piece in pieces) for batch, home, pieces in known}


def _key(home: int, piece: int) -> int:
    """The number of a piece in the log, unique among those of its batch."""
    return home * PIECES + piece


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
