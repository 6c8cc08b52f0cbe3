"""Types of columns and expressions: those of Spark, written as Arrow types.

Sources come with whatever Arrow types their files had. A query sees each column in the
type that Spark would read it as (:func:`canonical`), so that a query means the same in
process and on Spark.
"""

from __future__ import annotations

from typing import Literal

import pyarrow as pa
from sqlglot import exp

from thalweg.cql.nodes import as_expression

Family = Literal[
    "exact", "float", "string", "binary", "boolean", "date", "timestamp", "time", "interval", "null", "nested", "other"
]
"""Types whose values can be compared with each other without losing anything."""

MAX_DIGITS = 38
"""The widest decimal of Spark and DuckDB."""
INT_DIGITS = 19
"""The decimal digits of a 64-bit integer."""

_UNSIGNED = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
}
_SQL_TYPES = {
    pa.bool_(): exp.DType.BOOLEAN,
    pa.int8(): exp.DType.TINYINT,
    pa.int16(): exp.DType.SMALLINT,
    pa.int32(): exp.DType.INT,
    pa.int64(): exp.DType.BIGINT,
    pa.float32(): exp.DType.FLOAT,
    pa.float64(): exp.DType.DOUBLE,
    pa.string(): exp.DType.TEXT,
    pa.binary(): exp.DType.VARBINARY,
    pa.date32(): exp.DType.DATE,
    pa.timestamp("us"): exp.DType.TIMESTAMPNTZ,
    pa.timestamp("us", "UTC"): exp.DType.TIMESTAMPTZ,
}


def canonical(kind: pa.DataType) -> pa.DataType:
    """The type that Spark would give to a column of this Arrow type.

    >>> canonical(pa.timestamp("ns", "Europe/Berlin"))
    TimestampType(timestamp[us, tz=UTC])
    >>> canonical(pa.dictionary(pa.int32(), pa.large_string()))
    DataType(string)
    """
    if isinstance(kind, pa.BaseExtensionType):
        return canonical(_EXTENSIONS.get(kind.extension_name, kind.storage_type))
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return canonical(kind.value_type)
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", "UTC" if kind.tz else None)
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind) or pa.types.is_fixed_size_binary(kind):
        return pa.binary()
    if pa.types.is_date(kind):
        return pa.date32()
    if pa.types.is_time(kind):
        return pa.time64("us")
    if pa.types.is_duration(kind):
        return pa.duration("us")
    if pa.types.is_decimal(kind) and kind.precision <= MAX_DIGITS:
        return pa.decimal128(kind.precision, kind.scale)
    if pa.types.is_float16(kind):
        return pa.float32()
    if pa.types.is_large_list(kind) or pa.types.is_list(kind):
        return pa.list_(canonical(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, canonical(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(canonical(kind.key_type), canonical(kind.item_type))
    return _UNSIGNED.get(kind, kind)


_EXTENSIONS = {"arrow.uuid": pa.string(), "arrow.bool8": pa.bool_()}


def needs_cast(kind: pa.DataType) -> bool:
    """Whether values of a column must be converted before they are of its canonical type."""
    return canonical(kind) in _SQL_TYPES and (
        isinstance(kind, pa.BaseExtensionType)
        or pa.types.is_dictionary(kind)
        or pa.types.is_run_end_encoded(kind)
        or pa.types.is_unsigned_integer(kind)
        or pa.types.is_date64(kind)
        or (pa.types.is_timestamp(kind) and kind.unit != "us")
    )


def family(kind: pa.DataType) -> Family:
    """Which types a (canonical) type can be compared with."""
    if pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        return "exact"
    if pa.types.is_floating(kind):
        return "float"
    if pa.types.is_string(kind):
        return "string"
    if pa.types.is_binary(kind):
        return "binary"
    if pa.types.is_boolean(kind):
        return "boolean"
    if pa.types.is_date(kind):
        return "date"
    if pa.types.is_timestamp(kind):
        return "timestamp"
    if pa.types.is_time(kind):
        return "time"
    if kind == pa.month_day_nano_interval() or pa.types.is_duration(kind):
        return "interval"
    if pa.types.is_null(kind):
        return "null"
    return "nested" if pa.types.is_nested(kind) else "other"


def is_numeric(kind: pa.DataType) -> bool:
    return family(kind) in ("exact", "float")


def common(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """The type in which values of two types are compared; None if they cannot be.

    >>> common(pa.int32(), pa.int64()), common(pa.decimal128(10, 2), pa.int32()), common(pa.string(), pa.int32())
    (DataType(int64), Decimal128Type(decimal128(12, 2)), None)
    """
    families = {family(left), family(right)}
    if left == right:
        return None if families == {"other"} else left
    if families == {"exact"}:
        return _common_exact(left, right)
    if families <= {"exact", "float"}:
        return pa.float64()
    if families == {"timestamp"}:
        return pa.timestamp("us")
    if families == {"date", "timestamp"}:
        return left if pa.types.is_timestamp(left) else right
    if "null" in families:
        return right if pa.types.is_null(left) else left
    return None


def _common_exact(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    if pa.types.is_integer(left) and pa.types.is_integer(right):
        return max(left, right, key=lambda kind: kind.bit_width)
    shapes = [_digits(kind) for kind in (left, right)]
    scale = max(shape[1] for shape in shapes)
    whole = max(digits - own_scale for digits, own_scale in shapes)
    return pa.decimal128(min(whole + scale, MAX_DIGITS), scale)


def _digits(kind: pa.DataType) -> tuple[int, int]:
    if pa.types.is_decimal(kind):
        return kind.precision, kind.scale
    return {8: 3, 16: 5, 32: 10, 64: INT_DIGITS}[kind.bit_width], 0


def fits_exactly(kinds: list[pa.DataType]) -> bool:
    """Whether the common type of exact numbers holds every value of them all."""
    shapes = [_digits(kind) for kind in kinds if not pa.types.is_null(kind)]
    return max(digits - scale for digits, scale in shapes) + max(scale for _, scale in shapes) <= MAX_DIGITS


def sql_type(kind: pa.DataType) -> exp.DataType:
    """The SQL name of a canonical type, for casts."""
    if pa.types.is_decimal(kind):
        return exp.DataType.build(f"DECIMAL({kind.precision}, {kind.scale})")
    return exp.DataType(this=_SQL_TYPES[kind])


def has_sql_type(kind: pa.DataType) -> bool:
    return pa.types.is_decimal(kind) or kind in _SQL_TYPES


def arrow_type(written: exp.DataType) -> pa.DataType | None:
    """The type that a CAST names; None if a query in process cannot have it."""
    if written.this == exp.DType.DECIMAL:
        sizes = [int(size.this.name) for size in written.expressions] or [10]
        precision, scale = sizes[0], sizes[1] if len(sizes) > 1 else 0
        return pa.decimal128(precision, scale) if 0 < precision <= MAX_DIGITS and 0 <= scale <= precision else None
    if written.expressions:
        return None
    return _WRITTEN.get(written.this)


_WRITTEN = {
    **{written: kind for kind, written in _SQL_TYPES.items()},
    exp.DType.BINARY: pa.binary(),
    exp.DType.TIMESTAMP: pa.timestamp("us", "UTC"),
    exp.DType.TIMESTAMPLTZ: pa.timestamp("us", "UTC"),
}


def cast_to(expression: exp.Expr, current: pa.DataType, target: pa.DataType) -> exp.Expression:
    """``expression`` converted to ``target``, unless it is of that type already."""
    if current == target or not has_sql_type(target):
        return as_expression(expression)
    cast = exp.Cast(this=expression, to=sql_type(target))
    start = expression.meta.get("start")
    if start is not None:
        cast.meta["start"] = start
    return cast


def describe(kind: pa.DataType) -> str:
    """A type's name for people."""
    names = {
        pa.int8(): "tinyint",
        pa.int16(): "smallint",
        pa.int32(): "int",
        pa.int64(): "bigint",
        pa.float32(): "float",
        pa.float64(): "double",
        pa.bool_(): "boolean",
        pa.date32(): "date",
        pa.timestamp("us"): "timestamp without time zone",
        pa.timestamp("us", "UTC"): "timestamp",
        pa.duration("us"): "interval",
        pa.month_day_nano_interval(): "interval of months",
        pa.null(): "NULL",
    }
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision}, {kind.scale})"
    return names.get(kind, str(kind))
