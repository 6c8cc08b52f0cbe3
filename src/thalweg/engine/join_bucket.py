"""A bucket of a join, with all of its readers.

A tuple travels: encoding -> (order) -> join -> verdict -> readers. What the readers have in common is done once: up to
the verdict, which decides the keys that kernels know by a hash alone. Then each result goes to the readers that it
belongs to (:mod:`thalweg.engine.readers`). Each of them has an output of its own: results as they enter, results as
they leave, or aggregates over those in the window.

Joins of RANGE windows take tuples as they come and answer at once; ROWS windows need them
in total order, so there they wait until the watermark has passed them.

Readers come and go between two tuples. Then the join begins anew with the tuples that its windows hold, as after a
restart: base windows are facts, and states are completed when they are probed. A reader that enters sees what the
windows hold for the others at that moment, and gets the results that come from then on.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar

import numpy as np
import pyarrow as pa

from thalweg.cql.group import Group
from thalweg.cql.query import Query, RowsWindow
from thalweg.engine.accounts import Accounts
from thalweg.engine.batch import Batch, Waiting, in_time_order
from thalweg.engine.encoding import encoders
from thalweg.engine.expressions import Expressions, physical_names
from thalweg.engine.gates import Gated
from thalweg.engine.image import ImageTag
from thalweg.engine.kernels.compiled import Int64s
from thalweg.engine.kernels.tables import ROW, T
from thalweg.engine.migration import Joiner, open_joiner
from thalweg.engine.observations import Counts, Glimpse, StoreSize, Work
from thalweg.engine.payload import Payload, Rows
from thalweg.engine.readers import Emitted, ReaderEnd, Routing
from thalweg.engine.results import Verdict, engine_columns, needs_times, payload_columns, true_keys
from thalweg.engine.savings import Savings
from thalweg.engine.time_bounds import FOREVER
from thalweg.errors import PlanError, QueryError
from thalweg.plan.difference import AnyPlan, DifferencePlan
from thalweg.plan.program import Rank
from thalweg.plan.slices import Shared, share
from thalweg.plan.tree import Plan
from thalweg.policies import DEFAULT_POLICIES, Policies

_STRETCH = 1 << 14
"""Rows of a batch after which the plan may change: enough to tell that another one is better, few enough to be soon."""


class JoinBucket:
    """See :class:`thalweg.engine.bucket.Bucket` for the order of calls.

    ``keeps_all``: whether all columns of its rows are kept. Else those that its first readers read are, and others can
    only be served if all rows to come are there already, as ``payloads``.

    Attributes:
        group: the join, and the readers that are there now.
        shared: how these share the windows.

    """

    __image__: ClassVar = ("_payloads", "_encoders", "_waiting", "_in_order", "_engine", "_ends", "_earlier", "_deaths")

    def __init__(
        self,
        group: Group,
        plan: Plan,
        rank: Rank | None = None,
        payloads: Sequence[Rows] | None = None,
        policies: Policies = DEFAULT_POLICIES,
        *,
        keeps_all: bool = False,
    ) -> None:
        whole = group.whole
        columns = [ref.schema.names for ref in whole.streams] if keeps_all else payload_columns(whole)
        self._payloads: Sequence[Rows] = payloads or [
            Payload(ref.schema, mine) for ref, mine in zip(whole.streams, columns, strict=True)
        ]
        self._policies = policies
        self._rank = rank
        self._in_order = True
        self._ends: list[ReaderEnd] = []
        self._earlier = np.zeros(len(Work._fields), np.int64)
        self._earlier_seconds, self._earlier_savings, self._earlier_routings = 0.0, Savings(), 0
        self._deaths = np.empty((0, 3), np.int64)
        self._serve(group, plan)

    def _serve(self, group: Group, plan: Plan) -> None:
        """Begin anew with these readers."""
        self.group, whole = group, group.whole
        self._query: Query = whole
        self.shared: Shared = share(group, self._policies.sharing, is_keyed=bool(whole.classes))
        names = physical_names(whole) | engine_columns(whole)
        for query in group.queries:
            names |= engine_columns(query)
        expressions = Expressions(names)
        several = len(group.readers) > 1
        self._encoders = encoders(whole, expressions, self.shared if several else None)
        self._needs_order = any(isinstance(ref.window, RowsWindow) for ref in whole.streams)
        self._waiting = Waiting([encoder.layout.offered for encoder in self._encoders])
        self._engine: Joiner = open_joiner(
            whole,
            plan,
            self._rank,
            self._policies,
            timed=several or needs_times(whole),
            slicing=self.shared.slicing if several else None,
        )
        self._gives_feedback = self._policies.feedback is not None
        self._verdict = Verdict(whole, expressions, true_keys(whole))
        asks_again = {
            reader
            for place, signature in enumerate(self.shared.signatures)
            if not self.shared.is_exact(place)
            for reader in signature.readers
        }
        known = {end.name: end for end in self._ends}
        self._ends = []
        for place, query in enumerate(group.queries):
            end = known.get(query.name) or ReaderEnd(query, expressions, self._payloads)
            end.asks_again = place in asks_again
            self._ends.append(end)
        self._routing = Routing(group, self.shared)
        self.image = ImageTag(whole, self._policies)

    # -- Rows ---------------------------------------------------------------------------

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
        return not self._needs_order and not any(reader.is_lasting for reader in self.group.readers)

    def load(self, batches: Sequence[Sequence[Batch]], watermark: int) -> None:
        words = []
        for encoder, payload, parts in zip(self._encoders, self._payloads, batches, strict=True):
            numbers = payload.load([part.table for part in parts])
            encoded = [encoder.encode(part.table, part.times, rows) for part, rows in zip(parts, numbers, strict=True)]
            words.append(np.concatenate([np.zeros((0, encoder.layout.offered), np.int64), *encoded]))
        self._engine.load(words, watermark)

    def advance(
        self, limit: int | None = None, between: Callable[[], None] | None = None, every: int | None = None
    ) -> Iterator[Emitted]:
        stretch = _STRETCH if every is None else every
        blocks = self._engine.advance(limit) if between is None else self._in_stretches(limit, between, stretch)
        if not self._in_order:
            copies = [block.copy() for block in blocks]
            blocks = iter([in_time_order(np.concatenate(copies))] if copies else [])
        for block in blocks:
            for place, part in self._routing.route(self._verdict.keep(self._payloads, block)):
                yield from self._ends[place].add(part)

    def _in_stretches(self, limit: int | None, between: Callable[[], None], stretch: int) -> Iterator[Int64s]:
        left = sys.maxsize if limit is None else limit
        while True:
            before = self._engine.work.tuples
            most = min(left, stretch - before % stretch)  # wherever batches are cut
            yield from self._engine.advance(most)
            if self._engine.work.tuples - before < most or most == left:
                return
            left -= most
            between()

    def settle(self, watermark: int) -> Iterator[Emitted]:
        deaths, self._deaths = np.concatenate([self._deaths, self._engine.take_deaths()]), np.empty((0, 3), np.int64)
        for end in self._ends:
            yield from end.settle(watermark, deaths)
        for stream, payload in enumerate(self._payloads):
            if payload.is_due(self._engine.held(stream) + len(self._waiting)):
                payload.retain(self.rows(stream))

    def rows(self, stream: int) -> Int64s:
        kept = (end.rows(stream) for end in self._ends)
        return np.concatenate([self._engine.rows(stream), *kept, self._waiting.rows(stream, ROW)])

    def close(self) -> Iterator[Emitted]:
        if self._needs_order:
            self.offer([None] * len(self._encoders), FOREVER)
            yield from self.advance()
        yield from self.settle(FOREVER)

    # -- Plans and readers --------------------------------------------------------------

    def transition(self, plan: AnyPlan, rank: Rank | None = None) -> None:
        if isinstance(plan, DifferencePlan):
            raise PlanError(f"query '{self._query.name}' is a join and needs the plan of one")
        self._rank = rank
        self._engine.transition(plan, rank)

    def serve(self, group: Group, watermark: int | None = None) -> None:
        """Go on with other readers of the same join, from the next tuple on.

        Tuples that no reader so far could still use, at ``watermark`` (None: the time of the last tuple), are
        forgotten. So what a reader that enters sees of the past does not depend on how windows are divided.
        """
        if watermark is None:
            watermark = self._engine.glimpse(0).time
        if group.join != self.group.join:
            raise QueryError(f"query '{group.whole.name}' joins other streams, or by other predicates", None, "")
        coming, horizon = self._engine.unprocessed()
        held = [self._wanted(stream, watermark) for stream in range(len(coming))]
        waiting = [self._waiting.all(stream) for stream in range(len(coming))]
        plan = self._engine.plan
        self._deaths = np.concatenate([self._deaths, self._engine.take_deaths()])
        self._earlier += self._engine.work
        self._earlier_seconds += self._engine.seconds
        self._earlier_savings += self._engine.savings
        self._earlier_routings += self._routing.comparisons
        self._serve(group, plan)
        self._engine.load([self._encoded(*pair) for pair in enumerate(held)], watermark)
        for stream, words in enumerate(waiting):
            self._waiting.add(stream, self._encoded(stream, words))
        self._engine.offer([self._encoded(*pair) for pair in enumerate(coming)], horizon)

    def _wanted(self, stream: int, watermark: int) -> Int64s:
        """The tuples of a window that some reader could still use. What counts rows needs all to count by."""
        words = self._engine.tuples(stream)
        if isinstance(self._query.streams[stream].window, RowsWindow):
            return words
        layout = self._encoders[stream].layout
        masks = np.ones(len(words), np.int64) if layout.kept_mask is None else words[:, layout.kept_mask]
        wanted = np.zeros(len(words), np.bool_)
        for place, (signature, bit) in enumerate(zip(self.shared.signatures, self.shared.bits, strict=True)):
            span = signature.reach[stream]
            mine = (masks >> bit) & 1 == 1
            if span is not None:
                mine &= words[:, T] + span > watermark
            if not self.shared.is_exact(place):
                mine[mine] = self._encoders[stream].passes(
                    signature.selections[stream], self._table(stream, words[mine, ROW])
                )
            wanted |= mine
        return words[wanted]

    def _encoded(self, stream: int, words: Int64s) -> Int64s:
        """Tuples as these readers have them, made of their rows."""
        rows = words[:, ROW].copy()
        return self._encoders[stream].encode(self._table(stream, rows), words[:, T].copy(), rows)

    def _table(self, stream: int, rows: Int64s) -> pa.Table:
        """The columns of rows that say how they are joined, and by whom."""
        payload, names = self._payloads[stream], self._encoders[stream].reads
        table = pa.table({name: payload.take(name, rows) for name in names})
        return table if names else pa.table({"": pa.nulls(len(rows))}).select([])

    # -- What it tells ------------------------------------------------------------------

    @property
    def plan(self) -> Plan:
        """The plan that runs."""
        return self._engine.plan

    def sizes(self) -> list[StoreSize]:
        return self._engine.sizes()

    @property
    def results(self) -> dict[str, int]:
        """How many rows each reader has got."""
        return {end.name: end.results for end in self._ends}

    @property
    def routings(self) -> int:
        """How many ages and selections were compared to tell results to readers."""
        return self._earlier_routings + self._routing.comparisons

    @property
    def work(self) -> Work:
        return Work(*map(int, self._earlier + self._engine.work))

    @property
    def counts(self) -> Counts:
        return tuple(map(int, self._earlier[: len(self._engine.counts)] + self._engine.counts))

    @property
    def seconds(self) -> float:
        return self._earlier_seconds + self._engine.seconds

    @property
    def savings(self) -> Savings | None:
        return self._earlier_savings + self._engine.savings if self._gives_feedback else None

    @property
    def accounts(self) -> Accounts | None:
        return self._engine.accounts

    @property
    def gated(self) -> Gated | None:
        return self._engine.gated

    def glimpse(self, most: int) -> Glimpse:
        return self._engine.glimpse(most)
