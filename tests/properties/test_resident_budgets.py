"""Budgets over buckets that keep a log, lose their engines and run batches again.

What attempts at a batch refuse is the same, whatever their engines have been through: that is asserted by the simulated
buckets (:mod:`tests.spark.simulated`). Here two runs of one input are compared as well: one whose engines are lost all
the time, and one whose engines live on.
"""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.cases import Case
from tests.lifetimes import contradictory
from tests.oracle import expected, normalised_table
from tests.properties.conformity import EAGER, production_of, tight_memory
from tests.properties.settings import randomized
from tests.properties.test_budgets import any_join
from tests.spark.simulated import SimulatedQuery, simulated_spec
from thalweg.arrow_input import as_table
from thalweg.cql import Source, bind
from thalweg.cql.query import Query
from thalweg.plan.partitioning import choose_partitioning
from thalweg.plan.tree import format_tree, left_deep
from thalweg.policies import Policies
from thalweg.replayer.arrivals import Arrivals, arrivals
from thalweg.settings import Budget
from thalweg.spark.prices import Prices, Shares

BUDGETS = (0, 1, 1000, 1_000_000, "0%", "20%", "60%", "99%", "auto")
ENOUGH = ("100%", "250%", 2**62, "auto")
PLENTY, SCARCE = 3_600_000_000, 1_000_000
"""Microseconds that a trigger may take."""


@pytest.fixture(autouse=True, scope="module")
def _small_chunks() -> Iterator[None]:
    """What takes very many rows otherwise happens all the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("thalweg.spark.chunks.window_log._SMALL", 3)
        patch.setattr("thalweg.spark.chunks.window_log._MERGED", 2)
        patch.setattr("thalweg.spark.chunks.window_log._LARGE", 1)
        patch.setattr("thalweg.engine.rows.payload._SMALL_CHUNK", 3)
        patch.setattr("thalweg.adapt.batch_spending.BatchSpender.period", 3)  # divide anew all the time
        yield


@dataclass
class World:
    """A case as micro-batches of buckets."""

    case: Case
    query: Query
    streams: list[Arrivals]
    tables: dict[str, pa.Table]
    disorder: int
    batches: list[list[tuple[int, int]]]

    @staticmethod
    def of(case: Case, rng: random.Random) -> World:
        assume(not contradictory(case))
        case = replace(case, output="istream", lateness=None)  # buckets are told how late rows may be
        tables = {name: as_table(name, table) for name, table in case.tables().items()}
        times = case.times()
        query = bind(case.cql(), {name: Source(table.schema, times[name]) for name, table in tables.items()})[0]
        streams = arrivals([(ref.alias, tables[ref.stream], ref.time) for ref in query.streams], None)
        span = max([1, *(int(s.times[-1] - s.times[0]) for s in streams if len(s))])
        disorder = int(rng.choice([0.0, 0.1, 0.5]) * span)
        strays: dict[tuple[int, int], int] = {}
        coming = sorted(
            (int(t) + strays.setdefault((s, int(t)), rng.randint(0, disorder)), s, i)
            for s, stream in enumerate(streams)
            for i, t in enumerate(stream.times)
            if not query.streams[s].is_static
        )
        batches = []
        while coming:
            count = rng.choice([1, 3, 10, 40])
            batches.append([(s, i) for _, s, i in coming[:count]])
            coming = coming[count:]
        return World(case, query, streams, tables, disorder, batches)

    def rows(self, batch: list[tuple[int, int]]) -> list[tuple[pa.Table, list[int | None]] | None]:
        found: list[tuple[pa.Table, list[int | None]] | None] = []
        for position, stream in enumerate(self.streams):
            places = [i for s, i in batch if s == position]
            table = stream.table.take(pa.array(stream.rows[places], pa.int64()))
            found.append((table, np.array(stream.times[places]).tolist()) if places else None)
        return found

    def plan(self, rng: random.Random) -> dict[str, object]:
        """A command that changes the order of probes."""
        order = list(range(len(self.streams)))
        rng.shuffle(order)
        return {"command": "plan", "plan": format_tree(left_deep(order), self.query.aliases)}

    def policies(self, budget: int | str, buckets: int, target_us: int) -> Policies:
        case = self.case
        policies = Policies(
            case.migration,
            production_of(case),
            case.memory_limit,
            "none",
            EAGER if case.eager else None,
            budget=Budget.of(budget),
        )
        return policies.on_spark(buckets, target_us)


def some_prices(rng: random.Random, buckets: int) -> Prices:
    """Of machines of all kinds; in a second there is time for anything from nothing to some hundred probes."""
    price = rng.choice([1e-3, 1e-2, 1e-1])
    shares = {bucket: Shares(rng.random(), rng.random(), rng.random()) for bucket in range(buckets)}
    known = shares if rng.random() < 0.5 else {}
    return Prices(
        rng.choice([0.0, 0.5, 2.0]),
        price / 10,
        price / 10,
        price,
        price * rng.choice([0, 1, 5]),
        rng.choice([0, 1, 2]),
        known,
    )


@randomized(share=60)
@given(case=any_join(), budget=st.sampled_from(BUDGETS), seed=st.integers(0, 2**32))
def test_attempts_refuse_the_same_and_nothing_is_added(case: Case, budget: int | str, seed: int) -> None:
    rng = random.Random(seed)
    world = World.of(case, rng)
    partitioning = choose_partitioning(world.query, rng.choice([1, 2, 5]))
    policies = world.policies(budget, partitioning.buckets, SCARCE)
    wanted, refused, answers, lifted = 0, 0, [], None
    with tempfile.TemporaryDirectory() as directory, tight_memory(case):
        running, lived_on = _runs(world, policies, rng, Path(directory))
        lifts_at = rng.choice([None, rng.randrange(len(world.batches) + 1)])
        for number, batch in enumerate(world.batches):
            commands = [world.plan(rng)] if rng.random() < 0.2 else []
            if number == lifts_at:
                commands.append({"command": "budget", "budget": "none"})
                lifted = len(answers)
            prices = some_prices(rng, partitioning.buckets) if rng.random() < 0.5 else None
            if rng.random() < 0.2:
                for bucket in running.buckets:
                    bucket.lose_engines()
            answers.append(running.batch(world.rows(batch), commands, prices))
            assert _rows(answers[-1]) == _rows(lived_on.batch(world.rows(batch), commands, prices))
            _compare(running, lived_on)
        end: list[dict[str, Any]] = [{"command": "end"}]
        answers.append(running.batch([None] * len(world.streams), end))
        assert _rows(answers[-1]) == _rows(lived_on.batch([None] * len(world.streams), end))
        _compare(running, lived_on)
    for bucket in running.buckets:
        for place, metrics in enumerate(bucket.metrics):
            spending: dict[str, Any] = metrics["spending"]  # type: ignore[assignment]
            assert spending["allowed"] + spending["refused"] == spending["wanted"]
            assert spending["wanted"] == sum(wanted for wanted, _ in spending["streams"].values())
            assert metrics["refused"] == []
            wanted, refused = wanted + spending["wanted"], refused + spending["refused"]
            if lifted is not None and place >= lifted and partitioning.buckets == 1:
                assert not spending["refused"]
    got, want = _rows([table for tables in answers for table in tables]), Counter(expected(world.case))
    assert got <= want, got - want
    if not refused:
        assert got == want
    if budget in (0, "0%") and lifted is None and len(world.case.items) > 1:
        assert not got


@randomized(share=30)
@given(case=any_join(), budget=st.sampled_from(ENOUGH), seed=st.integers(0, 2**32))
def test_with_as_much_as_they_need_buckets_leave_nothing_out(case: Case, budget: int | str, seed: int) -> None:
    rng = random.Random(seed)
    world = World.of(case, rng)
    partitioning = choose_partitioning(world.query, rng.choice([1, 2, 5]))
    policies = world.policies(budget, partitioning.buckets, PLENTY)
    answers = []
    with tempfile.TemporaryDirectory() as directory, tight_memory(case):
        running, _ = _runs(world, policies, rng, Path(directory))
        for batch in world.batches:
            commands = [world.plan(rng)] if rng.random() < 0.2 else []
            answers += running.batch(world.rows(batch), commands)
        answers += running.batch([None] * len(world.streams), [{"command": "end"}])
    assert _rows(answers) == Counter(expected(world.case))


@randomized(share=30)
@given(case=any_join(), seed=st.integers(0, 2**32))
def test_when_the_load_falls_the_whole_answer_is_back(case: Case, seed: int) -> None:
    """Nothing is missing of what is found from the batch on for which there is time again."""
    rng = random.Random(seed)
    world = World.of(case, rng)
    nothing, anything = Prices(10.0, 1e-6, 1e-6, 1e-6), Prices(0.0, 1e-9, 1e-9, 1e-9)
    calm = rng.randrange(len(world.batches) + 1)
    with tempfile.TemporaryDirectory() as directory, tight_memory(case):
        running, _ = _runs(world, world.policies("auto", 1, SCARCE), rng, Path(directory))
        free, _ = _runs(world, Policies(), rng, Path(directory) / "free")
        for number, batch in enumerate([*world.batches, None]):
            commands = [] if batch is not None else [{"command": "end"}]
            rows = [None] * len(world.streams) if batch is None else world.rows(batch)
            found = _rows(running.batch(rows, commands, nothing if number < calm else anything))
            whole = _rows(free.batch(rows, commands))
            assert found <= whole
            assert number < calm or found == whole


def _runs(
    world: World, policies: Policies, rng: random.Random, directory: Path
) -> tuple[SimulatedQuery, SimulatedQuery]:
    """One whose engines are lost, and whose batches are run again; one that nothing happens to."""
    lateness = [None if ref.is_static else world.disorder for ref in world.query.streams]
    relations = {s: world.tables[ref.stream] for s, ref in enumerate(world.query.streams) if ref.is_static}
    parts = policies.budget.parts if policies.budget is not None else 1
    partitioning = choose_partitioning(world.query, parts)
    spec = simulated_spec(world.query, partitioning, lateness, world.case.plan, policies, relations=relations)
    troubled = SimulatedQuery(spec, partitioning, rng, directory / "troubled", rng.choice([0.2, 0.5]))
    return troubled, SimulatedQuery(spec, partitioning, random.Random(0), directory / "lived on")


def _compare(one: SimulatedQuery, other: SimulatedQuery) -> None:
    for mine, theirs in zip(one.buckets, other.buckets, strict=True):
        assert mine.committed == theirs.committed
        for metrics, others in zip(mine.metrics, theirs.metrics, strict=True):
            assert metrics["spending"] == others["spending"]


def _rows(tables: list[pa.Table]) -> Counter[Any]:
    return Counter(normalised_table(pa.concat_tables(tables))) if tables else Counter()


JOIN = "SELECT a.n AS a, b.n AS b, c.n AS c FROM a, b, c WHERE a.k = b.k AND b.k = c.k WINDOW RANGE {} MICROSECONDS"


@pytest.mark.parametrize("seed", range(8))
def test_the_order_in_which_rows_came_is_kept(seed: int) -> None:
    """Rows out of order, a tight budget, many partners: here it matters in which order partners are found."""
    rng = random.Random(seed)
    table = {
        name: pa.table({"ts": sorted(rng.choices(range(200), k=80)), "k": rng.choices(range(2), k=80), "n": range(80)})
        for name in "abc"
    }
    query = bind(JOIN.format(rng.choice([20, 60])), {name: Source(each.schema, "ts") for name, each in table.items()})[
        0
    ]
    partitioning = choose_partitioning(query, 1)
    policies = Policies(budget=Budget.of(rng.choice(["5%", "30%", 500_000]))).on_spark(1)
    spec = simulated_spec(query, partitioning, [60] * 3, None, policies)
    coming = sorted(
        (t + rng.randint(0, 60), s, i)
        for s, name in enumerate("abc")
        for i, t in enumerate(table[name]["ts"].to_pylist())
    )
    with tempfile.TemporaryDirectory() as directory:
        forgetful = SimulatedQuery(spec, partitioning, rng, Path(directory) / "forgetful")
        lived_on = SimulatedQuery(spec, partitioning, random.Random(0), Path(directory) / "lived on")
        refused = 0
        while coming:
            count = rng.choice([5, 20, 40])
            batch, coming = coming[:count], coming[count:]
            rows: list[Any] = []
            for s, name in enumerate("abc"):
                places = [i for _, stream, i in batch if stream == s]
                part = table[name].take(pa.array(places, pa.int64()))
                rows.append((part, part["ts"].to_pylist()) if places else None)
            forgetful.buckets[0].lose_engines()
            assert _rows(forgetful.batch(rows)) == _rows(lived_on.batch(rows))
            _compare(forgetful, lived_on)
            spending: dict[str, Any] = lived_on.buckets[0].metrics[-1]["spending"]  # type: ignore[assignment]
            refused += spending["refused"]
    assert refused
