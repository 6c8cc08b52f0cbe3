"""JAQPOT: freshness first, and the rest of the budget for results (JAQPOT 4.3, algorithm 1)."""

from __future__ import annotations

import math

from thalweg.errors import FreshnessError
from thalweg.plan.allocation.allowances import Allocation, of_leaves
from thalweg.plan.allocation.freshness import named, refresh_rates
from thalweg.plan.allocation.grepp import raise_leaves
from thalweg.plan.allocation.model import AllocationModel, check_budget
from thalweg.plan.allocation.set_cover import Cover, cost_of, least_cover

CLOSE = 1e-9
"""A budget that lacks this share of what freshness needs, or less, is enough: sums of floats are not exact."""

HALVINGS = 30
"""Of the interval in which the least feasible freshness lies: it is known to 9 digits then."""

NOTHING = 1e-12
"""A budget of this share of what freshness needs holds nothing: tuples would have to stay for ages."""


def jaqpot(model: AllocationModel, budget: float, cover: Cover = least_cover) -> Allocation:
    """Refresh every state as often as freshness needs; spend what is left on the most productive paths.

    ``cover``: how the paths that refresh the states are chosen. The default finds the cheapest ones. The paper's greedy
    choice is :func:`~thalweg.plan.allocation.set_cover.greedy_cover`.
    """
    check_budget(budget)
    leaves = cover(model, refresh_rates(model))
    needed = cost_of(model, leaves)
    if needed > budget:
        if needed > budget * (1 + CLOSE):
            raise _too_little(model, budget, needed, cover)
        leaves = tuple(leaf * (budget / needed) for leaf in leaves)
        needed = budget
    return of_leaves("jaqpot", model, budget, raise_leaves(model, budget - needed, leaves))


def _too_little(model: AllocationModel, budget: float, needed: float, cover: Cover) -> FreshnessError:
    relaxed = _least_relaxation(model, budget, needed, cover)
    least = tuple(math.inf if stream.freshness is None else stream.freshness * relaxed for stream in model.streams)
    ways = f"Raise the budget, or ask for no more than {named(model, least)}." if relaxed < math.inf else ""
    what = f"budget: {budget:g} probes/s do not hold the freshness that was asked, which takes {needed:.6g} probes/s."
    return FreshnessError(f"{what} {ways or 'Raise the budget.'}", least)


def _least_relaxation(model: AllocationModel, budget: float, needed: float, cover: Cover) -> float:
    """By how much all freshness has to be relaxed until the budget holds it."""

    def holds(relaxed: float) -> bool:
        return cost_of(model, cover(model, refresh_rates(model, relaxed))) <= budget

    if budget < needed * NOTHING:
        return math.inf
    low, high = 1.0, 2.0
    while not holds(high):
        low, high = high, high * 2
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
