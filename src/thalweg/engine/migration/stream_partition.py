"""Selection push-down: streams in parts, and a join for each combination of parts (State-Slice 3.2).

It is there to be compared with. Slices of one join do the same with less memory and less work.

Design
    A *part* of a stream is what passes the same selections: the tuples of one mask. A *combination* has a part of each
    stream. Its results pass the selections that all of its parts pass. If there are any, an ordinary join engine joins
    the parts. Its windows are the longest among the readers that ask for these selections. What the engines find is
    united in time order.

    A part is known when its first tuple comes. Then its combinations begin, with the tuples that are alive of the
    other streams. These are remembered here, so that an engine can begin at any time.

Invariant
    After every stretch of tuples, each engine has processed all tuples of its parts. The masks of a result's components
    name one combination, so exactly one engine finds it.

Cost
    A tuple is kept and joined once per combination that its part is in. The paper speaks of this waste of memory.
    What is remembered here comes on top of it, and is not part of :meth:`StreamPartition.sizes`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import product
from operator import and_

import numpy as np

from thalweg.cql.query import Query, RowsWindow
from thalweg.engine.feedback.gates import Gated
from thalweg.engine.feedback.savings import Savings
from thalweg.engine.join.engine import JoinEngine
from thalweg.engine.kernels.compiled import Int64s
from thalweg.engine.kernels.tables import ROW, T
from thalweg.engine.machine.accounts import Accounts
from thalweg.engine.observations import Counts, Glimpse, StoreSize, WindowGlimpse, Work
from thalweg.engine.rows.batch import in_time_order
from thalweg.engine.rows.layout import layouts, until
from thalweg.engine.time_bounds import NEVER
from thalweg.errors import OptionError, PlanError
from thalweg.plan.program import Rank
from thalweg.plan.sampling import spread
from thalweg.plan.slices import Slicing, longest
from thalweg.plan.tree import Plan
from thalweg.policies import Policies

_STRETCH = 1 << 12
"""Tuples that engines go through one after the other: their results wait to be united."""
_MOST_JOINS = 1 << 10
"""Combinations at most: beyond that, dividing the tuples costs more than joining them."""
_SPARE = 1 << 10
"""Tuples that are over and may be remembered at least, before they are looked for."""

Masks = tuple[int, ...]


class StreamPartition:
    """See :class:`thalweg.engine.migration.joiner.Joiner` for the order of calls. It has no image.

    Attributes:
        unions: how many results were united with those of other combinations: a comparison of times each, at least.

    """

    def __init__(
        self,
        query: Query,
        plan: Plan,
        rank: Rank | None,
        policies: Policies,
        slicing: Slicing,
    ) -> None:
        counting = [ref.alias for ref in query.streams if isinstance(ref.window, RowsWindow)]
        if counting:
            raise OptionError(
                f"option sharing='push_down' joins parts of streams, and in query '{query.name}' the window of "
                f"'{counting[0]}' counts the rows of all of it. Use sharing='auto'."
            )
        self._query, self._plan, self._rank, self._slicing = query, plan, rank, slicing
        self._policies = policies
        self._layouts = layouts(query, slicing)
        self._reach = np.array([list(map(until, each)) for each in slicing.reach], np.int64)
        self._engines: dict[Masks, JoinEngine] = {}
        self._parts: list[list[int]] = [[] for _ in self._layouts]
        self._held = [np.zeros((0, layout.offered), np.int64) for layout in self._layouts]
        self._alive = [0] * len(self._layouts)
        self._coming = list(self._held)
        self._watermark: int | None = None
        self._time = NEVER
        self.unions = 0
        self._taken = 0
        self._arrived = [0] * len(self._layouts)

    @property
    def plan(self) -> Plan:
        return self._plan

    @property
    def engines(self) -> dict[Masks, JoinEngine]:
        """The engine of each combination, by the masks of its parts."""
        return dict(self._engines)

    # -- Running ------------------------------------------------------------------------

    def offer(self, batches: Sequence[Int64s], watermark: int | None = None) -> None:
        if self._watermark is not None:
            self._time = max(self._time, self._watermark)
        self._coming, self._watermark = list(batches), watermark

    def load(self, batches: Sequence[Int64s], watermark: int) -> None:
        self._time = self._watermark = watermark
        for stream, batch in enumerate(batches):
            self._remember(stream, in_time_order(batch))
            self._meet(stream, self._held[stream])

    def advance(self, limit: int | None = None) -> Iterator[Int64s]:
        left = sys.maxsize if limit is None else limit
        while left:
            stretch = self._next(min(left, _STRETCH))
            taken = sum(map(len, stretch))
            if not taken:
                return
            left -= taken
            results = self._join(stretch)
            self._taken += taken
            if len(results):
                yield results

    def _next(self, most: int) -> list[Int64s]:
        """Per stream, the next tuples in total order, so many in all."""
        ready = [words[:most] for words in self._coming]
        streams = np.repeat(np.arange(len(ready)), [len(words) for words in ready])
        order = np.lexsort((streams, np.concatenate([words[:, T] for words in ready])))[:most]
        counts = np.bincount(streams[order], minlength=len(ready)).tolist()
        stretch = [words[:count] for words, count in zip(self._coming, counts, strict=True)]
        self._coming = [words[count:] for words, count in zip(self._coming, counts, strict=True)]
        return stretch

    def _join(self, stretch: Sequence[Int64s]) -> Int64s:
        """What all combinations find in a stretch, in time order."""
        for stream, words in enumerate(stretch):
            self._meet(stream, words)
        following = [int(words[0, T]) for words in self._coming if len(words)]
        horizon = None if self._watermark is None else min([self._watermark, *following])
        found = []
        for masks, engine in self._engines.items():
            batches = [self._part(stream, words, masks[stream]) for stream, words in enumerate(stretch)]
            if any(map(len, batches)):
                engine.offer(batches, horizon)
                found.append([self._marked(block, masks) for block in engine.advance()])
        for stream, words in enumerate(stretch):
            self._remember(stream, words)
        newest = max(int(words[-1, T]) for words in stretch if len(words))
        self._time = max(self._time, newest if horizon is None else horizon)
        results = _united([block for blocks in found for block in blocks])
        if sum(map(bool, found)) > 1:
            self.unions += len(results)
        return results

    def _marked(self, block: Int64s, masks: Masks) -> Int64s:
        """Results with the selections that they pass."""
        marked = block.copy("K")
        marked[:, 2 + len(masks)] = reduce(and_, masks)
        return marked

    # -- Parts --------------------------------------------------------------------------

    def _masks_of(self, stream: int, words: Int64s) -> Int64s:
        masks: Int64s = words[:, self._layouts[stream].offered_mask]
        return masks

    def _meet(self, stream: int, words: Int64s) -> None:
        """Begin the combinations of the parts that nobody has seen yet."""
        for mask in np.unique(self._masks_of(stream, words)).tolist():
            if mask and mask not in self._parts[stream]:
                self._parts[stream].append(mask)
                others = [[mask] if s == stream else parts for s, parts in enumerate(self._parts)]
                for masks in product(*others):
                    if reduce(and_, masks):
                        self._begin(masks)

    def _begin(self, masks: Masks) -> None:
        if len(self._engines) == _MOST_JOINS:
            raise PlanError(
                f"query '{self._query.name}': its selections divide the streams so that push_down takes more than "
                f"{_MOST_JOINS:,} joins. Use sharing='auto'."
            )
        common = reduce(and_, masks)
        bits = [bit for bit in range(self._slicing.selections) if (common >> bit) & 1]
        spans = [longest([each[bit] for bit in bits]) for each in self._slicing.reach]
        windows = tuple((span,) for span in spans)
        engine = JoinEngine(
            self._query,
            self._plan,
            self._rank,
            self._policies,
            slicing=Slicing(1, windows, windows, is_aged=True),
        )
        if self._time != NEVER:
            held = [self._part(stream, words, masks[stream]) for stream, words in enumerate(self._held)]
            engine.load(held, self._time)
        self._engines[masks] = engine

    def _part(self, stream: int, words: Int64s, mask: int) -> Int64s:
        """The tuples of a part as its engines take them, which have one selection: without a mask among their words."""
        mine: Int64s = words[self._masks_of(stream, words) == mask]
        layout = self._layouts[stream]
        if layout.kept_mask is not None:
            mine = np.delete(mine, layout.kept_mask, axis=1)
        mine[:, -1] = 1
        return mine

    def _remember(self, stream: int, words: Int64s) -> None:
        """Keep new tuples for combinations that begin later."""
        self._arrived[stream] += len(words)
        joining = words[self._masks_of(stream, words) != 0]
        self._held[stream] = np.concatenate([self._held[stream], joining])
        if len(self._held[stream]) > 2 * self._alive[stream] + _SPARE:
            self._forget(stream)

    def _forget(self, stream: int) -> None:
        """Forget what no reader can use any more."""
        held = self._held[stream]
        bits = np.arange(self._slicing.selections)
        passes = (self._masks_of(stream, held)[:, None] >> bits) & 1 == 1
        spans = np.where(passes, self._reach[stream], 0).max(axis=1, initial=0)
        self._held[stream] = held[self._time - held[:, T] < spans]
        self._alive[stream] = len(self._held[stream])

    # -- Plans --------------------------------------------------------------------------

    def transition(self, plan: Plan, rank: Rank | None = None) -> None:
        for engine in self._engines.values():
            engine.transition(plan, rank)
        self._plan, self._rank = plan, rank

    # -- What it holds ------------------------------------------------------------------

    def take_deaths(self) -> Int64s:
        return np.empty((0, 3), np.int64)

    def held(self, stream: int) -> int:
        return len(self._held[stream])

    def rows(self, stream: int) -> Int64s:
        self._forget(stream)
        rows: Int64s = self._held[stream][:, ROW]
        return rows

    def tuples(self, stream: int) -> Int64s:
        self._forget(stream)
        words: Int64s = self._held[stream][:, : self._layouts[stream].width]
        return words

    def unprocessed(self) -> tuple[list[Int64s], int | None]:
        return self._coming, self._watermark

    def glimpse(self, most: int) -> Glimpse:
        windows = []
        for stream, layout in enumerate(self._layouts):
            words = self.tuples(stream)
            taken = words[spread(0, len(words), most)]
            if layout.kept_mask is not None:
                taken = np.delete(taken, layout.kept_mask, axis=1)
            windows.append(WindowGlimpse(taken, float(len(words)), self._arrived[stream]))
        return Glimpse(self._time, tuple(windows))

    def sizes(self) -> list[StoreSize]:
        """What every store of every combination holds."""
        sizes = []
        for engine in self._engines.values():
            engine.pass_time(self._time)
            sizes += engine.sizes()
        return sizes

    @property
    def work(self) -> Work:
        """That of all combinations; a tuple counts once."""
        sums = np.zeros(len(Work._fields), np.int64)
        for engine in self._engines.values():
            sums += engine.work
        return Work(*map(int, sums))._replace(tuples=self._taken)

    @property
    def counts(self) -> Counts:
        return self.work.counts

    @property
    def seconds(self) -> float:
        return sum(engine.seconds for engine in self._engines.values())

    @property
    def accounts(self) -> Accounts | None:
        """None: probes of its joins are not paid for."""
        return None

    @property
    def gated(self) -> Gated | None:
        """Nobody: each join of a combination would have to be asked."""
        return None

    @property
    def savings(self) -> Savings:
        return sum((engine.savings for engine in self._engines.values()), Savings())


def _united(blocks: Sequence[Int64s]) -> Int64s:
    """Blocks of results in time order. Columns lie one behind the other, as engines have them."""
    if not blocks:
        return np.zeros((0, 2), np.int64)
    columns = np.concatenate([block.T for block in blocks], axis=1)
    ordered: Int64s = np.take(columns, np.argsort(columns[0], kind="stable"), axis=1).T
    return ordered
