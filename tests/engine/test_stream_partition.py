"""Selection push-down answers as every other way to share a join does, and is counted as the joins that it is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import thalweg
from thalweg.cql import Source, bind
from thalweg.cql.group import Group, grouped
from thalweg.engine.image.image import write_image
from thalweg.engine.join_bucket import JoinBucket
from thalweg.engine.migration.stream_partition import StreamPartition
from thalweg.engine.rows.batch import Batch
from thalweg.errors import OptionError, PlanError, ThalwegError
from thalweg.options import Options
from thalweg.plan.tree import parse_plan
from thalweg.policies import Policies

PAPER = """
CREATE QUERY q1 AS SELECT a.id, b.id AS other FROM a, b WHERE a.k = b.k WINDOW RANGE 10 MICROSECONDS;
CREATE QUERY q2 AS SELECT a.id, b.id AS other FROM a, b WHERE a.k = b.k AND a.v < 30 WINDOW RANGE 40 MICROSECONDS;
CREATE QUERY q3 AS SELECT a.id, b.id AS other FROM a, b WHERE a.k = b.k AND a.v < 30 WINDOW RANGE 90 MICROSECONDS
"""
BOTH_SIDES = """
CREATE QUERY few AS SELECT a.id, c.id AS other FROM a [RANGE 20 MICROSECONDS], b [RANGE 50 MICROSECONDS],
  c [RANGE 30 MICROSECONDS] WHERE a.k = b.k AND b.k = c.k AND a.v < 40 AND c.v >= 20;
CREATE QUERY left_over AS SELECT DSTREAM b.id FROM a, b, c WHERE a.k = b.k AND b.k = c.k AND b.v < 50
  WINDOW RANGE 25 MICROSECONDS;
CREATE QUERY counted AS SELECT a.k, COUNT(*) AS n FROM a, b, c WHERE a.k = b.k AND b.k = c.k AND a.v < 60
  GROUP BY a.k WINDOW RANGE 40 MICROSECONDS
"""
COMPARED = """
CREATE QUERY near AS SELECT a.id, b.id AS other FROM a, b WHERE a.v < b.v AND a.k = 1 WINDOW RANGE 15 MICROSECONDS;
CREATE QUERY far AS SELECT a.id, b.id AS other FROM a, b WHERE a.v < b.v AND b.k = 2 WINDOW RANGE 35 MICROSECONDS
"""
SCHEMA = pa.schema({"ts": pa.int64(), "k": pa.int64(), "v": pa.int64(), "id": pa.int64()})


def streams(seed: int, names: str = "abc", rows: int = 150, span: int = 400) -> dict[str, pa.Table]:
    rng = np.random.default_rng(seed)
    tables = {}
    for name in names:
        times = np.sort(rng.integers(0, span, rows))
        columns = [times, rng.integers(0, 4, rows), rng.integers(0, 100, rows), np.arange(rows)]
        tables[name] = pa.table(columns, schema=SCHEMA)
    return tables


def in_order(table: pa.Table) -> pa.Table:
    return table.sort_by([(name, "ascending") for name in table.column_names])


def answers(text: str, tables: dict[str, pa.Table], sharing: str, **more: object) -> dict[str, pa.Table]:
    options = {"sharing": sharing, "batch_size": 64, **more.pop("options", {})}  # type: ignore[dict-item]
    found = thalweg.replay(text, tables, options=options, **more)  # type: ignore[arg-type]
    assert isinstance(found, dict)
    return {name: in_order(table) for name, table in found.items()}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("text", [PAPER, BOTH_SIDES, COMPARED], ids=["paper", "both sides", "compared"])
def test_all_ways_to_share_answer_alike(text: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("thalweg.engine.migration.stream_partition._STRETCH", 50)
    tables = streams(seed, "abc" if "c [" in text else "ab")
    expected = answers(text, tables, "none")
    assert all(table.num_rows > 20 for table in expected.values())
    for sharing in ("push_down", "memory", "pull_up"):
        assert answers(text, tables, sharing) == expected, sharing


@pytest.mark.parametrize("migration", ["jisc", "moving_state"])
def test_plans_change_while_it_runs(migration: str) -> None:
    tables = streams(5)
    changes = [(90, "(b c) a"), (200, "(a c) b"), (333, "(a b) c")]
    options = {"migration": migration, "states": "all", "plan": "(a b) c"}
    expected = answers(BOTH_SIDES, tables, "none")
    assert answers(BOTH_SIDES, tables, "push_down", transitions=changes, options=options) == expected


def test_readers_come_and_go() -> None:
    tables = streams(6, "ab")
    entries = [(60, "q3", "leave"), (100, "q2", "leave"), (140, "q2", "enter"), (200, "q3", "enter")]
    expected = answers(PAPER, tables, "memory", entries=entries)
    assert answers(PAPER, tables, "push_down", entries=entries) == expected
    assert 0 < expected["q3"].num_rows < answers(PAPER, tables, "memory")["q3"].num_rows


GROUP: Group = grouped(bind(PAPER, {name: Source(SCHEMA, "ts") for name in "ab"}))[0]
PLAN = parse_plan("a b", "ab")


def batch(table: pa.Table, first: int = 0, end: int | None = None) -> Batch:
    part = table.slice(first, None if end is None else end - first)
    return Batch(part, part["ts"].to_numpy())


def found(bucket: JoinBucket) -> dict[str, list[tuple[int, int]]]:
    rows: dict[str, list[tuple[int, int]]] = {reader.name: [] for reader in bucket.group.readers}
    for name, table in bucket.advance():
        rows[name] += zip(table["id"].to_pylist(), table["other"].to_pylist(), strict=True)
    return {name: sorted(each) for name, each in rows.items()}


def test_it_begins_with_windows_that_are_filled_and_takes_rows_in_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("thalweg.engine.migration.stream_partition._STRETCH", 16)
    tables = list(streams(7, "ab").values())
    rng = np.random.default_rng(7)
    answers = []
    for sharing in ("memory", "push_down"):
        bucket = JoinBucket(GROUP, PLAN, policies=Policies(sharing=sharing))  # type: ignore[arg-type]
        middle = [int(np.searchsorted(table["ts"].to_numpy(), 200)) for table in tables]
        bucket.load([[batch(table, 0, cut)] for table, cut in zip(tables, middle, strict=True)], 200)
        later = [table.slice(cut) for table, cut in zip(tables, middle, strict=True)]
        mixed = [table.take(rng.permutation(table.num_rows)) for table in later]
        bucket.offer([batch(table) for table in mixed], 400)
        answers.append(found(bucket))
        rng = np.random.default_rng(7)
    assert answers[0] == answers[1]
    assert all(len(each) > 20 for each in answers[0].values())


def test_it_holds_and_does_what_its_joins_do() -> None:
    tables = list(streams(8, "ab").values())
    bucket = JoinBucket(GROUP, PLAN, policies=Policies(sharing="push_down", nested_loops=True))
    bucket.offer([batch(table) for table in tables])
    results = found(bucket)
    joiner = bucket._engine
    assert isinstance(joiner, StreamPartition)
    assert len(joiner.engines) == 2, "what passes both selections, and what passes one, each with all of b"
    a, b = (table.to_pydict() for table in tables)
    now = max(*a["ts"], *b["ts"])

    def alive(stream: dict[str, list[int]], span: int, low: int = 0, high: int = 100) -> int:
        return sum(now - ts < span and low <= v < high for ts, v in zip(stream["ts"], stream["v"], strict=True))

    assert sorted((min(size.node), size.tuples) for size in joiner.sizes()) == sorted(
        [(0, alive(a, 90, high=30)), (1, alive(b, 90)), (0, alive(a, 10, low=30)), (1, alive(b, 10))]
    )
    assert joiner.work.tuples == 300
    engines = list(joiner.engines.values())
    assert joiner.work.candidates == sum(engine.work.candidates for engine in engines)
    assert joiner.work.results == sum(engine.work.results for engine in engines) > len(results["q3"])


def test_what_does_not_go_with_it_is_said() -> None:
    rows = PAPER.replace("RANGE 40 MICROSECONDS", "ROWS 5").replace("RANGE 90 MICROSECONDS", "ROWS 9")
    rows = rows.replace("RANGE 10 MICROSECONDS", "ROWS 2")
    with pytest.raises(OptionError, match="the window of 'a' counts the rows of all of it"):
        thalweg.replay(rows, streams(1, "ab"), options={"sharing": "push_down"})
    with pytest.raises(OptionError, match="does not go with migration cacq"):
        Options(sharing="push_down", migration="cacq")
    with pytest.raises(OptionError, match="does not go with a memory_limit"):
        Options(sharing="push_down", memory_limit="1 MB")


def test_too_many_parts_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("thalweg.engine.migration.stream_partition._MOST_JOINS", 1)
    with pytest.raises(PlanError, match="push_down takes more than 1 joins"):
        thalweg.replay(PAPER, streams(1, "ab"), options={"sharing": "push_down"})


def test_it_has_no_image(tmp_path: Path) -> None:
    bucket = JoinBucket(GROUP, PLAN, policies=Policies(sharing="push_down"))
    with pytest.raises(ThalwegError, match="a StreamPartition cannot be part of a bucket's image"):
        write_image(tmp_path, bucket, "1")
