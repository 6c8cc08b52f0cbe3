"""Which readers a result of their join belongs to, and what becomes of it there.

A result comes with its mask, the selections that all of its components pass, and with the age of each component. It
belongs to every reader whose selections are among the former, and whose windows are longer than the latter. That is
decided here, and nowhere else, for whole blocks of results: the readers that select alike are asked together. Their
windows are put in chains of ever wider ones, so that one number per result and chain says which of them it is in. A
reader's own rows are taken from the block only when it asks for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa

from thalweg.cql.group import Group
from thalweg.cql.query import Query, Reader, RowsWindow
from thalweg.engine.kernels.compiled import Int64s
from thalweg.engine.outputs.estimates import AnswerEstimate
from thalweg.engine.outputs.outputs import Emitter, emitter
from thalweg.engine.outputs.results import Verdict
from thalweg.engine.rows.expressions import UNCOMPUTABLE, Expressions
from thalweg.engine.rows.payload import Rows
from thalweg.engine.time_bounds import FOREVER
from thalweg.plan.slices import Shared, limits

_UNBOUNDED = 2**63 - 1
"""The age at which a tuple leaves an unbounded window: greater than that of any row of a static relation."""
_FEW = 24
"""Ends of windows that ages are compared with one after the other: whole blocks at once, which is faster than to search
among so few."""

Ranks = np.ndarray[tuple[int], np.dtype[Any]]
Booleans = np.ndarray[tuple[int], np.dtype[np.bool_]]


class Emitted(NamedTuple):
    """Rows that a bucket hands out for one of its readers."""

    reader: str
    table: pa.Table


class ReaderEnd:
    """The last stages of a result on its way to one reader: its residual predicates, its output.

    Attributes:
        name: the reader's.
        results: how many rows it has got.
        is_muted: whether it takes no results for now.
        first: for each stream the number of a row. Results without a row from there on are not taken; None: all are.
        estimate: under a budget, how much of its answer that is; None: there is none, and results have no scores.
        failure: why it has ended: something cannot be computed for one of its results. None: it has not.

    """

    __image__: ClassVar = ("results", "_emitter", "estimate")

    def __init__(
        self, query: Query, expressions: Expressions, payloads: Sequence[Rows], *, is_scored: bool = False
    ) -> None:
        self.name = query.name
        self.results = 0
        self.is_muted = False
        self.first: Int64s | None = None
        self.estimate = AnswerEstimate() if is_scored else None
        self.failure: str | None = None
        self._payloads = payloads
        self._verdict = Verdict(query, expressions, query.residual)
        self._emitter: Emitter = emitter(query, expressions, payloads)

    def add(self, block: Int64s) -> Iterator[Emitted]:
        """Take results (time, expiry, rows, and under a budget their scores); yield what can be emitted at once."""
        yield from self._named(self._added(block))

    def _added(self, block: Int64s) -> Iterator[pa.Table]:
        if self.first is not None:
            block = block[(block[:, 2 : 2 + len(self.first)] >= self.first).any(axis=1)]
        admitted = self._verdict.keep(self._payloads, block)
        if self.estimate is not None:
            self.estimate.add(admitted[:, -2], admitted[:, -1].view(np.float64))
            admitted = admitted[:, :-2]
        if len(admitted):
            yield from self._emitter.add(admitted)

    def settle(self, watermark: int, deaths: Int64s) -> Iterator[Emitted]:
        """Time has passed ``watermark``, and these tuples left ROWS windows; yield what follows."""
        yield from self._named(self._emitter.settle(watermark, deaths))

    def _named(self, tables: Iterator[pa.Table]) -> Iterator[Emitted]:
        """What it emits. If that cannot be computed, this end is over, and the others go on."""
        if self.failure is not None:
            return
        try:
            for table in tables:
                self.results += table.num_rows
                yield Emitted(self.name, table)
        except UNCOMPUTABLE as error:
            self.failure = str(error)

    def rows(self, stream: int) -> Int64s:
        """The row numbers of a stream that are needed here."""
        return self._emitter.rows(stream)


@dataclass(frozen=True, slots=True)
class _Chain:
    """Readers that select alike, whose windows are ever wider.

    Attributes:
        bit: that of their selections in masks.
        limits: [window, stream]: the age at which a component has left it.
        readers: for each of these windows, the places of the readers that have it.
        places: for each kind of age that is ranked, the first window that is wide enough, by its rank.

    """

    bit: int
    limits: Int64s
    readers: tuple[tuple[int, ...], ...]
    places: tuple[Ranks, ...]


@dataclass(slots=True)
class Part:
    """The part of a block that belongs to the readers with one window, to be taken from it before the next block comes.

    There is one per reader and block. Nobody changes it, but a frozen one would take four times as long to be made.

    Attributes:
        readers: their places in the group.
        count: how many results there are.

    """

    readers: tuple[int, ...]
    count: int
    _block: Int64s
    _streams: int
    _narrowest: Ranks
    _window: int
    _limits: Int64s

    def results(self) -> Int64s:
        """Time, expiry and rows of each."""
        return self._take(0, 2 + self._streams)

    def scores(self) -> Int64s:
        """The number of the tuple that found each, and its score."""
        columns = self._block.shape[1]
        return self._take(columns - 2, columns)

    def lasting(self, results: Int64s, ranged: Int64s) -> Int64s:
        """The same with the times at which they leave these windows, as far as time alone decides it."""
        ages = self._take(3 + self._streams, 3 + 2 * self._streams)
        left = (self._limits - ages)[:, ranged]
        remaining = left.min(axis=1) if left.shape[1] else np.full(len(results), FOREVER)
        expiring = results.copy("K")
        expiring[:, 1] = np.where(remaining >= FOREVER // 2, FOREVER, results[:, 0] + remaining)
        return expiring

    def places(self) -> Int64s:
        """Where they are in the block."""
        if self.count == len(self._block):
            return np.arange(self.count)
        return np.flatnonzero(self._narrowest <= self._window)

    def _take(self, first: int, end: int) -> Int64s:
        """Columns of the block. They lie one behind the other, so that each is taken by itself."""
        columns = self._block.T[first:end]
        if self.count == columns.shape[1]:
            return columns.T
        taken: Int64s = np.take(columns, self.places(), axis=1).T
        return taken


class Routing:
    """Tells results to readers.

    Each age is looked up once, among the ends of all windows: its *rank*. Where every reader has one window for all
    streams, that is done once for the greatest age. A table for each chain says what a rank means there. So a
    further reader costs a result nothing, until it is taken.

    Attributes:
        comparisons: how many ages and selections were compared for it.

    """

    def __init__(self, group: Group, shared: Shared) -> None:
        self.comparisons = 0
        self._streams = len(group.join.streams)
        self._is_aged = shared.slicing.is_aged
        self._everyone = tuple(range(len(group.readers)))
        spans = np.array([_edges(reader) for reader in group.readers], np.int64)
        self._is_common = bool((spans == spans[:, :1]).all())
        ranked = spans[:, :1] if self._is_common else spans
        self._ends = [np.unique(ranked[:, kind]) for kind in range(ranked.shape[1])]
        self._chains = [
            chain
            for signature, bit in zip(shared.signatures, shared.bits, strict=True)
            for chain in _chains(group, signature.readers, bit, self._ends)
        ]
        ranged = [not isinstance(view.window, RowsWindow) for view in group.readers[0].views]
        self.ranged = np.flatnonzero(ranged)

    def route(self, block: Int64s) -> Iterator[Part]:
        """Whose the results of a block are; readers without any are left out."""
        n, count = self._streams, len(block)
        if not count:
            return
        if not self._is_aged:
            yield Part(self._everyone, count, block, n, np.zeros(0, np.uint8), 0, np.zeros(n, np.int64))
            return
        columns = block.T
        masks, ages = columns[2 + n], columns[3 + n : 3 + 2 * n]
        ranks = [self._ranked(end, each) for end, each in zip(self._ends, self._kinds(ages), strict=True)]
        asked: dict[int, Booleans] = {}
        for chain in self._chains:
            if chain.bit not in asked:
                asked[chain.bit] = masks & (1 << chain.bit) == 0
                self.comparisons += count
            narrowest = reduce(np.maximum, map(np.take, chain.places, ranks))
            narrowest[asked[chain.bit]] = len(chain.readers)
            counts = np.cumsum(np.bincount(narrowest, minlength=len(chain.readers))).tolist()
            for window, readers in enumerate(chain.readers):
                if counts[window]:
                    yield Part(readers, counts[window], block, n, narrowest, window, chain.limits[window])

    def _kinds(self, ages: Int64s) -> Sequence[Int64s]:
        """What is ranked: the age of each component, or the greatest of them."""
        return [ages.max(axis=0)] if self._is_common else list(ages)

    def _ranked(self, ends: Int64s, ages: Int64s) -> Ranks:
        """How many of these ends each age has reached."""
        if len(ends) > _FEW:
            self.comparisons += len(ages) * len(ends).bit_length()
            return np.searchsorted(ends, ages, side="right")
        self.comparisons += len(ages) * len(ends)
        ranks = np.zeros(len(ages), np.uint8)
        for end in ends:
            ranks += ages >= end
        return ranks


def _edges(reader: Reader) -> list[int]:
    """For each stream the age at which a component has left a reader's window."""
    return [_UNBOUNDED if span is None else span for span in limits(reader)]


def _chains(group: Group, readers: Sequence[int], bit: int, ends: Sequence[Int64s]) -> Iterator[_Chain]:
    """Readers that select alike, in as few chains as a look at one after the other finds."""
    windows: dict[tuple[int, ...], list[int]] = {}
    for place in readers:
        windows.setdefault(tuple(_edges(group.readers[place])), []).append(place)
    chains: list[list[tuple[int, ...]]] = []
    for edges in sorted(windows, key=sum):
        fitting = [chain for chain in chains if all(a <= b for a, b in zip(chain[-1], edges, strict=True))]
        if fitting:
            fitting[0].append(edges)
        else:
            chains.append([edges])
    for chain in chains:
        limits = np.array(chain, np.int64)
        kind = np.uint8 if len(chain) < 1 << 8 else np.int64
        # An age of rank r has reached the first r ends, and so each window that is no wider than the last of these.
        places = tuple(
            np.concatenate([[0], np.searchsorted(limits[:, stream], each, side="right")]).astype(kind)
            for stream, each in enumerate(ends)
        )
        yield _Chain(bit, limits, tuple(tuple(windows[edges]) for edges in chain), places)
