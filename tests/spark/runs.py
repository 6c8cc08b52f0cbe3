"""Queries on a real Spark: files as streams, in as many micro-batches as there are files."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from thalweg.spark.app import App

BRIEF: dict[str, str] = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}
"""For sessions that end before it pays to compile all of Spark thoroughly, which takes two cores minutes."""


def write_stream(directory: Path, parts: Sequence[pa.Table]) -> None:
    """A file per micro-batch; Spark reads them in the order of their times."""
    directory.mkdir(parents=True, exist_ok=True)
    for number, part in enumerate(parts):
        hidden = directory / f".{number:04}.parquet"
        pq.write_table(part, hidden)
        os.utime(hidden, (1e9 + number, 1e9 + number))
        hidden.replace(directory / f"{number:04}.parquet")


def one_command_per_batch(patch: pytest.MonkeyPatch) -> None:
    """Let every micro-batch take a single command, as it takes a single file of a stream."""
    patch.setattr("thalweg.spark.control.MOST_COMMANDS", 1)


def cut(table: pa.Table, count: int) -> list[pa.Table]:
    """A table in ``count`` parts, in order."""
    ends = [table.num_rows * i // count for i in range(count + 1)]
    return [table.slice(start, end - start) for start, end in pairwise(ends)]


class FileRun:
    """One query over files in a directory; it can be run, stopped, and run again from its checkpoint.

    The files in ``in/NAME`` are a stream, those in ``static/NAME`` a static relation.
    """

    def __init__(
        self, spark: SparkSession, root: Path, cql: str, *, time: str = "ts", lateness: Mapping[str, str] | None = None
    ) -> None:
        self._spark, self._root, self.cql, self._time = spark, root, cql, time
        self._lateness = lateness or {}

    def app(self) -> App:
        app = App(self._spark, directory=self._root / "an app")
        for source in sorted((self._root / "in").iterdir()):
            schema = self._spark.read.parquet(str(source)).schema
            frame = self._spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(source))
            self.register(app, source.name, frame)
        for source in sorted((self._root / "static").glob("*")):
            app.stream(source.name, self._spark.read.parquet(str(source)))
        return app

    def register(self, app: App, name: str, frame: DataFrame) -> None:
        """Make a stream known to the app."""
        app.stream(name, frame, time=self._time, lateness=self._lateness.get(name, "0 seconds"))

    def run(
        self, options: Mapping[str, Any] | None = None, send: Callable[[App], None] = lambda app: None
    ) -> list[dict[str, Any]]:
        """Process what there is, and the commands that are sent; the metrics of every micro-batch."""
        app = self.app()
        answer = app.sql(self.cql, options)
        send(app)
        query = (
            answer.writeStream.format("parquet")
            .option("checkpointLocation", str(self._root / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(self._root / "out"))
        )
        query.awaitTermination()
        return [app.metrics(progress=progress) for progress in query.recentProgress]

    def end(self, options: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        """Say that the input has ended, and process that."""
        self.app().command("end")
        return self.run(options)

    def answer(self, schema: pa.Schema) -> pa.Table:
        """What the sink has."""
        files = self._spark.read.schema(self._spark.read.parquet(str(self._root / "out")).schema)
        return files.parquet(str(self._root / "out")).toArrow().cast(schema)
