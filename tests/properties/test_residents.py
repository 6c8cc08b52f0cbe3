"""Queries divided over buckets that keep a log, lose their engines and run batches again, against the oracle."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.cases import Case
from tests.deciding import decide_often
from tests.lifetimes import contradictory
from tests.oracle import expected, normalised_table
from tests.properties.conformity import EAGER, production_of, tight_memory
from tests.properties.settings import randomized
from tests.properties.strategies import cases
from tests.properties.test_feeding import AGGREGATES, DIFFERENCES, JOINS
from tests.spark.simulated import SimulatedQuery, simulated_spec
from thalweg.arrow_input import as_table
from thalweg.cql import Source, bind
from thalweg.plan.partitioning import choose_partitioning
from thalweg.plan.tree import format_tree, left_deep
from thalweg.policies import Policies
from thalweg.replayer.arrivals import arrivals


@randomized(share=60)
@given(case=cases(JOINS), seed=st.integers(0, 2**32))
def test_joins(case: Case, seed: int) -> None:
    check(case, random.Random(seed))


@randomized(share=30)
@given(case=cases(AGGREGATES), seed=st.integers(0, 2**32))
def test_aggregates(case: Case, seed: int) -> None:
    check(case, random.Random(seed))


@randomized(share=20)
@given(case=cases(DIFFERENCES), seed=st.integers(0, 2**32))
def test_differences(case: Case, seed: int) -> None:
    check(case, random.Random(seed))


@pytest.fixture(autouse=True, scope="module")
def _small_chunks() -> Iterator[None]:
    """What takes very many rows otherwise happens all the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("thalweg.spark.chunks.window_log._SMALL", 3)
        patch.setattr("thalweg.spark.chunks.window_log._MERGED", 2)
        patch.setattr("thalweg.spark.chunks.window_log._LARGE", 1)
        patch.setattr("thalweg.engine.rows.payload._SMALL_CHUNK", 3)
        patch.setattr("thalweg.engine.join_bucket._STRETCH", 2)
        decide_often(patch, period=1, promise=100.0, kept=1.0)
        yield


def check(case: Case, rng: random.Random) -> None:
    assume(bool(case.minus) or not contradictory(case))
    tables = {name: as_table(name, table) for name, table in case.tables().items()}
    times = case.times()
    query = bind(case.cql(), {name: Source(table.schema, times[name]) for name, table in tables.items()})[0]
    streams = arrivals([(ref.alias, tables[ref.stream], ref.time) for ref in query.streams], None)
    span = max([1, *(int(s.times[-1] - s.times[0]) for s in streams if len(s))])
    disorder = int(rng.choice([0.0, 0.1, 0.5]) * span)
    strays: dict[tuple[int, int], int] = {}
    coming = [
        (int(t) + strays.setdefault((s, int(t)), rng.randint(0, disorder)), s, i)
        for s, stream in enumerate(streams)
        for i, t in enumerate(stream.times)
        if not query.streams[s].is_static
    ]
    coming.sort(key=lambda row: row[0])
    texts = [text for text in (case.plan, *(text for _, text in case.transitions)) if text is not None]
    partitioning = choose_partitioning(query, rng.choice([1, 2, 5, 12]))
    lateness = [None if ref.is_static else disorder for ref in query.streams]
    relations = {s: tables[ref.stream] for s, ref in enumerate(query.streams) if ref.is_static}
    adaptive = EAGER if case.eager else None
    spec = simulated_spec(
        query,
        partitioning,
        lateness,
        case.plan,
        Policies(case.migration, production_of(case), case.memory_limit, case.states, adaptive),
        relations=relations,
    )
    answers = [query.schema.empty_table()]
    with tempfile.TemporaryDirectory() as directory, tight_memory(case), pytest.MonkeyPatch.context() as patch:
        patch.setattr("thalweg.spark.chunks.bundles._PIECE_BYTES", rng.choice([1 << 25, 2_000, 1]))
        running = SimulatedQuery(spec, partitioning, rng, Path(directory), troubled=rng.choice([0.0, 0.2, 0.5]))
        restless = not case.minus and rng.random() < 0.4
        orders = [list(range(len(streams))), list(reversed(range(len(streams))))]
        batches = 0
        while coming:
            batches += 1
            count = rng.choice([1, 3, 10, 40])
            batch, coming = coming[:count], coming[count:]
            rows = []
            for position, stream in enumerate(streams):
                places = [i for _, s, i in batch if s == position]
                table = stream.table.take(pa.array(stream.rows[places], pa.int64()))
                rows.append((table, np.array(stream.times[places]).tolist()) if places else None)
            commands: list[dict[str, object]] = []
            if restless:  # another plan in every batch
                plan = format_tree(left_deep(orders[batches % 2]), query.aliases)
                commands.append({"command": "plan", "plan": plan, "states": rng.choice(["all", "auto"])})
            elif texts and rng.random() < 0.2:
                commands.append({"command": "plan", "plan": rng.choice(texts)})
            if not restless and rng.random() < 0.2:
                commands.append({"command": "adapt"})
            answers += running.batch(rows, commands)
        answers += running.batch([None] * len(streams), [{"command": "end"}])
    for bucket in running.buckets:
        assert not restless or cast("int", bucket.metrics[-1]["plan_changes"]) >= batches
        assert not any(metrics["refused"] for metrics in bucket.metrics if restless)
        check_history(bucket.metrics)
    got, want = normalised_table(pa.concat_tables(answers)), expected(case)
    assert got == want, f"missing {want - got}\nextra {got - want}\n{case.cql()}\n{partitioning}"


def check_history(metrics: Sequence[Mapping[str, Any]]) -> None:
    """Plans that were commanded are on record from the tuple on that was the next one then."""
    before = [0, *accumulate(sum(each["tuples"].values()) for each in metrics)]
    for period in metrics[-1]["history"] if metrics else ():
        assert period["reason"] != "by command" or period["position"] == before[period["batch"]]
