"""JISC on the engine: which states a change leaves complete, when they become so, and what that costs."""

from __future__ import annotations

import random

import pytest

from tests.engine.rstu import Feeder, pipeline, rstu, some_events
from thalweg.engine.join.engine import JoinEngine
from thalweg.plan.transition import classify

OLD = "((R S) T) U"


def fed(plan: str, count: int = 60, keys: int = 40) -> Feeder:
    """A pipeline that has seen some tuples."""
    query = rstu(width=1000)
    feeder = Feeder(query, JoinEngine(query, pipeline(plan)))
    feeder.feed(some_events(random.Random(1), count, keys))
    return feeder


def incomplete(feeder: Feeder) -> set[str]:
    return {name for name, live in feeder.states().items() if live is not None}


@pytest.mark.parametrize(
    ("new", "complete", "lacking"),
    [
        ("((U T) S) R", set(), {"TU", "STU"}),
        ("((S R) U) T", {"RS"}, {"RSU"}),
        ("((S T) R) U", {"RST"}, {"ST"}),
    ],
    ids=["figure 3b", "figure 3c", "figure 2b"],
)
def test_states_after_a_transition(new: str, complete: set[str], lacking: set[str]) -> None:
    feeder = fed(OLD)
    assert set(feeder.states()) == {"RS", "RST"}
    assert not incomplete(feeder)
    feeder.joiner.transition(pipeline(new))
    assert set(feeder.states()) == complete | lacking
    assert incomplete(feeder) == lacking
    expected = classify(pipeline(OLD), pipeline(new)).incomplete
    assert {frozenset(map("RSTU".index, name)) for name in lacking} == expected


def test_a_state_that_is_still_incomplete_stays_so_in_the_next_plan() -> None:
    """Figure 4: ST lacks what came before the first change, also after the second."""
    feeder = fed(OLD)
    feeder.joiner.transition(pipeline("((S T) R) U"))
    assert incomplete(feeder) == {"ST"}
    feeder.joiner.transition(pipeline("((S T) U) R"))
    assert incomplete(feeder) == {"ST", "STU"}


def test_what_was_completed_is_taken_over_by_the_next_plan() -> None:
    feeder = fed(OLD, count=400, keys=200)
    feeder.joiner.transition(pipeline("((S T) R) U"))
    feeder.feed([("R", 400, 3)])
    live = feeder.states()["ST"]
    assert live == 1
    feeder.joiner.transition(pipeline("((S T) U) R"))
    assert feeder.states()["ST"] == live


def test_nothing_is_missing_while_nothing_has_come() -> None:
    query = rstu()
    feeder = Feeder(query, JoinEngine(query, pipeline(OLD)))
    feeder.joiner.transition(pipeline("((U T) S) R"))
    assert not incomplete(feeder)


def test_a_transition_does_no_work() -> None:
    """However much the windows hold: what is missing is computed when it is asked for."""
    feeder = fed(OLD, count=2000, keys=500)
    before = feeder.joiner.work
    feeder.joiner.transition(pipeline("((U T) S) R"))
    assert feeder.joiner.work == before
    recent = some_events(random.Random(1), 2000, 500)[1100:]
    held = [{key for stream, _, key in recent if stream == name} for name in "STU"]
    feeder.feed([("R", 2000, min(set.intersection(*held)))])
    assert feeder.joiner.work.completions == 2  # that key of UTS, and of UT below it


def test_a_key_that_some_window_lacks_is_not_completed_and_found_when_its_tuple_comes() -> None:
    query = rstu(width=1000)
    feeder = Feeder(query, JoinEngine(query, pipeline(OLD)))
    feeder.feed([("S", key, key) for key in range(300)] + [("U", 300, 7)])
    feeder.joiner.transition(pipeline("((S T) R) U"))
    feeder.feed([("R", 400, 7)])
    assert feeder.joiner.work.completions == 0
    assert not feeder.results
    feeder.feed([("T", 401, 7)])
    feeder.feed([("R", 402, 7)])
    assert sum(feeder.results.values()) == 2


@pytest.mark.parametrize("partners", [1, 50], ids=["in one go", "stopping for room"])
def test_the_work_of_completing_is_counted(partners: int) -> None:
    """R's one tuple looks up STU; all else is done to complete it, and TU below."""
    query = rstu(width=1000)
    feeder = Feeder(query, JoinEngine(query, pipeline(OLD)))
    feeder.feed([(stream, i, 7) for i in range(partners) for stream in "TU"])
    feeder.feed([("S", partners, 7)])
    before = feeder.joiner.work
    assert before.completing_probes == before.completing_stored == 0
    feeder.joiner.transition(pipeline("((U T) S) R"))
    feeder.feed([("R", partners, 7)])
    work = feeder.joiner.work
    assert work.results == partners**2
    assert work.completions == 2
    assert work.completing_probes == work.probes - before.probes - 1
    assert work.completing_candidates == work.candidates - before.candidates - partners**2
    assert work.completing_stored == work.stored - before.stored == 2 * partners**2
    assert 0.5 < work.completing_share(before) < 1
    feeder.feed([("R", partners, 7)])
    assert feeder.joiner.work.completing_share(work) == 0


def test_states_become_complete() -> None:
    """Keys are completed when they are asked for; when the windows have turned, nothing is missing (JISC 4.3)."""
    query = rstu(width=2000)
    feeder = Feeder(query, JoinEngine(query, pipeline(OLD)))
    rng = random.Random(2)
    feeder.feed(some_events(rng, 2000, 300))
    feeder.joiner.transition(pipeline("((U T) S) R"))
    progress = []
    for start in range(2000, 8000, 100):
        feeder.feed(some_events(rng, 100, 300, start=start))
        progress.append(feeder.states()["STU"])
        if not incomplete(feeder):
            break
    assert feeder.states() == {"TU": None, "STU": None}, "still incomplete after three windows"
    assert progress[0] is not None
    live = [count for count in progress if count is not None]
    assert live == sorted(live)
    work = feeder.joiner.work
    assert work.states_completed == 2
    assert work.completions <= 2 * 300  # each key of each state once
    feeder.feed(some_events(rng, 1000, 300, start=8000))
    assert feeder.joiner.work.completions == work.completions  # a complete state asks for nothing


def test_keys_that_are_asked_for_in_vain_do_not_keep_a_state_incomplete(monkeypatch: pytest.MonkeyPatch) -> None:
    """S and T have no key in common: there is nothing to complete."""
    monkeypatch.setattr("thalweg.engine.states.completion._PAUSE", 1)
    query = rstu(width=10_000)
    feeder = Feeder(query, JoinEngine(query, pipeline(OLD)))
    keys = range(3000)
    feeder.feed([("S" if key % 2 else "T", key, key) for key in keys])
    feeder.joiner.transition(pipeline("((S T) R) U"))
    assert feeder.states()["ST"] == 0
    feeder.feed([("R", 3000 + key, key) for key in keys])
    assert feeder.states()["ST"] is None


def test_keys_that_have_left_all_windows_are_forgotten() -> None:
    """Live keys cost memory, so those that no tuple has are absent again when room is needed."""
    query = rstu(width=50)
    engine = JoinEngine(query, pipeline("((S T) R) U"))
    feeder = Feeder(query, engine)
    engine.states.evict(engine.workspace.nodes.index(frozenset({1, 2})), 0, 16)  # as a memory limit would
    for start in range(0, 12_000, 60):  # S and T have every key for a while, and R asks for it
        feeder.feed([("STR"[t % 3], t, t // 3) for t in range(start, start + 60)])
    (state,) = [size for size in feeder.joiner.sizes() if size.node == frozenset({1, 2})]
    assert state.live_keys is not None
    assert 0 < state.live_keys <= 600  # of 4,000 that were asked for
    assert state.bytes < 100_000


def test_a_key_without_old_tuples_in_some_window_has_nothing_to_complete() -> None:
    query = rstu(width=1000)
    feeder = Feeder(query, JoinEngine(query, pipeline(OLD)))
    feeder.feed([("S", 0, 7), ("S", 0, 8), ("T", 1, 8), ("U", 2, 7), ("U", 2, 8)])
    feeder.joiner.transition(pipeline("((S T) R) U"))
    feeder.feed([("T", 3, 7), ("R", 4, 7)])  # of key 7, T has only what came after the change
    assert feeder.joiner.work.completions == 0
    assert sum(feeder.results.values()) == 1
    feeder.feed([("R", 5, 8)])
    assert feeder.joiner.work.completions == 1
    assert sum(feeder.results.values()) == 2


def test_two_incomplete_children_become_complete_with_their_parent() -> None:
    names = "ABCDE"
    query = rstu(width=3000, names=names)
    feeder = Feeder(query, JoinEngine(query, pipeline("(((A C) B) D) E", names)))
    rng = random.Random(3)
    feeder.feed(some_events(rng, 1500, 1000, names))
    feeder.joiner.transition(pipeline("((A B) (C D)) E", names))
    assert incomplete(feeder) == {"AB", "CD"}  # the state above them was kept
    feeder.joiner.transition(pipeline("((A B) (C D)) E", names))
    for start in range(1500, 9000, 300):
        feeder.feed(some_events(rng, 300, 1000, names, start))
    assert not incomplete(feeder)


def test_an_absent_key_stores_what_comes_and_is_completed_by_what_was_there() -> None:
    query = rstu(width=1000)
    feeder = Feeder(query, JoinEngine(query, pipeline(OLD)))
    feeder.feed([("S", 0, 7), ("T", 1, 7), ("U", 2, 7)])
    feeder.joiner.transition(pipeline("((S T) R) U"))
    st = frozenset({1, 2})
    feeder.feed([("T", 3, 7)])
    assert feeder.entries()[st] == 1  # the old S with the new T
    assert feeder.states()["ST"] == 0
    feeder.feed([("R", 4, 7)])
    assert feeder.entries()[st] == 2  # and the old T
    assert feeder.states()["ST"] == 1
    assert sum(feeder.results.values()) == 2


def test_a_state_is_complete_when_one_window_has_turned() -> None:
    """Nobody asks for anything: without the last old tuple of S there is nothing that could be missing."""
    query = rstu(width=100)
    feeder = Feeder(query, JoinEngine(query, pipeline(OLD)))
    feeder.feed([("S" if t < 10 else "T", t, t % 5) for t in range(100)])
    feeder.joiner.transition(pipeline("((S T) R) U"))
    feeder.feed([("T", 108, 0)])
    assert feeder.states()["ST"] == 0
    feeder.feed([("T", 190, 0)])
    assert feeder.states()["ST"] is None
    assert feeder.joiner.work.completions == 0


def test_states_become_complete_in_windows_that_do_not_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """However few keys there are, and however many of them were absent at an earlier look (JISC 4.3)."""
    monkeypatch.setattr("thalweg.engine.states.completion._PAUSE", 1)
    for keys in (10, 400):
        query = rstu(width=10**9)
        feeder = Feeder(query, JoinEngine(query, pipeline(OLD)))
        feeder.feed([(name, 0, key) for name in "RSTU" for key in range(keys)])
        feeder.joiner.transition(pipeline("((U T) S) R"))
        for start in range(1, 6 * keys, keys // 2):
            feeder.feed([("R", start + i, (start + i) % keys) for i in range(keys // 2)])
        assert not incomplete(feeder), keys


def test_states_become_complete_however_often_the_plan_changes() -> None:
    query = rstu(width=1000)
    feeder = Feeder(query, JoinEngine(query, pipeline(OLD)))
    rng = random.Random(4)
    feeder.feed(some_events(rng, 1000, 50))
    for i in range(60):  # ST is new in the first of them, and every plan keeps it
        feeder.joiner.transition(pipeline(("((S T) R) U", "((S T) U) R")[i % 2]))
        feeder.feed(some_events(rng, 100, 50, start=1000 + 100 * i))
    assert feeder.states()["ST"] is None
