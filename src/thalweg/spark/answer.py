"""The answer of a query, as a DataFrame that looks at a checkpoint before it is started with it.

A checkpoint knows sources by their numbers alone. Spark asks them for new rows, and writes down under those numbers
what there is, before the first batch reaches the operator, which knows what query the checkpoint is of
(:mod:`thalweg.spark.compatibility`). There, a query of other streams is refused too late: by then the checkpoint has
rows of one stream where another's belong. So the streams of a checkpoint are noted in it, and compared when a
query is started. (A DataFrame that is derived from the answer is Spark's own; it is refused by the operator.)
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from thalweg.errors import CheckpointError

if TYPE_CHECKING:
    from pyspark.sql._typing import OptionalPrimitiveType

_LOCATION = "checkpointlocation"
"""Spark's options have no case."""
_NOTE = "thalweg-sources.json"


class Answer(ClassicDataFrame):
    """What ``App.sql`` returns: a DataFrame with the query and the streams that it comes from."""

    def __init__(self, frame: DataFrame, query: str, streams: Sequence[str]) -> None:
        super().__init__(frame._jdf, frame.sparkSession)
        self._query = query
        self._streams = list(streams)

    @property
    def writeStream(self) -> DataStreamWriter:  # noqa: N802 - Spark's name
        return _Writer(self)


class _Writer(DataStreamWriter):
    """Spark's writer, which first compares the streams with those of the checkpoint."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer)
        self._answer = answer
        self._location: str | None = None

    def option(self, key: str, value: OptionalPrimitiveType) -> DataStreamWriter:
        self._note_option(key, value)
        return super().option(key, value)

    def options(self, **options: OptionalPrimitiveType) -> DataStreamWriter:
        for key, value in options.items():
            self._note_option(key, value)
        return super().options(**options)

    def start(self, *args: Any, **options: Any) -> StreamingQuery:
        self._compare(options)
        return super().start(*args, **options)

    def toTable(self, *args: Any, **options: Any) -> StreamingQuery:  # noqa: N802 - Spark's name
        self._compare(options)
        return super().toTable(*args, **options)

    def _note_option(self, key: str, value: OptionalPrimitiveType) -> None:
        if key.lower() == _LOCATION and value is not None:
            self._location = str(value)

    def _compare(self, options: dict[str, Any]) -> None:
        for key, value in options.items():
            self._note_option(key, value)
        if self._location is not None:
            compare(self._spark, self._location, self._answer._query, self._answer._streams)


def compare(spark: SparkSession, location: str, query: str, streams: list[str]) -> None:
    """Refuse a checkpoint of other streams; note the streams of a new one."""
    jvm: Any = spark._jvm
    path = jvm.org.apache.hadoop.fs.Path
    directory = path(location)
    files = directory.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
    note, offsets = path(directory, _NOTE), path(directory, "offsets")
    if files.exists(offsets) and files.listStatus(offsets):
        if not files.exists(note):
            return
        opened = files.open(note)
        try:
            noted = json.loads(jvm.org.apache.commons.io.IOUtils.toString(opened, "UTF-8"))
        finally:
            opened.close()
        if noted != streams:
            raise CheckpointError(
                f"query '{query}' cannot go on from the checkpoint {location}: it read the streams {', '.join(noted)} "
                f"and would now read {', '.join(streams)}. Start with a new checkpoint directory."
            )
    else:
        out = files.create(note, True)
        try:
            out.write(json.dumps(streams).encode())
        finally:
            out.close()
