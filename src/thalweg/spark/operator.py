"""The one stateful operator of a query, as Spark runs it.

Its key is the bucket, its state the bucket's chunks and record (:mod:`thalweg.spark.bucket_task` has what it does).

Spark also loads the operator in a process of the driver, once at the start of a query, to ask which state variables it
has. The first batch waits for that. So nothing here loads the engine before there are rows, and what the buckets run
is unpacked no earlier.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, IntegerType, LongType, StructField, StructType

from thalweg.engine.feedback.savings import Savings

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql.streaming.stateful_processor import TimerValues

    from thalweg.spark.bucket_spec import Spec

TOTALS = ("results", "state_tuples", "state_entries", "state_bytes", "probes", "completions", "rebuilds")
SAVED = tuple(each.name for each in fields(Savings))
EMITTED = ", ".join(
    [
        "bucket INT, reader STRING, since BIGINT, body BINARY, failure STRING, metrics STRING",
        *(f"{name} BIGINT" for name in (*TOTALS, *SAVED)),
    ]
)
"""What the operator emits: what there is for each reader (see :class:`Delivery`), all metrics as a text, and those that
Spark adds up, also as numbers."""

# A schema as text would be sent to the JVM to be parsed, in every task anew.
_KEY = StructType([StructField("batch", LongType()), StructField("number", IntegerType())])
_VALUE = StructType([StructField("body", BinaryType())])


class BucketOperator(StatefulProcessor):
    """Runs the buckets of one query."""

    def __init__(self, spec: Spec) -> None:
        self._spec: Spec | None = spec
        self._packed = b""

    def __getstate__(self) -> bytes:
        return self._packed or pickle.dumps(self._spec)

    def __setstate__(self, packed: bytes) -> None:
        self._spec, self._packed = None, packed

    @property
    def spec(self) -> Spec:
        """What the buckets run."""
        if self._spec is None:
            self._spec = pickle.loads(self._packed)  # noqa: S301 - packed by the driver, within Spark's own pickle
        return self._spec

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._state = handle.getMapState("bucket", _KEY, _VALUE)

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: TimerValues,  # noqa: N803, ARG002
    ) -> Iterator[pd.DataFrame]:
        from thalweg.spark.bucket_task import run_bucket

        yield from run_bucket(self.spec, int(key[0]), self._state, rows)

    def close(self) -> None:
        """Engines outlive the task."""
        from thalweg.spark.workers import task_done

        task_done()
