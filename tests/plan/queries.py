"""Bound queries made by hand."""

from collections.abc import Mapping, Sequence

import pyarrow as pa
from sqlglot import exp, parse_one

from thalweg.cql.query import (
    Aggregation,
    AttributeClass,
    Operand,
    Output,
    Projection,
    Query,
    RangeWindow,
    StreamRef,
    Theta,
    ThetaOp,
    Window,
)

SECOND = 1_000_000
TEN_SECONDS = RangeWindow(10 * SECOND)
BIGINT = pa.int64()
SCHEMA = pa.schema([("k", pa.int64()), ("x", pa.float64()), ("ts", pa.timestamp("us"))])


def sql(text: str) -> exp.Expression:
    parsed = parse_one(text, dialect="spark")
    assert isinstance(parsed, exp.Expression)
    return parsed


def stream(
    alias: str,
    window: Window = TEN_SECONDS,
    *,
    selection: str | None = None,
    retention_us: int | None = -1,
) -> StreamRef:
    """A stream; unless told otherwise, it is retained for its window."""
    if retention_us == -1:
        retention_us = window.width_us if isinstance(window, RangeWindow) else None
    return StreamRef(
        alias, f"{alias}_source", SCHEMA, "ts", window, retention_us, sql(selection) if selection is not None else None
    )


def equality(*members: str, null_safe: bool = False, kind: pa.DataType = BIGINT) -> AttributeClass:
    """An attribute class of columns such as ``A.k``; streams are lettered in order, ``A`` first."""
    return AttributeClass({ord(m[0]) - ord("A"): sql(m) for m in members}, kind, null_safe)


def theta(
    left: str, op: ThetaOp, right: str, offset: float | None = None, *, absolute: bool = False, text: str = ""
) -> Theta:
    sides = [Operand(ord(side[0]) - ord("A"), sql(side)) for side in (left, right)]
    return Theta(sides[0], op, sides[1], pa.float64(), offset, absolute, text)


def query(
    streams: Sequence[StreamRef],
    classes: Sequence[AttributeClass] = (),
    thetas: Sequence[Theta] = (),
    *,
    residual: Sequence[str] = (),
    select: Mapping[str, str] | None = None,
    aggregation: Aggregation | None = None,
    output: Output = Output.ISTREAM,
    kind: str = "join",
) -> Query:
    return Query(
        name="query1",
        text="",
        kind="difference" if kind == "difference" else "join",
        output=output,
        streams=tuple(streams),
        select=tuple(Projection(n, sql(e), pa.int64()) for n, e in (select or {"k": "A.k"}).items()),
        classes=tuple(classes),
        thetas=tuple(thetas),
        residual=tuple(sql(r) for r in residual),
        aggregation=aggregation,
    )
