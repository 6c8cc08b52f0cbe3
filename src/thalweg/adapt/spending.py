"""How a running join divides its budget: what probes lead to is counted, and allocations follow (JAQPOT 4).

Design
    An allocation needs rates, and how much each probe leads to. At first these follow from the statistics that the plan
    was chosen by. From then on they are counted: tuples per second of event time, and per allowed probe what it led to.
    Refusing changes neither. After so many tuples, and when the plan changes, the budget is divided anew.

    A part of the budget explores. The best allocation gives nothing to the least productive paths, and nobody would
    notice when these become productive, or could say how much of the answer is missing.

Invariant
    Feeds depend on the tuples alone: on no clock, and not on how they are cut into batches.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from thalweg.cql.query import Query
from thalweg.engine.accounts import Accounts, Spent
from thalweg.engine.bucket import Bucket
from thalweg.engine.time_bounds import NEVER
from thalweg.options import AllocationPolicy, Budget
from thalweg.plan.allocation import AllocationModel, HalfWayJoin, allocate, model_of_programs, saturation
from thalweg.plan.join_graph import JoinGraph
from thalweg.plan.statistics import Statistics

PERIOD = 1 << 14
"""Tuples between two looks; a bucket rests whenever so many have come (:mod:`thalweg.engine.join_bucket`)."""
EXPLORED = 1 / 16
"""The share of the budget that goes evenly to all paths: 16 times less than to those that are worth most costs little,
and still brings thousands of probes a second on a busy join."""
LEAST_FEED = 1 / 1024
"""Probes per tuple that any account gets unless the budget is 0: a model may take a path for impossible."""
TRUSTED = 64
"""Probes that what was known before counts for, beside those that were counted."""
_SECOND = 1_000_000
CLOSE = 1e-9
"""A budget that lacks this share of the need is enough: sums of floats are not exact."""

Feeds = tuple[tuple[float, ...], ...]


@dataclass(frozen=True, slots=True)
class Division:
    """A budget as it is divided.

    Attributes:
        needed: probes per second that would refuse nothing.
        granted: probes per second that there are.
        feeds: [stream][step] probes that each tuple pays for; infinite: all.

    """

    needed: float
    granted: float
    feeds: Feeds


def divide(query: Query, model: AllocationModel, budget: Budget, policy: AllocationPolicy) -> Division:
    """Divide a budget over the streams and steps of a plan."""
    needed = saturation(model)
    granted = budget.per_second(needed)
    if granted >= needed * (1 - CLOSE):
        return Division(needed, granted, tuple(tuple(math.inf for _ in path) for path in model.paths))
    if not granted:
        return Division(needed, granted, tuple(tuple(0.0 for _ in path) for path in model.paths))
    chosen = allocate(model, granted * (1 - EXPLORED), policy).per_tuple(model)
    evenly = granted * EXPLORED / needed
    feeds = [
        tuple(
            max(LEAST_FEED, mine + evenly * grown)
            for mine, grown in zip(path, model.cardinalities(head)[:-1], strict=True)
        )
        for head, path in enumerate(chosen)
    ]
    for head, ref in enumerate(query.streams):
        if ref.is_static:  # its rows come before all time, and no result is found by them
            feeds[head] = tuple(math.inf for _ in feeds[head])
    return Division(needed, granted, tuple(feeds))


class Spender:
    """Divides the budget of one bucket.

    Calls: :meth:`begin` with a new bucket or plan, then :meth:`look` whenever the bucket is at rest.

    Attributes:
        division: the one that holds now.

    """

    division: Division

    def __init__(self, query: Query, budget: Budget, policy: AllocationPolicy) -> None:
        self._query, self._graph = query, JoinGraph.of(query)
        self.budget, self._policy = budget, policy

    def begin(self, query: Query, join: Bucket, accounts: Accounts, statistics: Statistics) -> None:
        """A bucket begins, or one with other readers and new accounts."""
        self._query, self._first = query, join.counts[0]
        self.begin_plan(join, accounts, statistics)

    def begin_plan(self, join: Bucket, accounts: Accounts, statistics: Statistics) -> None:
        """A plan begins: what is known of its probes is what the statistics say."""
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
        if position == self._position or (position - self._first) % PERIOD:
            return
        spent, time = accounts.spent, join.glimpse(0).time
        self._model = _measured(self._model, self._seen, spent, self._seconds(time))
        self._seen, self._time, self._position = spent, time, position
        self._divide(accounts)

    def _seconds(self, time: int) -> float:
        return 0.0 if self._time == NEVER else (time - self._time) / _SECOND

    def _divide(self, accounts: Accounts) -> None:
        self.division = divide(self._query, self._model, self.budget, self._policy)
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
