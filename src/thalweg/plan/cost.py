"""The unit-time cost model: nanoseconds of work per second of stream.

Kang et al. (restated in JAQPOT's appendix A) charge a join, per unit of time, what its
two half-way joins do: every arriving tuple *probes* the partner's state, is *inserted*
into its own and *purges* what it displaces. :func:`half_way` and :func:`join_cost` are
that model as printed. :func:`plan_cost` applies it to what really runs, the probe program
of each head stream: per second, as many tuples as arrive enter it, and every step
multiplies them by the partners they find.

The balance of the constants is the reverse of the paper's: in compiled code a probe is
cheap and a stored entry is not (:class:`Costs`). Completions of absent keys cost nothing here:
in a steady state every key that is asked for is live.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from thalweg.plan.join_graph import JoinGraph
from thalweg.plan.program import Program, Programs, Rank, Step, compile_programs
from thalweg.plan.statistics import Statistics
from thalweg.plan.tree import Node, Plan, Tree

Method = Literal["hash", "nested loop"]


@dataclass(frozen=True, slots=True)
class Costs:
    """Nanoseconds of each elementary piece of work.

    The ratios were fitted to the compiled kernels over some thirty joins (one key and several,
    narrow and wide, states kept and not), and scaled so that a bare 4-way M-Join with about one
    partner per probe takes the 110 ns per tuple that were measured for it. A pipeline that stores
    every intermediate result takes two to three times that. Only ratios matter to the choice
    of a plan; recalibrate by passing other values.

    Attributes:
        base_insert: take a tuple in and append it to its base window.
        base_purge: drop it from there when it expires.
        probe: find the chain of a key: a trip to memory.
        probe_again: find the chain of the same key in a further base window: they are neighbours.
        candidate: follow a chain to one entry; compare its key and lifetime.
        scan: one entry of a nested loop.
        theta: evaluate one further predicate on a candidate.
        state_insert: append an entry to a kept state and link it to its chain.
        state_purge: unlink it when it expires.
        result: hand one result out.

    """

    base_insert: float = 5.0
    base_purge: float = 3.0
    probe: float = 56.0
    probe_again: float = 2.0
    candidate: float = 13.0
    scan: float = 7.0
    theta: float = 2.0
    state_insert: float = 90.0
    state_purge: float = 40.0
    result: float = 4.0

    @property
    def base(self) -> float:
        """A base tuple's way in and out."""
        return self.base_insert + self.base_purge

    @property
    def store(self) -> float:
        """A state entry's way in and out."""
        return self.state_insert + self.state_purge

    def search(self, candidates: float, comparisons: int, method: Method, *, again: bool = False) -> float:
        """One probe that visits ``candidates`` entries and compares each on so many further predicates."""
        if method == "hash":
            lookup = self.probe_again if again else self.probe
            return lookup + candidates * (self.candidate + comparisons * self.theta)
        return candidates * (self.scan + comparisons * self.theta)


DEFAULT_COSTS = Costs()


@dataclass(frozen=True, slots=True)
class HalfWay:
    """One direction of a join: tuples of one side looking for partners in the other's state (JAQPOT, equation 14).

    Attributes:
        probe, insert, purge: work per second.
        output: tuples produced per second.

    """

    probe: float
    insert: float
    purge: float
    output: float

    @property
    def total(self) -> float:
        return self.probe + self.insert + self.purge


def productivity(selectivity: float, partner_size: float) -> float:
    """Joined tuples per probing tuple (JAQPOT, equation 3).

    >>> productivity(0.005, 500)
    2.5
    """
    return selectivity * partner_size


def half_way(
    rate: float, partner_size: float, selectivity: float, method: Method, costs: Costs = DEFAULT_COSTS
) -> HalfWay:
    """The cost of ``a ⋉ S_B``: ``rate`` tuples of A per second against ``partner_size`` tuples of B.

    A nested loop searches the whole state, a hash join only the bucket of the key, that is,
    about the tuples that join. Insert and purge take constant time per tuple.
    """
    found = productivity(selectivity, partner_size)
    searched = found if method == "hash" else partner_size
    comparisons = 0 if method == "hash" else 1
    return HalfWay(
        probe=rate * costs.search(searched, comparisons, method),
        insert=rate * costs.base_insert,
        purge=rate * costs.base_purge,
        output=rate * found,
    )


def join_cost(
    rates: tuple[float, float],
    sizes: tuple[float, float],
    selectivity: float,
    method: Method,
    costs: Costs = DEFAULT_COSTS,
) -> float:
    """The cost of ``A ⋈ B``: both directions (JAQPOT, equation 13)."""
    directions = (half_way(rates[i], sizes[1 - i], selectivity, method, costs) for i in (0, 1))
    return sum(direction.total for direction in directions)


@dataclass(frozen=True, slots=True)
class StepCost:
    """What one step of a program does per second.

    Attributes:
        step: the step.
        probes: combinations that arrive at it.
        candidates: entries that these probes visit.
        matches: combinations that leave it.
        probing, storing: its work.
        lookups: the part of ``probing`` that finds chains; the rest visits candidates.

    """

    step: Step
    probes: float
    candidates: float
    matches: float
    probing: float
    storing: float
    lookups: float

    @property
    def method(self) -> Method:
        return method_of(self.step)

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
    return PlanCost(tuple(_head_cost(s, p, graph, statistics, costs) for s, p in enumerate(programs.heads)))


def _head_cost(stream: int, program: Program, graph: JoinGraph, statistics: Statistics, costs: Costs) -> HeadCost:
    bound: Node = program.head
    flow = rate = statistics.rates[stream]
    steps: list[StepCost] = []
    for step in program.steps:
        steps.append(_step_cost(step, bound, flow, graph, statistics, costs))
        flow = steps[-1].matches
        bound |= step.target
    return HeadCost(stream, rate, rate * costs.base, tuple(steps), flow * costs.result)


def _step_cost(
    step: Step, bound: Node, flow: float, graph: JoinGraph, statistics: Statistics, costs: Costs
) -> StepCost:
    candidates = statistics.candidates(graph, bound, step.target, step.key)
    matches = flow * statistics.matches(graph, bound, step.target)
    compared = len(step.checks) + len(step.thetas)
    again = len(step.target) == 1 and looked_up_before(graph, bound, step.key)
    method = method_of(step)
    return StepCost(
        step,
        probes=flow,
        candidates=flow * candidates,
        matches=matches,
        probing=flow * costs.search(candidates, compared, method, again=again),
        storing=matches * costs.store if step.stores is not None else 0.0,
        lookups=flow * costs.search(0.0, compared, method, again=again),
    )


def method_of(step: Step) -> Method:
    return "hash" if step.key else "nested loop"


def growth_rank(graph: JoinGraph, statistics: Statistics, costs: Costs = DEFAULT_COSTS) -> Rank:
    """The order in which the parts of a subtree that is not kept are probed.

    By growth per unit of work, ``(matches - 1) / cost``: of two steps that do not depend on
    one another, the one with the lesser rank is cheaper to take first. Where nothing is bound
    yet (a completion), the smaller part goes first.
    """
    known: dict[tuple[Node, Node], float] = {}

    def rank(bound: Node, tree: Tree) -> float:
        target = tree.node
        if (bound, target) not in known:
            known[bound, target] = _rank(bound, target)
        return known[bound, target]

    def _rank(bound: Node, target: Node) -> float:
        if not bound:
            return statistics.size(graph, target)
        key = graph.connecting(bound, target)
        candidates = statistics.candidates(graph, bound, target, key)
        thetas = len(graph.thetas_completed(bound, target))
        again = len(target) == 1 and looked_up_before(graph, bound, key)
        compared = comparisons(key, key) + thetas
        work = costs.search(candidates, compared, "hash" if key else "nested loop", again=again)
        return growth_per_work(statistics.matches(graph, bound, target), work)

    return rank


def growth_per_work(growth: float, work: float) -> float:
    """The rank of a step, rounded, so that equally good steps are ordered by stream and not by the noise of floats."""
    return float(f"{(growth - 1) / max(work, 1e-9):.9g}")


def looked_up_before(graph: JoinGraph, bound: Node, key: tuple[int, ...]) -> bool:
    """Whether the streams bound so far met by these classes, so that their key was already looked up."""
    return all(len(graph.classes[cls] & bound) > 1 for cls in key)


def comparisons(key: tuple[int, ...], shared: tuple[int, ...]) -> int:
    """The attribute classes compared on every candidate: those that the lookup did not already decide.

    A key of one class is decided by the lookup; several classes only share a hash.
    """
    return sum(cls not in key or len(key) > 1 for cls in shared)
