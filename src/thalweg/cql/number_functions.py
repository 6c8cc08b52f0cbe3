"""Spark's functions of numbers, in process: their types, and their values by DuckDB."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import pyarrow as pa

from thalweg.cql import decimals, operators
from thalweg.cql.typed import (
    LENGTH,
    NotInProcessError,
    NoTypeError,
    Typed,
    cast_sql,
    coerce,
    is_decimal,
    is_integer,
    is_number,
    widest,
)
from thalweg.cql.types import describe

Builder = Callable[[list[Typed]], Typed]


def arguments(least: int, most: int, build: Builder) -> Builder:
    """A function of so many arguments."""

    def checked(items: list[Typed]) -> Typed:
        if not least <= len(items) <= most:
            counts = f"{least}" if least == most else f"{least} to {most}" if most < MANY else f"at least {least}"
            raise NoTypeError(f"It takes {counts} argument{'' if counts == '1' else 's'}, not {len(items)}.")
        return build(items)

    return checked


MANY = 1000


def double(item: Typed) -> str:
    """An argument of a function of doubles."""
    if not is_number(item.kind) and not pa.types.is_null(item.kind):
        raise NoTypeError(f"It takes numbers, not {describe(item.kind)}.")
    return coerce(item, pa.float64())


def integer(item: Typed) -> str:
    """An argument that is a 32-bit integer."""
    if pa.types.is_null(item.kind):
        return "CAST(NULL AS INTEGER)"
    if not is_integer(item.kind) or item.kind.bit_width > pa.int32().bit_width:
        raise NoTypeError(f"It takes an int, not {describe(item.kind)}.")
    return cast_sql(item.sql, pa.int32())


def _of_double(template: str) -> Builder:
    """A function of one double: ``x`` in the template is its argument."""
    return arguments(1, 1, lambda items: Typed(f"({template.replace('{x}', double(items[0]))})", pa.float64()))


def _abs(items: list[Typed]) -> Typed:
    [item] = items
    if not is_number(item.kind) and item.kind != LENGTH:
        raise NoTypeError(f"It takes numbers, not {describe(item.kind)}.")
    return Typed(f"abs({item.sql})", item.kind)


def _rounded_to_whole(function: str) -> Builder:
    def build(items: list[Typed]) -> Typed:
        if len(items) == 2:
            raise NotInProcessError(f"{function.upper()} with a number of digits is")
        [item] = items
        if is_integer(item.kind):
            return Typed(cast_sql(item.sql, pa.int64()), pa.int64())
        if is_decimal(item.kind):
            kind = decimals.bounded(item.kind.precision - item.kind.scale + 1, 0)
            return Typed(cast_sql(f"{function}({item.sql})", kind), kind)
        number = double(item)
        whole = f"CAST({function}({number}) AS BIGINT)"
        return Typed(f"(CASE WHEN isnan({number}) THEN CAST(0 AS BIGINT) ELSE {whole} END)", pa.int64())

    return arguments(1, 2, build)


def _round(items: list[Typed]) -> Typed:
    item = items[0]
    digits = items[1].constant if len(items) == 2 else 0
    if not isinstance(digits, int) or digits < 0:
        raise NotInProcessError("ROUND to a number of digits that is negative or not written down is")
    if is_integer(item.kind):
        return Typed(item.sql, item.kind)
    if is_decimal(item.kind):
        scale = min(digits, item.kind.scale)
        kind = decimals.bounded(item.kind.precision - item.kind.scale + 1 + scale, scale)
        return Typed(cast_sql(item.sql, kind), kind)
    number = double(item)
    kind = pa.float32() if item.kind == pa.float32() else pa.float64()
    if digits > 15:
        raise NotInProcessError("ROUND of a double to more than 15 digits is")
    # As Spark: half away from zero, of the shortest decimal text of the number.
    rounded = f"CAST(CAST({item.sql} AS VARCHAR) AS DECIMAL(38, {digits}))"
    large = f"NOT isfinite({number}) OR abs({number}) >= 1e18"
    return Typed(
        f"(CASE WHEN {large} THEN {item.sql} ELSE CAST(CAST({rounded} AS VARCHAR) AS {kind_name(kind)}) END)", kind
    )


def kind_name(kind: pa.DataType) -> str:
    return "FLOAT" if kind == pa.float32() else "DOUBLE"


def _logarithm(items: list[Typed]) -> Typed:
    if len(items) == 1:
        return _of_double(_LN)(items)
    base, number = double(items[0]), double(items[1])
    quotient = f"ln({number}) / ln({base})"
    return Typed(f"(CASE WHEN {base} <= 0 OR {number} <= 0 THEN NULL ELSE {quotient} END)", pa.float64())


def _power(items: list[Typed]) -> Typed:
    base, exponent = double(items[0]), double(items[1])
    not_a_number = f"isnan({exponent}) OR (abs({base}) = 1 AND isinf({exponent}))"
    return Typed(
        f"(CASE WHEN {not_a_number} THEN CAST('NaN' AS DOUBLE) ELSE pow({base}, {exponent}) END)", pa.float64()
    )


def _atan2(items: list[Typed]) -> Typed:
    sides = (f"(CASE WHEN {side} = 0 THEN 0.0 ELSE {side} END)" for side in map(double, items))  # no -0.0
    return Typed(f"atan2({', '.join(sides)})", pa.float64())


def _factorial(items: list[Typed]) -> Typed:
    number = integer(items[0])
    product = f"CAST(factorial(CASE WHEN {number} BETWEEN 0 AND 20 THEN {number} END) AS BIGINT)"
    return Typed(product, pa.int64())


def _extreme(function: str) -> Builder:
    def build(items: list[Typed]) -> Typed:
        kind = widest(items)
        return Typed(f"{function}({', '.join(coerce(item, kind) for item in items)})", kind)

    return arguments(2, MANY, build)


def _isnan(items: list[Typed]) -> Typed:
    return Typed(f"coalesce(isnan({double(items[0])}), FALSE)", pa.bool_())


def _bit_count(items: list[Typed]) -> Typed:
    [item] = items
    if not is_integer(item.kind) and item.kind != pa.bool_():
        raise NoTypeError(f"It takes whole numbers, not {describe(item.kind)}.")
    return Typed(f"CAST(bit_count(CAST({item.sql} AS BIGINT)) AS INTEGER)", pa.int32())


def _two(build: Callable[[Typed, Typed], Typed]) -> Builder:
    return arguments(2, 2, lambda items: build(items[0], items[1]))


_LN = "CASE WHEN {x} <= 0 THEN NULL ELSE ln({x}) END"
_SIGN = "CASE WHEN isnan({x}) OR {x} = 0 THEN {x} WHEN {x} > 0 THEN 1.0 WHEN {x} < 0 THEN -1.0 END"
_DEGREES, _RADIANS = Decimal("57.29577951308232"), Decimal("0.017453292519943295")
ROUNDED = frozenset(
    {
        *("cbrt", "exp", "ln", "log", "log2", "log10", "power", "pow"),
        *("sin", "cos", "tan", "cot", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh"),
    }
)
"""Functions whose last digit Java leaves open, so that it may differ."""

NUMBERS: dict[str, Builder] = {
    "abs": arguments(1, 1, _abs),
    "ceil": _rounded_to_whole("ceil"),
    "ceiling": _rounded_to_whole("ceil"),
    "floor": _rounded_to_whole("floor"),
    "round": arguments(1, 2, _round),
    **dict.fromkeys(
        ("sign", "signum"),
        _of_double("CASE WHEN isnan({x}) OR {x} = 0 THEN {x} WHEN {x} > 0 THEN 1.0 WHEN {x} < 0 THEN -1.0 END"),
    ),
    "sqrt": _of_double("sqrt({x})"),
    "cbrt": _of_double("cbrt({x})"),
    "exp": _of_double("exp({x})"),
    "ln": _of_double(_LN),
    "log": arguments(1, 2, _logarithm),
    "log2": _of_double("CASE WHEN {x} <= 0 THEN NULL ELSE log2({x}) END"),
    "log10": _of_double("CASE WHEN {x} <= 0 THEN NULL ELSE log10({x}) END"),
    **dict.fromkeys(("power", "pow"), arguments(2, 2, _power)),
    "mod": _two(operators.remainder),
    "div": _two(operators.integer_divide),
    "factorial": arguments(1, 1, _factorial),
    "greatest": _extreme("greatest"),
    "least": _extreme("least"),
    "pi": arguments(0, 0, lambda _: Typed("pi()", pa.float64())),
    "degrees": _of_double(f"{{x}} * CAST({_DEGREES} AS DOUBLE)"),
    "radians": _of_double(f"{{x}} * CAST({_RADIANS} AS DOUBLE)"),
    "isnan": arguments(1, 1, _isnan),
    "bit_count": arguments(1, 1, _bit_count),
    **{name: _of_double(f"{name}({{x}})") for name in ("sin", "cos", "tan", "asin", "acos", "atan")},
    **{name: _of_double(f"{name}({{x}})") for name in ("sinh", "cosh", "tanh")},
    "cot": _of_double("1.0 / tan({x})"),
    "atan2": arguments(2, 2, _atan2),
}
