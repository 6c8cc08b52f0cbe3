"""How many rows of each stream were kept out: exact, whatever is copied, retried or started again."""

from __future__ import annotations

import json
import logging
import random
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from tests.spark.simulated import SimulatedQuery, simulated_spec
from thalweg.cql import Source, bind
from thalweg.engine.time_bounds import NEVER
from thalweg.plan.partitioning import choose_partitioning
from thalweg.spark import image_directory as images
from thalweg.spark.metrics import add_up
from thalweg.spark.packing import PASSES

SECOND = 1_000_000
SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("x", pa.int64()), ("y", pa.int64())])
STREAMS = "abc"
CHAIN = "SELECT a.x FROM a, b, c WHERE a.x = b.x AND b.y = c.y WINDOW RANGE 20 SECONDS"
"""Over several buckets, rows of a and of c are copied."""


def rows(times: list[int | None], rng: random.Random) -> tuple[pa.Table, list[int | None]]:
    """Rows of these times; every third one fails a selection."""
    count = len(times)
    table = pa.table(
        [pa.array(times, SCHEMA.field("ts").type), *([rng.randrange(9) for _ in times] for _ in "xy")], schema=SCHEMA
    )
    return table.append_column(PASSES, pa.array([i % 3 != 2 for i in range(count)])), times


@pytest.mark.parametrize("buckets", [1, 8])
def test_totals_are_exact_over_copies_retries_and_restarts(tmp_path: Path, buckets: int) -> None:
    rng = random.Random(buckets)
    (query,) = bind(CHAIN, {name: Source(SCHEMA, "ts") for name in STREAMS})
    partitioning = choose_partitioning(query, buckets)
    assert [partitioning.copies(s) > 1 for s in range(3)] == ([True, False, True] if buckets > 1 else [False] * 3)
    spec = simulated_spec(query, partitioning, [0] * 3)
    want: dict[str, Counter[str]] = {name: Counter() for name in ("rows", "late", "bad")}
    running, watermark = SimulatedQuery(spec, partitioning, rng, tmp_path / "0", troubled=0.4), NEVER
    for batch in range(12):
        if batch == 6:
            before, running = running, SimulatedQuery(spec, partitioning, rng, tmp_path / "1", troubled=0.4)
            for old, new in zip(before.buckets, running.buckets, strict=True):
                new.go_on_from(old)
        given = []
        for name in STREAMS:
            times = [None if rng.random() < 0.1 else (10 * batch + rng.randrange(-25, 10)) * SECOND for _ in range(30)]
            times[0] = (10 * batch + 10) * SECOND
            given.append(rows(times, rng))
            want["rows"][name] += len(times)
            want["bad"][name] += times.count(None)
            want["late"][name] += sum(time is not None and time < watermark for time in times)
        running.batch(given)
        watermark = (10 * batch + 10) * SECOND
        total = add_up([json.loads(json.dumps(bucket.metrics[-1])) for bucket in running.buckets])
        assert {name: total[f"{name}_so_far"] for name in want} == {name: +counts for name, counts in want.items()}
    assert min(want["late"].values()) > 100


def test_many_late_rows_are_told_in_the_log_with_the_likely_causes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(images, "_told", set())
    (query,) = bind("SELECT a.x FROM a [RANGE 5 SECONDS]", {"a": Source(SCHEMA, "ts")})
    partitioning = choose_partitioning(query, 1)
    spec = simulated_spec(query, partitioning, [0])
    running, rng = SimulatedQuery(spec, partitioning, random.Random(0), tmp_path), random.Random(0)

    def told(*seconds: int) -> list[str]:
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            running.batch([rows([second * SECOND for second in seconds], rng)])
        return [record.getMessage() for record in caplog.records]

    assert told(*range(1000)) == []
    assert told(*[7] * 5, 1000) == []  # fewer than one in a hundred
    (warning,) = told(*[7] * 6, 1001)
    assert "query 'query1': many rows of stream 'a' are late and kept out" in warning
    assert all(cause in warning for cause in ("modification time", "far ahead", "idle timeout", "lateness"))
    assert told(*[7] * 5, 1002) == []  # it was said
