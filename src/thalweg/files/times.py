"""Times in text: found, converted to microseconds, and checked in the event time column."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from thalweg.errors import InputError

_ZONES = (None, "UTC")  # texts without and with a zone need different target types


def with_times(table: pa.Table, time: str | None, file: Path) -> pa.Table:
    """The table of a text file with its times in microseconds, in UTC, without a zone.

    Like everywhere in a query, ``time`` is compared with the names of columns without regard to case.
    The event time column may also hold dates, nothing at all, or texts that the reader did
    not recognise (fractions of seconds in JSON); a text in it that is no time is an error.
    """
    for index, field in enumerate(table.schema):
        column = table.column(index)
        is_time = time is not None and field.name.lower() == time.lower()
        if pa.types.is_timestamp(field.type):
            column = _microseconds(column)
        elif is_time and (pa.types.is_date(field.type) or pa.types.is_null(field.type)):
            column = column.cast(pa.timestamp("us"))
        elif is_time and pa.types.is_string(field.type):
            column = _parsed(column, field.name, file)
        else:
            continue
        table = table.set_column(index, field.name, column)
    return table


def recognised_times(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Texts as timestamps, if all of them are times that count in seconds; else as they are."""
    for zone in _ZONES:
        with contextlib.suppress(pa.ArrowInvalid):
            return _microseconds(column.cast(pa.timestamp("s", zone)))
    return column


def _microseconds(column: pa.ChunkedArray) -> pa.ChunkedArray:
    # Finer than a microsecond: nothing is cut off here, so the type stays, and whoever needs
    # microseconds refuses it.
    with contextlib.suppress(pa.ArrowInvalid):
        column = column.cast(pa.timestamp("us", column.type.tz))
    if column.type.tz is None:
        return column
    return pc.local_timestamp(column.cast(pa.timestamp(column.type.unit, "UTC")))


def _parsed(column: pa.ChunkedArray, name: str, file: Path) -> pa.ChunkedArray:
    for zone in _ZONES:
        if _are_times(column, zone):
            return _microseconds(column.cast(pa.timestamp("us", zone)))
    row = _first_failing(column, lambda part: any(_are_times(part, zone) for zone in _ZONES))
    value = column[row].as_py()
    if any(_are_times(column.slice(row, 1), zone) for zone in _ZONES):
        problem = f"mixes times with and without a zone: see '{value}' in row {row + 1}"
    else:
        problem = f"holds '{value}' in row {row + 1}, which is no time"
    raise InputError(
        f"{file}: time column '{name}' {problem}. Times are ISO 8601 with at most six digits "
        "after the second, as in 2024-05-01T09:30:00.250 or 2024-05-01 09:30:00Z."
    )


def _are_times(column: pa.ChunkedArray, zone: str | None) -> bool:
    try:
        column.cast(pa.timestamp("us", zone))
    except pa.ArrowInvalid:
        return False
    return True


def _first_failing(column: pa.ChunkedArray, holds: Callable[[pa.ChunkedArray], bool]) -> int:
    """The row that makes ``holds`` fail for the rows up to it, by bisection; there is one."""
    good, bad = 0, len(column)  # rows [0, good) hold, rows [0, bad) do not
    while bad - good > 1:
        middle = (good + bad) // 2
        if holds(column.slice(0, middle)):
            good = middle
        else:
            bad = middle
    return bad - 1
