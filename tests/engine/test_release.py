"""A join that nobody holds is gone at once: with it go its memory, and the files that it lies in.

A worker of Spark maps an engine whenever it gets a bucket that another one had. Engines that wait for Python's
collector of cycles keep files open, until sockets get numbers that ``select`` does not take.
"""

from __future__ import annotations

import gc
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.spark.simulated import SimulatedQuery, simulated_spec
from thalweg.cql import Source, bind
from thalweg.engine.storage.memory import MappedArena, Memory
from thalweg.options import Options
from thalweg.plan.partitioning import choose_partitioning
from thalweg.replayer import open_replay

JOIN = "SELECT a.k FROM a, b, c WHERE a.k = b.k AND b.k = c.k WINDOW RANGE 10 SECONDS"


@pytest.fixture
def collector() -> Iterator[None]:
    """Collects what there is, and then nothing more."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def live(kind: type) -> int:
    return sum(isinstance(each, kind) for each in gc.get_objects())


def streams() -> dict[str, dict[str, Any]]:
    rng = np.random.default_rng(1)
    return {name: {"ts": np.sort(rng.integers(0, 10**8, 300)), "k": rng.integers(0, 50, 300)} for name in "abc"}


@pytest.mark.usefixtures("collector")
@pytest.mark.parametrize(
    "options",
    [
        Options(),
        Options(states="all", production="jit"),
        Options(states="all", memory_limit="64 KB"),
        Options(budget="50%"),
        Options(migration="cacq"),
        Options(migration="parallel_track"),
    ],
    ids=str,
)
def test_a_join(options: Options) -> None:
    before = live(Memory)
    replay = open_replay(JOIN, streams(), options=options, transitions=[(400, "(b c) a")])
    for _ in replay.steps():
        continue
    assert live(Memory) > before
    del replay
    assert live(Memory) == before


@pytest.mark.usefixtures("collector")
def test_a_bucket_that_changes_hands() -> None:
    (query,) = bind(JOIN, {name: Source(pa.schema({"ts": pa.int64(), "k": pa.int64()}), "ts") for name in "abc"})
    rng = np.random.default_rng(1)
    before = live(MappedArena)
    with tempfile.TemporaryDirectory() as directory:
        spec = simulated_spec(query, choose_partitioning(query, 1), [0] * len(query.streams))
        running = SimulatedQuery(spec, choose_partitioning(query, 1), random.Random(1), Path(directory), troubled=0.3)
        most = 0
        for batch in range(12):
            times = np.sort(rng.integers(batch * 10**7, (batch + 1) * 10**7, 20))
            table = pa.table({"ts": times, "k": rng.integers(0, 9, 20)})
            running.batch([(table, times.tolist())] * len(query.streams))
            most = max(most, live(MappedArena) - before)
            if batch % 3 == 2:
                running.buckets[0].lose_engines()
                assert live(MappedArena) == before
        assert most > 0
