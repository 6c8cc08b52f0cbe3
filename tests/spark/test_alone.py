"""Registered queries with runs of their own, on a real Spark: what Spark alone can compute, and set differences."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from tests.spark.shared_runs import NEWEST, SharedFiles, sorted_rows
from thalweg.spark.commands import new_command
from thalweg.spark.overview import overview

PAIR = "FROM a, b WHERE a.k = b.k"
WINDOW = "WINDOW RANGE 9 SECONDS"
PLAIN = f"SELECT a.id AS a, b.id AS b {PAIR} {WINDOW}"
FIRST = f"SELECT a.id AS a, b.id AS b, {NEWEST} {PAIR} {WINDOW}"
DIVIDED = f"SELECT TRY_DIVIDE(a.id, b.id - 7) AS q, a.ts AS at, b.id AS b {PAIR} {WINDOW}"
LATER = f"SELECT soundex(a.note) AS s, a.id AS a {PAIR} {WINDOW}"
APART = "SELECT k FROM a [RANGE 9 SECONDS] EXCEPT SELECT k FROM b [RANGE 9 SECONDS]"
BY_OTHER_KEY = f"SELECT b.id % 3 AS rest, COUNT(*) AS n {PAIR} GROUP BY b.id % 3 {WINDOW}"


def test_what_spark_has_to_compute_runs_beside(spark: SparkSession, tmp_path: Path) -> None:
    files = SharedFiles(tmp_path)
    texts = {"plain": PLAIN, "divided": DIVIDED, "apart": APART, "other key": BY_OTHER_KEY}
    for number in range(3):
        files.write(number)
    app = files.app(spark)
    for name, text in texts.items():
        app.register(name, text)
    started = app.start(files.directory)
    for query in started.runs.values():
        query.processAllAvailable()
    rows = {row["query"]: row for row in app.queries()}
    assert len({row["run"] for row in rows.values()}) == 4
    assert [row["status"] for row in rows.values()] == ["running"] * 4
    assert rows["divided"]["results"] >= 0
    app.register("later", LATER)
    started.processAllAvailable()
    started.stop()

    for number in range(3, 6):
        files.write(number)
    app = files.app(spark)
    for name, text in texts.items():
        app.register(name, text)
    started = app.start(files.directory)
    for query in started.runs.values():
        query.processAllAvailable()
    files.registry.commands.send(new_command("end"))
    for query in started.runs.values():
        query.processAllAvailable()
    started.stop()
    for name in ("plain", "apart", "other key"):
        assert sorted_rows(files.published(name)) == sorted_rows(files.alone(texts[name])), name
    divided = files.alone(f"SELECT a.id AS a, a.ts AS at, b.id AS b {PAIR} {WINDOW}").to_pylist()
    wanted = Counter((None if row["b"] == 7 else row["a"] / (row["b"] - 7), row["b"]) for row in divided)
    assert Counter((row["q"], row["b"]) for row in files.published("divided").to_pylist()) == wanted
    assert app.table("divided").schema["at"].dataType.simpleString() == "timestamp"
    assert files.published("later").num_rows == files.published("plain").num_rows
    told = {row["query"]: row for row in overview(files.registry)}
    assert told["divided"]["results_so_far"] == len(divided)


def test_a_run_that_fails_is_told_of_and_can_be_let_go(spark: SparkSession, tmp_path: Path) -> None:
    files = SharedFiles(tmp_path)
    files.write(0)
    app = files.app(spark)
    app.register("plain", PLAIN)
    app.register("divided", f"SELECT soundex(a.note) AS s, 1 / (a.id - a.id) AS q {PAIR} {WINDOW}")
    started = app.start(files.directory)
    with pytest.raises(StreamingQueryException, match="DIVIDE_BY_ZERO"):
        started.awaitTermination()
    told = {row["query"]: row for row in app.queries()}
    assert (told["plain"]["status"], told["plain"]["failure"]) == ("running", None)
    assert told["divided"]["status"] == "failed"
    assert told["divided"]["failure"].startswith(f"ended with {told['divided']['run']}: [DIVIDE_BY_ZERO]")
    assert "\n" not in told["divided"]["failure"]
    app.deregister("divided")
    started.processAllAvailable()
    assert [row["query"] for row in app.queries()] == ["plain"]
    started.stop()
    app = files.app(spark)
    started = app.start(files.directory, trigger={"availableNow": True})
    assert list(started.runs) == [told["plain"]["run"]]
    assert started.awaitTermination(60)
    assert sorted_rows(files.published("plain")) == sorted_rows(files.alone(FIRST, 0, 1).drop_columns("newest"))
