"""Which queries belong together, and what one says in the words of another's join."""

from __future__ import annotations

import pytest
from sqlglot import exp

from tests.cql.catalog import CATALOG
from tests.cql.pairs import Pair, pairs
from thalweg.cql import bind
from thalweg.cql.group import grouped, placed_in
from thalweg.cql.query import Query, RangeWindow

JOIN = "SELECT px FROM trades t, quotes q WHERE t.sym = q.sym AND t.px > q.bid WINDOW RANGE 1 SECOND"


def one(text: str) -> Query:
    (query,) = bind(text, CATALOG)
    return query


@pytest.mark.parametrize("pair", pairs("groups/*.txt"), ids=lambda pair: pair.name)
def test_who_belongs_together(pair: Pair) -> None:
    groups = grouped(bind(pair.text, CATALOG))
    assert "\n".join(" ".join(reader.name for reader in group.readers) for group in groups) == pair.expected


def test_a_query_in_the_words_of_a_join() -> None:
    base = one(JOIN)
    other = one(
        "SELECT a.bid + b.px AS total, RESULT_TIME() FROM quotes a [RANGE 1 HOUR], trades b [NOW] "
        "WHERE a.bid < b.px AND b.sym = a.sym AND a.size > 5 AND a.bid * b.px * a.size > 7"
    )
    placed = placed_in(other, base.join)
    assert placed is not None
    assert placed.join == base.join
    assert placed.aliases == ("t", "q")
    assert [ref.window for ref in placed.streams] == [RangeWindow(1), RangeWindow(3_600_000_000)]
    texts = [None if ref.selection is None else ref.selection.sql() for ref in placed.streams]
    assert texts[0] is None
    assert texts[1] is not None
    assert '"q"."size" > 5' in texts[1]
    assert {column.table for each in placed.residual for column in each.find_all(exp.Column)} == {"t", "q"}
    assert {column.table for column in placed.select[0].expression.find_all(exp.Column)} == {"t", "q"}


def test_a_query_put_back_and_forth_is_what_it_was() -> None:
    base, other = one(JOIN), one(JOIN.replace("trades t, quotes q", "quotes q, trades t"))
    placed = placed_in(other, base.join)
    assert placed is not None
    back = placed_in(placed, other.join)
    assert back == other


def test_the_whole_is_as_wide_as_the_widest() -> None:
    text = (
        "CREATE QUERY one AS SELECT t.px FROM trades t [RANGE 2 SECONDS], quotes q [RANGE 9 SECONDS] "
        "WHERE t.sym = q.sym AND t.px > 3; "
        "CREATE QUERY two AS SELECT COUNT(*) AS n FROM trades t [RANGE 5 SECONDS], quotes q [RANGE 4 SECONDS] "
        "WHERE t.sym = q.sym AND t.qty = 1 AND q.size = 2"
    )
    (group,) = grouped(bind(text, CATALOG))
    whole = group.whole
    assert [ref.retention_us for ref in whole.streams] == [5_000_000, 9_000_000]
    assert whole.streams[1].selection is None  # the first query takes all quotes
    selection = whole.streams[0].selection
    assert selection is not None
    assert sorted(column.name for column in selection.find_all(exp.Column)) == ["px", "qty"]
    assert {column.name for each in whole.select for column in each.expression.find_all(exp.Column)} == {
        *("px", "qty", "size")
    }
    assert whole.name == "one and 1 more"
    assert group.without("two").whole == bind(text, CATALOG)[0]


def test_readers_leave_and_come() -> None:
    text = f"CREATE QUERY one AS {JOIN}; CREATE QUERY two AS {JOIN}"
    (group,) = grouped(bind(text, CATALOG))
    rest = group.without("one")
    assert [reader.name for reader in rest.readers] == ["two"]
    assert rest.with_reader(group.readers[0]).queries == group.queries[::-1]
    assert rest.takes(one(JOIN)) is not None
    assert rest.takes(one("SELECT px FROM trades [NOW]")) is None
