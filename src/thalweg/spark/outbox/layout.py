"""Where things lie in an outbox, and what its small files say. Paths and JSON; nothing is read or written here.

::

    OUTBOX/
      _outbox.json                         which query writes here
      _done/000000000012                   the newest batch that was published to all readers
      _staged/000000000012/READER/...      files that tasks have written, and drafts of manifests
      READER/
        _schema.arrow                      the columns of the reader's rows
        _manifests/000000000012.json       what batch 12 has for this reader
        _manifests/until-000000000012.json how much all batches up to 12 have; their own manifests are gone
        _failures/000000000012.json        the reader failed in batch 12, and why: it gets nothing from then on
        000000000012-00003.parquet         rows of batch 12, from task 3

Readers of parquet pass over names that begin with ``_``. So a reader's directory is a plain parquet table.
Staged files do not end in ``.parquet``, so that no pattern of a shell or a database finds them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from thalweg.errors import OutboxError

VERSION = 1
"""Of the layout: another one is refused."""
_LONGEST = 200
"""Bytes of a directory's name; file systems take 255, and a reader may put something behind it."""


@dataclass(frozen=True, slots=True)
class Staged:
    """A file that a task has written for a reader, not yet published.

    Attributes:
        reader: whose rows it has.
        number: the task's, among those of its batch.
        name: the file's, among the staged ones of batch and reader. No two attempts choose the same.
        rows: how many it has.
        size: in bytes.
        since: the batch with which the reader began.

    """

    reader: str
    number: int
    name: str
    rows: int
    size: int
    since: int = 0


@dataclass(frozen=True, slots=True)
class Failure:
    """A reader has failed in a batch: it gets nothing of this batch, and nothing after it.

    One that comes again under its name begins with a later batch than ``since``, and gets what is its own.
    """

    reader: str
    batch: int
    since: int
    reason: str

    def to_json(self) -> bytes:
        return json.dumps({"version": VERSION, **asdict(self)}).encode()


def parsed_failure(data: bytes, path: Path) -> Failure:
    known = parsed(data, path)
    return Failure(known["reader"], known["batch"], known["since"], known["reason"])


@dataclass(frozen=True, slots=True)
class Totals:
    """How much was published for a reader; ``size`` in bytes."""

    batches: int = 0
    files: int = 0
    rows: int = 0
    size: int = 0

    def __add__(self, other: Totals) -> Totals:
        return Totals(*map(sum, zip(astuple(self), astuple(other), strict=True)))

    def to_json(self) -> bytes:
        return json.dumps({"version": VERSION, **asdict(self)}).encode()


def parsed_totals(data: bytes, path: Path) -> Totals:
    known = parsed(data, path)
    return Totals(*(known[name] for name in Totals.__dataclass_fields__))


@dataclass(frozen=True, slots=True)
class PublishedFile:
    """A file of a manifest: its name in the reader's directory, and the one that it had while it was staged."""

    name: str
    staged: str
    rows: int
    size: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a batch has for a reader. It never changes."""

    reader: str
    batch: int
    query: str
    files: tuple[PublishedFile, ...]

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)

    @property
    def totals(self) -> Totals:
        return Totals(1, len(self.files), self.rows, self.size)

    def to_json(self) -> bytes:
        return json.dumps({"version": VERSION, **asdict(self)}).encode()


def parsed_manifest(data: bytes, path: Path) -> Manifest:
    known = parsed(data, path)
    files = tuple(PublishedFile(**file) for file in known["files"])
    return Manifest(known["reader"], known["batch"], known["query"], files)


def parsed(data: bytes, path: Path) -> Mapping[str, Any]:
    """One of our JSON files; an error if another version has written it."""
    try:
        known = json.loads(data)
    except ValueError:
        known = None
    if not isinstance(known, dict) or known.get("version") != VERSION:
        raise OutboxError(
            f"{path} was not written by this version of thalweg: it should be a JSON object with version {VERSION}, "
            f"and begins with {data[:40]!r}. Use the version that began this outbox, or another directory."
        )
    return known


def owner_json(query: str) -> bytes:
    """What the file of the owner says."""
    return json.dumps({"version": VERSION, "query": query}).encode()


def folder_name(reader: str) -> str:
    """A reader's name as that of a directory, which no reader of files passes over.

    >>> folder_name("spread_1m"), folder_name("../_x"), folder_name("_a=b")
    ('spread_1m', '%2E.%2F_x', '%5Fa%3Db')
    """
    quoted = quote(reader, safe="")
    if quoted[:1] in (".", "_"):
        quoted = f"%{ord(quoted[0]):02X}{quoted[1:]}"
    if not quoted or len(quoted) > _LONGEST:
        raise OutboxError(
            f"a reader cannot be called {reader!r}: its directory would have a name of {len(quoted)} bytes, and that "
            f"must be 1 to {_LONGEST} (letters that are not ASCII take six or more). Choose another name."
        )
    return quoted


def reader_name(folder: str) -> str:
    """The way back.

    >>> reader_name(folder_name("../_x"))
    '../_x'
    """
    return unquote(folder)


def batch_name(batch: int) -> str:
    """A batch as a name; names are in the order of batches.

    >>> batch_name(12)
    '000000000012'
    """
    return f"{batch:012}"


def batch_number(name: str) -> int | None:
    """The way back; None if it is no name of a batch (or of its manifest)."""
    stem = name.removesuffix(".json")
    return int(stem) if stem.isdecimal() and stem.isascii() else None


_UNTIL = "until-"


def until_name(batch: int) -> str:
    """The name of what stands for the manifests of all batches up to this one.

    >>> until_name(12)
    'until-000000000012.json'
    """
    return f"{_UNTIL}{batch_name(batch)}.json"


def until_number(name: str) -> int | None:
    """The way back; None if it is no such name."""
    return batch_number(name.removeprefix(_UNTIL)) if name.startswith(_UNTIL) else None


def published_name(batch: int, number: int) -> str:
    """The name of the rows that a task has for a reader, in the reader's directory.

    >>> published_name(12, 3)
    '000000000012-00003.parquet'
    """
    return f"{batch_name(batch)}-{number:05}.parquet"


@dataclass(frozen=True, slots=True)
class Places:
    """The paths of an outbox."""

    root: Path

    @property
    def owner(self) -> Path:
        return self.root / "_outbox.json"

    @property
    def done(self) -> Path:
        return self.root / "_done"

    @property
    def staged(self) -> Path:
        return self.root / "_staged"

    def staged_of(self, batch: int, reader: str) -> Path:
        return self.staged / batch_name(batch) / folder_name(reader)

    def reader(self, reader: str) -> Path:
        return self.root / folder_name(reader)

    def schema(self, reader: str) -> Path:
        return self.reader(reader) / "_schema.arrow"

    def manifests(self, reader: str) -> Path:
        return self.reader(reader) / "_manifests"

    def manifest(self, reader: str, batch: int) -> Path:
        return self.manifests(reader) / f"{batch_name(batch)}.json"

    def until(self, reader: str, batch: int) -> Path:
        return self.manifests(reader) / until_name(batch)

    def failures(self, reader: str) -> Path:
        return self.reader(reader) / "_failures"

    def failure(self, reader: str, batch: int) -> Path:
        return self.failures(reader) / f"{batch_name(batch)}.json"
