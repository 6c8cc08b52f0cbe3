"""Expressions in process: DuckDB's text for them, with the type that Spark gives them.

DuckDB's own types and implicit casts are never relied on. Every fragment of SQL has exactly the DuckDB type that
stands for its Spark type: times with and without a zone are TIMESTAMP in UTC, lengths of time are BIGINT microseconds.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from thalweg.cql import decimals
from thalweg.cql.types import describe

LENGTH = pa.duration("us")
"""An interval of days, hours, minutes and seconds."""
MONTHS = pa.month_day_nano_interval()
"""An interval of years and months."""
TIMESTAMP = pa.timestamp("us", "UTC")
TIMESTAMP_NTZ = pa.timestamp("us")

_DUCK_TYPES = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "VARCHAR",
    pa.binary(): "BLOB",
    pa.date32(): "DATE",
    TIMESTAMP: "TIMESTAMP",
    TIMESTAMP_NTZ: "TIMESTAMP",
    LENGTH: "BIGINT",
    MONTHS: "INTERVAL",
    pa.null(): "INTEGER",
}
_EXACT_DOUBLE_DIGITS = 15
"""Decimals of so many digits become the nearest double by one division."""


class NoTypeError(Exception):
    """An expression that Spark refuses too: its text says why."""


class NotInProcessError(Exception):
    """An expression that Spark can compute and this process cannot, or not with the same value."""


@dataclass(frozen=True, slots=True)
class Typed:
    """A fragment of DuckDB SQL of a Spark type.

    Attributes:
        sql: safe to stand anywhere in a larger expression.
        kind: Spark's type, as an Arrow type.
        constant: the value of a literal (a number or a text), None for anything else.
        is_day: a length of time that counts whole days, which makes dates of dates.

    """

    sql: str
    kind: pa.DataType
    constant: int | str | None = None
    is_day: bool = False


def duck_type(kind: pa.DataType) -> str:
    """The DuckDB type whose values stand for those of a Spark type."""
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    if kind not in _DUCK_TYPES:
        raise NotInProcessError(f"values of type {describe(kind)} are")
    return _DUCK_TYPES[kind]


def cast_sql(sql: str, kind: pa.DataType) -> str:
    return f"CAST({sql} AS {duck_type(kind)})"


def text_sql(text: str) -> str:
    """A text as a DuckDB literal."""
    return "'" + text.replace("'", "''") + "'"


def failing(condition: str, message: str, otherwise: str) -> str:
    """``otherwise``, or an error for rows of which the condition holds."""
    return f"(CASE WHEN {condition} THEN error({text_sql(message)}) ELSE {otherwise} END)"


def is_decimal(kind: pa.DataType) -> bool:
    return bool(pa.types.is_decimal128(kind))


def is_integer(kind: pa.DataType) -> bool:
    return bool(pa.types.is_signed_integer(kind))


def is_number(kind: pa.DataType) -> bool:
    return is_integer(kind) or is_decimal(kind) or is_double(kind)


def is_double(kind: pa.DataType) -> bool:
    """Whether it is a float or a double."""
    return kind in (pa.float32(), pa.float64())


def is_time(kind: pa.DataType) -> bool:
    return kind in (TIMESTAMP, TIMESTAMP_NTZ)


def wider(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """The type in which Spark (in ANSI mode) takes two values together; texts are not converted here."""
    if left == right:
        return left
    if pa.types.is_null(left):
        return right
    if pa.types.is_null(right):
        return left
    if is_number(left) and is_number(right):
        return _wider_number(left, right)
    if pa.date32() in (left, right) and (is_time(left) or is_time(right)):
        return right if is_time(right) else left
    if is_time(left) and is_time(right):
        return TIMESTAMP
    raise NoTypeError(f"{describe(left)} and {describe(right)} have no common type. Cast one of them.")


def _wider_number(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    if is_integer(left) and is_integer(right):
        return max(left, right, key=lambda kind: kind.bit_width)
    if is_double(left) or is_double(right):
        return pa.float64()
    shared = decimals.common(as_decimal(left), as_decimal(right))
    if shared is None:
        raise NotInProcessError(f"{describe(left)} together with {describe(right)} is")
    return shared


def as_decimal(kind: pa.DataType) -> pa.DataType:
    return decimals.of_integer(kind) if is_integer(kind) else kind


def widest(items: list[Typed]) -> pa.DataType:
    kind = items[0].kind
    for item in items[1:]:
        kind = wider(kind, item.kind)
    return kind


def coerce(item: Typed, kind: pa.DataType) -> str:
    """The SQL of a value in a wider type."""
    if item.kind == kind or (is_time(item.kind) and is_time(kind)):
        return item.sql
    if kind == pa.float64() and is_decimal(item.kind) and item.kind.precision > _EXACT_DOUBLE_DIGITS:
        return cast_sql(f"CAST({item.sql} AS VARCHAR)", kind)
    if pa.types.is_null(item.kind) and not _has_duck_type(kind):
        return item.sql
    return cast_sql(item.sql, kind)


def _has_duck_type(kind: pa.DataType) -> bool:
    return is_decimal(kind) or kind in _DUCK_TYPES
