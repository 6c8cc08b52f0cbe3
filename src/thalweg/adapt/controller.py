"""When to look at a running join, when to search another plan, and when to change to it.

Design
    Three stages, each cheaper than the next and each asked for by the one before. *Look*: update averages, compare the
    cost that was observed with the one predicted for the running plan. *Search*: when that comparison, or what is
    known of the streams, has moved since plans were last compared. *Change*: when the best plan known has been
    expected, in several looks in a row, to save a share of the cost, and over a horizon more than the change costs.
    Where a search has to be saved for, a glance at plans that keep no state comes first.

    A plan that has run is compared with its own bias, any other with that of the running plan
    (:mod:`thalweg.adapt.experience`): a plan that only looked better is left again, and not chosen a second time.

Invariant
    Decisions depend on the input alone, never on a clock. The answer does not depend on decisions at all.

Cost
    Looks and searches are paid out of a ledger, into which every tuple's work puts a share (``overhead``), so they take
    no more than that share of the time whatever the query, to the accuracy of their prices. Where no
    order of probes could matter (a straight join) nothing is looked at.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from operator import sub
from typing import Any

from thalweg.adapt.decision import Action, Decision, plan_label
from thalweg.adapt.experience import SHARED, Experience
from thalweg.adapt.ledger import Ledger, glance_price, look_price, search_price
from thalweg.adapt.monitor import LOOK_ROWS, NO_WORK, Monitor
from thalweg.adapt.prices import Prices, drift, transition_price
from thalweg.cql.query import Query
from thalweg.engine.bucket import Bucket
from thalweg.engine.observations import Counts
from thalweg.options import Adaptivity, States
from thalweg.plan.estimator import clearly_less
from thalweg.plan.join_graph import JoinGraph
from thalweg.plan.plan_cost import plan_cost, programs_cost
from thalweg.plan.plan_json import plan_from_json, plan_to_json, statistics_from_json, statistics_to_json
from thalweg.plan.program import Programs, Rank, compile_programs
from thalweg.plan.search import choose_plan, rank
from thalweg.plan.statistics import Statistics
from thalweg.plan.tree import LinearPlan, Plan

_LOG = 1_000
"""Decisions that are kept."""
_LOG_REMEMBERED = 16
"""Of these, how many outlive the process."""


_ALARM = 0.2
"""The share of a join's excess cost that is entered in the ledger."""
_SHOCK = 2.0
"""Times the usual cost at which nothing that was seen before counts any more."""


@dataclass(frozen=True, slots=True)
class _View:
    """What a look has shown: the streams, and what a tuple costs under the running plan.

    ``predicted`` and ``observed`` are averages over the same looks, ``recent`` is what was observed since the last.
    """

    statistics: Statistics
    predicted: float
    observed: float
    recent: float

    @property
    def bias(self) -> float:
        return math.log(self.observed / self.predicted)


@dataclass(frozen=True, slots=True)
class _Reference:
    """What was known when plans were last compared: the running plan's bias, and the streams."""

    bias: float
    statistics: Statistics


@dataclass(frozen=True, slots=True)
class _Alternative:
    """A plan to change to, with its expected cost per tuple, corrected by experience, and the price of the change."""

    plan: Plan
    cost: float
    price: float


class Controller:
    """Watches one bucket and changes its plan.

    The owner calls :meth:`consider` whenever the bucket is at rest: between any two batches, or stretches of one.

    Args:
        query: what the bucket runs.
        plan: the plan that runs.
        statistics: those that it was compiled with.
        states: which states a plan may keep.
        settings: the thresholds.
        chosen: whether the planner chose the plan for these statistics; someone else's is soon compared with others.
        held: whether the plan stays until :meth:`release`.

    """

    def __init__(
        self,
        query: Query,
        plan: Plan,
        statistics: Statistics,
        states: States,
        settings: Adaptivity,
        *,
        chosen: bool = True,
        held: bool = False,
    ) -> None:
        self._query = query
        self._graph = JoinGraph.of(query)
        self._states = states
        self._settings = settings
        self._monitor = Monitor(query, settings.memory)
        self._experience = Experience()
        self._look_price, self._glance_price = look_price(self._graph), glance_price(self._graph)
        self._search_price = self._glance_price if states == "none" else search_price(self._graph)
        self._ledger = Ledger(self._look_price, self._look_price + self._search_price)
        self._saving_for = 0.0
        self._has_glanced = states != "auto"
        self._seen = self._looked = NO_WORK
        self._next_look = settings.period
        self._looks = 0
        self._reference = _Reference(0.0, statistics) if chosen else None
        self._pending: Plan | None = None
        self._streak = 0
        self._cooling = 0
        self._is_held = held
        self.position = 0
        self.changes = 0
        self.decisions: list[Decision] = []
        self._adopt(plan, statistics)

    def _adopt(self, plan: Plan, statistics: Statistics) -> None:
        """Take note of the plan that runs."""
        self.plan, self._ranked_by = plan, statistics
        self._compiled: Programs | None = None
        self._known_prices: Prices | None = None
        self._pending, self._streak = None, 0
        self._usual: float | None = None
        self._is_alarmed = False
        self._monitor.forget_work()

    # Both take milliseconds where there are many streams, and many a batch comes and goes without a look.

    @property
    def _programs(self) -> Programs:
        if self._compiled is None:
            self._compiled = compile_programs(self.plan, self._graph, self.rank)
        return self._compiled

    @property
    def _prices(self) -> Prices:
        if self._known_prices is None:
            self._known_prices = Prices.of(programs_cost(self._programs, self._graph, self._ranked_by))
        return self._known_prices

    @property
    def rank(self) -> Rank:
        """The order of probes that the running plan was compiled with."""
        return rank(self._graph, self._ranked_by)

    @property
    def is_idle(self) -> bool:
        """Whether no other plan could be better: a straight join looks into every window once, in whatever order."""
        return self._graph.streams < 3 or (self._graph.straight and isinstance(self.plan, LinearPlan))

    def follow(self, plan: Plan, statistics: Statistics, *, hold: bool = False) -> None:
        """Someone else has changed the plan; with ``hold``, it stays until :meth:`release`."""
        self._is_held = self._is_held or hold
        self._log("change", "by command", plan)
        self._adopt(plan, statistics)
        self.changes += 1
        self._cooling = 0

    def release(self) -> None:
        """Decide again."""
        self._is_held = False
        self._reference = None

    def begin_with(self, bucket: Bucket) -> None:
        """The bucket was built anew from its log: what that took is not what the plan costs."""
        self._seen = self._looked = bucket.counts

    # -- Looking ------------------------------------------------------------------------

    def consider(self, bucket: Bucket) -> bool:
        """Look, search and change, each if it is due; says whether the plan has changed."""
        if self.is_idle:
            return False
        self._count(bucket.counts)
        price = self._look_price + self._saving_for
        if self._is_held or self.position < self._next_look or self._ledger.held < price:
            return False
        self._ledger.pay(self._look_price)
        self._next_look = self.position + self._settings.period
        self._looks += 1
        if self._is_alarmed:
            self._monitor.forget()
        unlooked, self._looked = self._unlooked, self._seen
        self._monitor.look(bucket.glimpse(LOOK_ROWS), unlooked)
        view = self._view(unlooked)
        self._note_what_followed(view.recent)
        other = self._decide(view)
        if other is None:
            if self._usual is None or not (self._cooling or self._pending or self._saving_for):
                self._usual = view.recent
            return False
        bucket.transition(other.plan, rank(self._graph, view.statistics))
        self._adopt(other.plan, view.statistics)
        self._ledger.give_back(self._look_price)
        self.changes += 1
        self._cooling = self._settings.cool_down
        return True

    def _count(self, work: Counts) -> None:
        """Put a share of the work done since the last call into the ledger.

        A larger share of what it cost more than usual: that is lost already, and the sooner plans are compared the less
        will be.
        """
        done = _less(work, self._seen)
        self._seen = work
        self.position += done[0]
        spent = self._prices.total(done)
        due = self._settings.overhead * spent
        self._is_alarmed = False
        if self._usual is not None:
            usual = self._usual * done[0]
            due += _ALARM * max(0.0, spent - (1 + self._settings.deviation) * usual)
            self._is_alarmed = spent > max(_SHOCK, 1 + self._settings.deviation) * usual
        self._ledger.put(due)

    @property
    def _unlooked(self) -> Counts:
        """The work since the last look."""
        return _less(self._seen, self._looked)

    def _view(self, recent: Sequence[int]) -> _View:
        statistics = self._monitor.statistics()
        predicted = programs_cost(self._programs, self._graph, statistics)
        self._known_prices = Prices.of(predicted)
        observed, lately = (self._prices.total(work) / work[0] for work in (self._monitor.work, recent))
        return _View(statistics, predicted.per_tuple, observed, lately)

    # -- Deciding -----------------------------------------------------------------------

    def _decide(self, view: _View) -> _Alternative | None:
        """What to change to, if anything."""
        if self._cooling and self._is_alarmed and self._usual is not None:
            self._cooling = 0  # what it was like until now is what the change has brought
            self._note_outcome(self._usual)
        if self._cooling:
            self._cooling -= 1
            if not self._cooling:
                self._note_outcome(view.recent)
            return None
        self._experience.learn(self.plan, view.bias, self._looks)
        if self._pending is not None:
            return self._weigh(view, self._alternative(self._pending, view), "")
        cause = self._cause(view)
        if cause is None and not self._owes_search:
            self._saving_for = 0.0
            return None
        is_glance = not (self._has_glanced or self._ledger.held >= self._search_price)
        price = self._glance_price if is_glance else self._search_price
        self._saving_for = price if self._ledger.held < price else 0.0
        if self._saving_for:
            return None
        self._ledger.pay(price)
        self._reference = _Reference(view.bias, view.statistics)
        best = self._best(view, "none" if is_glance else self._states)
        is_better = clearly_less(best.cost, view.predicted)
        self._has_glanced = self._states != "auto" or (is_glance and not is_better)
        because = cause or "a glance found nothing"
        if not is_better:
            self._log("stay", f"{because}; no better plan is known", None, view, best)
            return None
        return self._weigh(view, best, f"{because}; ")

    @property
    def _owes_search(self) -> bool:
        """Whether a glance at plans that keep no state was in vain, so that all of them are to be searched."""
        return self._has_glanced and self._states == "auto"

    def _cause(self, view: _View) -> str | None:
        """Why plans should be compared again, if they should."""
        if self._reference is None:
            return "nobody has compared plans yet"
        bound = math.log1p(self._settings.deviation)
        if abs(view.bias - self._reference.bias) >= bound:
            ratios = math.exp(self._reference.bias), math.exp(view.bias)
            return f"the observed cost went from {ratios[0]:.2f} to {ratios[1]:.2f} times the predicted one"
        moved = drift(self._graph, self._reference.statistics, view.statistics)
        return f"the streams moved by {math.expm1(moved):.0%}" if moved >= bound else None

    def _best(self, view: _View, states: States) -> _Alternative:
        """The cheapest of what a search among plans with these states finds, and of what has run before.

        If the model knows nothing of what makes the running plan so dear, plans of other kinds may be spared it.
        """
        kinds: list[States] = [states]
        if states == "auto" and view.bias > SHARED:
            kinds += ["none", "all"]
        plans = [choose_plan(self._graph, view.statistics, kind) for kind in kinds] + self._experience.plans
        return min((self._alternative(plan, view) for plan in plans), key=lambda each: each.cost)

    def _alternative(self, plan: Plan, view: _View) -> _Alternative:
        cost = plan_cost(plan, self._graph, view.statistics).per_tuple
        price = transition_price(self.plan, plan, self._graph, view.statistics)
        return _Alternative(plan, cost * self._experience.correction(plan, view.bias), price)

    def _weigh(self, view: _View, other: _Alternative, cause: str) -> _Alternative | None:
        """The alternative, if changing to it has been worth it for long enough; else it may be weighed again."""
        settings = self._settings
        gain = view.predicted - other.cost
        share = gain / view.predicted
        action: Action = "stay"
        if share <= settings.gain:
            outcome = f"a gain of {share:.0%} is not worth a change"
        elif gain * settings.horizon <= other.price:
            outcome = f"a gain of {gain:.0f} ns per tuple does not pay the price of the change"
        elif self._streak + 1 < settings.persistence:
            action = "wait"
            outcome = f"a gain of {share:.0%} has been seen in {self._streak + 1} of {settings.persistence} looks"
        else:
            action = "change"
            outcome = f"a gain of {share:.0%} is expected"
        self._log(action, cause + outcome, other.plan, view, other)
        self._pending, self._streak = (other.plan, self._streak + 1) if action == "wait" else (None, 0)
        return other if action == "change" else None

    # -- What is said about it ----------------------------------------------------------

    def _log(
        self,
        action: Action,
        reason: str,
        to: Plan | None,
        view: _View | None = None,
        other: _Alternative | None = None,
    ) -> None:
        aliases = self._query.aliases
        self.decisions.append(
            Decision(
                position=self.position,
                action=action,
                reason=reason,
                plan=plan_label(self.plan, aliases),
                to=None if to is None else plan_label(to, aliases),
                predicted_before=None if view is None else view.predicted,
                predicted_after=None if other is None else other.cost,
                price=None if other is None else other.price,
                observed_before=None if view is None else view.recent,
            )
        )
        del self.decisions[:-_LOG]

    def _note_outcome(self, observed: float) -> None:
        """Write down what the last change has led to."""
        for place in reversed(range(len(self.decisions))):
            if self.decisions[place].action == "change":
                self.decisions[place] = replace(self.decisions[place], observed_after=observed)
                return

    def _note_what_followed(self, observed: float) -> None:
        """Write down what it cost to stay, if that was the last decision."""
        last = self.decisions[-1] if self.decisions else None
        if last is not None and last.action != "change" and last.observed_after is None:
            self.decisions[-1] = replace(last, observed_after=observed)

    @property
    def latest_decisions(self) -> list[dict[str, Any]]:
        """Those that outlive the process, as JSON: what a change has led to is known only later."""
        return [decision.to_json() for decision in self.decisions[-_LOG_REMEMBERED:]]

    # -- What is remembered -------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """All that a successor needs to go on, but the plan."""
        aliases, reference = self._query.aliases, self._reference
        return {
            "monitor": self._monitor.to_json(),
            "experience": self._experience.to_json(aliases),
            "ledger": self._ledger.held,
            "saving_for": self._saving_for,
            "glanced": self._has_glanced,
            "prices": None if self._known_prices is None else astuple(self._known_prices),
            "seen": self._seen,
            "unlooked": self._unlooked,
            "next_look": self._next_look,
            "looks": self._looks,
            "ranked_by": statistics_to_json(self._ranked_by),
            "reference": None if reference is None else [reference.bias, statistics_to_json(reference.statistics)],
            "pending": None if self._pending is None else plan_to_json(self._pending, aliases),
            "streak": self._streak,
            "cooling": self._cooling,
            "usual": self._usual,
            "alarmed": self._is_alarmed,
            "held": self._is_held,
            "position": self.position,
            "changes": self.changes,
            "decisions": self.latest_decisions,
        }

    @staticmethod
    def from_json(
        query: Query, plan: Plan, states: States, settings: Adaptivity, known: Mapping[str, Any]
    ) -> Controller:
        """The controller that wrote this, of a bucket that runs under ``plan``."""
        self = Controller(query, plan, statistics_from_json(known["ranked_by"]), states, settings)
        self._monitor.restore(known["monitor"])
        self._experience = Experience.from_json(known["experience"], query.aliases)
        self._ledger.held, self._saving_for, self._has_glanced = known["ledger"], known["saving_for"], known["glanced"]
        self._known_prices = None if known["prices"] is None else Prices(*known["prices"])
        self._seen = tuple(known["seen"])
        self._looked = _less(self._seen, tuple(known["unlooked"]))
        self._next_look, self._looks = known["next_look"], known["looks"]
        reference, pending = known["reference"], known["pending"]
        self._reference = None if reference is None else _Reference(reference[0], statistics_from_json(reference[1]))
        self._pending = None if pending is None else plan_from_json(pending, query.aliases)
        self._streak, self._cooling, self._is_held = known["streak"], known["cooling"], known["held"]
        self._usual, self._is_alarmed = known["usual"], known["alarmed"]
        self.position, self.changes = known["position"], known["changes"]
        self.decisions = [Decision.from_json(each) for each in known["decisions"]]
        return self


def _less(work: Counts, earlier: Counts) -> Counts:
    """The work since an earlier count."""
    return tuple(map(sub, work, earlier))
