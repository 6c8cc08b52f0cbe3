"""Four streams R, S, T, U joined on one attribute, as in the figures of JISC, for tests that look into an engine."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from thalweg.cql.query import AttributeClass, Output, Query, RangeWindow, RowsWindow, StreamRef
from thalweg.engine.migration.joiner import Joiner
from thalweg.engine.rows.encoding import mix
from thalweg.engine.rows.layout import layouts
from thalweg.plan.tree import TreePlan, parse_plan

Event = tuple[str, int, int]
"""Stream, time and key."""


def rstu(width: int = 100, names: str = "RSTU", rows: int | None = None) -> Query:
    """The query: RANGE windows of one width, or ROWS windows."""
    window = RangeWindow(width) if rows is None else RowsWindow(rows)
    retention = width if rows is None else None
    refs = tuple(StreamRef(name, name, pa.schema([]), "t", window, retention) for name in names)
    attribute = AttributeClass(dict.fromkeys(range(len(names))), pa.int64())  # type: ignore[arg-type]
    return Query("q", "", "join", Output.ISTREAM, refs, (), (attribute,))


def pipeline(text: str, names: str = "RSTU") -> TreePlan:
    """A tree that keeps the state of every join."""
    plan = parse_plan(text, names)
    assert isinstance(plan, TreePlan)
    return plan.keeping_all()


def words(query: Query, events: Sequence[Event], first: Sequence[int] | None = None) -> list[np.ndarray]:
    """Events as an engine takes them; rows are numbered per stream from ``first`` on."""
    matrices = []
    for s, (ref, layout) in enumerate(zip(query.streams, layouts(query), strict=True)):
        mine = [event for event in events if event[0] == ref.alias]
        matrix = np.zeros((len(mine), layout.offered), np.int64)
        for i, (_, time, key) in enumerate(mine):
            matrix[i, :2] = time, i + (first[s] if first is not None else 0)
            matrix[i, layout.offered_mask] = 1
            matrix[i, layout.codes[0]] = mix(np.array([key]))[0]
        matrices.append(matrix)
    return matrices


class Feeder:
    """Gives events to a joiner and collects its results, as a row number per stream."""

    def __init__(self, query: Query, joiner: Joiner) -> None:
        self.query, self.joiner = query, joiner
        self.results: Counter[tuple[int, ...]] = Counter()
        self._rows = [0] * len(query.streams)

    def feed(self, events: Sequence[Event]) -> None:
        """Events in total order."""
        self.joiner.offer(words(self.query, events, self._rows))
        self.skip(events)
        for block in self.joiner.advance():
            self.results.update(tuple(map(int, row[2:])) for row in block)

    def skip(self, events: Sequence[Event]) -> None:
        """Number what follows as if these had been fed."""
        for s, ref in enumerate(self.query.streams):
            self._rows[s] += sum(event[0] == ref.alias for event in events)

    def states(self) -> dict[str, int | None]:
        """The live keys of each kept state; None where all are."""
        names = [ref.alias for ref in self.query.streams]
        sizes = [size for size in self.joiner.sizes() if len(size.node) > 1]
        return {"".join(names[s] for s in sorted(size.node)): size.live_keys for size in sizes}

    def entries(self) -> dict[frozenset[int], int]:
        """How many entries each kept state has."""
        return {size.node: size.tuples for size in self.joiner.sizes() if len(size.node) > 1}


def some_events(rng: random.Random, count: int, keys: int, names: str = "RSTU", start: int = 0) -> list[Event]:
    """One event per instant."""
    return [(rng.choice(names), start + i, rng.randrange(keys)) for i in range(count)]
