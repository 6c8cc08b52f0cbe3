"""Column lists as text: ``sym STRING, price DECIMAL(10, 2), ts TIMESTAMP``, with Spark's type names."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    import pyarrow as pa

_COLUMN = re.compile(r"\s*(?:`([^`]+)`|([^\W\d]\w*))\s+([A-Za-z_]+)\s*(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)\s*)?(?:,|$)")
_DECIMAL_DIGITS, _DECIMAL_SCALE = 10, 0  # what Spark takes a bare DECIMAL for


def parse_schema(stream: str, text: str) -> pa.Schema:
    """Read the columns of a stream."""
    import pyarrow as pa

    columns: dict[str, pa.DataType] = {}
    position = 0
    while position < len(text.rstrip()):
        match = _COLUMN.match(text, position)
        if match is None:
            rest = text[position:].strip()
            raise _refusal(stream, f"cannot read '{rest}'. Write columns like 'k BIGINT, ts TIMESTAMP'")
        quoted, plain, kind, precision, scale = match.groups()
        name = quoted or plain
        if name in columns:
            raise _refusal(stream, f"column '{name}' is there twice")
        columns[name] = _type(stream, kind.upper(), precision, scale)
        position = match.end()
    return pa.schema(columns)


def _type(stream: str, kind: str, precision: str | None, scale: str | None) -> pa.DataType:
    import pyarrow as pa

    if kind in ("DECIMAL", "DEC", "NUMERIC"):
        digits, places = int(precision or _DECIMAL_DIGITS), int(scale or _DECIMAL_SCALE)
        if not 1 <= digits <= 38 or places > digits:
            raise _refusal(stream, f"a {kind} has 1 to 38 digits, not {digits}, and at most as many after the point")
        return pa.decimal128(digits, places)
    types = {
        **dict.fromkeys(("BOOLEAN", "BOOL"), pa.bool_()),
        **dict.fromkeys(("TINYINT", "BYTE"), pa.int8()),
        **dict.fromkeys(("SMALLINT", "SHORT"), pa.int16()),
        **dict.fromkeys(("INT", "INTEGER"), pa.int32()),
        **dict.fromkeys(("BIGINT", "LONG"), pa.int64()),
        **dict.fromkeys(("FLOAT", "REAL"), pa.float32()),
        "DOUBLE": pa.float64(),
        **dict.fromkeys(("STRING", "VARCHAR", "CHAR", "TEXT"), pa.string()),
        "BINARY": pa.binary(),
        "DATE": pa.date32(),
        "TIMESTAMP": pa.timestamp("us", "UTC"),
        "TIMESTAMP_NTZ": pa.timestamp("us"),
    }
    if kind not in types:
        raise _refusal(stream, f"'{kind}' is no type. Types are DECIMAL(p, s), {', '.join(types)}")
    return types[kind]


def _refusal(stream: str, problem: str) -> typer.BadParameter:
    return typer.BadParameter(f"{stream}: {problem}.", param_hint="--schema")
