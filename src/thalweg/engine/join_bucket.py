"""A bucket of a join, with all of its readers.

A tuple travels: rows -> (order) -> join -> readers. A store makes tuples of rows
(:mod:`thalweg.engine.rows.row_store`). A joiner finds results (:mod:`thalweg.engine.migration.joiner`). A distribution
gives each of them to the readers that it belongs to (:mod:`thalweg.engine.outputs.distribution`). What is left for the
bucket itself is the order in which they act, and that they begin anew when readers change.

Joins of RANGE windows take tuples as they come and answer at once; ROWS windows need them
in total order, so there they wait until the watermark has passed them.

Readers come and go between two tuples. Then the join begins anew with the tuples that its windows hold, as after a
restart: base windows are facts, and states are completed when they are probed. A reader that enters sees what the
windows hold for the others at that moment, and gets the results that come from then on.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np

from thalweg.cql.group import Group
from thalweg.cql.query import Query, RowsWindow
from thalweg.engine.chains import LineageShares, chain_gain, lineage_shares
from thalweg.engine.feedback.gates import Gated
from thalweg.engine.feedback.savings import Savings
from thalweg.engine.former_work import FormerWork
from thalweg.engine.image.image import ImageTag
from thalweg.engine.join.engine import JoinEngine
from thalweg.engine.kernels.compiled import Int64s
from thalweg.engine.kernels.tables import ROW
from thalweg.engine.machine.accounts import Accounts
from thalweg.engine.migration.joiner import Joiner, open_joiner
from thalweg.engine.observations import Counts, Glimpse, StoreSize, WindowGlimpse, Work
from thalweg.engine.outputs.ages import Times, timed_columns
from thalweg.engine.outputs.distribution import Distribution
from thalweg.engine.outputs.estimates import AnswerEstimate
from thalweg.engine.outputs.readers import Emitted, Part
from thalweg.engine.outputs.results import engine_columns, needs_times, payload_columns
from thalweg.engine.rows.batch import Batch, Waiting, in_time_order
from thalweg.engine.rows.expressions import Expressions, physical_names
from thalweg.engine.rows.payload import Payload, Rows
from thalweg.engine.rows.row_store import RowStore
from thalweg.engine.time_bounds import FOREVER
from thalweg.errors import PlanError, QueryError
from thalweg.plan.difference import AnyPlan, DifferencePlan
from thalweg.plan.program import Rank
from thalweg.plan.sampling import spread
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

    __image__: ClassVar = ("_store", "_waiting", "_in_order", "_engine", "_distribution", "_former_work", "_deaths")

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
        payloads = payloads or [Payload(ref.schema, mine) for ref, mine in zip(whole.streams, columns, strict=True)]
        self._policies = policies
        self._rank = rank
        self._in_order = True
        self._remembers = keeps_all
        self._former_work = FormerWork()
        self._deaths = np.empty((0, 3), np.int64)
        self._serve(group, plan, payloads)

    def _serve(
        self,
        group: Group,
        plan: Plan,
        payloads: Sequence[Rows],
        *,
        store: RowStore | None = None,
        distribution: Distribution | None = None,
        anew: Collection[str] = (),
    ) -> None:
        """Begin anew with these readers, after what was there for those before."""
        policies = self._policies
        self.group, whole = group, group.whole
        self._query: Query = whole
        self._is_keyed = is_keyed = bool(whole.classes) and not policies.nested_loops
        self.shared: Shared = share(group, policies.sharing, self.shares, is_keyed=is_keyed)
        names = physical_names(whole) | engine_columns(whole)
        for query in group.queries:
            names |= engine_columns(query)
        expressions = Expressions(names)
        several = len(group.readers) > 1
        self._store = RowStore(group, self.shared, expressions, payloads, remembers=self._remembers, former=store)
        self._needs_order = any(isinstance(ref.window, RowsWindow) for ref in whole.streams)
        self._waiting = Waiting([encoder.layout.offered for encoder in self._store.encoders])
        self._engine: Joiner = open_joiner(
            whole,
            plan,
            self._rank,
            policies,
            timed=several or needs_times(whole),
            slicing=self.shared.slicing if several else None,
        )
        self._weigh()
        self._distribution = Distribution(
            group,
            self.shared,
            expressions,
            payloads,
            is_scored=policies.budget is not None,
            former=distribution,
            anew=anew,
        )
        names_and_ends = [reader.name for reader in group.readers], self.shared.slicing.ends
        self.image = ImageTag(whole, policies, names_and_ends)

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
        words = self._store.add(batches)
        self._in_order = watermark is None or self._needs_order
        if watermark is None:
            self._engine.offer(words)
        elif self._needs_order:
            for stream, new in enumerate(words):
                self._waiting.add(stream, new)
            self._engine.offer(self._waiting.before(watermark))
        else:
            self._engine.offer([in_time_order(new) for new in words], watermark)

    @property
    def coming(self) -> list[int]:
        return list(map(len, self._engine.unprocessed()[0]))

    def glimpse_coming(self, most: int) -> list[WindowGlimpse]:
        glimpses = []
        for encoder, words in zip(self._store.encoders, self._engine.unprocessed()[0], strict=True):
            layout = encoder.layout
            joining = np.flatnonzero(words[:, layout.offered_mask])
            taken = words[joining[spread(0, len(joining), most)], : layout.width]
            if layout.kept_mask is not None:
                taken = np.delete(taken, layout.kept_mask, axis=1)
            glimpses.append(WindowGlimpse(taken, len(joining), len(joining)))
        return glimpses

    @property
    def can_load(self) -> bool:
        return not self._needs_order and not any(reader.is_lasting for reader in self.group.readers)

    def load(self, batches: Sequence[Sequence[Batch]], watermark: int) -> None:
        self._engine.load(self._store.load(batches), watermark)

    def advance(
        self,
        limit: int | None = None,
        between: Callable[[], None] | None = None,
        every: int | None = None,
        *,
        afresh: bool = False,
    ) -> Iterator[Emitted]:
        for part in self.find(limit, between, every, afresh=afresh):
            yield from self._distribution.give(part)

    def only(self, wanted: Mapping[str, Int64s] | None) -> None:
        self._distribution.only(wanted)

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
            yield from self._distribution.route(block)

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
        yield from self._distribution.settle(watermark, deaths)
        for stream, payload in enumerate(self._store.payloads):
            if payload.is_due(self._engine.held(stream) + len(self._waiting)):
                payload.retain(self.rows(stream))

    def rows(self, stream: int) -> Int64s:
        waiting, relation = self._waiting.rows(stream, ROW), self._store.relation_rows(stream)
        return np.concatenate([self._engine.rows(stream), *self._distribution.rows(stream), waiting, relation])

    def close(self) -> Iterator[Emitted]:
        if self._needs_order:
            self.offer([None] * len(self._query.streams), FOREVER)
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
            self._store.relation(stream, coming[stream], waiting[stream])
            if self._store.remembers(stream)
            else self._store.useful(stream, self._engine.tuples(stream), watermark)
            for stream in range(len(coming))
        ]
        self._deaths = np.concatenate([self._deaths, self._engine.take_deaths()])
        before = dict(vars(self))
        try:
            self._former_work = self._former_work.and_of(self._engine)
            if group.readers != self.group.readers:
                self.shares = None  # of lineages that are no more
            store, distribution = self._store, self._distribution
            self._serve(group, self._engine.plan, store.payloads, store=store, distribution=distribution, anew=anew)
            again = self._store.again
            self._engine.load([again(*pair) for pair in enumerate(held)], watermark)
            for stream, words in enumerate(waiting):
                self._waiting.add(stream, again(stream, words))
            self._engine.offer([again(*pair) for pair in enumerate(coming)], horizon)
        except BaseException:
            vars(self).update(before)
            raise

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
        return self._distribution.results

    def take_ages(self) -> Times:
        """Event times of what the results since this was last asked are made of, where somebody asks how fresh it is.

        By reader and stream.
        """
        return self._distribution.take_ages()

    @property
    def estimates(self) -> dict[str, AnswerEstimate]:
        """Under a budget, how much of its answer each reader has got, also of those that have left."""
        return self._distribution.estimates

    @property
    def routings(self) -> int:
        """How many ages and selections were compared to tell results to readers."""
        return self._distribution.comparisons

    @property
    def work(self) -> Work:
        return self._former_work.work(self._engine)

    @property
    def counts(self) -> Counts:
        return self._former_work.counts(self._engine)

    @property
    def seconds(self) -> float:
        return self._former_work.seconds(self._engine)

    @property
    def savings(self) -> Savings | None:
        return None if self._policies.feedback is None else self._former_work.savings(self._engine)

    @property
    def accounts(self) -> Accounts | None:
        return self._engine.accounts

    def renew_accounts(self, seed: int) -> None:
        if isinstance(self._engine, JoinEngine):
            self._engine.renew_accounts(seed)
        self._distribution.estimate_anew()

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
