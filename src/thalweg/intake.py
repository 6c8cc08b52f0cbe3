"""Whatever a caller calls a table, as an Arrow table that the engine can work on."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, Literal, get_args

import pyarrow as pa
import pyarrow.compute as pc

from thalweg.calculator import judge
from thalweg.cql import match_name
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
_FAR = 8_000_000_000 * 1_000_000
"""Microseconds till the year 2223."""
_NAMES: dict[TimeUnit, str] = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}


def as_tables(streams: Any) -> dict[str, pa.Table]:
    """The tables of all streams, by their names."""
    if not isinstance(streams, Mapping):
        raise InputError(
            f"streams is {_some(streams)}, and should name the table of each stream, "
            'as in {"trades": trades, "quotes": quotes}'
        )
    return {_name(name): as_table(name, table) for name, table in streams.items()}


def _name(name: object) -> str:
    if not isinstance(name, str) or not name:
        raise InputError(f"the name of a stream is a text, not {name!r}")
    return name


def as_table(name: str, table: Any) -> pa.Table:
    """The rows of a stream called ``name``.

    Timestamps finer than microseconds are cut, as nothing here counts finer. Strings laid out as views, which
    Arrow's own functions do not all know, are laid out in a row. Small floats and decimals have their usual width.

    >>> as_table("s", {"t": pa.array([1500, 2999], pa.timestamp("ns"))})["t"].cast(pa.int64()).to_pylist()
    [1, 2]
    """
    if not isinstance(table, pa.Table):
        try:
            table = pa.table(table)
        except (TypeError, ValueError, AttributeError, pa.ArrowException) as error:
            raise InputError(
                f"stream '{name}' is {_some(table)} that cannot be read as a table ({error}). "
                "Pass a pyarrow Table, a data frame, or a mapping of columns; `thalweg replay` reads files."
            ) from error
    _check_names(name, table)
    for position, field in enumerate(table.schema):
        kind = _workable(field.type)
        if kind != field.type:
            column = table.column(position).cast(kind, safe=False)
            table = table.set_column(position, field.with_type(kind), column)
    return table


def _check_names(stream: str, table: pa.Table) -> None:
    try:
        names = table.column_names
    except UnicodeDecodeError as error:
        raise InputError(f"stream '{stream}' has a column whose name is not UTF-8 ({error}). Rename it.") from error
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"stream '{stream}' has {names.count(name)} columns named '{name}'; names must differ")


def _workable(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        return pa.timestamp("us", kind.tz)
    if kind == pa.time64("ns"):
        return pa.time64("us")
    if pa.types.is_string_view(kind):
        return pa.large_string()
    if pa.types.is_binary_view(kind):
        return pa.large_binary()
    if pa.types.is_float16(kind):
        return pa.float32()
    if pa.types.is_decimal256(kind) and kind.precision <= pa.decimal128(38).precision:
        return pa.decimal128(kind.precision, kind.scale)
    return kind


def unusable_columns(table: pa.Table) -> dict[str, str]:
    """The columns that nothing can be computed from, each with the reason: those that the calculator cannot read."""
    import duckdb

    found = {}
    for field in table.schema:
        if not (pa.types.is_primitive(field.type) or pa.types.is_string(field.type)) or _is_odd(field.type):
            try:
                judge().from_arrow(pa.schema([field.with_name("c")]).empty_table())
            except (duckdb.Error, pa.ArrowException):
                found[field.name] = f"has the type {field.type}, which nothing can be computed from"
    return found


def _is_odd(kind: pa.DataType) -> bool:
    return bool(pa.types.is_decimal(kind) or pa.types.is_duration(kind) or pa.types.is_interval(kind))


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
                "no integer. Leave time_unit out."
            )
        return table
    _check_plausible(name, column, values, unit)
    if unit is None:
        return table
    factor, parts = PER_UNIT[unit]
    try:
        moments = pc.divide(pc.multiply_checked(values.cast(pa.int64()), factor), parts)
    except pa.ArrowInvalid as error:
        ends = pc.min_max(values).as_py()
        raise InputError(
            f"column '{column}' of stream '{name}' has times outside the years that microseconds can count: "
            f"{ends['min']} to {ends['max']}, read as {_NAMES[unit]}"
        ) from error
    return table.set_column(position, column, moments.cast(pa.timestamp("us", "UTC")))


def _check_plausible(name: str, column: str, values: pa.ChunkedArray, unit: TimeUnit | None) -> None:
    """Warn of times that would lie around now if they were in another unit.

    A unit that was said is believed unless the times would lie centuries ahead.
    """
    ends = pc.min_max(values).as_py()
    if ends["min"] is None:
        return
    factor, parts = PER_UNIT[unit or "us"]
    if unit is not None and ends["max"] * factor // parts < _FAR:
        return
    for likely, (factor, parts) in PER_UNIT.items():
        least, most = (bound * 1_000_000 * parts // factor for bound in _AROUND_NOW)
        if likely != (unit or "us") and least <= ends["min"] and ends["max"] <= most:
            hint = "; if they are microseconds, say time_unit='us'" if unit is None else ""
            warn(
                f"the event times '{column}' of stream '{name}' are read as {_NAMES[unit or 'us']} since 1970, but look "
                f"like {_NAMES[likely]}: {ends['min']} to {ends['max']}. Then say time_unit='{likely}'{hint}."
            )


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


def _some(value: object) -> str:
    return f"a {type(value).__name__}"
