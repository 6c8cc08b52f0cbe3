"""How often a theta predicate holds between two tuples that are in their windows together.

With nothing known, the usual guesses of query optimisers. Where the values of both
operands are known to spread over an interval, the difference of two uniform values.
Event times always do: a tuple in a window of width w has an age spread over ``[0, w)``.
"""

from __future__ import annotations

from sqlglot import exp

from thalweg.cql.query import Operand, Query, Theta

INEQUALITY = 1 / 3
"""``<``, ``<=``, ``>``, ``>=`` with nothing known: the guess that System R made, and most since."""

NOT_EQUAL = 0.95
"""``<>`` holds for nearly every pair; a few values repeat."""

BAND = 0.1
"""``ABS(a - b) < c`` with nothing known: a band is written to be narrow."""

LEAST = 1e-9
"""No estimate says never: one surprising match must not look infinitely more than expected."""

Spread = tuple[float, float]
"""The least and the largest value of an operand."""


def guessed(theta: Theta) -> float:
    """The selectivity of a theta predicate about which nothing is known."""
    if theta.op == "<>":
        return NOT_EQUAL
    if theta.absolute:
        return BAND if theta.op in ("<", "<=") else 1 - BAND
    return INEQUALITY


def of_spreads(theta: Theta, left: Spread, right: Spread) -> float:
    """The selectivity when both operands are uniform over their spreads, independently."""
    if theta.op == "<>":
        return NOT_EQUAL
    offset = float(theta.offset or 0)
    below = _difference_below(offset, left, right)
    if theta.absolute:
        below = max(below - _difference_below(-offset, left, right), 0.0)
    share = below if theta.op in ("<", "<=") else 1 - below
    return min(max(share, LEAST), 1.0)


def between_times(query: Query, theta: Theta, lifetimes_us: list[float]) -> float | None:
    """The selectivity of a predicate between two event times, from the ages in the windows.

    None if an operand is something else. ``lifetimes_us``: per stream, how long a tuple stays in its window.
    """
    if not (is_time(query, theta.left) and is_time(query, theta.right)):
        return None
    return of_spreads(theta, (-lifetimes_us[theta.left.stream], 0.0), (-lifetimes_us[theta.right.stream], 0.0))


def is_time(query: Query, operand: Operand) -> bool:
    """Whether an operand is its stream's event time."""
    expression = operand.expression
    while isinstance(expression, exp.Cast | exp.Paren):
        expression = expression.this
    time = query.streams[operand.stream].time
    return time is not None and isinstance(expression, exp.Column) and expression.name.lower() == time.lower()


def _difference_below(bound: float, left: Spread, right: Spread) -> float:
    """P(X - Y <= bound) for X uniform over ``left`` and Y uniform over ``right``."""
    (a, b), (c, d) = _widened(left), _widened(right)
    corners = ((a - d, 1), (a - c, -1), (b - d, -1), (b - c, 1))
    area = sum(sign * max(bound - corner, 0.0) ** 2 / 2 for corner, sign in corners)
    return min(max(area / ((b - a) * (d - c)), 0.0), 1.0)


def _widened(spread: Spread) -> Spread:
    """A single value as a narrow interval, so that the density exists."""
    low, high = spread
    least = 1e-6 * max(abs(low), abs(high), 1.0)
    return (low, high) if high - low > least else (low - least, high + least)
