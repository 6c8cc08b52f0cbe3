"""Random join graphs with random statistics, and every plan of a small one."""

import random
from collections.abc import Iterator, Sequence
from itertools import combinations, permutations

from thalweg.plan.join_graph import JoinGraph
from thalweg.plan.statistics import Statistics
from thalweg.plan.tree import Join, Leaf, LinearPlan, Node, Tree, TreePlan, state_nodes


def seeded(seed: int) -> random.Random:
    return random.Random(seed)


def random_graph(rng: random.Random, streams: int, theta_share: float = 0.2) -> JoinGraph:
    """A connected graph: a random spanning tree of predicates, and some more."""
    classes: list[set[int]] = []
    thetas: list[Node] = []
    order = rng.sample(range(streams), streams)
    for i, stream in enumerate(order[1:], start=1):
        partner = rng.choice(order[:i])
        joined = [members for members in classes if partner in members]
        if rng.random() < theta_share:
            thetas.append(frozenset((stream, partner)))
        elif joined and rng.random() < 0.6:
            rng.choice(joined).add(stream)
        else:
            classes.append({stream, partner})
    for pair in combinations(range(streams), 2):
        if rng.random() < 0.15:
            if rng.random() < 0.5:
                classes.append(set(pair))
            else:
                thetas.append(frozenset(pair))
    return JoinGraph(streams, tuple(frozenset(c) for c in classes), tuple(thetas))


def random_statistics(rng: random.Random, graph: JoinGraph) -> Statistics:
    windows = [10 ** rng.uniform(0, 4) for _ in range(graph.streams)]
    distinct = tuple({s: max(1.0, windows[s] * 10 ** rng.uniform(-2, 1)) for s in c} for c in graph.classes)
    common = tuple(
        {frozenset(p): min(d[p[0]], d[p[1]]) * rng.uniform(0.1, 1) for p in combinations(sorted(d), 2)}
        for d in distinct
    )
    return Statistics(
        rates=tuple(10 ** rng.uniform(0, 3) for _ in range(graph.streams)),
        windows=tuple(windows),
        distinct=distinct,
        thetas=tuple(10 ** rng.uniform(-3, 0) for _ in graph.thetas),
        common=common,
    )


def all_trees(streams: Sequence[int]) -> Iterator[Tree]:
    """Every binary tree over these streams, without mirror images."""
    if len(streams) == 1:
        yield Leaf(streams[0])
        return
    first, rest = streams[0], list(streams[1:])
    for size in range(len(rest)):
        for beside in combinations(rest, size):
            other = [s for s in rest if s not in beside]
            for left in all_trees([first, *beside]):
                for right in all_trees(other):
                    yield Join(left, right)


def without_cross_products(tree: Tree, graph: JoinGraph) -> bool:
    if isinstance(tree, Leaf):
        return True
    return graph.connected(tree.left.node, tree.right.node) and all(
        without_cross_products(side, graph) for side in (tree.left, tree.right)
    )


def all_keepings(tree: Tree) -> Iterator[TreePlan]:
    states = state_nodes(tree)
    for size in range(len(states) + 1):
        for kept in combinations(states, size):
            yield TreePlan(tree, frozenset(kept))


def all_orders(head: int, graph: JoinGraph) -> Iterator[tuple[int, ...]]:
    """Every order of the other streams in which each is connected with those before it."""
    others = [s for s in range(graph.streams) if s != head]
    for order in permutations(others):
        if all(graph.connected(frozenset((head, *order[:i])), frozenset((s,))) for i, s in enumerate(order)):
            yield order


def with_order(head: int, order: tuple[int, ...], streams: int) -> LinearPlan:
    """A linear plan in which only one head's order matters."""
    orders = [tuple(s for s in range(streams) if s != h) for h in range(streams)]
    orders[head] = order
    return LinearPlan(tuple(orders))
