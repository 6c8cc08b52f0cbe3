"""A bucket fed as a stream feeds it: batches cut anywhere, rows out of order, the plan changed between batches.

The bucket keeps the payload itself here and must forget what is over; a replay hands it whole tables. And between any
two batches it may be handed over, through an image, to another bucket that goes on in its place.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.cases import Case
from tests.lifetimes import contradictory
from tests.oracle import expected, normalised_table
from tests.properties.conformity import production_of, tight_memory
from tests.properties.predicates import EdgeKind
from tests.properties.settings import randomized
from tests.properties.strategies import ALL_WINDOWS, Profile, cases
from thalweg.cql import Source, bind
from thalweg.cql.group import Group
from thalweg.cql.query import Query
from thalweg.driver.planning import plan_for
from thalweg.engine.bucket import AnyBucket, open_bucket
from thalweg.engine.image.image import mark_dirty, read_image, write_image
from thalweg.engine.outputs.readers import Emitted
from thalweg.engine.rows.batch import Batch
from thalweg.engine.time_bounds import NEVER
from thalweg.plan import Statistics
from thalweg.plan.difference import AnyPlan
from thalweg.policies import Policies
from thalweg.replayer.arrivals import Arrivals, arrivals

EDGES: tuple[EdgeKind, ...] = ("key", "key", "key", "composite", "theta", "time")
JOINS = Profile(
    sizes=(1, 2, 3, 3, 4),
    edges=EDGES,
    classes=2,
    windows=ALL_WINDOWS,
    outputs=("istream", "istream", "dstream"),
    transitions=3,
    static=True,
)
AGGREGATES = Profile(
    kind="aggregate",
    sizes=(1, 2, 3),
    edges=EDGES,
    windows=ALL_WINDOWS,
    outputs=("istream", "dstream"),
    transitions=2,
    static=True,
)
DIFFERENCES = Profile(
    kind="except",
    sizes=(2, 3, 4),
    windows=ALL_WINDOWS,
    outputs=("istream", "dstream"),
    transitions=3,
    static=True,
)


@randomized(share=60)
@given(case=cases(JOINS), seed=st.integers(0, 2**32))
def test_joins(case: Case, seed: int) -> None:
    check(case, random.Random(seed))


@randomized(share=40)
@given(case=cases(AGGREGATES), seed=st.integers(0, 2**32))
def test_aggregates(case: Case, seed: int) -> None:
    check(case, random.Random(seed))


@randomized(share=30)
@given(case=cases(DIFFERENCES), seed=st.integers(0, 2**32))
def test_differences(case: Case, seed: int) -> None:
    check(case, random.Random(seed))


def check(case: Case, rng: random.Random) -> None:
    assume(bool(case.minus) or not contradictory(case))
    tables = case.tables()
    times = case.times()
    query = bind(case.cql(), {name: Source(table.schema, times[name]) for name, table in tables.items()})[0]
    streams = arrivals([(ref.alias, tables[ref.stream], ref.time) for ref in query.streams], None)
    with tempfile.TemporaryDirectory() as directory, tight_memory(case):
        host = Host(query, case, rng, Path(directory))
        found = [table for _, table in feed(host, query, case, streams, rng)]
    answer = pa.concat_tables([query.schema.empty_table(), *found])
    got, want = normalised_table(answer), expected(case)
    assert got == want, f"missing {want - got}\nextra {got - want}\n{case.cql()}"


def some_plan(query: Query, case: Case, rng: random.Random) -> AnyPlan:
    statistics = Statistics.default(query)
    texts = [text for text in (case.plan, *(text for _, text in case.transitions)) if text is not None]
    if not texts or rng.random() < 0.3:
        return plan_for(query, statistics, None, case.states)
    return plan_for(query, statistics, rng.choice(texts), case.states)


class Host:
    """Buckets of one query, of which the one that was used last is handed over to any other, old or new."""

    def __init__(self, query: Query, case: Case, rng: random.Random, directory: Path) -> None:
        self._query, self._case, self._rng = query, case, rng
        self._directory = directory
        self._often = rng.choice([0.0, 0.3, 1.0])
        self._buckets = [self._open()]
        self.bucket = self._buckets[0]

    def _open(self) -> AnyBucket:
        plan = some_plan(self._query, self._case, self._rng)
        case = self._case
        return open_bucket(
            Group.of(self._query), plan, policies=Policies(case.migration, production_of(case), case.memory_limit)
        )

    def hand_over(self, stamp: str) -> None:
        if self._rng.random() < self._often:
            write_image(self._directory, self.bucket, stamp)
            if self._rng.random() < 0.5:
                self._buckets.append(self._open())
            self.bucket = self._rng.choice([self._buckets[-1], *self._buckets])
            assert read_image(self._directory, self.bucket, stamp)
            mark_dirty(self._directory)


def feed(host: Host, query: Query, case: Case, streams: list[Arrivals], rng: random.Random) -> Iterator[Emitted]:
    """Rows in an order that strays from time by up to ``disorder``; rows of one stream and time stay in order.

    Static relations come first.
    """
    static = [ref.is_static for ref in query.streams]
    relations = [a_batch(s, list(range(len(s)))) if first else None for s, first in zip(streams, static, strict=True)]
    host.bucket.offer(relations, NEVER)
    yield from host.bucket.advance()
    host.hand_over("static")
    span = max([1, *(int(s.times[-1] - s.times[0]) for s in streams if len(s))])
    disorder = rng.choice([0.0, 0.1, 0.5]) * span
    strays: dict[tuple[int, int], float] = {}
    arriving = [
        (int(t) + strays.setdefault((s, int(t)), rng.uniform(0, disorder)), s, i)
        for s, stream in enumerate(streams)
        for i, t in enumerate(stream.times)
        if not static[s]
    ]
    arriving.sort(key=lambda row: row[0])
    while arriving:
        bucket = host.bucket
        count = rng.choice([1, 3, 10, 40])
        batch, arriving = arriving[:count], arriving[count:]
        watermark = min([int(streams[s].times[i]) for _, s, i in arriving], default=2**61) - rng.choice([0, 1, 10**6])
        bucket.offer(
            [a_batch(stream, [i for _, s, i in batch if s == p]) for p, stream in enumerate(streams)], watermark
        )
        yield from bucket.advance()
        yield from bucket.settle(watermark)
        if rng.random() < 0.3:
            for _ in range(rng.choice([1, 1, 2])):
                bucket.transition(some_plan(query, case, rng))
        host.hand_over(str(len(arriving)))
    yield from host.bucket.close()


def a_batch(stream: Arrivals, places: list[int]) -> Batch | None:
    if not places:
        return None
    return Batch(stream.table.take(pa.array(stream.rows[places])), np.array(stream.times[places]))
