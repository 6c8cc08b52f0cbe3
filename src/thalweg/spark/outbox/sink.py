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
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import StructType

from thalweg.errors import OutboxError
from thalweg.spark.command_files import CommandFiles
from thalweg.spark.commands import new_command
from thalweg.spark.data_sources import register
from thalweg.spark.outbox.directory import Outbox
from thalweg.spark.outbox.files import local
from thalweg.spark.outbox.layout import Failure, Staged
from thalweg.spark.outbox.publishing import publish
from thalweg.spark.outbox.staging import Stage
from thalweg.spark.workers import task_done

READER, BODY = "reader", "body"
"""The columns of what is written: the name of a reader, and an Arrow stream with rows of its, or NULL."""
SINCE, FAILURE = "since", "failure"
"""Columns that may be there besides: the batch that the reader began with, and why it ends, or NULL."""
DELIVERED = (READER, SINCE, BODY, FAILURE)
_QUERY, _BATCH = "sql.streaming.queryId", "streaming.sql.batchId"
"""Where Spark tells tasks of a streaming query whose they are."""


def write_stream(
    frame: DataFrame, directory: str | Path, run: str | None = None, commands: CommandFiles | None = None
) -> DataStreamWriter:
    """Write the rows of a stream to an outbox; for the caller to give it a checkpoint and a trigger, and start it.

    ``run``: the name of the query, which is told of readers that have failed, by these ``commands``.
    """
    path = local(directory)
    if missing := [name for name in (READER, BODY) if name not in frame.columns]:
        raise OutboxError(
            f"what is written to the outbox {path} must have the columns {READER} and {BODY}, and lacks "
            f"{' and '.join(missing)}. Its columns are {', '.join(frame.columns)}."
        )
    register(frame.sparkSession, OutboxSink)
    for name, value in ((SINCE, F.lit(0).cast("bigint")), (FAILURE, F.lit(None).cast("string"))):
        frame = frame if name in frame.columns else frame.withColumn(name, value)
    rows = frame if frame.columns == [*DELIVERED] else frame.select(*DELIVERED)
    writer = rows.writeStream.format(OutboxSink.name()).option("directory", str(path))
    return writer if run is None or commands is None else writer.option("run", run).option("commands", commands.address)


class OutboxSink(DataSource):
    """The sink; its options are ``directory``, and ``run`` and ``commands`` as of :func:`write_stream`."""

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
        return OutboxWriter(directory, self.options.get("run"), self.options.get("commands"))


@dataclass(frozen=True, slots=True)
class Written(WriterCommitMessage):
    """What a task tells the commit: whose batch it is, and which files it has staged."""

    query: str
    staged: tuple[Staged, ...]
    failures: tuple[Failure, ...] = ()


class OutboxWriter(DataSourceStreamArrowWriter):
    """Writes the batches of a query to the outbox in ``directory``."""

    def __init__(self, directory: str, run: str | None = None, commands: str | None = None) -> None:
        self._directory, self._run, self._commands = directory, run, commands

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
                for reader, since, body, failure in zip(*(rows.column(name) for name in DELIVERED), strict=True):
                    if body.is_valid:
                        stage.add(reader.as_py(), body.as_buffer().to_pybytes(), since.as_py())
                    if failure.is_valid:
                        stage.fail(reader.as_py(), failure.as_py(), since.as_py())
            staged = tuple(stage.close())
        task_done()
        return Written(query, staged, tuple(stage.failures))

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
        failures = [failure for message in written for failure in message.failures]
        for query in queries:
            staged = (file for message in written for file in message.staged)
            publish(Outbox(self._directory), query, batchId, staged, failures)
        self._tell(failures)

    def _tell(self, failures: Sequence[Failure]) -> None:
        """Let the buckets in which these readers have not failed do without them, from the next batch on.

        A commit that is run again tells it again, and the buckets know which reader of that name was meant.
        """
        if self._run is not None and self._commands is not None:
            for name, since in dict.fromkeys((each.reader, each.since) for each in failures):
                CommandFiles(self._commands).send(new_command("leave", query=self._run, name=name, since=since))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Nothing: a commit of this batch may still be running (:mod:`~thalweg.spark.outbox.publishing` says why)."""
