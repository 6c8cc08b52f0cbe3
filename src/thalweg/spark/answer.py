"""The answer of a query, as a DataFrame that looks at a checkpoint before it is started with it.

A checkpoint decides how many buckets there are. It also decides whether the query may go on from it
(:mod:`thalweg.spark.compatibility`): whether it fits, and has not ended. So ``start`` asks the checkpoint first. This
holds too for what selects, filters and names columns of an answer. It cannot be made anew for other buckets, though:
its columns are those of the answer it was derived from. Any other DataFrame that is derived from an answer is Spark's
own: there the stream of commands refuses what does not fit, before Spark writes anything down.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from inspect import signature
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from thalweg.spark.checkpoint import Checkpoint, choose_file_manager
from thalweg.spark.command_source import ended
from thalweg.spark.compatibility import check
from thalweg.spark.description import BUCKETS, Description

_LOCATION = "checkpointlocation"
"""Spark's options have no case."""
_DEFAULT_LOCATION = "spark.sql.streaming.checkpointLocation"
_STEPS = (
    "outputMode",
    "format",
    "option",
    "options",
    "partitionBy",
    "clusterBy",
    "queryName",
    "trigger",
    "foreach",
    "foreachBatch",
)
"""The methods by which a writer is told what to do."""
_DERIVING = (
    "alias",
    "coalesce",
    "drop",
    "dropna",
    "fillna",
    "filter",
    "hint",
    "mapInArrow",
    "mapInPandas",
    "observe",
    "repartition",
    "replace",
    "select",
    "selectExpr",
    "to",
    "toDF",
    "where",
    "withColumn",
    "withColumnRenamed",
    "withColumns",
    "withColumnsRenamed",
    "withMetadata",
)
"""The methods by which a row of an answer becomes a row, or none."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A query that can be started, and what a checkpoint would remember of it."""

    frame: DataFrame
    described: Description


class Answer(ClassicDataFrame):
    """What ``App.sql`` returns.

    Args:
        query: the query's name.
        prepare: makes the query, to go on from a checkpoint of this description, or to begin; and whether all that is
            left to do there is a batch that ends the input.
        sessions: those that the streams were opened in.
        prepared: the query to begin with, if it has been made.

    """

    def __init__(
        self,
        query: str,
        prepare: Callable[[Description | None, bool], Prepared],
        sessions: Sequence[SparkSession] = (),
        prepared: Prepared | None = None,
    ) -> None:
        self._query, self._prepare, self.sessions = query, prepare, sessions
        self._prepared = prepared or prepare(None, False)
        super().__init__(self._prepared.frame._jdf, self._prepared.frame.sparkSession)

    def derived(self, frame: DataFrame) -> Answer:
        """A DataFrame that was made of this one, and asks the checkpoint likewise."""
        prepared = replace(self._prepared, frame=frame)
        return Answer(self._query, lambda *_: prepared, self.sessions, prepared)

    @property
    def writeStream(self) -> DataStreamWriter:  # noqa: N802 - Spark's name
        return _Writer(self)

    def fitting(self, checkpoint: Checkpoint, name: str | None = None) -> DataFrame:
        """The query as it can go on from a checkpoint; an error if it cannot. ``name``: what the user calls it."""
        return self._fitted(checkpoint, name)[0].frame

    def changes(self, checkpoint: Checkpoint, name: str | None = None) -> list[str]:
        """What has changed since the query that a checkpoint is of, and what it means; an error if it cannot go on."""
        return self._fitted(checkpoint, name)[1]

    def _fitted(self, checkpoint: Checkpoint, name: str | None) -> tuple[Prepared, list[str]]:
        known = checkpoint.description()
        prepared = self._prepared
        if known is None:
            return prepared, []
        query = name or self._query
        if checkpoint.has_ended:
            raise ended(query, checkpoint.location)
        is_ending = checkpoint.is_ending
        if is_ending or known.get(BUCKETS) != prepared.described[BUCKETS]:
            prepared = self._prepare(known, is_ending)
        return prepared, check(query, known, prepared.described, checkpoint.location).notes


class _Writer(DataStreamWriter):
    """Spark's writer, which remembers what it was told, and tells it to the writer of the query that fits."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer)
        self._answer = answer
        self._told: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
        self._location: str | None = None
        self._name: str | None = None

    def start(self, *args: Any, **options: Any) -> StreamingQuery:
        return self._started(DataStreamWriter.start, args, options)

    def toTable(self, *args: Any, **options: Any) -> StreamingQuery:  # noqa: N802 - Spark's name
        return self._started(DataStreamWriter.toTable, args, options)

    def _started(
        self, start: Callable[..., StreamingQuery], args: tuple[Any, ...], options: dict[str, Any]
    ) -> StreamingQuery:
        self._note(options)
        if isinstance(name := signature(start).bind(self, *args, **options).arguments.get("queryName"), str):
            self._name = name
        location = self._location or self._default_location()
        if location is None:
            return start(self, *args, **options)
        checkpoint = Checkpoint(self._spark, location)
        writer = DataStreamWriter(self._answer.fitting(checkpoint, self._name))
        for step, arguments, named in self._told:
            getattr(writer, step)(*arguments, **named)
        choose_file_manager((self._spark, *self._answer.sessions), is_local=checkpoint.is_local)
        return start(writer, *args, **options)

    def _note(self, options: dict[str, Any]) -> None:
        for key, value in options.items():
            if key.lower() == _LOCATION and value is not None:
                self._location = str(value)

    def _default_location(self) -> str | None:
        """Where Spark puts the checkpoints of queries that have a name, if it was told a place for all of them."""
        place = self._spark.conf.get(_DEFAULT_LOCATION, None)
        return f"{place}/{self._name}" if place and self._name else None


def _remembered(step: str) -> Callable[..., DataStreamWriter]:
    method = getattr(DataStreamWriter, step)

    def tell(writer: _Writer, *args: Any, **named: Any) -> DataStreamWriter:
        method(writer, *args, **named)  # what is wrong with it is said now
        writer._told.append((step, args, named))
        given = signature(method).bind(writer, *args, **named).arguments
        if step == "option":
            writer._note({given["key"]: given["value"]})
        elif step == "options":
            writer._note(given.get("options", {}))
        elif step == "queryName":
            writer._name = given["queryName"]
        return writer

    return tell


for _step in _STEPS:
    setattr(_Writer, _step, _remembered(_step))


def _deriving(name: str) -> Callable[..., DataFrame]:
    method = getattr(ClassicDataFrame, name)

    @wraps(method)
    def derive(answer: Answer, *args: Any, **named: Any) -> DataFrame:
        return answer.derived(method(answer, *args, **named))

    return derive


for _name in _DERIVING:
    setattr(Answer, _name, _deriving(_name))
