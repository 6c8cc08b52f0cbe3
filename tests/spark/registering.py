"""Directories of registered queries, without Spark: runs that begin as ``App.start`` has them begin."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from thalweg.cql import Source
from thalweg.spark.division import divide_shared
from thalweg.spark.registry import Registry
from thalweg.spark.run import Run, divided, joined, partitioning_for
from thalweg.spark.shared_run import Registered

TIME = pa.timestamp("us", "UTC")
CATALOG = {
    "trades": Source(pa.schema([("ts", TIME), ("sym", pa.string()), ("px", pa.int64()), ("venue", pa.string())]), "ts"),
    "quotes": Source(pa.schema([("ts", TIME), ("sym", pa.string()), ("bid", pa.int64())]), "ts"),
    "news": Source(pa.schema([("ts", TIME), ("sym", pa.string()), ("headline", pa.string())]), "ts"),
}
JOIN = "FROM trades t, quotes q WHERE t.sym = q.sym"
SHORT = f"SELECT t.sym, t.px {JOIN} WINDOW RANGE 10 SECONDS"
LONG = f"SELECT t.px {JOIN} AND t.px > 3 WINDOW RANGE 30 SECONDS"


def begin(directory: Path, queries: dict[str, str], buckets: int = 2) -> Registry:
    """A directory in which these queries were started together."""
    registry = Registry(directory)
    registered = [Registered(name, text) for name, text in queries.items()]
    for founder, taken in divided(registered, buckets, CATALOG):
        run = new_run(registry.free_name(), founder, taken, buckets)
        group = joined(founder, taken, CATALOG, partitioning_for(founder, buckets, CATALOG))
        registry.add_run(run, {reader.name: reader.schema for reader in group.readers})
    return registry


def new_run(name: str, founder: str, registered: tuple[Registered, ...], buckets: int) -> Run:
    """A run of these queries."""
    group = joined(founder, registered, CATALOG, partitioning_for(founder, buckets, CATALOG))
    division = divide_shared(group)
    carried = {
        ref.stream: tuple(each.columns.names) for ref, each in zip(group.join.streams, division.carried, strict=True)
    }
    used = {ref.stream: CATALOG[ref.stream] for ref in group.join.streams}
    return Run(name, founder, buckets, registered, used, carried)
