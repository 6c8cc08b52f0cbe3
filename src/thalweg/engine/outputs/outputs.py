"""What a query emits of its join's results: as they enter, as they leave, or aggregated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thalweg.cql.query import Aggregation, Output, Projection, Query
from thalweg.engine.kernels.compiled import Int64s
from thalweg.engine.outputs.aggregate import RunningAggregation
from thalweg.engine.outputs.departures import Departures
from thalweg.engine.outputs.results import Outputs
from thalweg.engine.rows.expressions import Expressions, plain_column
from thalweg.engine.rows.interner import Interner
from thalweg.engine.rows.payload import Rows
from thalweg.engine.storage.arrays import Bools


class Emitter(Protocol):
    """The last stage of a bucket."""

    def add(self, block: Int64s) -> Iterator[pa.Table]:
        """Take results (time, expiry, rows); yield what can be emitted at once."""

    def settle(self, watermark: int, deaths: Int64s) -> Iterator[pa.Table]:
        """Time has passed ``watermark``, and these tuples left ROWS windows; yield what follows."""

    def rows(self, stream: int) -> Int64s:
        """The row numbers of a stream that are needed here."""


def emitter(query: Query, expressions: Expressions, payloads: Sequence[Rows]) -> Emitter:
    """The emitter of a join query."""
    if query.aggregation is not None:
        return Aggregates(query, query.aggregation, expressions, payloads)
    outputs = Outputs(query, expressions, query.select)
    return Entering(outputs, payloads) if query.output is Output.ISTREAM else Leaving(outputs, payloads)


class Entering:
    """ISTREAM: every result once, when its newest component comes."""

    __image__: ClassVar = ()

    def __init__(self, outputs: Outputs, payloads: Sequence[Rows]) -> None:
        self._outputs = outputs
        self._payloads = payloads

    def add(self, block: Int64s) -> Iterator[pa.Table]:
        yield self._outputs.of_results(self._payloads, block[:, 2:], block[:, 0])

    def settle(self, watermark: int, deaths: Int64s) -> Iterator[pa.Table]:  # noqa: ARG002 - nothing waits here
        yield from ()

    def rows(self, stream: int) -> Int64s:  # noqa: ARG002 - nothing waits here
        return np.zeros(0, np.int64)


class Leaving:
    """DSTREAM: every result once, when its first component leaves."""

    __image__: ClassVar = ("_departures",)

    def __init__(self, outputs: Outputs, payloads: Sequence[Rows]) -> None:
        self._outputs = outputs
        self._payloads = payloads
        self._departures = Departures(len(payloads))

    def add(self, block: Int64s) -> Iterator[pa.Table]:
        self._departures.add(block[:, 0], block[:, 1], block[:, 2:])
        yield from ()

    def settle(self, watermark: int, deaths: Int64s) -> Iterator[pa.Table]:
        self._departures.bury(deaths)
        events = self._departures.before(watermark)
        leaving = events.signs < 0
        if leaving.any():
            yield self._outputs.of_results(self._payloads, events.rows[leaving], events.times[leaving])

    def rows(self, stream: int) -> Int64s:
        return self._departures.rows(stream)


class Aggregates:
    """Running aggregates: the rows that change, at every instant at which some do."""

    __image__: ClassVar = ("_departures", "_running")

    def __init__(
        self, query: Query, aggregation: Aggregation, expressions: Expressions, payloads: Sequence[Rows]
    ) -> None:
        self._payloads = payloads
        self._departures = Departures(len(payloads))
        shown = {plain_column(projection.expression) for projection in query.select}
        hides = any(("", f"__a{i}") not in shown for i in range(len(aggregation.calls)))
        self._running = RunningAggregation(aggregation, query.output, self._differ if hides else None)
        arguments = [
            Projection(f"__x{i}", call.argument, call.argument_type)
            for i, call in enumerate(aggregation.calls)
            if call.argument is not None and call.argument_type is not None
        ]
        keys = [Projection(f"__k{i}", key.expression, key.type) for i, key in enumerate(aggregation.keys)]
        self._arguments = Outputs(query, expressions, [*keys, *arguments])
        self._having = (
            Outputs(query, expressions, [Projection("holds", aggregation.having, pa.bool_())])
            if aggregation.having is not None
            else None
        )
        self._outputs = Outputs(query, expressions, query.select)

    def add(self, block: Int64s) -> Iterator[pa.Table]:
        self._departures.add(block[:, 0], block[:, 1], block[:, 2:])
        yield from ()

    def settle(self, watermark: int, deaths: Int64s) -> Iterator[pa.Table]:
        self._departures.bury(deaths)
        events = self._departures.before(watermark)
        if not len(events.times):
            return
        entering = events.signs > 0
        arguments = self._arguments.of_results(self._payloads, events.rows[entering], events.times[entering])
        times, changed = self._running.apply(events.times, events.signs, events.slots, arguments)
        changed = _at(times, changed)
        changed = changed.filter(pa.array(self._holds(changed)))
        if changed.num_rows:
            yield self._outputs.of_table(changed)

    def _holds(self, groups: pa.Table) -> Bools:
        """Which rows pass HAVING."""
        if self._having is None:
            return np.ones(groups.num_rows, np.bool_)
        holds: Bools = pc.fill_null(self._having.of_table(groups).column(0), False).to_numpy()
        return holds.astype(np.bool_)

    def _differ(self, times: Int64s, before: pa.Table, after: pa.Table) -> Bools:
        """Which rows are there on one side alone, or show something else there.

        Both sides have the time of the change: that it has come does not make a row another one. What HAVING refuses
        is not computed.
        """
        sides = [_at(times, side) for side in (before, after)]
        held, holds = map(self._holds, sides)
        differ: Bools = held != holds
        both = held & holds
        shown = [self._outputs.of_table(side.filter(pa.array(both))) for side in sides]
        codes = Interner().codes(pa.concat_tables(shown).columns)
        differ[both] = np.not_equal(*np.split(codes, 2))
        return differ

    def rows(self, stream: int) -> Int64s:
        return self._departures.rows(stream)


def _at(times: Int64s, groups: pa.Table) -> pa.Table:
    """Rows of groups with the instants at which they change."""
    return groups.append_column("__time", pa.array(times, pa.timestamp("us")))
