"""Window harvesting, as in GrubJoin (Gedik et al.): probe only the segments of a window that match often.

Partners may be correlated in time: most matches of a tuple lie in a few segments of the other window. Every tuple is
taken then, but it looks only there. A probe of one segment out of ten counts as a tenth of a probe.

Greedy: of all ways to look at one segment more, take the one with the most further results per further work. A path
without segments is opened with the best one at each of its steps. The order of these choices does not depend on the
budget. So the budget decides how far to go: the last choice is made for a share of the tuples.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, pairwise
from operator import itemgetter
from typing import NamedTuple

from thalweg.plan.allocation.allowances import Allocation, Harvest
from thalweg.plan.allocation.flows import Flows, Steps
from thalweg.plan.allocation.model import AllocationModel, check_budget

SEGMENTS = 10
"""Into so many segments a target is divided whose profile is not known; GrubJoin uses about as many."""


def harvest(model: AllocationModel, budget: float) -> Allocation:
    """The segments that the budget pays for, by the profiles of the model's half-way joins."""
    check_budget(budget)
    profiles = [_Profile.of(half_way.profile) for half_way in model.half_ways]
    chosen = [0] * len(profiles)
    left = budget
    for choice in _choices(model, profiles):
        wider = list(chosen)
        for index in choice.half_ways:
            wider[index] += 1
        if choice.cost > left:
            share = left / choice.cost
            return _allocation(model, budget, profiles, ((1 - share, chosen), (share, wider)))
        left -= choice.cost
        chosen = wider
    return _allocation(model, budget, profiles, ((1.0, chosen),))


@dataclass(frozen=True, slots=True)
class _Profile:
    """The segments of a target, the best first.

    Attributes:
        order: their positions.
        shares: the share of all matches in the first n of them, for n = 0, 1, ...

    """

    order: tuple[int, ...]
    shares: tuple[float, ...]

    @staticmethod
    def of(rates: tuple[float, ...]) -> _Profile:
        known = rates or (1.0,) * SEGMENTS
        order = sorted(range(len(known)), key=lambda segment: (-known[segment], segment))
        sums = [0.0, *accumulate(known[segment] for segment in order)]
        return _Profile(tuple(order), tuple(each / sums[-1] for each in sums))

    def work(self, count: int) -> float:
        return count / len(self.order)


class _Choice(NamedTuple):
    """One segment more at each of these half-way joins; the rank is further results per further work."""

    rank: float
    cost: float
    half_ways: tuple[int, ...]


def _choice(gain: float, cost: float, half_ways: tuple[int, ...]) -> _Choice:
    return _Choice(gain / cost if cost > 0 else math.inf, cost, half_ways)


def _choices(model: AllocationModel, profiles: list[_Profile]) -> Iterator[_Choice]:
    """All choices, the best that is possible at the time first. Paths that share nothing are ranked on their own."""
    groups: dict[int, list[int]] = {}
    for head, path in enumerate(model.paths):
        groups.setdefault(path[-1], []).append(head)
    waiting: list[tuple[float, int, _Choice, Iterator[_Choice]]] = []
    sources = [_Group(model, profiles, heads).choices() for heads in groups.values()]
    for place, source in enumerate(sources):
        first = next(source)
        waiting.append((-first.rank, place, first, source))
    heapq.heapify(waiting)
    while waiting:
        _, place, choice, source = heapq.heappop(waiting)
        yield choice
        for following in source:
            heapq.heappush(waiting, (-following.rank, place, following, source))
            break


class _Group:
    """Paths that meet, and the segments chosen on them."""

    def __init__(self, model: AllocationModel, profiles: list[_Profile], heads: list[int]) -> None:
        self.profiles = profiles
        self.growth = [half_way.productivity for half_way in model.half_ways]
        paths = [model.paths[head] for head in heads]
        self.rates = {model.paths[head][0]: model.streams[head].rate for head in heads}
        used = {index for path in paths for index in path}
        self.below = [index for index in model.from_below() if index in used]
        following = {here: then for path in paths for here, then in pairwise(path)}
        self.next = {index: following[index] for index in self.below if index in following}
        self.chosen = dict.fromkeys(used, 0)
        self.closed = paths

    def choices(self) -> Iterator[_Choice]:
        while True:
            found = max((*self._widenings(), *self._openings()), key=itemgetter(0), default=None)
            if found is None:
                return
            for index in found.half_ways:
                self.chosen[index] += 1
            self.closed = [path for path in self.closed if not self.chosen[path[0]]]
            yield found

    def _widenings(self) -> Iterator[_Choice]:
        """One segment more where some are probed already."""
        grown = {index: self.growth[index] * self.profiles[index].shares[self.chosen[index]] for index in self.below}
        inputs = dict.fromkeys(self.below, 0.0) | self.rates
        for index, following in self.next.items():
            inputs[following] += inputs[index] * grown[index]
        # Per half-way join, the results of one tuple that probes there, and the work from there on.
        results: dict[int | None, float] = {None: 1.0}
        work: dict[int | None, float] = {None: 0.0}
        for index in reversed(self.below):
            then: int | None = self.next.get(index)
            count, profile = self.chosen[index], self.profiles[index]
            results[index] = grown[index] * results[then]
            work[index] = profile.work(count) + grown[index] * work[then]
            if 0 < count < len(profile.order):
                more = self.growth[index] * (profile.shares[count + 1] - profile.shares[count])
                gain, cost = more * results[then], profile.work(1) + more * work[then]
                yield _choice(inputs[index] * gain, inputs[index] * cost, (index,))

    def _openings(self) -> Iterator[_Choice]:
        """The best segment of every step of a path that has none."""
        for path in self.closed:
            flow, cost = self.rates[path[0]], 0.0
            for index in path:
                count = max(1, self.chosen[index])
                cost += flow * self.profiles[index].work(count)
                flow *= self.growth[index] * self.profiles[index].shares[count]
            yield _choice(flow, cost, tuple(index for index in path if not self.chosen[index]))


def _allocation(
    model: AllocationModel, budget: float, profiles: list[_Profile], parts: tuple[tuple[float, list[int]], ...]
) -> Allocation:
    parts = tuple(part for part in parts if part[0] > 0)
    flows = [(share, _flows(model, profiles, counts)) for share, counts in parts]
    mixed = Flows(_mixed([(s, each.probes) for s, each in flows]), _mixed([(s, each.matches) for s, each in flows]))
    harvests = tuple(
        Harvest(share, tuple(tuple(sorted(p.order[:n])) for p, n in zip(profiles, counts, strict=True)))
        for share, counts in parts
    )
    return Allocation("harvest", budget, mixed.probes, mixed, harvests=harvests)


def _flows(model: AllocationModel, profiles: list[_Profile], counts: list[int]) -> Flows:
    """What happens if all tuples look at the first so many segments."""
    probes: list[tuple[float, ...]] = []
    matches: list[tuple[float, ...]] = []
    for stream, path in zip(model.streams, model.paths, strict=True):
        grown = [stream.rate]
        for index in path:
            grown.append(grown[-1] * model.half_ways[index].productivity * profiles[index].shares[counts[index]])
        probes.append(tuple(flow * profiles[i].work(counts[i]) for flow, i in zip(grown, path, strict=False)))
        matches.append(tuple(grown[1:]))
    return Flows(tuple(probes), tuple(matches))


def _mixed(parts: list[tuple[float, Steps]]) -> Steps:
    """The sum of what happens to each share of the tuples."""
    shape = parts[0][1]
    return tuple(
        tuple(math.fsum(share * steps[head][step] for share, steps in parts) for step in range(len(path)))
        for head, path in enumerate(shape)
    )
