"""The rows of a DataFrame as bodies for one reader of an outbox."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema

from thalweg.spark.packing import blobs
from thalweg.spark.workers import task_done

DELIVERY = "reader STRING, since BIGINT, body BINARY, failure STRING"
"""What an outbox takes; see :mod:`~thalweg.spark.outbox.sink`."""

Batches = Iterator[pa.RecordBatch]


def delivered_schema(frame: DataFrame) -> pa.Schema:
    """The columns of the rows of a DataFrame, as an outbox keeps them."""
    return to_arrow_schema(frame.schema, timezone="UTC")


def delivering(reader: str, schema: pa.Schema) -> Callable[[Batches], Batches]:
    """For Spark: the rows of a task, packed for a reader whose rows have these columns."""

    def deliver(batches: Batches) -> Batches:
        for batch in batches:
            table = pa.Table.from_batches([batch]).cast(schema)
            bodies = blobs(table)
            count = len(bodies)
            columns = [[reader] * count, [0] * count, bodies, [None] * count]
            kinds = [pa.string(), pa.int64(), pa.binary(), pa.string()]
            arrays = [pa.array(each, kind) for each, kind in zip(columns, kinds, strict=True)]
            yield pa.record_batch(arrays, names=["reader", "since", "body", "failure"])
        task_done()

    return deliver
