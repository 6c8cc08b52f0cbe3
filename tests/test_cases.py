"""Cases can be pasted, and read as a user would write them."""

from __future__ import annotations

import datetime
from decimal import Decimal
from math import inf, nan

import pytest
from hypothesis import given

import tests.cases
import tests.expressions
from tests.cases import Case, Item, Now, Out, Range, Rows, Star, Stream
from tests.expressions import Agg, Arith, Between, Cmp, Col, Either, In, Interval, IsNull, Lit, Not, ResultTime
from tests.properties.settings import randomized
from tests.properties.strategies import ALL_WINDOWS, Profile, cases

A = Stream("A", (("ts", "timestamp"), ("k", "int64"), ("my key", "string")))
B = Stream("B", (("ts", "timestamp"), ("k", "int32")))


@randomized(share=20)
@given(
    cases(
        Profile(edges=("key", "composite", "theta", "time"), classes=3, windows=ALL_WINDOWS, transitions=2, static=True)
    )
    | cases(Profile(kind="aggregate", lateness=True, classes=2))
    | cases(Profile(kind="except", classes=2))
)
def test_a_case_can_be_pasted(case: Case) -> None:
    names = {**vars(tests.cases), **vars(tests.expressions), "datetime": datetime, "Decimal": Decimal}
    again = eval(repr(case), {**names, "nan": nan, "inf": inf})  # noqa: S307 (our own text)
    assert repr(again) == repr(case)
    assert again.cql() == case.cql()


def test_a_join_as_text() -> None:
    case = Case(
        streams=(A, B),
        items=(Item("A", "a", Range(5_000_000)), Item("B", "B", Rows(2, ("k",)))),
        select=(Star("a"), Out(Arith("+", Col("a", "k"), Col("B", "k")), "total"), Out(ResultTime())),
        where=(
            Cmp("<=>", Col("a", "k"), Col("B", "k")),
            Between(Col("B", "ts"), Arith("-", Col("a", "ts"), Interval(1)), Col("a", "ts")),
            Not(IsNull(Col("a", "my key"))),
        ),
    )
    assert case.cql() == (
        "SELECT a.*, a.k + B.k AS total, RESULT_TIME()\n"
        "FROM A a [RANGE 5 SECONDS], B [PARTITION BY k ROWS 2]\n"
        "WHERE a.k <=> B.k AND B.ts BETWEEN a.ts - INTERVAL 1 MICROSECOND AND a.ts AND NOT (a.`my key` IS NULL)"
    )


def test_items_that_nothing_links_are_cross_joined() -> None:
    case = Case(streams=(A, B), items=(Item("A", "A", Now()), Item("B", "B")), select=(Star(),), window=Range(None))
    assert case.cql() == "SELECT *\nFROM A [NOW]\nCROSS JOIN B\nWINDOW RANGE UNBOUNDED"


def test_join_on_as_text() -> None:
    case = Case(
        streams=(A, B),
        items=(Item("A", "A", Range(60_000_000)), Item("B", "B", Rows(3))),
        select=(Out(Col("A", "k"), "c"),),
        where=(Cmp("=", Col("A", "k"), Col("B", "k")), In(Col("A", "k"), (Lit(1, "int64"), Lit(2, "int64")))),
        output="dstream",
        join_style="join",
    )
    text = "SELECT {}A.k AS c\nFROM A [RANGE 1 MINUTE]\nJOIN B [ROWS 3] ON A.k = B.k\nWHERE A.k IN (1, 2)"
    assert case.cql() == text.format("DSTREAM ")
    wrapped = Case(**{**vars(case), "wrap": True})
    assert wrapped.cql() == f"DSTREAM({text.format('')})"


def test_aggregates_as_text() -> None:
    case = Case(
        streams=(B,),
        items=(Item("B", "B", Range(1_000)),),
        select=(Out(Col("B", "k")), Out(Agg("COUNT"), "n"), Out(Agg("SUM", Col("B", "k")), "s")),
        group_by=(Col("B", "k"),),
        having=Cmp(">", Agg("COUNT"), Lit(1, "int64")),
    )
    assert case.cql() == (
        "SELECT B.k, COUNT(*) AS n, SUM(B.k) AS s\nFROM B [RANGE 1 MILLISECOND]\nGROUP BY B.k\nHAVING COUNT(*) > 1"
    )


def test_except_as_text() -> None:
    case = Case(
        streams=(A, B),
        items=(Item("A", "A", Range(1_000_000)), Item("B", "B", Range(2_000_000))),
        select=(Out(Col("A", "k")), Out(ResultTime(), "rt")),
        minus=((Out(Col("B", "k")),),),
        by=("k",),
        where=(Cmp("<", Col("B", "k"), Lit(3, "int64")),),
    )
    assert case.cql() == (
        "SELECT A.k, RESULT_TIME() AS rt\nFROM A [RANGE 1 SECOND]\n"
        "EXCEPT CORRESPONDING BY (k)\n"
        "SELECT B.k\nFROM B [RANGE 2 SECONDS]\nWHERE B.k < 3"
    )


@pytest.mark.parametrize(
    ("literal", "text"),
    [
        (Lit(1, "timestamp"), "TIMESTAMP '1970-01-01 00:00:00.000001'"),
        (Lit(datetime.date(2024, 2, 29), "date"), "DATE '2024-02-29'"),
        (Lit(Decimal("1.50"), "decimal(10,2)"), "1.50"),
        (Lit(inf, "double"), "CAST('inf' AS DOUBLE)"),
        (Lit(True, "bool"), "TRUE"),
        (Lit(b"a\xff", "binary"), "X'61ff'"),
        (Either(IsNull(Lit("x", "string")), IsNull(Lit(None, "bool"))), "('x' IS NULL OR NULL IS NULL)"),
    ],
)
def test_literals_as_text(literal: Lit, text: str) -> None:
    assert literal.cql() == text


def test_tables_have_the_types_of_the_streams() -> None:
    stream = Stream("A", (("ts", "timestamp"), ("d", "decimal(10,2)")), ((1_000, Decimal("1.50")), (None, None)), "ns")
    table = stream.table()
    assert [str(field.type) for field in table.schema] == ["timestamp[ns]", "decimal128(10, 2)"]
    assert table.column("d").to_pylist() == [Decimal("1.50"), None]
    assert table.column("ts").cast("int64").to_pylist() == [1_000_000, None]
    assert (
        str(Stream("A", (("ts", "timestamp"),), (), "UTC").table().schema.field("ts").type) == "timestamp[us, tz=UTC]"
    )
