"""Queries that share a run come and go over buckets that lose their engines and run batches again.

Those that are there from the beginning to the end have the answer of a replay of each alone. Those that come or go have
what a single engine gives that nothing disturbs, and that is told of them at the same moments. Some cannot be computed
for some row. They have what such an engine gives that they leave before the batch of that row.
"""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.deciding import decide_often
from tests.properties.conformity import EAGER, small_stores
from tests.properties.family_conformity import restless_chains
from tests.properties.settings import randomized
from tests.properties.strategies import MEMORY_LIMITS
from tests.spark.simulated import SimulatedQuery, shared_spec
from thalweg.cql import Source
from thalweg.cql.group import Group
from thalweg.driver.batches import run_batch
from thalweg.driver.bucket_driver import BucketDriver
from thalweg.driver.phases import Phases
from thalweg.engine.rows.batch import Batch
from thalweg.engine.time_bounds import NEVER
from thalweg.errors import ReaderError
from thalweg.options import Budget
from thalweg.plan.statistics import Statistics
from thalweg.policies import Policies
from thalweg.replayer import replay
from thalweg.spark.bucket_spec import Spec
from thalweg.spark.metrics import PHASES
from thalweg.spark.refill import batch_of
from thalweg.spark.run import Run, divided
from thalweg.spark.shared_run import Registered

SECOND = 1_000_000
SPAN = 40
"""Seconds of event time."""
SELECTIONS = ["x.v > 1", "x.v % 2 = 0", "x.id < 20", "6 / (x.w + 0 * x.id) > 1"]
"""The last one has no value for some rows, and which of them it is told of shows."""
Rows = Counter[str]


@pytest.fixture(autouse=True, scope="module")
def _small_chunks() -> Iterator[None]:
    """What takes very many rows otherwise happens all the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("thalweg.spark.chunks.window_log._SMALL", 3)
        patch.setattr("thalweg.spark.chunks.window_log._MERGED", 2)
        patch.setattr("thalweg.spark.chunks.window_log._LARGE", 1)
        patch.setattr("thalweg.engine.join_bucket._STRETCH", 2)
        decide_often(patch, period=1, promise=100.0, kept=1.0)
        yield


class World:
    """Streams, queries over one join, and what happens to them."""

    def __init__(self, rng: random.Random, *, is_plain: bool = False, may_fail: bool = True) -> None:
        self.rng, self.is_plain = rng, is_plain  # plain queries run under a budget
        self.may_fail = may_fail  # whether some cannot be computed for any row
        self.names = ["a", "b", "c"][: rng.choice([2, 2, 3])]
        self.counts_rows = rng.random() < 0.3
        self.divisors = [0, *[1] * rng.choice([9, 60]), 2] if rng.random() < 0.5 else [1, 2]
        self.sizes = [rng.randint(1, 3) for _ in self.names]
        self.tables = {name: self._table(rng.randint(0, 40)) for name in self.names}
        self.catalog = {name: Source(table.schema, "ts") for name, table in self.tables.items()}

    def _table(self, rows: int) -> pa.Table:
        rng = self.rng
        times = sorted(rng.randint(0, SPAN) * SECOND for _ in range(rows))
        return pa.table(
            {
                "ts": pa.array(times, pa.timestamp("us", "UTC")),
                "k": pa.array([rng.choice([1, 2, 3, None]) for _ in range(rows)], pa.int64()),
                "v": pa.array([rng.randint(0, 5) for _ in range(rows)], pa.int64()),
                "id": pa.array(range(rows), pa.int64()),
                "w": pa.array([rng.choice(self.divisors) for _ in range(rows)], pa.int64()),
            }
        )

    def text(self) -> str:
        """A query over the join, in words of its own."""
        rng = self.rng
        names = list(self.names)
        if not self.counts_rows:
            rng.shuffle(names)
        alias = {name: name if rng.random() < 0.7 else f"{name}_{rng.randint(0, 9)}" for name in names}
        items = ", ".join(f"{name} {alias[name]} {self._window(name)}" for name in names)
        conditions = [f"{alias[one]}.k = {alias[other]}.k" for one, other in pairwise(names)]
        conditions += [
            rng.choice(SELECTIONS[: 3 if self.is_plain else 4]).replace("x.", f"{alias[name]}.")
            for name in names
            if rng.random() < 0.4
        ]
        first, second = alias[names[0]], alias[names[1]]
        if rng.random() < 0.3 and self.may_fail:
            conditions.append(rng.choice([f"({first}.v + {second}.v) % 3 <> 1", f"{first}.v / {second}.w < 5"]))
        where = f"FROM {items} WHERE {' AND '.join(conditions)}"
        if not self.may_fail:
            return f"SELECT {first}.id AS one, {second}.id AS two {where}"
        shown = f"{first}.id AS one, {rng.choice(['', '', '6 / '])}{second}.{rng.choice(['id', 'w'])} AS two"
        kind = "" if self.is_plain else rng.choice(["", "", "DSTREAM ", "groups", "all"])
        if kind == "groups":
            summed = rng.choice([f"{second}.v", f"{second}.v / {first}.w", f"{second}.v * {2**61}"])
            return f"SELECT {first}.k, COUNT(*) AS n, SUM({summed}) AS s {where} GROUP BY {first}.k"
        if kind == "all":
            return f"SELECT COUNT(*) AS n, MAX({first}.id) AS m {where}"
        return f"SELECT {kind}{shown} {where}"

    def _window(self, name: str) -> str:
        if not self.counts_rows:
            return f"[RANGE {self.rng.choice([1, 3, 9, 30])} SECONDS]"
        size = self.sizes[self.names.index(name)]
        return f"[PARTITION BY k ROWS {size if self.rng.random() < 0.8 else size + 1}]"


@randomized(share=15)
@given(seed=st.integers(0, 2**32))
def test_queries_that_share_a_run(seed: int) -> None:
    rng = random.Random(seed)
    world = World(rng)
    queries = [Registered(f"q{number}", world.text()) for number in range(rng.randint(2, 6))]
    most_buckets = rng.choice([1, 2, 5])
    carried = {name: tuple(table.column_names) for name, table in world.tables.items()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("thalweg.plan.slices.MOST_SELECTIONS", rng.choice([1, 2, 62]))
        if rng.random() < 0.5:
            restless_chains(patch)
        if rng.random() < 0.3:
            small_stores(patch)
        for founder, taken in divided(queries, most_buckets, world.catalog):
            check(world, Run("run1", founder, most_buckets, taken, world.catalog, carried), seed)


@randomized(share=15)
@given(seed=st.integers(0, 2**32))
def test_queries_that_share_a_run_and_its_budget(seed: int) -> None:
    """They get a part of their answers, which is the same in all attempts; so is who fails."""
    rng = random.Random(seed)
    budgets: list[int | str] = [0, "10%", "60%", "100%", 20]
    share_a_budget(World(rng, is_plain=True, may_fail=False), seed, rng.choice(budgets))


@randomized(share=15)
@given(seed=st.integers(0, 2**32))
def test_queries_that_fail_under_a_budget_do_so_in_all_attempts(seed: int) -> None:
    """Whether a row is found that a query has no value for depends on what is refused."""
    rng = random.Random(seed)
    share_a_budget(World(rng, is_plain=True), seed, rng.choice(["10%", "60%", "90%", "100%"]))


def share_a_budget(world: World, seed: int, budget: int | str) -> None:
    """Play runs of a few queries."""
    rng = world.rng
    queries = [Registered(f"q{number}", world.text()) for number in range(rng.randint(2, 4))]
    carried = {name: tuple(table.column_names) for name, table in world.tables.items()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("thalweg.adapt.batch_spending.BatchSpender.period", 3)
        patch.setattr("thalweg.engine.machine.machine._OUTPUT_BLOCK", rng.choice([1, 3, 4096]))
        for founder, taken in divided(queries, rng.choice([1, 2]), world.catalog):
            check(world, Run("run1", founder, 2, taken, world.catalog, carried), seed, budget)


@dataclass
class Moment:
    """What a batch brought: the rows of each stream, who was there from then on, and the watermark before it."""

    rows: dict[int, Batch]
    present: list[Registered]
    watermark: int
    ends: bool


@dataclass
class Expected:
    """What a single engine gives that nothing disturbs."""

    rows: dict[str, Rows] = field(default_factory=dict)
    failed: dict[Registered, int] = field(default_factory=dict)
    """The batch in which each query has failed."""
    unable: set[Registered] = field(default_factory=set)
    """Those of them that could not even enter: a condition of theirs has no value for a row that is held."""


def expected(spec: Spec, moments: list[Moment]) -> Expected:
    """Queries that fail in a batch leave before it: then all begins again."""
    known = Expected()
    while True:
        known.rows, failed = {}, len(known.failed)
        try:
            _play(spec, moments, known)
        except ReaderError:
            assert len(known.failed) > failed, "a query fails that has left"
        else:
            return known


def _play(spec: Spec, moments: list[Moment], known: Expected) -> None:
    assert spec.shared is not None
    driver: BucketDriver | None = None
    there: list[Registered] = []
    for number, moment in enumerate(moments):
        entered = [
            each for each in moment.present if known.failed.get(each, number) >= number and each not in known.unable
        ]
        staying = [each for each in entered if known.failed.get(each) != number]
        try:
            if driver is None:
                driver = BucketDriver(spec.shared.group(staying), Policies(), keeps_all=True)
                driver.begin(Statistics.default(spec.query), None)
            else:
                for queries in (entered, staying):
                    if queries != there:
                        _serve(driver, spec.shared.group(queries), moment, known)
                        there = queries
            there = staying
            if moment.rows or moment.ends:
                watermark = 2**62 if moment.ends else moments[number + 1].watermark
                for reader, table in run_batch(driver, spec.query, moment.rows, watermark, Phases(PHASES))[0]:
                    known.rows.setdefault(reader, Counter()).update(map(repr, table.to_pylist()))
        except ReaderError as error:
            known.failed |= {each: number for each in moment.present if each.name in error.reasons}
            raise


def _serve(driver: BucketDriver, group: Group, moment: Moment, known: Expected) -> None:
    """Go on with other queries; it is noted which of them could not enter."""
    try:
        driver.serve(group, moment.watermark)
    except ReaderError as error:
        known.unable |= {each for each in moment.present if each.name in error.reasons}
        raise


def check(world: World, run: Run, seed: int, budget: int | str | None = None) -> None:
    """Play a run of these queries, to which others come."""
    rng = world.rng
    is_whole = budget in (None, "100%")
    disorder = rng.choice([0, 3, 10]) * SECOND
    policies = Policies(
        production=rng.choice(["push", "push", "jit"]),
        memory_limit=rng.choice([None, *MEMORY_LIMITS]),
        states=rng.choice(["all", "none", "auto"]),
        adaptive=rng.choice([None, EAGER]),
        sharing=rng.choice(["auto", "auto", "cpu", "memory", "pull_up"]),
    )
    if budget is not None:
        policies = replace(policies, states="none", budget=Budget.of(budget)).on_spark(run.partitioning.buckets)
    spec = shared_spec(run, run.registered, disorder, policies)
    if budget is not None and spec.shared is not None and rng.random() < 0.5:
        spec = replace(spec, shared=replace(spec.shared, weight={"q0": 5.0, "new1": rng.choice([0.1, 20.0])}))
    query = spec.query
    moments: list[Moment] = []
    present, lasting, watermark, numbers = list(run.registered), {each.name for each in run.registered}, NEVER, 0
    texts = {each.name: each.text for each in run.registered}
    names, entered = set(texts), set[str]()
    with tempfile.TemporaryDirectory() as directory:
        troubled = rng.choice([0.0, 0.2, 0.6])
        running = SimulatedQuery(spec, run.partitioning, rng, Path(directory), troubled)
        lived_on = SimulatedQuery(spec, run.partitioning, random.Random(0), Path(directory) / "lived on")
        loses_all = rng.random() < 0.3
        for rows in [*_batches(world, [ref.stream for ref in query.streams], disorder), None]:
            commands: list[dict[str, Any]] = []
            gone = [each for each in present if running.failed.get(each.name, (-1, ""))[0] >= each.since]
            present = [each for each in present if each not in gone]
            lasting -= {each.name for each in gone}
            if rows is None:
                commands.append({"command": "end"})
            elif watermark != NEVER:
                if rng.random() < 0.3:
                    numbers += 1
                    free = [name for name in sorted(names) if all(each.name != name for each in present)]
                    name = rng.choice(free) if free and rng.random() < 0.5 else f"new{numbers}"
                    new = Registered(name, world.text(), len(moments) + 1)
                    if run.shared.apart(new, present) is None:
                        present.append(new)
                        names.add(name)
                        entered.add(name)
                        commands.append({"command": "enter", "query": "run1", "name": new.name, "text": new.text})
                if len(present) > 1 and rng.random() < 0.2:
                    leaving = present.pop(rng.randrange(len(present)))
                    lasting.discard(leaving.name)
                    commands.append({"command": "leave", "query": "run1", "name": leaving.name})
            given_rows = rows or [None] * len(query.streams)
            if loses_all:
                for bucket in running.buckets:
                    bucket.lose_engines()
            for each in (running, lived_on):
                each.batch(given_rows, commands)
            for one, other in zip(running.buckets, lived_on.buckets, strict=True):
                assert one.committed == other.committed, f"seed {seed}"
            assert running.failed.keys() == lived_on.failed.keys()
            metrics = running.buckets[0].metrics
            refused = [each for each in metrics[-1]["refused"] if "cannot be computed" not in each] if metrics else []
            assert refused == [], f"seed {seed}: {refused}"
            taken = {s: batch_of(query, s, each[0]) for s, each in enumerate(given_rows) if each is not None}
            moments.append(Moment(taken, list(present), watermark, rows is None))
            if metrics:
                watermark = cast("int", metrics[-1]["watermark"]) if rows is not None else 2**62
    for name in names:
        assert Counter(map(repr, running.answer(name))) == Counter(map(repr, lived_on.answer(name))), f"seed {seed}"
    known = expected(spec, moments)
    failed = {each.name for each in known.failed}
    if is_whole or not world.may_fail:
        assert running.failed.keys() == failed, f"seed {seed}"
    else:  # who fails depends on what is found, and what one that enters sees on who has failed
        names = texts.keys() - entered
        assert running.failed.keys() & names <= failed, f"seed {seed}"
        names -= failed
    for name in sorted(names):
        got = Counter(map(repr, running.answer(name)))
        want = known.rows.get(name, Counter())
        assert got <= want, f"seed {seed}, {name}: extra {got - want}"
        assert got == want or not is_whole, f"seed {seed}, {name}: missing {want - got}"
        if is_whole and name in lasting and name not in running.failed:
            alone = Counter(map(repr, replay(texts[name], world.tables).to_pylist()))
            assert got == alone, f"seed {seed}, {texts[name]}: missing {alone - got}, extra {got - alone}"


def _batches(
    world: World, streams: list[str], disorder: int
) -> Iterator[list[tuple[pa.Table, list[int | None]] | None]]:
    """The rows of the streams, about in the order of their times; those of one stream and time stay in order."""
    rng, strays = world.rng, dict[tuple[int, int], int]()
    coming = []
    for s, name in enumerate(streams):
        times = world.tables[name]["ts"].cast(pa.int64()).to_pylist()
        coming += [(t + strays.setdefault((s, t), rng.randint(0, disorder)), s, row, t) for row, t in enumerate(times)]
    coming.sort(key=lambda each: each[0])
    while coming:
        count = rng.choice([2, 8, 25])
        batch, coming = coming[:count], coming[count:]
        rows: list[tuple[pa.Table, list[int | None]] | None] = []
        for s, name in enumerate(streams):
            mine = [(row, t) for _, stream, row, t in batch if stream == s]
            table = world.tables[name].take(pa.array([row for row, _ in mine], pa.int64()))
            rows.append((table, [t for _, t in mine]) if mine else None)
        yield rows
