"""Plans that adapt under a budget on Spark: what decides is committed, so attempts decide the same."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.adapt.workloads import STAR, turning_star
from tests.spark.simulated import SimulatedQuery, simulated_spec
from thalweg.cql import Source, bind
from thalweg.engine.join_bucket import JoinBucket
from thalweg.options import Options
from thalweg.plan.partitioning import choose_partitioning
from thalweg.policies import Policies
from thalweg.settings import Adaptivity
from thalweg.spark.prices import Prices

BATCHES = 24
QUICK = Adaptivity(period=500, overhead=10.0, cool_down=1)

Rows = list[tuple[pa.Table, list[int | None]] | None]


class Job:
    """The star whose streams turn in the middle, or another query, in batches of half a second."""

    def __init__(
        self,
        directory: Path,
        options: Options,
        troubled: float = 0.0,
        target_us: int | None = None,
        text: str = STAR,
        tables: dict[str, pa.Table] | None = None,
    ) -> None:
        self.tables = turning_star(seconds=BATCHES / 4) if tables is None else tables
        (query,) = bind(text, {name: Source(table.schema, "ts") for name, table in self.tables.items()})
        self._streams = [ref.stream for ref in query.streams]
        partitioning = choose_partitioning(query, 1)
        policies = Policies.of(options, written=options.plan is not None, lasting=False).on_spark(1, target_us)
        spec = simulated_spec(query, partitioning, [None] * len(self._streams), options.plan, policies)
        self.query = SimulatedQuery(spec, partitioning, random.Random(1), directory, troubled)
        (self.bucket,) = self.query.buckets
        self._batch = 0

    def go_on_from(self, other: Job) -> None:
        """Begin with what another has committed, under other options."""
        self.bucket.go_on_from(other.bucket)
        self._batch = other._batch

    def rows(self, batch: int) -> Rows:
        """Of half a second."""
        rows: Rows = []
        for name in self._streams:
            table = self.tables[name]
            times = table["ts"].cast(pa.int64()).to_numpy()
            mine = (times >= batch * 500_000) & (times < (batch + 1) * 500_000)
            rows.append((table.filter(pa.array(mine)), times[mine].tolist()))
        return rows

    def run(
        self, batches: int = BATCHES, commands: list[dict[str, Any]] | None = None, prices: Prices | None = None
    ) -> None:
        """Take so many more batches; commands and prices come with the first of them."""
        for _ in range(batches):
            self.query.batch(self.rows(self._batch), commands or [], prices)
            commands = prices = None
            self._batch += 1

    def total(self, what: str) -> float:
        """How much there was of something in all batches."""
        return float(sum(each["spending"][what] for each in self.metrics))

    def lately(self, what: str) -> int:
        """How much there was of something in the last batches."""
        return sum(each["spending"][what] for each in self.metrics[-3:])

    @property
    def metrics(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.bucket.metrics
        return found

    @property
    def decisions(self) -> list[dict[str, Any]]:
        return [each for metrics in self.metrics for each in metrics["decisions"]]

    @property
    def plans(self) -> list[str]:
        return [metrics["plan"] for metrics in self.metrics]


def test_a_plan_follows_its_streams_under_overload_and_finds_more(tmp_path: Path) -> None:
    adapting = Job(tmp_path / "adapting", Options(budget="10%", adaptive=QUICK))
    fixed = Job(tmp_path / "fixed", Options(budget="10%", adaptive=False))
    for each in (adapting, fixed):
        each.run()
    assert len(set(fixed.plans)) == 1
    assert adapting.plans[0] == fixed.plans[0] != adapting.plans[-1]
    assert adapting.lately("found") > 1.2 * fixed.lately("found")
    assert adapting.lately("allowed") < 0.8 * fixed.lately("allowed")
    changes = [each for each in adapting.decisions if each["action"] == "change"]
    assert any("results/s under the budget instead of" in each["reason"] for each in changes), changes
    lasting = json.loads(adapting.bucket.committed[0] or "")["history"]["periods"]
    assert [each["plan"] for each in lasting] == list(dict.fromkeys(adapting.plans))


def test_attempts_decide_the_same_whatever_their_engines_have_been_through(tmp_path: Path) -> None:
    """The simulated buckets assert that attempts at a batch write the same; here two runs are compared as well."""
    options = Options(budget="10%", adaptive=QUICK)
    troubled = Job(tmp_path / "troubled", options, troubled=0.3)
    calm = Job(tmp_path / "calm", options)
    for batch in range(BATCHES):
        if batch % 5 == 4:
            troubled.bucket.lose_engines()
        for each in (troubled, calm):
            each.run(1)
        assert troubled.bucket.committed == calm.bucket.committed
        assert troubled.metrics[-1]["latest_decisions"] == calm.metrics[-1]["latest_decisions"]
    assert len(set(calm.plans)) > 1


def test_all_that_is_needed_is_enough_also_where_it_turns_out_to_be_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the middle of a batch, 100% was of what had been thought before it. The plan adapts meanwhile, too."""
    monkeypatch.setattr("thalweg.adapt.batch_spending.BatchSpender.period", 20)
    job = Job(tmp_path, Options(budget="100%", adaptive=QUICK))
    job.run()
    assert job.plans[0] != job.plans[-1]
    assert not any("results/s" in each["reason"] for each in job.decisions)
    assert not any(each["spending"]["refused"] for each in job.metrics)


@pytest.mark.parametrize("loses", [False, True])
def test_a_plan_that_was_sent_stays_until_it_may_adapt_again(tmp_path: Path, loses: bool) -> None:
    job = Job(tmp_path, Options(budget="60%", adaptive=QUICK))
    job.run(3, [{"command": "plan", "plan": "((h c) b) a"}])
    if loses:
        job.bucket.lose_engines()
    job.run(3)
    assert set(job.plans) == {"((h c) b) a"}
    job.run(6, [{"command": "adapt"}])
    assert job.plans[-1] != "((h c) b) a"
    assert not any(each["refused"] for each in job.metrics)


def test_what_is_committed_of_a_controller_stays_small(tmp_path: Path) -> None:
    job = Job(tmp_path, Options(budget="10%", adaptive=QUICK))
    job.run()
    record = json.loads(job.bucket.committed[0] or "")
    assert len(json.dumps(record["controller"])) < 16_000
    assert np.isfinite(record["controller"]["view"]["rates"]).all()


PAID = """
    SELECT o.n AS o, p.n AS p, v.n AS v
    FROM orders o [RANGE 5 SECONDS], paid p [RANGE 5 SECONDS], viewed v [RANGE 5 SECONDS]
    WHERE o.x = p.x AND o.y = v.y
"""


def paid() -> dict[str, pa.Table]:
    """An order is paid once, and soon. Its customer has viewed five others, at any time in the window."""
    rng = np.random.default_rng(3)
    span = BATCHES * 500_000
    ordered = np.sort(rng.integers(0, span, 200 * BATCHES))
    viewed = np.sort(rng.integers(0, span, 200 * BATCHES))
    tables = {}
    for name, times in (("orders", ordered), ("paid", ordered + 100_000), ("viewed", viewed)):
        columns = {"x": np.arange(len(times)), "y": rng.integers(0, 400, len(times)), "n": np.arange(len(times))}
        tables[name] = pa.table({"ts": pa.array(times, pa.timestamp("us")), **columns})
    return tables


@pytest.mark.parametrize("plan", ["(o p) v", "(o v) p"])
def test_rows_of_one_batch_do_not_stand_for_windows(plan: str, tmp_path: Path) -> None:
    """In a batch an order meets what was paid for it more often than views. In windows it is the other way round."""
    job = Job(tmp_path, Options(budget="50%", adaptive=QUICK, plan=plan), text=PAID, tables=paid())
    job.run()
    assert job.plans[-1].startswith(("(o p) v", "o: p v")), job.plans


def test_options_may_change_at_a_restart(tmp_path: Path) -> None:
    """With a budget or without one, adaptive or not: from the first batch without a budget on, nothing is missing."""
    options = [
        Options(budget="20%", adaptive=QUICK),
        Options(adaptive=QUICK, states="all"),
        Options(budget="20%", adaptive=False),
        Options(budget="100%", adaptive=QUICK),
        Options(budget="20%", adaptive=QUICK, plan="((h c) b) a"),
    ]
    whole = Job(tmp_path / "whole", Options(states="none", adaptive=False))
    before: Job | None = None
    for place, each in enumerate(options):
        job = Job(tmp_path / str(place), each, troubled=0.3)
        if before is not None:
            job.go_on_from(before)
        job.run(4)
        whole.run(4)
        for mine, all_there_is in zip(job.metrics, whole.metrics[-4:], strict=True):
            if each.budget in (None, "100%"):
                assert mine["results"] == all_there_is["results"]
            else:
                assert mine["results"] <= all_there_is["results"]
                assert mine["spending"]["refused"]
        before = job


@pytest.mark.parametrize(("budget", "target_us"), [("20%", None), (8_000, None), ("auto", 1_000_000)])
def test_the_estimate_of_the_full_answer_is_right_on_average(
    budget: int | str, target_us: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By repetition, also while plans change: the same batches, with other random points."""
    monkeypatch.setattr("thalweg.adapt.batch_spending.BatchSpender.period", 100)
    prices = Prices(fixed=0.1, row=1e-5, tuple=1e-5, probe=2e-4, result=1e-4)
    whole = Job(tmp_path / "whole", Options(budget="100%", adaptive=False))
    whole.run(16)
    begin, estimates, variances = JoinBucket.renew_accounts, [], []
    for repetition in range(40):
        monkeypatch.setattr(
            JoinBucket, "renew_accounts", lambda join, seed, more=1000 * repetition: begin(join, seed + more)
        )
        job = Job(tmp_path / str(repetition), Options(budget=budget, adaptive=QUICK), target_us=target_us)
        job.run(16, prices=prices)
        assert not job.total("hopeless")
        assert job.total("found") < 0.9 * whole.total("found")
        estimates.append(job.total("full"))
        variances.append(job.total("variance"))
    spread = float(np.std(estimates, ddof=1))
    assert abs(np.mean(estimates) - whole.total("found")) < 4 * spread / np.sqrt(len(estimates))
    assert 0.6 * spread < np.sqrt(np.mean(variances)) < 2 * spread
