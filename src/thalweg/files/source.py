"""Sources: the files that a path stands for, read as one table."""

from __future__ import annotations

import glob
from pathlib import Path

import pyarrow as pa

from thalweg.errors import InputError
from thalweg.files.formats import Format, PathLike, first_line, format_of, known_endings, read_file
from thalweg.files.times import with_times


def read_table(path: PathLike, *, time: str | None = None) -> pa.Table:
    """Read the source at ``path``: a file, a directory, or a glob such as ``trades/*.parquet``.

    ``time`` names the event time column: where a text file holds it as plain text or as
    dates it is read as timestamps, and the first value that is no time is an error.
    """
    files = expand(path)
    form = _common_format(path, files)
    tables = [read_file(file, form) for file in files]
    if form.inferred:
        tables = [with_times(table, time, file) for table, file in zip(tables, files, strict=True)]
    return _concatenated(tables, files, form)


def expand(path: PathLike) -> list[Path]:
    """The files that ``path`` stands for, ordered by name; at least one.

    Names that start with ``.`` or ``_`` are left out of directories and globs: they are the
    markers and checksums of whatever wrote the directory.
    """
    place = Path(path).expanduser()
    if place.is_dir():
        files = _files_in(place)
        if not files:
            raise InputError(f"directory {place} holds no data files. {_advice(place)}")
        return files
    if place.exists():
        return [place]
    if not glob.has_magic(str(place)):
        raise InputError(f"there is no file {place}. {_nearby(place)}")
    matches = [Path(match) for match in sorted(glob.glob(str(place), recursive=True))]  # noqa: PTH207 - absolute too
    files = [file for match in matches for file in (_files_in(match) if match.is_dir() else [match]) if _is_data(file)]
    if not files:
        raise InputError(f"no file matches {place}")
    return list(dict.fromkeys(files))


def _files_in(directory: Path) -> list[Path]:
    known = known_endings()
    return sorted(f for f in directory.iterdir() if f.suffix.lower() in known and f.is_file() and _is_data(f))


def _is_data(file: Path) -> bool:
    return not file.name.startswith((".", "_"))


def _advice(directory: Path) -> str:
    if any(child.is_dir() for child in directory.iterdir()):
        return f"For the files of its subdirectories write '{directory}/**/*.parquet'."
    return f"Known endings: {', '.join(known_endings())}."


def _nearby(place: Path) -> str:
    """A hint at a file of the same stem, for a wrong ending is the commonest slip."""
    if not place.parent.is_dir():
        return f"There is no directory {place.parent} either."
    siblings = sorted(f for f in place.parent.iterdir() if f.stem == place.stem and f != place and _is_data(f))
    return f"Did you mean {siblings[0]}?" if siblings else "Patterns like 'trades/*.parquet' work too."


def _common_format(path: PathLike, files: list[Path]) -> Format:
    forms = {form.name: form for form in map(format_of, files)}
    if len(forms) > 1:
        raise InputError(
            f"{path} holds files of several formats ({', '.join(sorted(forms))}). Choose one, as in '{path}/*.csv'."
        )
    return next(iter(forms.values()))


def _concatenated(tables: list[pa.Table], files: list[Path], form: Format) -> pa.Table:
    first, *others = tables
    if not others:
        return first
    for table, file in zip(others, files[1:], strict=True):
        _check_columns(first, table, files[0], file, form)
    if not form.optional_columns:
        tables = [table.select(first.column_names) for table in tables]
    try:
        return pa.concat_tables(tables, promote_options="permissive" if form.inferred else "default")
    except pa.ArrowException as error:
        names = ", ".join(map(str, files))
        raise InputError(f"the files {names} disagree on the type of a column: {first_line(error)}") from error


def _check_columns(first: pa.Table, table: pa.Table, first_file: Path, file: Path, form: Format) -> None:
    missing = [name for name in first.column_names if name not in table.column_names]
    extra = [name for name in table.column_names if name not in first.column_names]
    if (missing or extra) and not form.optional_columns:
        name = (missing or extra)[0]
        lacking, having = (file, first_file) if missing else (first_file, file)
        raise InputError(
            f"{lacking} has no column '{name}', but {having} has one. All files of a source have the same columns."
        )
    for name in (name for name in first.column_names if name not in missing):
        one, other = first.schema.field(name).type, table.schema.field(name).type
        if one != other and not (form.inferred and _promotable(one, other)):
            raise InputError(
                f"column '{name}' is {one} in {first_file} but {other} in {file}. "
                "All files of a source have the same types."
            )


def _promotable(one: pa.DataType, other: pa.DataType) -> bool:
    """Whether values of one wider type may have been inferred as either type."""
    try:
        pa.unify_schemas([pa.schema([("x", one)]), pa.schema([("x", other)])], promote_options="permissive")
    except pa.ArrowException:
        return False
    return True
