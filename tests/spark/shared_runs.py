"""Queries that share runs on a real Spark: files as streams, slices of event time as batches."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from tests.spark.jobs import streams
from tests.spark.runs import write_stream
from thalweg.replayer import replay
from thalweg.spark.app import App
from thalweg.spark.outbox.directory import Outbox
from thalweg.spark.registry import Registry

SLICE, SLICES = 20_000_000, 6
"""Microseconds of event time in a batch, and how many there are."""
SECTORS = pa.table({"k": [f"key {k}" for k in range(40)], "sector": [f"s{k % 3}" for k in range(40)]})
NEWEST = "GREATEST(a.ts, b.ts) AS newest"
"""By which a test tells the batch that a result is of."""


def tables(seed: int = 5, rows: int = 600) -> dict[str, pa.Table]:
    """Streams a and b, and the static relation s."""
    made = streams(seed, rows=rows, keys=40)
    noted = {name: made[name].append_column("note", pa.array(["a note"] * rows)) for name in ("a", "b")}
    return {**noted, "s": SECTORS}


class SharedFiles:
    """Streams and runs in a directory; slices of the streams, of so many microseconds, are written one by one."""

    def __init__(self, root: Path, seed: int = 5, width: int = SLICE) -> None:
        self.root, self.tables, self._width = root, tables(seed), width
        self._written: dict[str, list[pa.Table]] = {"a": [], "b": []}

    @property
    def directory(self) -> Path:
        """Of the runs."""
        return self.root / "runs"

    @property
    def registry(self) -> Registry:
        return Registry(self.directory)

    def write(self, number: int) -> None:
        """Bring a slice of both streams."""
        for name, parts in self._written.items():
            micros = np.asarray(self.tables[name]["ts"].cast(pa.int64()))
            parts.append(self.tables[name].filter(pa.array(micros // self._width == number)))
            target = self.root / "in" / name
            write_stream(target / ".new", parts[-1:])
            new = target / ".new" / "0000.parquet"
            os.utime(new, (1e9 + number, 1e9 + number))  # Spark takes files in the order of their times
            new.replace(target / f"{number:04}.parquet")

    def app(self, spark: SparkSession, files_per_trigger: int = 1000) -> App:
        """An app that knows the streams."""
        app = App(spark, directory=self.root / "app")
        for name in ("a", "b"):
            schema = spark.createDataFrame(self.tables[name].slice(0, 1)).schema
            reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", files_per_trigger)
            app.stream(name, reader.parquet(str(self.root / "in" / name)), time="ts", lateness="0 seconds")
        app.stream("s", spark.createDataFrame(SECTORS))
        return app

    def published(self, name: str) -> pa.Table:
        """What readers of plain parquet find of a query."""
        outbox = Outbox(self.registry.published(name))
        schema, files = outbox.schema(name), sorted(outbox.places.reader(name).glob("*.parquet"))
        return pa.concat_tables([schema.empty_table(), *(pa.parquet.read_table(file) for file in files)])

    def alone(self, text: str, first: int = 0, end: int = SLICES) -> pa.Table:
        """The answer of a query by itself; of results with a time, those of the slices ``first`` to ``end`` - 1."""
        given: Mapping[str, pa.Table] = {
            name: table for name, table in self.tables.items() if f"{name}." in text or f"{name} " in text
        }
        times = {name: None if name == "s" else "ts" for name in given}
        answer = replay(text, given, time=times)
        if (first, end) == (0, SLICES):
            return answer
        slices = pc.divide(answer["newest"].cast(pa.int64()), self._width)
        return answer.filter(pc.and_(pc.greater_equal(slices, first), pc.less(slices, end)))


def sorted_rows(table: pa.Table) -> list[tuple[object, ...]]:
    """The rows in an order that is the same for the same rows."""
    return sorted((tuple(row.values()) for row in table.to_pylist()), key=repr)
