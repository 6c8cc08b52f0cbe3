"""Rows that a query kept out, in parquet files for people to look at.

A file is named after the checkpoint, the batch and the bucket that it comes from, so a batch that is run again, by the
same run or after a restart, replaces its own files.

A file is written beside the others, in a directory that readers pass over, and moved when it is whole. What a killed
task has left there goes when its batch is run again.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from thalweg.errors import OptionError
from thalweg.spark.packing import unblob

LATE, NO_TIME = "late", "no event time"
"""Why a row was kept out."""
_DRAFTS = ".drafts"
KeptOut = tuple[int, str, bytes]
"""Position of the stream, reason, blob of rows."""


def shared(directory: str | Path) -> Path:
    """The directory of an app as a path, at which workers put rows that were kept out."""
    if "://" in str(directory):
        raise OptionError(
            'late_rows="table" writes rows to the directory of the app. That must be a path that all workers can '
            f"write to, and it is the address {directory}. Give thalweg.App(directory=...) such a path."
        )
    return Path(directory)


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
    """Write the rows that a bucket kept out in a batch, to files of this name; for a stream without any, there is none.

    (A batch that is run again after a restart may keep out less: the lateness may have changed.)
    """
    by_stream: dict[int, list[pa.Table]] = {}
    for stream, reason, body in kept:
        table = unblob(body)
        table = table.select([column for column in table.column_names if not column.startswith("__")])
        column = "reason" if "reason" not in table.column_names else "thalweg_reason"
        reasons = pa.array([reason] * table.num_rows, pa.string())
        by_stream.setdefault(stream, []).append(table.append_column(column, reasons))
    for stream, alias in enumerate(aliases):
        file = place(directory, query, alias) / f"{name}.parquet"
        if stream in by_stream:
            _replace(file, pa.concat_tables(by_stream[stream]))
        else:
            file.unlink(missing_ok=True)


def _replace(file: Path, table: pa.Table) -> None:
    drafts = file.parent / _DRAFTS
    drafts.mkdir(parents=True, exist_ok=True)
    draft = drafts / f"{file.stem}.{secrets.token_hex(8)}"
    try:
        pq.write_table(table, draft)
        draft.replace(file)
    except FileNotFoundError:  # another attempt at the batch was first, and has cleared the drafts
        if not file.exists():
            raise
    finally:
        for left in drafts.glob(f"{file.stem}.*"):
            left.unlink(missing_ok=True)
