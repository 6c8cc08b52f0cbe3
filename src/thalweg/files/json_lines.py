"""JSON lines: read and written by DuckDB.

Arrow's own reader is not used: it crashes the process on some texts, valid ones among them (a file that says
``null``). DuckDB refuses what it cannot read.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from thalweg.errors import InputError
from thalweg.files.times import recognised_times

if TYPE_CHECKING:
    import duckdb
    from duckdb.sqltypes import DuckDBPyType

_LONGEST_LINE = 16 << 20
_KINDS = {bool: "a boolean", int: "a number", float: "a number", str: "text", dict: "an object", list: "an array"}
_TEXTS = ("date", "time", "time with time zone", "timestamp", "timestamp with time zone", "uuid")
"""Types that DuckDB sees in texts: times are found here, as in every text file, and all else stays text."""
_TOO_LARGE = ("hugeint", "ubigint", "uhugeint")
"""Integers that an int64 does not hold are doubles."""
_FILE = (
    "format = 'newline_delimited', compression = 'none', hive_partitioning = false, "
    f"maximum_object_size = {_LONGEST_LINE}"
)


def read_json_lines(file: Path) -> pa.Table:
    """A row per line, a column per field; ``null`` is an object without fields.

    Values inside of objects and arrays have one type too. Where they have not, they are their JSON text.
    """
    import duckdb

    with _connection() as connection:
        connection.execute("SET VARIABLE file = ?", [_without_patterns(file.absolute())])
        try:
            names = _field_names(connection, file)
            table = _read(connection, names, file)
        except duckdb.Error as error:
            raise _refusal(file, _short(error)) from error
    for index, field in enumerate(table.schema):
        if pa.types.is_string(field.type):
            table = table.set_column(index, field.name, recognised_times(table.column(index)))
    return table


def write_json_lines(table: pa.Table, file: Path) -> None:
    import duckdb

    with _connection() as connection:
        try:
            connection.execute("SET TimeZone = 'UTC'")
            connection.register("results", table)
            connection.execute("COPY results TO ? (FORMAT json)", [str(file)])
        except duckdb.Error as error:
            raise InputError(f"cannot write {file} as JSON lines: {_short(error)}") from error


@contextlib.contextmanager
def _connection() -> Iterator[duckdb.DuckDBPyConnection]:
    import duckdb

    # No network, whatever the build: DuckDB would fetch a missing extension by itself.
    with contextlib.closing(duckdb.connect(config={"autoinstall_known_extensions": "false"})) as connection:
        yield connection


def _without_patterns(file: Path) -> str:
    """The path as a pattern that it alone matches."""
    return "".join(f"[{c}]" if c in "*?[" else c for c in str(file))


def _field_names(connection: duckdb.DuckDBPyConnection, file: Path) -> list[str]:
    """The fields of all objects; anything else in the file, and a field that an object has twice, is an error."""
    found = connection.sql(
        f"""SELECT coalesce(bool_or(kind NOT IN ('OBJECT', 'NULL')), false),
                   coalesce(bool_or(len(keys) > len(list_distinct(keys))), false),
                   flatten(list(DISTINCT keys))
            FROM (SELECT json_type(json) AS kind, json_keys(json) AS keys
                  FROM read_json_objects(getvariable('file'), {_FILE}))"""  # noqa: S608 - constants of ours
    ).fetchall()
    is_other, is_twice, names = found[0]
    if is_other or is_twice:
        raise _refusal(file, "some line is no object, or has a field twice")
    if not names:
        raise InputError(f"{file} holds objects without a single field, so it has no columns")
    return list(dict.fromkeys(names))


def _read(connection: duckdb.DuckDBPyConnection, names: list[str], file: Path) -> pa.Table:
    source = f"read_json(getvariable('file'), {_FILE}"
    seen = connection.sql(f"FROM {source}, sample_size = -1, map_inference_threshold = -1)")  # reads no row yet
    if sorted(seen.columns) != sorted(names):  # DuckDB has given some of them other names
        raise _refusal(file, f"the fields {_alike(names)} cannot be told apart: names differ in more than their case")
    kinds = dict(zip(seen.columns, seen.types, strict=True))
    if any(str(kind) == "JSON" for kind in kinds.values()) and (fault := _fault(file)):
        raise _refusal(file, fault)
    columns = ", ".join(f"{_quoted(name)}: {_quoted(_type(kind))}" for name, kind in kinds.items())
    table = connection.sql(f"FROM {source}, columns = {{{columns}}})").to_arrow_table()
    for index, kind in enumerate(kinds.values()):
        if _is_null(kind):
            table = table.set_column(index, table.column_names[index], pa.nulls(table.num_rows))
    return table


def _alike(names: list[str]) -> str:
    """The names that are equal but for their case, or else all of those that nobody would give."""
    folded = [name.casefold() for name in names]
    alike = [name for name, key in zip(names, folded, strict=True) if folded.count(key) > 1]
    return ", ".join(f"'{name}'" for name in alike or [name for name in names if not name.strip()] or names)


def _is_null(kind: DuckDBPyType) -> bool:
    return str(kind).strip('"').upper() == "NULL"


def _type(kind: DuckDBPyType) -> str:
    """The type to read a column in, as DuckDB writes it."""
    children: Any = kind.children if kind.id in ("list", "struct") else ()
    if kind.id == "list":
        return f"{_type(children[0][1])}[]"
    if kind.id == "struct":
        fields = (f'"{name.replace(chr(34), 2 * chr(34))}" {_type(part)}' for name, part in children)
        return f"STRUCT({', '.join(fields)})"
    if kind.id in _TEXTS or _is_null(kind):
        return "VARCHAR"
    return "DOUBLE" if kind.id in _TOO_LARGE else str(kind)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _refusal(file: Path, otherwise: str) -> InputError:
    """What is wrong with a file, by its first line at fault; ``otherwise`` if every line is good by itself."""
    return InputError(f"{file} is not JSON lines, one object per line: {_fault(file) or otherwise}")


def _fault(file: Path) -> str | None:
    """The first line that is no object, or whose fields contradict the lines before it."""
    first_seen: dict[str, tuple[str, int]] = {}
    with file.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                pairs: Any = json.loads(line.rstrip().decode(), object_pairs_hook=_Pairs)
            except UnicodeDecodeError:
                return f"line {number} is not UTF-8"
            except json.JSONDecodeError as error:
                return f"line {number}, column {error.colno}: {error.msg[:1].lower()}{error.msg[1:]}"
            except RecursionError:
                return f"line {number} has values within values, thousands deep"
            if pairs is None:
                continue
            if not isinstance(pairs, _Pairs):
                return f"line {number} is {_KINDS[type(pairs)]}"
            names = [name for name, _ in pairs]
            for name, value in pairs:
                if names.count(name) > 1:
                    return f"line {number} has the field '{name}' twice"
                if value is None:
                    continue
                kind = _KINDS[dict if isinstance(value, _Pairs) else type(value)]
                before, where = first_seen.setdefault(name, (kind, number))
                if kind != before:
                    return f"field '{name}' is {kind} in line {number} but {before} in line {where}"
    return None


class _Pairs(list[tuple[str, Any]]):
    """The fields of an object as they are written, those that come twice too."""


def _short(error: duckdb.Error) -> str:
    """The words of DuckDB that say what is wrong."""
    return str(error).strip().splitlines()[0].rstrip(". ").partition("Error: ")[2] or type(error).__name__
