"""From a parsed expression to a bound one: checked, resolved, its comparisons made explicit.

A bound expression means what it means to Spark SQL, in ANSI mode and in UTC. On Spark it is sent to Spark as it is. In
process :mod:`thalweg.cql.in_process` translates it. A few words are rewritten for both:

- intervals are whole numbers of one unit (Spark knows no ``INTERVAL '1.5' MINUTES``);
- rows of values that are compared are compared column by column;
- a text that is compared with a time is a time, and nothing else is converted to be compared.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from sqlglot import exp

from thalweg.cql.durations import measure, unit_us, whole_units
from thalweg.cql.expression_types import TIME_COLUMN, Types
from thalweg.cql.functions import check_expression, is_aggregate, is_result_time
from thalweg.cql.nodes import as_expression, rewrite
from thalweg.cql.rendering import render, shorten
from thalweg.cql.scope import Scope
from thalweg.cql.types import cast_to, common, describe, family
from thalweg.errors import BindError, OptionError, UnsupportedError

COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ)
_CALENDAR_UNITS = frozenset({"MONTH", "MONTHS", "QUARTER", "QUARTERS", "YEAR", "YEARS"})

_SPARK_UNITS = frozenset({"MICROSECOND", "MILLISECOND", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK"})


class Expressions:
    """Binds the expressions of one query."""

    def __init__(self, scope: Scope, types: Types) -> None:
        self.scope = scope
        self.types = types
        self._source = scope.source

    def bind(
        self, expression: exp.Expr, clause: str, *, visible: Sequence[int] | None = None, aggregates: bool = False
    ) -> exp.Expression:
        """An expression of a clause with its names resolved; types are not checked yet.

        RESULT_TIME() is known in SELECT alone, aggregates only where they are allowed.
        """
        check_expression(expression, self._source, passes=self.types.passes)
        for node in expression.walk():
            if isinstance(node, exp.Star) and not isinstance(node.parent, exp.Count):
                raise BindError("'*' stands inside an expression", self._source.of(node), "Name a column.")
            if is_result_time(node) and node.expressions:
                raise BindError("RESULT_TIME has no arguments", self._source.of(node), "Write RESULT_TIME().")
            if is_result_time(node) and clause != "SELECT":
                raise BindError(
                    f"RESULT_TIME() stands in {clause}", self._source.of(node), "It is known in SELECT alone."
                )
            if is_aggregate(node) and not aggregates:
                hint = "Conditions on aggregates stand in HAVING." if clause in ("WHERE", "ON") else ""
                raise BindError(f"an aggregate stands in {clause}", self._source.of(node), hint)
        return self.portable(self.scope.resolve(expression, visible))

    def portable(self, expression: exp.Expression) -> exp.Expression:
        """The rewriting that needs no types."""
        return rewrite(expression, self._rewrite)

    def checked(self, expression: exp.Expression) -> exp.Expression:
        """The same expression with every comparison and cast inside it made explicit."""
        holder = exp.Paren(this=expression)
        comparisons = list(holder.find_all(*COMPARISONS, exp.Between, exp.In))
        connected = [side for node in holder.find_all(exp.And, exp.Or, exp.Not) for side in node.iter_expressions()]
        operands = [operand for node in comparisons for pair in _compared(node) for operand in pair]
        self.types.prime((*operands, *connected))
        for node in reversed(comparisons):
            for left, right in _compared(node):
                self._compare(node, left, right)
        for side in reversed(connected):
            self._expect_condition(side)
        return as_expression(holder.this.pop())

    def condition(self, expression: exp.Expression) -> exp.Expression:
        """A checked condition: it must be true or false."""
        checked = self.checked(expression)
        self._expect_condition(checked)
        return checked

    def _expect_condition(self, node: exp.Expr) -> None:
        kind = self.types.of(node)
        if family(kind) not in ("boolean", "null"):
            what = f"'{shorten(render(node))}' is of type {describe(kind)}, not a condition"
            raise BindError(what, self._source.of(node), "Compare it with something.")

    def mismatch(self, node: exp.Expr, left: exp.Expr, right: exp.Expr) -> BindError:
        """The error for a comparison of types that do not compare."""
        types = f"{describe(self.types.of(left))} with {describe(self.types.of(right))}"
        hint = "Cast one of them: CAST(... AS type)."
        return BindError(f"'{shorten(render(node))}' compares {types}", self._source.of(node), hint)

    def _compare(self, node: exp.Expr, left: exp.Expr, right: exp.Expr) -> None:
        kinds = self.types.of(left), self.types.of(right)
        for text, text_kind, time_kind in ((left, kinds[0], kinds[1]), (right, kinds[1], kinds[0])):
            if _is_text(text) and family(text_kind) == "string" and family(time_kind) in ("date", "timestamp"):
                text.replace(self._time(text, text_kind, time_kind))
                return
        if common(*kinds) is None and not self.types.passes:
            raise self.mismatch(node, left, right)

    def _time(self, text: exp.Expr, kind: pa.DataType, target: pa.DataType) -> exp.Expression:
        time = cast_to(text.copy(), kind, target)
        try:
            self.types.value(time)
        except BindError as error:
            what = f"'{shorten(text.name)}' is not a {describe(target)}"
            raise BindError(what, self._source.of(text), "Write it like 2024-12-31 23:59:59.") from error
        return time

    def _rewrite(self, node: exp.Expr) -> exp.Expr:
        if is_result_time(node):
            return exp.column(exp.to_identifier(TIME_COLUMN, quoted=True))
        if isinstance(node, exp.Interval):
            return self._interval(node)
        if isinstance(node, exp.In) and not node.expressions:
            raise BindError(
                "IN is followed by something else than a list", self._source.of(node), "Write IN (1, 2, 3)."
            )
        if isinstance(node, exp.Tuple) and not _compares_tuples(node.parent):
            raise UnsupportedError(
                "rows of values are not supported", self._source.of(node), "Compare column by column."
            )
        return self._tuples(node) if isinstance(node, exp.EQ) and _compares_tuples(node) else node

    def _interval(self, node: exp.Interval) -> exp.Expr:
        number, unit = node.this, node.args.get("unit")
        if not isinstance(number, exp.Literal):
            raise BindError("an INTERVAL is not constant", self._source.of(node), "Write INTERVAL 5 SECONDS.")
        if unit is not None and (unit.name.upper() in _CALENDAR_UNITS or self._is_whole(number, unit)):
            return node
        try:
            microseconds = measure(f"{number.name} {unit.name if unit is not None else ''}")
        except OptionError as error:
            raise BindError(str(error), self._source.of(node)) from error
        whole, name = whole_units(microseconds)
        return interval_node(whole, name, node.meta.get("start"))

    @staticmethod
    def _is_whole(number: exp.Literal, unit: exp.Expr) -> bool:
        """Whether it is an interval as Spark writes them, too."""
        return number.name.lstrip("-").isdecimal() and unit.name.upper().removesuffix("S") in _SPARK_UNITS

    def _tuples(self, node: exp.EQ) -> exp.Expr:
        left, right = node.this.expressions, node.expression.expressions
        if len(left) != len(right) or not left:
            what = f"{len(left)} values are compared with {len(right)}"
            raise BindError(what, self._source.of(node), "Both sides of '=' have as many.")
        equalities = [exp.EQ(this=a.copy(), expression=b.copy()) for a, b in zip(left, right, strict=True)]
        return exp.paren(exp.and_(*equalities, copy=False), copy=False)


def interval_node(number: int, unit: str, start: int | None = None) -> exp.Interval:
    """``INTERVAL 'number' UNIT``."""
    node = exp.Interval(this=exp.Literal.string(str(number)), unit=exp.var(unit.upper()))
    if start is not None:
        node.meta["start"] = start
    return node


def interval_us(node: exp.Interval) -> int | None:
    """The microseconds of an interval of fixed length; None for months and longer."""
    if node.args["unit"].name.upper() in _CALENDAR_UNITS:
        return None
    return int(node.this.name) * unit_us(node.args["unit"].name)


def _compared(node: exp.Expr) -> list[tuple[exp.Expr, exp.Expr]]:
    if isinstance(node, exp.Between):
        return [(node.this, node.args["low"]), (node.this, node.args["high"])]
    if isinstance(node, exp.In):
        return [(node.this, item) for item in node.expressions]
    return [(node.this, node.expression)]


def _compares_tuples(node: exp.Expr | None) -> bool:
    return isinstance(node, exp.EQ) and isinstance(node.this, exp.Tuple) and isinstance(node.expression, exp.Tuple)


def _is_text(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and node.is_string
