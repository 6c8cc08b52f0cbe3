"""The budget of a bucket: who divides it over probes, tuple by tuple or batch by batch, and what was spent of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from thalweg.adapt.batch_spending import BatchSpender, BatchUse
from thalweg.adapt.batch_view import BatchView, Watched
from thalweg.adapt.controller import Controller
from thalweg.adapt.spending import Spender
from thalweg.cql.group import Group
from thalweg.cql.query import Query
from thalweg.driver.planning import check_budget, check_by_batch
from thalweg.engine.bucket import Bucket
from thalweg.engine.machine.accounts import Spent
from thalweg.errors import OptionError
from thalweg.plan.statistics import Statistics
from thalweg.policies import Policies
from thalweg.settings import Budget


class Budgeting:
    """What a driver does about a budget; nothing, if there is none.

    Attributes:
        spender: who divides the budget over its probes; None: there is none, or it is divided by batch.
        batches: who divides the budget batch by batch; None: nobody.
        view: what a controller may see, if the budget is divided by batch; None: all there is.
        used: what the last batch spent of a budget that is divided by batch.

    """

    def __init__(self, group: Group, policies: Policies) -> None:
        self._query = group.whole
        self._target_us = policies.target_us
        self.spender: Spender | None = None
        self.batches: BatchSpender | None = None
        self.view: BatchView | None = None
        self.used: BatchUse | None = None
        if policies.budget is not None and policies.by_batch:
            check_by_batch(group)
            self.batches = BatchSpender(self._query, policies.budget, policies.allocation)
            self.view = BatchView(self._query)
        elif policies.budget is not None:
            check_budget(group)
            self.spender = Spender(self._query, policies.budget, policies.allocation)
        self._earlier = Spent.nothing(len(self._query.streams))
        self._time_for: float | None = None
        self._seconds = self._result = 0.0

    # -- The budget ---------------------------------------------------------------------

    def change(self, value: int | str | Budget | None, join: Bucket | None) -> None:
        """Run with another budget from the next tuple on."""
        budget = value if isinstance(value, Budget) else Budget.of(value)
        accounts = None if join is None else join.accounts
        if self.batches is not None:
            self._change_by_batch(self.batches, budget)
            return
        if self.spender is None or join is None or accounts is None:
            raise OptionError(
                f"query '{self._query.name}' was begun without a budget, and cannot be given one. "
                "Begin it with option budget='100%', which refuses nothing."
            )
        self.spender.change(budget, join, accounts)

    def _change_by_batch(self, batches: BatchSpender, budget: Budget) -> None:
        if budget.is_auto and self._target_us is None:
            raise OptionError(
                f"query '{self._query.name}' was begun without a target_trigger, so nothing says how much a budget "
                "'auto' grants. Begin it with target_trigger='5 seconds', say."
            )
        batches.change(replace(budget, parts=batches.budget.parts))

    # -- What was spent -----------------------------------------------------------------

    def spent(self, join: Bucket | None) -> Spent | None:
        """What probes were asked for so far; None if there is no budget."""
        accounts = None if join is None else join.accounts
        return None if accounts is None else self._earlier + accounts.spent

    def remember(self, spent: Spent | None) -> None:
        """The engine has been replaced by another, whose accounts are new."""
        if spent is not None:
            self._earlier = spent

    # -- The readers and the plan -------------------------------------------------------

    def check(self, group: Group) -> None:
        """An error if these queries cannot run under the budget."""
        if self.spender is not None:
            check_budget(group)
        if self.batches is not None:
            check_by_batch(group)

    def serve(self, query: Query) -> None:
        """Other readers are there now."""
        self._query = query
        if self.view is not None:
            self.view.serve(query)

    def divide(self, join: Bucket | None, statistics: Statistics, *, anew: bool) -> None:
        """Divide the budget over the probes of another plan; ``anew``: of another engine."""
        accounts = None if join is None else join.accounts
        if join is None or accounts is None:
            return
        if self.batches is not None:
            self.batches.rest(accounts)
        if self.spender is not None and anew:
            self.spender.begin(self._query, join, accounts, statistics)
        elif self.spender is not None:
            self.spender.begin_plan(join, accounts, statistics)

    def inform(self, controller: Controller) -> None:
        """Let a controller know what plans promise."""
        batches, view = self.batches, self.view
        if batches is not None and view is not None:
            controller.promised, controller.trusts_work = batches.promised, False
            controller.calibrated = lambda statistics: batches.calibrated(statistics, view.filled(statistics.windows))
        elif self.spender is not None:
            controller.promised, controller.trusts_work = self.spender.promised, not self.spender.division.refuses

    def watched(self, join: Bucket) -> Watched:
        """What a controller may see of it."""
        known = self.committed
        return join if self.view is None or known is None else self.view.of(join, known)

    # -- On the way ---------------------------------------------------------------------

    @property
    def period(self) -> int | None:
        """How many tuples are between two looks; None: nobody looks."""
        return None if self.spender is None else self.spender.period

    def look(self, join: Bucket | None) -> None:
        """The bucket is at rest on the way through a batch."""
        accounts = None if join is None else join.accounts
        if self.spender is not None and join is not None and accounts is not None:
            self.spender.look(join, accounts)

    def allow(self, probes: float | None, seconds: float, result: float = 0.0) -> None:
        """The next batch has time for so many probes (None: that is not known), and brings so much event time.

        ``result``: as how many of these probes a result counts.
        """
        self._time_for, self._seconds, self._result = probes, seconds, result

    def begin_batch(self, join: Bucket | None, seed: int, *, is_watched: bool) -> None:
        """The rows of a batch have been offered."""
        accounts = None if join is None else join.accounts
        if self.batches is not None and join is not None and accounts is not None:
            join.renew_accounts(seed)
            if self.view is not None and is_watched:
                self.view.begin_batch(join)
            self.batches.begin_batch(join, accounts, join.coming, self._time_for, self._result)

    def look_at_batch(self, join: Bucket | None) -> None:
        """A stretch of a batch has been taken."""
        accounts = None if join is None else join.accounts
        if self.batches is not None and join is not None and accounts is not None:
            self.batches.look(join, accounts)

    def end_batch(self, join: Bucket | None, reached: int | None) -> None:
        """A batch has been taken, and so much event time is reached."""
        accounts = None if join is None else join.accounts
        if self.batches is not None and accounts is not None:
            self.used = self.batches.end_batch(accounts, self._seconds)
            if self.view is not None:
                self.view.end_batch(self.used.spent, reached)

    # -- What is committed --------------------------------------------------------------

    @property
    def committed(self) -> Statistics | None:
        """What was committed of the streams; None: attempts at a batch need not refuse the same probes."""
        return None if self.batches is None else self.batches.statistics

    def to_json(self) -> dict[str, Any] | None:
        return None if self.batches is None else self.batches.to_json()

    def restore(self, known: Mapping[str, Any] | None, places: Sequence[int]) -> None:
        """Know what a record says; ``places`` are the positions that its streams have now."""
        if self.batches is not None:
            self.batches.restore(known, places)
