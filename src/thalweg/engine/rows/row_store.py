"""The rows of a bucket, and the tuples that its join takes for them.

Columns are kept as long as somebody may ask for them. Tuples are made of rows for the readers that are there. If others
come, a new store makes tuples of the same rows anew: it has the columns of the one before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import pyarrow as pa

from thalweg.cql.group import Group
from thalweg.cql.query import RowsWindow
from thalweg.engine.kernels.compiled import Int64s
from thalweg.engine.kernels.tables import ROW, T
from thalweg.engine.rows.batch import Batch
from thalweg.engine.rows.encoding import StreamEncoder, encoders
from thalweg.engine.rows.expressions import UNCOMPUTABLE, Expressions
from thalweg.engine.rows.payload import Rows
from thalweg.errors import ReaderError
from thalweg.plan.slices import Shared


class RowStore:
    """The rows of each stream, for the readers of one group.

    Args:
        group: the join and its readers.
        shared: how these share the windows.
        expressions: computes what tuples have of rows.
        payloads: the columns of each stream.
        remembers: whether readers may come that see other rows of static relations, so that all are kept.
        former: the store of the readers before, if there were any.

    Attributes:
        payloads: see above.
        encoders: make tuples of rows, by stream.

    """

    __image__: ClassVar = ("payloads", "encoders", "_relations")

    def __init__(
        self,
        group: Group,
        shared: Shared,
        expressions: Expressions,
        payloads: Sequence[Rows],
        *,
        remembers: bool = False,
        former: RowStore | None = None,
    ) -> None:
        self.payloads = payloads
        self._group, self._shared, self._remembers = group, shared, remembers
        several = len(group.readers) > 1
        self.encoders: Sequence[StreamEncoder] = encoders(group.whole, expressions, shared if several else None)
        self._streams = group.whole.streams
        self._relations: list[Int64s] = (
            [np.zeros((0, 2), np.int64) for _ in self._streams] if former is None else list(former._relations)
        )

    # -- New rows -----------------------------------------------------------------------

    def add(self, batches: Sequence[Batch | None]) -> list[Int64s]:
        """The tuples of new rows; their columns are kept."""
        words = []
        for encoder, payload, batch in zip(self.encoders, self.payloads, batches, strict=True):
            if batch is None:
                words.append(np.zeros((0, encoder.layout.offered), np.int64))
            else:
                rows = payload.append(batch.table, batch.numbers) if batch.rows is None else batch.rows
                words.append(self._encode(encoder, batch.table, batch.times, rows))
        self._remember(words)
        return words

    def load(self, batches: Sequence[Sequence[Batch]]) -> list[Int64s]:
        """The tuples of some batches of each stream that a bucket begins with."""
        words = []
        for encoder, payload, parts in zip(self.encoders, self.payloads, batches, strict=True):
            numbers = payload.load([part.table for part in parts])
            encoded = [
                self._encode(encoder, part.table, part.times, rows) for part, rows in zip(parts, numbers, strict=True)
            ]
            words.append(np.concatenate([np.zeros((0, encoder.layout.offered), np.int64), *encoded]))
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
                for reader in self._group.readers
                if reader.views[encoder.stream].selection in uncomputable
            }
            if not reasons:
                raise
            raise ReaderError(reasons) from error

    # -- Static relations ---------------------------------------------------------------

    def _remember(self, words: Sequence[Int64s]) -> None:
        """Whoever comes sees all of a static relation, also what no reader before selected."""
        for stream, (ref, new) in enumerate(zip(self._streams, words, strict=True)):
            if self._remembers and ref.is_static and len(new):
                self._relations[stream] = np.concatenate([self._relations[stream], new[:, [T, ROW]]])

    def remembers(self, stream: int) -> bool:
        """Whether a stream is a relation of which all rows are known here."""
        return self._remembers and self._streams[stream].is_static

    def relation(self, stream: int, *coming: Int64s) -> Int64s:
        """Time and row of each tuple of a static relation, but for those that are still to come."""
        relation = self._relations[stream]
        return relation[~np.isin(relation[:, 1], np.concatenate([words[:, ROW] for words in coming]))]

    def relation_rows(self, stream: int) -> Int64s:
        """The numbers of all of its rows that are known."""
        return self._relations[stream][:, 1]

    # -- Rows that are held -------------------------------------------------------------

    def again(self, stream: int, words: Int64s) -> Int64s:
        """Tuples of other readers as these readers have them, made of their rows."""
        rows = words[:, ROW].copy()
        return self._encode(self.encoders[stream], self._table(stream, rows), words[:, T].copy(), rows)

    def useful(self, stream: int, words: Int64s, watermark: int) -> Int64s:
        """Which tuples of a window some reader could still use. What counts rows needs all to count by."""
        if isinstance(self._streams[stream].window, RowsWindow):
            return words
        layout, shared = self.encoders[stream].layout, self._shared
        masks = np.ones(len(words), np.int64) if layout.kept_mask is None else words[:, layout.kept_mask]
        wanted = np.zeros(len(words), np.bool_)
        for place, (signature, bit) in enumerate(zip(shared.signatures, shared.bits, strict=True)):
            span = signature.reach[stream]
            mine = (masks >> bit) & 1 == 1
            if span is not None:
                mine &= words[:, T] + span > watermark
            mine &= ~wanted  # one reader is enough, and to ask a selection again takes long
            if mine.any() and not shared.is_exact(place):
                mine[mine] = self.encoders[stream].passes(
                    signature.selections[stream], self._table(stream, words[mine, ROW])
                )
            wanted |= mine
        return words[wanted]

    def _table(self, stream: int, rows: Int64s) -> pa.Table:
        """The columns of rows that say how they are joined, and by whom."""
        payload, names = self.payloads[stream], self.encoders[stream].reads
        table = pa.table({name: payload.take(name, rows) for name in names})
        return table if names else pa.table({"": pa.nulls(len(rows))}).select([])
