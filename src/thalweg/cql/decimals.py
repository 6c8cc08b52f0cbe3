"""Spark's rules for the digits of decimals: how many a result has, before and after the point.

A result that would need more than 38 digits gives up digits after the point, but keeps six of them if it has as many
(Spark's ``spark.sql.decimalOperations.allowPrecisionLoss``, which is on by default).
"""

from __future__ import annotations

import pyarrow as pa

MAX_DIGITS = 38
"""The widest decimal of Spark and DuckDB."""
_KEPT_SCALE = 6
_INTEGER_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}
"""The digits of the decimal that Spark makes of an integer, by its bits."""


def of_integer(kind: pa.DataType) -> pa.DataType:
    """The decimal type that an integer type becomes next to a decimal."""
    return pa.decimal128(_INTEGER_DIGITS[kind.bit_width], 0)


def of_literal(number: int) -> pa.DataType:
    """The decimal type that a written whole number becomes next to a decimal: no more digits than it has."""
    return pa.decimal128(max(1, len(str(abs(number)))), 0)


def adjusted(precision: int, scale: int) -> pa.DataType:
    """The type of a result of so many digits.

    >>> adjusted(21, 4), adjusted(77, 40)
    (Decimal128Type(decimal128(21, 4)), Decimal128Type(decimal128(38, 6)))
    """
    if precision <= MAX_DIGITS:
        return pa.decimal128(precision, scale)
    whole = precision - scale
    return pa.decimal128(MAX_DIGITS, max(MAX_DIGITS - whole, min(scale, _KEPT_SCALE)))


def bounded(precision: int, scale: int) -> pa.DataType:
    """A type of so many digits, cut at 38: what aggregates have."""
    return pa.decimal128(min(precision, MAX_DIGITS), min(scale, MAX_DIGITS))


def of_sum(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    scale = max(left.scale, right.scale)
    return adjusted(max(left.precision - left.scale, right.precision - right.scale) + scale + 1, scale)


def of_product(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    return adjusted(left.precision + right.precision + 1, left.scale + right.scale)


def of_quotient(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    scale = max(_KEPT_SCALE, left.scale + right.precision + 1)
    return adjusted(left.precision - left.scale + right.scale + scale, scale)


def of_remainder(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    scale = max(left.scale, right.scale)
    return adjusted(min(left.precision - left.scale, right.precision - right.scale) + scale, scale)


def common(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """The type that holds the values of both; None if 38 digits do not."""
    scale = max(left.scale, right.scale)
    precision = max(left.precision - left.scale, right.precision - right.scale) + scale
    return pa.decimal128(precision, scale) if precision <= MAX_DIGITS else None


def summed(kind: pa.DataType) -> pa.DataType:
    """The type of SUM over a decimal."""
    return bounded(kind.precision + 10, kind.scale)


def averaged(kind: pa.DataType) -> pa.DataType:
    """The type of AVG over a decimal."""
    return bounded(kind.precision + 4, kind.scale + 4)
