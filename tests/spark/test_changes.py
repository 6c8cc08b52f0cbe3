"""Queries that go on from the checkpoint of another one: their answers are what the documentation says they mean.

What a bucket holds when the query stops is computed here row by row: of each window, the rows that had not left it.
From there on the new query answers as if its input began with these rows, and says nothing of them alone.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import pyarrow as pa
import pytest

from tests.spark.simulated import SimulatedQuery, simulated_spec
from thalweg.cql import Source, bind
from thalweg.plan.partitioning import choose_partitioning

SCHEMA = pa.schema([("ts", pa.timestamp("us")), ("k", pa.int64()), ("v", pa.int64())])
CATALOG = {name: Source(SCHEMA, "ts") for name in "ABC"}
LATENESS = 4


@pytest.fixture
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks are merged soon, and lie in several pieces."""
    monkeypatch.setattr("thalweg.spark.chunks.window_log._SMALL", 40)
    monkeypatch.setattr("thalweg.spark.chunks.window_log._MERGED", 2)
    monkeypatch.setattr("thalweg.spark.chunks.bundles._PIECE_BYTES", 300)


@dataclass(frozen=True)
class Row:
    """A row; ``number`` says which one of all."""

    stream: str
    time: int
    key: int
    number: int


@dataclass(frozen=True)
class Asked:
    """A query: in the order of FROM, the window of each stream and its alias.

    ``least``: the last digits of A must be greater; ``compares``: a value of B must be less than that of C.
    """

    windows: dict[str, str]
    aliases: dict[str, str]
    least: int | None = None
    compares: bool = False

    @property
    def order(self) -> list[str]:
        return list(self.windows)

    def size(self, stream: str) -> int:
        return int(self.windows[stream].split()[-1 if "ROWS" in self.windows[stream] else 1])

    @property
    def counts_rows(self) -> bool:
        return any("ROWS" in window for window in self.windows.values())

    def cql(self) -> str:
        names = [self.aliases[name] for name in sorted(self.order)]
        select = ", ".join(f"{alias}.v AS v{place}" for place, alias in enumerate(names))
        streams = ", ".join(f"{name} {self.aliases[name]} [{window}]" for name, window in self.windows.items())
        keys = " AND ".join(f"{names[0]}.k = {other}.k" for other in names[1:])
        condition = "" if self.least is None else f" AND {names[0]}.v % 10 > {self.least}"
        condition += f" AND {names[1]}.v < {names[2]}.v" if self.compares else ""
        return f"SELECT {select} FROM {streams} WHERE {keys}{condition}"  # noqa: S608 - a query of ours


def start(asked: Asked, rng: random.Random, directory: Path, buckets: int = 1) -> SimulatedQuery:
    query = bind(asked.cql(), CATALOG)[0]
    partitioning = choose_partitioning(query, buckets)
    spec = simulated_spec(query, partitioning, [LATENESS] * len(query.streams))
    if not asked.counts_rows:  # Spark applies the conditions, below the operator
        bare = tuple(replace(ref, selection=None) for ref in spec.query.streams)
        selections = tuple(ref.selection for ref in query.streams)
        spec = replace(spec, query=replace(spec.query, streams=bare), selections=selections)
    return SimulatedQuery(replace(spec, identity=directory.name), partitioning, rng, directory, troubled=0.3)


def passes(asked: Asked, row: Row) -> bool:
    return row.stream != "A" or asked.least is None or row.number % 10 > asked.least


def joins(asked: Asked, combination: Sequence[Row]) -> bool:
    """Whether rows of A, B and C can be a result."""
    _, b, c = combination
    return len({row.key for row in combination}) == 1 and (not asked.compares or b.number < c.number)


def batch_of(asked: Asked, rows: Sequence[Row]) -> list[tuple[pa.Table, list[int | None]] | None]:
    """Rows as a batch of a query; conditions on RANGE windows have been applied."""
    given: list[tuple[pa.Table, list[int | None]] | None] = []
    for stream in asked.order:
        mine = [row for row in rows if row.stream == stream and (asked.counts_rows or passes(asked, row))]
        table = pa.table({"ts": [r.time for r in mine], "k": [r.key for r in mine], "v": [r.number for r in mine]})
        given.append((table.cast(SCHEMA), [row.time for row in mine]) if mine else None)
    return given


class Reference:
    """What is in the windows, and the results from there on, row by row."""

    def __init__(self) -> None:
        self.held: list[Row] = []
        self.newest: dict[str, int] = {}

    @property
    def watermark(self) -> int:
        return min(self.newest.values()) - LATENESS if len(self.newest) == 3 else -(10**9)

    def stop(self, asked: Asked) -> None:
        """Be left with what is in the windows."""

    def begin(self, asked: Asked) -> None:
        """Go on with a query whose windows may be smaller."""

    def in_time(self, rows: Sequence[Row]) -> list[Row]:
        return [row for row in rows if row.time >= self.watermark]

    def hear(self, asked: Asked, rows: Sequence[Row]) -> None:
        for row in rows:
            if asked.counts_rows or passes(asked, row):
                self.newest[row.stream] = max(row.time, self.newest.get(row.stream, row.time))


class RangeReference(Reference):
    """Rows are taken as they come."""

    def stop(self, asked: Asked) -> None:
        self.held = [row for row in self.held if row.time + asked.size(row.stream) > self.watermark]

    def take(self, asked: Asked, rows: Sequence[Row]) -> Counter[tuple[int, ...]]:
        new = {row for row in self.in_time(rows) if passes(asked, row)}
        self.held += sorted(new, key=lambda row: row.number)
        alive = [[r for r in self.held if r.stream == name and passes(asked, r)] for name in "ABC"]
        self.hear(asked, rows)
        return Counter(
            tuple(row.number for row in combination)
            for combination in product(*alive)
            if joins(asked, combination)
            and new.intersection(combination)
            and max(r.time for r in combination) < min(r.time + asked.size(r.stream) for r in combination)
        )


class RowsReference(Reference):
    """Rows wait for the watermark, and are taken in the order of time, position and arrival."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[Row] = []

    def stop(self, asked: Asked) -> None:
        def stays(row: Row) -> bool:
            return "ROWS" in asked.windows[row.stream] or row.time + asked.size(row.stream) > self.watermark

        self.held = [row for row in self.held if stays(row)]

    def begin(self, asked: Asked) -> None:
        parts = [(name, [row for row in self.held if row.stream == name]) for name in "ABC"]
        self.held = [row for name, rows in parts for row in self._cut(asked, name, rows)]

    def take(self, asked: Asked, rows: Sequence[Row]) -> Counter[tuple[int, ...]]:
        self.waiting += self.in_time(rows)
        self.hear(asked, rows)
        ready = [row for row in self.waiting if row.time < self.watermark]
        self.waiting = [row for row in self.waiting if row not in ready]
        found: Counter[tuple[int, ...]] = Counter()
        for row in sorted(ready, key=lambda row: (row.time, asked.order.index(row.stream), row.number)):
            mine = [*(each for each in self.held if each.stream == row.stream), row]
            others = [each for each in self.held if each.stream != row.stream]
            self.held = [*others, *self._cut(asked, row.stream, mine)]
            if not passes(asked, row):
                continue
            sides = [
                [row] if name == row.stream else [r for r in self.held if self._meets(asked, r, row, name)]
                for name in "ABC"
            ]
            found.update(tuple(r.number for r in each) for each in product(*sides) if joins(asked, each))
        return found

    def _cut(self, asked: Asked, stream: str, rows: Sequence[Row]) -> list[Row]:
        """The rows of a window, of which so many came."""
        window, size = asked.windows[stream], asked.size(stream)
        if "ROWS" not in window:
            return list(rows)
        keys = {row.key for row in rows} if "PARTITION" in window else [None]
        last = [[row for row in rows if key in (None, row.key)][-size:] for key in keys]
        return [row for row in rows if any(row in part for part in last)]

    def _meets(self, asked: Asked, other: Row, row: Row, stream: str) -> bool:
        if other.stream != stream or other.key != row.key or not passes(asked, other):
            return False
        return "ROWS" in asked.windows[stream] or row.time < other.time + asked.size(stream)


def rows_from(time: int, first: int, rng: random.Random) -> list[Row]:
    return [
        Row(rng.choice("ABC"), time + rng.randint(-LATENESS - 1, 2), rng.randrange(2), first + number)
        for number in range(rng.choice([1, 4, 9]))
    ]


RANGES = {name: f"RANGE {size} MICROSECONDS" for name, size in (("A", 9), ("B", 9), ("C", 6))}
COUNTS = {"A": "ROWS 3", "B": "PARTITION BY k ROWS 2", "C": "RANGE 8 MICROSECONDS"}
SAME = {name: name for name in "ABC"}


def changed(asked: Asked, rng: random.Random) -> Asked:
    """The query with other windows, in another order, under other names, with one condition more, or some of these."""
    windows = dict(asked.windows)
    for name, window in asked.windows.items():
        if rng.random() < 0.5:
            size = asked.size(name)
            windows[name] = window.replace(str(size), str(max(1, size + rng.choice([-2, 1, 3, 9]))))
    order = rng.sample(asked.order, 3) if rng.random() < 0.5 else asked.order
    aliases = {name: f"{name}_{rng.randrange(9)}" for name in "ABC"} if rng.random() < 0.5 else asked.aliases
    least = 4 if asked.least is None and rng.random() < 0.3 else asked.least
    compares = asked.compares != (rng.random() < 0.3)
    return Asked({name: windows[name] for name in order}, aliases, least, compares)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("windows", [RANGES, COUNTS], ids=["RANGE", "ROWS"])
@pytest.mark.usefixtures("_small")
def test_a_query_that_changes_goes_on_as_documented(tmp_path: Path, windows: dict[str, str], seed: int) -> None:
    rng = random.Random(seed)
    asked = Asked(windows, SAME)
    reference: RowsReference | RangeReference = RowsReference() if asked.counts_rows else RangeReference()
    running: SimulatedQuery | None = None
    time = number = results = 0
    for run in range(5):
        now = start(asked, rng, tmp_path / str(run), 1 if asked.counts_rows else 3)
        if running is not None:
            for bucket, former in zip(now.buckets, running.buckets, strict=True):
                bucket.go_on_from(former)
        running = now
        reference.begin(asked)
        for _ in range(rng.randrange(1, 12)):
            rows = rows_from(time, number, rng)
            time, number = time + rng.choice([0, 1, 3]), number + len(rows)
            want = reference.take(asked, rows)
            got = running.batch(batch_of(asked, rows))
            answers = Counter(tuple(row.values()) for table in got for row in table.to_pylist())
            assert answers == want, (run, asked)
            results += want.total()
        reference.stop(asked)
        asked = changed(asked, rng)
    assert results > 20
