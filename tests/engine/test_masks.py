"""Tuples that pass different selections: a result's mask is the AND of those of its components, and never zero."""

from __future__ import annotations

import random
from collections import Counter
from itertools import product

import numpy as np
import pytest

from tests.engine.rstu import rstu
from thalweg.engine.join.engine import JoinEngine
from thalweg.engine.rows.encoding import mix
from thalweg.plan.slices import Slicing
from thalweg.plan.tree import TreePlan, parse_plan
from thalweg.policies import Policies
from thalweg.settings import Production

WINDOW, SELECTIONS = 40, 3
Masked = tuple[int, int, int, int]
"""Stream, time, key, mask."""


def arrivals(seed: int) -> list[Masked]:
    rng = random.Random(seed)
    return [(rng.randrange(4), time, rng.randrange(4), rng.randrange(1 << SELECTIONS)) for time in range(160)]


def naive(events: list[Masked]) -> Counter[tuple[int, ...]]:
    """Row numbers of the components, then the mask."""
    found: Counter[tuple[int, ...]] = Counter()
    streams = [[event for event in events if event[0] == s] for s in range(4)]
    for key in range(4):
        alike = [[row for row, event in enumerate(mine) if event[2] == key] for mine in streams]
        for rows in product(*alike):
            parts = [streams[s][row] for s, row in enumerate(rows)]
            times = [part[1] for part in parts]
            mask = parts[0][3] & parts[1][3] & parts[2][3] & parts[3][3]
            if mask and max(times) - min(times) < WINDOW:
                found[(*rows, mask)] += 1
    return found


def words(engine: JoinEngine, events: list[Masked], first: list[int]) -> list[np.ndarray]:
    matrices = []
    for stream, layout in enumerate(engine.layouts):
        mine = [event for event in events if event[0] == stream]
        matrix = np.zeros((len(mine), layout.offered), np.int64)
        for i, (_, time, key, mask) in enumerate(mine):
            matrix[i, :2] = time, first[stream] + i
            matrix[i, layout.codes[0]] = mix(np.array([key]))[0]
            matrix[i, layout.offered_mask] = mask
            matrix[i, layout.width] = 0
        first[stream] += len(mine)
        matrices.append(matrix)
    return matrices


@pytest.mark.parametrize("production", ["push", "jit"])
@pytest.mark.parametrize("seed", range(3))
def test_results_pass_the_selections_that_all_of_their_components_pass(seed: int, production: Production) -> None:
    events = arrivals(seed)
    plans = [parse_plan(text, "RSTU") for text in ("((R S) T) U", "((U S) T) R", "(R T) (S U)")]
    kept = [plan.keeping_all() for plan in plans if isinstance(plan, TreePlan)]
    windows = ((WINDOW,),) * 4, ((WINDOW,) * SELECTIONS,) * 4
    engine = JoinEngine(
        rstu(WINDOW),
        kept[0],
        policies=Policies(production=production),
        slicing=Slicing(SELECTIONS, *windows, is_aged=True),
    )
    found: Counter[tuple[int, ...]] = Counter()
    first = [0] * 4
    for start, plan in zip(range(0, 160, 40), (*kept, kept[0].keeping_none()), strict=True):
        engine.transition(plan)
        engine.offer(words(engine, events[start : start + 40], first))
        for block in engine.advance():
            found.update(map(tuple, block[:, 2:7].tolist()))
    assert sum(found.values()) > 100
    assert found == naive(events)
