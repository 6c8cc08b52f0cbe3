"""JISC 5.2: closed forms against the plans themselves, enumeration and simulation."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import accumulate

import pytest

from thalweg.errors import PlanError
from thalweg.plan.swap_analysis import complete_after_swap, mean_complete, swap_probabilities, variance_complete
from thalweg.plan.transition import classify
from thalweg.plan.tree import TreePlan, left_deep


@pytest.mark.parametrize("joins", [2, 3, 5, 8])
def test_a_swap_leaves_as_many_states_complete_as_plans_say(joins: int) -> None:
    order = list(range(joins + 1))
    old = TreePlan(left_deep(order)).keeping_all()
    for lower in range(1, joins):
        for upper in range(lower + 1, joins + 1):
            for place in (0, 1) if lower == 1 else (lower,):  # both streams of the leaf join are at position 1
                swapped = list(order)
                swapped[place], swapped[upper] = swapped[upper], swapped[place]
                change = classify(old, TreePlan(left_deep(swapped)).keeping_all())
                assert len(change.complete) == complete_after_swap(joins, lower, upper)


@pytest.mark.parametrize("joins", range(2, 31))
def test_closed_forms_are_what_enumeration_gives(joins: int) -> None:
    chances = swap_probabilities(joins)
    assert sum(chances.values()) == 1
    counts = {pair: complete_after_swap(joins, *pair) for pair in chances}
    mean = sum((chance * counts[pair] for pair, chance in chances.items()), Fraction(0))
    square = sum((chance * counts[pair] ** 2 for pair, chance in chances.items()), Fraction(0))
    assert mean_complete(joins) == mean
    assert variance_complete(joins) == square - mean**2


@pytest.mark.parametrize("joins", [20, 100, 1000])
def test_closed_forms_are_what_simulation_gives(joins: int) -> None:
    rng = random.Random(joins)
    distances = range(1, joins)
    weights = list(accumulate((joins - d) / d for d in distances))  # (joins - d) pairs are d apart
    draws = 40_000
    seen = [joins - d for d in rng.choices(distances, cum_weights=weights, k=draws)]
    mean = sum(seen) / draws
    variance = sum((count - mean) ** 2 for count in seen) / draws
    spread = float(variance_complete(joins)) ** 0.5
    assert abs(mean - float(mean_complete(joins))) < 5 * spread / draws**0.5
    assert variance == pytest.approx(float(variance_complete(joins)), rel=0.05)


def test_most_states_stay_complete() -> None:
    shares = [float(mean_complete(joins)) / joins for joins in (10, 100, 1000)]
    assert shares == sorted(shares)
    assert shares[0] > 0.75


@pytest.mark.parametrize("joins", [0, 1])
def test_a_single_join_has_nothing_to_swap(joins: int) -> None:
    with pytest.raises(PlanError, match="no two positions"):
        mean_complete(joins)


def test_positions_must_be_two_of_the_plan() -> None:
    with pytest.raises(PlanError, match="positions 3 and 3"):
        complete_after_swap(5, 3, 3)
    with pytest.raises(PlanError, match="5 joins"):
        complete_after_swap(5, 1, 6)
