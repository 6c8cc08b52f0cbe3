"""Selections that masks do not tell apart, asked again of the results that come out.

Masks have a bit for each of a few dozen selections. If readers have more, some share a bit: it says that a tuple passes
one of theirs. So of a result with that bit, each of them asks its own selections again, before it takes it. A selection
is one on a single stream. All of them are computed together, once for each row of a block.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from thalweg.cql.group import Group
from thalweg.engine.kernels.compiled import Int64s
from thalweg.engine.rows.expressions import Expressions, Scalar, columns_of, physical_names
from thalweg.engine.rows.payload import Rows
from thalweg.engine.storage.arrays import Bools


class AskedAgain:
    """The selections of some readers of a group, given by their places."""

    def __init__(
        self, group: Group, readers: Collection[int], expressions: Expressions, payloads: Sequence[Rows]
    ) -> None:
        self.readers = frozenset(readers)
        self._expressions, self._payloads = expressions, payloads
        self._aliases = [stream.alias for stream in group.join.streams]
        self._names = physical_names(group.whole)
        self._asked: dict[int, list[tuple[int, int]]] = {place: [] for place in readers}
        selections: list[list[exp.Expression]] = [[] for _ in group.join.streams]
        for place in sorted(readers):
            for stream, view in enumerate(group.readers[place].views):
                if view.selection is not None:
                    known = selections[stream]
                    if view.selection not in known:
                        known.append(view.selection)
                    self._asked[place].append((stream, known.index(view.selection)))
        self._scalars: list[Scalar | None] = [
            expressions.compile([(f"s{i}", each) for i, each in enumerate(mine)]) if mine else None
            for mine in selections
        ]
        self._columns = [[name for _, name in columns_of(mine)] for mine in selections]
        self._rows = np.zeros((0, len(selections)), np.int64)
        self._known: dict[int, tuple[pa.Table, Int64s]] = {}

    def begin(self, rows: Int64s) -> None:
        """Answer for this block of results from now on, given as a row number per stream."""
        self._rows = rows
        self._known = {}

    def passes(self, reader: int, within: Int64s) -> Bools:
        """Which of these results of the block pass the selections of a reader."""
        passes: Bools = np.ones(len(within), np.bool_)
        for stream, selection in self._asked[reader]:
            computed, places = self._computed(stream)
            holds = pc.fill_null(computed.column(selection), False).to_numpy()
            passes &= holds[places[within]]
        return passes

    def _computed(self, stream: int) -> tuple[pa.Table, Int64s]:
        """All selections of a stream for each of its rows in the block; and which of these each result has."""
        scalar = self._scalars[stream]
        if stream not in self._known and scalar is not None:
            rows, places = np.unique(self._rows[:, stream], return_inverse=True)
            taken = {
                self._names[self._aliases[stream], name]: self._payloads[stream].take(name, rows)
                for name in self._columns[stream]
            }
            table = pa.table(taken or {"none": pa.nulls(len(rows), pa.bool_())})
            self._known[stream] = self._expressions.evaluate(scalar, table), places.reshape(-1)
        return self._known[stream]
