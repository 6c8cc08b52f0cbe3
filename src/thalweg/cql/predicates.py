"""The WHERE clause, split into what runs where.

Each conjunct is one of:

- constant: decided here;
- selection: about one stream;
- equality: ``expression of x = expression of y``;
- theta: ``expression of x < expression of y``, and differences against a constant, on
  numbers and times;
- residual: anything else about several streams.

Comparisons of event times also bound how far apart the streams of a result can be.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil, floor

import pyarrow as pa
from sqlglot import exp

from thalweg.cql.conjuncts import conjuncts
from thalweg.cql.constraints import Bound
from thalweg.cql.durations import whole_units
from thalweg.cql.expression_grammar import FUNCTION_MARK
from thalweg.cql.expressions import Expressions, interval_node
from thalweg.cql.linear import ZERO, Constant, constant, peel
from thalweg.cql.nodes import as_expression, grouped
from thalweg.cql.query import Operand, Theta, ThetaOp
from thalweg.cql.rendering import render
from thalweg.cql.types import cast_to, common, family, fits_exactly
from thalweg.errors import BindError

_FLIPPED: dict[type[exp.Expr], type[exp.Binary]] = {
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
    exp.EQ: exp.EQ,
    exp.NEQ: exp.NEQ,
    exp.NullSafeEQ: exp.NullSafeEQ,
}
_THETA_OPS: dict[type[exp.Expr], ThetaOp] = {exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=", exp.NEQ: "<>"}
_KERNEL_DIGITS = 18
"""Decimals of so many digits are 64-bit integers, and so are their differences."""
HASHABLE = frozenset({"exact", "float", "string", "binary", "boolean", "date", "timestamp", "time"})


@dataclass(frozen=True, slots=True)
class Side:
    """An expression over one stream, and its type."""

    stream: int
    expression: exp.Expression
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class Equality:
    """``left = right``, or ``left <=> right`` if ``null_safe``."""

    left: Side
    right: Side
    null_safe: bool

    @property
    def condition(self) -> exp.Expression:
        operator = exp.NullSafeEQ if self.null_safe else exp.EQ
        return operator(this=self.left.expression.copy(), expression=self.right.expression.copy())


@dataclass(slots=True)
class Split:
    """The conjuncts of a condition by kind."""

    selections: dict[int, list[exp.Expression]] = field(default_factory=dict)
    equalities: list[Equality] = field(default_factory=list)
    thetas: list[Theta] = field(default_factory=list)
    residual: list[exp.Expression] = field(default_factory=list)
    bounds: list[Bound] = field(default_factory=list)
    never: bool = False

    def select(self, stream: int, condition: exp.Expression) -> None:
        conditions = self.selections.setdefault(stream, [])
        if condition not in conditions:
            conditions.append(condition)

    def keep(self, condition: exp.Expression) -> None:
        if condition not in self.residual:
            self.residual.append(condition)


class Splitter:
    """Sorts the conjuncts of one query."""

    def __init__(self, expressions: Expressions) -> None:
        self._expressions = expressions
        self._types = expressions.types
        self._scope = expressions.scope
        self.split = Split()

    def add(self, condition: exp.Expression) -> None:
        """Sort the conjuncts of a bound condition."""
        for conjunct in conjuncts(condition):
            self._sort(conjunct)

    def streams_of(self, expression: exp.Expr) -> frozenset[int]:
        """The streams that an expression reads."""
        return frozenset(self._scope.positions[column.table] for column in expression.find_all(exp.Column))

    def _sort(self, conjunct: exp.Expression) -> None:
        streams = self.streams_of(conjunct)
        if len(streams) == 2 and type(conjunct) in _FLIPPED and self._comparison(conjunct):
            return
        checked = self._expressions.condition(conjunct)
        if not streams and not any(FUNCTION_MARK in node.meta for node in checked.walk()):
            self.split.never |= self._types.value(checked) is not True
        elif not streams:  # calls can be dear: they are left to whoever evaluates selections
            for stream in self._scope.visible:
                self.split.select(stream, checked)
        elif len(streams) == 1:
            self.split.select(next(iter(streams)), checked)
        else:
            self.split.keep(checked)

    def _comparison(self, node: exp.Expression) -> bool:
        """Take a comparison between two streams as an equality or a theta, if it is one."""
        left, right = node.this, node.expression
        left_streams, right_streams = self.streams_of(left), self.streams_of(right)
        if len(left_streams) == 1 == len(right_streams):
            return self._direct(node, self._side(left), self._side(right))
        if not left_streams:
            flipped = _FLIPPED[type(node)](this=right.copy(), expression=left.copy())
            return self._difference(as_expression(flipped), node)
        return not right_streams and self._difference(node, node)

    def _side(self, node: exp.Expr) -> Side:
        expression = self._expressions.checked(as_expression(node.unnest().copy()))
        return Side(next(iter(self.streams_of(expression))), expression, self._types.of(expression))

    # expression of x  op  expression of y

    def _direct(self, node: exp.Expression, left: Side, right: Side) -> bool:
        shared = common(left.type, right.type)
        if shared is None:
            raise self._expressions.mismatch(node, left.expression, right.expression)
        op = _THETA_OPS.get(type(node))
        left_core, left_offset = self._peeled(left)
        right_core, right_offset = self._peeled(right)
        offset = right_offset.value - left_offset.value
        if op is None:
            if family(shared) not in HASHABLE or (
                family(shared) == "exact" and not fits_exactly([left.type, right.type])
            ):
                return False
            self.split.equalities.append(Equality(left, right, isinstance(node, exp.NullSafeEQ)))
            self._bound(left_core, right_core, "=", int(offset), node)
            return True
        kind = kernel_type(left.type, right.type)
        if kind is None:
            return False
        if self._folds(left_core, right_core) and offset.denominator == 1:
            left, right = left_core, right_core
            kind = kernel_type(left.type, right.type) or kind
        else:
            offset = Fraction(0)
        self._theta(left, op, right, kind, int(offset) or None, node)
        return True

    def _peeled(self, side: Side) -> tuple[Side, Constant]:
        """A side without its constant offset, if that is an interval or a whole number."""
        core, offset = peel(side.expression)
        if offset is None or offset.value.denominator != 1 or core == side.expression:
            return side, ZERO
        kind = self._types.of(core)
        is_time = family(kind) in ("date", "timestamp")
        if offset.is_interval != is_time or not (is_time or pa.types.is_integer(kind)):
            return side, ZERO
        return Side(side.stream, as_expression(core.copy()), kind), offset

    def _folds(self, left: Side, right: Side) -> bool:
        """Whether a difference of two sides is exact in 64 bits: times and small integers."""
        sides = (left, right)
        if all(family(side.type) in ("date", "timestamp") or self._is_event_time(side) for side in sides):
            return True
        return all(pa.types.is_integer(side.type) and side.type.bit_width <= 32 for side in sides)

    # expression of x - expression of y  op  constant

    def _difference(self, node: exp.Expression, written: exp.Expression) -> bool:
        limit = constant(node.expression)
        body, absolute = node.this.unnest(), False
        if isinstance(body, exp.Anonymous) and body.name.lower() == "abs" and len(body.expressions) == 1:
            body, absolute = body.expressions[0].unnest(), True
        core, shift = peel(body)
        core = core.unnest()
        if limit is None or shift is None or not isinstance(core, exp.Sub):
            return False
        if len(self.streams_of(core.this)) != 1 or len(self.streams_of(core.expression)) != 1:
            return False
        left, right = self._side(core.this), self._side(core.expression)
        kind = kernel_type(left.type, right.type)
        is_time = kind is not None and pa.types.is_timestamp(kind)
        if kind is None or (shift.value and (pa.types.is_floating(kind) or shift.is_interval != is_time)):
            return False
        if limit.is_interval != is_time:
            what, hint = "a number with a length of time", "Write a number."
            if is_time:
                what, hint = "a length of time with a number", "Write an interval: INTERVAL 5 SECONDS."
            raise BindError(f"'{render(written)}' compares {what}", self._scope.source.of(written), hint)
        (left_core, left_offset), (right_core, right_offset) = self._peeled(left), self._peeled(right)
        if is_time or (self._is_event_time(left_core) and self._is_event_time(right_core)):
            left, right = left_core, right_core
            shift = Constant(shift.value + left_offset.value - right_offset.value)
        offset = limit.value - shift.value
        op = _THETA_OPS.get(type(node))
        if op is None:
            return not absolute and self._shifted_equality(left, right, kind, offset, written)
        if not absolute or not shift.value:
            return self._limited(left, op, right, kind, offset, absolute, written)
        if op not in ("<", "<="):
            return False
        below: ThetaOp = ">" if op == "<" else ">="
        sides = ((op, offset), (below, -limit.value - shift.value))  # |d + s| < c: d < c - s and d > -c - s
        return all(self._limited(left, side_op, right, kind, side, False, written) for side_op, side in sides)

    def _shifted_equality(
        self, left: Side, right: Side, kind: pa.DataType, offset: Fraction, written: exp.Expression
    ) -> bool:
        """``x - y = c`` is the equality ``x = y + c``."""
        if offset.denominator != 1 or not (pa.types.is_integer(kind) or pa.types.is_timestamp(kind)):
            return False
        if pa.types.is_timestamp(kind):
            by: exp.Expr = interval_node(*whole_units(int(offset)))
        else:
            by = exp.Literal.number(int(offset))
        shifted = as_expression(exp.Add(this=grouped(right.expression), expression=by)) if offset else right.expression
        side = Side(right.stream, shifted, self._types.of(shifted))
        self.split.equalities.append(Equality(left, side, null_safe=False))
        self._bound(left, right, "=", int(offset), written)
        return True

    def _limited(
        self,
        left: Side,
        op: ThetaOp,
        right: Side,
        kind: pa.DataType,
        offset: Fraction,
        absolute: bool,
        written: exp.Expression,
    ) -> bool:
        if pa.types.is_floating(kind):
            self._theta(left, op, right, kind, float(offset), written, absolute=absolute)
            return True
        unscaled = offset * 10**kind.scale if pa.types.is_decimal(kind) else offset
        if unscaled.denominator != 1:
            if op == "<>":
                return False
            op, unscaled = ("<=", Fraction(floor(unscaled))) if op in ("<", "<=") else (">=", Fraction(ceil(unscaled)))
        if abs(unscaled) >= 2**62:
            return False
        self._theta(left, op, right, kind, int(unscaled) if unscaled or absolute else None, written, absolute=absolute)
        return True

    def _theta(
        self,
        left: Side,
        op: ThetaOp,
        right: Side,
        kind: pa.DataType,
        offset: float | None,
        written: exp.Expression,
        *,
        absolute: bool = False,
    ) -> None:
        operands = [Operand(side.stream, cast_to(side.expression, side.type, kind)) for side in (left, right)]
        theta = Theta(operands[0], op, operands[1], kind, offset, absolute, render(written))
        if theta not in self.split.thetas:
            self.split.thetas.append(theta)
        if not isinstance(offset, float):
            self._bound(left, right, op, offset or 0, written, absolute=absolute)

    # Bounds on event times

    def _is_event_time(self, side: Side) -> bool:
        time = self._scope.streams[side.stream].time
        return time is not None and side.expression == self._scope.column(side.stream, time)

    def _bound(
        self, left: Side, right: Side, op: str, offset: int, written: exp.Expression, *, absolute: bool = False
    ) -> None:
        """``left - right op offset`` as bounds, if both sides are event times."""
        if not (self._is_event_time(left) and self._is_event_time(right)) or op == "<>":
            return
        why = render(written)
        if op in ("<", "<=", "="):
            limit = offset - (op == "<")
            self.split.bounds.append(Bound(right.stream, left.stream, limit, why))
            if absolute:
                self.split.bounds.append(Bound(left.stream, right.stream, limit, why))
        if op in (">", ">=", "=") and not absolute:
            self.split.bounds.append(Bound(left.stream, right.stream, -offset - (op == ">"), why))


def kernel_type(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """The type in which the engine can compare two operands by order; None if it cannot."""
    shared = common(left, right)
    if shared is None:
        return None
    if pa.types.is_date(shared):
        return pa.timestamp("us")
    if pa.types.is_integer(shared):
        return pa.int64()
    if pa.types.is_floating(shared):
        return pa.float64()
    is_short = pa.types.is_decimal(shared) and shared.precision <= _KERNEL_DIGITS
    return shared if pa.types.is_timestamp(shared) or is_short else None
