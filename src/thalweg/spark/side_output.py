"""Rows that a query kept out, in parquet files for people to look at.

A file is named after the batch and the bucket that it comes from, so a batch that is run again replaces its own
files with the same rows.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from thalweg.spark.packing import T, unblob

LATE, NO_TIME = "late", "no event time"
"""Why a row was kept out."""
KeptOut = tuple[int, str, bytes]
"""Position of the stream, reason, blob of rows."""


def place(directory: Path, query: str, alias: str) -> Path:
    """Where the rows of one stream of a query are put."""
    return directory / "late" / query / alias


def write(
    directory: Path, query: str, aliases: Sequence[str], bucket: int, batch: int, kept: Sequence[KeptOut]
) -> None:
    """Write the rows that a bucket kept out in a batch."""
    by_stream: dict[int, list[pa.Table]] = {}
    for stream, reason, body in kept:
        table = unblob(body)
        reasons = pa.array([reason] * table.num_rows, pa.string())
        columns = [name for name in table.column_names if name != T]
        by_stream.setdefault(stream, []).append(table.select(columns).append_column("reason", reasons))
    for stream, tables in by_stream.items():
        folder = place(directory, query, aliases[stream])
        folder.mkdir(parents=True, exist_ok=True)
        hidden = folder / f".{batch}-{bucket}-{os.getpid()}"
        pq.write_table(pa.concat_tables(tables), hidden)
        hidden.replace(folder / f"{batch:012}-{bucket}.parquet")
