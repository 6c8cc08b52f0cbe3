"""Intervals as text: not every file format that we write holds intervals."""

from __future__ import annotations

import pyarrow as pa

_NANOSECONDS = 1_000_000_000
_DAY_US = 86_400_000_000


def with_interval_texts(table: pa.Table) -> pa.Table:
    """A table whose columns of intervals (differences of times) are texts."""
    for index, field in enumerate(table.schema):
        if pa.types.is_duration(field.type) or field.type == pa.month_day_nano_interval():
            values = _intervals(table.column(index))
            texts = pa.array([None if value is None else interval_text(value) for value in values], pa.string())
            table = table.set_column(index, field.name, texts)
    return table


def _intervals(column: pa.ChunkedArray) -> list[pa.MonthDayNano | None]:
    if not pa.types.is_duration(column.type):
        return list(column.to_pylist())
    lengths = column.cast(pa.duration("us")).cast(pa.int64()).to_pylist()
    return [None if length is None else _length(length) for length in lengths]


def _length(microseconds: int) -> pa.MonthDayNano:
    sign = -1 if microseconds < 0 else 1
    days, rest = divmod(abs(microseconds), _DAY_US)
    return pa.MonthDayNano([0, sign * days, sign * rest * 1000])


def interval_text(interval: pa.MonthDayNano) -> str:
    """An interval as DuckDB and PostgreSQL write it.

    >>> interval_text(pa.MonthDayNano([14, 3, 14_706_789_000_000])), interval_text(pa.MonthDayNano([0, 0, 0]))
    ('1 year 2 months 3 days 04:05:06.789', '00:00:00')
    >>> interval_text(pa.MonthDayNano([0, -3, -1_500_000_000]))
    '-3 days -00:00:01.5'
    """
    sign = -1 if interval.months < 0 else 1
    years, months = divmod(abs(interval.months), 12)
    amounts = ((sign * years, "year"), (sign * months, "month"), (interval.days, "day"))
    parts = [f"{amount} {unit}{'' if abs(amount) == 1 else 's'}" for amount, unit in amounts if amount]
    if interval.nanoseconds or not parts:
        parts.append(_clock(interval.nanoseconds))
    return " ".join(parts)


def _clock(nanoseconds: int) -> str:
    seconds, fraction = divmod(abs(nanoseconds), _NANOSECONDS)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    text = f"{'-' if nanoseconds < 0 else ''}{hours:02}:{minutes:02}:{seconds:02}"
    return f"{text}.{fraction:09}".rstrip("0") if fraction else text
