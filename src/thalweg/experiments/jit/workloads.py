"""Clique joins of Poisson streams, under the plans of JIT's table II.

Every two streams are joined on a column of their own, so that a stream of ``n`` has ``n - 1`` columns. Values are
uniform in ``1 .. dmax``; those of one stream may be drawn from ``wide`` times as many, as the paper does with D (with C
where there are three) for its left-deep plans: D's partners become rare, and what is joined below D is mostly in vain.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Literal

import numpy as np
import pyarrow as pa

from thalweg import cql
from thalweg.cql.query import Query
from thalweg.engine.outputs.results import engine_columns
from thalweg.engine.rows.encoding import encoders
from thalweg.engine.rows.expressions import Expressions, physical_names
from thalweg.experiments.jisc.workloads import Tuples
from thalweg.experiments.workloads import MICROSECONDS
from thalweg.plan.join_graph import JoinGraph
from thalweg.plan.program import Rank
from thalweg.plan.search import rank
from thalweg.plan.statistics import Statistics
from thalweg.plan.tree import TreePlan, left_deep, parse_plan

Shape = Literal["bushy", "left-deep"]

_NAMES = "abcdefgh"
_WIDE_STREAM = 3
_BUSHY = {
    4: "(a b) (c d)",
    5: "((a b) (c d)) e",
    6: "((a b) (c d)) (e f)",
    7: "((a b) (c d)) ((e f) g)",
    8: "((a b) (c d)) ((e f) (g h))",
}


@dataclass(frozen=True)
class Clique:
    """A clique join.

    Attributes:
        shape: of its plan.
        window_min: the common RANGE window, in minutes.
        rate: mean arrivals per second and stream.
        streams: how many there are.
        dmax: the greatest value of a column.
        wide: the greatest value of the wide stream's columns, in terms of ``dmax``.

    >>> print(Clique("left-deep", window_min=10, rate=1, streams=3, dmax=50).cql)
    SELECT a.id AS id0, b.id AS id1, c.id AS id2
    FROM a, b, c
    WHERE a.ab = b.ab AND a.ac = c.ac AND b.bc = c.bc
    WINDOW RANGE 600000000 MICROSECONDS

    """

    shape: Shape
    window_min: float
    rate: float
    streams: int
    dmax: int
    wide: int = 1

    @property
    def names(self) -> str:
        return _NAMES[: self.streams]

    @property
    def window(self) -> int:
        """The window in microseconds."""
        return round(self.window_min * 60 * MICROSECONDS)

    @property
    def cql(self) -> str:
        predicates = [f"{a}.{a}{b} = {b}.{a}{b}" for a, b in combinations(self.names, 2)]
        return (
            f"SELECT {', '.join(f'{name}.id AS id{i}' for i, name in enumerate(self.names))}\n"
            f"FROM {', '.join(self.names)}\n"
            f"WHERE {' AND '.join(predicates)}\n"
            f"WINDOW RANGE {self.window} MICROSECONDS"
        )

    @cached_property
    def query(self) -> Query:
        (query,) = cql.bind(self.cql, {name: cql.Source(self._schema(name), "ts") for name in self.names})
        return query

    @property
    def plan(self) -> TreePlan:
        """The plan of table II for so many streams, with every state kept.

        >>> from thalweg.plan.tree import format_plan
        >>> format_plan(Clique("bushy", window_min=20, rate=1, streams=5, dmax=200).plan, "abcde")
        '((a b) (c d)) e'
        """
        if self.shape == "left-deep":
            return TreePlan(left_deep(range(self.streams))).keeping_all()
        plan = parse_plan(_BUSHY[self.streams], self.names)
        assert isinstance(plan, TreePlan)  # noqa: S101 - written above
        return plan.keeping_all()

    @cached_property
    def rank(self) -> Rank:
        """The order of probes within a plan, by the planner's cost model."""
        return rank(JoinGraph.of(self.query), self._statistics)

    def tuples(self, rng: np.random.Generator, duration: int) -> Tuples:
        """What arrives in so many microseconds, as the engine takes it."""
        encode = encoders(self.query, Expressions(physical_names(self.query) | engine_columns(self.query)))
        words = []
        for stream, (name, encoder) in enumerate(zip(self.names, encode, strict=True)):
            count = rng.poisson(self.rate * duration / MICROSECONDS)
            times = np.sort(rng.integers(0, duration, count))  # what a Poisson process is, given its count
            rows = np.arange(count)
            values = [rng.integers(1, self._domain(stream) + 1, count) for _ in range(self.streams - 1)]
            table = pa.table([times, rows, *values], schema=self._schema(name))
            words.append(encoder.encode(table, times, rows))
        return Tuples(words)

    def _schema(self, name: str) -> pa.Schema:
        pairs = ["".join(pair) for pair in combinations(self.names, 2) if name in pair]
        return pa.schema(dict.fromkeys(("ts", "id", *pairs), pa.int64()))

    def _domain(self, stream: int) -> int:
        is_wide = stream == min(_WIDE_STREAM, self.streams - 1)
        return self.dmax * (self.wide if is_wide else 1)

    @property
    def _statistics(self) -> Statistics:
        """What is known of the streams: here, all there is to know."""
        distinct = tuple(
            {stream: float(self._domain(stream)) for stream in attribute.members} for attribute in self.query.classes
        )
        held = self.rate * self.window / MICROSECONDS
        return Statistics((self.rate,) * self.streams, (held,) * self.streams, distinct)
