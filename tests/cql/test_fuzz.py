# ruff: noqa: S608 - these tests put query texts together from their own pieces
"""Any text whatsoever is a query or an error of ours."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from tests.cql.catalog import CATALOG
from tests.cql.pairs import BAD, GOOD
from tests.cql.randomness import cases
from thalweg.cql import bind
from thalweg.cql.functions import FUNCTIONS
from thalweg.errors import QueryError

TEXTS = [pair.text for pair in (*GOOD, *BAD)]
PIECES = re.compile(r"\w+|\s+|'[^']*'|[^\w\s]")
WORDS = sorted({piece for text in TEXTS for piece in PIECES.findall(text) if piece.strip()} | FUNCTIONS)


def check(text: str) -> None:
    location = None
    try:
        queries = bind(text, CATALOG)
        assert all(query.text in text and query.select for query in queries)
    except QueryError as error:
        location = error.location
    if location is not None:
        lines = text.split("\n")
        assert 1 <= location.line <= len(lines)
        assert 1 <= location.column <= len(lines[location.line - 1]) + 1


@cases(300)
@given(st.text())
def test_random_characters(text: str) -> None:
    check(text)


@cases(300)
@given(st.lists(st.sampled_from(WORDS), max_size=25))
def test_random_words(words: list[str]) -> None:
    check(" ".join(words))


@cases(150)
@given(st.lists(st.sampled_from(WORDS), max_size=8), st.lists(st.sampled_from(WORDS), max_size=8))
def test_random_words_in_a_query(items: list[str], condition: list[str]) -> None:
    check(f"SELECT {' '.join(items)} FROM trades t [NOW], ticks a [NOW] WHERE t.qty = a.v AND {' '.join(condition)}")


@st.composite
def mutants(draw: st.DrawFn) -> str:
    pieces = PIECES.findall(draw(st.sampled_from(TEXTS)))
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, len(pieces)))
        change = draw(st.sampled_from(["insert", "replace", "delete", "repeat", "splice"]))
        if change == "insert":
            pieces[place:place] = [" ", draw(st.sampled_from(WORDS)), " "]
        elif change == "replace":
            pieces[place : place + 1] = [draw(st.sampled_from(WORDS))]
        elif change == "delete":
            del pieces[place : place + draw(st.integers(1, 4))]
        elif change == "repeat":
            pieces[place:place] = pieces[place : place + draw(st.integers(1, 10))]
        else:
            other = PIECES.findall(draw(st.sampled_from(TEXTS)))
            start = draw(st.integers(0, len(other)))
            pieces[place:place] = other[start : start + draw(st.integers(1, 10))]
    return "".join(pieces)


@cases(400)
@given(mutants())
def test_mutants(text: str) -> None:
    check(text)


LEAVES = st.sampled_from(
    [
        *(
            "t.px",
            "t.sym",
            "t.ts",
            "t.qty",
            "t.fee",
            "n.at",
            "n.hot",
            "n.who.age",
            "n.tags",
            "d.day",
            "d.n",
            "c.u",
            "c.v",
        ),
        *("1", "0", "-3", "2.5", "1e3", "10L", "2.5D", "99999999999999999999", "'x'", "''", "'2024-01-01'", "X'1F'"),
        *("NULL", "TRUE", "DATE '2024-01-01'", "INTERVAL 5 SECONDS", "INTERVAL 1 MONTH", "*", "t.*", "RESULT_TIME()"),
    ]
)
OPERATORS = ["+", "-", "*", "/", "%", "DIV", "=", "<", "<=", "<>", "<=>", "||", "AND", "OR", "&", "LIKE", "RLIKE"]
CALLS = sorted({*FUNCTIONS, "count", "sum", "min", "max", "avg", "foo"})
TYPES = ["INT", "BIGINT", "DOUBLE", "STRING", "DATE", "TIMESTAMP", "DECIMAL(10, 2)", "BOOLEAN", "ARRAY<INT>", "BINARY"]


def larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.tuples(inner, st.sampled_from(OPERATORS), inner).map(" ".join),
        st.tuples(st.sampled_from(CALLS), st.lists(inner, min_size=1, max_size=3)).map(
            lambda c: f"{c[0]}({', '.join(c[1])})"
        ),
        inner.map(lambda e: f"({e})"),
        inner.map(lambda e: f"NOT {e}"),
        inner.map(lambda e: f"-{e}"),
        inner.map(lambda e: f"{e} IS NULL"),
        st.tuples(inner, inner, inner).map(lambda e: f"{e[0]} BETWEEN {e[1]} AND {e[2]}"),
        st.tuples(inner, inner, inner).map(lambda e: f"CASE WHEN {e[0]} THEN {e[1]} ELSE {e[2]} END"),
        st.tuples(inner, st.lists(inner, min_size=1, max_size=3)).map(lambda e: f"{e[0]} IN ({', '.join(e[1])})"),
        st.tuples(inner, st.sampled_from(TYPES)).map(lambda e: f"CAST({e[0]} AS {e[1]})"),
    )


EXPRESSIONS = st.recursive(LEAVES, larger, max_leaves=5)


@cases(200)
@given(EXPRESSIONS, EXPRESSIONS, st.booleans())
def test_random_expressions(item: str, condition: str, grouped: bool) -> None:
    streams = "trades t CROSS JOIN news n CROSS JOIN days d CROSS JOIN ticks c"
    grouping = f" GROUP BY {item} HAVING {condition}" if grouped else ""
    check(f"SELECT {item} FROM {streams} WHERE {condition}{grouping} WINDOW RANGE 5 SECONDS")
