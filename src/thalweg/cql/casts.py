"""CAST and TRY_CAST as Spark does them in ANSI mode.

Texts are read by Spark's rules, not by DuckDB's. A text that Spark reads and these rules do not (a date of two
digits, a time with a zone) is an error here, never another value.
"""

from __future__ import annotations

import pyarrow as pa

from thalweg.cql.operators import instant
from thalweg.cql.typed import (
    LENGTH,
    TIMESTAMP,
    NotInProcessError,
    NoTypeError,
    Typed,
    cast_sql,
    coerce,
    duck_type,
    failing,
    is_decimal,
    is_double,
    is_integer,
    is_number,
    is_time,
    text_sql,
)
from thalweg.cql.types import describe

_BLANKS = "".join(chr(code) for code in (*range(1, 33), 127))
"""What Spark takes away around a text before it reads a number."""
_WHOLE = "[+-]?[0-9]+"
_NUMBER = "[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?"
_DATE = "[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}"
_TIME = _DATE + "([ T][0-9]{1,2}:[0-9]{1,2}:[0-9]{1,2}([.][0-9]{1,6})?)?"
_TRUE, _FALSE = "('t', 'true', 'y', 'yes', '1')", "('f', 'false', 'n', 'no', '0')"
_LEAST_YEAR, _GREATEST_YEAR = "0001-01-01", "9999-12-31"
_FLOAT_OVERFLOW = "3.4028235677973366e38"


def cast(item: Typed, kind: pa.DataType) -> Typed:
    """``CAST(item AS kind)``."""
    if item.kind == kind:
        return Typed(item.sql, kind, item.constant)
    if pa.types.is_null(item.kind):
        return Typed(cast_sql("NULL", kind), kind)
    if kind == pa.string():
        return Typed(to_text(item), kind)
    if item.kind == pa.string():
        return Typed(_of_text(item, kind), kind)
    if is_number(kind) and is_number(item.kind):
        return Typed(_number(item, kind), kind)
    return Typed(_other(item, kind), kind)


def try_cast(item: Typed, kind: pa.DataType) -> Typed:
    """``TRY_CAST(item AS kind)``: only where every error is Spark's error too, which is NULL then."""
    if item.kind == kind or (is_number(item.kind) and is_number(kind)):
        return Typed(f"TRY({cast(item, kind).sql})", kind)
    text = f"trim({item.sql}, {text_sql(_BLANKS)})"
    if item.kind == pa.string() and is_integer(kind):
        number = f"TRY_CAST({text} AS {duck_type(kind)})"
        return Typed(f"(CASE WHEN regexp_full_match({text}, '{_WHOLE}') THEN {number} END)", kind)
    if item.kind == pa.string() and kind == pa.bool_():
        small = f"lower({text})"
        return Typed(f"(CASE WHEN {small} IN {_TRUE} THEN TRUE WHEN {small} IN {_FALSE} THEN FALSE END)", kind)
    raise NotInProcessError(f"TRY_CAST of {describe(item.kind)} to {describe(kind)} is")


def _number(item: Typed, kind: pa.DataType) -> str:
    if is_integer(kind) and not is_integer(item.kind):
        return cast_sql(f"trunc({item.sql})", kind)
    if is_decimal(kind) and is_double(item.kind):
        # As Spark reads it: by the shortest decimal text of the number.
        return f"(CASE WHEN isfinite({item.sql}) THEN {cast_sql(f'CAST({item.sql} AS VARCHAR)', kind)} END)"
    if kind == pa.float32() and is_decimal(item.kind):
        return cast_sql(f"CAST({item.sql} AS VARCHAR)", kind)
    if kind == pa.float32() and item.kind == pa.float64():
        beyond = f"isfinite({item.sql}) AND abs({item.sql}) >= CAST({_FLOAT_OVERFLOW} AS DOUBLE)"
        infinite = f"CAST(CASE WHEN {item.sql} > 0 THEN 'inf' ELSE '-inf' END AS FLOAT)"
        return f"(CASE WHEN {beyond} THEN {infinite} ELSE CAST({item.sql} AS FLOAT) END)"
    return coerce(item, kind) if kind == pa.float64() else cast_sql(item.sql, kind)


def _of_text(item: Typed, kind: pa.DataType) -> str:
    text = f"trim({item.sql}, {text_sql(_BLANKS)})"
    if kind == pa.bool_():
        small = f"lower({text})"
        wrong = f"{small} NOT IN {_TRUE} AND {small} NOT IN {_FALSE}"
        return failing(wrong, "a text is no boolean", f"({small} IN {_TRUE})")
    if kind == pa.binary():
        return f"encode({item.sql})"
    patterns = {pa.date32(): _DATE, TIMESTAMP: _TIME, pa.timestamp("us"): _TIME}
    if is_double(kind):
        named = f"lower(ltrim({text}, '+-')) IN ('nan', 'inf', 'infinity')"
        wrong = f"NOT regexp_full_match({text}, '{_NUMBER}') AND NOT {named}"
        return failing(wrong, f"a text is no {describe(kind)}", cast_sql(text, kind))
    pattern = _WHOLE if is_integer(kind) else _NUMBER if is_decimal(kind) else patterns.get(kind)
    if pattern is None:
        raise NotInProcessError(f"a cast of a text to {describe(kind)} is")
    wrong = f"NOT regexp_full_match({text}, '{pattern}')"
    return failing(wrong, f"a text cannot be read as {describe(kind)} here", cast_sql(text, kind))


def _other(item: Typed, kind: pa.DataType) -> str:
    if item.kind == pa.bool_() and is_number(kind):
        return cast_sql(f"CAST({item.sql} AS INTEGER)", kind)
    if kind == pa.bool_() and is_number(item.kind):
        return f"({item.sql} <> 0)"
    if kind == pa.date32() and is_time(item.kind):
        return cast_sql(item.sql, kind)
    if is_time(kind) and (is_time(item.kind) or item.kind == pa.date32()):
        return cast_sql(item.sql, kind)
    if is_time(item.kind) and item.kind.tz and is_integer(kind):
        return cast_sql(seconds(item), kind)
    if is_time(item.kind) and item.kind.tz and kind == pa.float64():
        return f"(CAST({instant(item)} AS DOUBLE) / 1000000)"
    if kind == TIMESTAMP and is_integer(item.kind):
        return f"make_timestamp(CAST({item.sql} AS BIGINT) * 1000000)"
    refused = is_double(item.kind) or is_decimal(item.kind) or LENGTH in (item.kind, kind) or item.kind == pa.binary()
    if refused or pa.types.is_nested(item.kind) or pa.types.is_nested(kind):
        raise NotInProcessError(f"a cast of {describe(item.kind)} to {describe(kind)} is")
    raise NoTypeError(f"{describe(item.kind)} cannot be cast to {describe(kind)}.")


def seconds(item: Typed, unit: int = 1_000_000) -> str:
    """Whole units (seconds, unless told otherwise) since 1970, rounded down."""
    whole = instant(item)
    return f"(({whole} - (({whole} % {unit}) + {unit}) % {unit}) // {unit})"


def to_text(item: Typed) -> str:
    """A value as Spark writes it."""
    if item.kind == pa.string():
        return item.sql
    if is_double(item.kind):
        return _double_text(item.sql)
    if item.kind == pa.date32() or is_time(item.kind):
        day = f"CAST({item.sql} AS DATE)"
        beyond = f"{day} < DATE '{_LEAST_YEAR}' OR {day} > DATE '{_GREATEST_YEAR}'"
        return failing(beyond, "a date outside the years 1 to 9999 is not written in process", _varchar(item))
    if is_integer(item.kind) or is_decimal(item.kind) or item.kind == pa.bool_():
        return _varchar(item)
    raise NotInProcessError(f"{describe(item.kind)} as a text is")


def _varchar(item: Typed) -> str:
    return f"CAST({item.sql} AS VARCHAR)"


def _double_text(number: str) -> str:
    """As Java writes doubles: plain between 0.001 and 10 million, else with one digit before the point and an E."""
    plain = f"CAST({number} AS VARCHAR)"
    special = (
        f"WHEN isnan({number}) THEN 'NaN' WHEN isinf({number}) THEN "
        f"CASE WHEN {number} > 0 THEN 'Infinity' ELSE '-Infinity' END"
    )
    is_plain = f"{number} = 0 OR (abs({number}) >= 0.001 AND abs({number}) < 10000000)"
    sign = f"CASE WHEN {number} < 0 THEN '-' ELSE '' END"
    body = f"ltrim({plain}, '-')"
    # DuckDB writes either digits with a point, or a mantissa and an exponent.
    mantissa = f"split_part({body}, 'e', 1)"
    exponent = f"CAST(CASE WHEN contains({body}, 'e') THEN split_part({body}, 'e', 2) ELSE '0' END AS INTEGER)"
    whole, fraction = f"split_part({mantissa}, '.', 1)", f"split_part({mantissa}, '.', 2)"
    digits = f"ltrim({whole} || {fraction}, '0')"
    zeros = f"(length({whole} || {fraction}) - length({digits}))"
    point = f"({exponent} + length({whole}) - {zeros} - 1)"
    rest = f"rtrim(substring({digits}, 2), '0')"
    scientific = (
        f"{sign} || substring({digits}, 1, 1) || '.' || CASE WHEN {rest} = '' THEN '0' ELSE {rest} END "
        f"|| 'E' || CAST({point} AS VARCHAR)"
    )
    return f"(CASE {special} WHEN {is_plain} THEN {plain} ELSE {scientific} END)"
