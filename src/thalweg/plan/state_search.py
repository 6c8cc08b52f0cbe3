"""Searching the tree and the states that it keeps, together. Sets of streams are bit masks here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import reduce
from typing import NamedTuple

from thalweg.plan.estimator import Estimator, Splits, TreeEstimator, clearly_less
from thalweg.plan.tree_search import Forest, all_trees, reachable, regrafted

EXACT_STATES = 8
"""States up to which all subsets of kept states are tried."""

ALL_TREES = 5
"""Streams up to which all trees are tried with all subsets of their states: 105 trees for five, 945 for six."""

STATES_IN_MIND = 8
"""Streams up to which trees are searched with kept and unkept states in mind: some tenths of a second for eight."""


class KeptTree(NamedTuple):
    """A tree, its kept states and what they cost together."""

    cost: float
    splits: Splits
    kept: tuple[int, ...]


def best_kept_tree(estimator: Estimator, pipeline: Splits) -> KeptTree:
    """The best tree found with the best of its states kept; ``pipeline`` is the best one that keeps all."""
    streams = estimator.graph.streams
    if streams <= ALL_TREES:
        trees = all_trees(Forest(estimator), estimator.all)
        return _cheapest(best_states(estimator, splits) for splits in trees)
    if streams <= STATES_IN_MIND:
        starts = (pipeline, _tree_in_mind(estimator))
        return _cheapest(_improved(estimator, best_states(estimator, splits)) for splits in starts)
    return best_states(estimator, pipeline)


def _cheapest(trees: Iterable[KeptTree]) -> KeptTree:
    """The first of the cheapest."""
    return reduce(lambda best, tree: tree if clearly_less(tree.cost, best.cost) else best, trees)


class _Choice(NamedTuple):
    """A subtree: what happens below it costs ``cost``, and whoever probes it binds ``pieces``."""

    cost: float
    pieces: tuple[int, ...]


def _tree_in_mind(estimator: Estimator) -> dict[int, tuple[int, int]]:
    """A tree for some states kept: every subset is weighed both with its state and without.

    Exact but for one thing: an unkept subtree is built for itself, not for who probes it.
    """
    forest = Forest(estimator)
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
                    if found is None or clearly_less(cost, found.cost):
                        found, best[mask] = _Choice(cost, a.pieces + b.pieces), (left, right)
        if found is not None:
            choices[mask] = (_Choice(found.cost + estimator.upkeep(mask), (mask,)), found)
    return reachable(estimator.all, best)


def _improved(estimator: Estimator, start: KeptTree) -> KeptTree:
    """Move subtrees elsewhere, adjusting the kept states each time, while that saves something."""
    forest = Forest(estimator)
    best = start
    while (better := next(_better(forest, best), None)) is not None:
        best = better
    return best_states(estimator, best.splits)


def _better(forest: Forest, tree: KeptTree) -> Iterator[KeptTree]:
    for splits in regrafted(forest, tree.splits):
        trees = TreeEstimator(forest.estimator, splits)
        kept = sum(1 << i for i, mask in enumerate(trees.states) if mask in tree.kept)
        neighbour = _kept_tree(trees, *_flipped(trees, kept))
        if clearly_less(neighbour.cost, tree.cost):
            yield neighbour


def best_states(estimator: Estimator, splits: Splits) -> KeptTree:
    """The states of a tree to keep: exact up to :data:`EXACT_STATES` states, one flip at a time beyond."""
    trees = TreeEstimator(estimator, splits)
    count = len(trees.states)
    if count <= EXACT_STATES:
        cost, kept = min((trees.total(kept), kept) for kept in range(1 << count))
    else:
        cost, kept = min(_flipped(trees, start) for start in (0, (1 << count) - 1))
    return _kept_tree(trees, cost, kept)


def _kept_tree(trees: TreeEstimator, cost: float, kept: int) -> KeptTree:
    return KeptTree(cost, trees.splits, tuple(mask for i, mask in enumerate(trees.states) if kept >> i & 1))


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
