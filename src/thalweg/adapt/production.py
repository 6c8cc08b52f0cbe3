"""When feedback pays: what ``production="auto"`` decides, from what a join counts while it runs.

Design
    Feedback costs looks and searches, and saves probes and stored entries. Between two stretches of tuples, two things
    are decided:

    *Who sleeps.* A join whose sibling keeps a complete state without a single entry produces in vain. To notice that
    costs next to nothing, so it sleeps when that was seen in two looks in a row; the state itself tells when to wake
    up.

    *Whether joins ask for parts.* If a promise (:mod:`~thalweg.adapt.promise`) is to save a good part of what a tuple
    costs now, all joins ask. If the promise is not kept, none does for a while, each time longer.

Invariant
    Decisions depend on the input alone, never on a clock. The answer does not depend on decisions at all.

Cost
    Deciding is paid for out of the ledger. A small share of the join's work is set aside for promises, and for whatever
    gates they change. What a change of sleepers would have saved of the work is set aside for it. So streams that end
    soon lose little, and those that go on gain nearly all there is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from operator import sub
from typing import Any

from thalweg.adapt.ledger import Ledger
from thalweg.adapt.monitor import NO_WORK
from thalweg.adapt.prices import Prices, asking_price, watching_price
from thalweg.adapt.promise import SAMPLE, Promise
from thalweg.engine.feedback.gates import Gated, Gates
from thalweg.engine.kernels.compiled import Int64s
from thalweg.engine.migration.joiner import Joiner
from thalweg.engine.observations import Counts
from thalweg.plan.demand import Demands, find_demands, siblings
from thalweg.plan.join_graph import JoinGraph
from thalweg.plan.program import Programs
from thalweg.plan.tree import Node

PERIOD = 1 << 13
"""Tuples between two looks, at least; and at least as many as the windows hold."""
STRETCH = 1 << 14
"""Tuples that an engine without a bucket takes between two looks."""
_PROMISE = 0.7
"""What must be left of today's cost, by the promise, for joins to ask: it is rough."""
_KEPT = 0.95
"""What may be left of the former cost, by the count, for them to go on asking."""
_SHARE = 0.03
"""Of the work, what is set aside for promises; after each one, twice as much work is waited for."""
_PRICES = Prices.standard()
"""Work is compared with work under other programs, so all of it has the same prices."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a join shows at a look.

    Attributes:
        work: all that was counted by then.
        tests: the searches for partners by then.
        idle: the kept states that are empty.

    """

    work: Counts
    tests: int = 0
    idle: frozenset[Node] = frozenset()


@dataclass(frozen=True, slots=True)
class Habit:
    """What a join has got used to.

    Attributes:
        asks: whether its joins ask for parts.
        is_new: whether they have just begun: states are filled anew, and nothing is judged by that.
        last: what it showed at the last look.
        spent: what all work cost by then, in nanoseconds.
        cost: what a tuple cost before they asked, in nanoseconds.
        not_before: how much must be spent before the next promise, beside what it costs.
        settled: what was spent when gates last changed.

    """

    asks: bool = False
    is_new: bool = False
    last: Seen = Seen(NO_WORK)
    spent: int = 0
    cost: int = 0
    not_before: int = 0
    settled: int = 0

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "last": [self.last.work, self.last.tests, [sorted(node) for node in self.last.idle]]}

    @staticmethod
    def from_json(known: Mapping[str, Any]) -> Habit:
        work, tests, idle = known["last"]
        return Habit(**{**known, "last": Seen(tuple(work), tests, frozenset(map(frozenset, idle)))})


def storing(work: Counts, before: Counts = NO_WORK) -> float:
    """Which part of the cost of the work since before went into states, and out of them."""
    done = _since(work, before)
    return done[3] * _PRICES.stored / max(1.0, _PRICES.total(done))


def _since(work: Counts, before: Counts) -> Counts:
    return tuple(map(sub, work, before))


def reconsidered(
    habit: Habit, seen: Seen, ledger: Ledger, graph: JoinGraph, promise: Callable[[float], float]
) -> Habit:
    """The habit after another look. ``promise``: what a tuple would cost that now costs so much."""
    done = _since(seen.work, habit.last.work)
    tuples = max(1, done[0])
    total = _PRICES.total(done)
    if habit.asks:
        total += asking_price(seen.tests - habit.last.tests, done[0])
    cost = total / tuples
    now = replace(habit, is_new=False, last=seen, spent=habit.spent + round(total))
    price = watching_price("promise", graph)
    ledger.set_aside("promise", _SHARE * total, price)
    if habit.asks:
        if habit.is_new or cost <= _KEPT * habit.cost:
            return now
        return replace(now, asks=False, last=replace(seen, idle=frozenset()), not_before=4 * now.spent)
    if now.spent < now.not_before or ledger.aside("promise") < price:
        return now
    ledger.pay(price, "promise")
    if promise(cost) < _PROMISE * cost:
        return replace(now, asks=True, is_new=True, last=replace(seen, idle=frozenset()), cost=round(cost))
    return replace(now, not_before=2 * now.spent)


def may_change(habit: Habit, ledger: Ledger, graph: JoinGraph, gain: float) -> bool:
    """Whether a change of gates that saves this share of the work would have paid by now.

    What it would have saved since they last changed is set aside for it. Each further change waits until twice as much
    was spent.
    """
    price = watching_price("gates", graph)
    ledger.set_aside("gates", gain * (habit.spent - habit.settled) - ledger.aside("gates"), price)
    return habit.spent >= 2 * habit.settled and ledger.aside("gates") >= price


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


class ProductionDecider:
    """Decides which gates the joins of one bucket have.

    Its owner calls :meth:`consider` whenever the bucket is at rest, :meth:`plan_changed` when somebody has changed its
    plan, and :meth:`begin_with` when it was built anew.

    Attributes:
        habit: what the joins have got used to.

    """

    def __init__(self, graph: JoinGraph, ledger: Ledger) -> None:
        self._graph = graph
        self._ledger = ledger
        self._foreseen: tuple[Programs, Demands] | None = None
        self.habit = Habit()

    def begin_with(self, joins: Gated | None) -> None:
        """The windows were filled anew: what that took is not what the plan costs, and there are no gates."""
        if joins is not None:
            self._forget_gates(Seen(joins.counts, joins.tests))

    def plan_changed(self, joins: Gated | None) -> None:
        """Gates are gone. Where another engine runs the plan (a new track), its counts have begun anew."""
        if joins is not None:
            last, counts = self.habit.last, joins.counts
            self._forget_gates(Seen(last.work if counts[0] >= last.work[0] else counts, joins.tests))

    def _forget_gates(self, last: Seen) -> None:
        self.habit = replace(self.habit, asks=False, is_new=False, last=last)

    def consider(self, joins: Gated | None) -> bool:
        """Look at the joins, if it is time to; says whether their gates have changed."""
        if joins is None or not joins.may_choose:
            return False
        before = self.habit
        came = joins.counts[0] - before.last.work[0]
        if came < PERIOD or came < joins.all_held():
            return False
        seen = Seen(joins.counts, joins.tests, joins.idle())
        self.habit = habit = reconsidered(
            before, seen, self._ledger, self._graph, lambda now: self._promised(joins, now)
        )
        chosen = () if habit.asks else self._sleepers(joins, before)
        if before.asks == habit.asks and not self._is_worth(joins, chosen, storing(seen.work, before.last.work)):
            return False
        self._ledger.pay(watching_price("gates", self._graph), "gates" if before.asks == habit.asks else "promise")
        self.habit = replace(habit, settled=habit.spent)
        joins.choose(Gates(habit.asks, chosen))
        return True

    def advance(self, joiner: Joiner, limit: int | None = None) -> Iterator[Int64s]:
        """Let an engine that has no bucket take up to so many tuples, with looks in between; yields its results."""
        while True:
            taken = joiner.work.tuples
            most = STRETCH if limit is None else min(STRETCH, limit)
            yield from joiner.advance(most)
            self.consider(joiner.gated)
            taken = joiner.work.tuples - taken
            limit = None if limit is None else limit - taken
            if taken < most or limit == 0:
                return

    def _sleepers(self, joins: Gated, before: Habit) -> tuple[Node, ...]:
        """Those whose siblings were idle in two looks in a row; who sleeps goes on if they are in one of these."""
        asleep, then, now = joins.gates.sleepers, before.last.idle, self.habit.last.idle
        if not (asleep or then | now):
            return ()
        known = siblings(joins.plan)
        watched = {known[node] for node in asleep}
        return sleepers(known, (then & now) | ((then | now) & watched))

    def _is_worth(self, joins: Gated, chosen: tuple[Node, ...], stored: float) -> bool:
        """Whether other sleepers are worth a change; ``stored``: the part of the cost that goes into states."""
        if set(chosen) == set(joins.gates.sleepers):
            return False
        gain = stored * joins.share_within(chosen) if chosen else 1.0
        return may_change(self.habit, self._ledger, self._graph, gain)

    def _promised(self, joins: Gated, now: float) -> float:
        """What a tuple would cost if joins asked for parts."""
        programs = joins.programs
        if self._foreseen is None or self._foreseen[0] is not programs:
            self._foreseen = programs, find_demands(joins.plan, self._graph, programs)
        return Promise(joins.glimpse(SAMPLE), joins.glimpse_layouts, *self._foreseen).cost(now)

    # -- What is remembered -------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """All that a successor needs to go on; the gates themselves are the engine's."""
        return {"habit": self.habit.to_json(), "aside": self._ledger.aside_to_json()}

    def restore(self, known: Mapping[str, Any]) -> None:
        """Be what the decider was that wrote this."""
        self.habit = Habit.from_json(known["habit"])
        self._ledger.restore_aside(known["aside"])
