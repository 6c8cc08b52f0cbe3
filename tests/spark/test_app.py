"""What a user of ``thalweg.App`` meets."""

from __future__ import annotations

import datetime as dt
import shutil
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.functions import lit
from pyspark.sql.streaming.query import StreamingQuery

import thalweg
from tests.adapt.workloads import STAR, turning_star
from tests.spark.runs import FileRun, cut, write_stream
from tests.spark.test_commands import POISON
from thalweg.errors import BindError, CheckpointError, InputError, OptionError, PlanError

SECOND = 1_000_000


def at(*seconds: float | None) -> pa.Array:
    return pa.array([None if s is None else int(s * SECOND) for s in seconds], pa.timestamp("us", "UTC"))


def moment(second: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(second, dt.UTC)


def two_streams(root: Path) -> None:
    """Three micro-batches of each."""
    for name in "ab":
        parts = [
            pa.table({"ts": at(*(10 * b + i for i in range(4))), "k": [1, 2, 3, 1], "v": [b] * 4}) for b in range(3)
        ]
        write_stream(root / "in" / name, parts)


JOIN = "SELECT a.k, a.v AS av, b.v AS bv FROM a [RANGE 5 SECONDS], b [RANGE 5 SECONDS] WHERE a.k = b.k"


def test_every_type_travels_through(spark: SparkSession, tmp_path: Path) -> None:
    rich = pa.table(
        {
            "ts": at(0),
            "k": ["x"],
            "tiny": pa.array([1], pa.int8()),
            "small": pa.array([2], pa.int16()),
            "real": pa.array([1.5], pa.float32()),
            "money": pa.array([Decimal("12.34")], pa.decimal128(20, 2)),
            "flag": [True],
            "raw": [b"\x00\xff"],
            "day": pa.array([dt.date(2026, 1, 2)]),
            "local": pa.array([dt.datetime(2026, 1, 2, 3, 4, 5)], pa.timestamp("us")),
            "list": [[1, None, 3]],
            "struct": [{"p": 1, "q": "z"}],
            "map": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
        }
    )
    for name in "ab":
        write_stream(tmp_path / "in" / name, [rich])
    running = FileRun(spark, tmp_path, "SELECT a.*, b.struct.q AS q FROM a [NOW], b [NOW] WHERE a.k = b.k")
    app = running.app()
    schema = app.sql("SELECT a.* FROM a [NOW], b [NOW] WHERE a.k = b.k").schema
    assert schema.jsonValue() == spark.read.parquet(str(tmp_path / "in" / "a")).schema.jsonValue()
    running.run()
    [row] = spark.read.parquet(str(tmp_path / "out")).collect()
    [sent] = spark.read.parquet(str(tmp_path / "in" / "a")).collect()
    assert {**row.asDict()} == {**sent.asDict(), "q": "z"}


def test_expressions_run_in_spark_sql(spark: SparkSession, tmp_path: Path) -> None:
    two_streams(tmp_path)
    text = (
        "SELECT a.k * 10 AS tens, upper(concat('v', CAST(a.v AS STRING))) AS text FROM a [RANGE 5 SECONDS], "
        "b [RANGE 5 SECONDS] WHERE a.k + 1 = b.k + 1 AND a.v + b.v < 4 AND a.k > 1"
    )
    running = FileRun(spark, tmp_path, text)
    running.run()
    rows = spark.read.parquet(str(tmp_path / "out")).collect()
    assert sorted(map(tuple, rows)) == sorted([(20, "V0"), (20, "V1"), (30, "V0"), (30, "V1")])


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("SELECT 1 AS one FROM a [NOW]", 12),
        ("SELECT 'hit' AS v FROM a [RANGE 5 SECONDS], b [RANGE 5 SECONDS] WHERE a.k = b.k", 18),
        ("SELECT DSTREAM 'gone' AS v FROM a [RANGE 5 SECONDS], b [RANGE 5 SECONDS] WHERE a.k = b.k", 18),
    ],
)
def test_results_that_read_no_column_are_counted(spark: SparkSession, tmp_path: Path, text: str, rows: int) -> None:
    two_streams(tmp_path)
    running = FileRun(spark, tmp_path, text)
    running.run()
    running.end()
    assert spark.read.parquet(str(tmp_path / "out")).count() == rows


def test_metrics_tell_what_a_batch_did(spark: SparkSession, tmp_path: Path) -> None:
    two_streams(tmp_path)
    batches = FileRun(spark, tmp_path, JOIN).run({"buckets": 2})
    assert [batch["tuples"] for batch in batches] == [{"a": 4, "b": 4}] * 3
    assert [batch["results"] for batch in batches] == [6, 6, 6]
    assert [len(batch["buckets"]) for batch in batches] == [2, 2, 2]
    assert batches[-1]["watermark"] == moment(23)
    assert batches[-1]["plans"] == ["a b"]
    assert batches[-1]["state_tuples"] > 0
    assert sum(batch["rebuilds"] for batch in batches) == 0
    assert set(batches[-1]["seconds"]) == {"decode", "probe", "complete", "emit", "log", "adapt", "rebuild"}


def test_late_and_timeless_rows_are_counted_and_kept(spark: SparkSession, tmp_path: Path) -> None:
    fine = pa.table({"ts": at(10, 11), "k": [1, 2]})
    late = pa.table({"ts": at(3, 12, None), "k": [1, 2, 3]})
    write_stream(tmp_path / "in" / "a", [fine, late])
    write_stream(tmp_path / "in" / "b", [fine, pa.table({"ts": at(12), "k": [2]})])
    running = FileRun(spark, tmp_path, "SELECT a.k FROM a [RANGE 5 SECONDS], b [RANGE 5 SECONDS] WHERE a.k = b.k")
    options = {"late_rows": "table", "buckets": 2}
    batches = running.run(options)
    assert [batch["late"] for batch in batches] == [{}, {"a": 1}]
    assert [batch["bad"] for batch in batches] == [{}, {"a": 1}]
    assert batches[0]["late"]["a"] == 0
    kept = running.app().late_rows("a").orderBy("k").collect()
    assert [(row.k, row.reason) for row in kept] == [(1, "late"), (3, "no event time")]
    with pytest.raises(InputError, match="no rows of 'b' were kept out"):
        running.app().late_rows("b")


@pytest.mark.parametrize("late_rows", ["count", "table"])
def test_rows_that_fail_a_selection_may_be_late_too(spark: SparkSession, tmp_path: Path, late_rows: str) -> None:
    first = pa.table({"ts": at(10, 11), "k": [1, 2]})
    rest = pa.table({"ts": at(3, 4, 5, 12, None), "k": [1, -1, -2, -3, -4]})
    write_stream(tmp_path / "in" / "a", [first, rest])
    write_stream(tmp_path / "in" / "b", [first, pa.table({"ts": at(12), "k": [2]})])
    text = "SELECT a.k FROM a [RANGE 5 SECONDS], b [RANGE 5 SECONDS] WHERE a.k = b.k AND a.k > 0"
    running = FileRun(spark, tmp_path, text)
    batches = running.run({"late_rows": late_rows, "buckets": 2})
    assert [batch["late"] for batch in batches] == [{}, {"a": 3}]
    assert [batch["bad"] for batch in batches] == [{}, {"a": 1}]
    assert batches[-1]["rows_so_far"] == {"a": 7, "b": 3}
    if late_rows == "table":
        kept = running.app().late_rows("a").orderBy("k").collect()
        assert [(row.k, row.reason) for row in kept] == [(-4, "no event time"), (-2, "late"), (-1, "late"), (1, "late")]


def test_a_silent_stream_is_not_waited_for_beyond_its_timeout(spark: SparkSession, tmp_path: Path) -> None:
    a = [pa.table({"ts": at(10 * i, 10 * i + 1), "k": [1, 1]}) for i in range(3)]
    write_stream(tmp_path / "in" / "a", a)
    write_stream(tmp_path / "in" / "b", [pa.table({"ts": at(0), "k": [1]})])
    running = FileRun(spark, tmp_path, "SELECT DSTREAM a.k FROM a [RANGE 1 SECOND], b [RANGE 1 SECOND] WHERE a.k = b.k")
    running.run()
    assert spark.read.parquet(str(tmp_path / "out")).count() == 0
    write_stream(tmp_path / "in" / "a", [*a, *(pa.table({"ts": at(t), "k": [1]}) for t in (60, 70))])
    batches = running.run({"idle_timeout": "1 microsecond"})
    # While nothing ran, nobody was silent: the first batch of a run gives all streams a new chance.
    assert [batch["watermark"] for batch in batches] == [moment(0), moment(70)]
    assert spark.read.parquet(str(tmp_path / "out")).count() == 1


@pytest.mark.parametrize("production", ["push", "jit"])
def test_a_command_changes_the_plan_in_every_bucket(spark: SparkSession, tmp_path: Path, production: str) -> None:
    for name in "abc":
        write_stream(tmp_path / "in" / name, [pa.table({"ts": at(1, 2, 3), "k": [1, 2, 3]})])
    text = "SELECT a.k FROM a, b, c WHERE a.k = b.k AND b.k = c.k WINDOW RANGE 5 SECONDS"
    running = FileRun(spark, tmp_path, text)
    options = {"plan": "(a b) c", "states": "all", "buckets": 2, "production": production}
    [before] = running.run(options)
    assert before["plans"] == ["(a b) c"]
    assert ("savings" in before) == (production == "jit")
    if production == "jit":
        assert before["savings"]["suspensions"] == sum(b["savings"]["suspensions"] for b in before["buckets"]) > 0
    running.app().command("plan", plan="(b c) a")
    with pytest.raises(PlanError, match="'nobody' is not a stream of the query"):
        running.app().command("plan", plan="(b nobody) a")
    (tmp_path / "an app" / "control" / "by hand").write_text('{"command": "plan", "plan": "(b nobody) a"}')
    [after] = running.run(options)
    assert after["plans"] == ["(b c) a"]
    assert len(after["refused"]) == 1
    assert "nobody" in after["refused"][0]


def test_plans_adapt_and_a_restart_chooses_one_for_what_windows_hold(spark: SparkSession, tmp_path: Path) -> None:
    tables = turning_star(seconds=4)
    parts = {name: cut(table, 8) for name, table in tables.items()}
    eager = {"period": 1, "overhead": 1e9, "deviation": 0, "gain": 0, "persistence": 1, "cool_down": 0}
    running = FileRun(spark, tmp_path, STAR)
    options = {"buckets": 1, "adaptive": {**eager, "horizon": 10**9}}
    for stop in (6, 8):
        for name in tables:
            write_stream(tmp_path / "in" / name, parts[name][:stop])
        batches = running.run(options)
    [history] = [bucket["history"] for bucket in batches[-1]["buckets"]]
    assert batches[-1]["plan_changes"] == len(history) - 1 >= 1
    assert [period["batch"] for period in history] == sorted(period["batch"] for period in history)
    # What the plan was adapted to before the restart went with the engine.
    assert [period["reason"] for period in history[:2]] == [
        "chosen for the first rows",
        "chosen for the restored windows",
    ]
    assert all("a gain of" in period["reason"] for period in history[2:])
    wanted = thalweg.replay(STAR, tables)
    keys = [(name, "ascending") for name in wanted.column_names]
    assert running.answer(wanted.schema).sort_by(keys) == wanted.sort_by(keys)


def test_a_restart_with_another_select_list_and_a_smaller_window(spark: SparkSession, tmp_path: Path) -> None:
    early = pa.table({"ts": at(1, 2), "k": [1, 2], "v": [5, 6]})
    for name in "ab":
        write_stream(tmp_path / "in" / name, [early] if name == "a" else [early.slice(0, 0)])
    FileRun(spark, tmp_path, JOIN).run({"buckets": 2})
    write_stream(tmp_path / "in" / "b", [early.slice(0, 0), pa.table({"ts": at(4, 4), "k": [1, 2], "v": [7, 8]})])
    changed = "SELECT b.v - a.v AS gap FROM a [RANGE 3 SECONDS], b [RANGE 5 SECONDS] WHERE a.k = b.k AND a.v + b.v > 0"
    FileRun(spark, tmp_path, changed).run({"buckets": 2})
    rows = spark.read.schema("gap BIGINT").parquet(str(tmp_path / "out")).where("gap IS NOT NULL").collect()
    assert [row.gap for row in rows] == [2]  # the tuple of second 1 has left the smaller window


def test_static_relations_are_joined_and_read_again_at_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    """One relation is split by the key, the other is in every bucket; neither holds time back or counts as input."""
    parts = [pa.table({"ts": at(*(10 * b + i for i in range(4))), "k": [1, 2, 3, 1], "v": [b] * 4}) for b in range(3)]
    names = pa.table({"k": [1, 2, 2, None], "name": ["one", "two", "zwei", "none"]})
    eras = pa.table({"v": [0, 1, 2], "since": at(0, 0, 21)})
    renamed = pa.table({"k": [1, 3], "name": ["uno", "tres"]})
    text = (
        "SELECT a.k, n.*, upper(n.name) AS loud, e.since "
        "FROM names n, a [RANGE 5 SECONDS], eras e, b [RANGE 5 SECONDS] "
        "WHERE n.k = a.k AND a.k = b.k AND e.v + 1 = b.v + 1 AND b.ts >= e.since AND n.name <> 'zwei'"
    )
    times = {"a": "ts", "b": "ts", "names": None, "eras": None}
    want: list[dict[str, object]] = []
    for name in "ab":
        write_stream(tmp_path / "in" / name, parts[:2])
    write_stream(tmp_path / "static" / "eras", [eras])
    for relation, fed, newest in ((names, parts[:2], 13), (renamed, parts[2:], 23)):
        write_stream(tmp_path / "static" / "names", [relation])
        batches = FileRun(spark, tmp_path, text).run({"buckets": 2})
        streams = dict.fromkeys("ab", pa.concat_tables(fed))
        answer = thalweg.replay(text, {**streams, "names": relation, "eras": eras}, time=times)
        assert sum(batch["results"] for batch in batches) == answer.num_rows > 0
        assert [batch["tuples"] for batch in batches] == [{"a": 4, "b": 4}] * len(fed)
        assert batches[-1]["watermark"] == moment(newest)
        want += answer.to_pylist()
        for name in "ab":
            write_stream(tmp_path / "in" / name, parts)
    got = spark.read.parquet(str(tmp_path / "out")).toArrow().to_pylist()
    assert sorted(map(str, got)) == sorted(map(str, want))


def test_a_restart_that_cannot_be_says_why(spark: SparkSession, tmp_path: Path) -> None:
    two_streams(tmp_path)
    FileRun(spark, tmp_path, JOIN).run({"buckets": 2})
    write_stream(tmp_path / "in" / "a", [pa.table({"ts": at(40), "k": [1], "v": [1]})] * 4)
    other = FileRun(spark, tmp_path, JOIN.replace("SELECT", "SELECT DSTREAM"))
    with pytest.raises(CheckpointError, match="its results were 'ISTREAM' and are now 'DSTREAM'"):
        other.run({"buckets": 2})
    app = other.app()
    derived = app.sql(other.cql, {"buckets": 2}).crossJoin(app.spark.range(1)).writeStream.format("noop")
    started = derived.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
    with pytest.raises(StreamingQueryException, match="its results were 'ISTREAM' and are now 'DSTREAM'"):
        started.awaitTermination()


def test_streams_change_places_and_others_are_refused_and_leave_the_checkpoint_as_it_was(
    spark: SparkSession, tmp_path: Path
) -> None:
    for name, value in (("a", 1), ("b", 2)):
        parts = [pa.table({"ts": at(i), "k": [1], "v": [10 * i + value]}) for i in range(2)]
        write_stream(tmp_path / "in" / name, parts)
    text = "SELECT a.v AS av, b.v AS bv FROM b [RANGE 1 SECOND], a [RANGE 1 SECOND] WHERE a.k = b.k"
    FileRun(spark, tmp_path, text).run()
    for name, value in (("a", 21), ("b", 22)):
        write_stream(tmp_path / "in" / name, [*parts, pa.table({"ts": at(2), "k": [1], "v": [value]})])
    swapped = text.replace("b [RANGE 1 SECOND], a [RANGE 1 SECOND]", "a [RANGE 1 SECOND], b [RANGE 1 SECOND]")
    running = FileRun(spark, tmp_path, swapped)
    running.run()
    answer = running.answer(pa.schema([("av", pa.int64()), ("bv", pa.int64())]))
    assert sorted(answer.to_pylist(), key=lambda row: row["av"]) == [
        {"av": 1, "bv": 2},
        {"av": 11, "bv": 12},
        {"av": 21, "bv": 22},
    ]
    write_stream(tmp_path / "in" / "c", parts)
    before = sorted(path for path in (tmp_path / "checkpoint").rglob("*"))
    other = "SELECT a.v AS av, c.v AS bv FROM c [RANGE 1 SECOND], a [RANGE 1 SECOND] WHERE a.k = c.k"
    with pytest.raises(CheckpointError, match="it joined a, b and now joins c, a"):
        FileRun(spark, tmp_path, other).run()
    assert sorted(path for path in (tmp_path / "checkpoint").rglob("*")) == before


def test_mistakes_are_named(spark: SparkSession, tmp_path: Path) -> None:
    two_streams(tmp_path)
    app = FileRun(spark, tmp_path, JOIN).app()
    with pytest.raises(BindError, match="nowhere"):
        app.sql("SELECT a.k FROM a [NOW], nowhere [NOW] WHERE a.k = nowhere.k")
    with pytest.raises(InputError, match="no column 'when'"):
        app.stream("c", app.spark.readStream.format("rate").load(), time="when")
    with pytest.raises(InputError, match=r"stream 'c' has no event time.*Its columns are timestamp, value"):
        app.stream("c", app.spark.readStream.format("rate").load())
    with pytest.raises(InputError, match=r"'c' is a batch DataFrame, so a static relation.*Leave out time='id'"):
        app.stream("c", app.spark.range(3), time="id")
    with pytest.raises(InputError, match="Leave out lateness='5 seconds'"):
        app.stream("c", app.spark.range(3), lateness="5 seconds")
    with pytest.raises(OptionError, match="lateness"):
        app.stream("c", app.spark.readStream.format("rate").load(), time="timestamp", lateness="soon")
    with pytest.raises(OptionError, match="no command 'stop'"):
        app.command("stop")
    with pytest.raises(OptionError, match="0 queries of this app are running"):
        app.metrics()
    with pytest.raises(thalweg.ThalwegError, match="buckets"):
        app.sql(JOIN, {"buckets": 0})


def test_explain_shows_the_buckets(spark: SparkSession, tmp_path: Path) -> None:
    two_streams(tmp_path)
    assert "2 buckets, key" in FileRun(spark, tmp_path, JOIN).app().explain(JOIN, {"buckets": 2})


def test_the_callers_session_stays_as_it_is(spark: SparkSession, tmp_path: Path) -> None:
    before = dict(spark.conf.getAll)
    two_streams(tmp_path)
    FileRun(spark, tmp_path, JOIN).app().sql(JOIN)
    assert dict(spark.conf.getAll) == before


def test_a_task_that_failed_after_its_work_is_run_again_from_what_was_committed(
    spark: SparkSession, tmp_path: Path
) -> None:
    two_streams(tmp_path)
    fuse = tmp_path / "fuse"
    fuse.touch()

    def fail_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if 1 in batch.column("av").to_pylist() and fuse.exists():
                fuse.unlink()
                raise RuntimeError("this attempt fails, though the operator has done its work")
            yield batch

    app = FileRun(spark, tmp_path, JOIN).app()
    frame = app.sql(JOIN, {"buckets": 2})
    query = (
        frame.mapInArrow(fail_once, frame.schema)
        .writeStream.format("parquet")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(tmp_path / "out"))
    )
    query.awaitTermination()
    assert not fuse.exists()
    batches = [app.metrics(progress=progress) for progress in query.recentProgress]
    assert [batch["results"] for batch in batches] == [6, 6, 6]
    assert sum(batch["rebuilds"] for batch in batches) >= 1
    assert spark.read.parquet(str(tmp_path / "out")).count() == 18


def test_commands_from_before_a_query_are_not_for_it(spark: SparkSession, tmp_path: Path) -> None:
    two_streams(tmp_path)
    running = FileRun(spark, tmp_path, JOIN)
    name = running.app().command("end")
    batches = running.run({"buckets": 2})
    assert sum(sum(batch["late"].values()) for batch in batches) == 0
    assert sum(batch["results"] for batch in batches) == 18
    [refused] = [batch["refused"] for batch in batches if batch["refused"]]
    assert f"the command {name} was there before this query" in refused[0]
    assert not batches[-1]["ended"]


def test_no_file_stops_a_query(spark: SparkSession, tmp_path: Path) -> None:
    two_streams(tmp_path)
    running = FileRun(spark, tmp_path, JOIN)

    def poison(app: thalweg.App) -> None:
        place = tmp_path / "an app" / "control"
        for number, text in enumerate(POISON):
            (place / f"poison{number}").write_text(text, "utf-8")
        (place / "bytes.json").write_bytes(b"\xff\x00")
        (place / "large.json").write_bytes(b"[" * 100_000)
        app.command("plan", plan="b a")

    batches = running.run({"buckets": 2, "plan": "a b"}, poison)
    refused = [text for batch in batches for text in batch["refused"]]
    assert len(refused) == len(POISON) + 2
    assert {text.partition(":")[0] for text in refused} == {
        "bytes.json",
        "large.json",
        *(f"poison{number}" for number in range(len(POISON))),
    }
    assert batches[-1]["plans"] == ["b a"]
    assert sum(batch["results"] for batch in batches) == 18
    [last] = running.end({"buckets": 2})
    assert (last["refused"], last["ended"]) == ([], True)


def test_a_batch_that_failed_obeys_its_commands_though_their_files_are_gone(
    spark: SparkSession, tmp_path: Path
) -> None:
    two_streams(tmp_path)
    fuse = tmp_path / "fuse"
    fuse.touch()

    def fail(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if fuse.exists():
            raise RuntimeError("no batch comes through")
        yield from batches

    app = FileRun(spark, tmp_path, JOIN).app()
    answer = app.sql(JOIN, {"buckets": 2, "plan": "a b"})
    frame = answer.mapInArrow(fail, answer.schema)

    def start() -> StreamingQuery:
        writer = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
        return writer.trigger(availableNow=True).start()

    app.command("plan", plan="b a")
    with pytest.raises(StreamingQueryException, match="no batch comes through"):
        start().awaitTermination()
    shutil.rmtree(tmp_path / "an app" / "control")
    fuse.unlink()
    query = start()
    query.awaitTermination()
    batches = [app.metrics(progress=progress) for progress in query.recentProgress]
    assert [batch["plans"] for batch in batches] == [["b a"]] * 3
    assert sum(batch["results"] for batch in batches) == 18


def test_a_command_may_name_its_query_by_name_or_by_sparks_id(spark: SparkSession, tmp_path: Path) -> None:
    two_streams(tmp_path)
    app = FileRun(spark, tmp_path, JOIN).app()
    queries = [
        app.sql(f"CREATE QUERY {name} AS {JOIN}", {"buckets": 1, "plan": "a b"})
        .writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path / name))
        .start()
        for name in ("p", "q")
    ]

    def plans() -> list[list[str]]:
        for query in queries:
            query.processAllAvailable()
        return [list(app.metrics(query)["plans"]) for query in queries]

    try:
        assert plans() == [["a b"], ["a b"]]
        app.command("plan", plan="b a", query=queries[0].id)
        assert plans() == [["b a"], ["a b"]]
        app.command("plan", plan="b a", query="q")
        assert plans() == [["b a"], ["b a"]]
        app.command("plan", plan="a b")
        assert plans() == [["a b"], ["a b"]]
    finally:
        for query in queries:
            query.stop()


def test_an_address_holds_commands_and_no_late_rows(spark: SparkSession, tmp_path: Path) -> None:
    app = thalweg.App(spark, directory=tmp_path.as_uri())
    app.stream("a", app.spark.readStream.format("rate").load(), time="timestamp")
    text = "SELECT a.value FROM a [NOW]"
    app.sql(text)
    assert app.command("end") in [file.name for file in (tmp_path / "control").iterdir()]
    with pytest.raises(OptionError, match=r'late_rows="table" .* must be a path that all workers can write to'):
        app.sql(text, {"late_rows": "table"})
    with pytest.raises(OptionError, match="directory is 'nosuch://x'"):
        thalweg.App(spark, directory="nosuch://x")


def test_metrics_plans_and_refusals_before_the_first_batch_and_after_a_restart(
    spark: SparkSession, tmp_path: Path
) -> None:
    late = pa.table({"ts": at(3), "k": [1], "v": [1]})
    fine = [pa.table({"ts": at(*times), "k": [1, 1], "v": [1, 1]}) for times in ((10, 11), (12, 13))]
    for name in "ab":
        write_stream(tmp_path / "in" / name, [fine[0].slice(0, 0)])
    running = FileRun(spark, tmp_path, JOIN)

    def start() -> tuple[thalweg.App, StreamingQuery]:
        app = running.app()
        answer = app.sql(JOIN, {"buckets": 2, "plan": "a b"}, name="pairs")
        writer = answer.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
        return app, writer.start()

    app, query = start()
    try:
        none = app.metrics(query)
        assert (none["batch"], none["watermark"], none["plans"], none["buckets"]) == (None, None, [], [])
        assert (none["late"]["a"], none["results"], none["refused"]) == (0, 0, [])
        assert app.plan_history(query) == []
        assert "assumed: rates" in app.explain(f"CREATE QUERY pairs AS {JOIN}")
        with pytest.raises(PlanError, match="stream 'b' is missing"):
            app.command("plan", plan="a", query="pairs")
        with pytest.raises(OptionError, match=r"for the query 'query1', and there is none.*are: pairs"):
            app.command("end", query="query1")
        (tmp_path / "an app" / "control" / "by hand").write_text('{"command": "plan", "plan": "a"}')
        app.command("plan", plan="b a", query="PAIRS")
        write_stream(tmp_path / "in" / "a", [fine[0].slice(0, 0), fine[0], late])
        write_stream(tmp_path / "in" / "b", [fine[0].slice(0, 0), *fine])
        query.processAllAvailable()
        query.processAllAvailable()  # now Spark may report that nothing comes in
        told = app.metrics(query)
        assert (told["late_so_far"], told["rows_so_far"]) == ({"a": 1}, {"a": 3, "b": 4})
        assert told["watermark"] == moment(11)
        assert told["batch"] is not None
        assert "by hand" in told["latest_refused"][0]
        explained = app.explain(f"CREATE QUERY pairs AS {JOIN}")
        assert "rows so far: a 3, b 4 (1 of them late)" in explained
        assert "plans that run: b a" in explained
    finally:
        query.stop()
    app, query = start()
    try:
        query.processAllAvailable()
        told = app.metrics(query)
        assert (told["late_so_far"], told["late"]["a"], told["rebuilds"]) == ({"a": 1}, 0, 2)
        assert (told["refused"], len(told["latest_refused"])) == ([], 1)
        assert [[each["plan"] for each in bucket["periods"]] for bucket in app.plan_history(query)] == [
            ["a b", "b a"],
            ["a b", "b a"],
        ]
        assert app.plan_history(query)[0]["periods"][0]["time"] is None
    finally:
        query.stop()


def test_batches_are_measured_only_where_rows_may_be_huge_or_the_user_wants_it(spark: SparkSession) -> None:
    limit = "spark.sql.execution.arrow.maxBytesPerBatch"
    rate = spark.readStream.format("rate").load()
    app = thalweg.App(spark).stream("numbers", rate, time="timestamp")
    unmeasured = app.spark.conf.get(limit)
    app.stream("pictures", rate.withColumn("picture", lit(b"")), time="timestamp")
    app.sql("SELECT value FROM pictures [NOW]")
    assert int(app.spark.conf.get(limit)) == int(unmeasured) == 2**31 - 1
    app.sql("SELECT picture FROM pictures [NOW]")
    assert int(app.spark.conf.get(limit)) < int(unmeasured)
    own = spark.newSession()
    own.conf.set(limit, "12345")
    assert thalweg.App(own).spark.conf.get(limit) == "12345"


def test_an_app_is_made_while_the_session_of_another_is_the_active_one(spark: SparkSession) -> None:
    first = thalweg.App(spark)
    first.spark.createDataFrame([(1,)], "k INT")  # makes its session the active one of this thread
    try:
        active = SparkSession.getActiveSession()
        assert active is first.spark
        for session in (spark, first.spark):
            assert thalweg.App(session).spark is not first.spark
        assert SparkSession.getActiveSession() is active
    finally:
        spark.createDataFrame([(1,)], "k INT")
