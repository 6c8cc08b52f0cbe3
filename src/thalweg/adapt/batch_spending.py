"""How a budget is divided batch by batch, where a batch may be run again (JAQPOT 4).

Design
    What attempts at a batch refuse must be the same, whatever their engines have been through. So a batch begins with
    accounts that its number alone decides, and with what earlier batches have counted: tuples per second of event time,
    and per allowed probe what it led to. Both are committed. How many tuples each stream brings is known before the
    first probe. So the budget of a batch is divided over exactly these.

    A budget that follows the clock is given as the number of probes that a batch may make. A result counts as some of
    them, since it takes time, too: a probe may find hundreds. The budget is no limit on any one step.
    So nothing is refused as long as what is left is enough for what is still to come, as far as that can be told.
    This is looked at whenever so many tuples of the batch have been taken.

    Between two batches a controller may change the plan. It sees what attempts show alike
    (:mod:`thalweg.adapt.batch_view`), and is committed itself.

Invariant
    Feeds are a function of what was committed, of the batch and of the tuples taken so far. Between two batches nothing
    can be paid for.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from thalweg.adapt.calibration import calibrated, ratios
from thalweg.adapt.spending import NOTHING_TO_DIVIDE, PERIOD, TRUSTED
from thalweg.cql.query import Query, RangeWindow
from thalweg.engine.bucket import Bucket
from thalweg.engine.machine.accounts import Accounts, Spent
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
from thalweg.plan.allocation.division import CLOSE
from thalweg.plan.join_graph import JoinGraph
from thalweg.plan.plan_json import statistics_from_json, statistics_to_json
from thalweg.plan.statistics import LEAST_WINDOW, MOST_WINDOW, Statistics
from thalweg.plan.tree import Node, Plan
from thalweg.settings import AllocationPolicy, Budget

_LEAST_RATE = 1e-9
"""Tuples of a stream that brings none: models have no streams without a rate."""
_LEAST_SHARE = 1 / 1024
"""Of what is needed, that a budget by the clock grants in any case: with nothing, nobody could tell what is missing."""
_TELLING = 64
"""So many probes of a batch say how often two streams agree."""
_LEAST_FILLED = 0.1
"""Of a window: with less, what is found there says little."""
_DIGITS = 12
"""Of what is committed: as many as mean something."""


@dataclass(frozen=True, slots=True)
class BatchUse:
    """What a batch spent.

    Attributes:
        needed: probes that would have refused nothing, as it was thought before the first of them.
        granted: probes that it was given.
        spent: what was asked for.

    """

    needed: float
    granted: float
    spent: Spent


class BatchSpender:
    """Divides the budget of one bucket, batch by batch.

    Calls: :meth:`begin` a new bucket, or :meth:`restore` what was committed; :meth:`serve` with other readers. Then for
    every batch :meth:`begin_batch`, :meth:`look` now and then, :meth:`end_batch`.

    Attributes:
        budget: the one that holds now.
        statistics: what was known of the streams when the plan was chosen.
        period: after how many tuples of a batch there should be a look.

    """

    period = PERIOD

    def __init__(self, query: Query, budget: Budget, policy: AllocationPolicy) -> None:
        self.budget, self._policy = budget, policy
        self._option = budget.text
        self._commanded: Budget | None = None
        self.statistics = Statistics.default(query)
        self._rates = list(self.statistics.rates)
        self._productivities: dict[str, float] = {}
        self._ratios: dict[Node, float] = {}
        self._model: AllocationModel | None = None
        self._know(query)

    def _know(self, query: Query) -> None:
        self._query, self._graph = query, JoinGraph.of(query)
        self._unpaid = frozenset(s for s, ref in enumerate(query.streams) if ref.is_static)

    def begin(self, statistics: Statistics) -> None:
        """A bucket begins of which nothing else is known."""
        self.statistics, self._rates = statistics, list(statistics.rates)

    def adopt(self, statistics: Statistics) -> None:
        """Another plan runs, which was chosen by these statistics."""
        self.statistics = statistics

    def calibrated(self, statistics: Statistics, filled: Sequence[float]) -> Statistics:
        """What a sample of a batch says, set right by what its probes have found in windows that were ``filled`` so."""
        if self._model is not None:
            targets = [min(self._model.half_ways[path[0]].target) for path in self._model.paths]
            probes, matches = self._seen.allowed[:, 0], self._seen.found[:, 0]
            counted = {
                (head, target): float(matches[head] + 0.5) / float(probes[head] + 0.5) / filled[target]
                for head, target in enumerate(targets)
                if probes[head] >= _TELLING and filled[target] >= _LEAST_FILLED
            }
            self._ratios = ratios(statistics, self._graph, counted, self._ratios)
        return calibrated(statistics, self._graph, self._ratios)

    def promised(self, plan: Plan, statistics: Statistics) -> float | None:
        """The results per second that a plan would find with what the last batch was granted, divided at best.

        None: nothing was refused, so that all plans find the same.
        """
        if self._model is None or not self._granted < self._needed * (1 - CLOSE):
            return None
        paid = [stream for stream in range(len(self._coming)) if stream not in self._unpaid]
        per_second = sum(statistics.rates[s] for s in paid) / sum(self._coming[s] for s in paid)
        model = model_of_plan(plan, self._graph, statistics, names=self._query.aliases)
        return allocate(self._charged(model), self._granted * per_second, self._policy).results

    def serve(self, query: Query) -> None:
        """There are other readers from now on. Windows that last longer hold more."""
        known = self.statistics
        windows = list(known.windows)
        for stream, ref in enumerate(query.streams):
            if isinstance(ref.window, RangeWindow) and ref.window.width_us is not None and not ref.is_static:
                size = known.rates[stream] * ref.window.width_us / 1e6
                windows[stream] = min(max(size, LEAST_WINDOW), MOST_WINDOW)
        self.statistics = replace(known, windows=tuple(windows))
        self._know(query)

    # -- A batch ------------------------------------------------------------------------

    def begin_batch(
        self, join: Bucket, accounts: Accounts, coming: Sequence[int], most: float | None, result: float = 0.0
    ) -> None:
        """A batch begins that takes so many tuples of each stream.

        ``most``: the probes that there is time for; ``result``: as how many of them a result counts.
        """
        self._position, self._coming, self._most = join.counts[0], coming, most
        self._result = result if self.budget.is_auto else 0.0
        self._seen = accounts.spent
        self._model = None
        self._needed = self._granted = 0.0
        if len(self._query.streams) > 1 and any(coming):
            self._model = self._known(accounts)
            self._needed = saturation(self._charged(self._model))
            self._granted = self._all_granted(self._needed)
        self._divide(accounts, 1.0, 0.0)

    def look(self, join: Bucket, accounts: Accounts) -> None:
        """Divide what is left anew."""
        if self._model is None:
            return
        spent, before = accounts.spent, self._seen
        self._model, self._seen = _counted(self._model, before, spent), spent
        taken = (join.counts[0] - self._position) / sum(self._coming)
        made = float(spent.allowed.sum()) + self._result * float(spent.results.sum())
        self._divide(accounts, max(0.0, 1.0 - taken), made)

    def end_batch(self, accounts: Accounts, seconds: float) -> BatchUse:
        """A batch ends in which event time went on by so much: remember what was counted."""
        spent = accounts.spent
        if self._model is not None:
            for half_way in _counted(self._model, self._seen, spent).half_ways:
                self._productivities[_name(half_way)] = _rounded(half_way.productivity)
            if seconds > 0:
                rates = zip(self._rates, self._coming, strict=True)
                self._rates = [
                    rate if stream in self._unpaid else _rounded((rate + came / seconds) / 2)
                    for stream, (rate, came) in enumerate(rates)
                ]
        self._seen = spent
        self.rest(accounts)
        return BatchUse(self._needed, self._granted, spent)

    def rest(self, accounts: Accounts) -> None:
        """Let nothing be paid for: no batch is being taken."""
        streams = len(self._query.streams)
        accounts.set_feeds([[0.0] * (streams - 1)] * streams)

    def _known(self, accounts: Accounts) -> AllocationModel:
        """A model of this batch, whose unit of time is the batch."""
        model = model_of_programs(accounts.programs, self._graph, self.statistics, names=self._query.aliases)
        streams = [
            replace(load, rate=max(float(came), _LEAST_RATE))
            for load, came in zip(model.streams, self._coming, strict=True)
        ]
        half_ways = [
            _of_productivity(each, self._productivities.get(_name(each), each.productivity)) for each in model.half_ways
        ]
        return replace(model, streams=tuple(streams), half_ways=tuple(half_ways))

    def _all_granted(self, needed: float) -> float:
        """The probes that the batch may make."""
        if self.budget.is_auto:
            return max(0.0 if self._most is None else self._most, _LEAST_SHARE * needed)
        if self.budget.probes is None:
            return needed if math.isinf(self.budget.share) else self.budget.per_second(needed)
        paid = [stream for stream in range(len(self._coming)) if stream not in self._unpaid]
        seconds = sum(self._coming[s] for s in paid) / sum(self._rates[s] for s in paid)
        return self.budget.per_second(needed) * seconds

    def _charged(self, model: AllocationModel) -> AllocationModel:
        """The model in which a probe that finds results costs what these do, too."""
        last = {path[-1] for path in model.paths}
        half_ways = [
            replace(each, cost=1.0 + self._result * each.productivity) if place in last else each
            for place, each in enumerate(model.half_ways)
        ]
        return replace(model, half_ways=tuple(half_ways))

    def _divide(self, accounts: Accounts, left: float, made: float) -> None:
        """Divide what is granted over the tuples; ``left``: the share of them that is still to come."""
        division = NOTHING_TO_DIVIDE
        if self._model is not None:
            model = self._charged(self._model)
            needed, granted = saturation(model), self._granted
            if self.budget.is_auto:  # what was not needed so far may be needed now
                needed, granted = left * needed, max(granted - made, _LEAST_SHARE * left * needed)
            share = granted / needed if needed else float("inf")
            if self.budget.probes is None and not self.budget.is_auto:  # of what is needed, as far as it is known now
                share = self.budget.share
            division = self._division(model, share)
        accounts.follow(division)

    def _division(self, model: AllocationModel, share: float) -> Division:
        return divide(model, Budget(share=share), self._policy, self._unpaid, charged=True)

    # -- What is remembered -------------------------------------------------------------

    def change(self, budget: Budget) -> None:
        """There is another budget from the next batch on, by command: until the option itself is another."""
        self.budget = self._commanded = budget

    def to_json(self) -> dict[str, Any]:
        """What is committed with a batch."""
        return {
            "option": self._option,
            "commanded": None if self._commanded is None else self._commanded.text,
            "statistics": statistics_to_json(self.statistics),
            "rates": self._rates,
            "productivities": dict(sorted(self._productivities.items())),
            "ratios": [[*sorted(pair), ratio] for pair, ratio in self._ratios.items()],
        }

    def restore(self, known: Mapping[str, Any] | None, places: Sequence[int]) -> None:
        """Go on where :meth:`to_json` was; ``places`` are the positions that its streams have now.

        What was counted of streams that have changed places is of no use.
        """
        if known is None:
            return
        if known["commanded"] is not None and known["option"] == self._option:
            self.change(replace(Budget.parse(known["commanded"]), parts=self.budget.parts))
        if list(places) == sorted(places):
            self.statistics = statistics_from_json(known["statistics"])
            self._rates, self._productivities = list(known["rates"]), dict(known["productivities"])
            self._ratios = {frozenset(pair): ratio for *pair, ratio in known.get("ratios", ())}


def _counted(model: AllocationModel, before: Spent, now: Spent) -> AllocationModel:
    """The model by what was counted meanwhile; what was known before counts a little."""
    allowed, found = now.allowed - before.allowed, now.found - before.found
    half_ways = []
    for each, users in zip(model.half_ways, model.users(), strict=True):
        matches, probes = (sum(int(counts[user]) for user in users) for counts in (found, allowed))
        half_ways.append(_of_productivity(each, (matches + TRUSTED * each.productivity) / (probes + TRUSTED)))
    return replace(model, half_ways=tuple(half_ways))


def _of_productivity(half_way: HalfWayJoin, productivity: float) -> HalfWayJoin:
    return replace(half_way, selectivity=productivity / half_way.partner)


def _name(half_way: HalfWayJoin) -> str:
    """By which a half-way join is remembered, whatever the plan.

    >>> _name(HalfWayJoin(frozenset({2, 0}), frozenset({1}), 0.1, 5.0))
    '0,2>1'
    """
    bound, target = (",".join(map(str, sorted(node))) for node in (half_way.bound, half_way.target))
    return f"{bound}>{target}"


def _rounded(number: float) -> float:
    return float(f"{number:.{_DIGITS}g}")
