"""When feedback pays: what ``production="auto"`` decides, from what a join counts while it runs.

Feedback costs looks and searches, and saves probes and stored entries. Between two stretches of tuples, two things are
decided, neither with the help of a clock:

*Who sleeps.* A join whose sibling keeps a complete state without a single entry produces in vain. To notice that costs
next to nothing, so it sleeps when that was seen in two looks in a row; the state itself tells when to wake up.

*Whether joins ask for parts.* The chance that a tuple has no partner follows from what the windows hold and how often
their values meet (from a sample, as if columns were independent), and so does the price of finding it out. If that
promises to save a good part of what a tuple costs now, all joins ask. If the promise is not kept, none does for a
while, each time longer.

Deciding is paid for by the join's own work: a promise may cost a small share of the work that was done by then, and a
change of programs what it would have saved of that work. So streams that end soon lose little, and those that go on
gain nearly all there is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from thalweg.engine.kernels.compiled import Int64s
from thalweg.engine.layout import StreamLayout
from thalweg.engine.observations import Glimpse
from thalweg.plan.cost import DEFAULT_COSTS, Costs
from thalweg.plan.demand import Demands
from thalweg.plan.program import Demand, Program, Programs
from thalweg.plan.tree import Node

PERIOD = 1 << 13
"""Tuples between two looks, at least; and at least as many as the windows hold."""
SAMPLE = 256
"""Tuples of each window in a look: enough to tell how often values meet."""
_PROMISE = 0.7
"""What must be left of today's cost, by the promise, for joins to ask: it is rough."""
_KEPT = 0.95
"""What may be left of the former cost, by the count, for them to go on asking."""
_SHARE = 0.03
"""Of the work done so far, what a promise may cost; after each one, twice as much work is waited for."""
_PROMISE_PRICE = 2.5e5
"""Nanoseconds of a promise, for every two streams that can meet: their samples are compared, demands are found."""
_CHANGE_PRICE = 5e5
"""Nanoseconds of a change of programs per stream."""
_LOOKS = 700.0
"""Nanoseconds per tuple of looks at what is known, and of access paths that nobody else needs."""
_TEST = 600.0
"""Nanoseconds of a search for a partner beside its probes."""


_MULTIPLIER = 0x5851F42D4C957F2D
"""Mixes the codes of several columns into one; odd, and larger than they are far apart."""


@dataclass(frozen=True, slots=True)
class Habit:
    """What a join has got used to.

    Attributes:
        asks: whether its joins ask for parts.
        is_new: whether they have just begun: states are filled anew, and nothing is judged by that.
        looked: the number of tuples at the last look.
        work: the work counted by then.
        tests: the searches for partners by then.
        spent: what all that cost, in nanoseconds.
        idle: the kept states that were empty then, as bits.
        cost: what a tuple cost before they asked, in nanoseconds.
        not_before: how much must be spent before the next promise, beside what it costs.
        settled: what was spent when programs last changed.

    """

    asks: bool = False
    is_new: bool = False
    looked: int = 0
    work: tuple[int, ...] = ()
    tests: int = 0
    spent: int = 0
    idle: int = 0
    cost: int = 0
    not_before: int = 0
    settled: int = 0

    def may_change(self, streams: int, gain: float) -> bool:
        """Whether a change of programs that saves this share of the work would have paid by now.

        Each further change waits until twice as much was spent.
        """
        return self.spent >= 2 * self.settled and gain * self.spent >= _CHANGE_PRICE * streams


def price(work: Sequence[int], before: Sequence[int], costs: Costs = DEFAULT_COSTS) -> float:
    """Nanoseconds per tuple of the work counted since before."""
    tuples, probes, candidates, stored, completions, results = _since(work, before)
    return (
        costs.base
        + (probes * costs.probe + candidates * costs.candidate + stored * costs.store) / max(1, tuples)
        + (completions * costs.probe + results * costs.result) / max(1, tuples)
    )


def storing(work: Sequence[int], before: Sequence[int], costs: Costs = DEFAULT_COSTS) -> float:
    """Which part of that goes into and out of states."""
    tuples, _, _, stored, *_ = _since(work, before)
    return stored * costs.store / max(1, tuples) / price(work, before, costs)


def _since(work: Sequence[int], before: Sequence[int]) -> list[int]:
    return [after - earlier for after, earlier in zip(work, before or (0,) * len(work), strict=True)]


def reconsidered(
    habit: Habit, work: tuple[int, ...], tests: int, idle: int, pairs: int, promise: Callable[[float], float]
) -> Habit:
    """The habit after another look, at which states were ``idle`` and so much was counted, ``tests`` among it.

    ``pairs`` of streams can meet. ``promise``: what a tuple would cost that now costs so much.
    """
    cost = price(work, habit.work)
    tuples = work[0] - habit.looked
    if habit.asks:
        cost += _LOOKS + _TEST * (tests - habit.tests) / max(1, tuples)
    spent = habit.spent + round(cost * tuples)
    seen = replace(habit, is_new=False, looked=work[0], work=work, tests=tests, spent=spent, idle=idle)
    if habit.asks:
        if habit.is_new or cost <= _KEPT * habit.cost:
            return seen
        return replace(seen, asks=False, idle=0, not_before=4 * spent)
    if spent < habit.not_before or _SHARE * spent < _PROMISE_PRICE * pairs:
        return seen
    if promise(cost) < _PROMISE * cost:
        return replace(seen, asks=True, is_new=True, idle=0, cost=round(cost))
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
        self,
        glimpse: Glimpse,
        layouts: Sequence[StreamLayout],
        programs: Programs,
        demands: Demands,
        costs: Costs = DEFAULT_COSTS,
    ) -> None:
        self._held = [window.held for window in glimpse.windows]
        self._words = [window.words for window in glimpse.windows]
        self._arrived = [window.arrived for window in glimpse.windows]
        self._layouts = layouts
        self._programs = programs
        self._demands = demands
        self._costs = costs
        self._met: dict[tuple[int, int, int], float] = {}

    def cost(self, now: float) -> float:
        """Per tuple, given what it costs ``now``."""
        total = sum(self._arrived)
        if not total or min(self._held, default=0) <= 0:
            return math.inf
        shares = [arrived / total for arrived in self._arrived]
        ways = [self._way(stream) for stream in range(len(shares))]
        scale = now / sum(share * way for share, way in zip(shares, ways, strict=True))
        return sum(
            share * self._of_stream(stream, scale * ways[stream]) for stream, share in enumerate(shares) if share
        )

    def _way(self, stream: int) -> float:
        """What the program of a stream costs a tuple, by the model."""
        tuples, cost, seen = 1.0, self._costs.base, [stream]
        for probe, stores in self._programs.heads[stream].stored_probes():
            found = 1.0
            for other in sorted(probe.target):
                found *= self._matches(seen, other)
                seen.append(other)
            cost += tuples * (self._costs.probe + found * self._costs.candidate)
            tuples *= found
            cost += tuples * (self._costs.store if stores is not None else 0.0)
        return cost

    def _of_stream(self, stream: int, now: float) -> float:
        demanded, asking = 1.0, 0.0
        for gate in self._demands.gates[stream]:
            demand = self._demands.demands[gate.demand]
            if gate.depth < 0 and demand.key:
                test = self._search(stream, demand.witness) + _TEST
                asking += demanded * self._novelty(stream, demand.key) * test
                demanded *= 1 - math.exp(-self._partners(stream, demand))
        return demanded * now + asking + _LOOKS

    def _novelty(self, stream: int, key: Sequence[int]) -> float:
        """The share of tuples with values that nothing is remembered of.

        A sample that has many of its values more than once has nearly all that the window has.
        """
        first, *others = (self._words[stream][:, self._layouts[stream].codes[attribute]] for attribute in key)
        for column in others:
            first = first * _MULTIPLIER ^ column
        distinct = _distinct(np.sort(first))
        return distinct / max(1.0, self._held[stream] if 2 * distinct <= len(first) else len(first))

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
        for probe in witness.probes:
            (other,) = probe.target
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


def _distinct(ordered: Int64s) -> int:
    return int(np.count_nonzero(ordered[1:] != ordered[:-1])) + (len(ordered) > 0)


def _agreement(one: Int64s, other: Int64s) -> float:
    ordered = np.sort(other)
    matches = np.searchsorted(ordered, one, "right") - np.searchsorted(ordered, one, "left")
    return float(matches.sum()) / max(1, len(one) * len(other))
