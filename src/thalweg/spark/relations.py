"""Static relations: batch DataFrames, read once, of which every bucket takes the rows that can meet its tuples.

A relation is collected when the query is made, with the hashes by which its rows find their buckets, and shared with
all workers as one blob. A bucket that comes to life picks its own rows out of it. Nothing of it is durable: a restart
reads the relation again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

from thalweg.duckdb_scalar import duckdb_scalar
from thalweg.plan.partitioning import Partitioning
from thalweg.spark.packing import blob, hash_column, unblob

if TYPE_CHECKING:
    from pyspark import Broadcast


_DIGEST = """
SELECT COUNT(*), COALESCE(SUM(CAST(md5_number_lower(CAST(relation AS VARCHAR)) AS HUGEINT)), 0) FROM relation
"""


class Relations(Protocol):
    """The static relations of a query, where every worker can read them."""

    @property
    def value(self) -> Mapping[int, bytes]:
        """By position of the relation in the query, a blob of its rows; each with its hash on every axis it knows."""


class Broadcasted:
    """Relations as a broadcast variable of Spark, which is looked up when it is first needed.

    Spark also unpickles the operator in a process that prepares its state and is handed no broadcast variables.
    """

    def __init__(self, find: Callable[..., Broadcast[dict[int, bytes]]], *known_by: Any) -> None:
        self._find, self._known_by = find, known_by

    @staticmethod
    def of(variable: Broadcast[dict[int, bytes]]) -> Broadcasted:
        return Broadcasted(_same, variable)

    @property
    def value(self) -> Mapping[int, bytes]:
        return self._find(*self._known_by).value

    def __reduce__(self) -> tuple[Any, ...]:
        # The variable's own way of being pickled tells Spark that workers will need it.
        find, known_by = self._find(*self._known_by).__reduce__()
        return Broadcasted, (find, *known_by)


def _same(variable: Broadcast[dict[int, bytes]]) -> Broadcast[dict[int, bytes]]:
    return variable


def relation_blob(rows: pa.Table, columns: pa.Schema, partitioning: Partitioning, stream: int) -> bytes:
    """The rows of a relation, with these columns and their hashes, as buckets will look for them."""
    axes = range(len(partitioning.known(stream)))
    schema = pa.schema([*((hash_column(axis), pa.int64()) for axis in axes), *columns])
    return blob(rows.select(schema.names).cast(schema))


def digest(body: bytes) -> str:
    """A short text that other rows of a relation would not have; their order does not matter."""
    connection = duckdb_scalar()
    connection.register("relation", unblob(body))
    try:
        (count, total), *_ = connection.execute(_DIGEST).fetchall()
    finally:
        connection.unregister("relation")
    return f"{count} rows, {total:x}"


def rows_of_bucket(relations: Relations, partitioning: Partitioning, bucket: int) -> dict[int, pa.Table]:
    """The rows of each static relation that belong into a bucket."""
    return {stream: _routed(unblob(body), partitioning, stream, bucket) for stream, body in relations.value.items()}


def _routed(table: pa.Table, partitioning: Partitioning, stream: int, bucket: int) -> pa.Table:
    axes = [hash_column(axis) for axis in range(len(partitioning.known(stream)))]
    if not axes:
        return table
    hashes = [table.column(axis).to_numpy() for axis in axes]
    rows, buckets = partitioning.route(stream, hashes, table.num_rows)
    return table.drop_columns(axes).take(pa.array(rows[np.flatnonzero(buckets == bucket)]))
