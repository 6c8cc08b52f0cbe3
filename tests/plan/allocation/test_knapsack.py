"""Whole units: dynamic programming equals trying everything."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import product

import pytest

from tests.plan.allocation.models import tame_model
from tests.plan.random_worlds import seeded
from thalweg.plan.allocation import PathRow, allocate
from thalweg.plan.allocation.knapsack import discrete_greedy, discrete_optimum, greedy_units, optimal_units


def random_rows(rng: random.Random) -> list[PathRow]:
    """Paths of one or two half-way joins whose units take whole numbers of probes."""
    rows = []
    for head in range(rng.randint(1, 4)):
        leaf, middle = rng.randint(1, 6), rng.randint(0, 9)
        grown = (1.0, middle / leaf, rng.uniform(0, 3)) if middle else (1.0, rng.uniform(0, 3))
        rows.append(PathRow(head, grown, float(leaf), rng.uniform(0, 5)))
    return rows


def naive(rows: Sequence[PathRow], budget: int) -> float:
    """The best results of all numbers of units."""
    best = 0.0
    for units in product(*(range(int(row.most) + 1) for row in rows)):
        if sum(count * round(row.resources) for count, row in zip(units, rows, strict=True)) <= budget:
            best = max(best, sum(count * row.output for count, row in zip(units, rows, strict=True)))
    return best


def worth(rows: Sequence[PathRow], units: Sequence[int]) -> float:
    return sum(count * row.output for count, row in zip(units, rows, strict=True))


def weight(rows: Sequence[PathRow], units: Sequence[int]) -> int:
    return sum(count * round(row.resources) for count, row in zip(units, rows, strict=True))


@pytest.mark.parametrize("seed", range(60))
def test_dynamic_programming_equals_trying_everything(seed: int) -> None:
    rng = seeded(seed)
    rows, budget = random_rows(rng), rng.randint(0, 40)
    units = optimal_units(rows, budget)
    assert weight(rows, units) <= budget
    assert all(count <= row.most for count, row in zip(units, rows, strict=True))
    assert worth(rows, units) == pytest.approx(naive(rows, budget))


@pytest.mark.parametrize("seed", range(60))
def test_greedy_units_fit_and_are_no_better_than_the_best(seed: int) -> None:
    rng = seeded(seed)
    rows, budget = random_rows(rng), rng.randint(0, 40)
    units = greedy_units(rows, budget)
    assert weight(rows, units) <= budget
    assert all(count <= row.most for count, row in zip(units, rows, strict=True))
    assert worth(rows, units) <= naive(rows, budget) + 1e-9
    left = budget - weight(rows, units)
    for count, row in zip(units, rows, strict=True):  # nothing that still fits was left out
        assert count + 1 > row.most or round(row.resources) > left


@pytest.mark.parametrize("seed", range(40))
def test_fractions_are_at_least_as_good_as_whole_units(seed: int) -> None:
    rng = seeded(seed)
    model = tame_model(rng)
    leaves = [rng.uniform(1, 20) for _ in model.streams]
    budget = rng.uniform(0, 2_000)
    found = discrete_greedy(model, budget, leaves), discrete_optimum(model, budget, leaves)
    assert all(each.granted <= budget * (1 + 1e-9) for each in found)
    greedy, best, fractions = *(each.results for each in found), allocate(model, budget, "grepp").results
    assert greedy <= best * (1 + 1e-9)
    assert best <= fractions * (1 + 1e-9)


def test_a_unit_is_charged_in_whole_probes() -> None:
    row = PathRow(0, (1.0, 1.0), 2.5, 10.0)
    assert optimal_units([row], 8) == greedy_units([row], 8) == (2,)
