"""The streams that ``--source`` names, and the static relations of ``--static``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from thalweg.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

SOURCE_EXAMPLE = "trades=trades.parquet"


def read_sources(paths: Mapping[str, str], times: Mapping[str, str | None]) -> dict[str, pa.Table]:
    """Read every stream, and see that its event time column is there; a static relation (None) has none."""
    from thalweg.files import read_table

    tables = {}
    for stream, path in paths.items():
        time = times[stream]
        table = read_table(path, time=time)
        if time is not None and time.lower() not in (name.lower() for name in table.column_names):
            raise InputError(
                f"{path} has no column '{time}' for the event time of stream '{stream}'. Its columns are "
                f"{', '.join(table.column_names)}. Name the one with the time: --time {stream}=COLUMN; or, if it is no "
                f"stream but a table: --static {stream}={path}."
            )
        tables[stream] = table
    return tables
