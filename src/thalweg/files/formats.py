"""The formats: how one file of each kind is read and written, and what can be wrong with it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from thalweg.errors import InputError
from thalweg.files.json_lines import read_json_lines, write_json_lines

PathLike = str | os.PathLike[str]

_HEAD_BYTES = 4096  # enough to see a magic number, or a NUL byte in what should be text


@dataclass(frozen=True, slots=True)
class Format:
    """A kind of file: its ``name``, the ``endings`` of its files, its reader and its writer.

    Types are ``inferred`` from the values where the format is text. With ``optional_columns``
    a file may lack a column that others of the same source have: its values are NULL.
    """

    name: str
    endings: tuple[str, ...]
    read: Callable[[Path], pa.Table]
    write: Callable[[pa.Table, Path], None]
    inferred: bool
    optional_columns: bool = False


def format_of(path: PathLike) -> Format:
    """The format that the ending of ``path`` stands for.

    >>> format_of("out/results.csv").name
    'CSV'
    """
    ending = Path(path).suffix.lower()
    for form in FORMATS:
        if ending in form.endings:
            return form
    problem = f"unknown ending '{ending}'" if ending else "no ending"
    known = "; ".join(f"{form.name}: {', '.join(form.endings)}" for form in FORMATS)
    raise InputError(f"{path} has {problem}, so its format is unknown. Known endings: {known}.")


def known_endings() -> tuple[str, ...]:
    return tuple(ending for form in FORMATS for ending in form.endings)


def read_file(file: Path, form: Format) -> pa.Table:
    """Parse one file, with every way that this can fail named."""
    try:
        with file.open("rb") as handle:
            head = handle.read(_HEAD_BYTES)
        _check_content(file, form, head)
        table = form.read(file)
        names = table.column_names
    except UnicodeDecodeError as error:
        raise InputError(f"{file} has a column whose name is not UTF-8 text. Convert the file first.") from error
    except OSError as error:  # Arrow reports broken parquet pages as an OSError without a number
        raise InputError(f"cannot read {file}: {reason(error)}") from error
    except pa.ArrowException as error:
        raise InputError(f"{file} is not a readable {form.name} file: {first_line(error)}") from error
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"{file} has {names.count(name)} columns named '{name}'; names must differ")
    return table.replace_schema_metadata(None)


def first_line(error: BaseException) -> str:
    """An error of a library, short enough to stand inside ours."""
    text = str(error).strip()
    return text.splitlines()[0].rstrip(".") if text else type(error).__name__


def reason(error: OSError) -> str:
    """Why the operating system refused; Arrow wraps its words into many of its own."""
    return os.strerror(error.errno) if error.errno else first_line(error)


def _check_content(file: Path, form: Format, head: bytes) -> None:
    """Compare what a file begins with to what its ending promises."""
    if not head.strip():
        raise InputError(f"{file} is empty: it has no columns, not even a header")
    is_parquet, is_binary = head.startswith(b"PAR1"), b"\0" in head
    if is_parquet == (form.name == "parquet") and not (is_binary and form.inferred):
        return
    if is_parquet:
        looks = "it is a parquet file"
    elif head.startswith(b"\x1f\x8b"):
        looks = "it is compressed by gzip; unpack it first"
    elif is_binary:
        looks = "it is binary data of another kind"
    else:
        looks = "it looks like JSON" if head.lstrip().startswith((b"{", b"[")) else "it looks like text"
    raise InputError(f"{file} is not a {form.name} file, whatever its ending says: {looks}")


def _read_parquet(file: Path) -> pa.Table:
    import pyarrow.parquet as pq

    # ParquetFile, not read_table: the latter makes columns out of directories named like k=1
    with pq.ParquetFile(file) as reader:
        table = reader.read()
    table.validate(full=True)  # texts that are not UTF-8 would fail far from here
    return table


def _write_parquet(table: pa.Table, file: Path) -> None:
    import pyarrow.parquet as pq

    pq.write_table(table, file)


def _read_csv(file: Path) -> pa.Table:
    from pyarrow import csv

    parse = csv.ParseOptions(newlines_in_values=True)
    # Only an empty unquoted field is NULL: 'NA' is a country and 'null' a surname.
    convert = csv.ConvertOptions(null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False)
    try:
        table = csv.read_csv(file, parse_options=parse, convert_options=convert)
    except pa.ArrowInvalid as fault:
        reason = _csv_fault(file, parse) or first_line(fault)
        raise InputError(f"{file} is not a readable CSV file: {reason}") from fault
    for field in table.schema:
        if pa.types.is_binary(field.type):
            raise InputError(f"{file} is not UTF-8 text: see column '{field.name}'. Convert the file first.")
    return table


def _csv_fault(file: Path, parse: Any) -> str | None:
    """Why a file does not parse, from Arrow's serial reader: only that one knows in which row."""
    from pyarrow import csv

    try:
        csv.read_csv(file, read_options=csv.ReadOptions(use_threads=False), parse_options=parse)
    except pa.ArrowInvalid as fault:
        return first_line(fault).removeprefix("CSV parse error: ").replace("Row #", "row ")
    return None


def _write_csv(table: pa.Table, file: Path) -> None:
    from pyarrow import csv

    csv.write_csv(table, file)


FORMATS = (
    Format("parquet", (".parquet",), _read_parquet, _write_parquet, inferred=False),
    Format("CSV", (".csv",), _read_csv, _write_csv, inferred=True),
    Format(
        "JSON lines",
        (".jsonl", ".ndjson", ".json"),
        read_json_lines,
        write_json_lines,
        inferred=True,
        optional_columns=True,
    ),
)
