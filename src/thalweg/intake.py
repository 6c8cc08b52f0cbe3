"""Whatever a caller calls a table, as an Arrow table that the engine can work on."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from thalweg.errors import InputError


def as_table(name: str, table: Any) -> pa.Table:
    """The rows of a stream called ``name``.

    Timestamps finer than microseconds are cut, as nothing here counts finer; strings laid out as views, which
    Arrow's own functions do not all know, are laid out in a row.

    >>> as_table("s", {"t": pa.array([1500, 2999], pa.timestamp("ns"))})["t"].cast(pa.int64()).to_pylist()
    [1, 2]
    """
    if not isinstance(table, pa.Table):
        try:
            table = pa.table(table)
        except (TypeError, ValueError, pa.ArrowException) as error:
            raise InputError(
                f"stream '{name}' is a {type(table).__name__} that cannot be read as a table ({error}). "
                "Pass a pyarrow Table, a data frame, or a mapping of columns."
            ) from error
    for position, field in enumerate(table.schema):
        kind = _workable(field.type)
        if kind != field.type:
            column = table.column(position).cast(kind, safe=False)
            table = table.set_column(position, field.with_type(kind), column)
    return table


def _workable(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        return pa.timestamp("us", kind.tz)
    if kind == pa.time64("ns"):
        return pa.time64("us")
    if pa.types.is_string_view(kind):
        return pa.large_string()
    if pa.types.is_binary_view(kind):
        return pa.large_binary()
    return kind
