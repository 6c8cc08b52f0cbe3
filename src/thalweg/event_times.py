"""Where the event times of streams are, what integers among them count, and what about them looks wrong."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, Literal, get_args

import pyarrow as pa
import pyarrow.compute as pc

from thalweg.cql import match_name
from thalweg.engine.time_bounds import GREATEST_TIME
from thalweg.errors import InputError, warn

TimeUnit = Literal["s", "ms", "us", "ns"]
"""What event times that are integers count, since 1970 in UTC."""
Times = str | Mapping[str, str | None]
"""The event time column of all streams, or of each; None: a static relation."""
TimeUnits = TimeUnit | Mapping[str, TimeUnit]
DEFAULT_TIME = "ts"

PER_UNIT: dict[TimeUnit, tuple[int, int]] = {"s": (1_000_000, 1), "ms": (1_000, 1), "us": (1, 1), "ns": (1, 1_000)}
"""Microseconds are so many times, and then so many parts of, a number in this unit."""
_AROUND_NOW = (1_000_000_000, 4_200_000_000)
"""Seconds from 2001 to 2103: where the event times of real streams lie."""
_GREATEST_INTEGER = 2**63 - 1
_INSTANT = pa.timestamp("us", "UTC")
_NAMES: dict[TimeUnit, str] = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}


def time_columns(tables: Mapping[str, pa.Table], time: Any) -> dict[str, str | None]:
    """The event time column of each stream, as it is written."""
    if isinstance(time, str):
        time = dict.fromkeys(tables, time)
    if not isinstance(time, Mapping):
        example = next(iter(tables), "trades")
        raise InputError(
            f"time={time!r} is neither the name of a column nor a mapping from streams to theirs. "
            f"A static relation is named as one: time={{'{example}': None}}."
        )
    _check_streams("time", time, tables)
    columns = {}
    for name, table in tables.items():
        column = time.get(name, DEFAULT_TIME)
        if column is not None and not isinstance(column, str):
            raise InputError(f"time of stream '{name}' is {column!r}, not the name of a column")
        found = None if column is None else match_name(column, table.column_names)
        if column is not None and found is None:
            raise InputError(
                f"stream '{name}' has no column '{column}' to take its event time from. "
                f"Its columns are {', '.join(table.column_names)}. Say which one it is with time=..., "
                f"or that it is a static relation with time={{'{name}': None}}."
            )
        columns[name] = found
    return columns


def time_units(streams: Mapping[str, Any], unit: Any) -> dict[str, TimeUnit]:
    """The unit that was said of each stream's event times."""
    if unit is None:
        return {}
    if not isinstance(unit, Mapping):
        unit = dict.fromkeys(streams, unit)
    _check_streams("time_unit", unit, streams)
    return {name: checked_unit(given) for name, given in unit.items()}


def checked_unit(unit: Any) -> TimeUnit:
    """A unit that there is."""
    if unit not in get_args(TimeUnit):
        raise InputError(f"time_unit is one of {', '.join(get_args(TimeUnit))}, not {unit!r}")
    checked: TimeUnit = unit
    return checked


def _check_streams(argument: str, given: Mapping[Any, Any], streams: Mapping[str, Any]) -> None:
    for name in given:
        if name not in streams:
            close = difflib.get_close_matches(str(name), streams, n=1)
            hint = f"Did you mean '{close[0]}'?" if close else f"The streams are {', '.join(streams)}."
            raise InputError(f"{argument} names a stream '{name}', which is not there. {hint}")


def with_unit(name: str, table: pa.Table, column: str, unit: TimeUnit | None) -> pa.Table:
    """The table of a stream with integer event times as timestamps, if their unit was said.

    Else they are taken as microseconds, and stay integers. Times of another kind have a unit of their own.
    """
    position = table.column_names.index(column)
    values = table.column(position)
    if not pa.types.is_integer(values.type):
        if unit is not None:
            raise InputError(
                f"time_unit of stream '{name}' is '{unit}', but its event time '{column}' is {values.type}, "
                "no integer. Name the streams alone whose times are integers, as in time_unit={'trades': 'ms'}."
            )
        return table
    ends = pc.min_max(values).as_py()
    if ends["min"] is None:
        return table if unit is None else table.set_column(position, column, pa.nulls(len(values), _INSTANT))
    factor, parts = PER_UNIT[unit or "us"]
    likely = _likely_unit(ends["min"], ends["max"])
    what = f"'{column}' of stream '{name}'"
    looks = f"They look like {_NAMES[likely]}: say time_unit='{likely}'" if likely else ""
    farthest = max(abs(ends["min"]), abs(ends["max"]))
    if farthest * factor // parts > GREATEST_TIME or farthest > _GREATEST_INTEGER:
        raise InputError(
            f"column {what} has times outside the years that microseconds can count: {ends['min']} to {ends['max']}, "
            f"read as {_NAMES[unit or 'us']}. {looks}".strip(". ")
        )
    if unit is None:
        if likely not in (None, "us"):
            warn(
                f"the event times {what} are read as microseconds since 1970: {ends['min']} to {ends['max']}. "
                f"{looks}. If they are microseconds, say time_unit='us'."
            )
        return table
    moments = pc.divide(pc.multiply(values.cast(pa.int64()), factor), parts)
    return table.set_column(position, column, moments.cast(_INSTANT))


def _likely_unit(least: int, most: int) -> TimeUnit | None:
    """The unit in which times would lie around now."""
    for unit, (factor, parts) in PER_UNIT.items():
        first, last = (bound * 1_000_000 * parts // factor for bound in _AROUND_NOW)
        if first <= least and most <= last:
            return unit
    return None


def warn_of_zones(times: Mapping[str, pa.DataType]) -> None:
    """Warn where some streams, by their names, have event times with a time zone and others have not."""
    zoned = [name for name, kind in times.items() if pa.types.is_timestamp(kind) and kind.tz is not None]
    naive = [name for name, kind in times.items() if pa.types.is_timestamp(kind) and kind.tz is None]
    if zoned and naive:
        warn(
            f"the event times of {_list(zoned)} have a time zone, and those of {_list(naive)} have none: "
            "these are taken as UTC. Give them a zone if they are local times."
        )


def _list(names: list[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)
