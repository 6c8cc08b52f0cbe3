"""A bucket's engine, filled from the log as far as the log goes; and the log of a query that has changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import groupby

import pyarrow as pa

from thalweg.cql.group import Group
from thalweg.cql.query import Query
from thalweg.driver.batches import begin_with, take_again
from thalweg.driver.bucket_driver import BucketDriver
from thalweg.engine.kernels.compiled import Int64s
from thalweg.engine.rows.batch import Batch
from thalweg.spark.bucket_spec import Spec
from thalweg.spark.chunks import Chunk, Chunks, Log, plain, times_of
from thalweg.spark.compatibility import Comparison
from thalweg.spark.log_change import Held, LogChange
from thalweg.spark.record import Change, Record
from thalweg.spark.relations import rows_of_bucket


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


def refill(spec: Spec, number: int, driver: BucketDriver, record: Record, log: Log) -> None:
    """Let a new engine, opened for the queries that were there first, be where the log is."""
    relations, query, chunks = relations_of(spec, number), spec.query, record.chunks
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


def _change(spec: Spec, driver: BucketDriver, change: Change) -> None:
    """Other queries are there from now on, as they were then."""
    if spec.shared is not None:
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
