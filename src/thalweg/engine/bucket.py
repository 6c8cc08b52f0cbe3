"""One bucket of a query, end to end: Arrow rows in, Arrow results out.

A tuple travels: encoding -> (order) -> join -> verdict -> output. The output is one of three:
results as they enter, or results as they leave, or aggregates over those in the window. An ``EXCEPT`` query has
the set difference in the place of the join.

The bucket's owner says how far time has come. Joins of RANGE windows take tuples as they come and
answer at once; ROWS windows and set differences need tuples in total order, so those wait
inside until the watermark has passed them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from thalweg.cql.query import Query, RowsWindow
from thalweg.engine.encoding import encoders
from thalweg.engine.expressions import Expressions, physical_names
from thalweg.engine.join import JoinEngine, StoreSize, Work
from thalweg.engine.kernels.join import DEAD, FOREVER, ROW, Int64s
from thalweg.engine.outputs import Emitter, emitter
from thalweg.engine.payload import Payload, Rows
from thalweg.engine.results import Verdict, engine_columns, payload_columns
from thalweg.plan.program import Rank
from thalweg.plan.tree import Plan


@dataclass(frozen=True, slots=True)
class Batch:
    """New rows of one stream with their event times.

    ``rows`` are their row numbers where the payload is already known to the bucket;
    without them, the bucket keeps the columns it needs itself.
    """

    table: pa.Table
    times: Int64s
    rows: Int64s | None = None


class Bucket:
    """Runs a join query over batches of rows.

    Calls, over and over: :meth:`offer` rows, :meth:`advance` through them (in as many parts as one likes),
    :meth:`settle` time; :meth:`transition` at any point between two of these calls.
    """

    def __init__(
        self, query: Query, plan: Plan, rank: Rank | None = None, payloads: Sequence[Rows] | None = None
    ) -> None:
        """Start under a plan; ``payloads`` if the rows to come are all there already."""
        expressions = Expressions(physical_names(query) | engine_columns(query))
        self.query = query
        self.payloads: Sequence[Rows] = payloads or [
            Payload(ref.schema, columns) for ref, columns in zip(query.streams, payload_columns(query), strict=True)
        ]
        self._encoders = encoders(query, expressions)
        self._needs_order = any(isinstance(ref.window, RowsWindow) for ref in query.streams)
        self._waiting: list[Int64s] = [np.zeros((0, e.layout.width), np.int64) for e in self._encoders]
        self._nothing = np.zeros((0, 2 + len(query.streams)), np.int64)
        self._watermark = DEAD
        self._engine = JoinEngine(query, plan, rank)
        self._verdict = Verdict(query, expressions)
        self._emitter: Emitter = emitter(query, expressions, self.payloads)

    def offer(self, batches: Sequence[Batch | None], watermark: int | None = None) -> None:
        """Hand over new rows of each stream.

        ``watermark``: no row before this time will come after this batch (its own rows may
        be older). Without one, the rows of all calls come in total order.
        """
        words = []
        for encoder, payload, batch in zip(self._encoders, self.payloads, batches, strict=True):
            if batch is None:
                words.append(np.zeros((0, encoder.layout.width), np.int64))
                continue
            rows = payload.append(batch.table) if batch.rows is None else batch.rows
            words.append(_in_time_order(encoder.encode(batch.table, batch.times, rows)))
        self._in_order = watermark is None or self._needs_order
        if watermark is None:
            self._engine.offer(words)
        elif self._needs_order:
            self._engine.offer(self._release(words, watermark))
        else:
            self._engine.offer(words, self._watermark)
            self._watermark = max(self._watermark, watermark)

    def advance(self, limit: int | None = None) -> Iterator[pa.Table]:
        """Process up to ``limit`` of the offered rows; yields what can be emitted at once."""
        blocks = self._engine.advance(limit)
        if not self._in_order:
            blocks = iter([_in_time_order(np.concatenate([self._nothing, *blocks]))])
        for block in blocks:
            admitted = self._verdict.keep(self.payloads, block)
            if len(admitted):
                yield from self._emitter.add(admitted)

    def settle(self, watermark: int) -> Iterator[pa.Table]:
        """Time has passed ``watermark``: yields what could only be said now, and forgets what is over."""
        yield from self._emitter.settle(watermark, self._engine.deaths)
        held = np.minimum(self._engine.oldest_rows(), self._emitter.oldest_rows())
        for payload, waiting, oldest in zip(self.payloads, self._waiting, held, strict=True):
            payload.forget(min([int(oldest), *waiting[:1, ROW]]))

    def close(self) -> Iterator[pa.Table]:
        """The input has ended: time runs out for everything that time can end."""
        if self._needs_order:
            self.offer([None] * len(self._encoders), FOREVER)
            yield from self.advance()
        yield from self.settle(FOREVER)

    def transition(self, plan: Plan, rank: Rank | None = None) -> None:
        """Run under another plan from the next row on; the answer stays what it is."""
        self._engine.transition(plan, rank)

    def sizes(self) -> list[StoreSize]:
        return self._engine.sizes()

    @property
    def work(self) -> Work:
        return self._engine.work

    def _release(self, words: list[Int64s], watermark: int) -> list[Int64s]:
        """Of all that waits, what the watermark has passed, in time order."""
        released = []
        for stream, new in enumerate(words):
            waiting = _in_time_order(np.concatenate([self._waiting[stream], new]))
            ready = int(np.searchsorted(waiting[:, 0], watermark))
            released.append(waiting[:ready])
            self._waiting[stream] = waiting[ready:]
        return released


def _in_time_order(words: Int64s) -> Int64s:
    times = words[:, 0]
    if (times[1:] >= times[:-1]).all():
        return words
    return words[np.argsort(times, kind="stable")]
