"""What was done for a group of queries on its way through finite tables.

While no query is there, there is no bucket. So a group may have several buckets, one after the other.
"""

from __future__ import annotations

from collections.abc import Collection

from thalweg.adapt.decision import Decision
from thalweg.cql.group import Group
from thalweg.driver.bucket_driver import BucketDriver
from thalweg.engine.feedback.savings import Savings
from thalweg.engine.join_bucket import JoinBucket
from thalweg.engine.machine.accounts import Spent
from thalweg.engine.observations import Work
from thalweg.engine.outputs.estimates import AnswerEstimate, added
from thalweg.plan.tree import Node, format_node
from thalweg.replayer.summary import BudgetUse, Share, StateSize, StepUse
from thalweg.settings import AllocationPolicy


class Tally:
    """Adds up what the buckets of a group did.

    Attributes:
        work: of the join.
        savings: what feedback saved; None where there is none.
        decisions: about the plan.
        routings: how many ages and selections were compared to tell results to queries.
        states: what was held at the end of the input.
        chains: for each stream whose window several queries shared then: the ends of its slices.

    """

    def __init__(self, group: Group) -> None:
        self._query = group.whole
        self.work = Work(0, 0, 0, 0, 0, 0)
        self.savings: Savings | None = None
        self.decisions: tuple[Decision, ...] = ()
        self.routings = 0
        self.states: tuple[StateSize, ...] = ()
        self.chains: dict[str, tuple[int | None, ...]] = {}
        self._spent = Spent.nothing(len(self._query.streams))
        self._estimates: dict[str, AnswerEstimate] = {}

    def input_ends(self, driver: BucketDriver) -> None:
        """Remember what a bucket holds, before time runs out for it."""
        bucket = driver.bucket
        self.states = tuple(
            StateSize(self._name(size.node), size.tuples, size.live_keys, size.bytes) for size in bucket.sizes()
        )
        if isinstance(bucket, JoinBucket) and len(bucket.group.readers) > 1:
            ends = bucket.shared.slicing.ends
            self.chains = {ref.alias: ends[s] for s, ref in enumerate(self._query.streams) if not ref.is_static}

    def add(self, driver: BucketDriver) -> None:
        """A bucket has done all that it was to do."""
        bucket = driver.bucket
        self.work = Work(*map(sum, zip(self.work, bucket.work, strict=True)))
        if isinstance(bucket, JoinBucket):
            self.routings += bucket.routings
        if driver.savings is not None:
            self.savings = (self.savings or Savings()) + driver.savings
        if driver.spent is not None:
            self._spent += driver.spent
        self._estimates = added(self._estimates, driver.estimates)
        if driver.controller is not None:
            self.decisions += tuple(driver.controller.decisions)

    def budget_use(
        self, name: str, driver: BucketDriver, allocation: AllocationPolicy, moving: Collection[str]
    ) -> BudgetUse | None:
        """What a budget was spent on, and what the query of a name has got; ``driver``: that of the last bucket.

        ``moving``: the aliases of the streams that are no static relations. None if there is no budget.
        """
        spender, spent, aliases = driver.spender, self._spent, self._query.aliases
        if spender is None:
            return None
        counted = (spent.wanted, spent.allowed, spent.refused, spent.paid)
        wanted, allowed, refused, paid = (each.tolist() for each in counted)
        steps = tuple(
            StepUse(alias, step + 1, wanted[s][step], allowed[s][step], refused[s][step], paid[s][step])
            for s, alias in enumerate(aliases)
            for step in range(len(wanted[s]))
            if step == 0 or wanted[s][step]  # a step that the plan does not have, where states are kept
        )
        return BudgetUse(
            allocation,
            spender.division.needed,
            spender.division.granted,
            steps,
            spent.share,
            spent.error,
            shed=dict(zip(aliases, spent.shed.tolist(), strict=True)),
            answer=self._share_of(name),
            streams={alias: _of_pair(spent.share_of(s)) for s, alias in enumerate(aliases) if alias in moving},
        )

    def _share_of(self, name: str) -> Share | None:
        """The share of a query's answer that it has got."""
        spent, estimate = self._spent, self._estimates.get(name)
        if spent.is_complete:
            return Share(1.0, 0.0)
        if not spent.is_known or estimate is None:
            return None
        return _of_pair(None if estimate.share is None else (estimate.share, estimate.error or 0.0))

    def _name(self, node: Node) -> str:
        if self._query.kind == "difference":
            return " - ".join(self._query.aliases)
        return format_node(node, self._query.aliases)


def _of_pair(pair: tuple[float, float] | None) -> Share | None:
    return None if pair is None else Share(*pair)
