"""How a running join divides its budget: what probes lead to is counted, and allocations follow (JAQPOT 4).

Design
    An allocation needs rates, and how much each probe leads to. At first these follow from the statistics that the plan
    was chosen by. From then on they are counted: tuples per second of event time, and per allowed probe what it led to.
    Refusing changes neither. After so many tuples, and when the plan changes, the budget is divided anew.

    A division goes by averages, and bursts do not. So what tuples leave of the budget is kept for the next division,
    and what they spend too much is saved by it. Both are bounded by what the budget grants in so many periods.

Invariant
    Feeds depend on the tuples alone: on no clock, and not on how they are cut into batches.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from thalweg.cql.query import Query
from thalweg.engine.bucket import Bucket
from thalweg.engine.kernels.compiled import Float64s, Int64s
from thalweg.engine.machine.accounts import Accounts, Spent
from thalweg.engine.time_bounds import NEVER
from thalweg.plan.allocation import (
    AllocationModel,
    Division,
    HalfWayJoin,
    allocate,
    divide,
    model_of_plan,
    model_of_programs,
    saturation,
)
from thalweg.plan.join_graph import JoinGraph
from thalweg.plan.statistics import Statistics
from thalweg.plan.tree import Plan
from thalweg.settings import AllocationPolicy, Budget

PERIOD = 1 << 12
"""Tuples between two looks: enough to count by, few enough to follow a change within seconds on a slow stream. A look
takes less time than a hundredth of them."""
HORIZON = 16
"""Periods whose budget can be saved up, or be owed: some seconds of a fast stream, a minute of a slow one. That is
enough for bursts of a few periods. And a policy whose steps use a sixteenth of what they get spends its budget, too."""
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
        self._balance = 0.0  # probes that the budget granted and that were not made; below 0: more were made
        self._looks: deque[int] = deque(maxlen=1 + HORIZON)  # the event times of the latest ones

    @property
    def period(self) -> int:
        """After how many tuples the bucket has to be at rest, so that a look can be taken."""
        return PERIOD

    def begin(self, query: Query, join: Bucket, accounts: Accounts, statistics: Statistics) -> None:
        """A bucket begins, or one with other readers and new accounts."""
        self._query, self._first = query, join.counts[0]
        self._unpaid = frozenset(s for s, ref in enumerate(query.streams) if ref.is_static)
        self._seen, self._time = accounts.spent, join.glimpse(0).time
        self.begin_plan(join, accounts, statistics)

    def begin_plan(self, join: Bucket, accounts: Accounts, statistics: Statistics) -> None:
        """A plan begins: what is known of its probes is what the statistics say."""
        self._model = None
        if len(self._query.streams) > 1:
            model = model_of_programs(accounts.programs, self._graph, statistics, names=self._query.aliases)
            self._model = _in_parts(model, accounts)
        self._settle(accounts.spent, join)
        self._shed = _Thinning(self._seen)
        self._divide(accounts)

    def change(self, budget: Budget, join: Bucket, accounts: Accounts) -> None:
        """There is another budget from the next tuple on."""
        self._measure(join, accounts)
        self.budget = budget
        self._divide(accounts)

    def promised(self, plan: Plan, statistics: Statistics) -> float | None:
        """The results per second that a plan would find with what is granted now, divided as well as can be.

        None: nothing is refused, so that all plans find the same.
        """
        if self._model is None or not self.division.refuses:
            return None
        model = model_of_plan(plan, self._graph, statistics, names=self._query.aliases)
        return allocate(model, self.division.granted, self._policy).results

    def look(self, join: Bucket, accounts: Accounts) -> None:
        """Divide anew, if it is due: whenever so many tuples have come, however these were cut into batches."""
        position = join.counts[0]
        if self._model is None or position == self._position or (position - self._first) % PERIOD:
            return
        if join.glimpse(0).time != NEVER:
            self._looks.append(join.glimpse(0).time)
        self._measure(join, accounts)
        self._divide(accounts)

    def _measure(self, join: Bucket, accounts: Accounts) -> None:
        """Know what was counted since this was last asked."""
        if self._model is None:
            return
        spent, time = accounts.spent, join.glimpse(0).time
        held = self._shed.held(spent, time, [stream.lifetime for stream in self._model.streams])
        by_part = bool(self.division.ways)
        self._model = _measured(self._model, self._seen, spent, self._seconds(join), held, by_part=by_part)
        self._settle(spent, join)

    def _seconds(self, join: Bucket) -> float:
        """Of event time, since this was last settled."""
        return 0.0 if self._time == NEVER else (join.glimpse(0).time - self._time) / _SECOND

    def _settle(self, spent: Spent, join: Bucket) -> None:
        """Set what was granted since this was last asked against what was paid."""
        granted = self.division.granted
        if self._time != NEVER and math.isfinite(granted):
            paid = (spent.paid - self._seen.paid).sum(axis=1).tolist()
            self._balance += granted * self._seconds(join)
            self._balance -= math.fsum(each for head, each in enumerate(paid) if head not in self._unpaid)
        self._seen, self._time, self._position = spent, join.glimpse(0).time, join.counts[0]

    def _saved(self, model: AllocationModel) -> float:
        """Probes per second with which a period makes up for what the ones before it left, or spent too much."""
        seconds = (self._looks[-1] - self._looks[0]) / _SECOND if self._looks else 0.0
        if self.budget.refuses_nothing or not seconds:
            self._balance = 0.0
            return 0.0
        most = self.budget.per_second(saturation(model)) * seconds
        self._balance = min(max(self._balance, -most), most)
        return self._balance * (len(self._looks) - 1) / seconds

    def _divide(self, accounts: Accounts) -> None:
        if self._model is None:
            self.division = NOTHING_TO_DIVIDE
        else:
            self.division = divide(self._model, self.budget, self._policy, self._unpaid, saved=self._saved(self._model))
        accounts.follow(self.division)


class _Thinning:
    """Which share of what windows would hold they do hold, where tuples are shed at the input."""

    def __init__(self, spent: Spent) -> None:
        self._before = [(NEVER, spent)]

    def held(self, spent: Spent, time: int, lifetimes: Sequence[float]) -> list[float]:
        """Per stream, by the tuples of the last ``lifetimes`` seconds."""
        if not spent.shed.any():
            return [1.0] * len(lifetimes)
        self._before.append((time, spent))
        shares = []
        for stream, seconds in enumerate(lifetimes):
            begun = [known for known in self._before if known[0] <= time - seconds * _SECOND]
            _, before = begun[-1] if begun else self._before[0]
            let_in = int(spent.fed[stream] - before.fed[stream])
            shares.append((let_in + 1) / (let_in + int(spent.shed[stream] - before.shed[stream]) + 1))
        longest = time - max(lifetimes) * _SECOND
        while len(self._before) > 1 and self._before[1][0] <= longest:
            del self._before[0]
        return shares


def _in_parts(model: AllocationModel, accounts: Accounts) -> AllocationModel:
    """The model of a join some of whose windows have no parts."""
    whole = [replace(each, profile=(1.0,)) if accounts.is_whole(each.target) else each for each in model.half_ways]
    return replace(model, half_ways=tuple(whole))


def _measured(
    model: AllocationModel, before: Spent, now: Spent, seconds: float, held: Sequence[float], *, by_part: bool
) -> AllocationModel:
    """The model by what was counted in so many seconds; what was known before counts a little.

    ``held``: the share of each stream's tuples that its window has. ``by_part``: tuples looked at parts of windows.
    """
    parts = now.parts - before.parts
    allowed: Int64s | Float64s = now.allowed - before.allowed
    found: Int64s | Float64s = now.found - before.found
    if by_part:
        allowed, found = now.looked - before.looked, np.add.reduce(parts, axis=2)
    come = now.fed - before.fed + now.shed - before.shed
    streams = list(model.streams)
    if seconds > 0:
        for head, (load, arrived) in enumerate(zip(model.streams, come.tolist(), strict=True)):
            rate = (load.rate + arrived / seconds) / 2
            streams[head] = replace(load, rate=rate, window=load.lifetime * rate)
    half_ways = []
    for half_way, users in zip(model.half_ways, model.users(), strict=True):
        thin = math.prod(held[stream] for stream in half_way.target)
        counted = sum(float(found[user]) for user in users), sum(float(allowed[user]) for user in users)
        grown = replace(_grown(half_way, *counted, thin), cost=_cost(half_way, before, now, users))
        if by_part and len(half_way.profile) != 1:
            grown = replace(grown, profile=_profile(half_way.profile, sum(parts[user] for user in users)))
        half_ways.append(grown)
    return replace(model, streams=tuple(streams), half_ways=tuple(half_ways))


def _grown(half_way: HalfWayJoin, found: float, probes: float, thin: float) -> HalfWayJoin:
    productivity = (found / thin + TRUSTED * half_way.productivity) / (probes + TRUSTED)
    return replace(half_way, selectivity=productivity / half_way.partner)


def _cost(half_way: HalfWayJoin, before: Spent, now: Spent, users: Sequence[tuple[int, int]]) -> float:
    """A probe, and what it took on average to complete the key that it asked for."""
    completing = sum(int(now.completing[user] - before.completing[user]) for user in users)
    probes = sum(int(now.allowed[user] - before.allowed[user]) for user in users)
    return 1.0 + (completing + TRUSTED * (half_way.cost - 1.0)) / (probes + TRUSTED)


def _profile(known: tuple[float, ...], parts: Float64s) -> tuple[float, ...]:
    """Where matches lie: half by what was known before, half by what was counted."""
    total = float(parts.sum())
    if not total:
        return known
    old = np.array(known or (1.0,) * len(parts))
    mixed: list[float] = (old / old.sum() + parts / total).tolist()
    return tuple(mixed)
