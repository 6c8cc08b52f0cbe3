"""Cases small enough to be worked out by hand."""

from __future__ import annotations

from tests.cases import Case, Item, Out, Stream, Window
from tests.expressions import Cmp, Col, Value
from tests.oracle import expected

SAME_KEY = Cmp("=", Col("A", "k"), Col("B", "k"))


def stream(name: str, *rows: tuple[Value, ...], types: tuple[str, ...] = ("int64", "int64")) -> Stream:
    """Rows of (ts, k, v, ...); values that a row leaves out are 0 (for the second) or absent."""
    names = ("k", "v", "w")[: len(types)]
    filled = tuple((*row, 0) if len(row) == len(types) else row for row in rows)
    return Stream(name, (("ts", "timestamp"), *zip(names, types, strict=True)), filled)


def join(a: Stream, b: Stream, window_a: Window, window_b: Window, **settings: object) -> Case:
    """A and B on k; the rows of the result are (A.v, B.v)."""
    made: dict[str, object] = {
        "streams": (a, b),
        "items": (Item("A", "A", window_a), Item("B", "B", window_b)),
        "select": (Out(Col("A", "v")), Out(Col("B", "v"))),
        "where": (SAME_KEY,),
    }
    return Case(**{**made, **settings})  # type: ignore[arg-type]


def rows(case: Case) -> list[tuple[Value, ...]]:
    """What the oracle expects, as sorted plain rows."""
    plain = [tuple(value for _, value in row) for row in expected(case).elements()]
    return sorted(plain, key=repr)
