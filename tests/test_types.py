"""Types and values of a replay are Spark's: what used to differ."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import thalweg
from thalweg.errors import InputError, ThalwegError, UnsupportedError

BEFORE = datetime.datetime(1969, 12, 31, 23, 59, 59, 500000)
ROWS = pa.table(
    {
        "ts": pa.array([BEFORE], pa.timestamp("us", "UTC")),
        "k": pa.array([1], pa.int32()),
        "d": pa.array([Decimal("99999999.99")], pa.decimal128(10, 2)),
        "s": ["12.7"],
        "day": pa.array([BEFORE.date()]),
    }
)


def answer(select: str, where: str = "", group: str = "") -> pa.Table:
    condition = f" AND {where}" if where else ""
    text = f"SELECT {select} FROM a [RANGE 1 SECOND], b [RANGE 1 SECOND] WHERE a.k = b.k{condition} {group}"  # noqa: S608
    return thalweg.replay(text, {"a": ROWS, "b": ROWS}, time="ts")


@pytest.mark.parametrize(
    ("expression", "kind", "value"),
    [
        ("a.d * b.d", pa.decimal128(21, 4), Decimal("9999999998000000.0001")),
        ("a.d / b.d", pa.decimal128(23, 13), Decimal("1.0000000000000")),
        ("a.d / 3", pa.decimal128(14, 6), Decimal("33333333.330000")),
        ("a.d DIV 2", pa.int64(), 49999999),
        ("hour(a.ts)", pa.int32(), 23),
        ("year(a.ts)", pa.int32(), 1969),
        ("length(a.s)", pa.int32(), 4),
        ("datediff(a.day, b.day)", pa.int32(), 0),
        ("instr(a.s, '.')", pa.int32(), 3),
        ("levenshtein(a.s, b.s)", pa.int32(), 0),
        ("a.ts - b.ts", pa.duration("us"), datetime.timedelta(0)),
        ("a.day - b.day", pa.duration("us"), datetime.timedelta(0)),
        ("unix_seconds(a.ts)", pa.int64(), -1),
        ("CAST(a.ts AS BIGINT)", pa.int64(), -1),
        ("substring(a.s, 3, -1)", pa.string(), ""),
        ("isnan(NULL)", pa.bool_(), False),
        ("ln(-1)", pa.float64(), None),
        ("CAST(1e10 AS STRING)", pa.string(), "1.0E10"),
        ("chr(256)", pa.string(), "\0"),
        ("TRY_CAST(a.s AS INT)", pa.int32(), None),
    ],
)
def test_value_and_type(expression: str, kind: pa.DataType, value: Any) -> None:
    table = answer(f"{expression} AS r")
    assert table.schema.field("r").type == kind
    assert table.column("r").to_pylist() == [value]


@pytest.mark.parametrize(
    "expression",
    [
        *("CAST(a.s AS INT)", "a.k DIV 0", "a.k % 0", "a.k / 0", "a.k + 2147483647"),
        *("length(split_part(a.s, '.', 0))", "year(make_date(2020, 12 + a.k, 1))"),
    ],
)
def test_what_spark_cannot_compute_is_an_error_that_names_it(expression: str) -> None:
    with pytest.raises(InputError, match="cannot be computed for some row"):
        answer(f"{expression} AS r")
    with pytest.raises(InputError, match="cannot be computed for some row"):
        answer("a.k AS k", where=f"{expression} > 0")


@pytest.mark.parametrize(
    "expression", ["regexp_replace(a.s, '(1)', '$1')", "from_json(a.s, 'x INT')", "unix_timestamp(a.ts)"]
)
def test_what_only_spark_computes_is_refused_by_name(expression: str) -> None:
    name = expression.split("(")[0].upper()
    with pytest.raises(UnsupportedError, match=rf"{name} is not computed in process .* thalweg\.App"):
        answer(f"{expression} AS r")


def test_initcap_beyond_ascii_is_refused_for_the_row() -> None:
    with pytest.raises(ThalwegError, match="not computed in process"):
        answer("initcap(concat(a.s, 'ß')) AS r")


def test_rows_that_are_not_selected_are_not_computed() -> None:
    numbers = pa.table({"ts": pa.array([0, 1], pa.timestamp("us")), "s": ["x", "7"]})
    streams = {"a": numbers, "b": numbers}
    keys = "CAST(a.s AS INT) = CAST(b.s AS INT)"
    where = f"{keys} AND a.s <> 'x' AND b.s <> 'x'"
    text = f"SELECT a.s FROM a [RANGE 1 SECOND], b [RANGE 1 SECOND] WHERE {where}"  # noqa: S608 - our own
    assert thalweg.replay(text, streams, time="ts").to_pylist() == [{"s": "7"}]
    left = "SELECT CAST(s AS INT) AS n FROM a [RANGE 1 SECOND] WHERE s <> 'x'"
    right = "SELECT CAST(s AS INT) FROM b [RANGE 1 SECOND] WHERE s = 'none'"
    assert thalweg.replay(f"{left} EXCEPT {right}", streams, time="ts").to_pylist() == [{"n": 7}]


def test_aggregates_of_decimals_have_all_digits() -> None:
    table = answer("SUM(a.d) AS s, AVG(a.d) AS v", group="GROUP BY a.k")
    assert table.schema.types == [pa.decimal128(20, 2), pa.decimal128(14, 6)]
    assert table.to_pylist() == [{"s": Decimal("99999999.99"), "v": Decimal("99999999.990000")}]
