"""The same answer on Spark as the oracle's: however many buckets, with a restart, and with ever new plans."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import Phase, find, settings
from pyspark.sql import SparkSession

from tests.cases import TIME, Case
from tests.lifetimes import contradictory
from tests.oracle import expected, normalised_table
from tests.properties.conformity import production_of
from tests.properties.strategies import Profile, cases
from tests.properties.test_feeding import AGGREGATES, DIFFERENCES, JOINS
from tests.spark.runs import FileRun, cut, one_command_per_batch, write_stream
from thalweg.arrow_input import as_table
from thalweg.cql import Source, bind
from thalweg.cql.query import Query
from thalweg.plan.tree import format_tree, left_deep
from thalweg.spark.app import App

pytestmark = pytest.mark.filterwarnings("ignore:the event times of:thalweg.InputWarning")
"""Cases have times with and without a zone side by side."""

KINDS: dict[str, Profile] = {"join": JOINS, "aggregate": AGGREGATES, "difference": DIFFERENCES}
PLAN = [("join", seed) for seed in range(5)] + [("aggregate", seed) for seed in range(3)] + [("difference", 0)]


MIGRATIONS = ("jisc", "moving_state", "parallel_track", "cacq", "stairs", "stairs_jisc")
RESTLESS = 4
"""Micro-batches, each with a change of plan."""


def drawn(kind: str, seed: int, streams: int = 1) -> Case:
    """A random case of so many streams, with an answer worth comparing, the same for every run."""

    def worthy(case: Case) -> bool:
        if len(case.items) < streams or (not case.minus and contradictory(case)):
            return False
        return sum(expected(case).values()) > 3

    return find(
        cases(KINDS[kind]),
        worthy,
        settings=settings(database=None, max_examples=500, phases=[Phase.generate]),
        random=random.Random(f"{kind} {seed}"),
    )


@pytest.mark.parametrize(("kind", "seed"), PLAN)
def test_spark_gives_the_answer_of_the_oracle(spark: SparkSession, tmp_path: Path, kind: str, seed: int) -> None:
    case = drawn(kind, seed)
    rng = random.Random(seed)
    query = write(case, tmp_path, lambda: rng.choice([1, 2, 4]))
    running = FileRun(spark, tmp_path, case.cql())
    buckets = rng.choice([1, 3])
    options = {"buckets": buckets, "states": case.states, "production": production_of(case)}
    running.run(options)
    running.end(options)
    compare(running, query, case)


@pytest.mark.parametrize("migration", MIGRATIONS)
def test_another_plan_in_every_micro_batch(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, migration: str
) -> None:
    seed = MIGRATIONS.index(migration)
    case = drawn("aggregate" if seed % 3 == 2 else "join", 100 + seed, streams=3)
    query = write(case, tmp_path, lambda: RESTLESS)
    orders = range(len(query.streams)), reversed(range(len(query.streams)))
    plans = [format_tree(left_deep(list(order)), query.aliases) for order in orders]

    def send(app: App) -> None:
        for batch in range(RESTLESS):
            app.command("plan", plan=plans[batch % 2], states="all")
        app.command("end")

    one_command_per_batch(monkeypatch)
    running = FileRun(spark, tmp_path, case.cql())
    options = {"buckets": 2, "migration": migration, "production": production_of(case)}
    metrics = [each for each in running.run(options, send) if each["buckets"]]
    assert len(metrics) == RESTLESS + 1  # the end of the input is one, too
    for number, batch in enumerate(metrics[:RESTLESS], start=1):
        assert batch["refused"] == []
        assert [bucket["plan_changes"] for bucket in batch["buckets"]] == [number] * len(batch["buckets"])
        assert {bucket["history"][-1]["reason"] for bucket in batch["buckets"]} == {"by command"}
    compare(running, query, case)


def write(case: Case, root: Path, parts: Callable[[], int]) -> Query:
    """The streams of a case as files, each in so many parts."""
    tables = {name: as_table(name, table) for name, table in case.tables().items()}
    times = case.times()
    for name, table in tables.items():
        if times[name] is None:
            write_stream(root / "static" / name, [table])
            continue
        in_order = table.take(pa.array(sorted(range(table.num_rows), key=lambda i, t=table: t[TIME][i].value or 0)))
        write_stream(root / "in" / name, cut(in_order, parts()))
    return bind(case.cql(), {name: Source(table.schema, times[name]) for name, table in tables.items()})[0]


def compare(running: FileRun, query: Query, case: Case) -> None:
    got, want = normalised_table(running.answer(query.schema)), expected(case)
    assert got == want, f"missing {want - got}\nextra {got - want}\n{case.cql()}"
