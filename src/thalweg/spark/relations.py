"""Static relations: batch DataFrames, read once, of which every bucket takes the rows that can meet its tuples.

A relation is collected when the query is made, with the hashes by which its rows find their buckets, and shared with
all workers as one blob. A bucket that comes to life picks its own rows out of it. Nothing of it is durable: a restart
reads the relation again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np
import pyarrow as pa

from thalweg.plan.partitioning import Partitioning
from thalweg.spark.packing import blob, hash_column, unblob


class Relations(Protocol):
    """The static relations of a query, where every worker can read them: a broadcast variable of Spark is one."""

    @property
    def value(self) -> Mapping[int, bytes]:
        """By position of the relation in the query, a blob of its rows; each with its hash on every axis it knows."""


def relation_blob(rows: pa.Table, columns: pa.Schema, partitioning: Partitioning, stream: int) -> bytes:
    """The rows of a relation, with these columns and their hashes, as buckets will look for them."""
    axes = range(len(partitioning.known(stream)))
    schema = pa.schema([*((hash_column(axis), pa.int64()) for axis in axes), *columns])
    return blob(rows.select(schema.names).cast(schema))


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
