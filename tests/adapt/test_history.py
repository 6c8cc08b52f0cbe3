"""The plans of a bucket, and how their states fill."""

from __future__ import annotations

import json

from thalweg.adapt.history import History
from thalweg.engine.observations import StoreSize

BASE = StoreSize(frozenset({0}), 10, None, 80)


def state(tuples: int, live_keys: int | None) -> StoreSize:
    return StoreSize(frozenset({0, 1}), tuples, live_keys, 800)


def test_a_state_remembers_how_it_began() -> None:
    history = History("AB")
    history.begin(0, "(A B) C keeping A⋈B", "chosen for the first rows")
    history.update(100, [BASE, state(0, 0)])
    history.update(50, [BASE, state(7, 3)])
    history.update(50, [BASE, state(9, None)])
    [period] = history.periods
    assert (history.changes, history.position) == (0, 200)
    [progress] = period.states
    assert (progress.state, progress.complete_at_start) == ("A⋈B", False)
    assert (progress.entries, progress.live_keys) == (9, None)
    assert progress.course == [[100, 0], [150, 3]]
    assert progress.completed_at == 200


def test_the_course_of_a_long_completion_is_thinned() -> None:
    history = History("AB")
    history.begin(0, "(A B) C keeping A⋈B", "chosen for the first rows", time=17)
    for keys in range(1000):
        history.update(10, [state(keys, keys)])
    [period] = history.periods
    [progress] = period.states
    assert period.time == 17
    assert 4 <= len(progress.course) <= 8
    assert progress.course == sorted(progress.course)
    assert (progress.course[0], progress.course[-1]) == ([10, 0], [10_000, 999])
    assert progress.completed_at is None


def test_a_plan_may_change_in_the_middle_of_a_batch() -> None:
    history = History("AB")
    history.begin(0, "one", "chosen for the first rows")
    history.update(100, [state(5, None)])
    history.begin(1, "another", "it pays", taken=30)
    history.update(0, [state(0, 0)])
    history.update(50, [state(9, None)])  # complete by the end of the batch
    assert [period.position for period in history.periods] == [0, 130]
    assert history.position == 150
    [progress] = history.periods[-1].states
    assert not progress.complete_at_start


def test_only_the_last_stretches_are_remembered_and_all_are_counted() -> None:
    history = History("AB")
    for batch in range(40):
        history.begin(batch, f"plan {batch}", "why not")
        history.update(10, [state(batch, None)])
    assert history.changes == 39
    assert [period.batch for period in history.periods] == list(range(24, 40))
    assert history.periods[-1].position == 390
    restored = History("AB")
    restored.restore(json.loads(json.dumps(history.to_json())))
    assert restored.periods == history.periods
    assert restored.to_json() == history.to_json()


def test_a_bucket_without_a_plan_has_no_history() -> None:
    history = History("AB")
    history.update(10, [BASE])
    assert history.periods == []
