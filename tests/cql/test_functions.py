# ruff: noqa: S608 - these tests put query texts together from their own pieces
"""Every function that a query may call has, in DuckDB, the value that Spark's documentation gives it."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest

from tests.cql.catalog import CATALOG
from thalweg.cql import bind
from thalweg.cql.expression_grammar import FUNCTION_MARK
from thalweg.cql.functions import FUNCTIONS
from thalweg.cql.parser import parse

LINES = (Path(__file__).parent / "fixtures" / "functions.tsv").read_text().splitlines()
CASES = [tuple(line.split("\t")) for line in LINES]


@pytest.fixture(scope="module")
def values() -> dict[str, object]:
    """The value of every expression; bound together, because a connection for each takes its time."""
    queries = bind(";".join(f"SELECT {expression} AS x FROM trades [NOW]" for expression, _ in CASES), CATALOG)
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    found = {}
    for (expression, _), query in zip(CASES, queries, strict=True):
        [[found[expression]]] = connection.execute(f"SELECT {query.select[0].expression.sql('duckdb')}").fetchall()
    return found


@pytest.mark.parametrize(("expression", "value"), CASES, ids=[case[0] for case in CASES])
def test_value(expression: str, value: str, values: dict[str, object]) -> None:
    got = values[expression]
    expected = eval(value, {"date": datetime.date, "datetime": datetime.datetime})  # noqa: S307 - our own file
    if isinstance(expected, (int, float)) and not isinstance(expected, bool):
        assert isinstance(got, (int, float, Decimal))
        assert math.isclose(got, expected, abs_tol=1e-12)
    else:
        assert got == expected
        assert type(got) is type(expected)


def test_every_function_is_listed() -> None:
    called = set()
    for expression, _ in CASES:
        [statement] = parse(f"SELECT {expression} AS x FROM trades [NOW]")
        called |= {node.meta.get(FUNCTION_MARK) for node in statement.tree.walk()}
    assert called - {None} == FUNCTIONS
