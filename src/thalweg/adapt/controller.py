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
from collections.abc import Callable, Mapping
from dataclasses import astuple
from typing import Any

from thalweg.adapt.batch_view import Watched
from thalweg.adapt.comparison import Alternative, Reference, View, alternative, best_alternative, cause, weigh
from thalweg.adapt.decision import Action, Decision
from thalweg.adapt.decision_log import DecisionLog
from thalweg.adapt.experience import Experience
from thalweg.adapt.ledger import Ledger
from thalweg.adapt.monitor import LOOK_ROWS, Monitor
from thalweg.adapt.prices import Prices
from thalweg.adapt.running_plan import RunningPlan
from thalweg.adapt.search_fund import SearchFund
from thalweg.adapt.work_meter import WorkMeter
from thalweg.cql.query import Query
from thalweg.engine.observations import Counts
from thalweg.plan.estimator import clearly_less
from thalweg.plan.join_graph import JoinGraph
from thalweg.plan.plan_json import plan_from_json, plan_to_json, statistics_from_json, statistics_to_json
from thalweg.plan.program import Rank
from thalweg.plan.search import rank
from thalweg.plan.statistics import Statistics
from thalweg.plan.tree import Plan
from thalweg.settings import Adaptivity, States


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
        ledger: out of which looks and searches are paid; None: one that nobody shares.

    Attributes:
        promised: under a budget, the results per second that a plan would find with the best allocation, if anything is
            refused now (JAQPOT 4.1); None: there is no budget.
        calibrated: what a look says of the streams, set right by whoever knows better; None: it is right.
        trusts_work: whether the work that was done says what the plan costs. It does not while a part is refused.

    """

    promised: Callable[[Plan, Statistics], float | None] | None = None
    calibrated: Callable[[Statistics], Statistics] | None = None
    trusts_work: bool = True

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
        ledger: Ledger | None = None,
    ) -> None:
        self._query = query
        self._graph = JoinGraph.of(query)
        self._settings = settings
        self._monitor = Monitor(query, settings.memory)
        self._meter = WorkMeter()
        self._fund = SearchFund(self._graph, states, Ledger() if ledger is None else ledger)
        self._experience = Experience()
        self._log = DecisionLog(query.aliases)
        self._next_look = settings.period
        self._looks = 0
        self._reference = Reference(0.0, statistics) if chosen else None
        self._cooling = 0
        self._is_held = held
        self.changes = 0
        self._adopt(plan, statistics)

    def _adopt(self, plan: Plan, statistics: Statistics) -> None:
        """Take note of the plan that runs."""
        self._running = RunningPlan(plan, self._graph, statistics)
        self._pending: Plan | None = None
        self._streak = 0
        self._meter.plan_changed()
        self._monitor.forget_work()

    @property
    def plan(self) -> Plan:
        """The plan that runs."""
        return self._running.plan

    @property
    def rank(self) -> Rank:
        """The order of probes that the running plan was compiled with."""
        return self._running.rank

    @property
    def ranked_by(self) -> Statistics:
        """The statistics that it was compiled with."""
        return self._running.ranked_by

    @property
    def is_idle(self) -> bool:
        """Whether no other plan could be better."""
        return self._running.is_only_one

    @property
    def position(self) -> int:
        """Tuples processed so far."""
        return self._meter.position

    @property
    def decisions(self) -> list[Decision]:
        """The last decisions, those to leave the plan as it is included."""
        return self._log.decisions

    @property
    def latest_decisions(self) -> list[dict[str, Any]]:
        """Those that outlive the process, as JSON."""
        return self._log.to_json()

    def follow(self, plan: Plan, statistics: Statistics, *, hold: bool = False) -> None:
        """Someone else has changed the plan; with ``hold``, it stays until :meth:`release`."""
        self._is_held = self._is_held or hold
        self._note("change", "by command", plan)
        self._adopt(plan, statistics)
        self.changes += 1
        self._cooling = 0

    def release(self) -> None:
        """Decide again."""
        self._is_held = False
        self._reference = None

    def begin_with(self, bucket: Watched, former: Controller | None = None) -> None:
        """The windows of the bucket were filled anew: what that took is not what the plan costs.

        ``former``: who watched it until then. What was decided stays known, and tuples are counted on.
        """
        self._meter.begin_with(bucket.counts)
        if former is not None:
            self._log, self.changes = former._log, former.changes
            self._meter.position = former.position
            self._next_look += former.position

    # -- Looking ------------------------------------------------------------------------

    def consider(self, bucket: Watched) -> bool:
        """Look, search and change, each if it is due; says whether the plan has changed."""
        if self.is_idle:
            return False
        if not self.trusts_work:
            self._meter.usual = None  # what is allowed again is no alarm
        self._fund.put(self._meter.count(bucket.counts, self._running.prices, self._settings))
        if self._is_held or self.position < self._next_look or not self._fund.has_look:
            return False
        view = self._look(bucket)
        other = self._decide(view)
        if other is None:
            if self._meter.usual is None or not (self._cooling or self._pending or self._fund.is_saving):
                self._meter.usual = view.recent
            return False
        bucket.transition(other.plan, rank(self._graph, view.statistics))
        self._adopt(other.plan, view.statistics)
        self._fund.plan_changed()
        self.changes += 1
        self._cooling = self._settings.cool_down
        return True

    def _look(self, bucket: Watched) -> View:
        self._fund.pay_look()
        self._next_look = self.position + self._settings.period
        self._looks += 1
        if self._meter.is_alarmed:
            self._monitor.forget()
        recent = self._meter.look()
        self._monitor.look(bucket.glimpse(LOOK_ROWS), recent)
        view = self._view(recent)
        self._log.note_what_followed(view.recent)
        return view

    def _view(self, recent: Counts) -> View:
        statistics = self._monitor.statistics()
        if self.calibrated is not None:
            statistics = self.calibrated(statistics)
        predicted = self._running.predict(statistics)
        observed, lately = (self._running.prices.total(work) / work[0] for work in (self._monitor.work, recent))
        if not self.trusts_work:  # the model errs as it did when it was last seen to
            observed = predicted * math.exp(0.0 if self._reference is None else self._reference.bias)
        return View(statistics, predicted, observed, lately)

    # -- Deciding -----------------------------------------------------------------------

    def _decide(self, view: View) -> Alternative | None:
        """What to change to, if anything."""
        if self._cooling and self._meter.is_alarmed and self._meter.usual is not None:
            self._cooling = 0  # what it was like until now is what the change has brought
            self._log.note_outcome(self._meter.usual)
        if self._cooling:
            self._cooling -= 1
            if not self._cooling:
                self._log.note_outcome(view.recent)
            return None
        if self.trusts_work:
            self._experience.learn(self.plan, view.bias, self._looks)
        if self._pending is not None:
            other = alternative(self._pending, self.plan, view, self._graph, self._experience)
            return self._weigh(view, other, "")
        reason = cause(view, self._reference, self._graph, self._settings.deviation)
        if reason is None and not self._fund.owes_search:
            self._fund.stop_saving()
            return None
        states = self._fund.pay_search()
        if states is None:
            return None
        self._reference = Reference(view.bias, view.statistics)
        best = best_alternative(states, self.plan, view, self._graph, self._experience)
        is_better = clearly_less(best.cost, view.predicted)
        self._fund.searched(states, is_better=is_better)
        because = reason or "a glance found nothing"
        if not is_better:
            self._note("stay", f"{because}; no better plan is known", None, view, best)
            return None
        return self._weigh(view, best, f"{because}; ")

    def _weigh(self, view: View, other: Alternative, because: str) -> Alternative | None:
        """The alternative, if changing to it has been worth it for long enough; else it may be weighed again."""
        action, outcome = weigh(view, other, self._streak, self._settings)
        if action != "stay":
            action, outcome = self._weigh_results(view, other, action, outcome)
        self._note(action, because + outcome, other.plan, view, other)
        self._pending, self._streak = (other.plan, self._streak + 1) if action == "wait" else (None, 0)
        return other if action == "change" else None

    def _weigh_results(self, view: View, other: Alternative, action: Action, outcome: str) -> tuple[Action, str]:
        """Under a budget a plan is better if it finds more with what there is, and not if it would cost less."""
        before = None if self.promised is None else self.promised(self.plan, view.statistics)
        after = None if self.promised is None else self.promised(other.plan, view.statistics)
        if before is None or after is None:
            return action, outcome
        if after < before * (1 + self._settings.gain):
            return "stay", f"the budget finds {before:,.0f} results/s as it is, and {after:,.0f} under the other plan"
        return action, f"{outcome}, and {after:,.0f} results/s under the budget instead of {before:,.0f}"

    def _note(
        self, action: Action, reason: str, to: Plan | None, view: View | None = None, other: Alternative | None = None
    ) -> None:
        self._log.add(self.position, action, reason, self.plan, to, view, other)

    # -- What is remembered -------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """All that a successor needs to go on, but the plan."""
        aliases, reference, prices = self._query.aliases, self._reference, self._running.known_prices
        return {
            "monitor": self._monitor.to_json(),
            "experience": self._experience.to_json(aliases),
            **self._fund.to_json(),
            **self._meter.to_json(),
            "prices": None if prices is None else astuple(prices),
            "next_look": self._next_look,
            "looks": self._looks,
            "ranked_by": statistics_to_json(self._running.ranked_by),
            "reference": None if reference is None else [reference.bias, statistics_to_json(reference.statistics)],
            "pending": None if self._pending is None else plan_to_json(self._pending, aliases),
            "streak": self._streak,
            "cooling": self._cooling,
            "held": self._is_held,
            "changes": self.changes,
            "decisions": self.latest_decisions,
        }

    @staticmethod
    def from_json(
        query: Query,
        plan: Plan,
        states: States,
        settings: Adaptivity,
        known: Mapping[str, Any],
        ledger: Ledger | None = None,
    ) -> Controller:
        """The controller that wrote this, of a bucket that runs under ``plan``."""
        self = Controller(query, plan, statistics_from_json(known["ranked_by"]), states, settings, ledger=ledger)
        self._monitor.restore(known["monitor"])
        self._experience = Experience.from_json(known["experience"], query.aliases)
        self._fund.restore(known)
        self._meter.restore(known)
        self._running.known_prices = None if known["prices"] is None else Prices(*known["prices"])
        self._next_look, self._looks = known["next_look"], known["looks"]
        reference, pending = known["reference"], known["pending"]
        self._reference = None if reference is None else Reference(reference[0], statistics_from_json(reference[1]))
        self._pending = None if pending is None else plan_from_json(pending, query.aliases)
        self._streak, self._cooling, self._is_held = known["streak"], known["cooling"], known["held"]
        self.changes = known["changes"]
        self._log = DecisionLog(query.aliases, (Decision.from_json(each) for each in known["decisions"]))
        return self
