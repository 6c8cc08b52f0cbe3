"""The table of expressions on which Spark, ``thalweg.App`` and replay are compared, for value and type.

Every operator and function that is computed in process is applied to columns of every type, whose rows hold values at
the edges. ``fixtures/spark_values.jsonl`` has what plain Spark SQL says to each: the type, and a value or an error
for every row. ``python -m tests.spark.record`` records it anew, and writes ``docs/functions.md``.
"""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa

RECORDED = Path(__file__).parent / "fixtures" / "spark_values.jsonl"
ERROR = "error"
"""What is recorded for a row, or instead of a type, that is an error in Spark."""

UTC = datetime.UTC
TIMES = [
    datetime.datetime(2020, 2, 29, 13, 4, 5, 678901),
    datetime.datetime(1969, 12, 31, 23, 59, 59, 500000),
    None,
    datetime.datetime(1970, 1, 1),
    datetime.datetime(9000, 12, 31, 23, 59, 59),
]


def decimals(texts: list[str | None], precision: int, scale: int) -> pa.Array:
    return pa.array([text and Decimal(text) for text in texts], pa.decimal128(precision, scale))


COLUMNS: dict[str, pa.Array] = {
    "t": pa.array([7, -128, None, 127, 0], pa.int8()),
    "h": pa.array([300, -32768, None, 32767, 0], pa.int16()),
    "i": pa.array([3, -(2**31), None, 2**31 - 1, 0], pa.int32()),
    "l": pa.array([3_000_000_000, -(2**63), None, 2**63 - 1, 0], pa.int64()),
    "f": pa.array([1.25, -0.0, None, math.nan, math.inf], pa.float32()),
    "x": pa.array([2.5, -0.0, None, math.nan, -1e300], pa.float64()),
    "v": pa.array([1.005, -2.5, None, 123456789.125, 1.5e-7], pa.float64()),
    "d": pa.array(
        [Decimal("12.35"), Decimal("-99999999.99"), None, Decimal("99999999.99"), Decimal("0.00")], pa.decimal128(10, 2)
    ),
    "e": pa.array(
        [Decimal("0.125"), Decimal("-99.999"), None, Decimal("3.000"), Decimal("0.005")], pa.decimal128(5, 3)
    ),
    "w": pa.array(
        [Decimal("1.5"), Decimal("-7"), None, Decimal(10**19), Decimal("0.000000000000000001")], pa.decimal128(38, 18)
    ),
    "s": pa.array(["Spark SQL", " 12 ", None, "", "2020-02-29"], pa.string()),
    "u": pa.array(["aä%_\\b", "12.7", None, "Straße\n", "true"], pa.string()),
    "b": pa.array([True, False, None, True, False], pa.bool_()),
    "y": pa.array([b"Spark", b"\x00", None, b"", b"12"], pa.binary()),
    "q": pa.array([d and d.date() for d in TIMES], pa.date32()),
    "z": pa.array([d and d.replace(tzinfo=UTC) for d in TIMES], pa.timestamp("us", "UTC")),
    "m": pa.array(TIMES, pa.timestamp("us")),
}
ROWS = pa.table(COLUMNS)
UNARY = {
    "ilxvdwsq": (
        *("abs", "ceil", "ceiling", "floor", "round", "sign", "signum", "sqrt", "cbrt", "exp", "ln", "log", "log2"),
        *("log10", "degrees", "radians", "isnan", "bit_count", "factorial", "sin", "cos", "tan", "cot", "asin", "acos"),
        *("atan", "sinh", "cosh", "tanh", "-", "~"),
    ),
    "suyid": (
        *("lower", "lcase", "upper", "ucase", "initcap", "length", "len", "char_length", "character_length"),
        *("bit_length", "trim", "ltrim", "rtrim", "reverse", "ascii", "chr", "char", "md5", "sha1"),
    ),
    "qzmsi": (
        *("year", "quarter", "month", "day", "dayofmonth", "dayofyear", "weekofyear", "hour", "minute", "second"),
        *("last_day", "to_date", "unix_micros", "unix_millis", "unix_seconds", "unix_date"),
    ),
    "sib": ("int", "float", "double", "string", "boolean", "date", "timestamp", "NOT "),
}
"""Functions of one argument, by the columns that they are applied to."""
CASTS = (
    *("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(10, 2)", "DECIMAL(38, 18)", "DECIMAL(3, 0)"),
    *("STRING", "BOOLEAN", "BINARY", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ"),
)
BINARY = ("+", "-", "*", "/", "%", "DIV", "=", "<", "<=>", "&", "|", "^")
PAIRS = (
    *("tt", "hi", "il", "ll", "if", "lx", "ff", "fx", "xx", "xv", "di", "dl", "dd", "de", "ed", "dx", "dw", "ww"),
    *("qq", "zz", "mm", "zm", "qz", "qi", "ss", "si", "sq", "bb", "yy", "bi"),
)
WRITTEN = (Path(__file__).parent / "fixtures" / "expressions.sql").read_text().splitlines()
"""Expressions that are written down one by one: what else the language has, and edges."""


def expressions() -> Iterator[str]:
    """Every expression of the table, once."""
    made: dict[str, None] = {}
    for columns, names in UNARY.items():
        for name, column in product(names, columns):
            made[f"{name}{column}" if name in ("-", "~", "NOT ") else f"{name}({column})"] = None
    for kind in CASTS:
        made.update({f"CAST({column} AS {kind})": None for column in COLUMNS})
    for operator in BINARY:
        made.update({f"{left} {operator} {right}": None for left, right in PAIRS})
    made.update(dict.fromkeys(WRITTEN))
    yield from made


@dataclass(frozen=True)
class Record:
    """What plain Spark SQL says: ``kind`` is a type or ERROR, ``values`` has a text, None or ERROR for every row."""

    expression: str
    kind: str
    values: tuple[Any, ...]

    @property
    def fails(self) -> bool:
        return self.kind == ERROR or {ERROR: True} in self.values


def recorded() -> list[Record]:
    lines = map(json.loads, RECORDED.read_text().splitlines())
    return [Record(line["expression"], line["type"], tuple(line["values"])) for line in lines]


def written(value: Any) -> Any:
    """A value as it is recorded: None, or a text in which values that differ differ."""
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=None).isoformat()
    if isinstance(value, bytearray):
        value = bytes(value)
    return value if value is None else repr(value)
