"""When feedback pays: what ``production="auto"`` decides, from what a join counts while it runs.

Feedback costs looks and searches, and saves probes and stored entries. Between two stretches of tuples, two things are
decided, neither with the help of a clock:

*Who sleeps.* A join whose sibling keeps a complete state without a single entry produces in vain. To notice that costs
next to nothing, so it sleeps when that was seen in two looks in a row; the state itself tells when to wake up.

*Whether joins ask for parts.* The chance that a tuple has no partner follows from what the windows hold and how often
their values meet (from a sample, as if columns were independent), and so does the price of finding it out. If that
promises to save a good part of what a tuple costs now, all joins ask. If the promise is not kept, none does for a
while, each time longer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from thalweg.engine.kernels.compiled import Int64s
from thalweg.engine.layout import StreamLayout
from thalweg.engine.observations import Glimpse, Work
from thalweg.plan.cost import DEFAULT_COSTS, Costs
from thalweg.plan.demand import Demand, Demands
from thalweg.plan.program import Program
from thalweg.plan.tree import Node

PERIOD = 1 << 12
"""Tuples between two looks, at least: a look takes a fraction of a millisecond."""
SAMPLE = 256
"""Tuples of each window in a look: enough to tell how often values meet."""
_PROMISE = 0.6
"""What must be left of today's cost, by the promise, for joins to ask: it is rough."""
_KEPT = 0.95
"""What may be left of the former cost, by the count, for them to go on asking."""
_WORTH_A_CHANGE = 30_000_000
"""Nanoseconds of work before anyone is put to sleep: a change of programs takes some milliseconds."""
_WORTH_A_PROMISE = 100_000_000
"""Nanoseconds of work before joins may ask: a promise takes some milliseconds, too; after each one, twice as many."""
_LOOKS = 150.0
"""Nanoseconds per tuple of looks at what is known, and of access paths that nobody else needs."""


@dataclass(frozen=True, slots=True)
class Habit:
    """What a join has got used to.

    Attributes:
        asks: whether its joins ask for parts.
        looked: the number of tuples at the last look.
        work: the work counted by then.
        spent: what that cost, in nanoseconds.
        idle: the kept states that were empty then, as bits.
        cost: what a tuple cost before they asked, in nanoseconds.
        not_before: how much must be spent before the next promise.

    """

    asks: bool = False
    looked: int = 0
    work: tuple[int, ...] = ()
    spent: int = 0
    idle: int = 0
    cost: int = 0
    not_before: int = _WORTH_A_PROMISE

    @property
    def may_change(self) -> bool:
        """Whether enough was spent for a change of programs not to be felt."""
        return self.spent >= _WORTH_A_CHANGE


def price(work: Sequence[int], before: Sequence[int], costs: Costs = DEFAULT_COSTS) -> float:
    """Nanoseconds per tuple of the work counted since before."""
    tuples, probes, candidates, stored, completions, results = (
        after - earlier for after, earlier in zip(work, before or (0,) * len(work), strict=True)
    )
    return (
        costs.base
        + (probes * costs.probe + candidates * costs.candidate + stored * costs.store) / max(1, tuples)
        + (completions * costs.probe + results * costs.result) / max(1, tuples)
    )


def reconsidered(habit: Habit, work: Work, idle: int, promise: Callable[[float], float]) -> Habit:
    """The habit after another look, at which states were ``idle``.

    ``promise``: what a tuple would cost that now costs so much.
    """
    cost = price(work.counts, habit.work)
    spent = habit.spent + round(cost * (work.tuples - habit.looked))
    seen = Habit(habit.asks, work.tuples, work.counts, spent, idle, habit.cost, habit.not_before)
    if habit.asks:
        return seen if cost <= _KEPT * habit.cost else replace(seen, asks=False, idle=0, not_before=4 * spent)
    if spent < habit.not_before:
        return seen
    if promise(cost) < _PROMISE * cost:
        return replace(seen, asks=True, idle=0, cost=round(cost))
    return replace(seen, not_before=2 * spent)


def sleepers(siblings: Mapping[Node, Node], idle: Collection[Node]) -> tuple[Node, ...]:
    """The producers to be put to sleep: their siblings are idle, and stay complete.

    Something is missing in all states within a producer that sleeps, so none of those can tell another to.

    >>> ab, cd = frozenset({0, 1}), frozenset({2, 3})
    >>> [sorted(node) for node in sleepers({ab: cd, cd: ab}, [ab, cd])]
    [[0, 1]]
    """
    chosen: dict[Node, Node] = {}
    for node, sibling in siblings.items():
        if sibling in idle and not any(sibling <= other or watched <= node for other, watched in chosen.items()):
            chosen[node] = sibling
    return tuple(chosen)


class Promise:
    """What a tuple would cost if joins asked for parts."""

    def __init__(
        self, glimpse: Glimpse, layouts: Sequence[StreamLayout], demands: Demands, costs: Costs = DEFAULT_COSTS
    ) -> None:
        self._held = [window.held for window in glimpse.windows]
        self._words = [window.words for window in glimpse.windows]
        self._arrived = [window.arrived for window in glimpse.windows]
        self._layouts = layouts
        self._demands = demands
        self._costs = costs
        self._met: dict[tuple[int, int, int], float] = {}

    def cost(self, now: float) -> float:
        """Per tuple, given what it costs ``now``."""
        total = sum(self._arrived)
        if not total or min(self._held, default=0) <= 0:
            return math.inf
        return sum(
            arrived / total * self._of_stream(stream, now) for stream, arrived in enumerate(self._arrived) if arrived
        )

    def _of_stream(self, stream: int, now: float) -> float:
        demanded, asking = 1.0, 0.0
        for site in self._demands.sites[stream]:
            demand = self._demands.demands[site.demand]
            if site.depth < 0 and demand.key:
                demanded *= 1 - math.exp(-self._partners(stream, demand))
                asking += self._search(stream, demand.witness)
        return demanded * now + asking + _LOOKS

    def _partners(self, stream: int, demand: Demand) -> float:
        """How many combinations a tuple is expected to find."""
        expected, seen = 1.0, [stream]
        for other in demand.others:
            expected *= self._matches(seen, other)
            seen.append(other)
        return expected

    def _matches(self, seen: Sequence[int], other: int) -> float:
        matches = self._held[other]
        for attribute in self._layouts[other].codes:
            carrier = next((s for s in seen if attribute in self._layouts[s].codes), None)
            if carrier is not None:
                matches *= self._meeting(attribute, carrier, other)
        return matches

    def _search(self, stream: int, witness: Program) -> float:
        """What it costs to look for one."""
        tuples, cost, seen = 1.0, 0.0, [stream]
        for step in witness.steps:
            (other,) = step.target
            candidates = self._matches(seen, other)
            cost += tuples * (self._costs.probe + candidates * self._costs.candidate)
            tuples *= candidates
            seen.append(other)
        return cost

    def _meeting(self, attribute: int, one: int, other: int) -> float:
        """The share of pairs of tuples, one of each stream, that agree on an attribute class."""
        known = self._met.get((attribute, one, other))
        if known is None:
            known = _agreement(*(self._words[s][:, self._layouts[s].codes[attribute]] for s in (one, other)))
            self._met[attribute, one, other] = self._met[attribute, other, one] = known
        return known


def _agreement(one: Int64s, other: Int64s) -> float:
    values, counts = np.unique(one, return_counts=True)
    others, other_counts = np.unique(other, return_counts=True)
    _, here, there = np.intersect1d(values, others, assume_unique=True, return_indices=True)
    return float((counts[here] * other_counts[there]).sum()) / max(1, len(one) * len(other))
