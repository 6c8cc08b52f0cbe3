"""Covers of states: exact, and within the promised factor."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from itertools import product

import pytest

from tests.plan.allocation.linear_programs import least_cover_cost
from tests.plan.allocation.models import AB, CD, CDE, tame_model, tree
from tests.plan.random_worlds import seeded
from thalweg.plan.allocation import AllocationModel, StreamLoad, model_of_tree
from thalweg.plan.allocation.flows import flows_of_leaves, unlimited
from thalweg.plan.allocation.set_cover import Cover, cost_of, greedy_cover, least_cover
from thalweg.plan.tree import Node, joins

PARTS = 6
"""The naive twin takes each path as a whole number of sixths."""


def random_demand(rng: random.Random, model: AllocationModel) -> dict[Node, float]:
    """What a random cover of sixths holds."""
    leaves = [stream.rate * rng.randint(0, PARTS) / PARTS for stream in model.streams]
    entries = flows_of_leaves(model, leaves).entries(model)
    return {node: rate * rng.uniform(0.2, 1) for node, rate in entries.items()}


def covers(model: AllocationModel, leaves: tuple[float, ...], refresh: Mapping[Node, float]) -> bool:
    entries = flows_of_leaves(model, leaves).entries(model)
    return all(entries[node] >= rate * (1 - 1e-8) for node, rate in refresh.items())


def naive(model: AllocationModel, refresh: Mapping[Node, float]) -> float:
    """The cheapest of all covers in sixths."""
    choices = product(*([stream.rate * part / PARTS for part in range(PARTS + 1)] for stream in model.streams))
    return min(cost_of(model, leaves) for leaves in choices if covers(model, leaves, refresh))


@pytest.mark.parametrize("seed", range(25))
def test_both_covers_against_trying_everything(seed: int) -> None:
    rng = seeded(seed)
    model = tame_model(rng, rng.randint(3, 4))
    refresh = random_demand(rng, model)
    least, greedy = (cost_of(model, cover(model, refresh)) for cover in (least_cover, greedy_cover))
    best = naive(model, refresh)
    assert least <= best * (1 + 1e-9)
    assert greedy <= best * (1 + math.log(len(refresh))) * (1 + 1e-9)


@pytest.mark.parametrize("cover", [least_cover, greedy_cover])
@pytest.mark.parametrize("seed", range(60))
def test_covers_cover(seed: int, cover: Cover) -> None:
    rng = seeded(seed)
    model = tame_model(rng)
    refresh = random_demand(rng, model)
    leaves = cover(model, refresh)
    assert all(0 <= leaf <= stream.rate for leaf, stream in zip(leaves, model.streams, strict=True))
    assert covers(model, leaves, refresh)


@pytest.mark.parametrize("seed", range(60))
def test_the_least_cover_is_the_optimum_of_the_linear_program(seed: int) -> None:
    rng = seeded(seed)
    model = tame_model(rng)
    refresh = random_demand(rng, model)
    best = least_cover_cost(model, refresh)
    assert cost_of(model, least_cover(model, refresh)) == pytest.approx(best, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("cover", [least_cover, greedy_cover])
def test_everything_can_be_asked_for(cover: Cover) -> None:
    model = tame_model(seeded(3), 5)
    full = unlimited(model)
    leaves = cover(model, full.entries(model))
    assert covers(model, leaves, full.entries(model))


@pytest.mark.parametrize("cover", [least_cover, greedy_cover])
def test_path_c_covers_two_states_of_figure_5a_and_another_path_the_third(cover: Cover) -> None:
    shape = tree("(A B) ((C D) E)", 5)
    selectivities = {join.node: 0.001 for join in joins(shape)}
    loads = [StreamLoad(name, 100, 1000) for name in "ABCDE"]
    model = model_of_tree(shape, loads, selectivities, {AB: 1000, CD: 1000, CDE: 1000})
    leaves = cover(model, {AB: 10, CD: 20, CDE: 20})
    assert leaves == pytest.approx((10, 0, 20, 0, 0))
    assert cost_of(model, leaves) == pytest.approx(10 * 2 + 20 * 3)
    # More than path C can carry: path E enters its state with one probe less.
    assert least_cover(model, {AB: 0, CD: 20, CDE: 50}) == pytest.approx((0, 0, 20, 0, 30))


def test_greed_takes_what_covers_most_per_probe_until_a_state_is_covered() -> None:
    shape = tree("((A B) C) D", 4)
    loads = [StreamLoad(name, 100, 1000) for name in "ABCD"]
    abc = frozenset({0, 1, 2})
    model = model_of_tree(shape, loads, {join.node: 0.001 for join in joins(shape)}, {AB: 1000, abc: 1000})
    # A covers 1/10 + 1/40 for 3 probes. Once AB is covered that is 1/40, and C does the same for 2 probes.
    assert greedy_cover(model, {AB: 10, abc: 40}) == pytest.approx((10, 0, 30, 0))


def test_greed_may_cost_more_than_the_least_cover() -> None:
    costs = []
    for seed in range(60):
        rng = seeded(seed)
        model = tame_model(rng, 5)
        refresh = random_demand(rng, model)
        costs.append([cost_of(model, cover(model, refresh)) for cover in (least_cover, greedy_cover)])
    assert any(greedy > least * 1.05 for least, greedy in costs)
