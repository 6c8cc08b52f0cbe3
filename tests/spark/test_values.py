# ruff: noqa: S608 - these tests put query texts together from their own pieces
"""Expressions have, in ``thalweg.App``, the types and values of plain Spark SQL, which the fixture has recorded."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.cql.conformance import ERROR, ROWS, recorded, written
from tests.spark.record import ask, plain_rows
from tests.spark.runs import FileRun, write_stream
from thalweg.errors import BindError, ThalwegError, UnsupportedError
from thalweg.spark.app import App

RECORDS = [record for record in recorded() if record.kind != ERROR]
CALM = [record for record in RECORDS if not record.fails]
NO_CODEGEN = {"spark.sql.codegen.factoryMode": "NO_CODEGEN", "spark.sql.codegen.wholeStage": "false"}
TIMED = ROWS.append_column(
    "at", pa.array([datetime.datetime(2020, 1, 1, 0, 0, second) for second in range(ROWS.num_rows)], pa.timestamp("us"))
)


@pytest.fixture
def interpreting(spark: SparkSession) -> Iterator[SparkSession]:
    """A session that does not compile: a thousand expressions are computed once."""
    before = {name: spark.conf.get(name) for name in NO_CODEGEN}
    for name, value in NO_CODEGEN.items():
        spark.conf.set(name, value)
    yield spark
    for name, known in before.items():
        spark.conf.set(name, str(known))


def test_the_fixture_has_what_plain_spark_says(interpreting: SparkSession) -> None:
    frames = plain_rows(interpreting)
    chosen = frames[0].selectExpr(*(f"{record.expression} AS c{n}" for n, record in enumerate(RECORDS)))
    assert [field.dataType.simpleString() for field in chosen.schema] == [record.kind for record in RECORDS]
    calm = frames[0].selectExpr(*(f"{record.expression} AS c{n}" for n, record in enumerate(CALM))).collect()
    for number, record in enumerate(CALM):
        assert [written(row[number]) for row in calm] == list(record.values), record.expression
    failing = [record for record in RECORDS if record.fails][::15]
    assert [ask(record.expression, frames) for record in failing] == failing


def test_app_gives_the_types_and_values_of_plain_spark(interpreting: SparkSession, tmp_path: Path) -> None:
    write_stream(tmp_path / "in" / "rows", [TIMED])
    items = [f"{record.expression} AS c{n}" for n, record in enumerate(CALM)]
    run = FileRun(interpreting, tmp_path, f"SELECT {', '.join(items)}, at AS at FROM rows [RANGE 1 SECOND]", time="at")
    answer = run.app().sql(run.cql)
    kinds = [field.dataType.simpleString() for field in answer.schema][:-1]
    assert dict(zip(items, kinds, strict=True)) == {i: r.kind for i, r in zip(items, CALM, strict=True)}
    query = answer.writeStream.format("memory").queryName("values_of_app").trigger(availableNow=True).start()
    query.awaitTermination()
    rows = answer.sparkSession.table("values_of_app").orderBy("at").collect()
    for number, record in enumerate(CALM):
        assert [written(row[number]) for row in rows] == list(record.values), record.expression


@pytest.fixture
def app(spark: SparkSession, tmp_path: Path) -> App:
    write_stream(tmp_path / "in" / "rows", [TIMED])
    return FileRun(spark, tmp_path, "", time="at").app()


@pytest.mark.parametrize(
    ("expression", "kind", "message"),
    [
        ("rand()", UnsupportedError, "RAND gives another value whenever it is asked"),
        ("i + randn(5)", UnsupportedError, "RANDN gives another value whenever it is asked"),
        ("unix_timestamp()", UnsupportedError, "UNIX_TIMESTAMP gives another value whenever it is asked"),
        ("current_date", UnsupportedError, "CURRENT_DATE gives another value whenever it is asked"),
        ("explode(array(i))", UnsupportedError, "EXPLODE is not a value of one row"),
        ("skewness(x)", UnsupportedError, "SKEWNESS is not a value of one row"),
        ("nonsense(x)", BindError, "Spark cannot evaluate 'NONSENSE"),
        ("s + q", BindError, "Spark cannot evaluate 's + q'|Spark cannot evaluate 'rows.s"),
    ],
)
def test_what_is_no_deterministic_value_of_a_row_is_refused(
    app: App, expression: str, kind: type[ThalwegError], message: str
) -> None:
    with pytest.raises(kind, match=message):
        app.sql(f"SELECT {expression} AS r FROM rows [NOW]")


def test_functions_of_ones_own_and_all_of_sparks(spark: SparkSession, tmp_path: Path) -> None:
    """In selections, keys, group keys and arguments of aggregates; what is shown of groups is computed in process."""
    spark.udf.register("one_more", lambda number: None if number is None else number + 1, "int")
    write_stream(tmp_path / "in" / "rows", [TIMED])
    streams = "rows a [RANGE 1 SECOND], rows b [RANGE 1 SECOND]"
    where = "one_more(a.t) = one_more(b.t) AND one_more(a.t) > 1 AND size(array(a.t)) = 1 AND a.t = 7"
    text = (
        f"SELECT one_more(a.t) AS k, MAX(a.d * b.d) AS m, AVG(a.d) AS av, SUM(one_more(a.t)) AS n "
        f"FROM {streams} WHERE {where} GROUP BY one_more(a.t) HAVING COUNT(*) >= 1"
    )
    run = FileRun(spark, tmp_path, text, time="at")
    run.run()
    run.end()
    [row] = spark.read.parquet(str(tmp_path / "out")).collect()
    assert (row.k, row.n) == (8, 8)
    assert (str(row.m), str(row.av)) == ("152.5225", "12.350000")


@pytest.mark.parametrize(("shown", "having"), [("named_struct('d', MAX(i))", ""), ("MAX(i)", "HAVING one_more(1) = 2")])
def test_what_is_shown_of_groups_must_be_computed_in_process(app: App, shown: str, having: str) -> None:
    """A row is emitted if what is shown changes, so the bucket must know what that is."""
    app.spark.udf.register("one_more", lambda number: number + 1, "int")
    with pytest.raises(UnsupportedError, match="stands in the SELECT list or HAVING of a query with aggregates"):
        app.sql(f"SELECT {shown} AS m FROM rows [NOW] {having}")


def test_rows_that_are_not_selected_are_not_computed(spark: SparkSession, tmp_path: Path) -> None:
    """CAST(a.s AS DATE) is an error for most rows, and they are not selected."""
    write_stream(tmp_path / "in" / "rows", [TIMED])
    where = "CAST(a.s AS DATE) = CAST(b.s AS DATE) AND a.s LIKE '20%' AND b.s LIKE '20%' AND size(array(a.s, b.s)) = 2"
    streams = "rows a [RANGE 1 SECOND], rows b [RANGE 1 SECOND]"
    run = FileRun(spark, tmp_path, f"SELECT a.s AS s FROM {streams} WHERE {where}", time="at")
    run.run()
    run.end()
    assert [row.s for row in spark.read.parquet(str(tmp_path / "out")).collect()] == ["2020-02-29"]
