"""Queries that enter a run, or are refused: what becomes of those that are there. Without Spark."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.spark.simulated import SimulatedQuery, shared_spec
from thalweg.cql import Source
from thalweg.spark.record import Former
from thalweg.spark.run import Run
from thalweg.spark.shared_run import Registered

TIME = pa.timestamp("us")
SCHEMA = pa.schema([("ts", TIME), ("k", pa.int64()), ("s", pa.string())])
CATALOG = {name: Source(SCHEMA, "ts") for name in ("a", "b")}
JOIN = "FROM a, b WHERE a.k = b.k"
STAYS = f"SELECT a.ts AS at, b.ts AS bt {JOIN} WINDOW RANGE 50 SECONDS"
LEAVING = f"SELECT DSTREAM a.ts AS at, b.ts AS bt {JOIN} WINDOW RANGE 50 SECONDS"
ENTER = {"command": "enter", "name": "new", "text": f"SELECT a.s {JOIN} WINDOW RANGE 5 SECONDS"}
END = {"command": "end"}


class Playing:
    """A run of one bucket, whose queries are there from the beginning."""

    def __init__(self, directory: Path, troubled: float = 0.0, **texts: str) -> None:
        registered = tuple(Registered(name, text) for name, text in texts.items())
        carried = {name: tuple(SCHEMA.names) for name in CATALOG}
        run = Run("run1", registered[0].text, 1, registered, CATALOG, carried)
        spec = shared_spec(run, registered, 0)
        self.query = SimulatedQuery(spec, run.partitioning, random.Random(3), directory, troubled)

    def batch(self, *seconds: int, text: str = "7", commands: tuple[dict[str, str], ...] = ()) -> list[str]:
        """Rows of these seconds in both streams; the refusals."""
        times = np.array(seconds, np.int64) * 1_000_000
        rows = pa.table(
            [pa.array(times).cast(TIME), pa.array([1] * len(times)), pa.array([text] * len(times))], schema=SCHEMA
        )
        given = (rows, times.tolist())
        self.query.batch([given, given], commands)
        refused: Any = self.query.buckets[0].metrics[-1]["refused"]
        return list(refused)

    def count(self, name: str) -> int:
        return len(self.query.answer(name))


def test_a_query_may_enter_with_the_batch_that_ends_the_input(tmp_path: Path) -> None:
    played = Playing(tmp_path, stays=STAYS, leaving=LEAVING)
    played.batch(1, 2, 3)
    assert played.batch(4, commands=(END, ENTER)) == []
    assert (played.count("stays"), played.count("leaving")) == (16, 16)
    assert played.count("new") == 7  # those with a row of the last batch


def test_a_query_may_leave_with_the_batch_that_ends_the_input(tmp_path: Path) -> None:
    played = Playing(tmp_path, stays=STAYS, leaving=LEAVING)
    played.batch(1, 2, 3)
    assert played.batch(4, commands=(END, {"command": "leave", "name": "leaving"})) == []
    assert (played.count("stays"), played.count("leaving")) == (16, 0)


def test_a_query_whose_selection_fails_for_what_is_held_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    text = f"SELECT a.s {JOIN} AND CAST(a.s AS INT) > 0 WINDOW RANGE 5 SECONDS"
    played = Playing(tmp_path, 0.5, stays=STAYS, leaving=LEAVING)
    played.batch(1, 2, 3, text="no number")
    [refused] = played.batch(4, commands=({**ENTER, "text": text},))
    assert "'CAST(a.s AS INT) > 0' cannot be computed for some row" in refused
    played.batch(5)
    played.batch(commands=(END,))
    assert (played.count("stays"), played.count("leaving"), played.count("new")) == (25, 25, 0)


def test_a_record_grows_with_what_changes_and_not_with_who_is_there(tmp_path: Path) -> None:
    played = Playing(tmp_path, stays=STAYS)
    sizes = []
    for number in range(24):
        played.batch(number + 1, commands=({**ENTER, "name": f"new{number}"},))
        record, _ = played.query.buckets[0].committed
        assert record is not None
        sizes.append(len(json.dumps(json.loads(record)["former"])))
    assert sizes[-1] < 24 * 40  # the texts alone have 70 characters


@pytest.mark.parametrize(
    ("before", "after"), [("abc", "abcd"), ("abc", "ac"), ("abc", "bde"), ("a", "b"), ("abcd", "d"), ("ab", "ab")]
)
def test_who_was_there_follows_from_what_has_changed(before: str, after: str) -> None:
    there, then = (tuple(Registered(name, f"text of {name}") for name in names) for names in (before, after))
    former = Former.of(3, 5, there, then)
    assert former.before(then) == there


def test_a_query_that_comes_again_with_another_text_is_another_one() -> None:
    there, then = (Registered("a", "one"), Registered("b", "two")), (Registered("b", "two"), Registered("a", "three"))
    former = Former.of(3, 5, there, then)
    assert (former.entered, former.left, former.before(then)) == (1, ((0, there[0]),), there)
