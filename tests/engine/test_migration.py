"""The policies by which a plan is changed, each against a join that never changed it."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from tests.engine.rstu import Event, Feeder, pipeline, rstu, some_events, words
from thalweg.cql.query import AttributeClass
from thalweg.engine.join.engine import JoinEngine
from thalweg.engine.migration.joiner import open_joiner
from thalweg.policies import Policies
from thalweg.settings import Migration

PLANS = ["((R S) T) U", "((S T) R) U", "((U T) S) R", "(R U) (S T)", "((T U) R) S"]
CORRECT: tuple[Migration, ...] = ("jisc", "moving_state", "parallel_track", "parallel_track_printed")


PRINTED = "jisc as printed"
"""No policy that a user could choose."""


def migrated(migration: str, seed: int, changes: int = 3) -> tuple[Feeder, Feeder]:
    """(a join that changes its plan, some of the times twice in a row; one that does not)."""
    rng = random.Random(seed)
    query = rstu(width=rng.choice([20, 60, 120]))
    if migration == PRINTED:
        changing = Feeder(query, JoinEngine(query, pipeline(PLANS[0]), as_printed=True))
    else:
        changing = Feeder(query, open_joiner(query, pipeline(PLANS[0]), policies=Policies(migration)))
    steady = Feeder(query, JoinEngine(query, pipeline(PLANS[0])))
    start = 0
    for _ in range(changes):
        events = some_events(rng, rng.choice([3, 40, 100]), 10, start=start)
        start += len(events)
        for feeder in (changing, steady):
            feeder.feed(events)
        for _ in range(rng.choice([1, 1, 2])):
            changing.joiner.transition(pipeline(rng.choice(PLANS)))
    events = some_events(rng, 300, 10, start=start)
    for feeder in (changing, steady):
        feeder.feed(events)
    return changing, steady


@pytest.mark.parametrize("migration", CORRECT)
def test_no_policy_changes_the_answer(migration: Migration) -> None:
    for seed in range(40):
        changing, steady = migrated(migration, seed)
        assert changing.results == steady.results, seed


def test_the_printed_procedure_loses_results() -> None:
    """JISC's procedure 1 finds some entry of a key in ST, and takes it for all of them."""
    example: list[Event] = [("S", 0, 7), ("T", 1, 7), ("U", 2, 7)]
    later: list[Event] = [("S", 10, 7), ("R", 11, 7)]
    answers = {}
    for as_printed in (False, True):
        query = rstu()
        feeder = Feeder(query, JoinEngine(query, pipeline("((R S) T) U"), as_printed=as_printed))
        feeder.feed(example)
        feeder.joiner.transition(pipeline("((S T) R) U"))
        feeder.feed(later)
        answers[as_printed] = feeder.results
    assert answers[False] == Counter({(0, 0, 0, 0): 1, (0, 1, 0, 0): 1})
    assert answers[True] == Counter({(0, 1, 0, 0): 1})


def test_the_printed_procedure_loses_results_in_many_random_runs() -> None:
    losing = 0
    for seed in range(60):
        changing, steady = migrated(PRINTED, seed)
        assert changing.results <= steady.results, f"seed {seed}: results that are none"
        losing += changing.results != steady.results
    assert losing > 20


@pytest.mark.parametrize("new", PLANS[1:])
def test_moving_state_leaves_nothing_to_complete(new: str) -> None:
    """After the change, states hold what they would if the new plan had run from the start."""
    query = rstu(width=500)
    events = some_events(random.Random(4), 3000, 150)
    moved = Feeder(query, open_joiner(query, pipeline(PLANS[0]), policies=Policies("moving_state")))
    always = Feeder(query, JoinEngine(query, pipeline(new)))
    for feeder in (moved, always):
        feeder.feed(events)
    moved.joiner.transition(pipeline(new))
    assert set(moved.states().values()) == {None}
    assert moved.entries() == always.entries()
    assert moved.joiner.work.completions == 0


def test_moving_state_fills_states_whose_key_spans_streams() -> None:
    """Also where no single stream carries the key, so that keys cannot be listed."""
    query = rstu(width=500, names="ABC")
    by_x = AttributeClass({0: None, 2: None}, pa.int64())  # type: ignore[dict-item]
    by_y = AttributeClass({1: None, 2: None}, pa.int64())  # type: ignore[dict-item]
    query = replace(query, classes=(by_x, by_y))
    rng = random.Random(5)
    plans = [pipeline("(A C) B", "ABC"), pipeline("(A B) C", "ABC")]
    answers = []
    for migration in ("jisc", "moving_state"):
        rng.seed(5)
        joiner = open_joiner(query, plans[0], policies=Policies(migration))
        found: Counter[tuple[int, ...]] = Counter()
        for part in range(4):
            batch = [np.zeros((30, width), np.int64) for width in (3, 3, 4)]
            for matrix in batch:
                matrix[:, 0] = np.arange(30 * part, 30 * (part + 1))
                matrix[:, 1] = np.arange(30 * part, 30 * (part + 1))
                matrix[:, 2:] = [[rng.randrange(6) for _ in row] for row in matrix[:, 2:]]
            joiner.offer(batch)
            for block in joiner.advance():
                found.update(tuple(map(int, row[2:])) for row in block)
            joiner.transition(plans[(part + 1) % 2])
        answers.append(found)
        complete = all(size.live_keys is None for size in joiner.sizes())
        assert complete == (migration == "moving_state")
    assert answers[0] == answers[1] != Counter()


@pytest.mark.parametrize("migration", ["parallel_track", "parallel_track_printed"])
@pytest.mark.parametrize("rows", [None, 20], ids=["RANGE", "ROWS"])
def test_old_plans_end_when_their_old_tuples_have_left(migration: Migration, rows: int | None) -> None:
    query = rstu(width=100, rows=rows)
    feeder = Feeder(query, open_joiner(query, pipeline(PLANS[0]), policies=Policies(migration)))
    rng = random.Random(6)

    def windows() -> int:
        return sum(size.node == frozenset({0}) for size in feeder.joiner.sizes())

    feeder.feed(some_events(rng, 200, 12))
    assert windows() == 1
    feeder.joiner.transition(pipeline(PLANS[1]))
    feeder.joiner.transition(pipeline(PLANS[2]))  # the one before got no tuple: nothing is begun twice
    feeder.feed(some_events(rng, 5, 12, start=200))
    assert windows() == 2
    feeder.joiner.transition(pipeline(PLANS[3]))
    feeder.feed(some_events(rng, 5, 12, start=205))
    assert windows() == 3
    assert feeder.joiner.plan == pipeline(PLANS[3])
    feeder.feed(some_events(rng, 3000, 12, start=210))
    assert windows() == 1
    work = feeder.joiner.work
    assert work.tuples == 3210
    assert 0 < work.duplicates < work.checked
    assert work.results == sum(feeder.results.values())
    feeder.feed(some_events(rng, 300, 12, start=3210))
    assert feeder.joiner.work.checked == work.checked  # one plan needs no elimination


@pytest.mark.parametrize("migration", ["parallel_track", "parallel_track_printed"])
def test_a_death_is_reported_once(migration: Migration) -> None:
    query = rstu(rows=10)
    rng = random.Random(7)
    parts = [some_events(rng, 50, 12, start=start) for start in range(0, 600, 50)]
    reports = []
    for policy in ("jisc", migration):
        feeder = Feeder(query, open_joiner(query, pipeline(PLANS[0]), policies=Policies(policy)))
        died: Counter[tuple[int, ...]] = Counter()
        for i, part in enumerate(parts):
            feeder.feed(part)
            if i % 3 < 2:
                feeder.joiner.transition(pipeline(PLANS[i % len(PLANS)]))
            if i % 2:
                died.update(tuple(map(int, death)) for death in feeder.joiner.take_deaths())
        died.update(tuple(map(int, death)) for death in feeder.joiner.take_deaths())
        reports.append(died)
    assert reports[0] == reports[1]
    assert max(reports[0].values()) == 1


@pytest.mark.parametrize("migration", CORRECT)
def test_loaded_windows_join_what_comes(migration: Migration) -> None:
    """A restart is a change from the empty plan: windows are there, and their results were emitted before."""
    query = rstu(width=100)
    events = some_events(random.Random(8), 400, 10)
    whole = Feeder(query, JoinEngine(query, pipeline(PLANS[0])))
    whole.feed(events[:200])
    before = whole.results.copy()
    whole.feed(events[200:])

    restarted = Feeder(query, open_joiner(query, pipeline(PLANS[0]), policies=Policies(migration)))
    restarted.joiner.load(words(query, events[:200]), 199)
    restarted.skip(events[:200])
    restarted.feed(events[200:300])
    restarted.joiner.transition(pipeline(PLANS[2]))
    restarted.feed(events[300:])
    assert restarted.results == whole.results - before
