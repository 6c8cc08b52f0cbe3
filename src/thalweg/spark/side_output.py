"""Rows that a query kept out, in parquet files for people to look at.

A file is named after the checkpoint, the batch and the bucket that it comes from, so a batch that is run again replaces
its own files with the same rows.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from thalweg.spark.packing import unblob

LATE, NO_TIME = "late", "no event time"
"""Why a row was kept out."""
KeptOut = tuple[int, str, bytes]
"""Position of the stream, reason, blob of rows."""


def place(directory: Path, query: str, alias: str) -> Path:
    """Where the rows of one stream of a query are put; names are quoted, whatever characters they have."""
    return directory / "late" / _file_name(query) / _file_name(alias)


def _file_name(name: str) -> str:
    """A name that stays where it is put.

    >>> _file_name("../../etc"), _file_name("trades")
    ('%2E.%2F..%2Fetc', 'trades')
    """
    quoted = quote(name, safe="")
    return f"%2E{quoted[1:]}" if quoted.startswith(".") else quoted


def write(directory: Path, query: str, aliases: Sequence[str], name: str, kept: Sequence[KeptOut]) -> None:
    """Write the rows that a bucket kept out in a batch, to files of this name."""
    by_stream: dict[int, list[pa.Table]] = {}
    for stream, reason, body in kept:
        table = unblob(body)
        table = table.select([column for column in table.column_names if not column.startswith("__")])
        column = "reason" if "reason" not in table.column_names else "thalweg_reason"
        reasons = pa.array([reason] * table.num_rows, pa.string())
        by_stream.setdefault(stream, []).append(table.append_column(column, reasons))
    for stream, tables in by_stream.items():
        folder = place(directory, query, aliases[stream])
        folder.mkdir(parents=True, exist_ok=True)
        hidden = folder / f".{name}-{os.getpid()}"
        pq.write_table(pa.concat_tables(tables), hidden)
        hidden.replace(folder / f"{name}.parquet")
