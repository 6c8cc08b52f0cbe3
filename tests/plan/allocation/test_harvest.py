"""Window harvesting."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest

from tests.plan.allocation.models import figure_2a, random_model, tame_model
from tests.plan.random_worlds import seeded
from thalweg.plan.allocation import AllocationModel, allocate, saturation
from thalweg.plan.allocation.harvest import SEGMENTS


def with_profiles(rng: random.Random, model: AllocationModel) -> AllocationModel:
    profiles = [
        tuple(rng.choice([0.0, rng.uniform(0, 9), 1.0]) for _ in range(rng.randint(1, 5))) for _ in model.half_ways
    ]
    changed = [replace(h, profile=p if any(p) else ()) for h, p in zip(model.half_ways, profiles, strict=True)]
    return replace(model, half_ways=tuple(changed))


def best_of_a_join(model: AllocationModel, budget: float) -> float:
    """The naive twin for two streams: of all segments, those with the most matches, down to a fraction of one."""
    segments = []
    for stream, half_way in zip(model.streams, model.half_ways, strict=True):
        profile = half_way.profile or (1.0,) * SEGMENTS
        for share in profile:
            found = half_way.productivity * share / sum(profile)
            segments.append((found * len(profile), stream.rate / len(profile)))
    results = 0.0
    for per_probe, probes in sorted(segments, reverse=True):
        results += per_probe * min(probes, budget)
        budget -= min(probes, budget)
    return results


def naive_flow(model: AllocationModel, counts: list[tuple[int, ...]]) -> tuple[float, float]:
    """(work, results) if every tuple looks at these segments."""
    work = results = 0.0
    for stream, path in zip(model.streams, model.paths, strict=True):
        flow = stream.rate
        for index in path:
            half_way = model.half_ways[index]
            profile = half_way.profile or (1.0,) * SEGMENTS
            work += flow * len(counts[index]) / len(profile)
            flow *= half_way.productivity * sum(profile[segment] for segment in counts[index]) / sum(profile)
        results += flow
    return work, results


def naive_greedy(model: AllocationModel, budget: float) -> float:
    """The results of the greedy choices, each of which is worked out from scratch."""
    best_first = [sorted(range(len(h.profile)), key=h.profile.__getitem__, reverse=True) for h in model.half_ways]
    counts = [0] * len(best_first)

    def at(counts: list[int]) -> tuple[float, float]:
        return naive_flow(model, [tuple(best[:n]) for best, n in zip(best_first, counts, strict=True)])

    work, results = at(counts)
    while True:
        wider = []
        for index, count in enumerate(counts):
            if 0 < count < len(best_first[index]):
                wider.append([n + (i == index) for i, n in enumerate(counts)])
        closed = [path for path in model.paths if not counts[path[0]]]
        wider += [[n or int(i in path) for i, n in enumerate(counts)] for path in closed]
        if not wider:
            return results
        options = [(*at(each), each) for each in wider]
        next_work, next_results, counts = max(options, key=lambda o: (o[1] - results) / (o[0] - work))
        if next_work > budget:
            return results + (next_results - results) * (budget - work) / (next_work - work)
        work, results = next_work, next_results


@pytest.mark.parametrize("seed", range(40))
def test_choices_against_a_greedy_twin(seed: int) -> None:
    rng = seeded(seed)
    model = tame_model(rng, rng.randint(3, 4))
    changed = [
        replace(h, selectivity=h.selectivity or 0.001, profile=tuple(rng.uniform(0.1, 9) for _ in range(4)))
        for h in model.half_ways
    ]
    model = replace(model, half_ways=tuple(changed))
    budget = rng.uniform(0.05, 0.95) * saturation(model)
    assert allocate(model, budget, "harvest").results == pytest.approx(naive_greedy(model, budget))


def test_the_segments_with_most_matches_are_probed() -> None:
    model = figure_2a()
    into_b, into_a = model.half_ways
    model = replace(model, half_ways=(replace(into_b, profile=(0.1, 0.8, 0.1)), replace(into_a, profile=(1, 1, 1, 1))))
    found = allocate(model, 500 / 3, "harvest")
    assert [(harvest.share, harvest.segments) for harvest in found.harvests] == [(pytest.approx(1), ((1,), ()))]
    assert found.results == pytest.approx(500 * 2.5 * 0.8)
    half = allocate(model, 500 / 3 + 700 / 8, "harvest")
    assert [(harvest.share, harvest.segments) for harvest in half.harvests] == [
        (pytest.approx(0.5), ((1,), ())),
        (pytest.approx(0.5), ((1,), (0,))),
    ]
    assert half.results == pytest.approx(500 * 2.5 * 0.8 + 700 * 5 / 8)


@pytest.mark.parametrize("seed", range(40))
def test_for_one_join_it_is_the_best_there_is(seed: int) -> None:
    rng = seeded(seed)
    model = with_profiles(rng, tame_model(rng, 2))
    budget = rng.uniform(0, 1.1) * saturation(model)
    assert allocate(model, budget, "harvest").results == pytest.approx(best_of_a_join(model, budget), abs=1e-9)


@pytest.mark.parametrize("seed", range(40))
def test_work_and_results_are_those_of_the_segments(seed: int) -> None:
    rng = seeded(seed)
    model = with_profiles(rng, random_model(rng))
    budget = rng.uniform(0.01, 0.99) * saturation(model)
    found = allocate(model, budget, "harvest")
    assert sum(harvest.share for harvest in found.harvests) == pytest.approx(1)
    parts = [(harvest.share, *naive_flow(model, list(harvest.segments))) for harvest in found.harvests]
    assert found.results == pytest.approx(math.fsum(share * results for share, _, results in parts))
    assert found.granted == pytest.approx(math.fsum(share * work for share, work, _ in parts))
    assert found.granted == pytest.approx(budget)  # so the further work of every choice was foreseen


@pytest.mark.parametrize("seed", range(20))
def test_without_correlation_grepp_yields_at_least_as_much(seed: int) -> None:
    rng = seeded(seed)
    model = random_model(rng)
    budget = rng.uniform(0.05, 0.95) * saturation(model)
    assert allocate(model, budget, "harvest").results <= allocate(model, budget, "grepp").results * (1 + 1e-9)


def test_with_strong_correlation_it_yields_more() -> None:
    model = tame_model(seeded(1), 3)
    correlated = [replace(half_way, profile=(97, 1, 1, 1)) for half_way in model.half_ways]
    model = replace(model, half_ways=tuple(correlated))
    budget = saturation(model) / 4
    assert allocate(model, budget, "harvest").results > 2 * allocate(model, budget, "grepp").results
