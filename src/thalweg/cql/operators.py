"""Arithmetic and comparisons as Spark does them in ANSI mode: in its types, with its errors."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from thalweg.cql import decimals
from thalweg.cql.typed import (
    LENGTH,
    MONTHS,
    TIMESTAMP,
    NotInProcessError,
    NoTypeError,
    Typed,
    as_decimal,
    cast_sql,
    coerce,
    duck_type,
    failing,
    is_decimal,
    is_double,
    is_integer,
    is_number,
    is_time,
    wider,
)
from thalweg.cql.types import describe

DAY = 86_400_000_000
_DUCK_SHORT = 18
"""DuckDB gives results of decimals of so many digits no more than that, so operands are widened before."""


def add(left: Typed, right: Typed) -> Typed:
    if _is_length(left) and not _is_length(right):
        left, right = right, left
    return _shifted(left, "+", right) if _is_length(right) else _sum(left, "+", right)


def subtract(left: Typed, right: Typed) -> Typed:
    times = [is_time(side.kind) or side.kind == pa.date32() for side in (left, right)]
    if all(times):
        return _difference(left, right)
    return _shifted(left, "-", right) if _is_length(right) else _sum(left, "-", right)


def multiply(left: Typed, right: Typed) -> Typed:
    if left.kind == LENGTH or right.kind == LENGTH:
        length, number = (left, right) if left.kind == LENGTH else (right, left)
        if not is_integer(number.kind):
            raise NotInProcessError("an interval times anything but a whole number is")
        return Typed(f"({length.sql} * {cast_sql(number.sql, pa.int64())})", LENGTH)
    kind = _numeric(left, right)
    if not is_decimal(kind):
        return Typed(f"({coerce(left, kind)} * {coerce(right, kind)})", kind)
    one, two = _decimal(left), _decimal(right)
    result = decimals.of_product(one.kind, two.kind)
    if one.kind.scale + two.kind.scale > decimals.MAX_DIGITS:
        raise NotInProcessError(f"{describe(one.kind)} times {describe(two.kind)} is")
    wide = cast_sql(one.sql, pa.decimal128(max(one.kind.precision, _DUCK_SHORT + 1), one.kind.scale))
    return Typed(cast_sql(f"({wide} * {two.sql})", result), result)


def divide(left: Typed, right: Typed) -> Typed:
    if left.kind == LENGTH:
        raise NotInProcessError("an interval divided by a number is")
    kind = _numeric(left, right)
    if not is_decimal(kind):
        one, two = coerce(left, pa.float64()), coerce(right, pa.float64())
        return Typed(_by_zero(left, right, f"{one} / {two}"), pa.float64())
    one_decimal, two_decimal = _decimal(left), _decimal(right)
    result = decimals.of_quotient(one_decimal.kind, two_decimal.kind)
    shift = result.scale - one_decimal.kind.scale + two_decimal.kind.scale
    dividend = unscaled(one_decimal, one_decimal.kind.scale + max(shift, 0))
    divisor = unscaled(two_decimal, two_decimal.kind.scale)
    if shift < 0:
        raise NotInProcessError(f"{describe(one_decimal.kind)} divided by {describe(two_decimal.kind)} is")
    # Half is rounded away from zero: twice the quotient, one more, halved.
    sign = f"(CASE WHEN ({dividend} < 0) = ({divisor} < 0) THEN 1 ELSE -1 END)"
    rounded = f"({sign} * ((2 * abs({dividend}) // abs({divisor}) + 1) // 2))"
    return Typed(_by_zero(left, right, scaled(rounded, result)), result)


def integer_divide(left: Typed, right: Typed) -> Typed:
    kind = _numeric(left, right)
    if is_double(kind):
        raise NoTypeError("DIV takes whole numbers and decimals.")
    one, two = _whole_pair(left, right, kind)
    return Typed(_by_zero(left, right, f"CAST({one} // {two} AS BIGINT)"), pa.int64())


def remainder(left: Typed, right: Typed) -> Typed:
    kind = _numeric(left, right)
    if is_double(kind):
        one, two = coerce(left, kind), coerce(right, kind)
        return Typed(_by_zero(left, right, f"{one} % {two}"), kind)
    one, two = _whole_pair(left, right, kind)
    rest = f"{one} % {two}"
    if is_decimal(kind):
        kind = decimals.of_remainder(_decimal(left).kind, _decimal(right).kind)
        return Typed(_by_zero(left, right, scaled(rest, kind)), kind)
    return Typed(_by_zero(left, right, cast_sql(rest, kind)), kind)


def negate(item: Typed) -> Typed:
    if isinstance(item.constant, int):
        return Typed(f"(-{item.sql})", item.kind, -item.constant)
    if is_integer(item.kind) or item.kind == LENGTH:
        return Typed(f"({cast_sql('0', item.kind)} - {item.sql})", item.kind, is_day=item.is_day)
    if is_decimal(item.kind) or is_double(item.kind):
        return Typed(f"(-{item.sql})", item.kind)
    raise NoTypeError(f"{describe(item.kind)} has no negative.")


def bits(operator: str) -> Callable[[Typed, Typed], Typed]:
    """``&``, ``|`` and ``xor``."""

    def apply(left: Typed, right: Typed) -> Typed:
        kind = wider(left.kind, right.kind)
        if not is_integer(kind):
            raise NoTypeError("Bits are those of whole numbers.")
        one, two = coerce(left, kind), coerce(right, kind)
        return Typed(f"xor({one}, {two})" if operator == "xor" else f"({one} {operator} {two})", kind)

    return apply


def compare(operator: str, left: Typed, right: Typed) -> Typed:
    kind = wider(left.kind, right.kind)
    if kind == MONTHS:
        raise NotInProcessError("a comparison of intervals of months is")
    duck_type(kind)
    return Typed(f"({coerce(left, kind)} {operator} {coerce(right, kind)})", pa.bool_())


def unscaled(item: Typed, scale: int) -> str:
    """A decimal as the HUGEINT that it is at some scale, at least its own."""
    own = item.kind.scale
    if item.kind.precision + max(own + 1, scale - own) > decimals.MAX_DIGITS - 1:
        raise NotInProcessError(f"a division of {describe(item.kind)} by so many digits is")
    whole = f"CAST({item.sql} AS HUGEINT)"
    if own:
        wide = f"CAST({item.sql} AS DECIMAL({decimals.MAX_DIGITS - own - 1}, {own}))"
        whole = f"CAST({wide} * CAST({10**own} AS DECIMAL({own + 1}, 0)) AS HUGEINT)"
    return f"({whole} * CAST({10 ** (scale - own)} AS HUGEINT))" if scale > own else whole


def scaled(whole: str, kind: pa.DataType) -> str:
    """The decimal of a type whose unscaled value is a HUGEINT."""
    if not kind.scale:
        return cast_sql(whole, kind)
    unit = f"CAST('0.{'0' * (kind.scale - 1)}1' AS DECIMAL({kind.scale + 1}, {kind.scale}))"
    return cast_sql(f"(CAST({whole} AS DECIMAL({decimals.MAX_DIGITS}, 0)) * {unit})", kind)


def _numeric(left: Typed, right: Typed) -> pa.DataType:
    for side in (left, right):
        if not is_number(side.kind) and not pa.types.is_null(side.kind):
            raise NoTypeError(f"{describe(side.kind)} is no number.")
    kind = wider(_literal_kind(left, right), _literal_kind(right, left))
    return pa.float64() if pa.types.is_null(kind) else kind


def _literal_kind(item: Typed, other: Typed) -> pa.DataType:
    """The type of an operand; a written whole number next to a decimal has as many digits as were written."""
    if isinstance(item.constant, int) and is_integer(item.kind) and is_decimal(other.kind):
        return decimals.of_literal(item.constant)
    return item.kind


def _decimal(item: Typed) -> Typed:
    """An operand beside a decimal, as a decimal."""
    if pa.types.is_null(item.kind):
        raise NotInProcessError("NULL next to a decimal is")
    if isinstance(item.constant, int) and is_integer(item.kind):
        kind = decimals.of_literal(item.constant)
    else:
        kind = as_decimal(item.kind)
    return Typed(cast_sql(item.sql, kind), kind)


def _sum(left: Typed, operator: str, right: Typed) -> Typed:
    if left.kind == LENGTH == right.kind:
        return Typed(f"({left.sql} {operator} {right.sql})", LENGTH, is_day=left.is_day and right.is_day)
    if pa.date32() in (left.kind, right.kind) and (is_integer(left.kind) or is_integer(right.kind)):
        return _days(left, operator, right)
    kind = _numeric(left, right)
    if not is_decimal(kind):
        return Typed(f"({coerce(left, kind)} {operator} {coerce(right, kind)})", kind)
    one, two = _decimal(left), _decimal(right)
    result = decimals.of_sum(one.kind, two.kind)
    scale = max(one.kind.scale, two.kind.scale)
    wide = pa.decimal128(max(min(result.precision + scale - result.scale, decimals.MAX_DIGITS), _DUCK_SHORT + 1), scale)
    return Typed(cast_sql(f"({cast_sql(one.sql, wide)} {operator} {cast_sql(two.sql, wide)})", result), result)


def _days(left: Typed, operator: str, right: Typed) -> Typed:
    if operator == "+" and is_integer(left.kind):
        left, right = right, left
    if not is_integer(right.kind) or right.kind.bit_width > pa.int32().bit_width:
        raise NoTypeError(f"{describe(left.kind)} {operator} {describe(right.kind)} has no meaning.")
    return Typed(f"({left.sql} {operator} CAST({right.sql} AS INTEGER))", pa.date32())


def _difference(left: Typed, right: Typed) -> Typed:
    if left.kind == right.kind == pa.date32():
        return Typed(f"(CAST({left.sql} - {right.sql} AS BIGINT) * {DAY})", LENGTH, is_day=True)
    return Typed(f"({instant(left)} - {instant(right)})", LENGTH)


def instant(item: Typed) -> str:
    """A date or a time as microseconds since 1970."""
    if item.kind == pa.date32():
        return f"epoch_us(CAST({item.sql} AS TIMESTAMP))"
    return f"epoch_us({item.sql})"


def _is_length(item: Typed) -> bool:
    return item.kind in (LENGTH, MONTHS)


def _shifted(left: Typed, operator: str, right: Typed) -> Typed:
    """A date or time moved by an interval."""
    if left.kind == right.kind == LENGTH:
        return _sum(left, operator, right)
    if not (is_time(left.kind) or left.kind == pa.date32()):
        raise NoTypeError(f"{describe(left.kind)} cannot be moved by an interval.")
    if right.kind == MONTHS:
        return Typed(cast_sql(f"({left.sql} {operator} {right.sql})", left.kind), left.kind)
    if left.kind == pa.date32() and right.is_day:
        return Typed(f"({left.sql} {operator} CAST({right.sql} // {DAY} AS INTEGER))", pa.date32())
    kind = TIMESTAMP if left.kind == pa.date32() else left.kind
    return Typed(f"make_timestamp({instant(left)} {operator} {right.sql})", kind)


def _by_zero(left: Typed, right: Typed, otherwise: str) -> str:
    if isinstance(right.constant, int) and right.constant:
        return f"({otherwise})"
    return failing(f"{right.sql} = 0 AND {left.sql} IS NOT NULL", "division by zero", otherwise)


def _whole_pair(left: Typed, right: Typed, kind: pa.DataType) -> tuple[str, str]:
    """Two whole numbers or decimals as HUGEINT of one scale."""
    if is_decimal(kind):
        one, two = _decimal(left), _decimal(right)
        scale = max(one.kind.scale, two.kind.scale)
        return unscaled(one, scale), unscaled(two, scale)
    return f"CAST({left.sql} AS HUGEINT)", f"CAST({right.sql} AS HUGEINT)"
