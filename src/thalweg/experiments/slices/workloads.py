"""Streams, and queries over one join of them that differ in windows and selections (State-Slice, tables 3 and 4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil, sqrt
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thalweg import cql
from thalweg.cql.group import Group, grouped
from thalweg.engine.rows.payload import TablePayload
from thalweg.experiments.workloads import MICROSECONDS
from thalweg.plan.join_graph import JoinGraph
from thalweg.plan.program import Rank
from thalweg.plan.search import choose_plan, rank
from thalweg.plan.statistics import Statistics
from thalweg.plan.tree import Plan

Distribution = Literal["uniform", "mostly-small", "mostly-large", "small-large"]

VALUES = 10_000
"""What selections compare is uniform in ``0 .. VALUES - 1``."""
SCHEMA = pa.schema({"ts": pa.int64(), "k": pa.int64(), "v": pa.int64(), "id": pa.int64()})
_NAMES = "abcdef"
_LONGEST = 30.0


@dataclass(frozen=True, slots=True)
class Asked:
    """What one query asks of the join: a window in seconds, and the share of the first stream that it takes."""

    window: float
    selected: float = 1.0


@dataclass(frozen=True)
class Queries:
    """Queries over one join on a key.

    Attributes:
        asked: what each of them asks.
        keys: how many keys there are.
        streams: how many are joined.

    >>> print(Queries((Asked(10), Asked(30, 0.5)), 40).cql)
    CREATE QUERY q0 AS SELECT a.id AS id0, b.id AS id1 FROM a, b WHERE a.k = b.k WINDOW RANGE 10000000 MICROSECONDS;
    CREATE QUERY q1 AS SELECT a.id AS id0, b.id AS id1 FROM a, b WHERE a.k = b.k AND a.v < 5000 \
WINDOW RANGE 30000000 MICROSECONDS

    """

    asked: tuple[Asked, ...]
    keys: int
    streams: int = 2

    @property
    def names(self) -> str:
        return _NAMES[: self.streams]

    @property
    def longest(self) -> float:
        """The longest window in seconds."""
        return max(each.window for each in self.asked)

    @property
    def cql(self) -> str:
        columns = ", ".join(f"{name}.id AS id{i}" for i, name in enumerate(self.names))
        first, *others = list(self.names)
        joined = " AND ".join(f"{first}.k = {other}.k" for other in others)
        texts = []
        for i, each in enumerate(self.asked):
            selection = "" if each.selected >= 1 else f" AND {first}.v < {round(each.selected * VALUES)}"
            window = f"WINDOW RANGE {round(each.window * MICROSECONDS)} MICROSECONDS"
            query = f"SELECT {columns} FROM {', '.join(self.names)} WHERE {joined}{selection} {window}"  # noqa: S608
            texts.append(f"CREATE QUERY q{i} AS {query}")
        return ";\n".join(texts)

    @cached_property
    def group(self) -> Group:
        """The one group that they are."""
        (group,) = grouped(cql.bind(self.cql, {name: cql.Source(SCHEMA, "ts") for name in self.names}))
        return group

    def plan(self, rate: float) -> tuple[Plan, Rank]:
        """The planner's, for streams of so many tuples per second."""
        held = rate * self.longest
        distinct = {stream: float(self.keys) for stream in range(self.streams)}
        known = Statistics((rate,) * self.streams, (held,) * self.streams, (distinct,))
        graph = JoinGraph.of(self.group.whole)
        return choose_plan(graph, known), rank(graph, known)


class Streams:
    """Whole streams, each in time order.

    Attributes:
        tables: the rows.
        times: theirs, in microseconds.

    """

    def __init__(self, columns: Sequence[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]]) -> None:
        self.times = [times for times, _, _ in columns]
        self.tables = [
            pa.table([times, keys, values, np.arange(len(times))], schema=SCHEMA) for times, keys, values in columns
        ]

    @property
    def total(self) -> int:
        """Tuples of all streams."""
        return sum(map(len, self.times))

    def payloads(self) -> list[TablePayload]:
        """The rows as a bucket finds them by their numbers."""
        return [TablePayload(table) for table in self.tables]

    def least_held(self, queries: Queries, now: int) -> int:
        """How many tuples are of use to some query after this moment, in microseconds: no join can hold fewer.

        >>> one = np.array([0, 4, 8]) * MICROSECONDS
        >>> streams = Streams([(one, one, np.array([0, VALUES - 1, 0]))] * 2)
        >>> streams.least_held(Queries((Asked(3), Asked(9, 0.5)), 1), 8 * MICROSECONDS)
        5
        """
        spans = np.array([each.window * MICROSECONDS for each in queries.asked])
        limits = np.array([each.selected * VALUES for each in queries.asked])
        count = 0
        for stream, (times, table) in enumerate(zip(self.times, self.tables, strict=True)):
            came = times <= now
            values = table["v"].to_numpy()[came] if stream == 0 else np.zeros(int(came.sum()))
            span = np.where(values[:, None] < limits, spans, 0).max(axis=1, initial=0)
            count += int((now - times[came] < span).sum())
        return count


def keys_for(joined: float) -> int:
    """How many keys make so large a share of all pairs join."""
    return ceil(1 / joined - 1e-9)


def poisson(rng: np.random.Generator, streams: int, rate: float, seconds: float, joined: float) -> Streams:
    """Streams of independent tuples, of so many per second each; so large a share of all pairs join."""
    columns = []
    keys = keys_for(joined)
    for _ in range(streams):
        count = rng.poisson(rate * seconds)
        times = np.sort(rng.integers(0, round(seconds * MICROSECONDS), count))
        columns.append((times, rng.choice(keys, count, p=_weights(keys, joined)), rng.integers(0, VALUES, count)))
    return Streams(columns)


def _weights(keys: int, joined: float) -> list[float]:
    """How frequent keys are whose squares add up to the share of pairs that join: alike, but for the first.

    >>> round(sum(each**2 for each in _weights(3, 0.4)), 6)
    0.4
    """
    if keys == 1:
        return [1.0]
    first = (1 + sqrt(max(0.0, (keys - 1) * (keys * joined - 1)))) / keys
    return [first, *[(1 - first) / (keys - 1)] * (keys - 1)]


def regular(rate: int, seconds: int, keys: int) -> Streams:
    """Two streams that take turns, in equal steps of time; keys come round and round, and then values do."""
    step, count = MICROSECONDS // rate, rate * seconds
    numbers = np.arange(count)
    values = numbers // keys % 10 * (VALUES // 10)
    return Streams([(numbers * step + shift, numbers % keys, values) for shift in (0, step // 2)])


# The paper's windows -----------------------------------------------------------------------------

THREE: dict[Distribution, tuple[float, float, float]] = {
    "mostly-small": (5, 10, 30),
    "uniform": (10, 20, 30),
    "mostly-large": (20, 25, 30),
}
"""Table 3, in seconds."""


def three_queries(distribution: Distribution, selected: float, joined: float) -> Queries:
    """The first query of section 7.2 takes all, the two others what the same selection lets pass."""
    first, *others = THREE[distribution]
    return Queries((Asked(first), *(Asked(window, selected) for window in others)), keys_for(joined))


def windows_of(distribution: Distribution, count: int) -> list[float]:
    """Table 4 for any number of queries.

    >>> windows_of("mostly-small", 12)
    [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 20.0, 30.0]
    >>> windows_of("small-large", 12)
    [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 25.0, 26.0, 27.0, 28.0, 29.0, 30.0]
    """
    splits: dict[str, tuple[int, float, float]] = {
        "uniform": (count, _LONGEST, _LONGEST),
        "mostly-small": (count * 10 // 12, 10.0, 10.0),
        "small-large": (count // 2, 6.0, 24.0),
    }
    small, end, start = splits[distribution]
    large = count - small
    steps: Callable[[float, float, int], list[float]] = lambda low, high, n: [  # noqa: E731 - used twice below
        low + (high - low) * (i + 1) / n for i in range(n)
    ]
    return steps(0.0, end, small) + steps(start, _LONGEST, large)
