"""The controller in replays: when it changes the plan, when it does not, and what it says about it."""

from __future__ import annotations

import json
from dataclasses import replace

import pyarrow as pa
import pytest

from tests.adapt.workloads import CHAIN, STAR, dependent_star, steady_star, turning_star
from thalweg.adapt.controller import Controller
from thalweg.adapt.decision import Decision
from thalweg.cql import Source, bind
from thalweg.cql.group import Group
from thalweg.engine.bucket import open_bucket
from thalweg.engine.rows.batch import Batch
from thalweg.plan import JoinGraph, Statistics, choose_plan, parse_plan, rank
from thalweg.plan.tree import format_plan
from thalweg.replayer import ReplayResult, Summary, run
from thalweg.replayer.arrivals import arrivals, cut
from thalweg.settings import Adaptivity, States

WATCHFUL = Adaptivity(period=500, overhead=1e6)
"""The default thresholds, but without regard to what a look costs."""


def replayed(text: str, tables: dict[str, pa.Table], **options: object) -> ReplayResult:
    return run(text, tables, options={"batch_size": 500, **options})


def work(summary: Summary) -> int:
    return summary.probes + summary.candidates + summary.stored


def changes(summary: Summary) -> list[Decision]:
    return [decision for decision in summary.decisions if decision.action == "change"]


def test_a_plan_follows_streams_that_change_and_saves_work() -> None:
    tables = turning_star()
    static = replayed(STAR, tables, adaptive=False)
    adaptive = replayed(STAR, tables, adaptive=WATCHFUL)
    assert adaptive.table.sort_by([(n, "ascending") for n in "habc"]) == static.table.sort_by(
        [(n, "ascending") for n in "habc"]
    )
    turn = sum(len(table) for table in tables.values()) // 2
    assert [turn < change.position < 1.3 * turn for change in changes(adaptive.summary)].count(True) >= 1
    assert len(changes(adaptive.summary)) <= 3
    assert static.summary.decisions == ()
    assert work(adaptive.summary) < 0.75 * work(static.summary)


def test_the_log_says_what_was_decided_and_how_it_turned_out() -> None:
    summary = replayed(STAR, turning_star(), adaptive=WATCHFUL).summary
    change = changes(summary)[-1]
    assert change.to is not None
    assert change.to != change.plan
    assert "a gain of" in change.reason
    assert change.predicted_before is not None
    assert change.predicted_after is not None
    assert change.predicted_after < 0.9 * change.predicted_before
    assert change.price is not None
    assert change.price > 0
    assert change.observed_gain is not None
    assert change.observed_gain > 0.1
    waits = [d for d in summary.decisions if d.action == "wait" and d.position < change.position]
    assert [f"in {n} of 3 looks" in d.reason for n, d in enumerate(waits[-2:], 1)] == [True, True]
    assert "moved by" in waits[-2].reason or "observed cost went" in waits[-2].reason
    texts = json.dumps([decision.to_json() for decision in summary.decisions])
    assert tuple(Decision.from_json(each) for each in json.loads(texts)) == summary.decisions
    used = [use.position for use in summary.plans]
    assert used == [0, *(decision.position for decision in changes(summary))]


@pytest.mark.parametrize("seed", range(4))
def test_noise_changes_nothing(seed: int) -> None:
    summary = replayed(STAR, steady_star(seed), adaptive=WATCHFUL).summary
    assert len(changes(summary)) <= 1


def test_the_same_input_leads_to_the_same_decisions() -> None:
    tables = turning_star(seconds=5)
    first, second = (replayed(STAR, tables, adaptive=WATCHFUL).summary for _ in range(2))
    assert first.decisions == second.decisions
    assert changes(first)


def test_a_plan_that_was_written_stays() -> None:
    tables = turning_star(seconds=5)
    assert replayed(STAR, tables, plan="((h a) b) c", adaptive=True).summary.decisions == ()
    moved = run(STAR, tables, options={"batch_size": 500}, transitions=[(100, "((h c) b) a")]).summary
    assert moved.decisions == ()
    assert len(moved.plans) == 2


def test_a_written_plan_is_left_if_the_settings_are_given() -> None:
    tables = steady_star(seconds=10)
    summary = replayed(STAR, tables, plan="((h c) b) a", states="all", adaptive=WATCHFUL).summary
    assert summary.decisions[0].reason.startswith("nobody has compared plans yet")


def test_a_straight_join_is_left_alone() -> None:
    text = "SELECT a.n FROM hub h, a, b WHERE h.x = a.x AND a.x = b.x WINDOW RANGE 1 SECOND"
    tables = {name: table for name, table in turning_star(seconds=5).items() if name != "c"}
    eager = Adaptivity(period=1, overhead=1e9, deviation=0, gain=0, persistence=1, cool_down=0)
    assert replayed(text, tables, adaptive=eager).summary.decisions == ()


def test_two_streams_have_one_plan() -> None:
    text = "SELECT a.n FROM hub h [ROWS 50], a [ROWS 50] WHERE h.x = a.x"
    tables = {name: table for name, table in turning_star(seconds=5).items() if name in ("hub", "a")}
    assert replayed(text, tables, adaptive=WATCHFUL).summary.decisions == ()


def test_a_change_waits_for_its_gain_to_last_and_then_cools_down(monkeypatch: pytest.MonkeyPatch) -> None:
    patient = replace(WATCHFUL, persistence=10**6)
    assert not changes(replayed(STAR, turning_star(seconds=5), adaptive=patient).summary)
    cooling = replace(WATCHFUL, cool_down=10**6, persistence=1, gain=0, deviation=0, memory=0)
    assert len(changes(replayed(STAR, turning_star(seconds=5), adaptive=cooling).summary)) > 1  # shocks end it
    monkeypatch.setattr("thalweg.adapt.work_meter._SHOCK", float("inf"))
    assert len(changes(replayed(STAR, turning_star(seconds=5), adaptive=cooling).summary)) == 1


def test_a_change_that_cannot_pay_is_declined() -> None:
    summary = replayed(STAR, turning_star(seconds=5), adaptive=replace(WATCHFUL, horizon=0)).summary
    assert not changes(summary)
    declined = [decision for decision in summary.decisions if "does not pay" in decision.reason]
    assert declined
    assert all(decision.predicted_gain is not None and decision.predicted_gain > 0 for decision in declined)
    assert declined[0].observed_gain is not None  # what came of it


def test_looks_wait_until_they_are_paid_for() -> None:
    tables = turning_star(seconds=5)
    frugal = replayed(STAR, tables, adaptive=replace(WATCHFUL, overhead=1e-9)).summary
    assert len(frugal.decisions) <= 1  # what was on credit


# One bucket, fed by hand -----------------------------------------------------------------


class Fed:
    """A bucket with its controller, which may be replaced by what its JSON says between any two batches."""

    def __init__(
        self,
        text: str,
        tables: dict[str, pa.Table],
        settings: Adaptivity,
        plan: str | None = None,
        states: States = "auto",
    ) -> None:
        self.query = bind(text, {name: Source(table.schema, "ts") for name, table in tables.items()})[0]
        graph, statistics = JoinGraph.of(self.query), Statistics.default(self.query)
        first = choose_plan(graph, statistics) if plan is None else parse_plan(plan, self.query.aliases)
        self.settings, self.states = settings, states
        self.streams = arrivals([(ref.stream, tables[ref.stream], ref.time) for ref in self.query.streams], None)
        self.bucket = open_bucket(Group.of(self.query), first, rank(graph, statistics))
        self.controller = Controller(self.query, first, statistics, states, settings)

    def feed(self, *, through_json: bool = False) -> None:
        for cuts, watermark in cut(self.streams, 500):
            self.bucket.offer(
                [Batch(s.slice(*cut), s.times[slice(*cut)]) for s, cut in zip(self.streams, cuts, strict=True)]
            )
            for _ in self.bucket.advance():
                pass
            for _ in self.bucket.settle(watermark):
                pass
            self.controller.consider(self.bucket)
            if through_json:
                known = json.loads(json.dumps(self.controller.to_json()))
                self.controller = Controller.from_json(
                    self.query, self.controller.plan, self.states, self.settings, known
                )


@pytest.mark.parametrize("text", [STAR, CHAIN.replace("a.x = b.x", "a.x = b.x AND a.z < b.z")])
def test_a_controller_goes_on_from_what_it_remembers(text: str) -> None:
    tables = turning_star(seconds=5)
    kept, restored = (Fed(text, tables, WATCHFUL) for _ in range(2))
    kept.feed()
    restored.feed(through_json=True)
    assert kept.controller.decisions
    assert restored.controller.decisions == kept.controller.decisions[-16:]
    assert restored.controller.position == kept.controller.position
    assert restored.controller.plan == kept.controller.plan
    assert restored.controller.changes == kept.controller.changes


def test_a_plan_that_someone_holds_stays_until_it_is_released() -> None:
    fed = Fed(STAR, turning_star(seconds=5), WATCHFUL)
    wanted = parse_plan("((h c) b) a", fed.query.aliases)
    fed.controller.follow(wanted, Statistics.default(fed.query), hold=True)
    fed.bucket.transition(wanted)
    fed.feed()
    assert [decision.reason for decision in fed.controller.decisions] == ["by command"]
    later = Fed(STAR, turning_star(seconds=5), WATCHFUL)
    later.controller.follow(wanted, Statistics.default(fed.query), hold=True)
    later.controller.release()
    later.feed()
    assert later.controller.decisions[1].reason.startswith("nobody has compared plans yet")


def test_a_plan_that_only_looked_better_is_left_again() -> None:
    """The model takes keys for independent. Here the hub's tuples that meet ``a`` are those that meet ``b``."""
    careful = "h: c a b; a: h c b; b: h c a; c: h a b"
    fed = Fed(STAR, dependent_star(), replace(WATCHFUL, persistence=1, gain=0.05), careful, states="none")
    fed.controller.release()
    fed.feed()
    tried, *_, back = (decision for decision in fed.controller.decisions if decision.action == "change")
    assert tried.plan == back.to == careful
    assert tried.observed_gain is not None
    assert tried.observed_gain < 0
    assert format_plan(fed.controller.plan, fed.query.aliases) == careful
    assert fed.controller.changes <= 4
