"""Budgets on a real Spark: triggers with a target, what is refused, what is said of it."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import thalweg
from tests.spark.runs import FileRun, write_stream
from tests.spark.test_app import JOIN, at, two_streams
from thalweg.errors import FreshnessError, OptionError
from thalweg.spark.app import App

FRESH = JOIN.replace("SECONDS]", "SECONDS FRESHNESS 1 HOUR]")
RESULTS = 6


def offsets(root: Path) -> list[str]:
    """What the stream of commands has said, batch by batch."""
    logged = sorted((root / "checkpoint" / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    return [path.read_text().splitlines()[-1] for path in logged]


def test_a_generous_target_refuses_nothing_and_prices_are_input(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("thalweg.spark.pricing._WARMING_UP", 0)
    for name in "ab":  # so many batches that the listener is told of some before the last one is planned
        parts = [pa.table({"ts": at(*range(10 * b, 10 * b + 4)), "k": [1, 2, 3, 1], "v": [b] * 4}) for b in range(10)]
        write_stream(tmp_path / "in" / name, parts)
    metrics = FileRun(spark, tmp_path, FRESH).run({"target_trigger": "10 minutes", "buckets": 2})
    assert sum(each["results"] for each in metrics) == 10 * RESULTS
    for each in metrics:
        spending = each["spending"]
        assert (spending["refused"], spending["share"], spending["error"], spending["budget"]) == (0, 1, 0, "auto")
        assert set(spending["streams"]) == {"a", "b"}
    fresh = metrics[0]["freshness"]["query1"]["a"]
    assert fresh["asked"] == 3600
    assert fresh["results"] == metrics[0]["results"] > 0
    assert fresh["p50"] <= fresh["p99"] <= fresh["max"]
    assert all("backlog" not in each for each in metrics)
    prices = [json.loads(text)["prices"] for text in offsets(tmp_path) if '"prices"' in text]
    assert prices
    assert json.loads(prices[-1])["fixed"] > 0


def test_a_budget_of_nothing_is_lifted_by_a_command(spark: SparkSession, tmp_path: Path) -> None:
    two_streams(tmp_path)
    running = FileRun(spark, tmp_path, JOIN)
    before = running.run({"budget": 0, "buckets": 2})
    assert sum(each["results"] for each in before) == 0
    assert all(each["spending"]["share"] is None for each in before if each["spending"]["refused"])
    assert sum(each["spending"]["wanted"] for each in before) > 0
    for name in "ab":
        part = pa.table({"ts": at(31, 32), "k": [1, 2], "v": [7, 7]})
        write_stream(tmp_path / "in" / name, [*[part.slice(0, 0)] * 3, part])
    after = running.run({"budget": 0, "buckets": 2}, lambda app: app.command("budget", budget="none"))
    assert [each["refused"] for each in after] == [[]] * len(after)
    assert sum(each["results"] for each in after) == 2
    assert after[-1]["spending"]["budget"] == "none"


def test_what_cannot_run_under_a_budget_is_said_before_it_starts(spark: SparkSession, tmp_path: Path) -> None:
    two_streams(tmp_path)
    app = FileRun(spark, tmp_path, JOIN).app()
    with pytest.raises(OptionError, match="query 'query1' is a DSTREAM"):
        app.sql(JOIN.replace("SELECT", "SELECT DSTREAM"), {"target_trigger": "5 seconds"})
    with pytest.raises(OptionError, match="random_shedding keeps tuples out of windows"):
        app.sql(JOIN, {"target_trigger": "5 seconds", "allocation": "random_shedding"})
    with pytest.raises(OptionError, match="option target_trigger is 'soon'"):
        app.sql(JOIN, {"target_trigger": "soon"})
    with pytest.raises(OptionError, match="option target_trigger is longer than nothing"):
        app.sql(JOIN, {"target_trigger": "0 seconds"})
    with pytest.raises(OptionError, match="Add target_trigger="):
        app.sql(JOIN, {"budget": "auto"})
    fresh = JOIN.replace("[RANGE 5 SECONDS], b", "[RANGE 5 SECONDS FRESHNESS 12 SECONDS], b")
    assert app.sql(fresh, {"target_trigger": "3 seconds"})
    with pytest.raises(FreshnessError, match="The least that can be kept: 15 seconds for stream 'a'") as error:
        app.sql(fresh, {"target_trigger": "5 seconds"})
    assert error.value.least == (15.0, 0.0)


def test_a_source_without_a_bound_is_told_of(spark: SparkSession, tmp_path: Path) -> None:
    two_streams(tmp_path)
    app = App(spark, directory=tmp_path / "app")
    for name in "ab":
        schema = spark.read.parquet(str(tmp_path / "in" / name)).schema
        reader = spark.readStream.schema(schema)
        bound = reader if name == "a" else reader.option("MAXFILESPERTRIGGER", 1)
        app.stream(name, bound.parquet(str(tmp_path)), time="ts")
    with pytest.warns(thalweg.InputWarning, match="stream 'a' reads from .* without a bound") as warned:
        app.sql(JOIN, {"target_trigger": "5 seconds"})
    assert not any("stream 'b'" in str(each.message) for each in warned)
