"""The rivals of GrePP that look at half-way joins one by one (JAQPOT, table 4 and appendix B).

None of them matches what a step may probe with what the steps below it produce. So part of an allowance may find no
input, and part of an input no allowance.

Here they are taken as strong as they can be. No half-way join is given more than it needs when nothing is refused. What
one of them leaves is divided again among the others, by the same rule. So they refuse nothing at saturation either.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from thalweg.plan.allocation.allowances import Allocation, of_half_ways
from thalweg.plan.allocation.flows import needs
from thalweg.plan.allocation.model import AllocationModel, check_budget


def best_hj(model: AllocationModel, budget: float) -> Allocation:
    """The most productive half-way join of the plan first (JAQPOT 2, after Kang et al.)."""
    return _allocated("best_hj", model, budget, lambda wanted: _best_first(model, range(len(wanted)), wanted, budget))


def equal_hj(model: AllocationModel, budget: float) -> Allocation:
    """The same for every half-way join."""
    return _allocated("equal_hj", model, budget, lambda wanted: share_out([1.0] * len(wanted), wanted, budget))


def global_hjpr(model: AllocationModel, budget: float) -> Allocation:
    """In the ratio of half-way productivities."""
    weights = [half_way.productivity for half_way in model.half_ways]
    return _allocated("global_hjpr", model, budget, lambda wanted: share_out(weights, wanted, budget))


def ebest_hj(model: AllocationModel, budget: float) -> Allocation:
    """The same for every join; within a join, its most productive direction first."""
    return _allocated(
        "ebest_hj", model, budget, lambda wanted: _by_join(model, wanted, budget, lambda _directions: 1.0)
    )


def sbest_hj(model: AllocationModel, budget: float) -> Allocation:
    """Joins in the ratio of their selectivities; within a join, its most productive direction first.

    A join whose directions have different selectivities counts with their mean.
    """

    def selectivity(directions: Sequence[int]) -> float:
        return math.fsum(model.half_ways[index].selectivity for index in directions) / len(directions)

    return _allocated("sbest_hj", model, budget, lambda wanted: _by_join(model, wanted, budget, selectivity))


def share_out(weights: Sequence[float], limits: Sequence[float], amount: float) -> tuple[float, ...]:
    """Divide an amount in the ratio of the weights, none above its limit; what is left over is divided again.

    What weighs nothing gets what the others cannot take, in equal parts.

    >>> share_out([1, 1, 2], [10, 100, 100], 100)
    (10.0, 30.0, 60.0)
    """
    shares = [0.0] * len(limits)
    left = min(amount, math.fsum(limits))
    for is_weighed in (True, False):
        open_ones = [i for i, weight in enumerate(weights) if (weight > 0) is is_weighed]
        while open_ones and left > 0:
            heaviest = max(weights[i] for i in open_ones)
            ratios = {i: weights[i] / heaviest if is_weighed else 1.0 for i in open_ones}
            part = left / math.fsum(ratios.values())
            full = [i for i in open_ones if limits[i] <= ratios[i] * part]
            for i in full or open_ones:
                shares[i] = float(limits[i]) if full else ratios[i] * part
            open_ones = [i for i in open_ones if i not in full] if full else []
            left = max(0.0, left - math.fsum(shares[i] for i in full)) if full else 0.0
    return tuple(shares)


def _allocated(
    name: str, model: AllocationModel, budget: float, divide: Callable[[tuple[float, ...]], Sequence[float]]
) -> Allocation:
    check_budget(budget)
    return of_half_ways(name, model, budget, divide(needs(model)))


def _by_join(
    model: AllocationModel, wanted: Sequence[float], budget: float, weigh: Callable[[Sequence[int]], float]
) -> Sequence[float]:
    """First among the joins, then among the directions of each."""
    joins: dict[frozenset[int], list[int]] = {}
    for index, half_way in enumerate(model.half_ways):
        joins.setdefault(half_way.output, []).append(index)
    limits = [math.fsum(wanted[index] for index in directions) for directions in joins.values()]
    parts = share_out([weigh(directions) for directions in joins.values()], limits, budget)
    allowances = [0.0] * len(wanted)
    for directions, part in zip(joins.values(), parts, strict=True):
        for index, allowance in zip(directions, _best_first(model, directions, wanted, part), strict=True):
            allowances[index] = allowance
    return allowances


def _best_first(
    model: AllocationModel, among: Iterable[int], wanted: Sequence[float], amount: float
) -> Sequence[float]:
    """The allowances of these half-way joins, in their order, when the most productive one takes what it needs."""
    found = dict.fromkeys(among, 0.0)
    for index in sorted(found, key=lambda index: (-model.half_ways[index].productivity, index)):
        found[index] = min(wanted[index], amount)
        amount -= found[index]
    return list(found.values())
