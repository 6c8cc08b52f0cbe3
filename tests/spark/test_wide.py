"""Wide streams: what a query does not read does not travel, and is in nobody's way."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr, spark_partition_id

import thalweg
from tests.spark.runs import FileRun, cut, write_stream
from thalweg.errors import BindError, CheckpointError, InputError
from thalweg.plan.partitioning import choose_partitioning
from thalweg.spark.bucket_input import BucketInput
from thalweg.spark.packing import unblob

SECOND = 1_000_000
JOIN = "SELECT a.k AS v FROM a, b WHERE a.k = b.k WINDOW RANGE 1 HOUR"


def wide(first: int, rows: int = 4) -> pa.Table:
    """Rows with a key, forty columns that say where they are from, and a list."""
    numbers = range(first, first + rows)
    columns = {f"c{i}": [1000 * i + n for n in numbers] for i in range(40)}
    times = pa.array([n * SECOND for n in numbers], pa.timestamp("us", "UTC"))
    return pa.table({"ts": times, "k": list(numbers), **columns, "list": [[n] for n in numbers]})


def feed(root: Path, batch: int) -> None:
    """One more micro-batch of both streams."""
    for name in "ab":
        write_stream(root / "in" / name, [wide(4 * b) for b in range(batch + 1)])


class Run(FileRun):
    """A run that keeps columns of stream ``a``."""

    def __init__(self, spark: SparkSession, root: Path, cql: str, keep: Any = None) -> None:
        super().__init__(spark, root, cql)
        self._keep = keep

    def register(self, app: thalweg.App, name: str, frame: DataFrame) -> None:
        app.stream(name, frame, time="ts", keep=self._keep if name == "a" else None)


def test_the_select_list_may_change_to_columns_that_every_run_carried(spark: SparkSession, tmp_path: Path) -> None:
    def run(column: str, keep: Any = None) -> None:
        Run(spark, tmp_path, JOIN.replace("a.k AS", f"{column} AS"), keep).run({"buckets": 2})

    feed(tmp_path, 0)
    run("a.k", ["c1", "C2"])
    feed(tmp_path, 1)
    run("a.c1", ["c2"])
    feed(tmp_path, 2)
    with pytest.raises(CheckpointError, match=r"needs the column 'c3' of stream 'a'.*keep=\['c3'\]"):
        run("a.c3")
    run("a.c2")
    feed(tmp_path, 3)
    with pytest.raises(CheckpointError, match="needs the column 'c1' of stream 'a'"):
        run("a.c1")
    run("a.k + b.k", "all")
    got = spark.read.parquet(str(tmp_path / "out")).toArrow()["v"].to_pylist()
    assert sorted(got) == sorted([*range(4), *range(1004, 1008), *range(2008, 2012), *range(24, 32, 2)])


def test_a_restart_joins_old_rows_by_columns_that_were_kept(spark: SparkSession, tmp_path: Path) -> None:
    feed(tmp_path, 0)
    Run(spark, tmp_path, JOIN, ["c7"]).run({"buckets": 2})
    later = wide(0).set_column(0, "ts", wide(10)["ts"])
    write_stream(tmp_path / "in" / "b", [wide(0), later])
    Run(spark, tmp_path, JOIN.replace("a.k AS", "a.c7 AS")).run({"buckets": 2})
    got = spark.read.parquet(str(tmp_path / "out")).toArrow()["v"].to_pylist()
    assert sorted(got) == [0, 1, 2, 3, 7000, 7001, 7002, 7003]


def test_rows_that_are_kept_out_have_all_columns_and_the_log_has_not(spark: SparkSession, tmp_path: Path) -> None:
    late = wide(0)
    write_stream(tmp_path / "in" / "a", [wide(100), late])
    write_stream(tmp_path / "in" / "b", [wide(100), wide(104)])
    cql = JOIN.replace("WINDOW", "AND a.c3 <> 3001 WINDOW")
    running = FileRun(spark, tmp_path, cql)
    running.run({"late_rows": "table", "buckets": 2})
    rows = running.app().late_rows("a").toArrow()
    assert rows.column_names == [*late.column_names, "reason"]
    assert sorted(rows["c39"].to_pylist()) == late["c39"].to_pylist()
    write_stream(tmp_path / "in" / "a", [wide(100), late, wide(108)])
    with pytest.raises(CheckpointError, match="needs the column 'c39' of stream 'a'"):
        FileRun(spark, tmp_path, cql.replace("a.k AS", "a.c39 AS")).run({"late_rows": "table", "buckets": 2})


def test_explain_says_what_travels(spark: SparkSession, tmp_path: Path) -> None:
    feed(tmp_path, 0)
    app = Run(spark, tmp_path, JOIN, ["c9"]).app()
    text = app.explain(JOIN.replace("a.k = b.k", "a.k + 1 = b.k AND b.c2 > 3 AND a.c1 + b.c4 < 9"))
    assert "  a: 4 of 43, and 1 computed: ts, k, c1, c9\n" in text
    assert "  b: 3 of 43: ts, k, c4\n" in text


def test_files_are_read_for_the_columns_that_are_needed(spark: SparkSession, tmp_path: Path) -> None:
    feed(tmp_path, 0)
    cql = JOIN.replace("WINDOW", "AND b.c2 > 3 AND a.c1 < b.c4 WINDOW")
    answer = FileRun(spark, tmp_path, cql).app().sql(cql)
    query = answer.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
    running = query.trigger(availableNow=True).start()
    running.awaitTermination()
    plan = running._jsq.explainInternal(False)  # type: ignore[attr-defined]
    schemas = sorted(re.findall(r"ReadSchema: struct<([^>]*)>", plan))
    assert [re.findall(r"(\w+):", schema) for schema in schemas if "command" not in schema] == [
        ["ts", "k", "c1"],
        ["ts", "k", "c2", "c4"],
    ]


def awkward(frame: DataFrame) -> DataFrame:
    """With columns of types that Arrow, or a comparison here, cannot handle."""
    return frame.withColumns(
        {
            "months": expr("INTERVAL '3' MONTH"),
            "lower": expr("CAST(CAST(k AS STRING) AS STRING COLLATE UTF8_LCASE)"),
            "nested": expr("array(INTERVAL '3' MONTH)"),
        }
    )


class AwkwardRun(FileRun):
    """A run whose stream ``a`` has such columns, and keeps all that can be kept."""

    def register(self, app: thalweg.App, name: str, frame: DataFrame) -> None:
        if name == "a":
            app.stream(name, awkward(frame), time="ts", keep="all")
        else:
            super().register(app, name, frame)


def test_columns_that_cannot_be_handled_are_in_nobodys_way(spark: SparkSession, tmp_path: Path) -> None:
    feed(tmp_path, 0)
    app = AwkwardRun(spark, tmp_path, JOIN).app()
    app.stream("c", awkward(spark.read.parquet(str(tmp_path / "in" / "b"))))
    cql = "SELECT a.k AS v FROM a, b, c WHERE a.k = b.k AND b.k = c.k AND a.c1 = c.c1 WINDOW RANGE 1 HOUR"
    query = (
        app.sql(cql, {"late_rows": "table"})
        .writeStream.format("parquet")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(tmp_path / "out"))
    )
    query.awaitTermination()
    assert sorted(spark.read.parquet(str(tmp_path / "out")).toArrow()["v"].to_pylist()) == [0, 1, 2, 3]
    for column, said in {
        "months": "column 'months' of stream 'a' has the type interval month, which Arrow does not have",
        "lower": "column 'lower' of stream 'a' has the collation UTF8_LCASE",
        "nested": "column 'nested' of stream 'a' has the type array<interval month>",
        "*": "column 'months' of stream 'a'",
    }.items():
        with pytest.raises(BindError, match=said):
            app.sql(JOIN.replace("a.k AS v", f"a.{column}"))


def test_what_is_wrong_with_keep_is_said(spark: SparkSession, tmp_path: Path) -> None:
    feed(tmp_path, 0)
    frame = awkward(FileRun(spark, tmp_path, JOIN).app()._streams["a"].frame)
    app = thalweg.App(spark)
    with pytest.raises(InputError, match=r"stream 'a' has no column 'c40' to keep. Its columns are ts, k, c0"):
        app.stream("a", frame, time="ts", keep=["c1", "c40"])
    with pytest.raises(InputError, match="keep='c1' of stream 'a' is neither 'all' nor a list"):
        app.stream("a", frame, time="ts", keep="c1")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"column 'months' of stream 'a' has the type interval month.*cannot be kept"):
        app.stream("a", frame, time="ts", keep=["months"])
    with pytest.raises(InputError, match="the event time 'months' of stream 'a' has the type interval month"):
        app.stream("a", frame, time="months")
    with pytest.raises(InputError, match="'c' is a static relation, which is read again at every start"):
        app.stream("c", spark.range(3), keep=["id"])


def test_a_source_of_many_partitions_is_packed_by_few_tasks_in_its_order(spark: SparkSession, tmp_path: Path) -> None:
    rows, buckets = 60, 4
    times = pa.array(range(rows), pa.timestamp("us", "UTC"))
    write_stream(tmp_path / "in" / "a", cut(pa.table({"ts": times, "v": list(range(rows))}), rows))
    own = spark.newSession()
    own.conf.set("spark.sql.files.maxPartitionBytes", "1000")
    frame = own.readStream.schema("ts TIMESTAMP, v BIGINT").parquet(str(tmp_path / "in" / "a"))
    app = thalweg.App(own).stream("a", frame, time="ts")
    division = app._builder.divide(app._bind("SELECT v FROM a [RANGE 1 HOUR]"))
    options = thalweg.Options(buckets=buckets)
    partitioning = choose_partitioning(division.query, buckets)
    bucket_input = BucketInput(app.spark, app._streams, division, partitioning, options)
    packed = bucket_input.packed(0, "ts", tuple(range(buckets)))
    got = collected(packed, tmp_path / "packed")
    one_by_one = collected(
        app._streams["a"].frame.select(spark_partition_id().alias("p"), "v"), tmp_path / "one by one"
    )
    order = [row["v"] for row in sorted(one_by_one, key=lambda row: int(row["p"]))]
    assert len({row["p"] for row in one_by_one}) == rows
    tasks = 2 * spark.sparkContext.defaultParallelism
    assert len(got) <= tasks * buckets < rows
    for bucket in range(buckets):
        mine = [row for row in got if row["bucket"] == bucket]
        found = [v for row in sorted(mine, key=lambda row: int(row["place"])) for v in values(row["body"])]
        assert found == [v for v in order if v in found]
        assert max(row["newest"] for row in mine) == rows - 1
    assert sorted(v for row in got for v in values(row["body"])) == list(range(rows))


def values(body: bytes | None) -> list[int]:
    return [] if body is None else list(unblob(body)["v"].to_pylist())


def collected(frame: DataFrame, directory: Path) -> list[dict[str, Any]]:
    """The rows of a streaming DataFrame."""
    query = (
        frame.writeStream.format("parquet")
        .option("checkpointLocation", str(directory / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(directory / "out"))
    )
    query.awaitTermination()
    rows: list[dict[str, Any]] = frame.sparkSession.read.parquet(str(directory / "out")).toArrow().to_pylist()
    return rows
