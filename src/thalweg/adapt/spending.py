"""How a running join divides its budget: what probes lead to is counted, and allocations follow (JAQPOT 4).

Design
    An allocation needs rates, and how much each probe leads to. At first these follow from the statistics that the plan
    was chosen by. From then on they are counted: tuples per second of event time, and per allowed probe what it led to.
    Refusing changes neither. After so many tuples, and when the plan changes, the budget is divided anew.

Invariant
    Feeds depend on the tuples alone: on no clock, and not on how they are cut into batches.
"""

from __future__ import annotations

from dataclasses import replace

from thalweg.cql.query import Query
from thalweg.engine.bucket import Bucket
from thalweg.engine.machine.accounts import Accounts, Spent
from thalweg.engine.time_bounds import NEVER
from thalweg.options import AllocationPolicy, Budget
from thalweg.plan.allocation import AllocationModel, Division, HalfWayJoin, divide, model_of_programs
from thalweg.plan.join_graph import JoinGraph
from thalweg.plan.statistics import Statistics

PERIOD = 1 << 12
"""Tuples between two looks: enough to count by, few enough to follow a change within seconds on a slow stream. A look
takes less time than a hundredth of them."""
TRUSTED = 16
"""Probes that what was known before counts for, beside those that were counted: few, since a path that is only explored
makes few."""
_SECOND = 1_000_000


NOTHING_TO_DIVIDE = Division(0.0, 0.0, ())
"""Of what makes no probes."""


class Spender:
    """Divides the budget of one bucket.

    Calls: :meth:`begin` with a new bucket or plan, then :meth:`look` whenever the bucket is at rest.

    Attributes:
        division: the one that holds now.

    """

    def __init__(self, query: Query, budget: Budget, policy: AllocationPolicy) -> None:
        self._query, self._graph = query, JoinGraph.of(query)
        self.budget, self._policy = budget, policy
        self._model: AllocationModel | None = None  # nothing has begun, or a single stream that makes no probes
        self.division = NOTHING_TO_DIVIDE

    @property
    def period(self) -> int:
        """After how many tuples the bucket has to be at rest, so that a look can be taken."""
        return PERIOD

    def begin(self, query: Query, join: Bucket, accounts: Accounts, statistics: Statistics) -> None:
        """A bucket begins, or one with other readers and new accounts."""
        self._query, self._first = query, join.counts[0]
        self._unpaid = frozenset(s for s, ref in enumerate(query.streams) if ref.is_static)
        self.begin_plan(join, accounts, statistics)

    def begin_plan(self, join: Bucket, accounts: Accounts, statistics: Statistics) -> None:
        """A plan begins: what is known of its probes is what the statistics say."""
        self._model = None
        if len(self._query.streams) > 1:
            self._model = model_of_programs(accounts.programs, self._graph, statistics, names=self._query.aliases)
        self._seen, self._time, self._position = accounts.spent, join.glimpse(0).time, join.counts[0]
        self._divide(accounts)

    def change(self, budget: Budget, accounts: Accounts) -> None:
        """There is another budget from the next tuple on."""
        self.budget = budget
        self._divide(accounts)

    def look(self, join: Bucket, accounts: Accounts) -> None:
        """Divide anew, if it is due: whenever so many tuples have come, however these were cut into batches."""
        position = join.counts[0]
        if self._model is None or position == self._position or (position - self._first) % PERIOD:
            return
        spent, time = accounts.spent, join.glimpse(0).time
        self._model = _measured(self._model, self._seen, spent, self._seconds(time))
        self._seen, self._time, self._position = spent, time, position
        self._divide(accounts)

    def _seconds(self, time: int) -> float:
        return 0.0 if self._time == NEVER else (time - self._time) / _SECOND

    def _divide(self, accounts: Accounts) -> None:
        if self._model is None:
            self.division = NOTHING_TO_DIVIDE
        else:
            self.division = divide(self._model, self.budget, self._policy, self._unpaid)
        accounts.set_feeds(self.division.feeds)


def _measured(model: AllocationModel, before: Spent, now: Spent, seconds: float) -> AllocationModel:
    """The model by what was counted in so many seconds; what was known before counts a little."""
    allowed, found = now.allowed - before.allowed, now.found - before.found
    streams = list(model.streams)
    if seconds > 0:
        for head, (load, fed) in enumerate(zip(model.streams, (now.fed - before.fed).tolist(), strict=True)):
            rate = (load.rate + fed / seconds) / 2
            streams[head] = replace(load, rate=rate, window=load.lifetime * rate)
    half_ways = [
        _grown(each, sum(int(found[user]) for user in users), sum(int(allowed[user]) for user in users))
        for each, users in zip(model.half_ways, model.users(), strict=True)
    ]
    return replace(model, streams=tuple(streams), half_ways=tuple(half_ways))


def _grown(half_way: HalfWayJoin, found: int, probes: int) -> HalfWayJoin:
    productivity = (found + TRUSTED * half_way.productivity) / (probes + TRUSTED)
    return replace(half_way, selectivity=productivity / half_way.partner)
