"""Constants, and expressions that are something plus a constant.

``b.ts - INTERVAL 5 SECONDS`` is the column ``b.ts`` and an offset of -5 seconds. Taking
such offsets out of comparisons of times leaves bare columns to compare, and bounds on time.
Offsets are exact numbers: microseconds for intervals.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from sqlglot import exp

from thalweg.cql.expressions import interval_us


@dataclass(frozen=True, slots=True)
class Constant:
    """A number, or a length of time in microseconds."""

    value: Fraction
    is_interval: bool = False


ZERO = Constant(Fraction(0))
_NUMBER = re.compile(r"(?:\d{1,30}(?:\.\d{0,30})?|\.\d{1,30})(?:[eE][+-]?\d{1,2})?\Z")
"""Longer numbers are left to whoever evaluates the expression."""


def constant(node: exp.Expr) -> Constant | None:
    """The value of an expression made of numbers and intervals; None if it is not one.

    >>> from sqlglot import parse_one
    >>> constant(parse_one("2 * (3 - 0.5)"))
    Constant(value=Fraction(5, 1), is_interval=False)
    """
    if isinstance(node, exp.Paren):
        return constant(node.this)
    if isinstance(node, exp.Neg):
        inner = constant(node.this)
        return None if inner is None else Constant(-inner.value, inner.is_interval)
    if isinstance(node, exp.Literal) and not node.is_string:
        return _number(node.name)
    if isinstance(node, exp.Interval):
        microseconds = interval_us(node)
        return None if microseconds is None else Constant(Fraction(microseconds), is_interval=True)
    if isinstance(node, (exp.Add, exp.Sub, exp.Mul)):
        return _combine(node, constant(node.this), constant(node.expression))
    return None


def _number(text: str) -> Constant | None:
    if _NUMBER.match(text) is None:
        return None
    return Constant(Fraction(text))


def _combine(node: exp.Expr, left: Constant | None, right: Constant | None) -> Constant | None:
    if left is None or right is None:
        return None
    if isinstance(node, exp.Mul):
        if left.is_interval and right.is_interval:
            return None
        return Constant(left.value * right.value, left.is_interval or right.is_interval)
    if left.is_interval != right.is_interval:
        return None
    sign = 1 if isinstance(node, exp.Add) else -1
    return Constant(left.value + sign * right.value, left.is_interval)


def peel(node: exp.Expr) -> tuple[exp.Expr, Constant | None]:
    """An expression as (core, offset): ``core + offset``; the offset is None if numbers and intervals mix.

    >>> from sqlglot import parse_one
    >>> core, offset = peel(parse_one("3 + (x - 1)"))
    >>> core.sql(), offset.value
    ('x', Fraction(2, 1))
    """
    if isinstance(node, exp.Paren):
        return peel(node.this)
    if isinstance(node, (exp.Add, exp.Sub)):
        right = constant(node.expression)
        if right is not None:
            core, offset = peel(node.this)
            sign = 1 if isinstance(node, exp.Add) else -1
            return core, _shift(offset, right, sign)
        left = constant(node.this)
        if left is not None and isinstance(node, exp.Add):
            core, offset = peel(node.expression)
            return core, _shift(offset, left, 1)
    return node, ZERO


def _shift(offset: Constant | None, by: Constant, sign: int) -> Constant | None:
    if offset is None or (offset.value and offset.is_interval != by.is_interval):
        return None
    return Constant(offset.value + sign * by.value, by.is_interval)
