"""The dialect prints what it parses."""

from __future__ import annotations

import logging

import pytest
import sqlglot

from tests.cql.pairs import GOOD, Pair
from thalweg.cql.dialect import CQL
from thalweg.cql.parser import parse


@pytest.mark.parametrize("pair", GOOD, ids=lambda pair: pair.name)
def test_printed_queries_parse_back(pair: Pair) -> None:
    for statement in parse(pair.text):
        [printed] = parse(statement.tree.sql(dialect=CQL))
        assert printed.tree == statement.tree


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("select dstream x from a [now]", "DSTREAM(SELECT x FROM a [RANGE 1 MICROSECOND])"),
        (
            "create query q as select a.x y from s [partition by k rows 5] a freshness 90 s, t "
            "where a.x=t.x freshness 2 min",
            "CREATE QUERY q AS ISTREAM(SELECT a.x AS y FROM s AS a [PARTITION BY k ROWS 5] FRESHNESS 90 SECOND, t "
            "WHERE a.x = t.x) FRESHNESS 2 MINUTE",
        ),
        (
            "select k from a join b using (k) cross join c [rows 2] group by k having count(*) > 1 window rows 3",
            "SELECT k FROM a JOIN b USING (k) CROSS JOIN c [ROWS 2] GROUP BY k HAVING COUNT(*) > 1 WINDOW ROWS 3",
        ),
        (
            "select k from a except corresponding by (k) select k from b window range 1 day",
            "SELECT k FROM a EXCEPT CORRESPONDING BY (k) SELECT k FROM b WINDOW RANGE 1 DAY",
        ),
    ],
)
def test_printed_form(text: str, printed: str) -> None:
    assert sqlglot.transpile(text, read=CQL, write=CQL) == [printed]


def test_the_dialect_is_known_by_name() -> None:
    assert sqlglot.parse_one("SELECT x FROM a [NOW]", dialect="cql").key == "continuousselect"


def test_parsing_says_nothing_on_the_side(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, logger="sqlglot"):
        parse("SELECT x FROM a [RANGE 5 SECONDS] WHERE x LIKE 'y' AND CAST(x AS INT) = 3")
    assert caplog.records == []
