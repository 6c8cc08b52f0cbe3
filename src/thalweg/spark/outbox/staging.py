"""What a task does: bodies of many readers become one parquet file for each reader, beside what is published.

Design
    Bodies are held until a reader has enough for a row group. They are held as they came, and decoded when they are
    written. So rows of a file are in the order in which their bodies came.

Invariant
    A task holds at most ``held_bytes`` of bodies, one that is too large by itself aside. Bodies are copied out of the
    batch that Spark hands over: a small body would otherwise keep half a gigabyte of others in memory.

Cost
    A copy of every body. A file is opened when its first row group is written. So of many readers with few rows each,
    one file is open at a time.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from thalweg.errors import OutboxError
from thalweg.spark.outbox.directory import Outbox
from thalweg.spark.outbox.layout import Failure, Staged
from thalweg.spark.packing import in_parts, unblob

ROW_GROUP_BYTES = 1 << 24
"""Of Arrow data: large enough to be read fast, small enough for a task to hold a few."""
HELD_BYTES = 1 << 26
"""Of bodies that wait, over all readers; far less than what Spark hands to Python at a time."""


@dataclass(slots=True)
class _Reader:
    """What a task has of a reader: the columns; bodies that wait, and their size; the file, once it is open."""

    schema: pa.Schema
    since: int
    bodies: list[bytes] = field(default_factory=list)
    held: int = 0
    path: Path | None = None
    sink: Any = None
    writer: Any = None
    rows: int = 0


class Stage:
    """The files of one attempt at a task; as a context, it leaves none behind if the attempt fails.

    Args:
        outbox: where to.
        batch: which batch of the query.
        number: the task's number in it.
        row_group_bytes: how much of a reader is written at a time.
        held_bytes: how much may wait.

    """

    def __init__(
        self,
        outbox: Outbox,
        batch: int,
        number: int,
        *,
        row_group_bytes: int = ROW_GROUP_BYTES,
        held_bytes: int = HELD_BYTES,
    ) -> None:
        self._outbox, self._batch, self._number = outbox, batch, number
        self._row_group_bytes, self._held_bytes = row_group_bytes, held_bytes
        self._name = f"{number:05}-{secrets.token_hex(8)}"  # attempts must not meet
        self._readers: dict[str, _Reader] = {}
        self.failures: list[Failure] = []
        self.held = 0

    def __enter__(self) -> Stage:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._discard()

    def fail(self, name: str, reason: str, since: int = 0) -> None:
        """A reader ends, for this reason."""
        self.failures.append(Failure(name, self._batch, since, reason))

    def add(self, name: str | None, body: bytes, since: int = 0) -> None:
        """Take a body of a reader, which began with the batch ``since``: an Arrow stream with rows of its."""
        if name is None:
            raise OutboxError(
                f"batch {self._batch} has a body of {len(body):,} bytes and no reader for it: its column 'reader' is "
                "NULL. Every row with a body must name one."
            )
        reader = self._readers.get(name)
        if reader is None:
            reader = self._readers[name] = _Reader(self._schema(name, body), since)
        reader.bodies.append(body)
        reader.held += len(body)
        self.held += len(body)
        if reader.held >= self._row_group_bytes:
            self._write(name, reader)
        while self.held >= self._held_bytes:
            self._write(*max(self._readers.items(), key=lambda item: item[1].held))

    def close(self) -> list[Staged]:
        """Write what is left; the files, one for each reader that has rows."""
        staged = []
        for name, reader in self._readers.items():
            self._write(name, reader)
            if reader.path is None:
                continue
            reader.writer.close()
            reader.sink.close()
            size = self._outbox.files.size(reader.path) or 0
            self._outbox.files.sync(reader.path)
            staged.append(Staged(name, self._number, reader.path.name, reader.rows, size, reader.since))
        for folder in self._folders(staged):
            self._outbox.files.sync(folder)
        return staged

    def _folders(self, staged: Sequence[Staged]) -> list[Path]:
        """The directories that files are in, with those that may be new above them."""
        own = [self._outbox.places.staged_of(self._batch, each.reader) for each in staged]
        above = [own[0].parent, own[0].parent.parent] if own else []
        return [*own, *above]

    def _write(self, name: str, reader: _Reader) -> None:
        """Write the bodies that wait, as one row group, or several if they are large."""
        if not reader.bodies:
            return
        table = pa.concat_tables([self._rows(name, reader.schema, body) for body in reader.bodies]).combine_chunks()
        for part in in_parts(table, self._row_group_bytes):
            if reader.path is None:
                self._open(name, reader)
            reader.writer.write_table(part, row_group_size=part.num_rows)
            reader.rows += part.num_rows
        self.held -= reader.held
        reader.bodies, reader.held = [], 0

    def _schema(self, name: str, body: bytes) -> pa.Schema:
        """The columns of a reader. One that nobody has opened is opened with those of its first body.

        So a command that was written by hand, for a query that nobody registered, cannot stop the batch for good.
        """
        if not self._outbox.has(name):
            self._outbox.open_reader(name, self._decoded(name, body).schema)
        return self._outbox.schema(name)

    def _decoded(self, name: str, body: bytes) -> pa.Table:
        try:
            return unblob(body)
        except (pa.ArrowException, OSError) as error:
            raise OutboxError(
                f"a body of reader {name!r} in batch {self._batch} is no Arrow stream: {len(body):,} bytes that begin "
                f"with {body[:16]!r} ({error}). Bodies are made by thalweg.spark.packing.blob."
            ) from error

    def _rows(self, name: str, schema: pa.Schema, body: bytes) -> pa.Table:
        rows = self._decoded(name, body)
        if rows.schema.names != schema.names or rows.schema.types != schema.types:
            raise OutboxError(
                f"a body of reader {name!r} in batch {self._batch} has the columns {_listed(rows.schema)}, and the "
                f"reader was opened with {_listed(schema)}. Open a reader of another name for other columns."
            )
        return rows.cast(schema)

    def _open(self, name: str, reader: _Reader) -> None:
        files, folder = self._outbox.files, self._outbox.places.staged_of(self._batch, name)
        files.make_directory(folder)
        reader.sink = files.open(folder / self._name)
        reader.path = folder / self._name
        reader.writer = pq.ParquetWriter(reader.sink, reader.schema)

    def _discard(self) -> None:
        """Remove what this attempt has written. Nobody was told of it, so no manifest can name it."""
        for reader in self._readers.values():
            if reader.path is not None:
                with suppress(OSError, ValueError):  # it cannot be written, and the file goes: the first error is told
                    if reader.writer is not None:
                        reader.writer.close()
                    reader.sink.close()
                self._outbox.files.remove(reader.path)


def _listed(schema: pa.Schema) -> str:
    return ", ".join(f"{each.name} {each.type}" for each in schema)
