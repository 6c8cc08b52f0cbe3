"""What looks into the windows of a running join say about it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tests.adapt.workloads import CHAIN, streams
from thalweg.adapt.monitor import LOOK_ROWS, NO_WORK, Faded, Monitor
from thalweg.cql import Source, bind
from thalweg.cql.group import Group
from thalweg.cql.query import Query
from thalweg.engine.bucket import Bucket, open_bucket
from thalweg.engine.rows.batch import Batch
from thalweg.plan import JoinGraph, Statistics, choose_plan
from thalweg.plan.sampling import Tally
from thalweg.replayer.arrivals import arrivals, cut

RATES = {"a": 400.0, "b": 100.0, "c": 200.0}


def bound(text: str, tables: dict[str, pa.Table]) -> Query:
    return bind(text, {name: Source(table.schema, "ts") for name, table in tables.items()})[0]


def watched(text: str, tables: dict[str, pa.Table], memory: float = 0.7) -> tuple[Monitor, Bucket, JoinGraph]:
    """A monitor that has looked after every batch of a run."""
    query = bound(text, tables)
    graph, statistics = JoinGraph.of(query), Statistics.default(query)
    inputs = arrivals([(ref.stream, tables[ref.stream], ref.time) for ref in query.streams], None)
    bucket = open_bucket(Group.of(query), choose_plan(graph, statistics))
    monitor = Monitor(query, memory)
    for cuts, watermark in cut(inputs, 1_000):
        bucket.offer([Batch(s.slice(*cut), s.times[slice(*cut)]) for s, cut in zip(inputs, cuts, strict=True)])
        for _ in bucket.advance():
            pass
        for _ in bucket.settle(watermark):
            pass
        monitor.look(bucket.glimpse(LOOK_ROWS), (1, 2, 3, 4, 5, 6))
    return monitor, bucket, graph


def test_rates_windows_and_selectivities_are_those_of_the_streams() -> None:
    tables = streams(np.random.default_rng(1), RATES, [{"x": 50, "y": 20, "z": 5}], 30)
    monitor, _, graph = watched(CHAIN, tables)
    known = monitor.statistics()
    assert known.rates == pytest.approx(tuple(RATES.values()), rel=0.1)
    assert known.windows == pytest.approx(tuple(RATES.values()), rel=0.2)
    assert known.matches(graph, frozenset({0}), frozenset({1})) == pytest.approx(100 / 50, rel=0.15)
    assert known.matches(graph, frozenset({1}), frozenset({2})) == pytest.approx(200 / 20, rel=0.15)


def test_what_is_known_follows_the_streams() -> None:
    phases = [{"x": 50, "y": 20, "z": 5}, {"x": 5, "y": 200, "z": 5}]
    monitor, _, graph = watched(CHAIN, streams(np.random.default_rng(2), RATES, phases, 20))
    known = monitor.statistics()
    assert known.matches(graph, frozenset({0}), frozenset({1})) == pytest.approx(100 / 5, rel=0.15)
    assert known.matches(graph, frozenset({1}), frozenset({2})) == pytest.approx(200 / 200, rel=0.25)


def test_comparisons_and_rows_windows() -> None:
    text = CHAIN.replace("a [RANGE 1 SECOND]", "a [ROWS 60]").replace("b.y = c.y", "b.y < c.y")
    text = text.replace("c [RANGE 1 SECOND]", "c [PARTITION BY z ROWS 4]")
    monitor, _, _ = watched(text, streams(np.random.default_rng(3), RATES, [{"x": 9, "y": 20, "z": 5}], 20))
    known = monitor.statistics()
    assert known.windows == pytest.approx((60, 100, 20), rel=0.2)
    assert known.rates == pytest.approx(tuple(RATES.values()), rel=0.1)
    assert known.thetas == pytest.approx((0.475,), rel=0.1)


def test_rows_that_fail_a_selection_do_not_count() -> None:
    text = CHAIN + " AND c.z = 0"
    monitor, _, _ = watched(text, streams(np.random.default_rng(4), RATES, [{"x": 9, "y": 20, "z": 4}], 20))
    known = monitor.statistics()
    assert known.rates == pytest.approx((400, 100, 50), rel=0.15)
    assert known.windows[2] == pytest.approx(50, rel=0.3)


def test_old_looks_fade() -> None:
    faded = Faded()
    for satisfied in (100, 0, 0):
        faded.add(Tally(100, satisfied), memory=0.5)
    assert faded.share() == pytest.approx(25 / 175)
    assert Faded().share() is None


def test_work_is_averaged_until_the_plan_changes() -> None:
    monitor, _, _ = watched(CHAIN, streams(np.random.default_rng(1), RATES, [{"x": 9, "y": 9, "z": 9}], 20), 0.5)
    tuples, probes, *_ = monitor.work
    assert probes / tuples == pytest.approx(2)
    monitor.forget_work()
    assert monitor.work == (0.0,) * 6


def test_before_any_tuple_it_knows_what_the_planner_assumes() -> None:
    tables = streams(np.random.default_rng(1), RATES, [{"x": 9, "y": 9, "z": 9}], 1)
    query = bind(CHAIN, {name: Source(table.schema, "ts") for name, table in tables.items()})[0]
    graph = JoinGraph.of(query)
    bucket = open_bucket(Group.of(query), choose_plan(graph, Statistics.default(query)))
    monitor = Monitor(query, 0.7)
    monitor.look(bucket.glimpse(LOOK_ROWS), NO_WORK)
    choose_plan(graph, monitor.statistics())


def test_a_single_look_tells_the_shares_of_streams_and_keys() -> None:
    """An engine that was built anew has windows and no past; its plan is chosen by that."""
    tables = streams(np.random.default_rng(1), RATES, [{"x": 50, "y": 20, "z": 5}], 20)
    monitor, bucket, graph = watched(CHAIN, tables)
    query = bound(CHAIN, tables)
    watched_rates = np.array(monitor.statistics().rates)
    single = Monitor.statistics_of(query, bucket.glimpse(LOOK_ROWS))
    rates = np.array(single.rates)
    assert rates / rates.sum() == pytest.approx(watched_rates / watched_rates.sum(), rel=0.1)
    assert choose_plan(graph, single, "all") == choose_plan(graph, monitor.statistics(), "all")


def test_a_monitor_begins_with_what_an_engine_holds() -> None:
    """Rows that were loaded into windows are not taken for a burst."""
    tables = streams(np.random.default_rng(1), RATES, [{"x": 50, "y": 20, "z": 5}], 20)
    _, bucket, _ = watched(CHAIN, tables)
    monitor = Monitor(bound(CHAIN, tables), memory=0.5)
    monitor.look(bucket.glimpse(LOOK_ROWS), NO_WORK)
    monitor.look(bucket.glimpse(LOOK_ROWS), NO_WORK)
    assert sum(monitor.to_json()["arrived"]) == 0
