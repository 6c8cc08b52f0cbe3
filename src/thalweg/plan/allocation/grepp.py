"""GrePP: the whole budget to the most productive path, then to the next (JAQPOT 4.1).

Cycles add up, so a path may take a fraction of a unit. Each path is limited by its stream's rate. Along a path no step
is given more than what the steps below it produce: if a step may probe n times, the lower links are raised until they
bring it n tuples. So a path has one number, the tuples of its stream that go all the way. That makes the problem a
continuous knapsack, for which the greedy choice is the best one. O(k log k) for k streams.
"""

from __future__ import annotations

from collections.abc import Sequence

from thalweg.plan.allocation.allowances import Allocation, of_leaves
from thalweg.plan.allocation.model import AllocationModel, check_budget
from thalweg.plan.allocation.path_table import by_productivity, path_table


def grepp(model: AllocationModel, budget: float) -> Allocation:
    """The most results that the budget can buy."""
    check_budget(budget)
    return of_leaves("grepp", model, budget, raise_leaves(model, budget, [0.0] * len(model.streams)))


def raise_leaves(model: AllocationModel, budget: float, leaves: Sequence[float]) -> tuple[float, ...]:
    """Spend a budget on top of what goes all the way already; returns what does then.

    ``leaves``: tuples per second of each stream.
    """
    raised = list(leaves)
    for row in by_productivity(path_table(model)):
        more = min(model.streams[row.head].rate - raised[row.head], budget / row.probes_per_tuple)
        if more > 0:
            raised[row.head] += more
            budget -= more * row.probes_per_tuple
    return tuple(raised)
