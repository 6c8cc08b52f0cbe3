"""Random input shedding: the same share of every stream's tuples is let in, the others are lost.

What is let in is never refused anything. What is not is missing in the window too: a state over n streams holds the
n-th power of the share, and a plan over k streams yields the k-th power. That is what allowances avoid.
"""

from __future__ import annotations

import math

from thalweg.plan.allocation.allowances import Allocation
from thalweg.plan.allocation.flows import Flows, needs, unlimited
from thalweg.plan.allocation.model import AllocationModel, check_budget

HALVINGS = 60
"""Of the interval in which the share lies: more than a float has digits."""


def random_shedding(model: AllocationModel, budget: float) -> Allocation:
    """The largest share whose probes the budget pays for."""
    check_budget(budget)
    share = admitted(model, budget)
    full = unlimited(model)
    flows = Flows(
        tuple(_thinned(model, head, share, path, 0) for head, path in enumerate(full.probes)),
        tuple(_thinned(model, head, share, path, 1) for head, path in enumerate(full.matches)),
    )
    return Allocation("random_shedding", budget, flows.probes, flows, admitted=share)


def admitted(model: AllocationModel, budget: float) -> float:
    """The share of every stream's tuples that is let in."""
    wanted = list(zip([len(half_way.bound) for half_way in model.half_ways], needs(model), strict=True))

    def cost(share: float) -> float:
        return math.fsum(probes * share**streams for streams, probes in wanted)

    if cost(1.0) <= budget:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if cost(middle) <= budget else (low, middle)
    return low


def _thinned(
    model: AllocationModel, head: int, share: float, path: tuple[float, ...], is_output: int
) -> tuple[float, ...]:
    """A combination of n streams survives if all of its tuples were let in."""
    half_ways = [model.half_ways[index] for index in model.paths[head]]
    sizes = [len(each.output if is_output else each.bound) for each in half_ways]
    return tuple(flow * share**size for flow, size in zip(path, sizes, strict=True))
