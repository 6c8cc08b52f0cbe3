# ruff: noqa: S608 - these tests put query texts together from their own pieces
"""The four kinds of conditions together say what the condition said.

Random conditions over two small tables: DuckDB evaluates the condition as it was written, and
the conjunction of all parts of the bound query. Both must keep the same pairs of rows.
"""

from __future__ import annotations

import datetime
from decimal import Decimal

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, note
from hypothesis import strategies as st
from sqlglot import exp

from tests.cql.randomness import cases
from thalweg.cql import Source, bind
from thalweg.cql.in_process import Translator, typed_value
from thalweg.cql.query import Query, Theta
from thalweg.cql.typed import Typed
from thalweg.errors import BindError

START = datetime.datetime(2024, 1, 1)
SCHEMA = pa.schema(
    [
        ("id", pa.int32()),
        ("k", pa.int32()),
        ("v", pa.int64()),
        ("x", pa.float64()),
        ("d", pa.decimal128(6, 2)),
        ("e", pa.decimal128(8, 3)),
        ("s", pa.string()),
        ("ts", pa.timestamp("us")),
        ("day", pa.date32()),
        ("f", pa.bool_()),
    ]
)
ROWS = [
    (0, 1, 1, 0.5, "1.00", "1.000", "x", 0, True),
    (1, 2, 1, 1.0, "1.50", "1.001", "X", 1, False),
    (2, None, 2, 1.5, "0.25", None, "y", 1, None),
    (3, 3, None, float("nan"), None, "2.500", "Y", 2, True),
    (4, -1, 3, float("inf"), "2.50", "0.250", None, 5, False),
    (5, 0, -2, None, "-1.00", "-0.999", "z", 8, None),
    (6, 5, 4, 2.0, "0.00", "0.000", "", 9, True),
]


def table() -> pa.Table:
    columns: list[list[object]] = [[] for _ in SCHEMA]
    for number, k, v, x, d, e, s, seconds, f in ROWS:
        time = START + datetime.timedelta(seconds=seconds)
        day = (START + datetime.timedelta(days=seconds)).date()
        values = (number, k, v, x, d and Decimal(d), e and Decimal(e), s, time, day, f)
        for column, value in zip(columns, values, strict=True):
            column.append(value)
    return pa.table(dict(zip(SCHEMA.names, columns, strict=True)), schema=SCHEMA)


@pytest.fixture(scope="module")
def connection() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    rows = table()
    connection.register("a", rows)
    connection.register("b", rows)
    return connection


def of(*texts: str) -> st.SearchStrategy[str]:
    """One of the texts, about either table."""
    return st.sampled_from([text.replace("%", alias) for text in texts for alias in "ab"])


NUMBERS = of("%.k", "%.v", "%.k + 1", "%.v - 2", "%.x", "%.d", "%.e", "%.d + 1", "abs(%.k)", "2 * %.v", "%.x + 0.5")
TIMES = of(
    "%.ts", "%.ts + INTERVAL 1 SECOND", "%.ts - INTERVAL 2 SECONDS", "INTERVAL '3000' MILLISECONDS + %.ts", "%.day"
)
TEXTS = of("%.s", "lower(%.s)", "upper(%.s)", "%.s || 'x'")
COMPARE = st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "<=>"])
NUMBER = st.sampled_from(["0", "1", "-1", "2", "0.5", "1.001", "2.5"])
SECONDS = st.integers(-4, 8)


@st.composite
def atoms(draw: st.DrawFn) -> tuple[str, str]:
    """A condition as (CQL, DuckDB)."""
    kind = draw(st.integers(0, 9))
    op = draw(COMPARE)
    duck_op = "IS NOT DISTINCT FROM" if op == "<=>" else op
    if kind <= 3:
        side = (NUMBERS, NUMBERS, TIMES, TEXTS)[kind]
        left, right = draw(side), draw(side)
        return f"{left} {op} {right}", f"{left} {duck_op} {right}"
    if kind == 4:
        column, number = draw(st.sampled_from(["k", "v", "x", "d"])), draw(NUMBER)
        shift = draw(st.sampled_from(["", " + 1", " - 2"])) if column != "x" else ""
        left = f"a.{column} - b.{column}{shift}"
        if draw(st.booleans()):
            left = f"ABS({left})"
        return f"{left} {op} {number}", f"{left} {duck_op} {number}"
    if kind == 5:
        seconds = draw(SECONDS)
        flipped = draw(st.booleans())
        shift = draw(st.sampled_from([0, 1, 3]))
        difference = f"b.ts + INTERVAL {shift} SECONDS - a.ts"
        duck = f"(epoch_us(b.ts) + {shift * 1_000_000} - epoch_us(a.ts))"
        if draw(st.booleans()):
            difference, duck = f"ABS({difference})", f"abs{duck}"
        sides = (difference, f"INTERVAL {seconds} SECONDS"), (duck, str(seconds * 1_000_000))
        if flipped:
            return f"{sides[0][1]} {op} {sides[0][0]}", f"{sides[1][1]} {duck_op} {sides[1][0]}"
        return f"{sides[0][0]} {op} {sides[0][1]}", f"{sides[1][0]} {duck_op} {sides[1][1]}"
    if kind == 6 and op != "<=>":
        days = draw(SECONDS)
        return f"a.day - b.day {op} INTERVAL {days} DAYS", f"a.day - b.day {op} {days}"
    if kind == 7:
        value, low, high = draw(NUMBERS), draw(NUMBERS), draw(NUMBERS)
        text = f"{value} {draw(st.sampled_from(['', 'NOT ']))}BETWEEN {low} AND {high}"
        return text, text
    if kind == 8:
        items = ", ".join(draw(st.lists(NUMBERS, min_size=1, max_size=2)))
        text = f"{draw(NUMBERS)} {draw(st.sampled_from(['', 'NOT ']))}IN ({items})"
        return text, text
    text = draw(
        st.sampled_from(["a.f", "b.f", "a.f IS NULL", "TRUE", "1 = 0", "NULL", "b.s LIKE 'x%'", "a.s IS NOT NULL"])
    )
    return text, text


def connected(children: st.SearchStrategy[tuple[str, str]]) -> st.SearchStrategy[tuple[str, str]]:
    pair = st.tuples(children, children)
    return st.one_of(
        *(
            pair.map(lambda p, word=word: tuple(f"({x} {word} {y})" for x, y in zip(*p, strict=True)))
            for word in ("AND", "AND", "OR")
        ),
        children.map(lambda child: (f"NOT ({child[0]})", f"NOT ({child[1]})")),
    )


CONDITIONS = st.recursive(atoms(), connected, max_leaves=4)


def duck_sql(expression: exp.Expression) -> str:
    def column(node: exp.Column) -> Typed:
        return typed_value(f"{node.table}.{node.name}", SCHEMA.field(node.name).type)

    return Translator(column).translate(expression).sql


def recomposed(query: Query) -> str:
    parts = [duck_sql(stream.selection) for stream in query.streams if stream.selection is not None]
    for attribute in query.classes:
        left, right = (duck_sql(member) for member in attribute.members.values())
        parts.append(f"{left} {'IS NOT DISTINCT FROM' if attribute.null_safe else '='} {right}")
    parts += [theta_sql(theta) for theta in query.thetas]
    parts += [duck_sql(residual) for residual in query.residual]
    return " AND ".join(f"({part})" for part in parts) or "TRUE"


def theta_sql(theta: Theta) -> str:
    left, right = duck_sql(theta.left.expression), duck_sql(theta.right.expression)
    if theta.offset is None:
        return f"{left} {theta.op} {right}"
    if pa.types.is_timestamp(theta.type):
        left, right = f"epoch_us({left})", f"epoch_us({right})"
    difference = f"({left}) - ({right})"
    offset: object = theta.offset
    if pa.types.is_decimal(theta.type):
        offset = Decimal(int(theta.offset)).scaleb(-theta.type.scale)
    return f"{f'abs({difference})' if theta.absolute else difference} {theta.op} {offset}"


@cases(80)
@given(condition=CONDITIONS)
def test_the_parts_say_what_the_condition_said(
    condition: tuple[str, str], connection: duckdb.DuckDBPyConnection
) -> None:
    text, duck = condition
    note(text)
    pairs = "SELECT a.id, b.id FROM a, b WHERE {} ORDER BY ALL"
    expected = connection.execute(pairs.format(duck)).fetchall()
    source = Source(SCHEMA, "ts")
    cql = f"SELECT a.id FROM a [RANGE UNBOUNDED] CROSS JOIN b [RANGE UNBOUNDED] WHERE {text}"
    try:
        [query] = bind(cql, {"a": source, "b": source})
    except BindError as error:
        assert error.what.startswith("no result is possible"), error  # noqa: PT017 - any other error is a failure
        assert expected == []
        return
    note(recomposed(query))
    assert connection.execute(pairs.format(recomposed(query))).fetchall() == expected
