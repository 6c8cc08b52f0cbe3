"""Batches of rows for readers of an outbox, and processes that die at any of its file operations; without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from thalweg.spark.outbox.directory import Outbox
from thalweg.spark.outbox.files import LocalFiles
from thalweg.spark.outbox.layout import Failure, Staged
from thalweg.spark.outbox.publishing import publish
from thalweg.spark.outbox.staging import Stage
from thalweg.spark.packing import blob

SCHEMA = pa.schema([("batch", pa.int64()), ("row", pa.int64())])
TASKS = 2
QUERY = "the query"

Input = dict[str, list[list[int]]]
"""For each reader, how many rows each body of each batch has: ``input["a"][batch]``."""


class Killed(BaseException):
    """The process was killed: nothing may catch it."""


class WatchedFiles(LocalFiles):
    """Calls ``watch`` before each operation that changes something, with the number of operations so far."""

    def __init__(self, watch: Callable[[int], None] = lambda count: None) -> None:
        self._watch, self.count = watch, 0

    def _step(self) -> None:
        self._watch(self.count)
        self.count += 1

    def make_directory(self, path: Path) -> None:
        self._step()
        super().make_directory(path)

    def open(self, path: Path) -> pa.NativeFile:
        self._step()
        return super().open(path)

    def write(self, path: Path, data: bytes) -> None:
        self._step()
        path.write_bytes(data[: len(data) // 2])  # a kill at the next step leaves this much
        self._step()
        super().write(path, data)

    def link(self, draft: Path, path: Path) -> bool:
        self._step()
        return super().link(draft, path)

    def move(self, source: Path, target: Path) -> bool:
        self._step()
        return super().move(source, target)

    def remove(self, path: Path) -> None:
        self._step()
        super().remove(path)

    def remove_directory(self, path: Path) -> None:
        self._step()
        super().remove_directory(path)


def killed_at(operation: int) -> WatchedFiles:
    """Files of a process that is killed before this operation, and does nothing any more."""

    def watch(count: int) -> None:
        if count >= operation:
            raise Killed(operation)

    return WatchedFiles(watch)


def table(batch: int, rows: Sequence[int]) -> pa.Table:
    return pa.table([pa.array([batch] * len(rows), pa.int64()), pa.array(rows, pa.int64())], schema=SCHEMA)


Failing = dict[str, int]
"""For each reader that fails, the batch that finds that out."""


def failures(batch: int, failing: Failing, attempt: int = 0) -> list[Failure]:
    """What a batch has of readers that fail. Why is told by the row that an attempt meets first."""
    found = [name for name, first in failing.items() if first == batch]
    return [Failure(name, batch, 0, f"something is wrong, attempt {attempt}") for name in found]


def stage(outbox: Outbox, batch: int, given: Input, attempt: int = 0) -> list[Staged]:
    """What the tasks of an attempt at a batch stage; attempts give bodies to tasks in different ways."""
    staged: list[Staged] = []
    for task in range(TASKS):
        with Stage(outbox, batch, task) as files:
            for reader, batches in given.items():
                first = 0
                for place, size in enumerate(batches[batch]):
                    if (place + attempt) % TASKS == task:
                        files.add(reader, blob(table(batch, range(first, first + size))))
                    first += size
            staged += files.close()
    return staged


def run(outbox: Outbox, batch: int, given: Input, attempt: int = 0, failing: Failing | None = None) -> None:
    """A batch from its first task to the end of its commit."""
    publish(outbox, QUERY, batch, stage(outbox, batch, given, attempt), failures(batch, failing or {}, attempt))


def opened(directory: Path, readers: Iterator[str] | Sequence[str]) -> Outbox:
    outbox = Outbox(directory)
    for reader in readers:
        outbox.open_reader(reader, SCHEMA)
    return outbox


def visible(outbox: Outbox, reader: str) -> list[tuple[int, int]]:
    """What a batch job reads that knows nothing of outboxes, sorted."""
    rows = pq.read_table(outbox.places.reader(reader), schema=SCHEMA)
    return sorted(zip(rows.column("batch").to_pylist(), rows.column("row").to_pylist(), strict=True))


def wanted(given: Input, reader: str, batches: int) -> list[tuple[int, int]]:
    """All rows of a reader up to, not including, this batch."""
    return [(batch, row) for batch in range(batches) for row in range(sum(given[reader][batch]))]
