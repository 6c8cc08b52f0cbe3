"""Batches that a bucket goes through in stretches, so that its plan can change on the way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from thalweg.cql import Source, bind
from thalweg.cql.group import Group, grouped
from thalweg.engine.bucket import open_bucket
from thalweg.engine.join_bucket import JoinBucket
from thalweg.engine.rows.batch import Batch
from thalweg.engine.rows.encoding import StreamEncoder
from thalweg.plan.tree import parse_plan
from thalweg.policies import Policies

SCHEMA = pa.schema({"ts": pa.int64(), "k": pa.int64(), "id": pa.int64()})
(QUERY,) = bind(
    "SELECT a.id, b.id AS id1, c.id AS id2 FROM a, b, c WHERE a.k = b.k AND b.k = c.k WINDOW RANGE 50 MICROSECONDS",
    {name: Source(SCHEMA, "ts") for name in "abc"},
)
PLANS = [parse_plan(text, "abc").keeping_all() for text in ("(a b) c", "(b c) a", "(a c) b")]  # type: ignore[union-attr]


def batches(seed: int) -> list[Batch]:
    """Thirty rows of each stream, in no order."""
    rng = np.random.default_rng(seed)
    parts = []
    for _ in range(3):
        times = rng.integers(0, 100, 30)
        table = pa.table([times, rng.integers(0, 4, 30), np.arange(30)], schema=SCHEMA)
        parts.append(Batch(table, times))
    return parts


@pytest.mark.parametrize("migration", ["jisc", "moving_state", "parallel_track"])
def test_the_plan_may_change_within_a_batch(monkeypatch: pytest.MonkeyPatch, migration: str) -> None:
    monkeypatch.setattr("thalweg.engine.join_bucket._STRETCH", 7)
    answers = []
    for is_changing in (False, True):
        bucket = open_bucket(Group.of(QUERY), PLANS[0], policies=Policies(migration))  # type: ignore[arg-type]
        called: list[int] = []

        def change(bucket: object = bucket, called: list[int] = called) -> None:
            called.append(bucket.work.tuples)  # type: ignore[attr-defined]
            bucket.transition(PLANS[len(called) % 3])  # type: ignore[attr-defined]

        bucket.offer(batches(1), 100)
        answers.append(
            pa.concat_tables([table for _, table in bucket.advance(between=change if is_changing else None)])
        )
        assert called == (list(range(7, 90, 7)) if is_changing else [])
    still, changing = answers
    assert len(still) > 100
    order = [(name, "ascending") for name in still.column_names]
    assert changing.sort_by(order) == still.sort_by(order)


def test_selections_are_asked_again_only_of_tuples_that_nobody_else_wants(monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = {name: Source(SCHEMA, "ts") for name in "ab"}
    text = "CREATE QUERY q{} AS SELECT a.id FROM a, b WHERE a.k = b.k AND a.id >= {} WINDOW RANGE 50 MICROSECONDS"
    texts = [text.format(least, least) for least in range(80)]
    group = grouped(bind("; ".join(texts), catalog))[0]
    bucket = open_bucket(group, parse_plan("a b", "ab"), keeps_all=True)
    assert isinstance(bucket, JoinBucket)
    asked: list[int] = []
    passes = StreamEncoder.passes

    def counted(encoder: StreamEncoder, selection: Any, table: pa.Table) -> Any:
        asked.append(table.num_rows)
        return passes(encoder, selection, table)

    monkeypatch.setattr(StreamEncoder, "passes", counted)
    a, b, _ = batches(2)
    bucket.offer([a, b], 0)
    before = sum(table.num_rows for _, table in bucket.advance())
    bucket.serve(group, 0)
    assert before > 0
    assert 0 < sum(asked) < 100  # each of 60 tuples about once, and not by most of 80 selections
    assert sorted(bucket.rows(0)) == list(range(30))
