# ruff: noqa: S608 - these tests put query texts together from their own pieces
"""What fixtures cannot show: a query's own text, the catalog's faults, and arguments that are no texts."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tests.cql.catalog import CATALOG
from thalweg.cql import Source, bind
from thalweg.errors import BindError, ParseError, ThalwegError


def test_the_text_of_each_query() -> None:
    text = "-- one\nSELECT px\n  FROM trades [NOW] ; CREATE QUERY two AS SELECT v FROM ticks [NOW] -- end"
    assert [query.text for query in bind(text, CATALOG)] == [
        "SELECT px\n  FROM trades [NOW]",
        "CREATE QUERY two AS SELECT v FROM ticks [NOW]",
    ]


def test_errors_count_lines_of_the_whole_text() -> None:
    with pytest.raises(BindError) as caught:
        bind("SELECT px FROM trades [NOW];\n\nSELECT\n  prize FROM trades [NOW]", CATALOG)
    assert (caught.value.location.line, caught.value.location.column) == (4, 3)  # type: ignore[union-attr]


def test_the_text_of_a_theta_is_what_was_written() -> None:
    [query] = bind("SELECT 1 AS one FROM ticks a [NOW], ticks b [NOW] WHERE 3 > a.v - b.v", CATALOG)
    assert [theta.text for theta in query.thetas] == ["3 > a.v - b.v"]


def test_the_schema_of_the_result() -> None:
    [query] = bind("SELECT sym, px * 2 AS twice, ts FROM trades [NOW]", CATALOG)
    assert query.schema == pa.schema([("sym", pa.string()), ("twice", pa.float64()), ("ts", pa.timestamp("us"))])


@pytest.mark.parametrize(
    ("columns", "time", "message"),
    [
        (
            [("a", pa.int64())],
            "ts",
            "stream 's' has no column 'ts', its event time (line 1, column 15). Its columns are a.",
        ),
        (
            [("ts", pa.string())],
            "ts",
            "the event time 'ts' of stream 's' is of type string (line 1, column 15). "
            "It must be a timestamp, a date or an integer of microseconds.",
        ),
        (
            [("ts", pa.int64()), ("k", pa.int64()), ("K", pa.int64())],
            "ts",
            "stream 's' has two columns called 'k' and 'K' (line 1, column 15). "
            "Names are compared without regard to case; rename one.",
        ),
    ],
)
def test_faults_of_a_source(columns: list[tuple[str, pa.DataType]], time: str, message: str) -> None:
    with pytest.raises(BindError) as caught:
        bind("SELECT * FROM s [NOW]", {"s": Source(pa.schema(columns), time)})
    assert str(caught.value) == message


@pytest.mark.parametrize("kind", [pa.timestamp("s"), pa.timestamp("ns", "UTC"), pa.date64(), pa.int32(), pa.uint16()])
def test_event_times_of_every_kind_bound_windows(kind: pa.DataType) -> None:
    source = Source(pa.schema([("ts", kind), ("k", pa.int64())]), "ts")
    [query] = bind("SELECT a.k FROM s a, s b WHERE a.k = b.k AND a.ts = b.ts", {"s": source})
    assert query.differences == ((0, 0), (0, 0))


def test_columns_of_unusable_types_only_hurt_when_used() -> None:
    source = Source(pa.schema([("ts", pa.int64()), ("huge", pa.decimal256(60, 2))]), "ts")
    [query] = bind("SELECT ts + 1 AS next, huge FROM s [NOW]", {"s": source})
    assert query.schema.field("huge").type == pa.decimal256(60, 2)
    with pytest.raises(BindError, match=r"'s.huge \+ 1' has no type \(line 1, column 8\)"):
        bind("SELECT huge + 1 FROM s [NOW]", {"s": source})


@pytest.mark.parametrize("text", [None, 5, b"SELECT 1"])
def test_what_is_no_text(text: object) -> None:
    with pytest.raises(ParseError, match=f"a query is a text, not {type(text).__name__}"):
        bind(text, CATALOG)  # type: ignore[arg-type]


@pytest.mark.parametrize("character", ["\0", "\ud800"])
def test_characters_that_are_no_text(character: str) -> None:
    with pytest.raises(ParseError, match=r"holds the character .* \(line 2, column 3\)"):
        bind(f"SELECT px\n--{character}\nFROM trades [NOW]", CATALOG)


@pytest.mark.parametrize(
    "expression",
    [
        "- " * 2000 + "px",
        "px" + " + px" * 5000,
        "NOT " * 2000 + "TRUE",
        "CASE WHEN TRUE THEN " * 500 + "1" + " END" * 500,
    ],
    ids=["signs", "sums", "negations", "cases"],
)
def test_deep_expressions_are_refused(expression: str) -> None:
    with pytest.raises(ThalwegError, match="nested too deeply"):
        bind(f"SELECT {expression} FROM trades [NOW]", CATALOG)


def test_long_conjunctions_are_fine() -> None:
    condition = " AND ".join(f"px <> {n}" for n in range(300))
    [query] = bind(f"SELECT px FROM trades [NOW] WHERE {condition}", CATALOG)
    assert query.streams[0].selection is not None


def test_nested_types_cost_no_exponential_time() -> None:
    with pytest.raises(ParseError, match="brackets are open here, too many"):
        bind("SELECT " + "DECIMAL(" * 30 + "1" + ")" * 30 + " FROM trades [NOW]", CATALOG)


def test_names_of_any_characters() -> None:
    source = Source(pa.schema([("ts", pa.int64()), ('a "b" `c`', pa.int64()), ("select", pa.int64())]), "ts")
    streams = 'FROM `my.s` AS `s "1"` [NOW] CROSS JOIN `my.s` free [NOW]'
    [query] = bind(f'SELECT `s "1"`.`a "b" ``c``` + free.`select` AS x {streams}', {"my.s": source})
    assert query.schema == pa.schema([("x", pa.int64())])
