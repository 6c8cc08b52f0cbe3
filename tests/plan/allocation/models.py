"""Budget models: those of the paper's examples, and random ones."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace

from tests.plan.random_worlds import all_orders, all_trees, random_graph, random_statistics
from thalweg.plan.allocation import AllocationModel, HalfWayJoin, StreamLoad, model_of_plan, model_of_tree
from thalweg.plan.allocation.freshness import least_freshness
from thalweg.plan.tree import LinearPlan, Node, Tree, TreePlan, joins, left_deep, parse_plan, state_nodes

A, B, C = frozenset({0}), frozenset({1}), frozenset({2})
AB, CD = frozenset({0, 1}), frozenset({2, 3})
CDE = frozenset({2, 3, 4})


def tree(text: str, streams: int) -> Tree:
    plan = parse_plan(text, "ABCDEFGHIJ"[:streams])
    assert isinstance(plan, TreePlan)
    return plan.tree


def figure_2a() -> AllocationModel:
    """Two streams, one join; each direction has a selectivity of its own."""
    return AllocationModel(
        (StreamLoad("A", 500, 5000), StreamLoad("B", 700, 500)),
        (HalfWayJoin(A, B, 0.005, 500), HalfWayJoin(B, A, 0.001, 5000)),
        ((0,), (1,)),
    )


def figure_10() -> AllocationModel:
    """(A B) C with productivities a 0.5, b 5, ab 5, c 1, from the selectivities 0.001 and 0.005 of table 4."""
    streams = (StreamLoad("A", 500, 5000), StreamLoad("B", 700, 500), StreamLoad("C", 600, 1000))
    abc = AB | C
    return model_of_tree(left_deep([0, 1, 2]), streams, {AB: 0.001, abc: 0.005}, {AB: 200})


def table_2() -> AllocationModel:
    """(A B) C whose paths cost 15, 16 and 10 probes for 4, 5 and 1 results; see ``TABLE_2_LEAVES``."""
    streams = (StreamLoad("A", 100, 1), StreamLoad("B", 100, 1), StreamLoad("C", 100, 1))
    half_ways = (
        HalfWayJoin(A, B, 4 / 11, 1),
        HalfWayJoin(B, A, 5 / 11, 1),
        HalfWayJoin(AB, C, 0.01, 100),
        HalfWayJoin(C, AB, 0.01, 10),
    )
    return AllocationModel(streams, half_ways, ((0, 2), (1, 2), (3,)))


TABLE_2_LEAVES = (11.0, 11.0, 10.0)
"""Tuples of each stream in a unit of its path: of 15 probes on path A, 11 are made by tuples of A (figure 4)."""


def random_tree(rng: random.Random, streams: int) -> Tree:
    return rng.choice(list(all_trees(range(streams))))


def tame_model(rng: random.Random, streams: int | None = None) -> AllocationModel:
    """A tree in numbers like those of the paper's table 3, some of which are zero."""
    shape = random_tree(rng, streams or rng.randint(2, 6))
    count = len(shape.node)
    windows = [rng.uniform(200, 5000) for _ in range(count)]
    sizes = {node: rng.uniform(200, 5000) for node in state_nodes(shape)}
    sides: dict[Node, float] = {frozenset((i,)): window for i, window in enumerate(windows)} | sizes
    selectivities = {
        join.node: rng.uniform(0.02, 4) / max(sides[join.left.node], sides[join.right.node])
        if rng.random() < 0.95
        else 0.0
        for join in joins(shape)
    }
    loads = [StreamLoad("ABCDEFGHIJ"[i], rng.uniform(300, 1200), window) for i, window in enumerate(windows)]
    return model_of_tree(shape, loads, selectivities, sizes)


def asking(model: AllocationModel, seconds: Sequence[float | None]) -> AllocationModel:
    """The same, with other freshness."""
    streams = [replace(stream, freshness=each) for stream, each in zip(model.streams, seconds, strict=True)]
    return replace(model, streams=tuple(streams))


def fresh_model(rng: random.Random) -> AllocationModel:
    """A model whose freshness can be held if the budget is large enough."""
    while True:
        model = tame_model(rng)
        least = least_freshness(model)
        if math.isfinite(max(least)):
            return asking(model, [rng.uniform(1, 4) * each if rng.random() < 0.7 else None for each in least])


def wild_model(rng: random.Random) -> AllocationModel:
    """Any plan over a random graph with random statistics: linear, or a tree that keeps some states."""
    graph = random_graph(rng, rng.randint(2, 6))
    known = random_statistics(rng, graph)
    if rng.random() < 0.3:
        orders = tuple(rng.choice(list(all_orders(head, graph))) for head in range(graph.streams))
        return model_of_plan(LinearPlan(orders), graph, known)
    shape = random_tree(rng, graph.streams)
    kept = frozenset(node for node in state_nodes(shape) if rng.random() < 0.7)
    return model_of_plan(TreePlan(shape, kept), graph, known)


def random_model(rng: random.Random) -> AllocationModel:
    return tame_model(rng) if rng.random() < 0.5 else wild_model(rng)
