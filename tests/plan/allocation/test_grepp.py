"""GrePP finds the optimum of the continuous problem."""

from __future__ import annotations

import pytest

from tests.plan.allocation.linear_programs import most_results
from tests.plan.allocation.models import table_2, tame_model
from tests.plan.random_worlds import seeded
from thalweg.plan.allocation import allocate, saturation
from thalweg.plan.allocation.grepp import raise_leaves


@pytest.mark.parametrize("seed", range(60))
def test_grepp_is_the_optimum_of_the_linear_program(seed: int) -> None:
    rng = seeded(seed)
    model = tame_model(rng)
    budget = rng.uniform(0, 1.2) * saturation(model)
    assert allocate(model, budget, "grepp").results == pytest.approx(most_results(model, budget), rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("seed", range(20))
def test_no_step_has_more_than_the_steps_below_it_produce(seed: int) -> None:
    rng = seeded(seed)
    model = tame_model(rng)
    flows = allocate(model, rng.uniform(0.1, 0.9) * saturation(model), "grepp").flows
    for probes, matches in zip(flows.probes, flows.matches, strict=True):
        assert probes[1:] == pytest.approx(matches[:-1])


def test_when_the_best_path_has_no_more_tuples_the_next_one_is_taken() -> None:
    model = table_2()
    everything_of_b = 100 * 16 / 11
    leaves = raise_leaves(model, everything_of_b + 15, [0.0, 0.0, 0.0])
    assert leaves == pytest.approx((11, 100, 0))


def test_what_goes_all_the_way_already_is_not_bought_again() -> None:
    model = table_2()
    assert raise_leaves(model, 16, [0.0, 99.0, 5.0]) == pytest.approx(((16 - 16 / 11) / (15 / 11), 100, 5))
