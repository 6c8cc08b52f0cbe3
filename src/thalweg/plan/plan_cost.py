"""What a plan costs: the unit-time model (:mod:`thalweg.plan.cost`) applied to what really runs, probe programs.

Per second, as many tuples as arrive enter the program of their stream, and every step multiplies them by the partners
they find. Completions of absent keys cost nothing here: in a steady state every key that is asked for is live.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from thalweg.plan.compiler import compile_programs
from thalweg.plan.cost import DEFAULT_COSTS, Costs, Method
from thalweg.plan.estimator import Estimator, mask_of
from thalweg.plan.join_graph import JoinGraph
from thalweg.plan.program import Probe, Program, Programs, Rank
from thalweg.plan.statistics import Statistics
from thalweg.plan.tree import Node, Plan


@dataclass(frozen=True, slots=True)
class StepCost:
    """What one step of a program does per second.

    Attributes:
        probe: where it looks for partners.
        stores: the state that what it finds is stored in, if any.
        probes: combinations that arrive at it.
        candidates: entries that these probes visit.
        matches: combinations that leave it.
        probing, storing: its work.
        lookups: the part of ``probing`` that finds chains; the rest visits candidates.

    """

    probe: Probe
    stores: Node | None
    probes: float
    candidates: float
    matches: float
    probing: float
    storing: float
    lookups: float

    @property
    def method(self) -> Method:
        return method_of(self.probe)

    @property
    def total(self) -> float:
        return self.probing + self.storing


@dataclass(frozen=True, slots=True)
class HeadCost:
    """What the tuples of one head stream cost per second, from arrival to results."""

    stream: int
    rate: float
    base: float
    steps: tuple[StepCost, ...]
    results: float

    @property
    def total(self) -> float:
        return self.base + sum(step.total for step in self.steps) + self.results


@dataclass(frozen=True, slots=True)
class PlanCost:
    """What a plan costs per second, by head stream and step."""

    heads: tuple[HeadCost, ...]

    @property
    def total(self) -> float:
        """Nanoseconds of work per second."""
        return sum(head.total for head in self.heads)

    @property
    def per_tuple(self) -> float:
        """Nanoseconds of work per tuple that arrives."""
        return self.total / sum(head.rate for head in self.heads)

    @property
    def storing(self) -> float:
        """The part of the total that is spent on keeping intermediate states."""
        return sum(step.storing for step in self.steps())

    def steps(self) -> Iterator[StepCost]:
        for head in self.heads:
            yield from head.steps


def plan_cost(plan: Plan, graph: JoinGraph, statistics: Statistics, costs: Costs = DEFAULT_COSTS) -> PlanCost:
    """What the probe programs of a plan cost.

    >>> from thalweg.plan.tree import parse_plan
    >>> graph = JoinGraph(2, classes=(frozenset({0, 1}),))
    >>> known = Statistics((1000.0, 1000.0), (500.0, 500.0), ({0: 500.0, 1: 500.0},))
    >>> round(plan_cost(parse_plan("A B", "AB"), graph, known).per_tuple, 6)
    81.0
    """
    return programs_cost(compile_programs(plan, graph, growth_rank(graph, statistics, costs)), graph, statistics, costs)


def programs_cost(
    programs: Programs, graph: JoinGraph, statistics: Statistics, costs: Costs = DEFAULT_COSTS
) -> PlanCost:
    """What programs cost under statistics that may be others than those they were compiled for."""
    estimator = Estimator(graph, statistics, costs)
    return PlanCost(tuple(_head_cost(stream, program, estimator) for stream, program in enumerate(programs.heads)))


def _head_cost(stream: int, program: Program, estimator: Estimator) -> HeadCost:
    costs = estimator.costs
    bound = mask_of(program.head)
    flow = rate = estimator.statistics.rates[stream]
    steps: list[StepCost] = []
    for probe, stores in program.stored_probes():
        target = mask_of(probe.target)
        steps.append(_step_cost(probe, stores, bound, target, flow, estimator))
        flow = steps[-1].matches
        bound |= target
    return HeadCost(stream, rate, rate * costs.base, tuple(steps), flow * costs.result)


def _step_cost(
    probe: Probe, stores: Node | None, bound: int, target: int, flow: float, estimator: Estimator
) -> StepCost:
    costs = estimator.costs
    candidates = estimator.candidates(probe.key, bound, target)
    matches = flow * estimator.probe(bound, target)[1]
    compared = len(probe.checks) + len(probe.thetas)
    again = len(probe.target) == 1 and estimator.looked_up_before(bound, probe.key)
    method = method_of(probe)
    return StepCost(
        probe,
        stores,
        probes=flow,
        candidates=flow * candidates,
        matches=matches,
        probing=flow * costs.search(candidates, compared, method, again=again),
        storing=matches * costs.store if stores is not None else 0.0,
        lookups=flow * costs.search(0.0, compared, method, again=again),
    )


def method_of(probe: Probe) -> Method:
    return "hash" if probe.key else "nested loop"


def growth_rank(graph: JoinGraph, statistics: Statistics, costs: Costs = DEFAULT_COSTS) -> Rank:
    """The order in which the parts of a subtree that is not kept are probed.

    By growth per unit of work, ``(matches - 1) / cost``: of two steps that do not depend on
    one another, the one with the lesser rank is cheaper to take first. Where nothing is bound
    yet (a completion), the smaller part goes first.
    """
    estimator = Estimator(graph, statistics, costs)

    def rank(bound: Node, target: Node) -> float:
        return estimator.rank(mask_of(bound), mask_of(target))

    return rank
