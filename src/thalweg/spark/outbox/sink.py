"""The outbox as a sink of Spark: a Python data source that takes Arrow batches.

Spark calls ``write`` in each task and ``commit`` once for a batch, in a Python process beside the driver. What they do
is in :mod:`~thalweg.spark.outbox.staging` and :mod:`~thalweg.spark.outbox.publishing`.

A commit is not told whose batch it is. Tasks are: Spark gives them the id of the query, which its checkpoint keeps. So
they pass it on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import StructType

from thalweg.errors import OutboxError
from thalweg.spark.data_sources import register
from thalweg.spark.outbox.directory import Outbox
from thalweg.spark.outbox.files import local
from thalweg.spark.outbox.layout import Staged
from thalweg.spark.outbox.publishing import publish
from thalweg.spark.outbox.staging import Stage
from thalweg.spark.workers import task_done

READER, BODY = "reader", "body"
"""The columns of what is written: the name of a reader, and an Arrow stream with rows of its, or NULL."""
_QUERY, _BATCH = "sql.streaming.queryId", "streaming.sql.batchId"
"""Where Spark tells tasks of a streaming query whose they are."""


def write_stream(frame: DataFrame, directory: str | Path) -> DataStreamWriter:
    """Write the rows of a stream to an outbox; for the caller to give it a checkpoint and a trigger, and start it."""
    path = local(directory)
    if missing := [name for name in (READER, BODY) if name not in frame.columns]:
        raise OutboxError(
            f"what is written to the outbox {path} must have the columns {READER} and {BODY}, and lacks "
            f"{' and '.join(missing)}. Its columns are {', '.join(frame.columns)}."
        )
    register(frame.sparkSession, OutboxSink)
    rows = frame if frame.columns == [READER, BODY] else frame.select(READER, BODY)
    return rows.writeStream.format(OutboxSink.name()).option("directory", str(path))


class OutboxSink(DataSource):
    """The sink; its option is ``directory``."""

    @classmethod
    def name(cls) -> str:
        return "thalweg_outbox"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802, ARG002 - Spark's
        directory = self.options["directory"]
        if overwrite:
            raise OutboxError(
                f"the outbox {directory} only grows, and the output mode 'complete' replaces everything in each batch. "
                "Use the output mode 'append'."
            )
        return OutboxWriter(directory)


@dataclass(frozen=True, slots=True)
class Written(WriterCommitMessage):
    """What a task tells the commit: whose batch it is, and which files it has staged."""

    query: str
    staged: tuple[Staged, ...]


class OutboxWriter(DataSourceStreamArrowWriter):
    """Writes the batches of a query to the outbox in ``directory``."""

    def __init__(self, directory: str) -> None:
        self._directory = directory

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """In a task: stage the rows of its partition."""
        task = TaskContext.get()
        query = None if task is None else task.getLocalProperty(_QUERY)
        batch = None if task is None else task.getLocalProperty(_BATCH)
        if task is None or query is None or batch is None:
            raise OutboxError(f"the outbox {self._directory} is written by streaming queries of Spark alone.")
        outbox = Outbox(self._directory)
        outbox.check(query, int(batch))  # the commit would refuse it, too, after all the work
        with Stage(outbox, int(batch), task.partitionId()) as stage:
            for rows in iterator:
                for reader, body in zip(rows.column(READER), rows.column(BODY), strict=True):
                    if body.is_valid:
                        stage.add(reader.as_py(), body.as_buffer().to_pybytes())
            staged = tuple(stage.close())
        task_done()
        return Written(query, staged)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Beside the driver: publish what the tasks have staged."""
        written = [message for message in messages if isinstance(message, Written)]
        queries = {message.query for message in written}
        if len(written) < len(messages) or len(queries) > 1:
            raise OutboxError(
                f"batch {batchId} of the outbox {self._directory} cannot be committed: {len(messages)} tasks sent "
                f"{len(written)} messages, of the queries {', '.join(sorted(queries))}. This commit has published "
                "nothing."
            )
        for query in queries:
            publish(Outbox(self._directory), query, batchId, (file for message in written for file in message.staged))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Nothing: a commit of this batch may still be running (:mod:`~thalweg.spark.outbox.publishing` says why)."""
