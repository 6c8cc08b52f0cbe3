"""Queries that cannot be computed for some row, on a real Spark: they end, the others go on, and everybody is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.shared_runs import NEWEST, SharedFiles, sorted_rows
from thalweg.errors import InputWarning, QueryError
from thalweg.spark.commands import new_command
from thalweg.spark.overview import overview

PAIR = "FROM a, b WHERE a.k = b.k"
WINDOW = "WINDOW RANGE 9 SECONDS"
STEADY = f"SELECT a.id AS a, b.id AS b {PAIR} {WINDOW}"
COUNTED = f"SELECT a.k, COUNT(*) AS n {PAIR} GROUP BY a.k {WINDOW}"
ALL_OF_A = f"SELECT a.id AS a, b.id AS b, {NEWEST} {PAIR} {WINDOW}"


def test_queries_that_fail_end_and_the_others_go_on(spark: SparkSession, tmp_path: Path) -> None:
    files = SharedFiles(tmp_path)
    middle = files.tables["a"]["id"][len(files.tables["a"]) // 2].as_py()
    texts = {
        "steady": STEADY,
        "counted": COUNTED,
        "shows": f"SELECT 100 / (a.id - {middle}) AS q, {NEWEST} {PAIR} {WINDOW}",
        "selects": f"SELECT a.id AS a, {NEWEST} {PAIR} AND 100 / (a.id - {middle}) > 0 {WINDOW}",
        "sums": f"SELECT a.k, SUM(100 / (a.id - {middle})) AS s {PAIR} GROUP BY a.k {WINDOW}",
        "compares": f"SELECT a.id AS a, {NEWEST} {PAIR} AND a.id / (a.id - {middle}) <= b.id {WINDOW}",
    }
    files.write(0)
    app = files.app(spark)
    for name, text in texts.items():
        app.register(name, text)
    started = app.start(files.directory)

    def step(number: int) -> None:
        files.write(number)
        for query in started.runs.values():
            query.processAllAvailable()

    def told() -> dict[str, dict[str, Any]]:
        return {row["query"]: row for row in app.queries()}

    for number in (1, 2, 3):
        step(number)
    rows = told()
    failed = {name for name, row in rows.items() if row["status"] == "failed"}
    assert failed == set(texts) - {"steady", "counted"}
    assert "'100 / (a.id" in rows["selects"]["failure"]
    assert f"The row has a.id = {middle}" in rows["selects"]["failure"]
    published = {name: files.published(name) for name in failed}
    with pytest.warns(InputWarning, match="'shows' failed in batch"):
        assert app.table("shows").count() == published["shows"].num_rows > 0

    app.register("shows", f"SELECT 100 / NULLIF(a.id - {middle}, 0) AS q, {NEWEST} {PAIR} {WINDOW}")
    assert told()["shows"]["status"] == "running"
    with pytest.raises(QueryError, match="there is a query 'shows'"):
        app.register("shows", texts["shows"])
    app.deregister("sums")
    for number in (4, 5):
        step(number)
    assert app.metrics(started.runs["run1"])["refused"] == []
    files.registry.commands.send(new_command("end"))
    for query in started.runs.values():
        query.processAllAvailable()
    started.stop()
    for name in ("steady", "counted"):
        assert sorted_rows(files.published(name)) == sorted_rows(files.alone(texts[name]))
    for name in failed - {"shows"}:
        assert files.published(name) == published[name]
    more = files.published("shows").num_rows - published["shows"].num_rows
    assert more == files.alone(ALL_OF_A, 4, 6).num_rows
    assert {row["query"]: row["status"] for row in overview(files.registry)} == {
        "steady": "stopped",
        "counted": "stopped",
        "selects": "failed",
        "compares": "failed",
        "shows": "stopped",
    }
