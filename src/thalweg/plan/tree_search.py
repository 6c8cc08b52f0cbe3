"""Searching trees, and which of their states to keep. Sets of streams are bit masks here."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from thalweg.plan.estimator import Estimator, Splits, TreeEstimator

EXACT_TREE = 10
"""Streams up to which the tree is exact: 3^n / 2 splits, a few tenths of a second for ten."""

EXACT_STATES = 8
"""States up to which all subsets of kept states are tried."""


class _Forest:
    """Which sets of streams a tree may join without an avoidable cross product."""

    def __init__(self, estimator: Estimator) -> None:
        self.estimator = estimator
        self.components = _components(estimator)
        self._connected: dict[int, bool] = {}

    def joinable(self, left: int, right: int) -> bool:
        """By a predicate; or whole components with each other, which nothing connects."""
        return self.estimator.connected(left, right) or (self._whole(left) and self._whole(right))

    def _whole(self, mask: int) -> bool:
        return all(mask & component in (0, component) for component in self.components)

    def splits(self, mask: int, known: Collection[int]) -> Iterator[tuple[int, int]]:
        """The pairs of known subsets that ``mask`` can be joined from, each pair once."""
        lowest = mask & -mask
        rest = mask ^ lowest
        part = rest
        while part:
            part = (part - 1) & rest
            left, right = part | lowest, rest ^ part
            if left in known and right in known and self.joinable(left, right):
                yield left, right


def _components(estimator: Estimator) -> list[int]:
    components: list[int] = []
    for stream in range(estimator.graph.streams):
        joined = 1 << stream
        apart = []
        for component in components:
            if estimator.connected(component, 1 << stream):
                joined |= component
            else:
                apart.append(component)
        components = [*apart, joined]
    return components


def best_tree(estimator: Estimator) -> dict[int, tuple[int, int]]:
    """The cheapest tree that keeps every state: its cost is a sum over joins, each a matter of its two sides alone."""
    if estimator.graph.streams <= EXACT_TREE:
        return _exact_tree(estimator)
    return _rotated(estimator, _greedy_tree(estimator))


def _step(estimator: Estimator, left: int, right: int) -> float:
    """A join and the upkeep of its state, if it is not the root."""
    mask = left | right
    return estimator.join(left, right) + (estimator.upkeep(mask) if mask != estimator.all else 0.0)


def _exact_tree(estimator: Estimator) -> dict[int, tuple[int, int]]:
    forest = _Forest(estimator)
    costs: dict[int, float] = {1 << s: 0.0 for s in range(estimator.graph.streams)}
    best: dict[int, tuple[int, int]] = {}
    for mask in range(1, estimator.all + 1):
        if mask in costs:
            continue
        for left, right in forest.splits(mask, costs):
            cost = costs[left] + costs[right] + _step(estimator, left, right)
            if mask not in best or cost < costs[mask]:
                costs[mask], best[mask] = cost, (left, right)
    return _reachable(estimator.all, best)


def _reachable(mask: int, best: Splits) -> dict[int, tuple[int, int]]:
    """The splits of the tree of ``mask`` alone, children first."""
    if mask not in best:
        return {}
    left, right = best[mask]
    return {**_reachable(left, best), **_reachable(right, best), mask: (left, right)}


def _greedy_tree(estimator: Estimator) -> dict[int, tuple[int, int]]:
    """Join the pair that costs least, again and again."""
    items = [1 << s for s in range(estimator.graph.streams)]
    splits: dict[int, tuple[int, int]] = {}
    while len(items) > 1:
        pairs = [(a, b) for i, a in enumerate(items) for b in items[i + 1 :]]
        left, right = min(pairs, key=lambda p: (not estimator.connected(*p), _step(estimator, *p)))
        splits[left | right] = (left, right)
        items = [item for item in items if item not in (left, right)] + [left | right]
    return splits


def _rotated(estimator: Estimator, splits: dict[int, tuple[int, int]]) -> dict[int, tuple[int, int]]:
    """Rotate joins, ``(a b) c`` to ``(a c) b``, while that saves something."""
    forest = _Forest(estimator)
    while (found := next(_improving_rotations(forest, splits), None)) is not None:
        a, b, c = found
        del splits[a | b]
        splits[a | c], splits[a | b | c] = (a, c), (a | c, b)
    return _reachable(estimator.all, splits)


def _improving_rotations(forest: _Forest, splits: Splits) -> Iterator[tuple[int, int, int]]:
    estimator = forest.estimator
    for pair in splits.values():
        for inner, c in (pair, pair[::-1]):
            for a, b in (splits[inner], splits[inner][::-1]) if inner in splits else ():
                old = _step(estimator, a, b) + _step(estimator, inner, c)
                new = _step(estimator, a, c) + _step(estimator, a | c, b)
                if new < old * (1 - 1e-9) and forest.joinable(a, c) and forest.joinable(a | c, b):
                    yield a, b, c


class _Choice(NamedTuple):
    """A subtree: what happens below it costs ``cost``, and whoever probes it binds ``pieces``."""

    cost: float
    pieces: tuple[int, ...]


def tree_with_states_in_mind(estimator: Estimator) -> dict[int, tuple[int, int]]:
    """A tree for some states kept: every subset is weighed both with its state and without.

    Exact but for one thing: an unkept subtree is built for itself, not for who probes it.
    """
    forest = _Forest(estimator)
    choices: dict[int, tuple[_Choice, ...]] = {}
    for stream in range(estimator.graph.streams):
        choices[1 << stream] = (_Choice(0.0, (1 << stream,)),)
    best: dict[int, tuple[int, int]] = {}
    for mask in range(1, estimator.all + 1):
        if mask in choices:
            continue
        found: _Choice | None = None
        for left, right in forest.splits(mask, choices):
            for a in choices[left]:
                for b in choices[right]:
                    cost = a.cost + b.cost
                    if found is not None and cost >= found.cost:
                        continue
                    cost += estimator.arrivals(left) * estimator.bind(left, b.pieces)
                    cost += estimator.arrivals(right) * estimator.bind(right, a.pieces)
                    if found is None or cost < found.cost:
                        found, best[mask] = _Choice(cost, a.pieces + b.pieces), (left, right)
        if found is not None:
            choices[mask] = (_Choice(found.cost + estimator.upkeep(mask), (mask,)), found)
    return _reachable(estimator.all, best)


def best_states(trees: TreeEstimator) -> tuple[float, list[int]]:
    """(cost, kept states): exact up to :data:`EXACT_STATES` states, one flip at a time beyond."""
    count = len(trees.states)
    if count <= EXACT_STATES:
        cost, kept = min((trees.total(kept), kept) for kept in range(1 << count))
    else:
        cost, kept = min(_flipped(trees, start) for start in (0, (1 << count) - 1))
    return cost, [mask for i, mask in enumerate(trees.states) if kept >> i & 1]


def _flipped(trees: TreeEstimator, kept: int) -> tuple[float, int]:
    """Keep or drop one state after the other where that saves something, until a whole round saves nothing."""
    best = (trees.total(kept), kept)
    last = None
    while best != last:
        last = best
        for i in range(len(trees.states)):
            flipped = best[1] ^ 1 << i
            best = min(best, (trees.total(flipped), flipped))
    return best
