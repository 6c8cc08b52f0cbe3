"""A driver says the same of its plan to the engine, the controller and the history, and remembers it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.adapt.workloads import STAR, steady_star, turning_star
from tests.deciding import decide_often
from thalweg.adapt.chains import ChainDecider
from thalweg.adapt.controller import Controller
from thalweg.adapt.decision import Decision
from thalweg.cql import Source, bind
from thalweg.cql.group import Group, grouped
from thalweg.driver.bucket_driver import BucketDriver
from thalweg.engine.feedback.gates import NO_GATES
from thalweg.engine.rows.batch import Batch
from thalweg.errors import PlanError, ThalwegError
from thalweg.options import Options
from thalweg.plan.difference import format_any
from thalweg.plan.statistics import Statistics
from thalweg.policies import Policies
from thalweg.replayer import open_replay
from thalweg.settings import Adaptivity, Migration, Production

SCHEMA = pa.schema([("ts", pa.int64()), *((name, pa.int64()) for name in "xyzn")])
(QUERY,) = bind(STAR, dict.fromkeys(("hub", "a", "b", "c"), Source(SCHEMA, "ts")))
(EXCEPT,) = bind(
    "SELECT n FROM a [RANGE 9 US] EXCEPT SELECT n FROM b [RANGE 9 US] EXCEPT SELECT n FROM c [RANGE 9 US]",
    dict.fromkeys("abc", Source(SCHEMA, "ts")),
)
ADAPTING = Policies(states="none", adaptive=Adaptivity())


def begun(policies: Policies = ADAPTING, statistics: Statistics | None = None, text: str | None = None) -> BucketDriver:
    driver = BucketDriver(Group.of(QUERY), policies)
    driver.begin(statistics or Statistics.default(QUERY), text)
    return driver


def plans(driver: BucketDriver) -> list[tuple[str, str]]:
    return [(period.reason, period.plan) for period in driver.history.periods]


def test_a_bucket_is_there_after_the_beginning() -> None:
    driver = BucketDriver(Group.of(QUERY), ADAPTING)
    assert not driver.is_open
    with pytest.raises(ThalwegError, match="query 'query1': a bucket was asked for before it was opened"):
        _ = driver.bucket
    driver.begin(Statistics.default(QUERY), "((h a) b) c")
    assert driver.is_open
    assert plans(driver) == [("as the user wrote it", "((h a) b) c")]


@pytest.mark.parametrize("lasts", [True, False])
def test_a_command_changes_the_plan_of_all(lasts: bool) -> None:
    driver = begun()
    before = driver.record()
    driver.at(7, 1_000)
    driver.command("((h c) b) a", lasts=lasts)
    assert driver.plan is not None
    assert driver.controller is not None
    assert driver.controller.plan == driver.plan
    assert format_any(driver.plan, QUERY.aliases) == "((h c) b) a"
    last = driver.history.periods[-1]
    assert (last.reason, last.batch, last.time, last.lasts) == ("by command", 7, 1_000, lasts)
    record = driver.record()
    assert record["held"] is lasts
    assert (record == before) is not lasts


def test_a_plan_that_cannot_be_leaves_everything_as_it_is() -> None:
    driver = begun()
    before = driver.record(), driver.notes()
    with pytest.raises(PlanError):
        driver.command("(h a) nobody", lasts=True)
    assert (driver.record(), driver.notes()) == before


def test_a_held_plan_can_be_released() -> None:
    driver = begun()
    driver.command("((h c) b) a", lasts=True)
    assert driver.release() is None
    assert driver.record()["held"] is False
    refused = begun(Policies()).release()
    assert refused is not None
    assert "query 'query1' does not adapt" in refused


def test_what_was_measured_does_not_last() -> None:
    default = Statistics.default(QUERY)
    skewed = Statistics((1.0, 900.0, 5.0, 70.0), (1.0, 9e6, 40.0, 8.0), default.distinct, default.thetas)
    records = []
    for statistics in (default, skewed):
        driver = begun(Policies(states="all"), statistics, "((h a) b) c")
        driver.command("((h c) b) a", "auto", lasts=True)
        records.append(driver.record())
    assert records[0] == records[1]


def test_notes_and_record_make_another_of_the_same_kind() -> None:
    driver = begun()
    driver.at(3, None)
    driver.command("((h c) b) a", lasts=True)
    record, notes = (json.loads(json.dumps(known)) for known in (driver.record(), driver.notes()))
    other = BucketDriver(Group.of(QUERY), ADAPTING)
    other.recall(driver.plan, record, range(len(QUERY.streams)))
    other.reopen(driver.bucket)
    other.recall_notes(notes)
    assert json.loads(json.dumps(other.record())) == record
    assert json.loads(json.dumps(other.notes())) == notes


def test_a_set_difference_is_driven_too() -> None:
    driver = BucketDriver(Group.of(EXCEPT), Policies(adaptive=Adaptivity()))
    driver.begin(Statistics.default(EXCEPT), None)
    driver.command("a - c - b", taken=5, lasts=True)
    assert driver.consider(0) == []
    driver.plan_anew()
    assert [plan for _, plan in plans(driver)] == ["a - b - c", "a - c - b"]
    assert driver.release() is not None
    notes: dict[str, Any] = driver.notes()
    assert notes["controller"] is None


def test_every_change_is_noted_although_old_decisions_are_forgotten() -> None:
    """The controller keeps the last thousand."""
    settings = Adaptivity(period=500, overhead=1.0, persistence=2, cool_down=1)
    replay = open_replay(STAR, turning_star(seconds=6.0), options=Options(batch_size=512, adaptive=settings))
    old = Decision(0, "stay", "no better plan is known", "")
    for _ in replay.steps():
        assert replay.driver.controller is not None
        decisions = replay.driver.controller.decisions
        decisions[:0] = [old] * (1_000 - len(decisions))
    changes = [decision.position for decision in decisions if decision.action == "change"]
    assert len(changes) >= 2
    assert [use.position for use in replay.plans] == [0, *changes]


def test_gates_are_decided_about_on_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between stretches, with or without a controller; the engine alone pushes."""
    decide_often(monkeypatch, period=100, promise=100.0, kept=100.0)
    monkeypatch.setattr("thalweg.engine.join_bucket._STRETCH", 200)
    tables = steady_star(seconds=2.0)
    push = open_replay(STAR, tables, options=Options(states="all"))
    list(push.steps())
    for adaptive in (False, Adaptivity(period=500)):
        replay = open_replay(STAR, tables, options=Options(production="auto", states="all", adaptive=adaptive))
        list(replay.steps())
        assert replay.driver.production is not None
        assert replay.driver.production.habit.asks
        assert replay.driver.savings is not None
        assert replay.driver.savings.unprobed > 0
        assert sorted_rows(replay.answer) == sorted_rows(push.answer)


def sorted_rows(answer: list[pa.Table]) -> list[tuple[int, ...]]:
    return sorted(tuple(row.values()) for table in answer for row in table.to_pylist())


def test_a_change_of_plan_takes_gates_away(monkeypatch: pytest.MonkeyPatch) -> None:
    decide_often(monkeypatch, period=100, promise=100.0, kept=100.0)
    replay = open_replay(STAR, steady_star(seconds=2.0), options=Options(production="auto", states="all"))
    steps = replay.steps()
    next(steps)
    driver = replay.driver
    assert driver.production is not None
    assert driver.production.habit.asks
    record, notes = driver.record(), json.loads(json.dumps(driver.notes()))
    driver.command("((h c) b) a", lasts=False)
    assert not driver.production.habit.asks
    assert driver.join is not None
    assert driver.join.gated is not None
    assert driver.join.gated.gates == NO_GATES
    assert driver.record() == record  # what was learned does not last
    driver.recall_notes(notes)
    assert driver.production.habit.asks
    assert json.loads(json.dumps(driver.notes())) == notes


@pytest.mark.parametrize(("production", "migration"), [("push", "jisc"), ("jit", "jisc"), ("auto", "stairs")])
def test_where_there_is_no_choice_nobody_decides_about_gates(production: Production, migration: Migration) -> None:
    driver = begun(Policies(migration, production))
    assert driver.production is None
    assert not driver.decides
    assert driver.notes()["production"] is None


def test_whoever_watches_after_another_chain_of_slices_is_asked_and_nobody_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver = BucketDriver(Group.of(QUERY), ADAPTING, keeps_all=True)
    driver.begin(Statistics.default(QUERY), None)
    before, asked = driver.controller, []
    monkeypatch.setattr(ChainDecider, "consider", lambda *_: True)
    monkeypatch.setattr(Controller, "consider", lambda controller, _: asked.append(controller))
    driver.consider(0)
    assert driver.controller is not before
    assert asked == [driver.controller]


def test_what_was_decided_stays_known_when_readers_change() -> None:
    driver = BucketDriver(Group.of(QUERY), ADAPTING, keeps_all=True)
    driver.begin(Statistics.default(QUERY), None)
    rows = pa.table([pa.array([1, 2, 3])] * len(SCHEMA), schema=SCHEMA)
    driver.bucket.offer([Batch(rows, np.array([1, 2, 3]))] * 4, 9)
    assert list(driver.bucket.advance())
    driver.consider(12)
    driver.command("((h c) b) a", lasts=False)
    assert driver.controller is not None
    decided, position = list(driver.controller.decisions), driver.controller.position
    assert (len(decided), position) == (1, 12)
    driver.serve(Group.of(replace(QUERY, name="another")), 0)
    assert (driver.controller.decisions, driver.controller.position, driver.controller.changes) == (decided, 12, 1)
    driver.command("((h b) c) a", lasts=False)
    assert [each.position for each in driver.controller.decisions] == [12, 12]


def test_what_was_spent_is_known_after_another_chain_of_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "CREATE QUERY {} AS SELECT a.n FROM a, b WHERE a.x = b.x AND a.n {} 2 WINDOW RANGE {} MICROSECONDS"
    texts = [text.format("short", "<", 5), text.format("long", ">=", 50)]
    (group,) = grouped(bind("; ".join(texts), dict.fromkeys("ab", Source(SCHEMA, "ts"))))
    policies = Policies.of(Options(budget=100), written=False, lasting=False)
    driver = BucketDriver(group, policies, keeps_all=True)
    driver.begin(Statistics.default(group.whole), None)
    rows = pa.table([pa.array([1, 2, 3])] * len(SCHEMA), schema=SCHEMA)
    driver.bucket.offer([Batch(rows, np.array([1, 2, 3]))] * 2, 9)
    assert list(driver.bucket.advance())
    before = driver.spent
    assert before is not None
    assert before.fed.sum() == 6

    def consider(_: ChainDecider, join: Any) -> bool:
        join.choose_chain(join.lineage_shares())
        return True

    monkeypatch.setattr(ChainDecider, "consider", consider)
    driver.consider(6)
    after = driver.spent
    assert after is not None
    assert (after.fed.tolist(), after.allowed.tolist()) == (before.fed.tolist(), before.allowed.tolist())
