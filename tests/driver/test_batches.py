"""A batch on its way through a bucket, and what is said of it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tests.adapt.workloads import STAR, steady_star
from tests.deciding import decide_often
from thalweg.cql import Source, bind
from thalweg.cql.group import Group
from thalweg.driver.batches import run_batch, take_again
from thalweg.driver.bucket_driver import BucketDriver
from thalweg.driver.measures import Measures
from thalweg.driver.phases import Phases
from thalweg.driver.planning import first_statistics
from thalweg.engine.rows.batch import Batch
from thalweg.engine.time_bounds import FOREVER
from thalweg.policies import Policies

TABLES = steady_star(seconds=1.0)
(QUERY,) = bind(STAR, {name: Source(table.schema, "ts") for name, table in TABLES.items()})
HALF = 500_000
"""Microseconds."""


def rows(first: int, end: int) -> dict[int, Batch]:
    """Those of a stretch of time."""
    batches = {}
    for stream, ref in enumerate(QUERY.streams):
        table = TABLES[ref.stream]
        times = table.column("ts").cast(pa.int64()).to_numpy()
        is_in = (times >= first) & (times < end)
        batches[stream] = Batch(table.filter(pa.array(is_in)), times[is_in])
    return batches


def opened(policies: Policies) -> BucketDriver:
    driver = BucketDriver(Group.of(QUERY), policies)
    driver.begin(first_statistics(QUERY, rows(0, HALF)), "((h a) b) c")
    return driver


def phases() -> Phases:
    return Phases(["probe", "complete", "adapt"])


def test_gates_change_in_the_midst_of_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    decide_often(monkeypatch, period=100, promise=100.0, kept=100.0)
    monkeypatch.setattr("thalweg.engine.join_bucket._STRETCH", 200)
    found = []
    for production in ("push", "auto"):
        driver = opened(Policies(production="auto" if production == "auto" else "push", states="all"))
        answers, decisions = run_batch(driver, QUERY, rows(0, 2 * HALF), FOREVER, phases())
        found.append(sum(table.num_rows for _, table in answers))
        assert decisions == []
        assert (driver.savings is not None and driver.savings.unprobed > 0) is (production == "auto")
    assert found[0] == found[1] > 0


def test_rows_that_are_taken_again_lead_to_the_same_windows() -> None:
    once, again = (opened(Policies(states="all")) for _ in range(2))
    run_batch(once, QUERY, rows(0, HALF), HALF, phases())
    take_again(again, QUERY, rows(0, HALF), HALF)
    assert once.bucket.sizes() == again.bucket.sizes()
    assert once.bucket.work == again.bucket.work


def test_each_batch_is_measured_alone() -> None:
    driver, measures, probes = opened(Policies(production="jit", states="all")), Measures(), []
    unprobed = []
    for first in (0, HALF):
        run_batch(driver, QUERY, rows(first, first + HALF), first + HALF, phases())
        measured = measures.of_batch(driver, 100, QUERY.aliases)
        probes.append(measured["probes"])
        unprobed.append(measured["savings"]["unprobed"])
    assert driver.savings is not None
    assert sum(probes) == driver.bucket.work.probes
    assert sum(unprobed) == driver.savings.unprobed
    assert min(probes) > 0 < min(unprobed)
    assert driver.history.position == 200


def test_first_rows_may_come_in_any_order() -> None:
    straight = rows(0, HALF)
    turned = {
        stream: Batch(batch.table.take(pa.array(np.arange(len(batch.times))[::-1])), batch.times[::-1])
        for stream, batch in straight.items()
    }
    assert first_statistics(QUERY, turned).rates == first_statistics(QUERY, straight).rates
    assert first_statistics(QUERY, {}).rates != first_statistics(QUERY, straight).rates
