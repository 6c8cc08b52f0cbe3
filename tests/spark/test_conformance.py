"""The same answer on Spark as the oracle's: however many buckets, and with a restart before the end."""

from __future__ import annotations

import random
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
from tests.spark.runs import FileRun, cut, write_stream
from thalweg.cql import Source, bind
from thalweg.intake import as_table

KINDS: dict[str, Profile] = {"join": JOINS, "aggregate": AGGREGATES, "difference": DIFFERENCES}
PLAN = [("join", seed) for seed in range(5)] + [("aggregate", seed) for seed in range(3)] + [("difference", 0)]


def drawn(kind: str, seed: int) -> Case:
    """A random case with an answer worth comparing, the same for every run."""

    def worthy(case: Case) -> bool:
        if not case.minus and contradictory(case):
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
    tables = {name: as_table(name, table) for name, table in case.tables().items()}
    times = case.times()
    query = bind(case.cql(), {name: Source(table.schema, times[name]) for name, table in tables.items()})[0]
    for name, table in tables.items():
        if times[name] is None:
            write_stream(tmp_path / "static" / name, [table])
            continue
        in_order = table.take(pa.array(sorted(range(table.num_rows), key=lambda i, t=table: t[TIME][i].value or 0)))
        write_stream(tmp_path / "in" / name, cut(in_order, rng.choice([1, 2, 4])))
    running = FileRun(spark, tmp_path, case.cql())
    buckets = rng.choice([1, 3])
    options = {"buckets": buckets, "states": case.states, "production": production_of(case)}
    running.run(options)
    running.end(options)
    got, want = normalised_table(running.answer(query.schema)), expected(case)
    assert got == want, f"missing {want - got}\nextra {got - want}\n{case.cql()}"
