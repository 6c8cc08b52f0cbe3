"""What the buckets of one replay did together: queries that leave and come again have one bucket after the other."""

from __future__ import annotations

import pytest

from thalweg.options import Options
from thalweg.replayer import open_replays, run

JOIN = "FROM a, b WHERE a.k = b.k WINDOW RANGE 4 MICROSECONDS"
TEXT = f"CREATE QUERY all AS SELECT a.ts {JOIN}; CREATE QUERY again AS SELECT a.ts {JOIN}"
STREAMS = {name: {"ts": list(range(8)), "k": [1] * 8} for name in "ab"}


def test_buckets_add_up() -> None:
    """Both queries are away while the tuples of two instants come."""
    away = [(6, name, "leave") for name in ("all", "again")] + [(10, name, "enter") for name in ("all", "again")]
    (replay,) = open_replays(TEXT, STREAMS, entries=away, options=Options(adaptive=False))
    list(replay.steps())
    first, last = replay.result("all").summary, replay.result("again").summary
    assert (first.probes, first.candidates) == (last.probes, last.candidates)
    assert first.probes == 16 - 4
    assert first.results == 9 + 9  # three instants each time, all within four microseconds
    assert [(size.name, size.tuples) for size in first.states] == [("a", 3), ("b", 3)]
    assert first.chains == {"a": (4,), "b": (4,)}


def test_who_runs_a_query_is_told_of_arguments_that_there_are_not() -> None:
    with pytest.raises(TypeError, match="optons"):
        run(TEXT, STREAMS, query="all", optons={})  # type: ignore[call-arg]
