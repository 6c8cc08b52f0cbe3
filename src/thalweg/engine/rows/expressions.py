"""SQL expressions over Arrow tables, in process: DuckDB plays the part of Spark SQL.

Bound expressions name columns as ``alias.column``; tables here carry them under short
physical names, so that nothing depends on the case or the characters of a name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from sqlglot import exp

from thalweg.cql import render
from thalweg.cql.in_process import FUNCTIONS, Translator, typed_value
from thalweg.cql.query import Query
from thalweg.cql.typed import NotInProcessError, NoTypeError, Typed
from thalweg.duckdb_scalar import duckdb_scalar
from thalweg.errors import InputError, UnsupportedError

ColumnKey = tuple[str, str]
"""(alias, column) of a bound expression; the alias is empty for columns of the engine's own."""
HASH = "__hash"
"""The function that finds candidates for keys wider than 64 bits; how well it spreads matters to speed alone."""

UNCOMPUTABLE = (InputError, UnsupportedError, pa.ArrowInvalid)
"""What is raised by an expression that has no value for some row, or a value that does not fit."""

_FUNCTIONS = {**FUNCTIONS, HASH: lambda items: Typed(f"hash({items[0].sql})", pa.uint64())}


def physical_names(query: Query) -> dict[ColumnKey, str]:
    """A short unique name for every column of every stream of a query."""
    return {
        (ref.alias, name): f"c{position}_{index}"
        for position, ref in enumerate(query.streams)
        for index, name in enumerate(ref.schema.names)
    }


def columns_of(expressions: Sequence[exp.Expression]) -> list[ColumnKey]:
    """The columns that expressions read, each once, in order of appearance."""
    found = {(column.table, column.name): None for e in expressions for column in e.find_all(exp.Column)}
    return list(found)


def plain_column(expression: exp.Expression) -> ColumnKey | None:
    """The column that an expression is, if it is nothing more."""
    while isinstance(expression, exp.Paren):
        expression = expression.this
    return (expression.table, expression.name) if isinstance(expression, exp.Column) else None


def of_selected(expression: exp.Expression, selection: exp.Expression | None) -> exp.Expression:
    """An expression that is computed for selected rows alone, and NULL for others: of those it may be an error."""
    if selection is None or plain_column(expression) is not None:
        return expression
    return exp.Case(ifs=[exp.If(this=selection.copy(), true=expression.copy())])


@dataclass(frozen=True, slots=True)
class Scalar:
    """Expressions that become one SELECT once the types of their columns are known.

    Attributes:
        outputs: the expressions, by the names of their columns.
        inputs: the columns that they read.
        text: the expressions as their author wrote them.

    """

    outputs: tuple[tuple[str, exp.Expression], ...]
    inputs: tuple[str, ...]
    text: str
    selects: dict[tuple[pa.DataType, ...], str] = field(default_factory=dict, compare=False)


class Expressions:
    """Compiles and evaluates scalar expressions, as Spark would."""

    def __init__(self, names: Mapping[ColumnKey, str]) -> None:
        self._names = names

    def compile(self, outputs: Sequence[tuple[str, exp.Expression]]) -> Scalar:
        """Expressions with their output names, ready to be evaluated many times."""
        keys = columns_of([expression for _, expression in outputs])
        written = " or ".join(f"'{render(expression)}'" for _, expression in outputs)
        return Scalar(tuple(outputs), tuple(self._names[key] for key in keys), written)

    def evaluate(self, scalar: Scalar, table: pa.Table) -> pa.Table:
        """One output row per row of ``table``, in order."""
        if not scalar.inputs:
            # A table without columns has no rows for DuckDB; constants still need one per row.
            table = table.append_column("none", pa.nulls(table.num_rows, pa.bool_()))
        import duckdb  # importing it takes a tenth of a second

        kinds = tuple(table.schema.field(name).type for name in scalar.inputs)
        if kinds not in scalar.selects:
            scalar.selects[kinds] = self._select(scalar, table.schema)
        try:
            return _run(scalar.selects[kinds], table)
        except (duckdb.OutOfMemoryException, duckdb.InternalException, duckdb.FatalException, duckdb.IOException):
            raise  # no row is to blame
        except duckdb.Error as error:
            raise InputError(self._reason(scalar, table)) from error

    def _reason(self, scalar: Scalar, table: pa.Table) -> str:
        """Which of the expressions cannot be computed for which row, and why; slow, but then all ends there."""
        for name, expression in scalar.outputs:
            select = self._select(Scalar(((name, expression),), scalar.inputs, scalar.text), table.schema)
            if _error(select, table) is None:
                continue
            row = _first_failing(select, table)
            names = {physical: f"{alias}.{column}" for (alias, column), physical in self._names.items()}
            read = [self._names[key] for key in columns_of([expression])]
            values = [f"{names[each].lstrip('.')} = {_shown(row.column(each)[0].as_py())}" for each in read]
            where = f" The row has {', '.join(values[:_MOST_VALUES])}." if values else ""
            why = _KIND.sub("", _error(select, row) or "").rstrip(".!")
            what = f"'{render(expression)}' cannot be computed for some row: {why}.{where}"
            return f"{what} NULLIF(divisor, 0) and TRY_CAST give NULL instead."
        return f"{scalar.text} cannot be computed for some row"

    def _select(self, scalar: Scalar, schema: pa.Schema) -> str:
        def column(node: exp.Column) -> Typed:
            name = self._names[node.table, node.name]
            return typed_value(f'"{name}"', schema.field(name).type)

        translator = Translator(column, _FUNCTIONS)
        try:
            texts = [f'{translator.translate(expression).sql} AS "{name}"' for name, expression in scalar.outputs]
        except (NoTypeError, NotInProcessError) as error:
            raise UnsupportedError(f"{scalar.text}: {error} not computed in process") from error
        return f"SELECT {', '.join(texts)} FROM input"  # noqa: S608 - texts come from the bound query


_KIND = re.compile(r"^[\w ]+ Error: ")
"""What DuckDB's messages begin with."""
_MOST_VALUES, _LONGEST_VALUE = 4, 60
"""What is told of a row that an expression fails for: columns, and characters of each."""


def _run(select: str, table: pa.Table) -> pa.Table:
    connection = duckdb_scalar()
    connection.register("input", table)
    try:
        return connection.sql(select).to_arrow_table()
    finally:
        connection.unregister("input")


def _error(select: str, table: pa.Table) -> str | None:
    """What DuckDB says against a computation; None: nothing."""
    import duckdb

    try:
        _run(select, table)
    except duckdb.Error as error:
        return str(error).split("\n")[0]
    return None


def _first_failing(select: str, table: pa.Table) -> pa.Table:
    """The first row of a table that a computation fails for: by halves, for rows do not depend on each other."""
    while table.num_rows > 1:
        half = table.slice(0, table.num_rows // 2)
        table = half if _error(select, half) is not None else table.slice(half.num_rows)
    return table


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 3]}..."
