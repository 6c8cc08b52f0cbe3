"""Which part of a query runs where: below the operator in Spark SQL, inside it, above it in Spark SQL.

Spark SQL is the expression engine. So for a join, the keys, the operands of theta predicates and the
selections are columns that Spark computes before its rows are packed, and the residual predicates and
the SELECT list are a filter and a projection over what the operator emits. Inside is left a query whose every
expression is a column. (Running aggregates and ``EXCEPT`` need the joined row inside; their expressions are
evaluated there.)
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from sqlglot import exp

from thalweg.cql import render
from thalweg.cql.query import AttributeClass, Operand, Projection, Query, RangeWindow, StreamRef
from thalweg.engine.expressions import ColumnKey, columns_of, physical_names, plain_column
from thalweg.engine.results import TIME
from thalweg.spark.carriage import Carried, Kept, carriage, narrowed

Columns = dict[str, exp.Expression]
"""Columns to compute from a stream, by name."""


@dataclass(frozen=True, slots=True)
class Division:
    """A query in three parts.

    Attributes:
        query: as it was bound.
        inside: the query that the operator runs, over the columns that it reads.
        carried: for each stream, the columns of the source that are sent to the operator.
        computed: for each stream, the columns of its rows that are not columns of the source.
        filters: for each stream, the condition, computed by Spark, without which a row can join nothing.
        gathered: the columns that the operator emits, by name: the column that each one is.
        where, select: what Spark computes from those; no ``select``: they are the answer as they come.

    """

    query: Query
    inside: Query
    carried: tuple[Carried, ...]
    computed: tuple[Columns, ...]
    filters: tuple[exp.Expression | None, ...]
    gathered: dict[str, ColumnKey]
    where: tuple[exp.Expression, ...]
    select: tuple[Projection, ...]


def divide(query: Query, keep: Mapping[str, Kept] | None = None) -> Division:
    """Divide a bound query; ``keep`` names, for each stream, the columns that are carried besides those it reads."""
    if query.kind == "difference" or query.aggregation is not None:
        carried = carriage(query, keep)
        nothing: tuple[Columns, ...] = tuple({} for _ in query.streams)
        filters = tuple(None for _ in query.streams)
        return Division(query, narrowed(query, carried), carried, nothing, filters, {}, (), ())
    return _divide_join(query, keep)


def _divide_join(query: Query, keep: Mapping[str, Kept] | None) -> Division:
    computed: tuple[Columns, ...] = tuple({} for _ in query.streams)
    types: list[dict[str, pa.DataType]] = [{} for _ in query.streams]

    def column(stream: int, expression: exp.Expression, kind: pa.DataType) -> exp.Expression:
        """The column that holds an expression: the source's own, or one that Spark computes."""
        if plain_column(expression) is not None:
            return expression
        name = computed_name(expression, kind)
        computed[stream][name] = expression
        types[stream][name] = kind
        return exp.column(name, query.streams[stream].alias, quoted=True)

    classes = tuple(
        AttributeClass(
            {s: column(s, member, attribute.type) for s, member in attribute.members.items()},
            attribute.type,
            attribute.null_safe,
        )
        for attribute in query.classes
    )
    thetas = tuple(
        replace(
            theta,
            left=Operand(theta.left.stream, column(theta.left.stream, theta.left.expression, theta.type)),
            right=Operand(theta.right.stream, column(theta.right.stream, theta.right.expression, theta.type)),
        )
        for theta in query.thetas
    )
    filters: list[exp.Expression | None] = []
    refs = []
    for s, ref in enumerate(query.streams):
        selection = ref.selection
        if isinstance(ref.window, RangeWindow):
            # A tuple that fails can join nothing: it need not be packed, only heard of for its time.
            filters.append(selection)
            selection = None
        else:
            filters.append(None)
            if selection is not None:  # it still counts in the window
                selection = column(s, selection, pa.bool_())
        refs.append(replace(ref, selection=selection))
    # Results that nothing is read of are gathered by their times: rows without columns could not be counted.
    read = columns_of([*(p.expression for p in query.select), *query.residual]) or [TIME]
    names = physical_names(query) | {TIME: "__time"}
    inside = replace(
        query,
        streams=tuple(refs),
        classes=classes,
        thetas=thetas,
        residual=(),
        select=tuple(_gather(key, names[key], query.streams) for key in read),
    )
    carried = carriage(inside, keep)
    inside = _with_columns(narrowed(inside, carried), types)
    gathered = {names[key]: key for key in read}
    return Division(query, inside, carried, computed, tuple(filters), gathered, query.residual, query.select)


def computed_name(expression: exp.Expression, kind: pa.DataType) -> str:
    """What the column is called that holds an expression over one stream.

    It follows from what is computed, so rows of a checkpoint have it for any query that computes the same.
    """
    tree = expression.copy()
    for column in tree.find_all(exp.Column):
        column.set("table", None)
    return f"__c{hashlib.sha256(f'{render(tree)} as {kind}'.encode()).hexdigest()[:16]}"


def _with_columns(query: Query, types: Sequence[Mapping[str, pa.DataType]]) -> Query:
    """The query over streams with these columns besides."""
    streams = (
        replace(ref, schema=pa.schema([*ref.schema, *(pa.field(name, kind) for name, kind in added.items())]))
        for ref, added in zip(query.streams, types, strict=True)
    )
    return replace(query, streams=tuple(streams))


def _gather(key: ColumnKey, name: str, streams: Sequence[StreamRef]) -> Projection:
    if key == TIME:
        return Projection(name, exp.column(TIME[1]), pa.timestamp("us"))
    schema = next(ref.schema for ref in streams if ref.alias == key[0])
    return Projection(name, exp.column(key[1], key[0], quoted=True), schema.field(key[1]).type)


def carried_facts(division: Division) -> list[dict[str, Any]]:
    """For each stream, which of how many columns travel, and how many computed ones: for an explanation."""
    return [
        {"columns": each.columns.names, "of": each.total, "computed": len(computed)}
        for each, computed in zip(division.carried, division.computed, strict=True)
    ]
