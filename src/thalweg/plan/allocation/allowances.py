"""What a policy decides: an allowance for every stream and step, and what is expected of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from thalweg.plan.allocation.flows import Flows, Steps, flows_of_leaves, limited
from thalweg.plan.allocation.model import AllocationModel


@dataclass(frozen=True, slots=True)
class Harvest:
    """Parts of windows and states that are worth a look.

    Attributes:
        share: the share of the tuples that look there.
        segments: per half-way join, the segments of its target that are probed; 0 is the newest.

    """

    share: float
    segments: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Allocation:
    """How a budget is spent.

    Attributes:
        policy: who decided.
        budget: probes per second that there were to spend.
        allowances: per stream and step, the probes per second that may be made.
        flows: what is expected to happen.
        admitted: the share of every stream's tuples that is let in at all, and into its window.
        harvests: which part of their targets the probes look at; empty: at all of them.

    """

    policy: str
    budget: float
    allowances: Steps
    flows: Flows
    admitted: float = 1.0
    harvests: tuple[Harvest, ...] = ()

    @property
    def results(self) -> float:
        """Expected results per second."""
        return self.flows.results

    @property
    def granted(self) -> float:
        """All allowances; never more than the budget."""
        return math.fsum(map(math.fsum, self.allowances))

    def per_tuple(self, model: AllocationModel) -> Steps:
        """Per stream and step, the probes that each arriving tuple of the stream pays into the account of the step."""
        return tuple(
            tuple(allowance / stream.rate for allowance in path)
            for stream, path in zip(model.streams, self.allowances, strict=True)
        )

    def of_half_ways(self, model: AllocationModel) -> tuple[float, ...]:
        """The allowance of each half-way join of the model."""
        users = model.users()
        return tuple(math.fsum(self.allowances[head][step] for head, step in each) for each in users)


def of_leaves(policy: str, model: AllocationModel, budget: float, leaves: Sequence[float]) -> Allocation:
    """So many tuples of each stream go all the way to results."""
    flows = flows_of_leaves(model, leaves)
    return Allocation(policy, budget, flows.probes, flows)


def of_half_ways(policy: str, model: AllocationModel, budget: float, allowances: Sequence[float]) -> Allocation:
    """Each half-way join has an allowance of its own, whether or not it fits those below it."""
    flows, granted = limited(model, allowances)
    return Allocation(policy, budget, granted, flows)
