"""Spark SQL's expressions without Spark: a tree becomes DuckDB SQL of Spark's type and value, or is refused.

Every operator and function has an entry that says which type Spark gives the result and how DuckDB computes Spark's
value. What has none, or cannot be computed with the same value, is refused by name. It still works on Spark, where
Spark itself computes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import cast as cast_node

import pyarrow as pa
from sqlglot import exp

from thalweg.cql import operators
from thalweg.cql.casts import cast, try_cast
from thalweg.cql.conditionals import CHOICES, choice, condition
from thalweg.cql.durations import unit_us
from thalweg.cql.number_functions import NUMBERS
from thalweg.cql.text_functions import TEXTS, as_text, like, rlike, trimmed
from thalweg.cql.time_functions import TIMES
from thalweg.cql.typed import (
    LENGTH,
    MONTHS,
    NotInProcessError,
    NoTypeError,
    Typed,
    cast_sql,
    coerce,
    duck_type,
    text_sql,
    widest,
)
from thalweg.cql.types import arrow_type, canonical, describe, needs_cast

FUNCTIONS = {**NUMBERS, **CHOICES, **TEXTS, **TIMES}
"""The functions that are computed in process, each with what makes SQL of its arguments."""
SYNTAX = ("case", "if", "cast", "try_cast", "trim")
"""Functions that are computed in process, too, and have a syntax of their own."""
OPERATORS = ("+", "-", "*", "/", "%", "DIV", "&", "|", "^", "~", "||", "=", "<>", "<", "<=", ">", ">=", "<=>")
WORDS = ("AND", "OR", "NOT", "BETWEEN", "IN", "IS NULL", "IS DISTINCT FROM", "LIKE", "ILIKE", "RLIKE", "CASE", "CAST")

_BINARY: dict[type[exp.Expr], Callable[[Typed, Typed], Typed]] = {
    exp.Add: operators.add,
    exp.Sub: operators.subtract,
    exp.Mul: operators.multiply,
    exp.Div: operators.divide,
    exp.IntDiv: operators.integer_divide,
    exp.Mod: operators.remainder,
    exp.BitwiseAnd: operators.bits("&"),
    exp.BitwiseOr: operators.bits("|"),
    exp.BitwiseXor: operators.bits("xor"),
}
_COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "IS NOT DISTINCT FROM",
    exp.NullSafeNEQ: "IS DISTINCT FROM",
}
_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
_LONGEST = 200_000
"""An expression is written out with its arguments repeated; beyond this many characters it is refused."""


class Translator:
    """Translates the expressions of one query; ``column`` says what a column is in SQL."""

    def __init__(
        self, column: Callable[[exp.Column], Typed], functions: Mapping[str, Callable[[list[Typed]], Typed]] = FUNCTIONS
    ) -> None:
        self._column = column
        self._functions = functions

    def translate(self, node: exp.Expr) -> Typed:
        """The SQL and type of an expression.

        Raises:
            NoTypeError, NotInProcessError: with the part that has none as its ``node``.

        """
        try:
            found = self._translate(node)
            if len(found.sql) > _LONGEST:
                raise NotInProcessError("an expression of this size is")
        except (NoTypeError, NotInProcessError) as error:
            if not hasattr(error, "node"):
                error.node = node  # type: ignore[union-attr]
            raise
        return found

    def _translate(self, node: exp.Expr) -> Typed:
        kind = type(node)
        if kind in _COMPARISONS:
            return operators.compare(_COMPARISONS[kind], *self._sides(node))
        if kind in _BINARY:
            return _BINARY[kind](*self._sides(node))
        handler = _HANDLERS.get(kind)
        if handler is None:
            raise NotInProcessError(f"{node.key.upper()} is")
        return handler(self, node)

    def _sides(self, node: exp.Expr) -> tuple[Typed, Typed]:
        return self.translate(node.this), self.translate(node.expression)

    def _of_column(self, node: exp.Expr) -> Typed:
        return self._column(cast_node("exp.Column", node))

    def _paren(self, node: exp.Expr) -> Typed:
        return self.translate(node.this)

    def _literal(self, node: exp.Expr) -> Typed:
        return _literal(node.name, is_string=bool(node.args.get("is_string")))

    def _null(self, node: exp.Expr) -> Typed:  # noqa: ARG002 - all are alike
        return Typed("NULL", pa.null())

    def _boolean(self, node: exp.Expr) -> Typed:
        return Typed("TRUE" if node.this else "FALSE", pa.bool_())

    def _hex(self, node: exp.Expr) -> Typed:
        return Typed(f"from_hex({text_sql(node.name)})", pa.binary())

    def _interval(self, node: exp.Expr) -> Typed:
        unit = node.args["unit"].name.upper().removesuffix("S")
        if unit in _MONTHS:
            return Typed(f"to_months({int(node.this.name) * _MONTHS[unit]})", MONTHS)
        length = int(node.this.name) * unit_us(unit)
        return Typed(f"CAST({length} AS BIGINT)", LENGTH, is_day=unit in ("DAY", "WEEK"))

    def _negative(self, node: exp.Expr) -> Typed:
        if isinstance(node.this, exp.Literal) and not node.this.is_string:
            return _literal(f"-{node.this.name}", is_string=False)
        return operators.negate(self.translate(node.this))

    def _and(self, node: exp.Expr) -> Typed:
        left, right = (condition(side) for side in self._sides(node))
        if "error(" in right:  # Spark asks no further once the left side is false
            return Typed(f"(CASE WHEN NOT {left} THEN FALSE ELSE {left} AND {right} END)", pa.bool_())
        return Typed(f"({left} AND {right})", pa.bool_())

    def _or(self, node: exp.Expr) -> Typed:
        left, right = (condition(side) for side in self._sides(node))
        if "error(" in right:
            return Typed(f"(CASE WHEN {left} THEN TRUE ELSE {left} OR {right} END)", pa.bool_())
        return Typed(f"({left} OR {right})", pa.bool_())

    def _not(self, node: exp.Expr) -> Typed:
        return Typed(f"(NOT {condition(self.translate(node.this))})", pa.bool_())

    def _bitwise_not(self, node: exp.Expr) -> Typed:
        item = self.translate(node.this)
        if not pa.types.is_signed_integer(item.kind):
            raise NoTypeError("Bits are those of whole numbers.")
        return Typed(f"(~{item.sql})", item.kind)

    def _is(self, node: exp.Expr) -> Typed:
        item, other = self.translate(node.this), node.expression
        if isinstance(other, exp.Null):
            return Typed(f"({item.sql} IS NULL)", pa.bool_())
        return operators.compare("IS NOT DISTINCT FROM", Typed(condition(item), pa.bool_()), self.translate(other))

    def _in(self, node: exp.Expr) -> Typed:
        items = [self.translate(node.this), *(self.translate(item) for item in node.expressions)]
        kind = widest(items)
        duck_type(kind)
        value, *others = (coerce(item, kind) for item in items)
        return Typed(f"({value} IN ({', '.join(others)}))", pa.bool_())

    def _between(self, node: exp.Expr) -> Typed:
        item = self.translate(node.this)
        low = operators.compare(">=", item, self.translate(node.args["low"]))
        high = operators.compare("<=", item, self.translate(node.args["high"]))
        return Typed(f"({low.sql} AND {high.sql})", pa.bool_())

    def _like(self, node: exp.Expr, escape: str = "\\") -> Typed:
        found = like(*self._sides(node), escape, any_case=isinstance(node, exp.ILike))
        return Typed(f"(NOT {found.sql})", pa.bool_()) if node.args.get("negate") else found

    def _escape(self, node: exp.Expr) -> Typed:
        return self._like(node.this, node.expression.name)

    def _rlike(self, node: exp.Expr) -> Typed:
        return rlike(*self._sides(node))

    def _concatenated(self, node: exp.Expr) -> Typed:
        return Typed(f"({' || '.join(as_text(side) for side in self._sides(node))})", pa.string())

    def _case(self, node: exp.Expr) -> Typed:
        sought = None if node.this is None else self.translate(node.this)
        branches = []
        for branch in node.args["ifs"]:
            when = self.translate(branch.this)
            held = condition(when) if sought is None else operators.compare("=", sought, when).sql
            branches.append((held, self.translate(branch.args["true"])))
        default = node.args.get("default")
        return choice(branches, None if default is None else self.translate(default))

    def _if(self, node: exp.Expr) -> Typed:
        default = node.args.get("false")
        when = condition(self.translate(node.this))
        value = self.translate(node.args["true"])
        return choice([(when, value)], None if default is None else self.translate(default))

    def _cast(self, node: exp.Expr) -> Typed:
        item, kind = self.translate(node.this), arrow_type(node.args["to"])
        if kind is None:
            raise NotInProcessError(f"a cast to {node.args['to'].sql(dialect='spark')} is")
        if item.kind != kind and canonical(item.kind) == kind:  # a column of a type that Spark does not have
            return Typed(cast_sql(item.sql, kind), kind)
        return try_cast(item, kind) if isinstance(node, exp.TryCast) else cast(item, kind)

    def _trim(self, node: exp.Expr) -> Typed:
        function = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get((node.args.get("position") or "").upper(), "trim")
        characters = node.args.get("expression")
        items = [self.translate(node.this), *([] if characters is None else [self.translate(characters)])]
        return trimmed(function)(items)

    def _dot(self, node: exp.Expr) -> Typed:
        item = self.translate(node.this)
        if not pa.types.is_struct(item.kind):
            raise NoTypeError(f"{describe(item.kind)} has no fields.")
        kind = item.kind.field(node.expression.name).type
        return typed_value(f"struct_extract({item.sql}, {text_sql(node.expression.name)})", kind)

    def _call(self, node: exp.Expr) -> Typed:
        name = node.name.lower()
        if name not in self._functions:
            raise NotInProcessError(f"{name.upper()} is")
        return self._functions[name]([self.translate(argument) for argument in node.expressions])


_HANDLERS: Mapping[type[exp.Expr], Callable[[Translator, exp.Expr], Typed]] = {
    exp.Column: Translator._of_column,
    exp.Paren: Translator._paren,
    exp.Literal: Translator._literal,
    exp.Null: Translator._null,
    exp.Boolean: Translator._boolean,
    exp.HexString: Translator._hex,
    exp.Interval: Translator._interval,
    exp.Neg: Translator._negative,
    exp.And: Translator._and,
    exp.Or: Translator._or,
    exp.Not: Translator._not,
    exp.BitwiseNot: Translator._bitwise_not,
    exp.Is: Translator._is,
    exp.In: Translator._in,
    exp.Between: Translator._between,
    exp.Like: Translator._like,
    exp.ILike: Translator._like,
    exp.Escape: Translator._escape,
    exp.RegexpLike: Translator._rlike,
    exp.DPipe: Translator._concatenated,
    exp.Case: Translator._case,
    exp.If: Translator._if,
    exp.Cast: Translator._cast,
    exp.TryCast: Translator._cast,
    exp.Trim: Translator._trim,
    exp.Dot: Translator._dot,
    exp.Anonymous: Translator._call,
}


def typed_value(sql: str, kind: pa.DataType) -> Typed:
    """A value as it comes from Arrow: times in UTC and lengths of time become what stands for them."""
    if needs_cast(kind):
        return Typed(sql, kind)
    kind = canonical(kind)
    if pa.types.is_timestamp(kind) and kind.tz:
        return Typed(f"CAST({sql} AS TIMESTAMP)", kind)
    return Typed(f"epoch_us({sql})" if kind == LENGTH else sql, kind)


def _literal(text: str, *, is_string: bool) -> Typed:
    if is_string:
        return Typed(text_sql(text), pa.string(), text)
    if "e" in text.lower():
        return Typed(f"CAST('{text}' AS DOUBLE)", pa.float64())
    number = Decimal(text)
    _, digits, exponent = number.as_tuple()
    if "." not in text:
        whole = int(text)
        bits = (whole if whole >= 0 else -whole - 1).bit_length()
        if bits < 64:
            kind = pa.int32() if bits < 32 else pa.int64()
            return Typed(cast_sql(f"'{text}'" if whole < 0 else text, kind), kind, whole)
    scale = -int(exponent)
    precision = max(len(digits), scale)
    if precision > 38:
        raise NoTypeError("A number has at most 38 digits.")
    kind = pa.decimal128(precision, scale)
    return Typed(cast_sql(f"'{text}'", kind), kind)
