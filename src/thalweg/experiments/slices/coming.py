"""Queries that enter and leave a running join: how long that takes, and that nobody else notices."""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa

import thalweg
from thalweg import cql
from thalweg.cql.group import Group
from thalweg.engine.join_bucket import JoinBucket
from thalweg.engine.rows.batch import Batch
from thalweg.errors import ThalwegError
from thalweg.experiments.experiment import Claim, Report, Row, at_most, rounded
from thalweg.experiments.slices.many import many_queries
from thalweg.experiments.slices.sizes import SEED, Many
from thalweg.experiments.slices.workloads import SCHEMA, Asked, Queries, poisson

PART = "a query enters and leaves a running join"
UNNOTICED = "queries that stay while others enter and leave"

_REPEATS = 5
_STAYING, _MOVING = 6, 6


def enter_and_leave(sizes: Many, report: Report) -> tuple[list[Row], list[Claim]]:
    """Time it beside any number of queries; compare the answers of those that stay."""
    rows = [_time(count, sizes, report) for count in sizes.queries]
    found, claim = _unnoticed(report)
    return [*rows, found], [claim]


def _time(count: int, sizes: Many, report: Report) -> Row:
    """How long one more query takes to be bound, and to enter and leave a join with full windows."""
    report(f"a query enters and leaves beside {count:,}")
    queries = many_queries(count + 1, sizes, 2)
    *others, last = queries.group.readers
    group = Group(queries.group.join, tuple(others))
    text = queries.cql.split(";\n")[-1]
    data = poisson(np.random.default_rng(SEED), 2, sizes.rate, sizes.longest, 1 / sizes.keys)
    plan, rank = queries.plan(sizes.rate)
    bucket = JoinBucket(group, plan, rank, data.payloads())
    bucket.offer([Batch(t, times, np.arange(len(times))) for t, times in zip(data.tables, data.times, strict=True)])
    results = sum(part.count for part in bucket.find())
    held = bucket.joiner.held(0) + bucket.joiner.held(1)
    bound: list[float] = []
    entered: list[float] = []
    left: list[float] = []
    for _ in range(_REPEATS):
        started = time.perf_counter()
        (query,) = cql.bind(text, {name: cql.Source(SCHEMA, "ts") for name in queries.names})
        reader = group.takes(query)
        bound.append(time.perf_counter() - started)
        if reader is None or reader.name != last.name:
            raise ThalwegError(f"query {last.name} was not taken into its group")
        for joined, times in ((group.with_reader(reader), entered), (group, left)):
            started = time.perf_counter()
            bucket.serve(joined)
            times.append(time.perf_counter() - started)
    return {
        "part": PART,
        "queries": count,
        "tuples_held": held,
        "results_before": results,
        "bind_ms": rounded(1e3 * min(bound)),
        "enter_ms": rounded(1e3 * min(entered)),
        "leave_ms": rounded(1e3 * min(left)),
        "slowest_ms": rounded(1e3 * max(*entered, *left)),
    }


def _unnoticed(report: Report) -> tuple[Row, Claim]:
    report("queries enter and leave beside others: answers")
    rng = np.random.default_rng(SEED)
    windows = rng.uniform(2, 30, _STAYING + _MOVING).tolist()
    asked = tuple(Asked(round(w, 6), (1.0, 0.3, 0.7)[i % 3]) for i, w in enumerate(windows))
    queries = Queries(asked, 40)
    streams = poisson(rng, 2, 40, 90, 0.025)
    tables = dict(zip(queries.names, streams.tables, strict=True))
    places = np.sort(rng.integers(0, streams.total, 2 * _MOVING)).tolist()
    moving = [f"q{_STAYING + i}" for i in range(_MOVING)]
    entries = [
        entry
        for i, name in enumerate(moving)
        for entry in ((places[i], name, "enter"), (places[i + _MOVING], name, "leave"))
    ]
    changed = thalweg.replay(queries.cql, tables, entries=entries, options={"adaptive": False})  # type: ignore[arg-type]
    alone = Queries(asked[:_STAYING], 40)
    still = thalweg.replay(alone.cql, tables, options={"adaptive": False})
    assert isinstance(changed, dict)  # noqa: S101 - there are several queries
    assert isinstance(still, dict)  # noqa: S101 - likewise
    differing = [name for name in still if _bytes(still[name]) != _bytes(changed[name])]
    row: Row = {
        "part": UNNOTICED,
        "staying": _STAYING,
        "moving": _MOVING,
        "changes": len(entries),
        "results_of_staying": sum(table.num_rows for table in still.values()),
        "results_of_moving": sum(changed[name].num_rows for name in moving),
        "bytes_compared": sum(len(_bytes(table)) for table in still.values()),
        "differing": len(differing),
    }
    return row, at_most("queries that enter and leave: others whose sorted output differs in a byte", len(differing), 0)


def _bytes(table: pa.Table) -> bytes:
    """A table's rows, sorted, as Arrow writes them."""
    ordered = table.sort_by([(name, "ascending") for name in table.column_names]).combine_chunks()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, ordered.schema) as writer:
        writer.write_table(ordered)
    return bytes(sink.getvalue())
