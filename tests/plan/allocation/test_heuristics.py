"""The rivals that look at half-way joins one by one."""

from __future__ import annotations

import math

import pytest

from tests.plan.allocation.models import figure_10, random_model
from tests.plan.random_worlds import seeded
from thalweg.plan.allocation import AllocationModel, AllocationPolicy, HalfWayJoin, StreamLoad, allocate, saturation
from thalweg.plan.allocation.flows import limited, needs
from thalweg.plan.allocation.heuristics import share_out

HEURISTICS: list[AllocationPolicy] = ["best_hj", "equal_hj", "global_hjpr", "ebest_hj", "sbest_hj"]


@pytest.mark.parametrize("seed", range(60))
def test_what_is_shared_out(seed: int) -> None:
    rng = seeded(seed)
    count = rng.randint(1, 6)
    weights = [rng.choice([0.0, rng.uniform(0.01, 5)]) for _ in range(count)]
    limits = [rng.choice([0.0, rng.uniform(0, 50)]) for _ in range(count)]
    amount = rng.uniform(0, 1.3) * sum(limits)
    shares = share_out(weights, limits, amount)
    assert math.fsum(shares) == pytest.approx(min(amount, math.fsum(limits)))
    assert all(0 <= share <= limit * (1 + 1e-9) for share, limit in zip(shares, limits, strict=True))
    # Whoever could take more has as much per weight as anybody; what weighs nothing has what nobody else can take.
    hungry = [i for i in range(count) if shares[i] < limits[i] * (1 - 1e-9)]
    if any(weights[i] > 0 for i in hungry):
        level = max(shares[i] / weights[i] for i in range(count) if weights[i] > 0)
        assert [shares[i] / weights[i] for i in hungry if weights[i] > 0] == pytest.approx(
            [level for i in hungry if weights[i] > 0]
        )
        assert all(shares[i] == 0 for i in range(count) if weights[i] == 0)


def test_what_is_not_needed_is_divided_again() -> None:
    model = figure_10()  # it needs 500 probes of A, 700 of B, 3,750 of AB and 600 of C
    found = allocate(model, 3_000, "equal_hj").of_half_ways(model)
    assert found == pytest.approx((500, 700, 1_200, 600))


def test_the_most_productive_half_way_join_first() -> None:
    model = figure_10()
    assert allocate(model, 300, "best_hj").of_half_ways(model) == pytest.approx((0, 300, 0, 0))
    assert allocate(model, 300, "best_hj").results == 0  # nothing is left for what B produces
    assert allocate(model, 5_000, "best_hj").of_half_ways(model) == pytest.approx((0, 700, 3_750, 550))


def test_joins_in_the_ratio_of_their_selectivities_however_many_directions_they_have() -> None:
    a, b, c = (frozenset({i}) for i in range(3))
    half_ways = (
        HalfWayJoin(a, b, 0.001, 1000),
        HalfWayJoin(b, a, 0.003, 1000),  # A ⋈ B has the mean of these
        HalfWayJoin(a | b, c, 0.004, 1000),
        HalfWayJoin(c, a, 0.006, 1000),  # A ⋈ C has one direction alone
        HalfWayJoin(a | c, b, 0.004, 1000),
    )
    streams = tuple(StreamLoad(name, 1000, 1000) for name in "ABC")
    model = AllocationModel(streams, half_ways, ((0, 2), (1, 2), (3, 4)))
    assert allocate(model, 120, "sbest_hj").of_half_ways(model) == pytest.approx((0, 20, 40, 60, 0))


@pytest.mark.parametrize("seed", range(40))
def test_flows_against_a_recursion_over_half_way_joins(seed: int) -> None:
    rng = seeded(seed)
    model = random_model(rng)
    wanted = needs(model)
    allowances = [rng.choice([0.0, 1.0, rng.uniform(0, 2)]) * need for need in wanted]
    followers = {path[i]: path[i + 1] for path in model.paths for i in range(len(path) - 1)}

    def paid(index: int) -> float:
        offered = sum(s.rate for s, path in zip(model.streams, model.paths, strict=True) if path[0] == index)
        offered += sum(matches(below) for below, above in followers.items() if above == index)
        return min(offered, allowances[index])

    def matches(index: int) -> float:
        return paid(index) * model.half_ways[index].productivity

    flows, granted = limited(model, allowances)
    for index, users in enumerate(model.users()):
        assert sum(flows.probes[head][step] for head, step in users) == pytest.approx(paid(index))
        assert sum(granted[head][step] for head, step in users) == pytest.approx(allowances[index])
    last = [index for index in range(len(wanted)) if index not in followers]
    assert flows.results == pytest.approx(sum(map(matches, last)))


@pytest.mark.parametrize("policy", HEURISTICS)
@pytest.mark.parametrize("seed", range(20))
def test_they_never_yield_more_than_grepp(seed: int, policy: AllocationPolicy) -> None:
    rng = seeded(seed)
    model = random_model(rng)
    budget = rng.uniform(0, 1.1) * saturation(model)
    assert allocate(model, budget, policy).results <= allocate(model, budget, "grepp").results * (1 + 1e-9)
