"""Windows of several slices: filled, purged, moved, loaded anew; tuples with the lineage that their masks say."""

from __future__ import annotations

import random
from collections import Counter
from itertools import product

import numpy as np
import pytest

from tests.engine.rstu import pipeline, rstu
from thalweg.engine.join.engine import JoinEngine
from thalweg.engine.kernels.compiled import Int64s
from thalweg.engine.rows.encoding import mix
from thalweg.engine.time_bounds import NEVER
from thalweg.plan.slices import Slicing
from thalweg.policies import Policies
from thalweg.settings import Production

ENDS = (10, 25, 40)
"""Of the slices of every stream, each also the reach of a selection."""
REACH = ENDS
Event = tuple[int, int, int, int]
"""Stream, time, key, mask."""
SLICING = Slicing(3, (ENDS,) * 4, (REACH,) * 4, is_aged=True)
PLAN = pipeline("((R S) T) U")


def events(seed: int, count: int = 160) -> list[Event]:
    rng = random.Random(seed)
    return [(rng.randrange(4), time, rng.randrange(3), rng.randrange(8)) for time in range(count)]


def slice_of(mask: int) -> int:
    """Which slice keeps a tuple: that of the longest reach of its selections."""
    return max([0, *(bit for bit in range(3) if mask >> bit & 1)])


def words(engine: JoinEngine, coming: list[Event], first: list[int]) -> list[Int64s]:
    """Events as an engine takes them; ``first`` has the number of the next row of each stream."""
    matrices = []
    for stream, layout in enumerate(engine.layouts):
        mine = [event for event in coming if event[0] == stream]
        matrix = np.zeros((len(mine), layout.offered), np.int64)
        for i, (_, time, key, mask) in enumerate(mine):
            matrix[i, :2] = time, first[stream] + i
            matrix[i, layout.codes[0]] = mix(np.array([key]))[0]
            matrix[i, layout.offered_mask] = mask
            matrix[i, layout.width] = slice_of(mask) * 4
        first[stream] += len(mine)
        matrices.append(matrix)
    return matrices


def naive(coming: list[Event]) -> Counter[tuple[int, ...]]:
    """Row numbers, and one of the selections that the result is within the reach of."""
    found: Counter[tuple[int, ...]] = Counter()
    streams = [[event for event in coming if event[0] == s] for s in range(4)]
    for rows in product(*(range(len(mine)) for mine in streams)):
        parts = [streams[s][row] for s, row in enumerate(rows)]
        times = [time for _, time, _, _ in parts]
        if len({key for _, _, key, _ in parts}) == 1:
            for bit in range(3):
                if all(mask >> bit & 1 for *_, mask in parts) and max(times) - min(times) < REACH[bit]:
                    found[(*rows, bit)] += 1
    return found


def taken(engine: JoinEngine) -> Counter[tuple[int, ...]]:
    """What the engine finds, told apart by mask and ages."""
    found: Counter[tuple[int, ...]] = Counter()
    for block in engine.advance():
        for row in block.tolist():
            mask, ages = row[6], row[7:]
            found.update((*row[2:6], bit) for bit in range(3) if mask >> bit & 1 and max(ages) < REACH[bit])
    return found


def alive(coming: list[Event], stream: int, place: int, now: int) -> int:
    return sum(
        1
        for s, time, _, mask in coming
        if s == stream and mask and slice_of(mask) == place and time + ENDS[place] > now
    )


@pytest.mark.parametrize("production", ["push", "jit"])
@pytest.mark.parametrize("seed", range(3))
def test_results_and_what_is_held(seed: int, production: Production) -> None:
    coming = events(seed)
    engine = JoinEngine(rstu(40), PLAN, policies=Policies(production=production), slicing=SLICING)
    found: Counter[tuple[int, ...]] = Counter()
    first, rng = [0] * 4, random.Random(seed)
    for start in range(0, len(coming), 20):
        engine.offer(words(engine, coming[start : start + 20], first))
        found += taken(engine)
        for stream in range(4):
            held = [alive(coming[: start + 20], stream, place, start + 19) for place in range(3)]
            assert engine.windows.slice_sizes(stream) == held
        number = rng.randrange(12)  # a slice moves, and is found again
        engine.windows.double(number)
        engine.windows.index(number)
    assert sum(found.values()) > 100
    assert found == naive(coming)


@pytest.mark.parametrize("plan", ["((R S) T) U", "(R S) (T U)"])
def test_an_engine_goes_on_with_what_another_held(plan: str) -> None:
    coming, first = events(7), [0] * 4
    old = JoinEngine(rstu(40), PLAN, slicing=SLICING)
    old.offer(words(old, coming[:80], first))
    found = taken(old)
    engine = JoinEngine(rstu(40), pipeline(plan), slicing=SLICING)
    held = []
    for stream, layout in enumerate(engine.layouts):
        kept = old.tuples(stream)
        assert kept.shape[1] == layout.width
        slices = [4 * slice_of(mask) for mask in kept[:, layout.offered_mask].tolist()]
        held.append(np.column_stack([kept, np.array(slices, np.int64)]))
    engine.load(held, 79)
    for stream in range(4):
        assert engine.windows.slice_sizes(stream) == old.windows.slice_sizes(stream)
    engine.offer(words(engine, coming[80:], first))
    found += taken(engine)
    assert found == naive(coming)


def test_rows_lie_in_their_slice_and_are_found_by_number() -> None:
    engine = JoinEngine(rstu(40), PLAN, slicing=SLICING)
    first = [0] * 4
    engine.offer(words(engine, [(0, time, 0, mask) for time, mask in enumerate([1, 2, 4, 3, 7, 0])], first))
    taken(engine)
    windows = engine.windows
    assert windows.slice_sizes(0) == [1, 2, 2]  # the last event joins nothing
    assert sorted(windows.rows(0).tolist()) == [0, 1, 2, 3, 4]
    assert windows.held(0) == 5
    assert windows.first_rows()[0] == 0
    assert engine.held(1) == 0


def test_what_is_over_goes_slice_by_slice() -> None:
    engine = JoinEngine(rstu(40), PLAN, slicing=SLICING)
    first = [0] * 4
    engine.offer(words(engine, [(0, 0, 0, 1), (0, 0, 0, 2), (0, 0, 0, 4)], first))
    taken(engine)
    sizes = []
    for now in (9, 10, 24, 25, 39, 40):
        engine.offer(words(engine, [(1, now, 1, 1)], first))
        taken(engine)
        sizes.append(engine.windows.slice_sizes(0))
    assert sizes == [[1, 1, 1], [0, 1, 1], [0, 1, 1], [0, 0, 1], [0, 0, 1], [0, 0, 0]]
    assert engine.windows.first_rows()[0] == np.iinfo(np.int64).max


def test_a_window_that_never_ends_has_no_age_that_is_too_great() -> None:
    slicing = Slicing(2, ((10, None),) * 4, ((10, None),) * 4, is_aged=True)
    engine = JoinEngine(rstu(40), pipeline("((R S) T) U").keeping_none(), slicing=slicing)
    matrices = []
    for stream, layout in enumerate(engine.layouts):
        matrix = np.zeros((1, layout.offered), np.int64)
        matrix[0, :2] = NEVER if stream else 2**60, 0
        matrix[0, layout.offered_mask], matrix[0, layout.width] = 0b10, 4
        matrices.append(matrix)
    engine.offer(matrices)
    assert sum(len(block) for block in engine.advance()) == 1
