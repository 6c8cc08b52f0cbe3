"""From row numbers to result rows: gather columns, decide what is left to decide, project."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from thalweg.cql.query import Projection, Query
from thalweg.engine.kernels.compiled import Int64s
from thalweg.engine.rows.encoding import exact
from thalweg.engine.rows.expressions import ColumnKey, Expressions, Scalar, columns_of, physical_names, plain_column
from thalweg.engine.rows.payload import Rows

TIME: ColumnKey = ("", "__time")


def engine_columns(query: Query) -> dict[ColumnKey, str]:
    """Columns that expressions may use besides those of the streams."""
    names = {TIME: "__time"}
    if query.aggregation is not None:
        names |= {("", f"__k{i}"): f"__k{i}" for i in range(len(query.aggregation.keys))}
        names |= {("", f"__a{i}"): f"__a{i}" for i in range(len(query.aggregation.calls))}
    return names


def true_keys(query: Query) -> list[exp.Expression]:
    """The equalities of keys that the kernels know by a hash alone."""
    predicates: list[exp.Expression] = []
    if query.kind == "join":
        for attribute in query.classes:
            if attribute.null_safe or not exact(attribute.type):
                members = list(attribute.members.values())
                equal = exp.NullSafeEQ if attribute.null_safe else exp.EQ
                predicates += [equal(this=members[0].copy(), expression=other.copy()) for other in members[1:]]
    return predicates


def needs_times(query: Query) -> bool:
    """Whether the time of a result, or the end of its life, plays a part in what is emitted."""
    if query.reader.is_lasting:
        return True
    return TIME in columns_of([*(projection.expression for projection in query.select), *query.residual])


def payload_columns(query: Query) -> list[list[str]]:
    """Per stream, the columns that results are made from."""
    read = [*(projection.expression for projection in query.select), *query.residual, *true_keys(query)]
    if query.aggregation is not None:
        read += [key.expression for key in query.aggregation.keys]
        read += [call.argument for call in query.aggregation.calls if call.argument is not None]
    keys = set(columns_of(read))
    return [[name for name in ref.schema.names if (ref.alias, name) in keys] for ref in query.streams]


class Outputs:
    """A list of output columns, computed from results."""

    def __init__(self, query: Query, expressions: Expressions, columns: Sequence[Projection]) -> None:
        self._query = query
        self._expressions = expressions
        self._columns = columns
        self._position = {ref.alias: i for i, ref in enumerate(query.streams)}
        self._names = physical_names(query) | engine_columns(query)
        self._plain = {i: key for i, c in enumerate(columns) if (key := plain_column(c.expression)) is not None}
        computed = [(f"o{i}", c.expression) for i, c in enumerate(columns) if i not in self._plain]
        self._scalar: Scalar | None = expressions.compile(computed) if computed else None
        self._reads = columns_of([expression for _, expression in computed])

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([pa.field(c.name, c.type) for c in self._columns])

    def of_results(self, payloads: Sequence[Rows], rows: Int64s, times: Int64s) -> pa.Table:
        """The columns for results given as a row number per stream, with their times."""
        gathered: dict[ColumnKey, pa.Array] = {}

        def gather(key: ColumnKey) -> pa.Array:
            if key not in gathered:
                if key == TIME:
                    # A copy: Arrow would share the memory of the block, which the kernel writes again.
                    gathered[key] = pa.array(times.copy(), pa.timestamp("us"))
                else:
                    stream = self._position[key[0]]
                    gathered[key] = payloads[stream].take(key[1], rows[:, stream])
            return gathered[key]

        source = {self._names[key]: gather(key) for key in self._reads}
        return self._build(source, {i: gather(key) for i, key in self._plain.items()}, len(times))

    def of_table(self, table: pa.Table) -> pa.Table:
        """The columns for a table of the engine's own columns."""
        source = {self._names[key]: table.column(self._names[key]) for key in self._reads}
        plain = {i: table.column(self._names[key]) for i, key in self._plain.items()}
        return self._build(source, plain, table.num_rows)

    def _build(self, source: dict[str, pa.Array], plain: dict[int, pa.Array], count: int) -> pa.Table:
        if self._scalar is not None:
            # Without columns a table has no rows, so constants get one to count by.
            table = pa.table(source or {"none": pa.nulls(count, pa.bool_())})
            computed = self._expressions.evaluate(self._scalar, table)
            plain |= {int(name[1:]): computed.column(name) for name in computed.column_names}
        arrays = [_conform(plain[i], column.type) for i, column in enumerate(self._columns)]
        return pa.table(arrays, schema=self.schema)


def _conform(array: pa.Array | pa.ChunkedArray, kind: pa.DataType) -> pa.Array | pa.ChunkedArray:
    if pa.types.is_null(kind):
        return pa.nulls(len(array))
    return array if array.type == kind else array.cast(kind)


class Verdict:
    """Decides predicates that need the joined row."""

    def __init__(self, query: Query, expressions: Expressions, predicates: Sequence[exp.Expression]) -> None:
        self._outputs = (
            Outputs(query, expressions, [Projection("holds", _all_of(predicates), pa.bool_())]) if predicates else None
        )

    def keep(self, payloads: Sequence[Rows], block: Int64s) -> Int64s:
        """The results of a block (time, expiry, rows, and what follows) for which they all hold."""
        if self._outputs is None or not len(block):
            return block
        holds = self._outputs.of_results(payloads, block[:, 2 : 2 + len(payloads)], block[:, 0]).column(0)
        kept: Int64s = block[pc.fill_null(holds, False).to_numpy().astype(np.bool_)]
        return kept


def _all_of(predicates: Sequence[exp.Expression]) -> exp.Expression:
    return reduce(lambda left, right: exp.And(this=exp.paren(left), expression=exp.paren(right)), predicates)
