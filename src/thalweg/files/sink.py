"""Sinks: files that appear whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from thalweg.errors import InputError
from thalweg.files.formats import PathLike, first_line, format_of, reason
from thalweg.files.intervals import with_interval_texts


def write_table(table: pa.Table, path: PathLike) -> None:
    """Write ``table`` to ``path`` in the format of its ending; missing directories are made."""
    target = Path(path)
    form = format_of(target)
    with atomically(target) as partial:
        try:
            form.write(with_interval_texts(table), partial)
        except pa.ArrowException as error:
            raise InputError(
                f"cannot write {target} as {form.name}: {first_line(error)}. Nested values need .parquet or .jsonl."
            ) from error


def check_place(target: Path) -> None:
    """See that a file can be written at ``target``, before the work whose result shall go there."""
    target = target.expanduser()
    if target.is_dir():
        raise InputError(f"cannot write {target}: it is a directory. Name a file in it.")
    parent = next(place for place in target.absolute().parents if place.exists())
    if not parent.is_dir():
        raise InputError(f"cannot write {target}: {parent} is a file")
    if not os.access(parent, os.W_OK):
        raise InputError(f"cannot write {target}: no permission in {parent}")


@contextmanager
def atomically(target: Path) -> Iterator[Path]:
    """A place to write what shall be at ``target``: beside it, renamed when the block has ended well."""
    check_place(target)
    target = target.expanduser()
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
