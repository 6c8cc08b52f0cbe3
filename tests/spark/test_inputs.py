"""What may be given to ``thalweg.App``, and what is said about what may not."""

from __future__ import annotations

import datetime as dt
import warnings
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr

import thalweg
from tests.spark.runs import write_stream
from thalweg.errors import InputError, OptionError, QueryError, ThalwegError

MILLIS = 1_700_000_000_000
JOIN = "SELECT a.ts AS x, b.k, RESULT_TIME() AS t FROM a [RANGE 4 SECONDS], b [RANGE 4 SECONDS] WHERE a.k = b.k"


@pytest.fixture(scope="module")
def app(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> thalweg.App:
    return thalweg.App(spark, directory=tmp_path_factory.mktemp("app"))


def streaming(spark: SparkSession, **columns: str) -> DataFrame:
    """A stream of Spark's rate source with columns of these expressions."""
    return spark.readStream.format("rate").load().select(*(expr(text).alias(name) for name, text in columns.items()))


def refused(error: type[ThalwegError], call: Any, *arguments: Any, **settings: Any) -> str:
    with pytest.raises(error) as caught:
        call(*arguments, **settings)
    return str(caught.value)


def test_what_an_app_is_made_of(spark: SparkSession, tmp_path: Path) -> None:
    assert refused(OptionError, thalweg.App, "some/dir") == (
        "App('some/dir'): what an app takes first is a SparkSession. A directory has a name: App(directory=...)."
    )
    (tmp_path / "file").touch()
    place = tmp_path / "file" / "app"
    said = refused(OptionError, thalweg.App, spark, directory=place)
    assert said.startswith(f"directory is '{place}', and commands cannot be put there: ")
    assert refused(OptionError, thalweg.App, spark, directory=5) == (
        "directory is a path or an address such as s3://bucket/folder, not 5"
    )


def test_what_is_no_stream(app: thalweg.App, spark: SparkSession) -> None:
    assert refused(InputError, app.stream, "x", "/path") == (
        "stream 'x' is the path '/path', not a DataFrame. Open it first: "
        "app.stream('x', spark.readStream.schema(...).parquet('/path'), time=...)."
    )
    said = refused(InputError, app.stream, "x", pd.DataFrame({"ts": [1]}), time="ts")
    assert said.startswith("stream 'x' is a pandas.DataFrame, not a DataFrame of Spark. spark.createDataFrame(...)")
    rows = streaming(spark, ts="timestamp")
    app.stream("taken", rows, time="ts")
    assert "this app has a stream 'taken' already" in refused(InputError, app.stream, "Taken", rows, time="ts")
    assert refused(InputError, app.stream, "", rows, time="ts") == "the name of a stream is a text, not ''"
    assert refused(QueryError, app.explain, rows) == (
        "a query is given as its text, not as a DataFrame. For Spark's plan of a DataFrame call df.explain()."
    )


def test_units_of_event_times(app: thalweg.App, spark: SparkSession) -> None:
    integers, stamps = streaming(spark, ts="value"), streaming(spark, ts="timestamp")
    assert refused(InputError, app.stream, "x", integers, time="ts", time_unit="days") == (
        "time_unit is one of s, ms, us, ns, not 'days'"
    )
    assert "event time 'ts' is timestamp, no integer" in refused(
        InputError, app.stream, "x", stamps, time="ts", time_unit="s"
    )
    table = spark.createDataFrame([(1,)], "k INT")
    assert "'x' is a static relation" in refused(InputError, app.stream, "x", table, time_unit="s")


def test_watermarks_and_zones_are_told(app: thalweg.App, spark: SparkSession) -> None:
    marked = streaming(spark, ts="timestamp", k="value").withWatermark("ts", "90 seconds")
    with pytest.warns(thalweg.InputWarning) as told:
        app.stream("marked", marked, time="ts")
    assert [str(each.message) for each in told] == [
        "stream 'marked' has a watermark of its own, 90 seconds on column 'ts'. It says what operators of Spark before "
        "this one drop. What is late here is said by lateness=... alone."
    ]
    app.stream("local", streaming(spark, ts="CAST(timestamp AS TIMESTAMP_NTZ)", k="value"), time="ts")
    text = "SELECT m.k FROM marked m [NOW], local l [NOW] WHERE m.k = l.k"
    with pytest.warns(
        thalweg.InputWarning, match="the event times of 'm' have a time zone, and those of 'l' have none"
    ):
        app.sql(text)


def test_integer_times_of_another_unit(spark: SparkSession, tmp_path: Path) -> None:
    """Milliseconds of one stream meet seconds of the other; a time out of reach is none."""
    write_stream(tmp_path / "a", [pa.table({"ts": [MILLIS + 500, 2**62, MILLIS], "k": [1, 1, 2]})])
    write_stream(tmp_path / "b", [pa.table({"ts": [MILLIS // 1000 + 4, MILLIS // 1000 + 3], "k": [1, 2]})])
    app = thalweg.App(spark, directory=tmp_path / "app")
    for name, unit in (("a", "ms"), ("b", "s")):
        frame = spark.readStream.schema("ts BIGINT, k BIGINT").parquet(str(tmp_path / name))
        app.stream(name, frame, time="ts", time_unit=unit)
    app.command("end")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        answer = app.sql(JOIN)
    writer = answer.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.trigger(availableNow=True).start(str(tmp_path / "out"))
    query.awaitTermination()
    start = dt.datetime(2023, 11, 14, 22, 13, 20)
    found = spark.read.parquet(str(tmp_path / "out")).selectExpr("string(x)", "k", "string(t)").collect()
    half = (start + dt.timedelta(milliseconds=500)).isoformat(" ", "milliseconds").rstrip("0")
    assert sorted(map(tuple, found)) == [
        (str(start), 2, str(start + dt.timedelta(seconds=3))),
        (half, 1, str(start + dt.timedelta(seconds=4))),
    ]
    assert sum(app.metrics(query)["bad"].values()) == 1
