"""Spark's functions of dates and times, in process: their types, and their values by DuckDB. Times are in UTC."""

from __future__ import annotations

import re

import pyarrow as pa

from thalweg.cql.casts import cast, seconds
from thalweg.cql.number_functions import Builder, arguments, integer
from thalweg.cql.operators import instant
from thalweg.cql.typed import TIMESTAMP, NotInProcessError, NoTypeError, Typed, failing, is_time, text_sql
from thalweg.cql.types import describe

_UNITS = {
    **dict.fromkeys(("year", "yyyy", "yy"), "year"),
    "quarter": "quarter",
    **dict.fromkeys(("month", "mm", "mon"), "month"),
    "week": "week",
    **dict.fromkeys(("day", "dd"), "day"),
    **{unit: unit for unit in ("hour", "minute", "second", "millisecond", "microsecond")},
}
_FORMATS = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S", "SSS": "%g", "SSSSSS": "%f"}
_LEAST_YEAR, _GREATEST_YEAR = "0001-01-01", "9999-12-31"


def _date(item: Typed) -> str:
    """An argument that is a date, or a time of which the date counts."""
    if item.kind == pa.date32() or pa.types.is_null(item.kind):
        return f"CAST({item.sql} AS DATE)"
    if is_time(item.kind):
        return f"CAST({item.sql} AS DATE)"
    raise NoTypeError(f"It takes dates and times, not {describe(item.kind)}.")


def _time(item: Typed) -> Typed:
    if is_time(item.kind):
        return item
    if item.kind == pa.date32() or pa.types.is_null(item.kind):
        return Typed(f"CAST({item.sql} AS TIMESTAMP)", TIMESTAMP)
    raise NoTypeError(f"It takes times, not {describe(item.kind)}.")


def _part_of_date(function: str) -> Builder:
    return arguments(1, 1, lambda items: Typed(f"CAST({function}({_date(items[0])}) AS INTEGER)", pa.int32()))


def _part_of_time(function: str) -> Builder:
    return arguments(1, 1, lambda items: Typed(f"CAST({function}({_time(items[0]).sql}) AS INTEGER)", pa.int32()))


def _date_trunc(items: list[Typed]) -> Typed:
    unit = items[0].constant
    if not isinstance(unit, str) or unit.lower() not in _UNITS:
        raise NotInProcessError("DATE_TRUNC to a unit that is not written down, or unknown, is")
    return Typed(f"date_trunc('{_UNITS[unit.lower()]}', {_time(items[1]).sql})", TIMESTAMP)


def _datediff(items: list[Typed]) -> Typed:
    if len(items) == 3:
        raise NotInProcessError("DATEDIFF with a unit is")
    return Typed(f"CAST({_date(items[0])} - {_date(items[1])} AS INTEGER)", pa.int32())


def _last_day(items: list[Typed]) -> Typed:
    return Typed(f"last_day({_date(items[0])})", pa.date32())


def _add_months(items: list[Typed]) -> Typed:
    return Typed(f"CAST({_date(items[0])} + to_months({integer(items[1])}) AS DATE)", pa.date32())


def _make_date(items: list[Typed]) -> Typed:
    year, month, day = (integer(item) for item in items)
    known = f"{year} IS NULL OR {month} IS NULL OR {day} IS NULL"
    return Typed(f"(CASE WHEN {known} THEN NULL ELSE make_date({year}, {month}, {day}) END)", pa.date32())


def _to_date(items: list[Typed]) -> Typed:
    if len(items) == 1:
        return cast(items[0], pa.date32())
    if items[1].constant != "yyyy-MM-dd" or items[0].kind != pa.string():
        raise NotInProcessError("TO_DATE with a format other than 'yyyy-MM-dd' is")
    value = items[0].sql
    wrong = f"NOT regexp_full_match({value}, '[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}')"
    return Typed(failing(wrong, "a text is no date of the format yyyy-MM-dd", f"CAST({value} AS DATE)"), pa.date32())


def _date_format(items: list[Typed]) -> Typed:
    pattern = items[1].constant
    if not isinstance(pattern, str):
        raise NotInProcessError("DATE_FORMAT with a format that is not written down is")
    time = _time(items[0]).sql
    found = ""
    for part in re.findall(r"([A-Za-z])(\1*)|([^A-Za-z]+)", pattern):
        letters, other = part[0] + part[1], part[2]
        if (letters and letters not in _FORMATS) or "'" in other or "[" in other or "]" in other or "#" in other:
            raise NotInProcessError(f"DATE_FORMAT with the format '{pattern}' is")
        found += _FORMATS[letters] if letters else other.replace("%", "%%")
    beyond = f"{time} < TIMESTAMP '{_LEAST_YEAR}' OR {time} >= TIMESTAMP '{_GREATEST_YEAR}' + INTERVAL 1 DAY"
    message = "a time outside the years 1 to 9999 is not written in process"
    return Typed(failing(beyond, message, f"strftime({time}, {text_sql(found)})"), pa.string())


def _since(unit: int) -> Builder:
    def build(items: list[Typed]) -> Typed:
        [time] = items
        if not is_time(time.kind):
            raise NoTypeError(f"It takes times, not {describe(time.kind)}.")
        return Typed(seconds(time, unit) if unit > 1 else instant(time), pa.int64())

    return arguments(1, 1, build)


def _unix_date(items: list[Typed]) -> Typed:
    if items[0].kind != pa.date32():
        raise NoTypeError(f"It takes dates, not {describe(items[0].kind)}.")
    return Typed(f"CAST({items[0].sql} - DATE '1970-01-01' AS INTEGER)", pa.int32())


TIMES: dict[str, Builder] = {
    **{name: _part_of_date(name) for name in ("year", "quarter", "month", "day", "dayofyear", "weekofyear")},
    "dayofmonth": _part_of_date("day"),
    **{name: _part_of_time(name) for name in ("hour", "minute", "second")},
    "date_trunc": arguments(2, 2, _date_trunc),
    "datediff": arguments(2, 3, _datediff),
    "last_day": arguments(1, 1, _last_day),
    "add_months": arguments(2, 2, _add_months),
    "make_date": arguments(3, 3, _make_date),
    "to_date": arguments(1, 2, _to_date),
    "date_format": arguments(2, 2, _date_format),
    "unix_micros": _since(1),
    "unix_millis": _since(1000),
    "unix_seconds": _since(1_000_000),
    "unix_date": arguments(1, 1, _unix_date),
}
