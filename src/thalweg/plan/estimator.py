"""What sets of streams cost to join, fast: the plan search asks thousands of times.

Says the same as :mod:`thalweg.plan.statistics` (a test holds the two together) with sets of streams as bit masks
and everything that belongs to a set remembered. Two facts make it fast:

- An estimate belongs to a set of streams. So the growth of a step is a quotient of two
  sizes, kept as logarithms, whatever the number of predicates between its sides.
- All heads below a join do the same from there on. So the cost of a tree is a sum over
  its joins: what either side's combinations do to bind the other side, and the upkeep
  of the join's state if that is kept.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from thalweg.plan.cost import Costs, comparisons, growth_per_work, rounded
from thalweg.plan.join_graph import JoinGraph
from thalweg.plan.statistics import Statistics, exponential
from thalweg.plan.tree import Join, Leaf, Node, Tree, joins

Splits = Mapping[int, tuple[int, int]]
"""A tree as masks: the two children of every join. Parents follow their children."""


def mask_of(node: Node) -> int:
    return sum(1 << s for s in node)


def streams_of(mask: int) -> Iterator[int]:
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


def splits_of(tree: Tree) -> dict[int, tuple[int, int]]:
    return {mask_of(j.node): (mask_of(j.left.node), mask_of(j.right.node)) for j in joins(tree)}


def tree_of(mask: int, splits: Splits) -> Tree:
    """The tree of splits; the side with the lowest stream stands on the left."""
    if mask not in splits:
        return Leaf(mask.bit_length() - 1)
    left, right = sorted(splits[mask], key=lambda side: side & -side)
    return Join(tree_of(left, splits), tree_of(right, splits))


def _adjacency(graph: JoinGraph, stream: int) -> int:
    """The streams that share a class or a theta with this one."""
    others = [n for n in (*graph.classes, *graph.thetas) if stream in n]
    return mask_of(frozenset().union(*others) - {stream})


def clearly_less(cost: float, other: float) -> bool:
    """Less by more than the noise of floats: of equally good plans, the first in the order of streams is taken."""
    return cost < other * (1 - 1e-9)


@dataclass(frozen=True, slots=True)
class _Set:
    """What is known of a set of streams.

    Attributes:
        log_size: logarithm of the combinations alive.
        log_thetas, thetas: logarithm of the share that its theta predicates let through, and their number.
        carried: its attribute classes, as a mask.
        adjacent: the streams that a predicate connects with it, as a mask.
        turnover: the share of the combinations that is new each second.

    """

    log_size: float
    log_thetas: float
    thetas: int
    carried: int
    adjacent: int
    turnover: float


class Estimator:
    """Sizes, growth and work for sets of streams given as masks."""

    def __init__(self, graph: JoinGraph, statistics: Statistics, costs: Costs) -> None:
        self.graph = graph
        self.statistics = statistics
        self.costs = costs
        self.all = (1 << graph.streams) - 1
        self._classes = [mask_of(members) for members in graph.classes]
        self._classes_of = [[c for c, m in enumerate(graph.classes) if s in m] for s in range(graph.streams)]
        thetas = [(mask_of(e), math.log(x)) for e, x in zip(graph.thetas, statistics.thetas, strict=True)]
        self._thetas_of = [[theta for theta in thetas if theta[0] >> s & 1] for s in range(graph.streams)]
        self._adjacent = [_adjacency(graph, s) for s in range(graph.streams)]
        self._class_sets: dict[tuple[int, int], tuple[float, float]] = {
            (c, 0): (1.0, 0.0) for c in range(len(graph.classes))
        }
        self._sets: dict[int, _Set] = {}
        self._probes: dict[tuple[int, int], tuple[float, float]] = {}
        self._preferences: dict[tuple[int, int], tuple[bool, float, int]] = {}

    def _set(self, mask: int) -> _Set:
        known = self._sets.get(mask)
        if known is None:
            known = self._sets[mask] = self._describe(mask)
        return known

    def _describe(self, mask: int) -> _Set:
        """A set is described by what its lowest stream adds to the others."""
        if mask == 0:
            return _Set(0.0, 0.0, 0, 0, 0, 0.0)
        rest = mask & (mask - 1)
        stream = (mask ^ rest).bit_length() - 1
        others = self._set(rest)
        thetas = [share for ends, share in self._thetas_of[stream] if ends & mask == ends]
        log_size = others.log_size + math.log(self.statistics.windows[stream]) + sum(thetas)
        carried = others.carried
        for cls in self._classes_of[stream]:
            carried |= 1 << cls
            log_size += self._log_agreement(cls, mask) - self._log_agreement(cls, rest)
        turnover = others.turnover + self.statistics.rates[stream] / self.statistics.windows[stream]
        adjacent = others.adjacent | self._adjacent[stream]
        log_thetas, count = others.log_thetas + sum(thetas), others.thetas + len(thetas)
        return _Set(log_size, log_thetas, count, carried, adjacent, turnover)

    def _log_agreement(self, cls: int, mask: int) -> float:
        common, log_product = self._class_set(cls, mask & self._classes[cls])
        return math.log(common) - log_product

    def _class_set(self, cls: int, present: int) -> tuple[float, float]:
        """(common values, logarithm of the product of distinct values) of some members of a class."""
        known = self._class_sets.get((cls, present))
        if known is None:
            rest = present & (present - 1)
            stream = (present ^ rest).bit_length() - 1
            distinct = self.statistics.distinct[cls][stream]
            common, log_product = self._class_set(cls, rest) if rest else (distinct, 0.0)
            for other in streams_of(rest):
                common = min(common, self.statistics.in_common(cls, stream, other))
            known = self._class_sets[cls, present] = (common, log_product + math.log(distinct))
        return known

    def arrivals(self, mask: int) -> float:
        """Combinations of these streams per second."""
        known = self._set(mask)
        return exponential(known.log_size) * known.turnover

    def carried(self, mask: int) -> int:
        """The attribute classes that some of these streams carry, as a mask."""
        return self._set(mask).carried

    def adjacent(self, mask: int) -> int:
        """The streams that a predicate connects with some of these, as a mask."""
        return self._set(mask).adjacent

    def connected(self, left: int, right: int) -> bool:
        return bool(self._set(left).adjacent & right)

    def key(self, left: int, right: int) -> tuple[int, ...]:
        return tuple(streams_of(self._set(left).carried & self._set(right).carried))

    def probe(self, bound: int, target: int) -> tuple[float, float]:
        """(work, growth) of one combination over ``bound`` that looks up ``target`` by all they share."""
        known = self._probes.get((bound, target))
        if known is None:
            a, b, both = self._set(bound), self._set(target), self._set(bound | target)
            candidates = exponential(both.log_size - a.log_size - (both.log_thetas - a.log_thetas - b.log_thetas))
            key = tuple(streams_of(a.carried & b.carried))
            compared = comparisons(key, key) + both.thetas - a.thetas - b.thetas
            again = target & (target - 1) == 0 and self.looked_up_before(bound, key)
            work = self.costs.search(candidates, compared, "hash" if key else "nested loop", again=again)
            known = self._probes[bound, target] = (work, exponential(both.log_size - a.log_size))
        return known

    def looked_up_before(self, bound: int, key: tuple[int, ...]) -> bool:
        """Whether the streams bound so far met by these classes, so that their key was already looked up."""
        return all((self._classes[cls] & bound).bit_count() > 1 for cls in key)

    def candidates(self, key: tuple[int, ...], bound: int, target: int) -> float:
        """How many entries of ``target`` a lookup by this key visits; without a key, all."""
        logarithm = self._set(target).log_size
        for cls in key:
            joint = self._log_agreement(cls, bound | target)
            logarithm += joint - self._log_agreement(cls, bound) - self._log_agreement(cls, target)
        return exponential(logarithm)

    def probe_by(self, key: tuple[int, ...], bound: int, target: int) -> float:
        """The work of such a lookup by the given key of a state, if that is not all they share."""
        shared = self.key(bound, target)
        if key == shared:
            return self.probe(bound, target)[0]
        a, b, both = self._set(bound), self._set(target), self._set(bound | target)
        compared = comparisons(key, shared) + both.thetas - a.thetas - b.thetas
        return self.costs.search(self.candidates(key, bound, target), compared, "hash" if key else "nested loop")

    def join(self, left: int, right: int) -> float:
        """The work of a join both of whose sides are states or base windows."""
        return self.arrivals(left) * self.probe(left, right)[0] + self.arrivals(right) * self.probe(right, left)[0]

    def upkeep(self, mask: int) -> float:
        """What it costs to keep the state of a set."""
        return self.arrivals(mask) * self.costs.store

    def fixed(self) -> float:
        """What every plan costs: the base windows and the results."""
        return sum(self.statistics.rates) * self.costs.base + self.arrivals(self.all) * self.costs.result

    def bind(self, bound: int, pieces: tuple[int, ...]) -> float:
        """The work of one combination over ``bound`` that binds these pieces, each as a state or base window."""
        work, flow, rest = 0.0, 1.0, list(pieces)
        while rest:
            piece = self.first(bound, rest)
            rest.remove(piece)
            cost, growth = self.probe(bound, piece)
            work += flow * cost
            flow *= growth
            bound |= piece
        return work

    def first(self, bound: int, items: list[int]) -> int:
        """Which of these a program binds first."""
        if len(items) == 1:
            return items[0]
        return min(items, key=lambda item: self.preference(bound, item))

    def preference(self, bound: int, item: int) -> tuple[bool, float, int]:
        """What is connected goes first, then what has the lesser rank, then by stream."""
        known = self._preferences.get((bound, item))
        if known is None:
            known = (not self.connected(bound, item), self.rank(bound, item), item & -item)
            self._preferences[bound, item] = known
        return known

    def rank(self, bound: int, item: int) -> float:
        """How much a combination over ``bound`` grows per work by binding this; of what is bound first, its size."""
        if not bound:
            return rounded(exponential(self._set(item).log_size))
        work, growth = self.probe(bound, item)
        return growth_per_work(growth, work)


class TreeEstimator:
    """The cost of one tree under any choice of kept states: a mask over :attr:`states`."""

    def __init__(self, estimator: Estimator, splits: Splits) -> None:
        self.estimator = estimator
        self.splits = splits
        self.states = [mask for mask in splits if mask != estimator.all]
        self._index = {mask: i for i, mask in enumerate(self.states)}
        siblings = {side: other for pair in splits.values() for side, other in (pair, pair[::-1])}
        self._keys = {mask: estimator.key(mask, siblings[mask]) for mask in self.states}
        self._key_masks = {mask: sum(1 << cls for cls in key) for mask, key in self._keys.items()}
        self._inside = {mask: sum(1 << i for i, s in enumerate(self.states) if s & mask == s) for mask in siblings}
        self._expansions: dict[tuple[int, int, int], float] = {}

    def total(self, kept: int) -> float:
        """Nanoseconds of work per second."""
        arrivals = self.estimator.arrivals
        cost = self.estimator.fixed()
        for left, right in self.splits.values():
            cost += arrivals(left) * self._expansion(left, right, kept)
            cost += arrivals(right) * self._expansion(right, left, kept)
        return cost + sum(self.estimator.upkeep(mask) for i, mask in enumerate(self.states) if kept >> i & 1)

    def _expansion(self, bound: int, sibling: int, kept: int) -> float:
        question = (bound, sibling, kept & self._inside[sibling])
        known = self._expansions.get(question)
        if known is None:
            known = self._expansions[question] = self._expand(*question)
        return known

    def _expand(self, bound: int, sibling: int, kept: int) -> float:
        """As the compiler of programs expands a subtree: kept states that can be probed, or else their parts."""
        estimator = self.estimator
        work, flow, items = 0.0, 1.0, [sibling]
        while items:
            item = estimator.first(bound, items)
            items.remove(item)
            if item in self.splits and not self._usable(bound, item, kept):
                items += self.splits[item]
                continue
            probing, growth = estimator.probe(bound, item)
            if item in self._keys:
                probing = estimator.probe_by(self._keys[item], bound, item)
            work += flow * probing
            flow *= growth
            bound |= item
        return work

    def _usable(self, bound: int, item: int, kept: int) -> bool:
        needed = self._key_masks[item]
        return bool(kept >> self._index[item] & 1) and self.estimator.carried(bound) & needed == needed
