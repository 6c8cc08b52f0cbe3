"""A commanded plan is executed by what is known of the streams, on Spark as in process; that is never committed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa

from tests.adapt.workloads import STAR, streams
from tests.spark.simulated import DictLog, simulated_spec
from thalweg.cql import Source, bind
from thalweg.plan.partitioning import choose_partitioning
from thalweg.policies import Policies
from thalweg.replayer import run
from thalweg.spark.attendance import attend
from thalweg.spark.bucket_spec import Arriving
from thalweg.spark.commands import Sent
from thalweg.spark.packing import blob

FIRST = "h: a b c; a: h b c; b: h a c; c: h a b"
TREE = "((h a) b) c"
NAMES = ("hub", "a", "b", "c")
CUTS = (0, 1_500_000, 2_200_000, 3_000_000)
"""The times between batches; the second brings the command."""


def star() -> dict[str, pa.Table]:
    """The hub meets many of ``a`` and hardly any of ``b``: who asks ``b`` first is spared most of the work."""
    rates = {"hub": 200.0, "a": 100.0, "b": 100.0, "c": 100.0}
    return streams(np.random.default_rng(3), rates, [{"x": 10, "y": 2_000, "z": 10}], 3.0)


def between(table: pa.Table, start: int, end: int) -> pa.Table:
    times = table["ts"].cast(pa.int64()).to_numpy()
    return table.filter(pa.array((start <= times) & (times < end)))


def arriving(number: int, tables: dict[str, pa.Table], *commands: dict[str, str]) -> Arriving:
    return Arriving(
        bodies=[(s, blob(tables[name])) for s, name in enumerate(NAMES)],
        news=[(s, CUTS[number], 0) for s in range(len(NAMES))],
        commands=[Sent(n, f"{n}.json", json.dumps(command)) for n, command in enumerate(commands)],
    )


def on_spark(tables: dict[str, pa.Table], command: dict[str, str], directory: Path | None) -> tuple[str, list[int]]:
    """The last record, and the probes of each batch; without a directory every batch begins with a rebuild."""
    (query,) = bind(STAR, {name: Source(table.schema, "ts") for name, table in tables.items()})
    spec = simulated_spec(query, choose_partitioning(query, 1), [10**9] * 4, FIRST, Policies(states="none"))
    record, log, probes = None, DictLog(), []
    for number, commands in enumerate([[], [command], []]):
        part = {name: between(table, CUTS[number], CUTS[number + 1]) for name, table in tables.items()}
        _, outcome = attend(spec, 0, record, arriving(number, part, *commands), log, directory)
        assert outcome.metrics["refused"] == []
        record = outcome.record
        probes.append(outcome.metrics["probes"])
    assert record is not None
    return record, probes


def test_its_probes_follow_what_was_measured(tmp_path: Path) -> None:
    tables = star()
    position = sum(between(table, *CUTS[:2]).num_rows for table in tables.values())
    command = {"command": "plan", "plan": TREE}
    record, kept = on_spark(tables, command, tmp_path / "kept")
    same, rebuilt = on_spark(tables, command, None)
    assert record == same
    options = {"plan": FIRST, "states": "none"}
    in_process = run(STAR, tables, options=options, transitions=[(position, TREE)]).summary.probes
    assert kept == rebuilt
    assert sum(kept) == in_process
