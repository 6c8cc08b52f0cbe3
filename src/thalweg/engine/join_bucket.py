"""A bucket of a join, with all of its readers.

A tuple travels: encoding -> (order) -> join -> verdict -> readers. What the readers have in common is done once: up to
the verdict, which decides the keys that kernels know by a hash alone. Then each result goes to the readers that it
belongs to (:mod:`thalweg.engine.outputs.readers`). Each of them has an output of its own: results as they enter,
results as they leave, or aggregates over those in the window.

Joins of RANGE windows take tuples as they come and answer at once; ROWS windows need them
in total order, so there they wait until the watermark has passed them.

Readers come and go between two tuples. Then the join begins anew with the tuples that its windows hold, as after a
restart: base windows are facts, and states are completed when they are probed. A reader that enters sees what the
windows hold for the others at that moment, and gets the results that come from then on.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import astuple, fields, replace
from typing import ClassVar

import numpy as np
import pyarrow as pa

from thalweg.cql.group import Group
from thalweg.cql.query import Query, RowsWindow
from thalweg.engine.chains import LineageShares, chain_gain, lineage_shares
from thalweg.engine.feedback.gates import Gated
from thalweg.engine.feedback.savings import Savings
from thalweg.engine.image.image import ImageTag
from thalweg.engine.join.engine import JoinEngine
from thalweg.engine.kernels.compiled import Int64s
from thalweg.engine.kernels.tables import ROW, T
from thalweg.engine.machine.accounts import Accounts
from thalweg.engine.migration.joiner import Joiner, open_joiner
from thalweg.engine.observations import Counts, Glimpse, StoreSize, Work
from thalweg.engine.outputs.ages import Ages, Times, timed_columns
from thalweg.engine.outputs.asked_again import AskedAgain
from thalweg.engine.outputs.estimates import AnswerEstimate, added
from thalweg.engine.outputs.readers import UNCOMPUTABLE, Emitted, Part, ReaderEnd, Routing
from thalweg.engine.outputs.results import Verdict, engine_columns, needs_times, payload_columns, true_keys
from thalweg.engine.rows.batch import Batch, Waiting, in_time_order
from thalweg.engine.rows.encoding import StreamEncoder, encoders
from thalweg.engine.rows.expressions import Expressions, physical_names
from thalweg.engine.rows.payload import Payload, Rows
from thalweg.engine.time_bounds import FOREVER
from thalweg.errors import PlanError, QueryError, ReaderError
from thalweg.plan.difference import AnyPlan, DifferencePlan
from thalweg.plan.program import Rank
from thalweg.plan.slices import Shared, share
from thalweg.plan.tree import Plan
from thalweg.policies import DEFAULT_POLICIES, Policies

_STRETCH = 1 << 14
"""Rows of a batch after which the plan may change: enough to tell that another one is better, few enough to be soon."""


class JoinBucket:
    """See :class:`thalweg.engine.bucket.Bucket` for the order of calls.

    ``keeps_all``: whether readers may come that read other columns, or other rows of static relations, so that all are
    kept. (Columns are there in any case if all rows to come are, as ``payloads``.) ``shares``: see the attribute.

    Attributes:
        group: the join, and the readers that are there now.
        shared: how these share the windows.
        shares: for each stream, which share of its tuples has each lineage, as the chain of slices was built for;
            None: nothing is known.

    """

    __image__: ClassVar = (
        "_payloads",
        "_encoders",
        "_waiting",
        "_in_order",
        "_engine",
        "_ends",
        "_earlier",
        "_earlier_saved",
        "_earlier_routings",
        "_former",
        "_deaths",
        "_relations",
    )

    def __init__(
        self,
        group: Group,
        plan: Plan,
        rank: Rank | None = None,
        payloads: Sequence[Rows] | None = None,
        policies: Policies = DEFAULT_POLICIES,
        *,
        keeps_all: bool = False,
        shares: LineageShares | None = None,
    ) -> None:
        whole = group.whole
        self.shares = shares
        self._can_encode_anew = keeps_all or payloads is not None
        columns = [ref.schema.names for ref in whole.streams] if keeps_all else _with_times(group)
        self._payloads: Sequence[Rows] = payloads or [
            Payload(ref.schema, mine) for ref, mine in zip(whole.streams, columns, strict=True)
        ]
        self._policies = policies
        self._rank = rank
        self._in_order = True
        self._is_scored = policies.budget is not None
        self._former: dict[str, AnswerEstimate] = {}
        self._ends: list[ReaderEnd] = []
        self._earlier = np.zeros(len(Work._fields), np.int64)
        self._earlier_saved = np.zeros(len(fields(Savings)), np.int64)
        self._earlier_seconds, self._earlier_routings = 0.0, 0
        self._deaths = np.empty((0, 3), np.int64)
        # Whoever comes sees all of a static relation, also what no reader before selected.
        self._remembers = keeps_all
        self._relations = [np.zeros((0, 2), np.int64) for _ in whole.streams]
        self._serve(group, plan)

    def _serve(self, group: Group, plan: Plan, anew: Collection[str] = ()) -> None:
        """Begin anew with these readers."""
        self.group, whole = group, group.whole
        self._query: Query = whole
        is_keyed = bool(whole.classes) and not self._policies.nested_loops
        self._is_keyed = is_keyed
        self.shared: Shared = share(group, self._policies.sharing, self.shares, is_keyed=is_keyed)
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
        self._again = AskedAgain(group, asks_again, expressions, self._payloads)
        self._weigh()
        known = {end.name: end for end in self._ends if end.name not in anew}
        staying = known.keys() & {query.name for query in group.queries}
        self._former = added(self._former, {end.name: end.estimate for end in self._ends if end.name not in staying})
        self._ends = [
            known.get(query.name) or ReaderEnd(query, expressions, self._payloads, is_scored=self._is_scored)
            for query in group.queries
        ]
        self._routing = Routing(group, self.shared)
        self._ages = Ages(group, self._payloads)
        self._lasting = {place for place, reader in enumerate(group.readers) if reader.is_lasting}
        names_and_ends = [reader.name for reader in group.readers], self.shared.slicing.ends
        self.image = ImageTag(whole, self._policies, names_and_ends)

    def _weigh(self) -> None:
        """Tell accounts how much the readers behind each bit of a mask weigh."""
        accounts, shared = self._engine.accounts, self.shared
        if accounts is None:
            return
        weights = [0.0] * shared.slicing.selections
        for signature, bit in zip(shared.signatures, shared.bits, strict=True):
            weights[bit] = max(weights[bit], *(self.group.readers[place].weight for place in signature.readers))
        accounts.weigh([weight or min(filter(None, weights)) for weight in weights])  # all tuples have one bit more

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
                words.append(self._encode(encoder, batch.table, batch.times, rows))
        self._remember(words)
        return words

    def _encode(self, encoder: StreamEncoder, table: pa.Table, times: Int64s, rows: Int64s) -> Int64s:
        """Rows as words. If something has no value for one of them, that is an error of the readers who select it.

        It tells of the row that came first. In which order windows hold their tuples is no matter of the input.
        """
        try:
            return encoder.encode(table, times, rows)
        except UNCOMPUTABLE as error:
            uncomputable = encoder.uncomputable(table.take(pa.array(np.argsort(rows, kind="stable"))))
            reasons = {
                reader.name: uncomputable[reader.views[encoder.stream].selection]
                for reader in self.group.readers
                if reader.views[encoder.stream].selection in uncomputable
            }
            if not reasons:
                raise
            raise ReaderError(reasons) from error

    def _remember(self, words: Sequence[Int64s]) -> None:
        """Know the rows of static relations."""
        for stream, (ref, new) in enumerate(zip(self._query.streams, words, strict=True)):
            if self._remembers and ref.is_static and len(new):
                self._relations[stream] = np.concatenate([self._relations[stream], new[:, [T, ROW]]])

    @property
    def coming(self) -> list[int]:
        return list(map(len, self._engine.unprocessed()[0]))

    @property
    def can_load(self) -> bool:
        return not self._needs_order and not any(reader.is_lasting for reader in self.group.readers)

    def load(self, batches: Sequence[Sequence[Batch]], watermark: int) -> None:
        words = []
        for encoder, payload, parts in zip(self._encoders, self._payloads, batches, strict=True):
            numbers = payload.load([part.table for part in parts])
            encoded = [
                self._encode(encoder, part.table, part.times, rows) for part, rows in zip(parts, numbers, strict=True)
            ]
            words.append(np.concatenate([np.zeros((0, encoder.layout.offered), np.int64), *encoded]))
        self._remember(words)
        self._engine.load(words, watermark)

    def advance(
        self,
        limit: int | None = None,
        between: Callable[[], None] | None = None,
        every: int | None = None,
        *,
        afresh: bool = False,
    ) -> Iterator[Emitted]:
        for part in self.find(limit, between, every, afresh=afresh):
            results = part.results()
            if self._is_scored:
                results = np.concatenate([results, part.scores()], axis=1)
            for place in part.readers:
                if self._ends[place].is_muted:
                    continue
                is_lasting = place in self._lasting and self.shared.slicing.is_aged
                mine = part.lasting(results, self._routing.ranged) if is_lasting else results
                if place in self._again.readers:
                    mine = mine[self._again.passes(place, part.places())]
                self._ages.note(place, mine)
                yield from self._ends[place].add(mine)

    def only(self, wanted: Mapping[str, Int64s] | None) -> None:
        """Rows come again: these readers get results, each those that have a row of at least such a number.

        Numbers are by stream. None: all get all of their results again.
        """
        for end in self._ends:
            end.is_muted = wanted is not None and end.name not in wanted
            end.first = None if wanted is None else wanted.get(end.name)

    def find(
        self,
        limit: int | None = None,
        between: Callable[[], None] | None = None,
        every: int | None = None,
        *,
        afresh: bool = False,
    ) -> Iterator[Part]:
        """Process up to so many of the offered tuples; yields whose the results are, each part before the next one.

        That is :meth:`advance` without what becomes of results at their readers.
        """
        stretch = _STRETCH if every is None else every
        origin = self._engine.work.tuples if afresh else 0
        blocks = self._engine.advance(limit) if between is None else self._in_stretches(limit, between, stretch, origin)
        if not self._in_order:
            copies = [block.copy() for block in blocks]
            blocks = iter([in_time_order(np.concatenate(copies))] if copies else [])
        for block in blocks:
            kept = self._verdict.keep(self._payloads, block)
            self._again.begin(kept[:, 2 : 2 + len(self._payloads)])
            yield from self._routing.route(kept)

    def _in_stretches(
        self, limit: int | None, between: Callable[[], None], stretch: int, origin: int
    ) -> Iterator[Int64s]:
        left = sys.maxsize if limit is None else limit
        while True:
            before = self._engine.work.tuples - origin
            most = min(left, stretch - before % stretch)  # wherever batches are cut
            yield from self._engine.advance(most)
            if self._engine.work.tuples - origin - before < most or most == left:
                return
            left -= most
            between()

    def settle(self, watermark: int) -> Iterator[Emitted]:
        deaths, self._deaths = np.concatenate([self._deaths, self._engine.take_deaths()]), np.empty((0, 3), np.int64)
        for end in self._ends:
            yield from end.settle(watermark, deaths)
        if reasons := {end.name: end.failure for end in self._ends if end.failure is not None}:
            raise ReaderError(reasons)
        for stream, payload in enumerate(self._payloads):
            if payload.is_due(self._engine.held(stream) + len(self._waiting)):
                payload.retain(self.rows(stream))

    def rows(self, stream: int) -> Int64s:
        kept = (end.rows(stream) for end in self._ends)
        waiting = self._waiting.rows(stream, ROW)
        return np.concatenate([self._engine.rows(stream), *kept, waiting, self._relations[stream][:, 1]])

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

    def serve(self, group: Group, watermark: int | None = None, anew: Collection[str] = ()) -> None:
        """Go on with other readers of the same join, from the next tuple on.

        Tuples that no reader so far could still use, at ``watermark`` (None: the time of the last tuple), are
        forgotten. So what a reader that enters sees of the past does not depend on how windows are divided.

        ``anew``: those that begin without results, although there was a reader of that name before.

        A selection may be such that it cannot be computed for a tuple that is held. Then that is raised, and
        everything is as before.
        """
        if watermark is None:
            watermark = self._engine.glimpse(0).time
        if group.join != self.group.join:
            raise QueryError(f"query '{group.whole.name}' joins other streams, or by other predicates", None, "")
        coming, horizon = self._engine.unprocessed()
        waiting = [self._waiting.all(stream) for stream in range(len(coming))]
        held = [
            self._arrived(stream, coming[stream], waiting[stream])
            if ref.is_static and self._remembers
            else self._wanted(stream, watermark)
            for stream, ref in enumerate(self._query.streams)
        ]
        self._deaths = np.concatenate([self._deaths, self._engine.take_deaths()])
        before = dict(vars(self))
        try:
            self._count_as_earlier()
            if group.readers != self.group.readers:
                self.shares = None  # of lineages that are no more
            self._serve(group, self._engine.plan, anew)
            self._engine.load([self._encoded(*pair) for pair in enumerate(held)], watermark)
            for stream, words in enumerate(waiting):
                self._waiting.add(stream, self._encoded(stream, words))
            self._engine.offer([self._encoded(*pair) for pair in enumerate(coming)], horizon)
        except BaseException:
            vars(self).update(before)
            raise

    def _count_as_earlier(self) -> None:
        """The engine is about to be replaced by another: remember what it has done."""
        self._earlier = self._earlier + self._engine.work
        self._earlier_seconds += self._engine.seconds
        self._earlier_saved = self._earlier_saved + astuple(replace(self._engine.savings, suspended=0))
        self._earlier_routings += self._routing.comparisons

    # -- The chain of slices ------------------------------------------------------------

    @property
    def may_choose_chain(self) -> bool:
        """Whether another chain of slices may be chosen: the user leaves that open, and there is a choice."""
        is_open = self._policies.sharing == "auto" and self._can_encode_anew and isinstance(self._engine, JoinEngine)
        return is_open and any(len(self.shared.lineages(s)) > 1 for s in range(len(self.shared.slicing.ends)))

    def lineage_shares(self) -> LineageShares:
        """For each stream, which share of its tuples has each lineage: from a sample of the windows."""
        return lineage_shares(self.shared, self._engine.windows if isinstance(self._engine, JoinEngine) else None)

    def chain_gain(self, shares: LineageShares) -> float:
        """The share of what probes cost that the best chain for such lineages would save."""
        return chain_gain(self.group, self.shared, shares, is_keyed=self._is_keyed)

    def choose_chain(self, shares: LineageShares) -> None:
        """Split and merge slices (State-Slice 5.3), so that they suit such lineages."""
        self.shares = shares
        self.serve(self.group)

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
            mine &= ~wanted  # one reader is enough, and to ask a selection again takes long
            if mine.any() and not self.shared.is_exact(place):
                mine[mine] = self._encoders[stream].passes(
                    signature.selections[stream], self._table(stream, words[mine, ROW])
                )
            wanted |= mine
        return words[wanted]

    def _arrived(self, stream: int, *coming: Int64s) -> Int64s:
        """The tuples of a static relation, but for those that are still to come."""
        relation = self._relations[stream]
        return relation[~np.isin(relation[:, 1], np.concatenate([words[:, ROW] for words in coming]))]

    def _encoded(self, stream: int, words: Int64s) -> Int64s:
        """Tuples as these readers have them, made of their rows."""
        rows = words[:, ROW].copy()
        return self._encode(self._encoders[stream], self._table(stream, rows), words[:, T].copy(), rows)

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

    def slice_sizes(self) -> list[list[tuple[int | None, int]]]:
        """For each stream the slices of its window: for how long tuples are kept there, and how many there are."""
        engine, ends = self._engine, self.shared.slicing.ends
        if not isinstance(engine, JoinEngine):
            return [[(each[-1], engine.held(stream))] for stream, each in enumerate(ends)]
        return [list(zip(each, engine.windows.slice_sizes(stream), strict=True)) for stream, each in enumerate(ends)]

    @property
    def joiner(self) -> Joiner:
        """Who joins: for those who measure what is held."""
        return self._engine

    @property
    def results(self) -> dict[str, int]:
        """How many rows each reader has got."""
        return {end.name: end.results for end in self._ends}

    def take_ages(self) -> Times:
        """Event times of what the results since this was last asked are made of, where somebody asks how fresh it is.

        By reader and stream.
        """
        return self._ages.take()

    @property
    def estimates(self) -> dict[str, AnswerEstimate]:
        """Under a budget, how much of its answer each reader has got, also of those that have left."""
        return added(self._former, {end.name: end.estimate for end in self._ends})

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
        return Savings(*map(int, self._earlier_saved)) + self._engine.savings if self._gives_feedback else None

    @property
    def accounts(self) -> Accounts | None:
        return self._engine.accounts

    def renew_accounts(self, seed: int) -> None:
        if isinstance(self._engine, JoinEngine):
            self._engine.renew_accounts(seed)
        self._former = {}
        for end in self._ends:
            end.estimate = None if end.estimate is None else AnswerEstimate()

    @property
    def gated(self) -> Gated | None:
        return self._engine.gated

    def glimpse(self, most: int) -> Glimpse:
        return self._engine.glimpse(most)


def _with_times(group: Group) -> list[list[str]]:
    """For each stream the columns that are kept of its rows."""
    kept = [list(columns) for columns in payload_columns(group.whole)]
    for columns, time in zip(kept, timed_columns(group), strict=True):
        if time is not None and time not in columns:
            columns.append(time)
    return kept
