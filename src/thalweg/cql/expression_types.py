"""The types of expressions, and the values of constant ones: Spark's, wherever a query runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
from sqlglot import exp

from thalweg.cql.in_process import Translator, typed_value
from thalweg.cql.locations import SourceText
from thalweg.cql.rendering import render, shorten
from thalweg.cql.typed import NotInProcessError, NoTypeError, Typed
from thalweg.cql.types import canonical
from thalweg.duckdb_scalar import judge
from thalweg.errors import BindError, UnsupportedError

TIME_COLUMN = "__time"
"""The column that ``RESULT_TIME()`` stands for."""
ON_SPARK = "It works on Spark, in thalweg.App."


class Types(ABC):
    """Types of the expressions of one query.

    ``streams`` are the schemas behind the aliases. Columns without an alias are those of
    ``free``: group keys, aggregates and the result's time.
    """

    passes = False
    """Whether all that Spark can analyse may be used, or only what is computed in process."""

    def __init__(
        self,
        source: SourceText,
        streams: Mapping[str, pa.Schema],
        free: Mapping[str, pa.DataType] | None = None,
    ) -> None:
        self._source = source
        self._streams = streams
        self._free = {TIME_COLUMN: pa.timestamp("us"), **(free or {})}
        self._known: dict[str, pa.DataType] = {}

    @abstractmethod
    def with_columns(self, free: Mapping[str, pa.DataType]) -> Types:
        """The same streams, with these columns besides."""

    def prime(self, expressions: Iterable[exp.Expr]) -> None:
        """Find the types of many expressions at once; errors wait until one is asked for."""
        del expressions  # one by one is as fast in process

    def of(self, expression: exp.Expr) -> pa.DataType:
        """The canonical type of an expression; an error that points at it if it has none."""
        expression = expression.unnest()
        if isinstance(expression, exp.Column):
            return canonical(self._type(expression))
        text = render(expression)
        if text not in self._known:
            self._known[text] = self._find(expression)
        return self._known[text]

    @abstractmethod
    def value(self, expression: exp.Expr) -> Any:
        """The value of an expression without columns."""

    @abstractmethod
    def _find(self, expression: exp.Expr) -> pa.DataType:
        """The type of what is no plain column."""

    def _type(self, column: exp.Column) -> pa.DataType:
        if column.table:
            return self._streams[column.table].field(column.name).type
        return self._free[column.name]


class InProcessTypes(Types):
    """Spark's types by a table of its rules, and the values that DuckDB computes by them."""

    def with_columns(self, free: Mapping[str, pa.DataType]) -> Types:
        return InProcessTypes(self._source, self._streams, free)

    def value(self, expression: exp.Expr) -> Any:
        import duckdb

        try:
            return judge().execute(f"SELECT {self.translate(expression).sql}").fetchall()[0][0]
        except duckdb.Error as error:
            what = f"'{shorten(render(expression))}' has no value"
            raise BindError(what, self._source.of(expression), f"{_reason(error)}.") from error

    def translate(self, expression: exp.Expr) -> Typed:
        """An expression in process; an error about the smallest part that cannot be."""
        try:
            return Translator(self._column).translate(expression)
        except NoTypeError as error:
            part = getattr(error, "node", expression)
            raise BindError(f"'{shorten(render(part))}' has no type", self._source.of(part), str(error)) from error
        except NotInProcessError as error:
            part = getattr(error, "node", expression)
            what = f"in '{shorten(render(part))}', {error} not computed in process"
            raise UnsupportedError(what, self._source.of(part), ON_SPARK) from error

    def _find(self, expression: exp.Expr) -> pa.DataType:
        return self.translate(expression).kind

    def _column(self, column: exp.Column) -> Typed:
        return typed_value("NULL", self._type(column))


def _reason(error: Exception) -> str:
    return str(error).split("\n")[0].split("Error: ", 1)[-1].split(". ")[0].strip().rstrip(".!")
