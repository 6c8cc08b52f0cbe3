"""A bucket with many readers, fed as a stream feeds it: readers come and go between batches that are out of order.

The bucket keeps all columns itself, for readers to come. Between two batches another bucket may go on with its image.
"""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import Rows
from tests.families import Family, Sharing, name
from tests.family_oracle import Course, Progress, moving
from tests.lifetimes import windows
from tests.oracle import OutputRow, normalised_table
from tests.properties.conformity import production_of, tight_memory
from tests.properties.families import FamilyProfile, families
from tests.properties.family_conformity import few_selections
from tests.properties.settings import randomized
from tests.properties.strategies import ALL_WINDOWS, RANGES, Profile
from tests.properties.test_feeding import a_batch, some_plan
from thalweg.cql import Source, bind
from thalweg.cql.group import Group, grouped
from thalweg.engine.bucket import open_bucket
from thalweg.engine.image.image import mark_dirty, read_image, write_image
from thalweg.engine.join_bucket import JoinBucket
from thalweg.engine.outputs.readers import Emitted
from thalweg.engine.time_bounds import FOREVER, NEVER
from thalweg.policies import Policies
from thalweg.replayer.arrivals import Arrivals, arrivals

READERS = FamilyProfile(
    Profile(
        sizes=(2, 2, 3, 3, 4, 1),
        edges=("key", "key", "key", "composite", "theta", "time"),
        classes=2,
        windows=(*RANGES, *ALL_WINDOWS),
        outputs=("istream", "istream", "dstream"),
        transitions=2,
        static=True,
    ),
    sizes=(3, 2, 4, 5),
)


@randomized(share=60)
@given(family=families(READERS), seed=st.integers(0, 2**32))
def test_readers_come_and_go(family: Family, seed: int) -> None:
    with tempfile.TemporaryDirectory() as directory, tight_memory(family.cases[0]), few_selections(family):
        Feeding(family, random.Random(seed), Path(directory)).check()


def family_sharing(family: Family) -> Sharing:
    """The option; a bucket knows of no queries that are not to share it."""
    return "auto" if family.sharing == "none" else family.sharing


class Feeding:
    """One group of a family on its way through a bucket."""

    def __init__(self, family: Family, rng: random.Random, directory: Path) -> None:
        self._family, self._rng, self._directory = family, rng, directory
        self._queries = rng.choice(family.groups)
        first = family.cases[self._queries[0]]
        tables, times = first.tables(), first.times()
        bound = bind(family.cql(), {each: Source(table.schema, times[each]) for each, table in tables.items()})
        (self._group,) = grouped([bound[query] for query in self._queries])
        refs = self._group.whole.streams
        self._streams: list[Arrivals] = arrivals([(ref.alias, tables[ref.stream], ref.time) for ref in refs], None)
        self._static = [ref.is_static for ref in refs]
        self._needs_order = any(isinstance(window, Rows) for window in windows(first))
        self._first = first
        # The plans of a family are in the words of its first query.
        self._planned = family.cases[0] if self._queries[0] == 0 else replace(first, plan=None, transitions=())
        self._changes: dict[int, list[tuple[int, str]]] = {}
        self._watermarks: list[int] = [NEVER]
        self._arrived: dict[tuple[int, int], int] = {}
        self._often = rng.choice([0.0, 0.3, 1.0])
        self._present = self._some()
        self._began = list(self._present)
        self._buckets = [self._open()]
        self._bucket = self._buckets[0]

    def check(self) -> None:
        found: dict[str, list[pa.Table]] = {name(query): [] for query in self._queries}
        for reader, table in self._feed():
            found[reader].append(table)
        wants = self._expected()
        for query, reader in zip(self._queries, self._group.readers, strict=True):
            got = normalised_table(pa.concat_tables([reader.schema.empty_table(), *found[reader.name]]))
            want = wants[query]
            assert got == want, (
                f"{reader.name}: missing {want - got}\nextra {got - want}\n{self._family.cql()}\n"
                f"at first {self._began}, then {self._changes}, watermarks {self._watermarks}"
            )

    def _some(self) -> list[int]:
        """Some of the queries, at least one."""
        return sorted(self._rng.sample(self._queries, self._rng.randint(1, len(self._queries))))

    @property
    def _serving(self) -> Group:
        readers = [self._group.readers[self._queries.index(query)] for query in self._present]
        return Group(self._group.join, tuple(readers))

    def _open(self) -> JoinBucket:
        case, group = self._family.cases[0], self._serving
        policies = Policies(
            case.migration, production_of(case), case.memory_limit, sharing=family_sharing(self._family)
        )
        plan = some_plan(group.whole, self._planned, self._rng)
        bucket = open_bucket(group, plan, policies=policies, keeps_all=True)
        assert isinstance(bucket, JoinBucket)
        return bucket

    # -- What the bucket does -----------------------------------------------------------

    def _feed(self) -> Iterator[Emitted]:
        """Rows in an order that strays from time; rows of one stream and time stay in order."""
        rng = self._rng
        places = [list(range(len(s))) if static else [] for s, static in zip(self._streams, self._static, strict=True)]
        self._bucket.offer([a_batch(s, mine) for s, mine in zip(self._streams, places, strict=True)], NEVER)
        yield from self._bucket.advance()
        moments = [s.times for s, static in zip(self._streams, self._static, strict=True) if not static]
        disorder = rng.choice([0.0, 0.1, 0.5]) * max(
            [1, *(int(times[-1] - times[0]) for times in moments if len(times))]
        )
        strays: dict[tuple[int, int], float] = {}
        arriving = sorted(
            (int(t) + strays.setdefault((s, int(t)), rng.uniform(0, disorder)), s, i)
            for s, stream in enumerate(self._streams)
            for i, t in enumerate(stream.times)
            if not self._static[s]
        )
        while arriving:
            step = len(self._watermarks) - 1
            count = rng.choice([1, 3, 10, 40])
            batch, arriving = arriving[:count], arriving[count:]
            least = min([int(self._streams[s].times[i]) for _, s, i in arriving], default=2**61)
            watermark = max(self._watermarks[-1], least - rng.choice([0, 1, 10**6]))
            mine = [[i for _, s, i in batch if s == p] for p in range(len(self._streams))]
            self._arrived |= {(s, int(self._streams[s].rows[i])): step for _, s, i in batch}
            bucket = self._bucket
            bucket.offer([a_batch(s, each) for s, each in zip(self._streams, mine, strict=True)], watermark)
            yield from bucket.advance()
            yield from bucket.settle(watermark)
            self._watermarks.append(watermark)
            if rng.random() < 0.3:
                bucket.transition(some_plan(self._serving.whole, self._planned, rng))
            if rng.random() < 0.4:
                self._serve(step + 1, watermark)
            self._hand_over(str(step))
        yield from self._bucket.close()

    def _serve(self, step: int, watermark: int) -> None:
        """Other readers from now on; some of those that stay may begin anew."""
        before, self._present = self._present, self._some()
        anew = [query for query in self._present if query not in before or self._rng.random() < 0.2]
        changes = [(query, "leave") for query in before if query not in self._present or query in anew]
        self._changes[step] = [*changes, *((query, "enter") for query in anew)]
        self._bucket.serve(self._serving, watermark, anew=[name(query) for query in anew])
        self._buckets = [self._bucket]

    def _hand_over(self, stamp: str) -> None:
        if self._rng.random() < self._often:
            write_image(self._directory, self._bucket, stamp)
            if self._rng.random() < 0.5:
                self._buckets.append(self._open())
            self._bucket = self._rng.choice([self._buckets[-1], *self._buckets])
            assert read_image(self._directory, self._bucket, stamp)
            mark_dirty(self._directory)

    # -- What it should do --------------------------------------------------------------

    def _expected(self) -> dict[int, Counter[OutputRow]]:
        """Tuples come with their batch; in joins that count rows, when the watermark has passed them."""
        watermarks = [*self._watermarks, FOREVER]
        steps: list[dict[int, int]] = []
        for place, mine in enumerate(moving(self._first)):
            came = {t.row: self._arrived[place, t.row] for t in mine}
            if self._needs_order:
                came = {t.row: next(n for n, mark in enumerate(watermarks) if mark > t.time) - 1 for t in mine}
            steps.append(came)
        progress = Progress(steps, len(watermarks) - 1, watermarks.__getitem__, watermarks.__getitem__)
        course = Course(self._family, self._queries, progress, self._began)
        for step, changes in self._changes.items():
            course.change(step, changes)
        answers: dict[int, Counter[OutputRow]] = {query: Counter() for query in self._queries}
        for stay in course.stays:
            answers[stay.query] += course.answer(stay)
        return answers
