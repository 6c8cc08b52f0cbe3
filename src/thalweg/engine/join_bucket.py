"""A bucket of a join query.

A tuple travels: encoding -> (order) -> join -> verdict -> output. The output is one of
three: results as they enter, results as they leave, or aggregates over those in the window.

Joins of RANGE windows take tuples as they come and answer at once; ROWS windows need them
in total order, so there they wait until the watermark has passed them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar

import numpy as np
import pyarrow as pa

from thalweg.cql.query import Query, RowsWindow
from thalweg.engine.batch import Batch, Waiting, in_time_order
from thalweg.engine.encoding import encoders
from thalweg.engine.expressions import Expressions, physical_names
from thalweg.engine.gates import Gated
from thalweg.engine.image import ImageTag
from thalweg.engine.kernels.compiled import Int64s
from thalweg.engine.kernels.tables import ROW
from thalweg.engine.migration import open_joiner
from thalweg.engine.observations import Counts, Glimpse, StoreSize, Work
from thalweg.engine.outputs import Emitter, Entering, emitter
from thalweg.engine.payload import Payload, Rows
from thalweg.engine.results import Verdict, engine_columns, needs_times, payload_columns
from thalweg.engine.savings import Savings
from thalweg.engine.time_bounds import FOREVER
from thalweg.errors import PlanError
from thalweg.plan.difference import AnyPlan, DifferencePlan
from thalweg.plan.program import Rank
from thalweg.plan.tree import Plan
from thalweg.policies import DEFAULT_POLICIES, Policies

_STRETCH = 1 << 14
"""Rows of a batch after which the plan may change: enough to tell that another one is better, few enough to be soon."""


class JoinBucket:
    """See :class:`thalweg.engine.bucket.Bucket` for the order of calls."""

    __image__: ClassVar = ("_payloads", "_encoders", "_waiting", "_in_order", "_engine", "_emitter")

    def __init__(
        self,
        query: Query,
        plan: Plan,
        rank: Rank | None = None,
        payloads: Sequence[Rows] | None = None,
        policies: Policies = DEFAULT_POLICIES,
    ) -> None:
        expressions = Expressions(physical_names(query) | engine_columns(query))
        self._payloads: Sequence[Rows] = payloads or [
            Payload(ref.schema, columns) for ref, columns in zip(query.streams, payload_columns(query), strict=True)
        ]
        self._query = query
        self._encoders = encoders(query, expressions)
        self._needs_order = any(isinstance(ref.window, RowsWindow) for ref in query.streams)
        self._waiting = Waiting([encoder.layout.offered for encoder in self._encoders])
        self._in_order = True
        self._engine = open_joiner(query, plan, rank, policies, timed=needs_times(query))
        self._gives_feedback = policies.feedback is not None
        self._nothing = np.zeros((0, 2 + len(query.streams)), np.int64)
        self._verdict = Verdict(query, expressions)
        self._emitter: Emitter = emitter(query, expressions, self._payloads)
        self.image = ImageTag(query, policies)

    def offer(self, batches: Sequence[Batch | None], watermark: int | None = None) -> None:
        words = self._words(batches)
        self._in_order = watermark is None or self._needs_order
        if watermark is None:
            self._engine.offer(words)
        elif self._needs_order:
            for stream, new in enumerate(words):
                self._waiting.add(stream, new)
            self._engine.offer(self._waiting.before(watermark))
        else:
            self._engine.offer([in_time_order(new) for new in words], watermark)

    def _words(self, batches: Sequence[Batch | None]) -> list[Int64s]:
        """New rows as the engine takes them; their payload is kept."""
        words = []
        for encoder, payload, batch in zip(self._encoders, self._payloads, batches, strict=True):
            if batch is None:
                words.append(np.zeros((0, encoder.layout.offered), np.int64))
            else:
                rows = payload.append(batch.table, batch.numbers) if batch.rows is None else batch.rows
                words.append(encoder.encode(batch.table, batch.times, rows))
        return words

    @property
    def can_load(self) -> bool:
        return not self._needs_order and isinstance(self._emitter, Entering)

    def load(self, batches: Sequence[Sequence[Batch]], watermark: int) -> None:
        words = []
        for encoder, payload, parts in zip(self._encoders, self._payloads, batches, strict=True):
            numbers = payload.load([part.table for part in parts])
            encoded = [encoder.encode(part.table, part.times, rows) for part, rows in zip(parts, numbers, strict=True)]
            words.append(np.concatenate([np.zeros((0, encoder.layout.offered), np.int64), *encoded]))
        self._engine.load(words, watermark)

    def advance(self, limit: int | None = None, between: Callable[[], None] | None = None) -> Iterator[pa.Table]:
        blocks = self._engine.advance(limit) if between is None else self._advance_in_stretches(limit, between)
        if not self._in_order:
            copies = [block.copy() for block in blocks]
            blocks = iter([in_time_order(np.concatenate([self._nothing, *copies]))])
        for block in blocks:
            admitted = self._verdict.keep(self._payloads, block)
            if len(admitted):
                yield from self._emitter.add(admitted)

    def _advance_in_stretches(self, limit: int | None, between: Callable[[], None]) -> Iterator[Int64s]:
        left = sys.maxsize if limit is None else limit
        while True:
            before, most = self._engine.work.tuples, min(left, _STRETCH)
            yield from self._engine.advance(most)
            if self._engine.work.tuples - before < most or most == left:
                return
            left -= most
            between()

    def settle(self, watermark: int) -> Iterator[pa.Table]:
        yield from self._emitter.settle(watermark, self._engine.take_deaths())
        for stream, payload in enumerate(self._payloads):
            if payload.is_due(self._engine.held(stream) + len(self._waiting)):
                payload.retain(self.rows(stream))

    def rows(self, stream: int) -> Int64s:
        return np.concatenate([self._engine.rows(stream), self._emitter.rows(stream), self._waiting.rows(stream, ROW)])

    def close(self) -> Iterator[pa.Table]:
        if self._needs_order:
            self.offer([None] * len(self._encoders), FOREVER)
            yield from self.advance()
        yield from self.settle(FOREVER)

    def transition(self, plan: AnyPlan, rank: Rank | None = None) -> None:
        if isinstance(plan, DifferencePlan):
            raise PlanError(f"query '{self._query.name}' is a join and needs the plan of one")
        self._engine.transition(plan, rank)

    @property
    def plan(self) -> Plan:
        """The plan that runs."""
        return self._engine.plan

    def sizes(self) -> list[StoreSize]:
        return self._engine.sizes()

    @property
    def work(self) -> Work:
        return self._engine.work

    @property
    def counts(self) -> Counts:
        return self._engine.counts

    @property
    def seconds(self) -> float:
        return self._engine.seconds

    @property
    def savings(self) -> Savings | None:
        return self._engine.savings if self._gives_feedback else None

    @property
    def gated(self) -> Gated | None:
        return self._engine.gated

    def glimpse(self, most: int) -> Glimpse:
        return self._engine.glimpse(most)
