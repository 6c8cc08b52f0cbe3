"""What a checkpoint decides when a query is started from it: the number of buckets, and whether it may go on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tests.spark.runs import FileRun, cut, write_stream
from thalweg.errors import CheckpointError
from thalweg.spark.buckets import bucket_keys, default_buckets, default_partitions, spark_hash
from thalweg.spark.checkpoint import FILE_MANAGER, LOCAL_FILES, Checkpoint, choose_file_manager

CQL = "SELECT a.v AS x, b.v AS y FROM a, b WHERE a.k = b.k WINDOW RANGE 100 MICROSECONDS"
ROWS = 400


def table(first: int) -> pa.Table:
    numbers = range(first, first + ROWS)
    times = pa.array([1_000 * (number // 40) for number in numbers], pa.timestamp("us"))
    return pa.table({"ts": times, "k": [number % 7 for number in numbers], "v": list(numbers)})


def running(spark: SparkSession, root: Path, cql: str = CQL) -> FileRun:
    for name in "ab":
        write_stream(root / "in" / name, cut(table(0), 4))
    return FileRun(spark, root, cql)


def expected() -> int:
    """Pairs of one key within a window: those of equal times."""
    groups = [[number % 7 for number in range(first, first + 40)] for first in range(0, ROWS, 40)]
    return sum(keys.count(key) ** 2 for keys in groups for key in set(keys))


@pytest.mark.parametrize("cores", range(1, 40))
def test_buckets_fill_partitions_evenly(cores: int) -> None:
    buckets, partitions = default_buckets(cores), default_partitions(cores)
    filled = [spark_hash(key) % partitions for key in bucket_keys(buckets)]
    assert {filled.count(partition) for partition in range(partitions)} == {buckets // partitions}
    assert partitions <= cores <= buckets


def test_a_query_goes_on_in_the_buckets_of_its_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    """Whatever the machine, or an option, would suggest now."""
    query = running(spark, tmp_path)
    files = [tmp_path / "in" / name / "0003.parquet" for name in "ab"]
    for file in files:
        file.rename(file.with_name(".0003.parquet"))
    first = query.run({"buckets": 4})
    assert {len(batch["buckets"]) for batch in first if batch["buckets"]} == {4}
    for file in files:
        file.with_name(".0003.parquet").rename(file)
    for options in ({}, {"buckets": 8}):
        batches = [batch for batch in query.run(options) if batch["buckets"]]
        assert all(len(batch["buckets"]) == 4 for batch in batches)
    assert query.answer(pa.schema({"x": pa.int64(), "y": pa.int64()})).num_rows == expected()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("RANGE 100 MICROSECONDS", "RANGE 101 MICROSECONDS", "the window of a grew"),
        ("a.k = b.k", "a.k = b.v", "its keys were"),
        ("FROM a, b", "FROM b, a", "it joined a, b and now joins b, a"),
    ],
)
def test_what_does_not_fit_is_refused_at_the_start(
    spark: SparkSession, tmp_path: Path, old: str, new: str, said: str
) -> None:
    """Before anything is read or written, whether or not there is new input."""
    running(spark, tmp_path).run()
    before = contents(tmp_path / "checkpoint")
    with pytest.raises(CheckpointError, match=said) as raised:
        FileRun(spark, tmp_path, CQL.replace(old, new)).run()
    assert "query 'query1'" in str(raised.value)
    assert str(tmp_path / "checkpoint") in str(raised.value)
    assert contents(tmp_path / "checkpoint") == before


def contents(directory: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in directory.rglob("*") if file.is_file()}


def test_how_files_are_written_depends_on_the_place_of_the_checkpoint(spark: SparkSession) -> None:
    ours, users = spark.newSession(), spark.newSession()
    users.conf.unset(FILE_MANAGER)
    choose_file_manager([ours, users], is_local=True)
    assert [session.conf.get(FILE_MANAGER, None) for session in (ours, users)] == [LOCAL_FILES, None]
    users.conf.set(FILE_MANAGER, LOCAL_FILES)
    choose_file_manager([ours, users], is_local=False)
    assert [session.conf.get(FILE_MANAGER, None) for session in (ours, users)] == [None, None]
    ours.conf.set(FILE_MANAGER, "mine")
    for is_local in (True, False):
        choose_file_manager([ours], is_local=is_local)
        assert ours.conf.get(FILE_MANAGER) == "mine"


@pytest.mark.parametrize("is_local", [True, False])
def test_a_start_chooses_how_files_are_written(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_local: bool
) -> None:
    app = running(spark.newSession(), tmp_path).app()
    seen: list[str | None] = []

    def start(*_: Any, **__: Any) -> None:
        seen.append(app.spark.conf.get(FILE_MANAGER, None))

    monkeypatch.setattr(DataStreamWriter, "start", start)
    monkeypatch.setattr(Checkpoint, "is_local", is_local)
    app.sql(CQL).writeStream.option("checkpointLocation", str(tmp_path / "c")).start()
    assert seen == [LOCAL_FILES if is_local else None]


def test_where_a_checkpoint_is(spark: SparkSession, tmp_path: Path) -> None:
    assert Checkpoint(spark, str(tmp_path)).is_local
    assert Checkpoint(spark, f"file:{tmp_path}").is_local
    assert Checkpoint(spark, str(tmp_path)).description() is None


def test_a_writer_does_what_it_was_told(spark: SparkSession, tmp_path: Path) -> None:
    """Also where a query with other buckets has to be made for it."""
    query = running(spark, tmp_path)
    query.run({"buckets": 4})
    for name in "ab":
        write_stream(tmp_path / "in" / name, [*cut(table(0), 4), table(ROWS)])
    found: list[int] = []
    app = query.app()
    writer = app.sql(CQL).writeStream.queryName("mine").options(checkpointLocation=str(tmp_path / "checkpoint"))
    started = writer.trigger(availableNow=True).foreachBatch(lambda rows, _: found.append(rows.count())).start()
    started.awaitTermination()
    assert started.name == "mine"
    assert len(app.metrics(started)["buckets"]) == 4
    assert found == [expected()]


def test_a_query_may_run_without_a_checkpoint_of_its_own(spark: SparkSession, tmp_path: Path) -> None:
    app = running(spark, tmp_path).app()
    started = app.sql(CQL).writeStream.format("noop").trigger(availableNow=True).start()
    started.awaitTermination()
    assert sum(app.metrics(progress=progress).get("results", 0) for progress in started.recentProgress) == expected()


def test_spark_may_know_where_checkpoints_are(spark: SparkSession, tmp_path: Path) -> None:
    """In a place for all queries that have a name."""
    query = running(spark, tmp_path)
    for buckets in (4, 2):
        app = query.app()
        app.spark.conf.set("spark.sql.streaming.checkpointLocation", str(tmp_path / "checkpoints"))
        writer = app.sql(CQL, {"buckets": buckets}).writeStream.queryName("mine").format("noop")
        started = writer.trigger(availableNow=True).start()
        started.awaitTermination()
        write_stream(tmp_path / "in" / "a", [*cut(table(0), 4), table(ROWS)])
    assert (tmp_path / "checkpoints" / "mine" / "offsets").exists()
    assert len(app.metrics(started)["buckets"]) == 4
