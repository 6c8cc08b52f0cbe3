"""SQL expressions over Arrow tables, in process: DuckDB plays the part of Spark SQL.

Bound expressions name columns as ``alias.column``; tables here carry them under short
physical names, so that nothing depends on the case or the characters of a name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from thalweg.calculator import calculator
from thalweg.cql import render
from thalweg.cql.query import Query
from thalweg.errors import InputError

ColumnKey = tuple[str, str]
"""(alias, column) of a bound expression; the alias is empty for columns of the engine's own."""


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


@dataclass(frozen=True, slots=True)
class Scalar:
    """Expressions compiled to one SELECT.

    Attributes:
        sql: the SELECT, over a table called ``input``.
        inputs: the columns that it reads.
        text: the expressions as their author wrote them.

    """

    sql: str
    inputs: tuple[str, ...]
    text: str


class Expressions:
    """Compiles and evaluates scalar expressions."""

    def __init__(self, names: Mapping[ColumnKey, str]) -> None:
        self._names = names

    def compile(self, outputs: Sequence[tuple[str, exp.Expression]]) -> Scalar:
        """Expressions with their output names, ready to be evaluated many times."""
        texts = [f'{self._text(expression)} AS "{name}"' for name, expression in outputs]
        keys = columns_of([expression for _, expression in outputs])
        written = " or ".join(f"'{render(expression)}'" for _, expression in outputs)
        inputs = tuple(self._names[key] for key in keys)
        return Scalar(f"SELECT {', '.join(texts)} FROM input", inputs, written)  # noqa: S608 - texts come from the bound query

    def evaluate(self, scalar: Scalar, table: pa.Table) -> pa.Table:
        """One output row per row of ``table``, in order."""
        if not scalar.inputs:
            # A table without columns has no rows for DuckDB; constants still need one per row.
            table = table.append_column("none", pa.nulls(table.num_rows, pa.bool_()))
        import duckdb

        connection = calculator()
        connection.register("input", table)
        try:
            return connection.sql(scalar.sql).to_arrow_table()
        except duckdb.Error as error:
            reason = str(error).split("\n")[0]
            raise InputError(f"{scalar.text} cannot be computed for some row: {reason}") from error
        finally:
            connection.unregister("input")

    def _text(self, expression: exp.Expression) -> str:
        def rename(node: exp.Expression) -> exp.Expression:
            if isinstance(node, exp.Column):
                return exp.column(exp.to_identifier(self._names[node.table, node.name], quoted=True))
            return node

        return expression.transform(rename).sql(dialect="duckdb")
