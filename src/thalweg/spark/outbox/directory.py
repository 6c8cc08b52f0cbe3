"""An outbox on disk, without Spark: opens readers, answers what was published, and guards who may write.

A shell command or a batch job can ask it at any time, while a query writes.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from thalweg.errors import OutboxError
from thalweg.spark.outbox.files import LocalFiles, local
from thalweg.spark.outbox.layout import (
    Manifest,
    Places,
    batch_name,
    batch_number,
    owner_json,
    parsed,
    parsed_manifest,
    reader_name,
)


@dataclass(frozen=True, slots=True)
class Totals:
    """What was published for a reader so far; ``size`` in bytes."""

    batches: int
    files: int
    rows: int
    size: int


class Outbox:
    """A directory with results for readers.

    Args:
        directory: where it is. It need not be there yet.
        files: how to get at files.

    """

    def __init__(self, directory: str | Path, files: LocalFiles | None = None) -> None:
        self.places = Places(local(directory))
        self.files = files or LocalFiles()

    # Readers

    def open_reader(self, reader: str, schema: pa.Schema) -> None:
        """Make a reader known, before rows come for it. To open it again with the same columns changes nothing."""
        columns = _columns(reader, schema)
        self.files.make_directory(self.places.manifests(reader))
        path = self.places.schema(reader)
        if not self.create(path, columns.serialize().to_pybytes(), path.parent) and self.schema(reader) != columns:
            raise OutboxError(
                f"reader {reader!r} of the outbox {self.places.root} has the columns {_listed(self.schema(reader))}, "
                f"and cannot get {_listed(columns)}. Open a reader of another name."
            )

    def readers(self) -> list[str]:
        """The names of those that were opened."""
        folders = [name for name in self.files.names(self.places.root) if not name.startswith(("_", "."))]
        return [name for name in map(reader_name, folders) if self.has(name)]

    def has(self, reader: str) -> bool:
        """Whether a reader was opened."""
        return self.files.size(self.places.schema(reader)) is not None

    def schema(self, reader: str) -> pa.Schema:
        """The columns of a reader's rows."""
        data = self.files.read(self.places.schema(reader))
        if data is None:
            known = ", ".join(map(repr, self.readers())) or "none yet"
            raise OutboxError(
                f"the outbox {self.places.root} has no reader {reader!r}. Its readers are: {known}. "
                "Open a reader before its query begins."
            )
        return pa.ipc.read_schema(pa.py_buffer(data))

    # What was published

    def batches(self, reader: str) -> list[int]:
        """The batches that have rows for a reader."""
        numbers = map(batch_number, self.files.names(self.places.manifests(reader)))
        return sorted(number for number in numbers if number is not None)

    def manifest(self, reader: str, batch: int) -> Manifest | None:
        """What a batch has for a reader; None: nothing."""
        path = self.places.manifest(reader, batch)
        data = self.files.read(path)
        return None if data is None else parsed_manifest(data, path)

    def manifests(self, reader: str) -> Iterator[Manifest]:
        """All manifests of a reader, in the order of batches."""
        for batch in self.batches(reader):
            if (manifest := self.manifest(reader, batch)) is not None:
                yield manifest

    def totals(self, reader: str) -> Totals:
        """How much was published for a reader."""
        self.schema(reader)  # an error if there is no such reader
        known = list(self.manifests(reader))
        return Totals(
            len(known),
            sum(len(each.files) for each in known),
            sum(each.rows for each in known),
            sum(each.size for each in known),
        )

    def latest(self) -> int | None:
        """The newest batch that was published to all readers; None: there is none."""
        return max(self.done(), default=None)

    def done(self) -> list[int]:
        """The marks of batches that were published to all readers. Each new one replaces those before."""
        return [number for name in self.files.names(self.places.done) if (number := batch_number(name)) is not None]

    # Who may write

    def owner(self) -> str | None:
        """Spark's id of the query that writes here; None: nobody has yet."""
        data = self.files.read(self.places.owner)
        return None if data is None else str(parsed(data, self.places.owner)["query"])

    def claim(self, query: str) -> None:
        """Make a query the owner, unless there is one; :meth:`check` says which of two that claim at once it is."""
        self.files.make_directory(self.places.root)
        if self.owner() is None:
            self.create(self.places.owner, owner_json(query), self.places.root)

    def check(self, query: str, batch: int) -> None:
        """Refuse a query that is not the owner, and a batch that comes before one that was published.

        Spark keeps a query's id in its checkpoint. It runs a batch again only if it is the last one. So an earlier
        batch comes from an old copy of the checkpoint. It may have other rows than were published under its number.
        """
        owner = self.owner()
        if owner not in (None, query):
            raise OutboxError(
                f"the outbox {self.places.root} belongs to query {owner} (the id in its checkpoint), and query {query} "
                "tries to write to it. Batches are told apart by their numbers, so rows of two queries would be lost. "
                "Go on from the checkpoint of the first one, or give this query an outbox of its own."
            )
        latest = self.latest()
        if latest is not None and batch < latest:
            raise OutboxError(
                f"batch {batch} cannot be published: the outbox {self.places.root} has everything up to batch "
                f"{latest}, so the checkpoint of query {query} is older than the outbox. Go on from the latest "
                "checkpoint, or begin with a new checkpoint and a new outbox."
            )

    def create(self, path: Path, data: bytes, drafts: Path) -> bool:
        """Make a small file that appears whole, unless it is there; whether it was made.

        It is written under another name in ``drafts`` and linked. An exclusive open would not do: a crash between
        opening and writing would leave a file without content, which then counts as there.
        """
        draft = drafts / f".draft-{secrets.token_hex(8)}"
        try:
            self.files.write(draft, data)
            return self.files.link(draft, path)
        finally:
            self.files.remove(draft)

    def mark_done(self, batch: int) -> None:
        """Note that a batch was published to all readers."""
        self.files.make_directory(self.places.done)
        self.files.write(self.places.done / batch_name(batch), b"")


def _columns(reader: str, schema: pa.Schema) -> pa.Schema:
    """The columns as they are kept: all may be NULL, and nothing is said of them but their types."""
    folded = [name.casefold() for name in schema.names]
    twice = sorted({name for name in schema.names if folded.count(name.casefold()) > 1})
    if twice or not schema.names:
        raise OutboxError(
            f"reader {reader!r} cannot have the columns {_listed(schema)}: "
            + (f"{', '.join(twice)} would be found twice by Spark. " if twice else "there must be at least one. ")
            + "Name them in the SELECT list, with AS."
        )
    columns = pa.schema([pa.field(field.name, field.type) for field in schema])
    try:
        pq.write_table(columns.empty_table(), pa.BufferOutputStream())
    except pa.ArrowException as error:
        raise OutboxError(
            f"reader {reader!r} has a column that parquet cannot hold ({error}); its columns are {_listed(schema)}. "
            "CAST it to another type."
        ) from error
    if untyped := [field.name for field in columns if pa.types.is_null(field.type)]:
        raise OutboxError(
            f"column {untyped[0]!r} of reader {reader!r} is NULL and has no type, so Spark could not read it from "
            "parquet. CAST it to one, for example CAST(NULL AS STRING)."
        )
    return columns


def _listed(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema) or "(none)"
