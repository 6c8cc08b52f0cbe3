"""What plans cost, what changing between them does, and how far the streams have moved: pure functions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from thalweg.plan.cost import DEFAULT_COSTS, Costs
from thalweg.plan.join_graph import JoinGraph
from thalweg.plan.plan_cost import PlanCost
from thalweg.plan.statistics import Statistics
from thalweg.plan.transition import classify
from thalweg.plan.tree import Plan

TRANSITION = 2e6
"""Nanoseconds that any change takes: programs are compiled and assembled anew."""

_FEW = 0.5
"""Partners per probe below which it hardly matters how few they are."""


@dataclass(frozen=True, slots=True)
class Prices:
    """Nanoseconds of each thing that the engine counts, under one plan: what a look up costs depends on it."""

    base: float
    probe: float
    candidate: float
    stored: float
    result: float

    @staticmethod
    def of(cost: PlanCost, costs: Costs = DEFAULT_COSTS) -> Prices:
        """The averages over the steps of a plan: applied to the work that was predicted, they give its cost."""
        steps = list(cost.steps())
        probes, candidates = sum(step.probes for step in steps), sum(step.candidates for step in steps)
        lookups = sum(step.lookups for step in steps)
        visits = sum(step.probing for step in steps) - lookups
        return Prices(
            costs.base,
            lookups / probes if probes else costs.probe,
            visits / candidates if candidates else costs.candidate,
            costs.store,
            costs.result,
        )

    def total(self, work: Sequence[float]) -> float:
        """The cost of counts in the order of :data:`thalweg.engine.observations.Counts`.

        Completions have no price of their own: what they probe and store is counted there.
        """
        tuples, probes, candidates, stored, _, results = work
        return (
            tuples * self.base
            + probes * self.probe
            + candidates * self.candidate
            + stored * self.stored
            + results * self.result
        )


def transition_price(
    old: Plan, new: Plan, graph: JoinGraph, statistics: Statistics, costs: Costs = DEFAULT_COSTS
) -> float:
    """Nanoseconds that a change of plan costs, sooner or later.

    The states that the old plan did not keep have to be completed. Moving State would do it at once, JISC does it
    when they are asked for: at most the same sum. And windows are indexed anew where they are looked up by other keys.
    """
    entries = sum(statistics.size(graph, node) for node in classify(old, new).incomplete)
    per_entry = costs.probe + costs.candidate + costs.state_insert
    return TRANSITION + entries * per_entry + sum(statistics.windows) * costs.base_insert


def drift(graph: JoinGraph, before: Statistics, after: Statistics) -> float:
    """How far the streams have moved: the logarithm of the largest factor among all that matters to a plan."""
    pairs = [(a, b, 0.05) for a, b in zip(_rate_shares(before), _rate_shares(after), strict=True)]
    pairs += [(a, b, 1.0) for a, b in zip(before.windows, after.windows, strict=True)]
    pairs += [(a, b, 0.05) for a, b in zip(before.thetas, after.thetas, strict=True)]
    for cls, members in enumerate(graph.classes):
        for one, other in combinations(sorted(members), 2):
            pairs.append((_partners(before, cls, one, other), _partners(after, cls, one, other), _FEW))
    return max(_moved(*pair) for pair in pairs)


def _rate_shares(known: Statistics) -> list[float]:
    return [rate / sum(known.rates) for rate in known.rates]


def _partners(known: Statistics, cls: int, a: int, b: int) -> float:
    agreeing = known.in_common(cls, a, b) / (known.distinct[cls][a] * known.distinct[cls][b])
    return agreeing * max(known.windows[a], known.windows[b])


def _moved(before: float, after: float, floor: float) -> float:
    """The logarithm of a factor; what is far below the floor counts as small, however small it is."""
    return abs(math.log((after + floor) / (before + floor)))
