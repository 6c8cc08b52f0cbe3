"""Which rows of a log are still held after all the changes of queries since they came.

Who enters a run sees what its windows hold for those that were there just before. So at every change, rows go that none
of them could use any more. An engine that is built anew could take the rows again with each former set of queries in
turn, and change from one to the next. Each change fills all windows, so a hundred of them take long.

What they all come to can be said of each row by itself. It is there if at each change since it came, some query that
was there just before selects it and has it in its window; and if it can join anything, for windows hold no others. So
the rows that are left are taken once, by the queries that are there now. Results that wait to leave are found on the
way. A query has none from before it entered.

Invariant
    Each condition is asked of a row only if the row was held when a query with it was there. Of other rows it may have
    no value.

Cost
    A condition is computed once for a row. A change compares times, until each row is claimed by a query.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from thalweg.cql.group import Group
from thalweg.cql.query import JoinSpec, Query
from thalweg.engine.kernels.compiled import Int64s
from thalweg.engine.rows.encoding import StreamEncoder
from thalweg.engine.rows.expressions import Expressions, columns_of, physical_names
from thalweg.engine.storage.arrays import Bools
from thalweg.plan.slices import Span, kept, longest
from thalweg.spark.bucket_spec import Spec
from thalweg.spark.chunks import Chunk, Log, plain, times_of
from thalweg.spark.record import Record
from thalweg.spark.shared_run import base_query


@dataclass(frozen=True, slots=True)
class Survivors:
    """What is left of a log.

    Attributes:
        chunks: with their rows, batch by batch, and which of these are left.
        entered: for queries that are there, the batch that they entered with, if rows from before it are left.

    """

    chunks: tuple[tuple[Chunk, pa.Table, Bools], ...]
    entered: dict[str, int]


@dataclass(frozen=True, slots=True)
class _Served:
    """The queries before a change: what they select of each stream, and for how long that is of use to one of them."""

    batch: int
    watermark: int
    wanted: tuple[dict[exp.Expression | None, Span], ...]
    lasting: tuple[frozenset[int], ...]


def survivors(spec: Spec, record: Record, log: Log) -> Survivors | None:
    """What is left of a log; None: that cannot be said of each row by itself.

    That is so where windows count rows, and if a result may leave at the instant of a change and is yet to be told.
    """
    shared = spec.shared
    if shared is None or not record.former or any(ref.partition_by is not None for ref in shared.inside.streams):
        return None
    changes = list(record.changes)
    before = [record.first_registered, *(change.registered for change in changes[:-1])]
    staying = {each.name for each in record.registered}
    served = [
        _served(change.batch, change.watermark, shared.group(registered), staying)
        for change, registered in zip(changes, before, strict=True)
    ]
    chunks = list(record.chunks.read(log))
    alive = [np.ones(table.num_rows, np.bool_) for _, table in chunks]
    for stream in range(len(spec.query.streams)):
        mine = [place for place, (chunk, _) in enumerate(chunks) if chunk.stream == stream]
        rows = _Rows(spec.query, shared.inside, stream, [chunks[place] for place in mine])
        if not all(rows.pass_by(each, record.watermark) for each in served):
            return None
        for place, part in zip(mine, rows.parts(), strict=True):
            alive[place] = part
    entered: dict[str, int] = {}
    for change, registered in zip(changes, before, strict=True):
        new = set(change.registered) - set(registered)
        entered |= {each.name: change.batch for each in new if each.name in staying}
    return Survivors(tuple((*pair, left) for pair, left in zip(chunks, alive, strict=True)), entered)


def _served(batch: int, watermark: int, group: Group, staying: set[str]) -> _Served:
    wanted, lasting = [], []
    for stream in range(len(group.join.streams)):
        spans: dict[exp.Expression | None, list[Span]] = {}
        for reader in group.readers:
            spans.setdefault(reader.views[stream].selection, []).append(kept(reader.views[stream]))
        wanted.append({selection: longest(each) for selection, each in spans.items()})
        ends = (kept(each.views[stream]) for each in group.readers if each.is_lasting and each.name in staying)
        lasting.append(frozenset(end for end in ends if end is not None))
    return _Served(batch, watermark, tuple(wanted), tuple(lasting))


class _Rows:
    """The rows of a stream, in the order of the log."""

    def __init__(self, query: Query, join: JoinSpec, stream: int, chunks: Sequence[tuple[Chunk, pa.Table]]) -> None:
        ref = query.streams[stream]
        self._stream, self._sizes = stream, [table.num_rows for _, table in chunks]
        self._batches = np.repeat(np.array([chunk.batch for chunk, _ in chunks], np.int64), self._sizes)
        self._names = physical_names(query)
        self._alias = ref.alias
        self._expressions = Expressions(self._names)
        self._encoder = StreamEncoder(base_query(join, query.name), stream, self._expressions)
        tables = [plain(table) for _, table in chunks]
        self._times = np.concatenate([np.zeros(0, np.int64), *(times_of(ref, table) for table in tables)])
        self._table = pa.concat_tables([table.select(ref.schema.names) for table in tables]) if tables else None
        self._alive = np.ones(len(self._times), np.bool_)
        self._can_join = np.full(len(self._times), -1, np.int8)
        self._passes: dict[exp.Expression, np.ndarray[tuple[int], np.dtype[np.int8]]] = {}

    def parts(self) -> Iterator[Bools]:
        """Which rows are left, chunk by chunk."""
        yield from np.split(self._alive, np.cumsum(self._sizes)[:-1]) if self._sizes else ()

    def pass_by(self, served: _Served, watermark: int) -> bool:
        """Let go what none of these queries could use at a change.

        False: a result may leave at that very instant, and that has not been said, as the ``watermark`` is still there.
        """
        undecided = np.flatnonzero(self._alive & (self._batches < served.batch))
        if not len(undecided):
            return True
        times = self._times
        for end in served.lasting[self._stream] if served.watermark >= watermark else ():
            if (times[undecided] + end == served.watermark).any():
                return False
        wanted = served.wanted[self._stream]
        for selection in sorted(wanted, key=lambda each: _length(wanted[each]), reverse=True):
            span = wanted[selection]
            reached = undecided if span is None else undecided[times[undecided] + span > served.watermark]
            claimed = reached[self._passing(selection, reached)]
            undecided = np.setdiff1d(undecided, claimed, assume_unique=True)
            self._alive[claimed[~self._joining(claimed)]] = False
            if not len(undecided):
                break
        self._alive[undecided] = False
        return True

    def _joining(self, rows: Int64s) -> Bools:
        """Which of these rows, which somebody selects, can join anything."""
        new = rows[self._can_join[rows] < 0]
        if len(new) and self._table is not None:
            self._can_join[new] = self._encoder.joins(self._table.take(pa.array(new)))
        joining: Bools = self._can_join[rows] == 1
        return joining

    def _passing(self, selection: exp.Expression | None, rows: Int64s) -> Bools:
        """Which of these rows pass a condition."""
        if selection is None or self._table is None:
            return np.ones(len(rows), np.bool_)
        known = self._passes.setdefault(selection, np.full(len(self._times), -1, np.int8))
        new = rows[known[rows] < 0]
        if len(new):
            names = [name for _, name in columns_of([selection])]
            columns = {self._names[self._alias, name]: self._table.column(name).take(pa.array(new)) for name in names}
            scalar = self._expressions.compile([("passes", selection)])
            table = pa.table(columns or {"none": pa.nulls(len(new), pa.bool_())})
            holds = self._expressions.evaluate(scalar, table).column("passes").combine_chunks()
            known[new] = pc.fill_null(holds, False).to_numpy(zero_copy_only=False)
        passing: Bools = known[rows] == 1
        return passing


def _length(span: Span) -> float:
    return float("inf") if span is None else float(span)
