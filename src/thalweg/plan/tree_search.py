"""Searching the tree that is cheapest when all of its states are kept. Sets of streams are bit masks here.

The cost of such a tree is a sum over its joins, each a matter of its two sides alone. So
dynamic programming over the sets of streams is exact, and the effect of a rotation local.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from thalweg.plan.estimator import Estimator, Splits, clearly_less

EXACT_TREE = 10
"""Streams up to which the tree is exact: 3^n / 2 splits, a few tenths of a second for ten."""


class Forest:
    """Which sets of streams a tree may join without an avoidable cross product."""

    def __init__(self, estimator: Estimator) -> None:
        self.estimator = estimator
        self.components = _components(estimator)

    def joinable(self, left: int, right: int) -> bool:
        """By a predicate; or whole components with each other, which nothing connects."""
        return self.estimator.connected(left, right) or (self._whole(left) and self._whole(right))

    def _whole(self, mask: int) -> bool:
        return all(mask & component in (0, component) for component in self.components)

    def splits(self, mask: int, known: Collection[int]) -> Iterator[tuple[int, int]]:
        """The pairs of known subsets that ``mask`` can be joined from, each pair once, left-deep ones first."""
        rest = mask & (mask - 1)  # the lowest stream stands on the left
        for right in sorted(_subsets(rest), key=lambda right: (right.bit_count(), -right)):
            left = mask ^ right
            if left in known and right in known and self.joinable(left, right):
                yield left, right


def _subsets(mask: int) -> Iterator[int]:
    """All subsets but the empty one."""
    subset = mask
    while subset:
        yield subset
        subset = (subset - 1) & mask


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
    """The cheapest tree that keeps every state."""
    if estimator.graph.streams <= EXACT_TREE:
        return _exact_tree(estimator)
    return _rotated(estimator, _greedy_tree(estimator))


def _step(estimator: Estimator, left: int, right: int) -> float:
    """A join and the upkeep of its state, if it is not the root."""
    mask = left | right
    return estimator.join(left, right) + (estimator.upkeep(mask) if mask != estimator.all else 0.0)


def _exact_tree(estimator: Estimator) -> dict[int, tuple[int, int]]:
    forest = Forest(estimator)
    costs: dict[int, float] = {1 << s: 0.0 for s in range(estimator.graph.streams)}
    best: dict[int, tuple[int, int]] = {}
    for mask in range(1, estimator.all + 1):
        if mask in costs:
            continue
        for left, right in forest.splits(mask, costs):
            cost = costs[left] + costs[right] + _step(estimator, left, right)
            if mask not in best or clearly_less(cost, costs[mask]):
                costs[mask], best[mask] = cost, (left, right)
    return reachable(estimator.all, best)


def reachable(mask: int, best: Splits) -> dict[int, tuple[int, int]]:
    """The splits of the tree of ``mask`` alone, children first."""
    if mask not in best:
        return {}
    left, right = best[mask]
    return {**reachable(left, best), **reachable(right, best), mask: (left, right)}


def all_trees(forest: Forest, mask: int) -> Iterator[dict[int, tuple[int, int]]]:
    """Every tree over a set of streams."""
    if mask & (mask - 1) == 0:
        yield {}
    for left, right in forest.splits(mask, range(mask)):
        for below_left in all_trees(forest, left):
            for below_right in all_trees(forest, right):
                yield {**below_left, **below_right, mask: (left, right)}


def _greedy_tree(estimator: Estimator) -> dict[int, tuple[int, int]]:
    """Join the pair with the fewest results, again and again."""
    items = [1 << s for s in range(estimator.graph.streams)]
    splits: dict[int, tuple[int, int]] = {}
    while len(items) > 1:
        pairs = [(a, b) for i, a in enumerate(items) for b in items[i + 1 :]]
        left, right = min(pairs, key=lambda p: (not estimator.connected(*p), estimator.arrivals(p[0] | p[1])))
        splits[left | right] = (left, right)
        items = [item for item in items if item not in (left, right)] + [left | right]
    return splits


def _rotated(estimator: Estimator, splits: dict[int, tuple[int, int]]) -> dict[int, tuple[int, int]]:
    """Rotate joins, ``(a b) c`` to ``(a c) b``, while that saves something."""
    forest = Forest(estimator)

    def saves(a: int, b: int, c: int) -> bool:
        old = _step(estimator, a, b) + _step(estimator, a | b, c)
        new = _step(estimator, a, c) + _step(estimator, a | c, b)
        return clearly_less(new, old) and forest.joinable(a, c) and forest.joinable(a | c, b)

    while (found := next((r for r in _rotations(splits) if saves(*r)), None)) is not None:
        a, b, c = found
        splits = reachable(estimator.all, {**splits, a | c: (a, c), a | b | c: (a | c, b)})
    return splits


def _rotations(splits: Splits) -> Iterator[tuple[int, int, int]]:
    """All ``a, b, c`` such that ``(a b) c`` is part of the tree."""
    for pair in splits.values():
        for inner, c in (pair, pair[::-1]):
            for a, b in (splits[inner], splits[inner][::-1]) if inner in splits else ():
                yield a, b, c


def regrafted(forest: Forest, splits: Splits) -> Iterator[dict[int, tuple[int, int]]]:
    """All trees that differ by one subtree standing elsewhere."""
    root = max(splits)
    for pair in splits.values():
        for moved, sibling in (pair, pair[::-1]):
            stump = {
                mask & ~moved: (left & ~moved, right & ~moved)
                for mask, (left, right) in splits.items()
                if mask & moved != mask and mask != moved | sibling
            }
            below = {m: p for m, p in splits.items() if m & moved == m}
            for place in {side for p in stump.values() for side in p} | {root & ~moved}:
                if place != sibling:
                    tree = below | _grafted(stump, moved, place)
                    if all(forest.joinable(*p) for p in tree.values()):
                        yield reachable(root, tree)


def _grafted(stump: Splits, moved: int, place: int) -> dict[int, tuple[int, int]]:
    """The tree with ``moved`` joined to what stands at ``place``; all above that grows by it."""

    def grown(mask: int) -> int:
        return mask | moved if mask & place == place else mask

    above = {grown(m) if m != place else m: p for m, p in stump.items()}
    return {m: (grown(a), grown(b)) for m, (a, b) in above.items()} | {place | moved: (place, moved)}
