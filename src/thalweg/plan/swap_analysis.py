"""How many states a change of plan leaves complete, on average (JISC 5.2).

A left-deep plan with ``n`` joins has ``n`` positions, counted from the leaf join upwards (its two streams share
position 1). Exchanging the streams at positions ``i < j`` changes what the joins from ``i`` to ``j - 1`` cover,
and nothing else: those states are incomplete, the other ``n - (j - i)`` are not, the root among them.

Which two are exchanged is random, and near ones are likelier than distant ones: ``P(i, j)`` is proportional to
``1 / (j - i)``, since estimates that ordered the plan are seldom far off. Everything here is exact.
"""

from __future__ import annotations

from fractions import Fraction

from thalweg.errors import PlanError


def complete_after_swap(joins: int, lower: int, upper: int) -> int:
    """The states that stay complete when the streams at two positions change places (JISC, equation 3).

    >>> complete_after_swap(joins=20, lower=3, upper=4)
    19
    """
    if not 1 <= lower < upper <= joins:
        raise PlanError(f"positions {lower} and {upper} are no two of a plan with {joins} joins, lower one first")
    return joins - (upper - lower)


def swap_probabilities(joins: int) -> dict[tuple[int, int], Fraction]:
    """How likely each pair of positions is to change places (JISC, equations 1 and 2).

    >>> swap_probabilities(3)[1, 3]
    Fraction(1, 5)
    """
    scale = joins * (_harmonic(joins) - 1)
    return {(i, j): 1 / (scale * (j - i)) for i in range(1, joins) for j in range(i + 1, joins + 1)}


def mean_complete(joins: int) -> Fraction:
    """The mean number of complete states after a swap (JISC, proposition 1).

    >>> float(mean_complete(20))  # doctest: +ELLIPSIS
    16.3...
    """
    n, harmonic = joins, _harmonic(joins)
    return (2 * n * harmonic - 3 * n + 1) / (2 * harmonic - 2)


def variance_complete(joins: int) -> Fraction:
    """The variance of the number of complete states after a swap (JISC, proposition 1).

    >>> variance_complete(2)
    Fraction(0, 1)
    """
    n, harmonic = joins, _harmonic(joins)
    return (2 * n**2 * harmonic - 5 * n**2 + 6 * n - 2 * harmonic - 1) / (12 * (harmonic - 1) ** 2)


def _harmonic(joins: int) -> Fraction:
    if joins < 2:
        raise PlanError(f"a plan with {joins} joins has no two positions that could change places")
    return sum((Fraction(1, r) for r in range(1, joins + 1)), Fraction(0))
