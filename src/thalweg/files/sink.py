"""Sinks: files that appear whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from thalweg.errors import InputError
from thalweg.files.formats import PathLike, first_line, format_of, reason


def write_table(table: pa.Table, path: PathLike) -> None:
    """Write ``table`` to ``path`` in the format of its ending; missing directories are made."""
    target = Path(path).expanduser()
    form = format_of(target)
    with atomically(target) as partial:
        try:
            form.write(table, partial)
        except pa.ArrowException as error:
            raise InputError(
                f"cannot write {target} as {form.name}: {first_line(error)}. A .parquet file holds every type."
            ) from error


@contextmanager
def atomically(target: Path) -> Iterator[Path]:
    """A place to write what shall be at ``target``: beside it, renamed when the block has ended well."""
    if target.is_dir():
        raise InputError(f"cannot write {target}: it is a directory. Name a file in it.")
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield partial
            with partial.open("rb") as written:
                os.fsync(written.fileno())
            partial.replace(target)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"cannot write {target}: {reason(error)}") from error
