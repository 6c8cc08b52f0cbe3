"""From an allocation to what tuples pay, as a running join needs it.

A part of the budget explores. The best allocation gives nothing to the least productive paths. Then nobody would notice
when these become productive, or could say how much of the answer is missing.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

from thalweg.options import AllocationPolicy, Budget
from thalweg.plan.allocation.flows import Steps, saturation
from thalweg.plan.allocation.model import AllocationModel
from thalweg.plan.allocation.registry import allocate

EXPLORED = 1 / 16
"""The share of the budget that goes evenly to all paths: little is lost, and a path that nothing else is given to still
gets a sixteenth of what an even division would give it."""
LEAST_FEED = 1 / 1024
"""Probes per tuple that any step gets unless the budget is 0: a model may take a path for impossible."""
CLOSE = 1e-9
"""A budget that lacks this share of the need is enough: sums of floats are not exact."""


@dataclass(frozen=True, slots=True)
class Division:
    """A budget as it is divided.

    Attributes:
        needed: probes per second that would refuse nothing.
        granted: probes per second that there are.
        feeds: [stream][step] probes that each tuple pays for; infinite: all that it asks for.

    """

    needed: float
    granted: float
    feeds: Steps

    @property
    def refuses(self) -> bool:
        """Whether any probe can be refused."""
        return self.granted < self.needed * (1 - CLOSE)


def divide(model: AllocationModel, budget: Budget, policy: AllocationPolicy, unpaid: Collection[int] = ()) -> Division:
    """Divide a budget over the streams and steps of a plan.

    ``unpaid``: static relations. Their rows come before all time, and no result is found by them.

    >>> from thalweg.plan.allocation.derivation import model_of_plan
    >>> from thalweg.plan import JoinGraph, Statistics, parse_plan
    >>> graph = JoinGraph(2, classes=(frozenset({0, 1}),))
    >>> known = Statistics((100.0, 100.0), (5000.0, 500.0), ({0: 1000.0, 1: 1000.0},))
    >>> divide(model_of_plan(parse_plan("A B", "AB"), graph, known), Budget.of("60%"), "jaqpot").feeds
    ((0.1625,), (1.0375,))
    """
    needed = saturation(model)
    division = Division(needed, budget.per_second(needed), ())
    if not division.refuses:
        return Division(needed, division.granted, _all_alike(model, math.inf))
    if not division.granted:
        return Division(needed, 0.0, _all_alike(model, 0.0))
    chosen = allocate(model, division.granted * (1 - EXPLORED), policy).per_tuple(model)
    evenly = division.granted * EXPLORED / needed
    feeds = tuple(
        tuple(
            math.inf if head in unpaid else max(LEAST_FEED, mine + evenly * grown)
            for mine, grown in zip(path, model.cardinalities(head)[:-1], strict=True)
        )
        for head, path in enumerate(chosen)
    )
    return Division(needed, division.granted, feeds)


def _all_alike(model: AllocationModel, feed: float) -> Steps:
    return tuple((feed,) * len(path) for path in model.paths)
