"""Time in a bucket: the slowest stream decides, unless it sleeps."""

from __future__ import annotations

from thalweg.engine.time_bounds import NEVER
from thalweg.spark.watermarks import Watermarks


def test_the_slowest_stream_decides() -> None:
    marks = Watermarks((5, 0))
    marks.hear(0, 100, moment=1)
    assert marks.advance(1) == NEVER  # the other has not begun
    marks.hear(1, 50, moment=2)
    assert marks.advance(2) == 50
    marks.hear(1, 200, moment=3)
    assert marks.advance(3) == 95


def test_nothing_waits_for_a_static_relation() -> None:
    marks = Watermarks((None, 5), idle_timeout=10)
    marks.hear(1, 100, moment=1)
    assert marks.advance(1) == 95
    assert marks.advance(50) == 95


def test_it_never_goes_back() -> None:
    marks = Watermarks((0,))
    marks.hear(0, 100, moment=1)
    assert marks.advance(1) == 100
    marks.hear(0, 70, moment=2)
    assert marks.advance(2) == 100


def test_tasks_may_be_heard_in_any_order() -> None:
    marks = Watermarks((0,))
    marks.hear(0, 100, moment=1)
    marks.hear(0, 70, moment=1)
    marks.hear(0, None, moment=1)
    assert marks.advance(1) == 100


def test_a_silent_stream_is_left_out_after_the_timeout_and_counts_again_when_it_speaks() -> None:
    marks = Watermarks((0, 0), idle_timeout=10)
    marks.hear(0, 100, moment=1)
    assert marks.advance(1) == NEVER
    marks.hear(0, 200, moment=11)
    assert marks.advance(11) == NEVER  # silent since the first batch, for exactly the timeout
    marks.hear(0, 300, moment=12)
    assert marks.advance(12) == 300
    marks.hear(0, 400, moment=13)
    marks.hear(1, 310, moment=13)
    assert marks.advance(13) == 310


def test_if_all_are_silent_time_stands_still() -> None:
    marks = Watermarks((0,), idle_timeout=10)
    marks.hear(0, 100, moment=1)
    marks.advance(1)
    assert marks.advance(100) == 100


def test_a_batch_of_commands_alone_has_no_moment() -> None:
    marks = Watermarks((0, 0), idle_timeout=10)
    marks.hear(0, 100, moment=1)
    marks.advance(1)
    assert marks.advance(None) == NEVER


def test_silence_before_a_run_does_not_count() -> None:
    marks = Watermarks((0, 0), idle_timeout=10)
    marks.hear(0, 100, moment=1)
    marks.hear(1, 100, moment=1)
    assert marks.advance(1) == 100
    marks.wake()
    assert marks.advance(None) == 100  # a batch that does not say what time it is
    restored = Watermarks((0, 0), idle_timeout=10)
    restored.restore(marks.to_json())
    restored.hear(0, 900, moment=1_000)
    assert restored.advance(1_000) == 100  # the other one may still speak
    restored.hear(0, 950, moment=1_011)
    assert restored.advance(1_011) == 950


def test_it_goes_on_where_it_was() -> None:
    marks = Watermarks((0, 3), idle_timeout=10)
    marks.hear(0, 100, moment=1)
    marks.hear(1, 90, moment=1)
    marks.advance(1)
    other = Watermarks((0, 3), idle_timeout=10)
    other.restore(marks.to_json())
    assert other == marks
