"""A bucket's engine, filled from the log as far as the log goes; and the log of a query that has changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby

import numpy as np
import pyarrow as pa

from thalweg.cql.group import Group
from thalweg.cql.query import Query
from thalweg.driver.batches import begin_with, take_again
from thalweg.driver.bucket_driver import BucketDriver
from thalweg.engine.kernels.compiled import Int64s
from thalweg.engine.rows.batch import Batch
from thalweg.engine.storage.arrays import Bools
from thalweg.errors import ThalwegError
from thalweg.spark.bucket_spec import Spec
from thalweg.spark.chunks import Chunk, Chunks, Log, plain, times_of
from thalweg.spark.compatibility import Comparison
from thalweg.spark.log_change import Held, LogChange
from thalweg.spark.record import Change, Record
from thalweg.spark.relations import rows_of_bucket
from thalweg.spark.survivors import Survivors


def batch_of(query: Query, stream: int, table: pa.Table, numbers: Int64s | None = None) -> Batch:
    """Rows of a stream as a bucket takes them."""
    ref = query.streams[stream]
    return Batch(table.select(ref.schema.names), times_of(ref, table), numbers=numbers)


def relations_of(spec: Spec, number: int) -> dict[int, Batch]:
    """The rows of static relations that belong into a bucket, by stream. They are no part of the log."""
    if spec.relations is None:
        return {}
    rows = rows_of_bucket(spec.relations, spec.partitioning, number)
    return {stream: batch_of(spec.query, stream, table) for stream, table in rows.items()}


def refill(
    spec: Spec, number: int, driver: BucketDriver, record: Record, log: Log, left: Survivors | None = None
) -> None:
    """Let a new engine be where the log is.

    It was opened for the queries that are there now if it is known what is ``left`` for them, else for those that were
    there first.
    """
    relations, query, chunks = relations_of(spec, number), spec.query, record.chunks
    if left is not None:
        _take_left(query, driver, relations, record.watermark, left)
        return
    if not record.former and _load(query, driver, chunks, relations, record.watermark, log):
        return
    begin_with(driver, query, relations)
    changes = list(record.changes)
    for batch, group in groupby(chunks.read(log), key=lambda pair: pair[0].batch):
        while changes and changes[0].batch <= batch:
            _change(spec, driver, changes.pop(0))
        pairs = list(group)
        rows = {chunk.stream: _logged(query, chunks, chunk, table) for chunk, table in pairs}
        take_again(driver, query, rows, pairs[0][0].watermark)
    for change in changes:
        _change(spec, driver, change)
    # Batches without rows may have moved time on.
    take_again(driver, query, {}, record.watermark)


def _take_left(
    query: Query, driver: BucketDriver, relations: Mapping[int, Batch], watermark: int, left: Survivors
) -> None:
    """Take the rows that are left, with the queries that are there now."""
    join = driver.join
    if join is None:
        raise ThalwegError(f"query '{query.name}' is no join, and shares its run with nobody")
    if join.can_load:
        rows = _left(query, left.chunks)
        join.load([[each[s] for each in (relations, rows) if s in each] for s in range(len(query.streams))], watermark)
        return
    # What readers had that speak of nothing that leaves was emitted when it was found.
    lasting = [reader.name for reader in join.group.readers if reader.is_lasting]
    join.only({name: _first_rows(query, left, left.entered.get(name, 0)) for name in lasting})
    begin_with(driver, query, relations)
    take_again(driver, query, _left(query, left.chunks), watermark)
    join.only(None)


def _first_rows(query: Query, left: Survivors, batch: int) -> Int64s:
    """For each stream, the number of its first row from this batch on. Rows are numbered as they are taken again."""
    first = np.zeros(len(query.streams), np.int64)
    for chunk, _, alive in left.chunks:
        first[chunk.stream] += np.count_nonzero(alive) if chunk.batch < batch else 0
    for stream, ref in enumerate(query.streams):
        if ref.is_static and batch:
            first[stream] = NONE_YET
    return first


NONE_YET = 2**62
"""A number that no row has."""


def _left(query: Query, chunks: Sequence[tuple[Chunk, pa.Table, Bools]]) -> dict[int, Batch]:
    """The rows of some chunks that are left, by stream."""
    tables: dict[int, list[pa.Table]] = {}
    for chunk, table, alive in chunks:
        rows = plain(table)
        tables.setdefault(chunk.stream, []).append(rows if alive.all() else rows.filter(pa.array(alive)))
    return {stream: batch_of(query, stream, pa.concat_tables(parts)) for stream, parts in tables.items()}


def _change(spec: Spec, driver: BucketDriver, change: Change) -> None:
    """Other queries are there from now on, as they were then."""
    if spec.shared is not None:
        # Batches without rows may have moved time on: rows that waited for that were taken by those who were there.
        take_again(driver, spec.query, {}, change.watermark)
        driver.serve(spec.shared.group(change.registered), change.watermark)


def _load(
    query: Query, driver: BucketDriver, chunks: Chunks, relations: Mapping[int, Batch], watermark: int, log: Log
) -> bool:
    """Put the rows of all chunks into the windows at once, if the bucket can do that."""
    join = driver.join
    if join is None or not join.can_load:
        return False
    parts: list[list[Batch]] = [[relations[s]] if s in relations else [] for s in range(len(query.streams))]
    for chunk, table in chunks.read(log):
        parts[chunk.stream].append(_logged(query, chunks, chunk, table))
    join.load(parts, watermark)
    return True


def _logged(query: Query, chunks: Chunks, chunk: Chunk, table: pa.Table) -> Batch:
    """Rows of the log as the bucket took them when they came."""
    return batch_of(query, chunk.stream, plain(table), chunks.numbers(chunk, table))


def carry_over(spec: Spec, number: int, driver: BucketDriver, record: Record, compared: Comparison, log: Log) -> None:
    """Write the log anew for a query that has changed."""
    change = LogChange(spec.query, spec.selections, compared, record.watermark)
    record.chunks.rewrite(compared.places, change, log)
    if not change.counted:
        return
    # Which rows a ROWS window had is known to an engine that runs the query as it was.
    before = replace(spec, query=change.before_it_grew())
    former, other = Record(before), BucketDriver(Group.of(before.query), before.policies)
    former.chunks.restore(record.chunks.to_json())
    former.marks = record.marks
    other.plan = driver.plan
    other.reopen()
    refill(before, number, other, former, log)
    held = Held({stream: other.bucket.rows(stream) for stream in change.counted})
    record.chunks.rewrite(sorted(compared.places), held, log)
