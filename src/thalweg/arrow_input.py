"""Whatever a caller calls a table, as an Arrow table that the engine can work on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from thalweg.duckdb_scalar import judge
from thalweg.errors import InputError


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
    """The rows of a stream called ``name``; a schema has none.

    Timestamps finer than microseconds are cut, as nothing here counts finer. Strings laid out as views, which
    Arrow's own functions do not all know, are laid out in a row. Small floats and decimals have their usual
    width, and durations count microseconds.

    >>> as_table("s", {"t": pa.array([1500, 2999], pa.timestamp("ns"))})["t"].cast(pa.int64()).to_pylist()
    [1, 2]
    """
    if isinstance(table, pa.Schema):
        table = table.empty_table()
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
    if pa.types.is_duration(kind):
        return pa.duration("us")
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
    """The columns that nothing can be computed from, each with the reason: those that DuckDB cannot read."""
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


def _some(value: object) -> str:
    return f"a {type(value).__name__}"
