"""The types of expressions, and the values of constant ones, as DuckDB judges them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
from sqlglot import exp
from sqlglot.errors import ErrorLevel, SqlglotError

from thalweg.calculator import judge
from thalweg.cql.locations import SourceText
from thalweg.cql.rendering import render, shorten
from thalweg.cql.types import MAX_DIGITS, canonical, common
from thalweg.errors import BindError

TIME_COLUMN = "__time"
"""The column that ``RESULT_TIME()`` stands for."""

_COMPARISONS = frozenset({exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ})


class Types:
    """Types of the expressions of one query.

    ``streams`` are the schemas behind the aliases. Columns without an alias are those of
    ``free``: group keys, aggregates and the result's time.
    """

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

    def with_columns(self, free: Mapping[str, pa.DataType]) -> Types:
        """The same streams, with these columns besides."""
        return Types(self._source, self._streams, free)

    def prime(self, expressions: Iterable[exp.Expr]) -> None:
        """Find the types of many expressions at once; errors wait until one is asked for."""
        texts = {self._text(e): e for e in expressions if self._plain(e) is None}
        unknown = {text: e for text, e in texts.items() if text not in self._known}
        if not unknown:
            return
        try:
            kinds = self._describe(list(unknown.values()))
        except self._errors():
            return
        self._known.update(zip(unknown, kinds, strict=True))

    def of(self, expression: exp.Expr) -> pa.DataType:
        """The canonical type of an expression; an error that points at it if it has none."""
        plain = self._plain(expression)
        if plain is not None:
            return plain
        text = self._text(expression)
        if text not in self._known:
            try:
                self._known[text] = self._describe([expression])[0]
            except self._errors() as error:
                raise self._complaint(expression, error) from error
        return self._known[text]

    def value(self, expression: exp.Expr) -> Any:
        """The value of an expression without columns."""
        text = self._text(expression)
        try:
            return judge().execute(f"SELECT {text}").fetchall()[0][0]
        except self._errors() as error:
            raise self._complaint(expression, error) from error

    def _plain(self, expression: exp.Expr) -> pa.DataType | None:
        """The type of an expression that needs no DuckDB: columns, literals, and conditions made of them."""
        if isinstance(expression, exp.Paren):
            return self._plain(expression.this)
        if isinstance(expression, exp.Column) and expression.table:
            return canonical(self._streams[expression.table].field(expression.name).type)
        if isinstance(expression, exp.Column):
            return self._free[expression.name]
        if isinstance(expression, exp.Literal):
            return _literal_type(expression)
        if isinstance(expression, exp.Boolean):
            return pa.bool_()
        if type(expression) in _COMPARISONS:
            left, right = self._plain(expression.this), self._plain(expression.expression)
            comparable = left is not None and right is not None and common(left, right) is not None
            return pa.bool_() if comparable else None
        if isinstance(expression, (exp.And, exp.Or, exp.Not)):
            sides = [self._plain(side) for side in expression.iter_expressions()]
            return pa.bool_() if all(side == pa.bool_() for side in sides) else None
        return None

    def _text(self, expression: exp.Expr) -> str:
        try:
            return expression.sql(dialect="duckdb", unsupported_level=ErrorLevel.RAISE, comments=False)
        except (SqlglotError, ValueError, TypeError, AttributeError, KeyError, IndexError) as error:
            # sqlglot's generators expect well-formed arguments.
            what = f"'{shorten(render(expression))}' cannot be evaluated in process"
            raise BindError(what, self._source.of(expression)) from error

    def _describe(self, expressions: list[exp.Expr]) -> list[pa.DataType]:
        columns: dict[str, dict[str, pa.DataType]] = {"": dict(self._free)}
        for expression in expressions:
            for column in expression.find_all(exp.Column):
                if column.table:
                    kind = self._streams[column.table].field(column.name).type
                    columns.setdefault(column.table, {})[column.name] = kind
        free = "free"
        while free.lower() in (alias.lower() for alias in columns):
            free += "_"
        relations = []
        for number, (alias, fields) in enumerate(columns.items()):
            judge().register(f"__s{number}", pa.schema(list(fields.items())).empty_table())
            relations.append(f"__s{number} AS {exp.to_identifier(alias or free, quoted=True).sql(dialect='duckdb')}")
        items = ", ".join(f"{self._text(e)} AS c{number}" for number, e in enumerate(expressions))
        result = judge().sql(f"SELECT {items} FROM {', '.join(relations)}")  # noqa: S608 - texts come from checked trees
        return [canonical(field.type) for field in result.to_arrow_table().schema]

    def _complaint(self, expression: exp.Expr, error: Exception) -> BindError:
        """An error about the smallest part of an expression that has no type."""
        part, reason = expression, error
        descending = True
        while descending:
            descending = False
            for child in part.iter_expressions():
                if isinstance(child, exp.Condition) and not isinstance(child, (exp.Column, exp.Star)):
                    try:
                        self._describe([child])
                    except self._errors() as deeper:
                        part, reason, descending = child, deeper, True
                        break
        detail = str(reason).split("\n")[0].split("Error: ", 1)[-1].split(". ")[0].strip().rstrip(".!")
        what = f"'{shorten(render(part))}' has no type"
        return BindError(what, self._source.of(part), f"{detail}." if detail else "")

    @staticmethod
    def _errors() -> tuple[type[Exception], ...]:
        import duckdb

        return (duckdb.Error, pa.ArrowException)


def _literal_type(literal: exp.Literal) -> pa.DataType | None:
    """The type of a literal, if Spark and DuckDB agree on it at first sight."""
    if literal.is_string:
        return pa.string()
    whole, dot, fraction = literal.name.partition(".")
    if not whole.isdecimal() or (dot and not fraction.isdecimal()):
        return None
    if dot:
        digits = len(whole) + len(fraction)
        return pa.decimal128(digits, len(fraction)) if digits <= MAX_DIGITS else None
    bits = int(whole[:20]).bit_length()
    return pa.int32() if bits < 32 else pa.int64() if bits < 64 else None
