"""What of the streams of a query goes to its buckets: which columns, by which hashes, and how they are packed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from thalweg.cql.query import Query, RowsWindow
from thalweg.engine.rows.expressions import ColumnKey, plain_column
from thalweg.options import Options
from thalweg.plan.partitioning import Coordinate, Partitioning
from thalweg.spark import sql
from thalweg.spark.below import is_guarded
from thalweg.spark.division import Division
from thalweg.spark.operator_session import measure_huge
from thalweg.spark.packing import MOMENT, PACKED, PARTITION, PASSES, Packer, T, hash_column, time_column
from thalweg.spark.relations import relation_blob
from thalweg.spark.streams import Stream

_TASKS = 2
"""Tasks that pack the rows of a stream, per core: each sends something to every bucket, so the fewer the better, and
with two for each core no core is idle for long where they differ in length."""


@dataclass(frozen=True, slots=True)
class BucketInput:
    """The streams and static relations of one query, on their way to its buckets.

    Attributes:
        spark: the session of the operator.
        streams: those of the app, by name.
        division: what of the query is computed before the buckets.
        partitioning: which buckets a row goes to.
        options: of the query.

    """

    spark: SparkSession
    streams: Mapping[str, Stream]
    division: Division
    partitioning: Partitioning
    options: Options

    def packed(self, stream: int, event_time: str, keys: tuple[int, ...]) -> DataFrame:
        """The rows of a stream, packed for the buckets, whose keys these are."""
        division, options = self.division, self.options
        inside = division.inside.streams[stream]
        known = self.streams[inside.stream]
        kind = known.schema.field(event_time).type
        time = time_column(event_time, kind)
        columns = [F.spark_partition_id().alias(PARTITION)]
        if time == T:
            columns.append(_microseconds(sql.quoted(event_time), kind).alias(T))
        if options.idle_timeout is not None:
            columns.append(F.unix_micros(F.current_timestamp()).alias(MOMENT))
        selection = division.filters[stream]
        if selection is not None:
            passes = sql.column(selection, known.names(inside.alias))
            columns.append(F.coalesce(passes, F.lit(False)).alias(PASSES))
        shown = self.shown(stream)
        columns += self._columns(stream, shown)
        packed = {*division.carried[stream].columns.names, *shown}
        schema = pa.schema(
            [
                *([pa.field(T, pa.int64())] if time == T else []),
                *(field for field in known.schema if field.name in packed),
                *(inside.schema.field(name) for name in division.computed[stream]),
            ]
        )
        measure_huge(self.spark, schema)
        packer = Packer(
            stream=stream,
            schema=schema,
            time=time,
            partitioning=self.partitioning,
            bucket_keys=keys,
            keeps_rejected=options.late_rows == "table",
        )
        # The number of the partition is that below: where the row came from, not where it is packed.
        rows = known.frame.select(*columns).coalesce(_TASKS * self.spark.sparkContext.defaultParallelism)
        return rows.mapInArrow(packer.__call__, PACKED)

    def relations(self) -> dict[int, bytes]:
        """The static relations of the query, read now, as blobs."""
        division = self.division
        collected = {}
        for stream, inside in enumerate(division.inside.streams):
            if inside.is_static:
                known = self.streams[inside.stream]
                selection, names = division.filters[stream], known.names(inside.alias)
                frame = known.frame if selection is None else known.frame.where(sql.column(selection, names))
                rows = frame.select(*self._columns(stream)).toArrow()
                collected[stream] = relation_blob(rows, inside.schema, self.partitioning, stream)
        return collected

    def shown(self, stream: int) -> tuple[str, ...]:
        """The columns that travel only because people may look at rows that are kept out."""
        ref = self.division.query.streams[stream]
        if self.options.late_rows != "table" or ref.is_static:
            return ()
        source, carried = self.streams[ref.stream].source, self.division.carried[stream].columns.names
        return tuple(name for name in source.schema.names if name not in carried and name not in source.unusable)

    def _columns(self, stream: int, shown: Sequence[str] = ()) -> list[Column]:
        """What a bucket, and the way to it, need of a row: its hashes, its own columns, and computed ones."""
        division = self.division
        inside = division.inside.streams[stream]
        names = self.streams[inside.stream].names(inside.alias)
        columns = [
            self._hash(stream, coordinate, names).alias(hash_column(axis))
            for axis, coordinate in enumerate(self.partitioning.known(stream))
        ]
        columns += [sql.quoted(name) for name in (*division.carried[stream].columns.names, *shown)]
        for name, expression in division.computed[stream].items():
            computed = sql.column(expression, names).cast(sql.spark_type(inside.schema.field(name).type))
            if is_guarded(name):
                computed = self._of_selected(stream, computed, names)
            columns.append(computed.alias(name))
        return columns

    def _of_selected(self, stream: int, value: Column, names: Mapping[ColumnKey, str]) -> Column:
        """A value that is computed of selected rows alone: of others it may be an error."""
        selection = self.division.query.streams[stream].selection
        return value if selection is None else F.when(sql.column(selection, names), value)

    def _hash(self, stream: int, coordinate: Coordinate, names: Mapping[ColumnKey, str]) -> Column:
        if coordinate.kind == "row":
            # Rows that differ in nothing that is carried may as well lie together.
            hashable = [f.name for f in self.division.carried[stream].columns if not pa.types.is_nested(f.type)]
            return F.xxhash64(*(sql.quoted(name) for name in hashable))
        kinds = [_type_of(self.division.query, stream, expression) for expression in coordinate.expressions]
        hashed = sql.hash_of([sql.column(expression, names) for expression in coordinate.expressions], kinds)
        counts = isinstance(self.division.query.streams[stream].window, RowsWindow)
        if counts or all(plain_column(expression) is not None for expression in coordinate.expressions):
            return hashed  # in a ROWS window a row that is not selected still counts among those of its partition
        # Rows that are not selected may lie anywhere, but somewhere.
        return F.coalesce(self._of_selected(stream, hashed, names), F.lit(0).cast("bigint"))


def _type_of(query: Query, stream: int, expression: Any) -> pa.DataType:
    for attribute in query.classes:
        if attribute.members.get(stream) == expression:
            return attribute.type
    return pa.null()


def _microseconds(time: Column, kind: pa.DataType) -> Column:
    if pa.types.is_integer(kind):
        return time.cast("bigint")
    return F.unix_micros(time.cast("timestamp"))
