"""The rows of a log as a query needs them that goes on from it and has changed.

The log of a bucket is written anew, once, when the query that has changed takes its first batch there. So what is in it
depends on what was committed alone, and from then on it is like any other log.

- Streams may have other positions.
- A RANGE window that has grown is left with the rows that were in it at the watermark. A log has some rows more, as
  many as its chunks happen to have: they must not come back.
- Rows of a RANGE window that fail a condition which is new are taken out. Those of a ROWS window still count there, and
  are marked as failing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from thalweg.cql.query import Query, RangeWindow, RowsWindow
from thalweg.engine.kernels.compiled import Int64s
from thalweg.engine.rows.expressions import Expressions, plain_column
from thalweg.errors import InputError
from thalweg.spark.below import computed_name
from thalweg.spark.chunks import Chunk, numbered, plain, times_of
from thalweg.spark.compatibility import Comparison


@dataclass(frozen=True, slots=True)
class LogChange:
    """What becomes of the rows of a log.

    Attributes:
        query: the query inside the operator, as it is now.
        selections: for each stream its conditions, as far as Spark computes them.
        compared: how the query has changed.
        watermark: that of the last batch before.

    """

    query: Query
    selections: tuple[exp.Expression | None, ...]
    compared: Comparison
    watermark: int

    def rows(self, stream: int, _: Chunk, table: pa.Table) -> pa.Table:
        """What is left of the rows of a chunk; ``stream`` is their position now."""
        ref = self.query.streams[stream]
        if stream in self.compared.grown and isinstance(ref.window, RangeWindow):
            alive = times_of(ref, table) > self.watermark - self.compared.grown[stream]
            table = table if alive.all() else table.filter(pa.array(alive))
        selection = self.selections[stream] if self.selections else None
        if stream not in self.compared.selected or selection is None or not table.num_rows:
            return table
        passes = pc.fill_null(_passing(selection, ref.alias, table), False)
        if isinstance(ref.window, RangeWindow):
            return table.filter(passes)
        return (
            table
            if plain_column(selection) is not None
            else _with(table, computed_name(selection, pa.bool_(), of_all=True), passes)
        )

    @property
    def counted(self) -> dict[int, int]:
        """The ROWS windows that have grown, with the rows that they had."""
        windows = {stream: self.query.streams[stream].window for stream in self.compared.grown}
        return {s: self.compared.grown[s] for s, window in windows.items() if isinstance(window, RowsWindow)}

    def before_it_grew(self) -> Query:
        """The query with the ROWS windows that it had: it tells which rows were in them."""
        streams = list(self.query.streams)
        for stream, rows in self.counted.items():
            window = streams[stream].window
            if isinstance(window, RowsWindow):
                streams[stream] = replace(streams[stream], window=replace(window, rows=rows))
        return replace(self.query, streams=tuple(streams))


@dataclass(frozen=True, slots=True)
class Held:
    """What becomes of rows if some streams are left with those of these numbers."""

    numbers: Mapping[int, Int64s]

    def rows(self, stream: int, chunk: Chunk, table: pa.Table) -> pa.Table:
        if stream not in self.numbers:
            return table
        table = numbered(chunk, table)
        return table.filter(pa.array(np.isin(_numbers(table), self.numbers[stream])))


def _numbers(table: pa.Table) -> Int64s:
    numbers: Int64s = table.column(table.num_columns - 1).to_numpy()
    return numbers


def _passing(condition: exp.Expression, alias: str, table: pa.Table) -> pa.ChunkedArray:
    """Which rows pass a condition. One that it cannot be computed of does not: the batch would fail for ever."""
    try:
        return _evaluated(condition, alias, table)
    except InputError:
        if table.num_rows == 1:
            return pa.chunked_array([pa.array([False])])
        half = table.num_rows // 2
        parts = (_passing(condition, alias, part) for part in (table.slice(0, half), table.slice(half)))
        return pa.chunked_array([chunk for part in parts for chunk in part.chunks], pa.bool_())


def _evaluated(condition: exp.Expression, alias: str, table: pa.Table) -> pa.ChunkedArray:
    """A condition on the rows of a stream, as DuckDB computes it."""
    rows = plain(table)
    names = {(alias, name): f"c{place}" for place, name in enumerate(rows.column_names)}
    expressions = Expressions(names)
    scalar = expressions.compile([("passes", condition)])
    return expressions.evaluate(scalar, rows.rename_columns(list(names.values()))).column("passes")


def _with(table: pa.Table, name: str, values: pa.ChunkedArray) -> pa.Table:
    """Rows with one more column, which stands before their numbers if they have some."""
    return table.add_column(len(plain(table).column_names), name, values)
