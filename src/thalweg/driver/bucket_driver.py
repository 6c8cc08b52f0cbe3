"""One bucket, the plan that it runs under, and who decides about that plan.

Design
    Three decide about the plan. The user writes one, or commands another. The planner chooses for the first rows, and
    after a rebuild. The controller changes it between batches, and stretches of them. All act through the driver. So
    the engine, the controller and the history always speak of the same plan. With ``production="auto"``, a decider
    chooses the gates of its programs likewise. Both are paid for out of one ledger.

Invariant
    What lasts (:meth:`BucketDriver.record`) is a function of the input alone: the first plan, plans by command, and
    when they came. What was learned while running (:meth:`BucketDriver.notes`) differs from attempt to attempt. It may
    decide how a plan is executed, and never enters what lasts. Where a budget is divided by batch, the controller sees
    only what attempts show alike, and lasts, too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from thalweg.adapt.controller import Controller
from thalweg.adapt.decision import Decision, plan_label
from thalweg.adapt.history import History
from thalweg.adapt.monitor import LOOK_ROWS, Monitor
from thalweg.adapt.production import ProductionDecider
from thalweg.adapt.spending import Spender
from thalweg.cql.group import Group
from thalweg.driver.budgeting import Budgeting
from thalweg.driver.deciders import Deciders
from thalweg.driver.planning import plan_for
from thalweg.engine.bucket import AnyBucket, Bucket, open_bucket
from thalweg.engine.chains import LineageShares
from thalweg.engine.feedback.savings import Savings
from thalweg.engine.join_bucket import JoinBucket
from thalweg.engine.machine.accounts import Spent
from thalweg.engine.outputs.estimates import AnswerEstimate
from thalweg.engine.outputs.readers import Emitted
from thalweg.engine.rows.payload import Rows
from thalweg.engine.time_bounds import NEVER
from thalweg.errors import OptionError, ThalwegError
from thalweg.plan.difference import AnyPlan, DifferencePlan
from thalweg.plan.join_graph import JoinGraph
from thalweg.plan.plan_json import any_plan_from_json, plan_to_json, statistics_from_json, statistics_to_json
from thalweg.plan.program import Rank
from thalweg.plan.search import choose_plan, rank
from thalweg.plan.statistics import Statistics
from thalweg.plan.tree import TreePlan
from thalweg.policies import Policies
from thalweg.settings import Budget, States


class _Committed(NamedTuple):
    """What a record says of a budget that is divided by batch, and of who decides about the plan."""

    spending: Mapping[str, Any] | None
    controller: Mapping[str, Any] | None
    places: Sequence[int]


class BucketDriver:
    """Owns a bucket and its plan.

    Calls: :meth:`begin` a new bucket; or :meth:`recall` what was committed and :meth:`reopen` one, to be filled again
    or to be made what an image holds. Then, whenever the bucket is at rest, :meth:`advance`, :meth:`consider`,
    :meth:`command` and :meth:`release`. ``taken`` is always how many tuples of the batch were processed before.

    ``payloads``: if all the rows to come are there already. ``keeps_all``: whether readers may come that read other
    columns.

    Attributes:
        plan: the plan that runs.
        deciders: who decides about it, its gates and the slices of windows.
        budgeting: what is done about a budget.
        history: the plans so far.

    """

    def __init__(
        self, group: Group, policies: Policies, payloads: Sequence[Rows] | None = None, *, keeps_all: bool = False
    ) -> None:
        self._group, self._policies, self._payloads, self._keeps_all = group, policies, payloads, keeps_all
        self._query = query = group.whole
        self._graph = JoinGraph.of(query)
        self.plan: AnyPlan | None = None
        self.deciders = Deciders(query, policies)
        self._shares: LineageShares | None = None
        self.budgeting = Budgeting(group, policies)
        self.history = History(query.aliases)
        self._bucket: AnyBucket | None = None
        self._measured: Statistics | None = None
        self._lasting_plan: AnyPlan | None = None
        self._is_held = False
        self._committed: _Committed | None = None
        self._batch = 0
        self._reached: int | None = None

    def at(self, batch: int, reached: int | None) -> None:
        """From now on it is this batch, before which so much event time was reached."""
        self._batch, self._reached = batch, reached

    # -- The bucket ---------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether there is a bucket yet."""
        return self._bucket is not None

    @property
    def bucket(self) -> AnyBucket:
        """The live engine."""
        if self._bucket is None:
            raise ThalwegError(f"query '{self._query.name}': a bucket was asked for before it was opened")
        return self._bucket

    @property
    def join(self) -> Bucket | None:
        """The same, if the query is a join."""
        return self._bucket if isinstance(self._bucket, JoinBucket) else None

    @property
    def decides(self) -> bool:
        """Whether somebody is to be asked on the way through a batch."""
        return self.controller is not None or self.production is not None or self._may_choose_chain

    @property
    def _may_choose_chain(self) -> bool:
        return self.join is not None and self.join.may_choose_chain

    @property
    def controller(self) -> Controller | None:
        """Who adapts the plan; None: nobody."""
        return self.deciders.controller

    @property
    def production(self) -> ProductionDecider | None:
        """Who decides which gates programs have; None: nobody."""
        return self.deciders.production

    @property
    def savings(self) -> Savings | None:
        """What feedback saved so far; None if none is given."""
        return None if self.join is None else self.join.savings

    @property
    def spent(self) -> Spent | None:
        """What probes were asked for under a budget so far; None if there is none."""
        return self.budgeting.spent(self.join)

    @property
    def spender(self) -> Spender | None:
        """Who divides the budget over its probes; None: there is none, or it is divided by batch."""
        return self.budgeting.spender

    @property
    def estimates(self) -> dict[str, AnswerEstimate]:
        """Under a budget, how much of its answer each query has got so far."""
        return self._bucket.estimates if isinstance(self._bucket, JoinBucket) else {}

    def set_budget(self, value: int | str | Budget | None) -> None:
        """Run with another budget from the next tuple on, as of ``Options(budget=...)``; None: nothing is refused."""
        self.budgeting.change(value, self.join)

    def begin_batch(self) -> None:
        """The rows of a batch have been offered."""
        is_watched = self.controller is not None and not self.controller.is_idle
        self.budgeting.begin_batch(self.join, self._batch + 1, is_watched=is_watched)

    def end_batch(self) -> None:
        """They have been taken."""
        self.budgeting.end_batch(self.join, self._reached)

    def _begin_spending(self, statistics: Statistics, *, anew: bool) -> None:
        """Divide the budget over the probes of another plan; ``anew``: of another engine."""
        self.budgeting.divide(self.join, statistics, anew=anew)

    def begin(self, statistics: Statistics, text: str | None) -> None:
        """Open a new bucket under the plan that the user wrote, or the best one by what the first rows say."""
        self._measured = statistics
        if self.budgeting.batches is not None:
            self.budgeting.batches.begin(statistics)
        self.plan = self._lasting_plan = plan = plan_for(self._query, statistics, text, self._policies.states)
        self._bucket = self._open(rank(self._graph, statistics))
        self._begin_spending(statistics, anew=True)
        self._begin_period("chosen for the first rows" if text is None else "as the user wrote it", lasts=True)
        self.deciders.watch(self._query, plan, statistics, chosen=text is None)

    def reopen(self, bucket: AnyBucket | None = None) -> None:
        """Open a bucket under the plan that was recalled; or take this one, whatever its past, instead of another."""
        if bucket is None:
            bucket = self._open(rank(self._graph, self._first_known))
        self._bucket = bucket
        self._begin_spending(self._first_known, anew=True)

    @property
    def _first_known(self) -> Statistics:
        """What may be known of the streams before anything was measured here."""
        return self.budgeting.committed or Statistics.default(self._query)

    def _open(self, ranked: Rank) -> AnyBucket:
        return open_bucket(
            self._group,
            self.plan,
            ranked,
            self._payloads,
            self._policies,
            keeps_all=self._keeps_all,
            shares=self._shares,
        )

    def readers_are(self, group: Group) -> None:
        """Know, before a bucket is opened, that it has other readers."""
        self._group, self._query = group, group.whole
        self._graph = JoinGraph.of(group.whole)
        self.budgeting.serve(group.whole)

    def serve(self, group: Group, watermark: int | None = None, anew: Collection[str] = ()) -> None:
        """Go on with other readers of the same join; see :meth:`thalweg.engine.join_bucket.JoinBucket.serve`.

        The plan stays. Who adapts it looks anew, since windows are not what they were.
        """
        join = self.join
        if join is None:
            raise ThalwegError(f"query '{self._query.name}' is no join, and has one reader")
        self.budgeting.check(group)
        spent = self.spent
        join.serve(group, watermark, anew)
        self.budgeting.remember(spent)
        self.budgeting.serve(group.whole)
        self._group, self._query = group, group.whole
        self.deciders.chains.begin_with(join)
        batches = self.budgeting.batches
        if batches is not None and self.plan is not None:
            batches.serve(self._query)
            join.transition(self.plan, rank(self._graph, batches.statistics))
        self._after_serving(join)

    def _after_serving(self, join: Bucket) -> None:
        """The windows were filled anew: whoever decides about plan and gates looks anew, too."""
        self._measured = None
        known, deciders = self._known(), self.deciders
        self._begin_spending(known, anew=True)
        deciders.begin_with_gates(join)
        deciders.go_on(self._query, self.plan, known, self.budgeting.watched(join), held=self._is_held)

    def plan_anew(self) -> None:
        """Choose the plan for what refilled windows hold; one that does not adapt, or is held, is ranked anew."""
        plan, join, held = self.plan, self.join, self._is_held
        if join is None or plan is None or isinstance(plan, DifferencePlan):
            return
        if self._committed is not None:
            self._go_on_as_committed(self._committed)
            join.transition(plan, rank(self._graph, self._known()))
            self._begin_spending(self._known(), anew=True)
            return
        statistics = Statistics.default(self._query)
        is_chosen = self._policies.adaptive is not None and not held
        if is_chosen or self._policies.can_rank_anew:
            statistics = self._known()
            if is_chosen:
                self.plan = plan = choose_plan(self._graph, statistics, self._policies.states)
            join.transition(plan, rank(self._graph, statistics))
        self._begin_spending(statistics, anew=True)
        self.deciders.begin_with_gates(join)
        if is_chosen:
            self._begin_period("chosen for the restored windows")
        controller = self.deciders.watch(self._query, plan, statistics, chosen=not held, held=held)
        if controller is not None:
            controller.begin_with(join)

    # -- Its plan -----------------------------------------------------------------------

    def advance(self, limit: int | None = None) -> Iterator[Emitted]:
        """Take up to so many of the offered rows; gates and the budget's division may change on the way."""
        join = self.join
        if join is None or (self.production is None and self.budgeting.spender is None):
            yield from self.bucket.advance(limit)
        else:
            yield from join.advance(limit, self._rest, self.budgeting.period)
            self._rest()

    def _rest(self) -> None:
        """The bucket is at rest on the way through a batch."""
        self.deciders.consider_gates(self.join)
        self.budgeting.look(self.join)

    def consider(self, taken: int) -> list[Decision]:
        """Let whoever is there decide about the plan and its gates; says what was decided about the plan."""
        join, spent = self.join, self.spent
        if join is not None and self.deciders.chains.consider(join):
            self.budgeting.remember(spent)
            self._after_serving(join)  # which asks somebody new
        controller = self.controller
        if controller is None or join is None:
            self.deciders.consider_gates(self.join)
            return []
        known = len(controller.decisions)
        self.budgeting.inform(controller)
        if controller.consider(self.budgeting.watched(join)):
            self.plan = controller.plan
            self._measured = None  # the streams are not what they were
            lasts = self.budgeting.batches is not None
            if self.budgeting.batches is not None:
                self._lasting_plan = self.plan
                self.budgeting.batches.adopt(controller.ranked_by)
            self.deciders.gates_are_gone(self.join)
            self._begin_spending(self._known(), anew=False)
            self._begin_period(controller.decisions[-1].reason, taken, lasts=lasts)
        else:
            self.deciders.consider_gates(self.join)
        return controller.decisions[known:]

    def command(self, text: str, states: States | None = None, taken: int = 0, *, lasts: bool) -> None:
        """Run under another plan; if that cannot be done, raises why, and leaves everything as it is.

        ``lasts``: it is committed, and stays until :meth:`release`. Which states it keeps is then decided by
        assumptions, since what was learned must not be committed. The order of its probes is not committed, and follows
        what is known.
        """
        if self.budgeting.batches is not None:
            if states == "all":
                raise OptionError(
                    f"query '{self._query.name}' runs under a budget, where on Spark no states are kept. Send the plan "
                    "without states."
                )
            states = "none"
        known = self._known()
        by = Statistics.default(self._query) if lasts else known
        plan = plan_for(self._query, by, text, states or self._policies.states)
        if self.join is None:
            self.bucket.transition(plan)
        else:
            self.join.transition(plan, rank(self._graph, known))
        self.deciders.gates_are_gone(self.join)
        self._begin_spending(known, anew=False)
        self.plan = plan
        if lasts:
            self._lasting_plan, self._is_held = plan, True
        self._begin_period("by command", taken, lasts=lasts)
        if self.controller is not None and not isinstance(plan, DifferencePlan):
            self.controller.follow(plan, known, hold=lasts)

    def release(self) -> str | None:
        """Let the plan adapt again; if it never did, says why."""
        if self.controller is None:
            return (
                f"query '{self._query.name}' does not adapt: it is no join, or runs with adaptive=False, as an "
                "eddy, or with a plan of its user. Start it with adaptive=thalweg.Adaptivity()."
            )
        self._is_held = False
        self.controller.release()
        return None

    def _known(self) -> Statistics:
        """What was measured of the streams; where nothing was yet, what the windows show now.

        If attempts at a batch have to refuse the same probes: what was committed.
        """
        if self.budgeting.committed is not None:
            return self.budgeting.committed
        if self._measured is None:
            self._measured = (
                Statistics.default(self._query)
                if self.join is None
                else Monitor.statistics_of(self._query, self.join.glimpse(LOOK_ROWS))
            )
        return self._measured

    def _begin_period(self, reason: str, taken: int = 0, *, lasts: bool = False) -> None:
        """Another plan runs from now on: write it down."""
        if self.plan is not None:
            label = plan_label(self.plan, self._query.aliases)
            self.history.begin(self._batch, label, reason, taken, self._time_at(taken), lasts=lasts)
            self.history.update(0, self.bucket.sizes())

    def _time_at(self, taken: int) -> int | None:
        """The event time that was reached: in the batches before, or in the midst of one."""
        if not taken:
            return self._reached
        now = NEVER if self.join is None else self.join.glimpse(0).time
        return None if now == NEVER else now

    # -- What is remembered -------------------------------------------------------------

    def record(self) -> dict[str, Any]:
        """What is to be committed with a batch."""
        return {
            "plan": self._plan_json(self._lasting_plan),
            "held": self._is_held,
            "history": self.history.lasting_json(),
            "spending": self.budgeting.to_json(),
            "controller": self._controller_json(),
        }

    def recall(self, plan: AnyPlan | None, known: Mapping[str, Any], places: Sequence[int]) -> None:
        """Know what a record says; its plan may have had to be fitted to a query that has changed.

        ``places`` are the positions that the streams of the record have now.
        """
        if self.budgeting.batches is not None and isinstance(plan, TreePlan):
            plan = TreePlan(plan.tree, frozenset())  # it may have run without a budget before
        self.plan = self._lasting_plan = plan
        self._is_held = known["held"]
        self.history.restore(known["history"])
        if self.budgeting.batches is not None:
            self._committed = _Committed(known["spending"], known.get("controller"), places)
            self.budgeting.restore(known["spending"], places)

    def _go_on_as_committed(self, committed: _Committed) -> None:
        """Divide the budget, and decide about the plan, by what was committed, whatever was learned since."""
        self.budgeting.restore(committed.spending, committed.places)
        known, view, held = committed.controller, self.budgeting.view, self._is_held
        if view is None or self._policies.adaptive is None:
            return
        if known is not None and known["streams"] == list(self._query.aliases):
            view.restore(known["view"])
            self.deciders.watch_again(self._query, self.plan, known)
        else:
            self.deciders.watch(self._query, self.plan, self._known(), chosen=not held, held=held)

    def _controller_json(self) -> dict[str, Any] | None:
        """What is committed of who decides about the plan."""
        view = self.budgeting.view
        if self.controller is None or view is None:
            return None
        return {"streams": list(self._query.aliases), "view": view.to_json(), **self.controller.to_json()}

    def notes(self) -> dict[str, Any]:
        """What was learned while running, to be kept with the bucket's image."""
        lasts = self.budgeting.view is not None  # then the record has the controller
        return {
            "plan": self._plan_json(self.plan),
            "statistics": None if self._measured is None else statistics_to_json(self._measured),
            **self.deciders.to_json(controller=not lasts),
            "shares": None if self.join is None else self.join.shares,
            "history": self.history.to_json(),
        }

    def suits(self, bucket: AnyBucket) -> bool:
        """Whether a bucket serves the readers that are there, under the chain of slices that was noted."""
        if not isinstance(bucket, JoinBucket):
            return True
        return bucket.group.readers == self._group.readers and bucket.shares == self._shares

    def recall_shares(self, notes: Mapping[str, Any]) -> None:
        """Know, before a bucket is opened, for which lineages its slices were built."""
        shares = notes["shares"]
        self._shares = None if shares is None else tuple(map(tuple, shares))

    def recall_notes(self, notes: Mapping[str, Any]) -> None:
        """Know what the driver of the image had learned."""
        self.plan = None if notes["plan"] is None else any_plan_from_json(notes["plan"], self._query)
        self._measured = None if notes["statistics"] is None else statistics_from_json(notes["statistics"])
        self.history.restore(notes["history"])
        self.deciders.restore(notes)
        if self._committed is not None:
            self._go_on_as_committed(self._committed)
        else:
            self.deciders.watch_again(self._query, self.plan, notes["controller"])

    def _plan_json(self, plan: AnyPlan | None) -> dict[str, Any] | None:
        return None if plan is None else plan_to_json(plan, self._query.aliases)
