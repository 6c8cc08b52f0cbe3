"""Which readers a result of their join belongs to, and what becomes of it there.

A result comes with its mask, the selections that all of its components pass, and with the age of each component. It
belongs to every reader whose selections are among the former, and whose windows are longer than the latter. That is
decided here, and nowhere else, for whole blocks of results: the readers that select alike are asked together. Their
windows are put in chains of ever wider ones, so that one number per result and chain says which of them it is in.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import pyarrow as pa

from thalweg.cql.group import Group
from thalweg.cql.query import Query, RowsWindow
from thalweg.engine.expressions import Expressions
from thalweg.engine.kernels.compiled import Int64s
from thalweg.engine.outputs import Emitter, emitter
from thalweg.engine.payload import Rows
from thalweg.engine.results import Verdict
from thalweg.engine.time_bounds import FOREVER
from thalweg.plan.slices import Shared, limits

_UNBOUNDED = 2**63 - 1
"""The age at which a tuple leaves an unbounded window: greater than that of any row of a static relation."""


class Emitted(NamedTuple):
    """Rows that a bucket hands out for one of its readers."""

    reader: str
    table: pa.Table


class ReaderEnd:
    """The last stages of a result on its way to one reader: its residual predicates, its output.

    Attributes:
        name: the reader's.
        results: how many rows it has got.
        asks_again: whether its selections are asked again, because the masks of tuples do not tell them apart.

    """

    __image__: ClassVar = ("results", "_emitter")

    def __init__(self, query: Query, expressions: Expressions, payloads: Sequence[Rows]) -> None:
        self.name = query.name
        self.results = 0
        self.asks_again = False
        self._payloads = payloads
        selections = [ref.selection for ref in query.streams if ref.selection is not None]
        self._selected = Verdict(query, expressions, selections)
        self._verdict = Verdict(query, expressions, query.residual)
        self._emitter: Emitter = emitter(query, expressions, payloads)

    def add(self, block: Int64s) -> Iterator[Emitted]:
        """Take results (time, expiry, rows); yield what can be emitted at once."""
        if self.asks_again:
            block = self._selected.keep(self._payloads, block)
        admitted = self._verdict.keep(self._payloads, block)
        if len(admitted):
            yield from self._named(self._emitter.add(admitted))

    def settle(self, watermark: int, deaths: Int64s) -> Iterator[Emitted]:
        """Time has passed ``watermark``, and these tuples left ROWS windows; yield what follows."""
        yield from self._named(self._emitter.settle(watermark, deaths))

    def _named(self, tables: Iterator[pa.Table]) -> Iterator[Emitted]:
        for table in tables:
            self.results += table.num_rows
            yield Emitted(self.name, table)

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

    """

    bit: int
    limits: Int64s
    readers: tuple[tuple[int, ...], ...]


class Routing:
    """Tells results to readers.

    Attributes:
        comparisons: how many ages and selections were compared for it.

    """

    def __init__(self, group: Group, shared: Shared) -> None:
        self.comparisons = 0
        self._streams = len(group.join.streams)
        self._is_aged = shared.slicing.is_aged
        self._counts = len(group.readers)
        self._chains = [
            chain
            for signature, bit in zip(shared.signatures, shared.bits, strict=True)
            for chain in _chains(group, signature.readers, bit)
        ]
        ranged = [not isinstance(view.window, RowsWindow) for view in group.readers[0].views]
        self._ranged = np.flatnonzero(ranged)
        self._lasting = {place for place, reader in enumerate(group.readers) if reader.is_lasting}

    def route(self, block: Int64s) -> Iterator[tuple[int, Int64s]]:
        """Each reader that has a part of a block, with its part (time, expiry, rows)."""
        if not self._is_aged:
            for place in range(self._counts):
                yield place, block
            return
        n = self._streams
        results, masks, ages = block[:, : 2 + n], block[:, 2 + n], block[:, 3 + n :]
        asked: dict[int, Int64s] = {}
        for chain in self._chains:
            if chain.bit not in asked:
                asked[chain.bit] = np.flatnonzero((masks >> chain.bit) & 1)
                self.comparisons += len(block)
            selected = asked[chain.bit]
            if len(selected):
                yield from self._within(chain, results, ages, selected)

    def _within(self, chain: _Chain, results: Int64s, ages: Int64s, selected: Int64s) -> Iterator[tuple[int, Int64s]]:
        """The parts of the readers of one chain."""
        narrowest = np.zeros(len(selected), np.int64)
        mine = ages[selected]
        for stream in range(self._streams):
            edges = chain.limits[:, stream]
            if edges[0] == edges[-1]:
                narrowest[mine[:, stream] >= edges[0]] = len(edges)
            else:
                np.maximum(narrowest, np.searchsorted(edges, mine[:, stream], side="right"), out=narrowest)
            self.comparisons += len(selected) * max(1, len(edges).bit_length())
        for place, readers in enumerate(chain.readers):
            within = selected[narrowest <= place]
            if not len(within):
                continue
            part = results[within]
            for reader in readers:
                is_lasting = reader in self._lasting
                yield reader, self._with_expiry(part, ages[within], chain.limits[place]) if is_lasting else part

    def _with_expiry(self, part: Int64s, ages: Int64s, edges: Int64s) -> Int64s:
        """Results with the times at which they leave one reader's windows, as far as time alone decides it."""
        left = (edges - ages)[:, self._ranged]
        remaining = left.min(axis=1) if left.shape[1] else np.full(len(part), FOREVER)
        expiring = part.copy()
        lasts = remaining >= FOREVER // 2
        expiring[:, 1] = np.where(lasts, FOREVER, part[:, 0] + remaining)
        return expiring


def _chains(group: Group, readers: Sequence[int], bit: int) -> Iterator[_Chain]:
    """Readers that select alike, in as few chains as a look at one after the other finds."""
    windows: dict[tuple[int, ...], list[int]] = {}
    for place in readers:
        edges = tuple(_UNBOUNDED if span is None else span for span in limits(group.readers[place]))
        windows.setdefault(edges, []).append(place)
    chains: list[list[tuple[int, ...]]] = []
    for edges in sorted(windows, key=sum):
        fitting = [chain for chain in chains if all(a <= b for a, b in zip(chain[-1], edges, strict=True))]
        if fitting:
            fitting[0].append(edges)
        else:
            chains.append([edges])
    for chain in chains:
        yield _Chain(bit, np.array(chain, np.int64), tuple(tuple(windows[edges]) for edges in chain))
