"""Whether intermediate results are produced is the user's choice in every bucket."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from tests.deciding import decide_often
from tests.spark.simulated import SimulatedQuery, simulated_spec
from thalweg.cql import Source, bind
from thalweg.plan.partitioning import choose_partitioning
from thalweg.policies import Policies
from thalweg.settings import Production

CQL = "SELECT a.x, a.y FROM a, b, c WHERE a.x = b.x AND a.y = c.y WINDOW RANGE 5 MINUTES"
SCHEMA = pa.schema({"ts": pa.int64(), "x": pa.int64(), "y": pa.int64()})
TABLE_I = {
    "a": [(1, 1, 100), (3, 1, 100)],
    "b": [(0, 1, None), (0, 1, None), (0, 1, None), (2, 1, None)],
    "c": [(4, None, 100)],
}
"""Arrivals in JIT's table I: (ts, x, y) per stream."""


@pytest.mark.parametrize(("production", "stored"), [("push", 8), ("jit", 0)])
def test_the_option_reaches_the_buckets(production: Production, stored: int, tmp_path: Path) -> None:
    """Before c arrives, nobody needs what a and b make together."""
    (query,) = bind(CQL, {name: Source(SCHEMA, "ts") for name in TABLE_I})
    partitioning = choose_partitioning(query, 1)
    spec = simulated_spec(query, partitioning, [0, 0, 0], "(a b) c", Policies(production=production, states="all"))
    running = SimulatedQuery(spec, partitioning, random.Random(1), tmp_path)
    (bucket,) = running.buckets
    running.batch([rows("a"), rows("b"), None])
    assert bucket.work is not None
    assert (bucket.work.stored, bucket.work.suspensions > 0) == (stored, production == "jit")
    answers = running.batch([None, None, rows("c")]) + running.batch([None] * 3, [{"command": "end"}])
    assert sum(answer.num_rows for answer in answers) == 8


def rows(name: str) -> tuple[pa.Table, list[int | None]]:
    arrived = TABLE_I[name]
    columns = [pa.array(values, pa.int64()) for values in zip(*arrived, strict=True)]
    return pa.table(columns, schema=SCHEMA), [ts for ts, _, _ in arrived]


def test_what_was_decided_about_gates_is_handed_over_and_never_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attempts and workers have other gates, and write the same as those that push."""
    decide_often(monkeypatch, period=1, promise=100.0, kept=100.0)
    monkeypatch.setattr("thalweg.engine.join_bucket._STRETCH", 20)
    (query,) = bind(CQL.replace("5 MINUTES", "200 US"), {name: Source(SCHEMA, "ts") for name in TABLE_I})
    partitioning = choose_partitioning(query, 1)
    runs: dict[Production, tuple[Counter[tuple[object, ...]], list[object]]] = {}
    saved: dict[Production, int] = {}
    productions: tuple[Production, ...] = ("push", "auto")
    for production in productions:
        spec = simulated_spec(query, partitioning, [0, 0, 0], "(a b) c", Policies(production=production, states="all"))
        running = SimulatedQuery(spec, partitioning, random.Random(2), tmp_path / production, troubled=0.4)
        answers: Counter[tuple[object, ...]] = Counter()
        committed: list[object] = []
        for arriving in sparse_batches():
            for table in running.batch(arriving):
                answers.update(tuple(row.values()) for row in table.to_pylist())
            committed.append(running.buckets[0].committed)
        runs[production] = answers, committed
        told = [each.get("savings") for each in running.buckets[0].metrics]
        saved[production] = sum(each["unprobed"] for each in told if isinstance(each, dict))
    assert runs["auto"] == runs["push"]
    assert runs["push"][0]
    assert saved["push"] == 0 < saved["auto"]


def sparse_batches() -> list[list[tuple[pa.Table, list[int | None]] | None]]:
    """Few of the tuples that a and b make together find a partner in c."""
    rng, batches = random.Random(4), []
    for n in range(15):
        batch: list[tuple[pa.Table, list[int | None]] | None] = []
        for name in TABLE_I:
            times: list[int | None] = sorted(rng.randrange(100 * n, 100 * n + 100) for _ in range(20))
            x = [rng.randrange(8) for _ in times]
            y = [rng.randrange(500) if name == "c" else rng.randrange(60) for _ in times]
            batch.append((pa.table({"ts": times, "x": x, "y": y}, schema=SCHEMA), times))
        batches.append(batch)
    return batches
