"""Nested loops where keys could look partners up: the same answer, and every tuple or entry looked at."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from tests.engine.rstu import Event, Feeder, pipeline, rstu, some_events
from thalweg.engine.join.engine import JoinEngine
from thalweg.policies import Policies
from thalweg.settings import Migration

PLANS = ["((R S) T) U", "((U T) S) R", "(R U) (S T)", "((S T) R) U"]


def feeder(plan: str, *, nested_loops: bool, width: int = 200, migration: Migration = "jisc") -> Feeder:
    query = rstu(width=width)
    return Feeder(
        query, JoinEngine(query, pipeline(plan), policies=Policies(migration=migration, nested_loops=nested_loops))
    )


@pytest.mark.parametrize("migration", ["jisc", "moving_state"])
def test_they_answer_as_lookups_do_through_changes_of_plan(migration: Migration) -> None:
    rng = random.Random(5)
    loops, lookups = (feeder(PLANS[0], nested_loops=each, migration=migration) for each in (True, False))
    for start in range(0, 4000, 100):
        events = some_events(rng, 100, 30, start=start)
        plan = pipeline(rng.choice(PLANS))
        for each in (loops, lookups):
            each.feed(events)
            if start % 300 == 0:
                each.joiner.transition(plan)
    assert loops.results == lookups.results
    assert len(loops.results) > 1000
    work, other = loops.joiner.work, lookups.joiner.work
    if migration == "moving_state":
        assert (work.stored, work.completions) == (other.stored, other.completions)
    else:  # without an access path no window can tell that a key is void
        assert work.completions > other.completions
    assert work.candidates > 10 * other.candidates


def test_a_probe_looks_at_everything_in_its_window_or_state() -> None:
    events: list[Event] = [("R", 0, 1), ("R", 1, 2), ("S", 2, 1), ("S", 3, 2), ("S", 4, 3), ("T", 5, 1), ("R", 6, 4)]
    loops = feeder("((R S) T) U", nested_loops=True)
    seen = [0]
    for event in events:
        loops.feed([event])
        seen.append(loops.joiner.work.candidates)
    # An S is compared with both Rs; the T with both entries of RS, then U has none; the last R with all Ss.
    assert [after - before for before, after in pairwise(seen)] == [0, 0, 2, 2, 2, 2, 3]
    assert loops.entries() == {frozenset({0, 1}): 2, frozenset({0, 1, 2}): 1}


def test_they_need_no_access_paths() -> None:
    sizes = [
        {size.node: size.bytes for size in feeder("((R S) T) U", nested_loops=each).joiner.sizes()}
        for each in (True, False)
    ]
    assert all(sizes[0][frozenset({stream})] < sizes[1][frozenset({stream})] for stream in range(4))
