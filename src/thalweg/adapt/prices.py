"""What work and plans cost, what changing between plans does, and what it costs to watch a join: pure functions.

Prices of watching were measured in running joins of 3 to 20 streams, where kernels leave little of Python in
the caches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from thalweg.plan.cost import DEFAULT_COSTS, Costs
from thalweg.plan.join_graph import JoinGraph
from thalweg.plan.plan_cost import PlanCost
from thalweg.plan.statistics import Statistics
from thalweg.plan.transition import classify
from thalweg.plan.tree import Plan

TRANSITION = 2e6
"""Nanoseconds that any change takes: programs are compiled and assembled anew."""


@dataclass(frozen=True, slots=True)
class Prices:
    """Nanoseconds of each thing that the engine counts, under one plan: what a look up costs depends on it."""

    base: float
    probe: float
    candidate: float
    stored: float
    result: float

    @staticmethod
    def standard(costs: Costs = DEFAULT_COSTS) -> Prices:
        """Those of any plan, as long as nothing better is known."""
        return Prices(costs.base, costs.probe, costs.candidate, costs.store, costs.result)

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


Watching = Literal["look", "glance", "search", "promise", "gates"]
"""What is paid for out of a ledger.

``look``: samples are drawn and compared pair by pair, and the running programs costed by step.
``glance``: a search among plans that keep no state, and costing some others.
``search``: one for the plan, and costing some others. Up to eight streams, plans are searched with all choices of
states in mind (:mod:`thalweg.plan.search`).
``promise``: samples are compared, and demands are found, to say what a tuple would cost if joins asked for parts.
``gates``: programs get other gates, and states in which nothing is withheld any more become complete.
"""


def watching_price(what: Watching, graph: JoinGraph) -> float:
    """Nanoseconds of watching a join of these streams, or of changing its gates."""
    n = graph.streams
    match what:
        case "look":
            pairs = sum(len(members) * (len(members) + 1) // 2 for members in graph.classes)
            return 1e3 * (300 + 150 * n + 80 * pairs + 300 * len(graph.thetas) + 20.0 * n**2)
        case "glance":
            return 1e6 * (0.03 * 2.0 ** min(n, 12) + 0.1 * n**2)
        case "search":
            return 1e6 * (0.4 * 2.0 ** min(n, 8) + 0.05 * n**3)
        case "promise":
            return 2.5e5 * sum(len(members) * (len(members) - 1) // 2 for members in graph.classes)
        case "gates":
            return 5e5 * n


def chain_price(held: int) -> float:
    """Nanoseconds of another chain of slices: so many tuples are encoded anew and put into their places."""
    return TRANSITION + 300.0 * held


def asking_price(tests: float, tuples: float) -> float:
    """Nanoseconds of looking at what is known of so many tuples, and of so many searches for partners.

    Access paths that nobody else needs are counted with the looks; a search's probes are counted with the others.
    """
    return 700.0 * tuples + 600.0 * tests
