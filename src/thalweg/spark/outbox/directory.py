"""An outbox on disk, without Spark: opens readers, answers what was published, and guards who may write.

A shell command or a batch job can ask it at any time, while a query writes.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from thalweg.errors import OutboxError
from thalweg.spark.outbox.files import LocalFiles, local
from thalweg.spark.outbox.layout import (
    Failure,
    Manifest,
    Places,
    Totals,
    batch_name,
    batch_number,
    owner_json,
    parsed,
    parsed_failure,
    parsed_manifest,
    parsed_totals,
    reader_name,
    until_number,
)


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
        is_new = self.create(path, columns.serialize().to_pybytes(), path.parent)
        if is_new:
            for made in (path.parent, self.places.root):
                self.files.sync(made)
        elif self.schema(reader) != columns:
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
        """The batches that have rows for a reader, but for old ones whose manifests were folded into one."""
        numbers = map(batch_number, self.files.names(self.places.manifests(reader)))
        return sorted(number for number in numbers if number is not None)

    def failure(self, reader: str) -> Failure | None:
        """Why a reader has failed, or the one that had its name before; None: none has."""
        numbers = map(batch_number, self.files.names(self.places.failures(reader)))
        latest = max((number for number in numbers if number is not None), default=None)
        if latest is None:
            return None
        path = self.places.failure(reader, latest)
        data = self.files.read(path)
        return None if data is None else parsed_failure(data, path)

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
        while True:
            until, folded = self.folded(reader)
            mine = [batch for batch in self.batches(reader) if until is None or batch > until]
            known = [self.manifest(reader, batch) for batch in mine]
            if None not in known and self.folded(reader)[0] == until:
                return sum((each.totals for each in known if each is not None), folded)
            # Meanwhile some were folded: look again.

    def folded(self, reader: str) -> tuple[int | None, Totals]:
        """Up to which batch the manifests of a reader were folded into one, and what they said together."""
        while True:
            numbers = map(until_number, self.files.names(self.places.manifests(reader)))
            until = max((number for number in numbers if number is not None), default=None)
            if until is None:
                return None, Totals()
            path = self.places.until(reader, until)
            data = self.files.read(path)
            if data is not None:
                return until, parsed_totals(data, path)

    def fold(self, reader: str, before: int, least: int) -> None:
        """Put the manifests of batches before this one into one file that has their totals, if there are so many.

        Nobody needs these manifests any more: their files have their final names. A crash leaves manifests beside the
        file that speaks for them. They do not count, and the next time they are removed.
        """
        until, folded = self.folded(reader)
        mine = [batch for batch in self.batches(reader) if batch < before]
        new = [batch for batch in mine if until is None or batch > until]
        if len(new) >= least:
            known = [self.manifest(reader, batch) for batch in new]
            totals = sum((each.totals for each in known if each is not None), folded)
            path = self.places.until(reader, new[-1])
            self.create(path, totals.to_json(), path.parent)
            self.files.sync(path.parent)
            until = new[-1]
        if until is None:
            return
        for batch in mine:
            if batch <= until:
                self.files.remove(self.places.manifest(reader, batch))
        for name in self.files.names(self.places.manifests(reader)):
            number = until_number(name)
            if number is not None and number < until:
                self.files.remove(self.places.until(reader, number))

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
            self.files.sync(draft)
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
