"""What a checkpoint decides when a query is started from it: the number of buckets, and whether it may go on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
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
        ("WINDOW RANGE 100 MICROSECONDS", "WINDOW ROWS 5", "the window of a is of another kind"),
        ("a.k = b.k", "a.k = b.v", "its keys were"),
        ("FROM a, b", "FROM a, a b", "it joined a, b and now joins a, a"),
        ("a.k = b.k", "a.k = b.k AND a.v + 1 < b.v", "its comparisons were none and are now a.v . 1 < b.v"),
        ("SELECT", "SELECT DSTREAM", "its results were 'ISTREAM' and are now 'DSTREAM'"),
    ],
)
def test_what_does_not_fit_is_refused_at_the_start(
    spark: SparkSession, kept: Path, old: str, new: str, said: str
) -> None:
    """Before anything is read or written, whether or not there is new input, under the name that the user gave it."""
    before = contents(kept / "checkpoint")
    app = FileRun(spark, kept, CQL).app()
    answer = app.sql(CQL.replace(old, new))
    asked = (
        lambda: app.check(answer, kept / "checkpoint", name="mine"),
        lambda: app.check(CQL.replace(old, new), kept / "checkpoint", name="mine"),
        lambda: begun(answer, kept, "mine"),
        lambda: begun(answer.select("x").where("x > 3"), kept, "mine"),
    )
    for each in asked:
        with pytest.raises(CheckpointError, match=said) as raised:
            each()
        assert str(raised.value).startswith(f"query 'mine' cannot go on from {kept / 'checkpoint'}: ")
    assert contents(kept / "checkpoint") == before


def begun(frame: DataFrame, root: Path, name: str) -> StreamingQuery:
    writer = frame.writeStream.queryName(name).option("checkpointLocation", str(root / "checkpoint"))
    return writer.format("parquet").trigger(availableNow=True).start(str(root / "out"))


@pytest.fixture(scope="module")
def kept(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A query that has run."""
    root = tmp_path_factory.mktemp("kept")
    running(spark, root).run()
    return root


def test_a_query_that_has_ended_says_so_at_the_start(spark: SparkSession, tmp_path: Path) -> None:
    """Before it consumes anything, by whatever name the command had it ended."""
    query = running(spark, tmp_path, f"CREATE QUERY pairs AS {CQL}")
    query.run({"buckets": 2}, lambda app: app.command("end", query="pairs") and None)
    write_stream(tmp_path / "in" / "a", [*cut(table(0), 4), table(ROWS)])
    before = contents(tmp_path / "checkpoint")
    app = query.app()
    answer = app.sql(query.cql)
    for ask in (lambda: app.check(answer, tmp_path / "checkpoint"), lambda: begun(answer, tmp_path, "pairs")):
        with pytest.raises(CheckpointError, match=r"query 'pairs' .*: its input has ended.* new checkpoint directory"):
            ask()
    assert contents(tmp_path / "checkpoint") == before


def test_a_batch_that_ends_the_input_is_finished_and_nothing_else_is_taken(spark: SparkSession, tmp_path: Path) -> None:
    """The driver died in it. The command names the query by its id, which only the checkpoint knows."""
    query = running(spark, tmp_path, CQL.replace("SELECT", "SELECT DSTREAM"))
    query.run({"buckets": 2})
    query_id = json.loads((tmp_path / "checkpoint" / "metadata").read_text())["id"]
    query.run({"buckets": 2}, lambda app: app.command("end", query=query_id) and None)
    last = max(tmp_path.glob("checkpoint/commits/[0-9]*"), key=lambda file: int(file.name))
    for file in (
        last,
        last.with_name(f".{last.name}.crc"),
        *(tmp_path / "out" / "_spark_metadata").glob(f"*{last.name}*"),
    ):
        file.unlink(missing_ok=True)
    write_stream(tmp_path / "in" / "a", [*cut(table(0), 4), table(ROWS)])
    with pytest.raises(StreamingQueryException, match="its input has ended"):
        query.run({"buckets": 2})
    assert last.exists()
    assert len(list(last.parent.glob("[0-9]*"))) == int(last.name) + 1
    assert query.answer(pa.schema({"x": pa.int64(), "y": pa.int64()})).num_rows == expected()


def ticks(first: int, last: int, step: int = 1) -> pa.Table:
    """A row for every microsecond, with its time as value."""
    times = list(range(first, last, step))
    return pa.table({"ts": pa.array(times, pa.timestamp("us")), "k": [1] * len(times), "v": times})


def changed(spark: SparkSession, root: Path, old: str, new: str) -> tuple[list[str], set[tuple[int, int]]]:
    """What is said of a query that becomes another one, and what the other one answers."""
    FileRun(spark, root, old).run({"buckets": 2})
    before = spark.read.parquet(str(root / "out")).toArrow().to_pylist()
    for name, parts in (("a", [ticks(0, 20, 2), ticks(20, 40, 2)]), ("b", [ticks(1, 20, 2), ticks(21, 40, 2)])):
        write_stream(root / "in" / name, parts)
    run = FileRun(spark, root, new)
    notes = run.app().check(new, root / "checkpoint", {"buckets": 2})
    run.run({"buckets": 2})
    after = spark.read.parquet(str(root / "out")).toArrow().to_pylist()
    assert len(after) == len({tuple(row.values()) for row in after})
    return notes, {tuple(row.values()) for row in after} - {tuple(row.values()) for row in before}


def test_a_query_with_other_windows_order_names_and_conditions_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    """Its keys are computed, and so is the condition. Rows that had left a window that grew do not come back."""
    write_stream(tmp_path / "in" / "a", [ticks(0, 20, 2)])
    write_stream(tmp_path / "in" / "b", [ticks(1, 20, 2)])
    old = "SELECT a.v AS x, b.v AS y FROM a [RANGE 3 MICROSECONDS], b [RANGE 9 MICROSECONDS] WHERE a.k + 1 = b.k + 1"
    new = (
        "SELECT p.v AS x, q.v AS y FROM b q [RANGE 4 MICROSECONDS], a p [RANGE 12 MICROSECONDS] "
        "WHERE q.k + 1 = p.k + 1 AND p.v % 4 = 0"
    )
    notes, answer = changed(spark, tmp_path, old, new)
    assert notes == [
        "FROM has another order, which changes no result",
        "p.v % 4 = 0 is new: rows in the window of p that fail it no longer join",
        "the window of p grew from 3 microseconds to 12 microseconds: from now on. Rows that had left it by then do "
        "not come back",
        "the window of q shrank from 9 microseconds to 4 microseconds: results are those of the smaller window from "
        "now on",
    ]
    watermark = 18
    rows_a = [t for t in range(0, 40, 2) if t >= 20 or t + 3 > watermark]
    rows_b = [t for t in range(1, 40, 2) if t >= 20 or t + 9 > watermark]
    assert answer == {
        (a, b) for a in rows_a for b in rows_b if max(a, b) >= 20 and a % 4 == 0 and max(a, b) < min(a + 12, b + 4)
    }


def test_rows_windows_grow_from_now_on_and_failing_rows_still_count(spark: SparkSession, tmp_path: Path) -> None:
    write_stream(tmp_path / "in" / "a", [ticks(0, 20, 2)])
    write_stream(tmp_path / "in" / "b", [ticks(1, 20, 2)])
    old = "SELECT a.v AS x, b.v AS y FROM a [ROWS 2], b [ROWS 1] WHERE a.k = b.k"
    new = "SELECT a.v AS x, b.v AS y FROM b [ROWS 3], a [ROWS 4] WHERE a.k = b.k AND a.v % 4 = 0"
    notes, answer = changed(spark, tmp_path, old, new)
    assert len(notes) == 4
    windows: dict[str, list[int]] = {"a": [14, 16], "b": [17]}
    wanted = set()
    for time in range(18, 38):  # the watermark is 38 in the end
        mine, other = ("b", "a") if time % 2 else ("a", "b")
        windows[mine] = [*windows[mine], time][-{"a": 4, "b": 3}[mine] :]
        pairs = ((time, each) if mine == "a" else (each, time) for each in windows[other])
        wanted |= {(a, b) for a, b in pairs if a % 4 == 0}
    assert answer == wanted


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


def test_offsets_of_other_sources_are_not_taken_for_those_of_commands(spark: SparkSession, tmp_path: Path) -> None:
    """A Kafka topic may be called query."""
    own = {"known": "[]", "commands": "[]", "query": '{"name": "mine"}', "starts": 1}
    others = ['{"query": {"0": 17}}', '{"known": 3, "commands": [], "query": "x", "starts": 0}']
    lines = ["v1", "{}", *others, json.dumps(own)]
    for folder, text in (("offsets", "\n".join(lines)), ("commits", "v1\n{}")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "0").write_text(text)
    assert Checkpoint(spark, str(tmp_path)).description() == {"name": "mine"}
