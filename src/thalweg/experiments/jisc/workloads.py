"""Uniform streams in windows of so many tuples, joined by hash or by nested loops (JISC 6).

One tuple arrives per microsecond, of every stream one in ``streams`` microseconds, so that a RANGE window of
``streams * window`` microseconds holds ``window`` tuples. The time in which all of them are replaced is a *turn*.

There are as many keys as a window holds tuples (the paper does not say how many it had), in one of two ways:

*draws*
    Keys are drawn independently. A probe finds one partner on average. With 20 joins only one key in ten thousand has a
    tuple in every window, so most tuples find no result and a few find many.
*decks*
    Every stream deals out all keys over and over, in an order of its own. A probe finds one partner, and every tuple
    makes one result, however many streams there are: what is said about single results is measured with these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import pyarrow as pa

from thalweg import cql
from thalweg.cql.query import Query
from thalweg.engine.kernels.compiled import Int64s
from thalweg.engine.kernels.tables import T
from thalweg.engine.outputs.results import engine_columns
from thalweg.engine.rows.encoding import encoders
from thalweg.engine.rows.expressions import Expressions, physical_names
from thalweg.plan.join_graph import JoinGraph
from thalweg.plan.program import Rank
from thalweg.plan.search import rank
from thalweg.plan.statistics import Statistics
from thalweg.plan.tree import TreePlan, left_deep

Method = Literal["hash", "nested loops"]
Keys = Literal["draws", "decks"]

_SCHEMA = pa.schema({"ts": pa.int64(), "k": pa.int64(), "id": pa.int64()})


@dataclass(frozen=True)
class Uniform:
    """A join of ``joins + 1`` streams.

    ``nested loops`` says the same equality as two comparisons, which no hash can look up. They connect the first stream
    with each other one, so that no plan that begins with it has a cross product.

    >>> Uniform(joins=2, window=100).turn
    300
    >>> print(Uniform(joins=2, window=100, method="nested loops").cql)
    SELECT s0.id AS id0, s1.id AS id1, s2.id AS id2
    FROM s0, s1, s2
    WHERE s0.k <= s1.k AND s0.k >= s1.k AND s0.k <= s2.k AND s0.k >= s2.k
    WINDOW RANGE 300 MICROSECONDS
    """

    joins: int
    window: int
    method: Method = "hash"
    keys: Keys = "draws"

    @property
    def streams(self) -> int:
        return self.joins + 1

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"s{stream}" for stream in range(self.streams))

    @property
    def turn(self) -> int:
        """Tuples until all that are in the windows have left."""
        return self.streams * self.window

    @property
    def cql(self) -> str:
        first, *others = self.names
        compared = ("=",) if self.method == "hash" else ("<=", ">=")
        predicates = [f"{first}.k {operator} {other}.k" for other in others for operator in compared]
        return (
            f"SELECT {', '.join(f'{name}.id AS id{name[1:]}' for name in self.names)}\n"
            f"FROM {', '.join(self.names)}\n"
            f"WHERE {' AND '.join(predicates)}\n"
            f"WINDOW RANGE {self.turn} MICROSECONDS"
        )

    @cached_property
    def query(self) -> Query:
        (query,) = cql.bind(self.cql, {name: cql.Source(_SCHEMA, "ts") for name in self.names})
        return query

    def tuples(self, rng: np.random.Generator, count: int) -> Tuples:
        """The first ``count`` tuples of all streams, as the engine takes them."""
        rounds = -(-count // self.streams)
        places = np.argsort(rng.random((rounds, self.streams)), axis=1)  # one of each stream in every round
        times = np.arange(rounds)[:, None] * self.streams + places
        encode = encoders(self.query, Expressions(physical_names(self.query) | engine_columns(self.query)))
        rows = np.arange(rounds)
        words = []
        for stream, encoder in enumerate(encode):
            keys = self._keys(rng, rows)
            table = pa.table([times[:, stream], keys, rows], schema=_SCHEMA)
            words.append(encoder.encode(table, times[:, stream], rows))
        return Tuples(words)

    def _keys(self, rng: np.random.Generator, rows: Int64s) -> Int64s:
        if self.keys == "decks":
            deck: Int64s = rng.permutation(self.window)[rows % self.window]
            return deck
        return rng.integers(0, self.window, len(rows))

    @property
    def statistics(self) -> Statistics:
        """What is known of the streams: here, all there is to know."""
        sizes = (float(self.window),) * self.streams
        distinct = dict(enumerate(sizes))
        either = self.window**-0.5  # of two comparisons that together say what an equality says
        classes, thetas = self.query.classes, self.query.thetas
        return Statistics((1.0,) * self.streams, sizes, (distinct,) * len(classes), (either,) * len(thetas))

    @cached_property
    def rank(self) -> Rank:
        """The order of probes within a plan, by the planner's cost model."""
        return rank(JoinGraph.of(self.query), self.statistics)


class Tuples:
    """Encoded tuples of all streams, one per microsecond."""

    def __init__(self, words: Sequence[Int64s]) -> None:
        self._words = words

    def between(self, start: int, end: int) -> list[Int64s]:
        """Per stream, the tuples of ``[start, end)`` in the total order."""
        cuts = ((np.searchsorted(words[:, T], (start, end)), words) for words in self._words)
        return [words[first:last] for (first, last), words in cuts]


def pipeline(order: Sequence[int]) -> TreePlan:
    """The left-deep plan that keeps every state, as all plans of the paper's experiments do."""
    return TreePlan(left_deep(order)).keeping_all()


def one_incomplete(order: Sequence[int]) -> list[int]:
    """The order after a change that leaves only the state below the root incomplete: the two topmost streams swapped.

    >>> one_incomplete([0, 1, 2, 3])
    [0, 1, 3, 2]
    """
    *rest, below, top = order
    return [*rest, top, below]


def all_incomplete(order: Sequence[int]) -> list[int]:
    """The order after a change that leaves every state incomplete: the topmost stream goes next to the first.

    Every state of the new plan has that stream, and none of the old one's had it.

    >>> all_incomplete([0, 1, 2, 3])
    [0, 3, 1, 2]
    """
    first, *others, top = order
    return [first, top, *others]
