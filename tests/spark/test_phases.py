"""Where the time of a batch goes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.spark.simulated import DictLog, simulated_spec
from thalweg.cql import Source, bind
from thalweg.plan.partitioning import choose_partitioning
from thalweg.policies import Policies
from thalweg.spark.attendance import attend
from thalweg.spark.bucket_spec import Arriving
from thalweg.spark.commands import Sent
from thalweg.spark.packing import blob

KEYS = 200
SCHEMA = pa.schema([("ts", pa.timestamp("us")), ("k", pa.int64())])


def batch(number: int, streams: str, command: dict[str, Any] | None = None) -> Arriving:
    """A tuple of every key of these streams."""
    table = pa.table([pa.array([number] * KEYS, pa.timestamp("us")), pa.array(range(KEYS))], schema=SCHEMA)
    bodies = [("abc".index(stream), blob(table)) for stream in streams]
    commands = [] if command is None else [Sent(0, "0.json", json.dumps(command))]
    return Arriving(bodies=bodies, news=[(s, number, 0) for s in range(3)], commands=commands)


def test_completing_is_a_phase_of_its_own(tmp_path: Path) -> None:
    """The batch behind a change of plan completes the keys that it asks for; those before and after complete none."""
    text = "SELECT a.k FROM a, b, c WHERE a.k = b.k AND b.k = c.k WINDOW RANGE 1 HOUR"
    query = bind(text, dict.fromkeys("abc", Source(SCHEMA, "ts")))[0]
    spec = simulated_spec(query, choose_partitioning(query, 1), [0, 0, 0], "(a b) c", Policies(states="all"))
    change = {"command": "plan", "plan": "(b c) a", "states": "all"}
    batches = [batch(0, "abc"), batch(1, "a", change), batch(2, "a")]
    record, log, completing = None, DictLog(), []
    for arriving in batches:
        _, outcome = attend(spec, 0, record, arriving, log, tmp_path)
        record = outcome.record
        seconds = outcome.metrics["seconds"]
        assert min(seconds.values()) >= 0
        completing.append((outcome.metrics["completions"] > 0, seconds["complete"] > 0))
    assert completing == [(False, False), (True, True), (False, False)]
