"""What holds for every policy."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import get_args

import pytest

from tests.plan.allocation.models import random_model, table_2
from tests.plan.random_worlds import seeded
from thalweg.errors import AllocationError
from thalweg.plan.allocation import POLICIES, AllocationPolicy, allocate, saturation
from thalweg.plan.allocation.flows import unlimited

SEEDS = range(25)


def test_the_names_of_the_registry_are_those_of_the_type() -> None:
    assert set(POLICIES) == set(get_args(AllocationPolicy))


@pytest.mark.parametrize("policy", POLICIES)
def test_a_policy_puts_its_own_name_on_what_it_decides(policy: AllocationPolicy) -> None:
    assert allocate(table_2(), 30, policy).policy == policy


def test_a_policy_that_does_not_exist() -> None:
    with pytest.raises(
        AllocationError, match=r"allocation policy 'jackpot' does not exist\. There are jaqpot, grepp, "
    ):
        allocate(table_2(), 30, "jackpot")  # type: ignore[arg-type]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("budget", [-1.0, math.nan])
def test_a_budget_that_is_none(policy: AllocationPolicy, budget: float) -> None:
    with pytest.raises(AllocationError, match=r"is not a number of probes per second\. Give 0 or more\."):
        allocate(table_2(), budget, policy)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", SEEDS)
def test_no_more_is_paid_than_there_is(seed: int, policy: AllocationPolicy) -> None:
    rng = seeded(seed)
    model = random_model(rng)
    full = unlimited(model)
    budget = rng.uniform(0, 1.2) * full.paid
    found = allocate(model, budget, policy)
    assert found.granted <= budget * (1 + 1e-9)
    for head, path in enumerate(found.allowances):
        for step, allowance in enumerate(path):
            paid = found.flows.probes[head][step]
            assert 0 <= paid <= allowance * (1 + 1e-9)
            assert paid <= full.probes[head][step] * (1 + 1e-9)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", SEEDS)
def test_at_saturation_everything_is_allowed(seed: int, policy: AllocationPolicy) -> None:
    rng = seeded(seed)
    model = random_model(rng)
    full = unlimited(model)
    for budget in (full.paid * (1 + 1e-9), full.paid * 3, math.inf):
        found = allocate(model, budget, policy)
        for path, probes in zip(found.allowances, full.probes, strict=True):
            assert path == pytest.approx(probes)
        assert found.results == pytest.approx(full.results)
        assert found.admitted == 1


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", SEEDS)
def test_more_budget_yields_no_less(seed: int, policy: AllocationPolicy) -> None:
    rng = seeded(seed)
    model = random_model(rng)
    budgets = sorted(rng.uniform(0, 1.1) * saturation(model) for _ in range(8))
    results = [allocate(model, budget, policy).results for budget in budgets]
    for less, more in pairwise(results):
        assert more >= less * (1 - 1e-9)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_budget_of_nothing_refuses_everything(seed: int, policy: AllocationPolicy) -> None:
    model = random_model(seeded(seed))
    found = allocate(model, 0, policy)
    assert found.granted == 0
    assert found.results == 0
