"""Where the results of a replay go: a file, or one per query."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from thalweg.errors import InputError

_QUERY = "{query}"


def result_files(out: Path | None, names: Sequence[str]) -> dict[str, Path]:
    """The file of each query's results; nothing without ``out``. Errors come before the work, not after it.

    ``out`` is a file, or a directory for a parquet file per query, or a path with ``{query}`` in it. A single query may
    go into a file, several may not.
    """
    from thalweg.files import check_place, format_of

    if out is None or not names:
        return {}
    if _QUERY in str(out):
        files = {name: Path(str(out).replace(_QUERY, quote(name, safe=""))) for name in names}
    elif len(names) == 1:
        files = {names[0]: out}
    else:
        files = _files_in(out, names)
    for file in files.values():
        format_of(file)
        check_place(file)
    return files


def _files_in(directory: Path, names: Sequence[str]) -> dict[str, Path]:
    from thalweg.files import format_of

    if directory.suffix and not directory.is_dir():
        format_of(directory)  # an ending that there is not is a typing error
        pattern = directory.with_name(f"{directory.stem}-{_QUERY}{directory.suffix}")
        raise InputError(
            f"{directory} is one file, and there are {len(names)} queries ({', '.join(names)}). For a file of each, "
            f"write --out '{pattern}' or --out {directory.with_suffix('')}. Or pick one with --query."
        )
    return {name: directory / f"{quote(name, safe='')}.parquet" for name in names}


def late_files(directory: Path, group: Sequence[str], aliases: Sequence[str], groups: int) -> dict[str, Path]:
    """The file of each stream's late rows. Of several joins, each has a directory with the name of its first query."""
    place = directory if groups == 1 else directory / quote(group[0], safe="")
    return {alias: place / f"{quote(alias, safe='')}.parquet" for alias in aliases}
