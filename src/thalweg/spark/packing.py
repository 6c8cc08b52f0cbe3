"""Rows to blobs and back: what goes through the shuffle and the stateful operator.

Handing rows to a stateful Python operator one by one costs more than joining them. So each task
packs its rows into blobs for each bucket, Arrow IPC streams, before the shuffle, and the operator's results travel
as blobs too and are unpacked behind it.

A task also tells *every* bucket how far its stream has come, whether or not it has rows for it: buckets learn of
time from that, so that none waits for a row of its own. Tasks times buckets are many where a source has many
partitions. So a task takes several of them, one after the other.

Which ones it takes is up to Spark, which looks at where their data lies. The order of rows does not depend on it: they
count in the order of the source's partitions. Each row says which one it is of. A blob has rows of one partition, or
of several with consecutive numbers, between which no other task can have any.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thalweg.engine.time_bounds import GREATEST_TIME, NEVER
from thalweg.plan.partitioning import Partitioning
from thalweg.spark.workers import task_done

T, MOMENT, PASSES, PARTITION = "__t", "__moment", "__passes", "__partition"
"""Columns that Spark computes: where they are needed, event time (if the time column is no timestamp), the time of the
batch (for idle timeouts), both in microseconds, and whether a row can join; always, the partition of the source."""
PACKED = (
    "bucket INT, stream INT, place BIGINT, body BINARY, rejected BINARY, newest BIGINT, moment BIGINT, bad BIGINT, "
    "command STRING"
)
_PACKED = pa.schema(
    [
        ("bucket", pa.int32()),
        ("stream", pa.int32()),
        ("place", pa.int64()),
        ("body", pa.binary()),
        ("rejected", pa.binary()),
        ("newest", pa.int64()),
        ("moment", pa.int64()),
        ("bad", pa.int64()),
        ("command", pa.string()),
    ]
)
_FLUSH_BYTES = 1 << 26
"""What a task holds, about, before it packs it; far below the 2 GiB that a column of blobs can take, with copies."""

BATCH_ROWS = 1 << 13
"""Rows that Spark hands to Python at a time, and blobs, too: it does not look at how large they are (see
:func:`thalweg.spark.app.App.stream`)."""
_BODY_BYTES = (1 << 29) // BATCH_ROWS
"""How large a blob is, about: a batch of them stays below half a gigabyte, and none is huge to Java's collector."""

Batches = Iterator[pa.RecordBatch]
_Rows = TypeVar("_Rows", pa.RecordBatch, pa.Table)


def time_column(time: str, kind: pa.DataType) -> str:
    """Where a stream's packed rows have their event time: in its own column if that counts microseconds."""
    return time if pa.types.is_timestamp(kind) and kind.unit == "us" else T


def event_times(table: pa.Table, column: str) -> pa.ChunkedArray:
    """Event times in microseconds, NULL where there is none."""
    return table.column(column).cast(pa.int64())


def usable(times: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """Which of these are event times: neither missing nor out of reach; None: all are."""
    ends = pc.min_max(times).as_py()
    if not times.null_count and (not len(times) or max(ends["max"], -ends["min"]) <= GREATEST_TIME):
        return None
    return pc.fill_null(pc.and_(pc.less_equal(times, GREATEST_TIME), pc.greater_equal(times, -GREATEST_TIME)), False)


def hash_column(axis: int) -> str:
    """The name of the column with a row's hash on an axis that its stream knows."""
    return f"__hash{axis}"


@dataclass(frozen=True, slots=True)
class Packer:
    """Packs the rows of one stream; called by Spark with the batches of a task.

    Attributes:
        stream: its position in the query.
        schema: the columns to pack, as the operator knows them.
        time: the one with the event time.
        partitioning: the way of rows to buckets.
        bucket_keys: by what number Spark knows each bucket.
        keeps_rejected: whether rows that can join nothing are wanted: those without an event time, and those that
            fail a selection and are late. Else they are only counted.

    """

    stream: int
    schema: pa.Schema
    time: str
    partitioning: Partitioning
    bucket_keys: tuple[int, ...]
    keeps_rejected: bool

    def __call__(self, batches: Batches) -> Batches:
        held: list[pa.RecordBatch] = []
        size, place, last = 0, 0, -1
        news = _News(self.bucket_keys)
        most = _FLUSH_BYTES // self.partitioning.copies(self.stream)
        parts = (part for batch in batches for run in _by_partition(batch) for part in in_parts(run, most))
        for part in parts:
            partition = part.column(PARTITION)[0].as_py()
            if held and (size >= most or partition not in (last, last + 1)):
                packed = self._pack(pa.Table.from_batches(held), place, news)
                yield packed
                held, size, place = [], 0, place + packed.num_rows
            if not held and partition != last:
                place = partition << 32
            held.append(part)
            size += part.nbytes
            last = partition
        if held:
            yield self._pack(pa.Table.from_batches(held), place, news, is_last=True)
        task_done()

    def _pack(self, table: pa.Table, place: int, news: _News, *, is_last: bool = False) -> pa.RecordBatch:
        """A row for each blob; the last time also one for each bucket that is not up to date.

        Places, from ``place`` on, order the blobs of a stream as their rows came.

        Rows that can join nothing go to one bucket, any: all know which rows with an event time are late.
        """
        moment = pc.max(table.column(MOMENT)).as_py() if MOMENT in table.column_names else 0
        times = event_times(table, self.time)
        has_time = usable(times)
        rejected: dict[int, list[bytes]] = {}
        if has_time is not None:
            news.bad += len(times) - pc.sum(has_time).as_py()
            if self.keeps_rejected:
                self._reject(table.filter(pc.invert(has_time)), self.schema, rejected)
            table, times = table.filter(has_time), times.filter(has_time)
        news.newest = max(news.newest, pc.max(times).as_py() if len(times) else NEVER)
        if PASSES in table.column_names:
            # Not before: a row that can join nothing still says how far time has come, and may be late.
            passes = table.column(PASSES)
            only_times = pa.schema([pa.field(self.time, pa.int64())])
            failed = table.filter(pc.invert(passes))
            self._reject(failed, self.schema if self.keeps_rejected else only_times, rejected)
            table = table.filter(passes)
        rows: list[tuple[int, bytes | None, bytes | None]] = []
        for key, bodies in zip(self.bucket_keys, self._bodies(table), strict=True):
            own = [(key, body, out) for body, out in zip_longest(bodies, rejected.get(key, ()))]
            rows += own or ([(key, None, None)] if is_last and news.is_due(key) else [])
        if is_last and news.bad and not rows:
            rows.append((self.bucket_keys[0], None, None))
        count = len(rows)
        bad = news.tell({key for key, _, _ in rows})
        keys, blobs_in, blobs_out = zip(*rows, strict=True) if rows else ((), (), ())
        return pa.record_batch(
            [
                pa.array(keys, pa.int32()),
                pa.array([self.stream] * count, pa.int32()),
                pa.array(range(place, place + count), pa.int64()),
                pa.array(blobs_in, pa.binary()),
                pa.array(blobs_out, pa.binary()),
                pa.array([news.newest] * count, pa.int64()),
                pa.array([moment] * count, pa.int64()),
                pa.array([bad, *[0] * (count - 1)][:count], pa.int64()),
                pa.nulls(count, pa.string()),
            ],
            schema=_PACKED,
        )

    def _reject(self, table: pa.Table, schema: pa.Schema, rejected: dict[int, list[bytes]]) -> None:
        """Add rows that can join nothing, of each partition to one bucket."""
        for batch in table.to_batches():
            for run in _by_partition(batch):
                key = self.bucket_keys[run.column(PARTITION)[0].as_py() % len(self.bucket_keys)]
                rejected.setdefault(key, []).extend(blobs(_conform(pa.Table.from_batches([run]), schema)))

    def _bodies(self, table: pa.Table) -> list[list[bytes]]:
        """The blobs of each bucket."""
        if not table.num_rows:
            return [[] for _ in self.bucket_keys]
        known = self.partitioning.known(self.stream)
        hashes = [table.column(hash_column(i)).to_numpy() for i in range(len(known))]
        table = _conform(table, self.schema)
        if self.partitioning.buckets == 1:
            return [blobs(table)]
        rows, buckets = self.partitioning.route(self.stream, hashes, table.num_rows)
        order = np.argsort(buckets.astype(np.uint16), kind="stable")
        ends = np.cumsum(np.bincount(buckets, minlength=self.partitioning.buckets))
        table = table.take(pa.array(rows[order])).combine_chunks()
        starts = np.concatenate([[0], ends[:-1]])
        return [
            blobs(table.slice(start, end - start)) for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
        ]


class _News:
    """What a task has to tell: how far its stream has come, and how many rows have no event time; and whom it told."""

    def __init__(self, bucket_keys: Iterable[int]) -> None:
        self.newest = NEVER
        self.bad = 0
        self._told: dict[int, int | None] = dict.fromkeys(bucket_keys)

    def is_due(self, key: int) -> bool:
        """Whether a bucket has not heard the newest."""
        told = self._told[key]
        return told is None or told < self.newest

    def tell(self, keys: Iterable[int]) -> int:
        """These buckets hear the newest, and one of them how many rows were bad: as many as this returns."""
        told = dict.fromkeys(keys, self.newest)
        self._told |= told
        bad, self.bad = (self.bad, 0) if told else (0, self.bad)
        return bad


def _by_partition(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """A batch in parts of one partition of the source each, in order."""
    if not batch.num_rows:
        return
    ends = np.flatnonzero(np.diff(batch.column(PARTITION).to_numpy())) + 1
    for start, end in pairwise([0, *ends.tolist(), batch.num_rows]):
        yield batch.slice(start, end - start)


def in_parts(rows: _Rows, most: int) -> Iterator[_Rows]:
    """Rows in parts of at most so many bytes, unless a single row has more; none if there are none."""
    size, count = rows.nbytes, rows.num_rows
    if count and (size <= most or count == 1):
        yield rows
        return
    # Rows may differ in size: a part that is still too large is divided again.
    each = max(1, min(count * most // max(1, size), count - 1))
    for start in range(0, count, each):
        yield from in_parts(rows.slice(start, each), most)


def _conform(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The columns of a schema, in its types (Spark gives times the zone of the session)."""
    return table.select(schema.names).cast(schema)


def blob(table: pa.Table) -> bytes:
    """A table as bytes."""
    return bundle([table])


def blobs(table: pa.Table) -> list[bytes]:
    """A table as blobs that are neither too large nor empty."""
    return [blob(part) for part in in_parts(table, _BODY_BYTES)]


def bundle(tables: Iterable[pa.Table], compression: str | None = None) -> bytes:
    """Tables, one behind the other, as bytes; the same tables make the same bytes."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    for table in tables:
        with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
            writer.write_table(table)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def unblob(body: bytes) -> pa.Table:
    """The table of a blob, without copying it."""
    return pa.ipc.open_stream(pa.py_buffer(body)).read_all()


def unbundle(body: bytes) -> list[pa.Table]:
    """The tables of a bundle; without copying them, if it is not compressed."""
    source = pa.BufferReader(pa.py_buffer(body))
    tables = []
    while source.tell() < len(body):
        tables.append(pa.ipc.open_stream(source).read_all())
    return tables


def unpacker(column: str) -> Callable[[Batches], Batches]:
    """For Spark: the rows of the blobs in a column."""

    def unpack(batches: Batches) -> Batches:
        for batch in batches:
            for body in batch.column(column):
                if body.is_valid:
                    yield from pa.ipc.open_stream(body.as_buffer()).read_all().to_batches()
        task_done()

    return unpack
