"""SQL expressions over Arrow tables, in process: DuckDB plays the part of Spark SQL.

Bound expressions name columns as ``alias.column``; tables here carry them under short
physical names, so that nothing depends on the case or the characters of a name.
"""

from __future__ import annotations

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
        import duckdb

        kinds = tuple(table.schema.field(name).type for name in scalar.inputs)
        if kinds not in scalar.selects:
            scalar.selects[kinds] = self._select(scalar, table.schema)
        connection = duckdb_scalar()
        connection.register("input", table)
        try:
            return connection.sql(scalar.selects[kinds]).to_arrow_table()
        except duckdb.Error as error:
            reason = str(error).split("\n")[0]
            raise InputError(f"{scalar.text} cannot be computed for some row: {reason}") from error
        finally:
            connection.unregister("input")

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
