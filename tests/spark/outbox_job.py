"""A query that writes to an outbox; as a process of its own, which kills itself: ``python -m tests.spark.outbox_job``.

It takes the directory of the job, and the moment of its death: in the commit of batch 1, when reader "a" has its
manifest and "b" has none (``manifests``); when all have, and one file is visible (``files``); or when all is published
and Spark does not know it (``noted``).
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.types import StructType

from tests.spark.runs import BRIEF
from thalweg.spark.outbox.directory import Outbox
from thalweg.spark.outbox.files import LocalFiles
from thalweg.spark.outbox.sink import OutboxSink, OutboxWriter, write_stream
from thalweg.spark.packing import blob
from thalweg.spark.session import local_session

DEADLY_BATCH = 1


def bodies(stream: DataFrame) -> DataFrame:
    """What a stateful operator will emit: rows of column x, a third of them for reader "a", the others for "b".

    Batches have several bodies of a reader, bodies that are NULL, and a column that the outbox does not know.
    """

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            given = batch.column("x").to_pylist()
            rows = [("b" if x % 3 else "a", blob(pa.table({"x": [x]})), x) for x in given]
            names, packed, other = zip(("a", None, 0), *rows, strict=True)
            yield pa.record_batch(
                [pa.array([*other], pa.int64()), pa.array([*packed], pa.binary()), pa.array([*names])],
                names=["other", "body", "reader"],
            )

    return stream.mapInArrow(pack, "other BIGINT, body BINARY, reader STRING")


def start(spark: SparkSession, root: Path, checkpoint: str = "checkpoint") -> StreamingQuery:
    """The query over the files that are there, a batch for each."""
    stream = spark.readStream.schema("x BIGINT").option("maxFilesPerTrigger", 1).parquet(str(root / "in"))
    return (
        write_stream(bodies(stream.repartition(2)), root / "outbox")
        .option("checkpointLocation", str(root / checkpoint))
        .trigger(availableNow=True)
        .start()
    )


def _die() -> None:
    """Kill everything that belongs to the job, this process last."""
    session = os.getsid(0)
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if os.getsid(int(entry.name)) == session and int(entry.name) != os.getpid():
                os.kill(int(entry.name), signal.SIGKILL)
        except ProcessLookupError:
            continue  # gone since
    os.kill(os.getpid(), signal.SIGKILL)


def deadly(moment: str) -> type[OutboxSink]:
    """A sink whose commit kills the job. A commit runs in a worker, which nothing patches but the sink itself."""

    class DeadlyWriter(OutboxWriter):
        def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
            if batchId == DEADLY_BATCH and moment == "manifests":
                _die_after(LocalFiles, "link", 1)
            if batchId == DEADLY_BATCH and moment == "files":
                _die_after(LocalFiles, "move", 1)
            super().commit(messages, batchId)
            if batchId == DEADLY_BATCH:
                _die()

    class DeadlySink(OutboxSink):
        def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
            return DeadlyWriter(self.options["directory"])

    return DeadlySink


def _die_after(owner: type[Any], name: str, calls: int) -> None:
    """Die after a function was called so often."""
    real: Callable[..., Any] = getattr(owner, name)
    left = [calls]

    def dying(*args: Any) -> Any:
        answer = real(*args)
        left[0] -= 1
        if not left[0]:
            _die()
        return answer

    setattr(owner, name, dying)


def open_readers(root: Path) -> Outbox:
    outbox = Outbox(root / "outbox")
    for reader in ("a", "b", "never"):
        outbox.open_reader(reader, pa.schema([("x", pa.int64())]))
    return outbox


if __name__ == "__main__":
    spark = local_session(cores=2, **BRIEF)
    spark.dataSource.register(deadly(sys.argv[2]))
    start(spark, Path(sys.argv[1])).awaitTermination()
