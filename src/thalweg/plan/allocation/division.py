"""From an allocation to what tuples pay, as a running join needs it.

A part of the budget explores. The best allocation gives nothing to the least productive paths. Then nobody would notice
when these become productive, or could say how much of the answer is missing.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import NamedTuple

from thalweg.plan.allocation.allowances import Allocation
from thalweg.plan.allocation.flows import Steps, saturation
from thalweg.plan.allocation.harvest import SEGMENTS
from thalweg.plan.allocation.model import AllocationModel
from thalweg.plan.allocation.registry import allocate
from thalweg.settings import AllocationPolicy, Budget

EXPLORED = 1 / 16
"""The share of the budget that goes evenly to all paths: little is lost, and a path that nothing else is given to still
gets a sixteenth of what an even division would give it."""
LEAST_FEED = 1 / 1024
"""Probes per tuple that any step gets unless the budget is 0: a model may take a path for impossible."""
CLOSE = 1e-9
"""A budget that lacks this share of the need is enough: sums of floats are not exact."""


class Way(NamedTuple):
    """What some tuples look at.

    Attributes:
        share: the share of the tuples of each stream that go this way.
        parts: [stream][step] the parts of the target that are probed, the newest is 0; None: all of it.

    """

    share: float
    parts: tuple[tuple[tuple[int, ...] | None, ...], ...]


@dataclass(frozen=True, slots=True)
class Division:
    """A budget as it is divided.

    Attributes:
        needed: probes per second that would refuse nothing.
        granted: probes per second that there are.
        saved: so many more may be spent for now, since earlier they were not; below 0: too many were.
        feeds: [stream][step] probes that each tuple pays for; infinite: all that it asks for.
        admitted: the share of each stream's tuples that is let in; the others are lost. Empty: all are.
        ways: what tuples look at; empty: all look everywhere.
        costs: [stream][step] what a probe is charged, in probes; empty: 1.

    """

    needed: float
    granted: float
    feeds: Steps
    admitted: tuple[float, ...] = ()
    ways: tuple[Way, ...] = ()
    costs: Steps = ()
    saved: float = 0.0

    @property
    def refuses(self) -> bool:
        """Whether any probe can be refused."""
        return self.granted + min(0.0, self.saved) < self.needed * (1 - CLOSE)

    @property
    def spendable(self) -> float:
        """Probes per second to divide: also who owes all goes on to explore."""
        return max(self.granted * EXPLORED, self.granted + self.saved)


def divide(
    model: AllocationModel,
    budget: Budget,
    policy: AllocationPolicy,
    unpaid: Collection[int] = (),
    *,
    charged: bool = False,
    saved: float = 0.0,
) -> Division:
    """Divide a budget over the streams and steps of a plan.

    ``unpaid``: static relations. Their rows come before all time, and no result is found by them. ``charged``: probes
    cost what the model says also where nothing is refused. ``saved``: probes per second that earlier tuples left, or,
    below 0, spent too many. What is left pays for bursts. It lifts no limit.

    >>> from thalweg.plan.allocation.derivation import model_of_plan
    >>> from thalweg.plan import JoinGraph, Statistics, parse_plan
    >>> graph = JoinGraph(2, classes=(frozenset({0, 1}),))
    >>> known = Statistics((100.0, 100.0), (5000.0, 500.0), ({0: 1000.0, 1: 1000.0},))
    >>> divide(model_of_plan(parse_plan("A B", "AB"), graph, known), Budget.of("60%"), "jaqpot").feeds
    ((0.1625,), (1.0375,))
    """
    # Where nothing is refused, nothing is missing that would have to be completed.
    free = replace(model, half_ways=tuple(replace(each, cost=1.0) for each in model.half_ways))
    needed = saturation(model if charged else free)
    division = Division(needed, budget.per_second(needed), (), saved=saved)
    if not division.refuses:
        return replace(division, feeds=_all_alike(model, math.inf))
    if not division.granted:
        return replace(division, feeds=_all_alike(model, 0.0))
    spendable = division.spendable
    if policy == "random_shedding":
        share = allocate(model, spendable, policy).admitted
        admitted = tuple(1.0 if head in unpaid else share for head in range(len(model.streams)))
        return replace(division, feeds=_all_alike(model, math.inf), admitted=admitted)
    allocation = allocate(model, spendable * (1 - EXPLORED), policy)
    evenly = min(1.0, spendable * EXPLORED / saturation(model))
    feeds = tuple(
        tuple(
            math.inf if head in unpaid else max(LEAST_FEED, mine + evenly * cost)
            for mine, cost in zip(path, model.costs(head), strict=True)
        )
        for head, path in enumerate(allocation.per_tuple(model))
    )
    costs = tuple(tuple(model.half_ways[index].cost for index in path) for path in model.paths)
    return replace(division, feeds=feeds, ways=_ways(model, allocation, evenly, unpaid), costs=costs)


def _ways(model: AllocationModel, allocation: Allocation, evenly: float, unpaid: Collection[int]) -> tuple[Way, ...]:
    """Those of the allocation's harvests, and one for the tuples that explore: they look everywhere."""
    if not allocation.harvests:
        return ()
    ways = [
        Way(
            harvest.share * (1 - evenly),
            tuple(
                tuple(
                    None if head in unpaid else _parts(model.half_ways[index].profile, harvest.segments[index])
                    for index in path
                )
                for head, path in enumerate(model.paths)
            ),
        )
        for harvest in allocation.harvests
    ]
    return (*ways, Way(evenly, tuple((None,) * len(path) for path in model.paths)))


def _parts(profile: tuple[float, ...], chosen: tuple[int, ...]) -> tuple[int, ...] | None:
    """The parts of a target that a harvest looks at; None: all of it."""
    return None if len(chosen) == (len(profile) or SEGMENTS) else chosen


def _all_alike(model: AllocationModel, feed: float) -> Steps:
    return tuple((feed,) * len(path) for path in model.paths)
