"""Whether intermediate results are produced is the user's choice in every bucket."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

from tests.spark.simulated import SimulatedQuery, simulated_spec
from thalweg.cql import Source, bind
from thalweg.options import Production
from thalweg.plan.partitioning import choose_partitioning
from thalweg.policies import Policies

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
