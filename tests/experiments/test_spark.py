"""The Spark experiment from end to end, in sizes that take seconds."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from functools import reduce
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.spark.runs import BRIEF
from thalweg.errors import ThalwegError
from thalweg.experiments import answers, micro_batches, spark, spark_contenders
from thalweg.experiments.contenders import KERNEL
from thalweg.experiments.experiment import Document
from thalweg.experiments.micro_batches import MicroBatches, Run, Trigger
from thalweg.experiments.peers import mjoin
from thalweg.experiments.spark import Load
from thalweg.experiments.spark_contenders import DEFAULT_STORE, FLOOR, ROCKSDB_STORE, THALWEG
from thalweg.experiments.workloads import Workload
from thalweg.spark.session import local_session

WORKLOAD = Workload(streams=2, keys=100, window_us=100_000)
SMALL = spark.Sizes(
    workload=WORKLOAD,
    check=replace(WORKLOAD, streams=3),
    check_rows=600,
    check_triggers=2,
    loads=(Load(300, {FLOOR: 1, THALWEG: 2, DEFAULT_STORE: 1}),),
    tiny=Load(30, {FLOOR: 1}),
    restart_seconds=1,
    growth_rows=300,
    growth_steady=1,
    window_seconds=(),
    stream_counts=(2,),
    key_counts=(100,),
    bucket_counts=(1,),
    bars={300: {FLOOR: 1e9, DEFAULT_STORE: 1e-9, ROCKSDB_STORE: 45}, 2_000_000: {FLOOR: 0.4}},
)


@pytest.fixture(scope="module")
def session() -> SparkSession:
    """The Spark of this process, which other tests use too, so it is not stopped here."""
    return local_session(cores=2, **BRIEF)


@pytest.fixture(scope="module")
def document(session: SparkSession) -> Document:
    if "THALWEG_SOAK" not in os.environ:
        pytest.skip("measuring takes minutes: make soak")
    return spark.measure("quick", SMALL, lambda text: None, session)


def part(document: Document, begins: str) -> list[dict[str, object]]:
    return [row for row in document["rows"] if str(row["part"]).startswith(begins)]


def test_the_document_has_the_agreed_fields_and_is_json(document: Document) -> None:
    assert list(document) == ["bench", "scale", "machine", "rows", "claims"]
    assert (document["bench"], document["scale"]) == ("spark", "quick")
    assert json.loads(json.dumps(document)) == document
    assert {"pyspark", "java", "heap_gib", "cores"} <= set(document["machine"])


def test_rows_of_a_part_have_the_same_columns(document: Document) -> None:
    columns: dict[object, list[str]] = {}
    for row in document["rows"]:
        assert list(row) == columns.setdefault(row["part"], list(row))
    assert [str(name).split(",")[0] for name in columns] == [
        "answers",
        "the workload",
        "where the time of thalweg's triggers goes",
        "where the time of thalweg's triggers goes",
        "fixed cost of a trigger",
        "a restart with full windows",
        "growth: number of streams",
        "growth: keys",
        "growth: buckets",
    ]


def test_everyone_takes_part_and_has_the_same_answer(document: Document) -> None:
    compared = part(document, "answers")
    assert {row["contender"] for row in compared} == {THALWEG, ROCKSDB_STORE, DEFAULT_STORE}
    assert len({row["results"] for row in compared}) == 1
    measured = [(row["rows_per_trigger"], row["contender"], row["steady"]) for row in part(document, "the workload")]
    assert measured == [(300, FLOOR, 1), (300, THALWEG, 2), (300, DEFAULT_STORE, 1)]


def test_claims_follow_from_the_rows_and_leave_out_what_was_not_measured(document: Document) -> None:
    speed = {row["contender"]: row["rows_per_s"] for row in part(document, "the workload")}
    for claim, name, bar, holds in zip(
        document["claims"], (FLOOR, DEFAULT_STORE), (">= 1e+09", ">= 1e-09"), (False, True), strict=True
    ):
        assert claim["claim"] == f"thalweg / {name}, rows/s, 300 rows per trigger"
        assert claim["measured"] == pytest.approx(speed[THALWEG] / speed[name], rel=0.01)
        assert (claim["bar"], claim["holds"]) == (bar, holds)


def test_the_time_of_a_trigger_is_accounted_for(document: Document) -> None:
    by_spark, in_buckets = (
        [row for row in part(document, "where the time") if str(row["part"]).endswith(end)]
        for end in ("account", "together")
    )
    for row in by_spark:
        assert 0 < row["addBatch"] < row["trigger"]
    for row in in_buckets:
        assert row["buckets"] == 2
        assert {"probe", "log", "rebuild"} <= set(row)
        assert row["rebuilds"] <= row["steady"] * row["buckets"]
        assert row["state_bytes"] > 0


def test_a_restart_builds_every_bucket_anew_once(document: Document) -> None:
    (restart,) = part(document, "a restart")
    assert restart["rebuilds"] == restart["buckets"] == 2
    assert restart["state_tuples"] > 0


def test_growth_varies_one_thing_and_measures_the_common_point_once(document: Document) -> None:
    (streams,), (keys,) = part(document, "growth: number of streams"), part(document, "growth: keys")
    assert keys == streams | {"part": "growth: keys"}
    (buckets,) = part(document, "growth: buckets")
    assert (buckets["buckets"], streams["buckets"]) == (1, 2)
    assert buckets["results_per_trigger"] == streams["results_per_trigger"]


def test_files_have_a_window_first_and_then_equal_shares(tmp_path: Path) -> None:
    files = micro_batches.write(tmp_path, WORKLOAD, rows=400, triggers=3, seed=1)
    assert files.ends == (100, 300, 500)
    assert files.rows(2) == [200, 400]
    tables = {
        name: [pq.read_table(path) for path in sorted((tmp_path / name).iterdir())] for name in files.workload.names
    }
    assert [[len(table) for table in parts] for parts in tables.values()] == [[100, 200, 200]] * 2
    begun = {name: parts[0] for name, parts in tables.items()}
    assert files.results(1) == mjoin.join(mjoin.merge(begun, WORKLOAD.window_us), WORKLOAD.window_us).shape[1]
    assert 0 < files.results(1) < files.results(3) == files.ids.shape[1]


def test_a_wrong_answer_and_a_wrong_number_of_results_are_errors(session: SparkSession, tmp_path: Path) -> None:
    files = micro_batches.write(tmp_path, WORKLOAD, rows=60, triggers=1, seed=2)

    def wrong_ids(files: MicroBatches, triggers: int) -> DataFrame:
        rows = reduce(DataFrame.unionAll, files.frames(session, triggers).values())
        return rows.selectExpr("id AS id1", "id AS id2")

    wrong = spark_contenders.Contender("the wrong one", session, wrong_ids)
    with pytest.raises(ThalwegError, match=r"the wrong one delivered 200 rows, and there are \d+"):
        wrong.timed(files, 1)
    with pytest.raises(ThalwegError, match=r"bare M-Join kernel has \d+ results, the wrong one has 200"):
        answers.check_same(files.ids, wrong.answer(files), (KERNEL, wrong.name))


def test_a_trigger_that_took_other_rows_is_an_error(tmp_path: Path) -> None:
    files = micro_batches.write(tmp_path, WORKLOAD, rows=60, triggers=2, seed=3)
    halved = Run(tuple(Trigger(rows // 2, 0, 1.0, {}, {}) for rows in files.rows(2)))
    with pytest.raises(ThalwegError, match=r"thalweg took \[100, 30\] rows in its triggers, .* have \[200, 60\]"):
        micro_batches.check_rows(THALWEG, halved, files, 2)
