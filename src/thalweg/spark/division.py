"""Which part of a query runs where: below the operator in Spark SQL, inside it, above it in Spark SQL.

Spark SQL is the expression engine. So for a join, the keys, the operands of theta predicates and the
selections are columns that Spark computes before its rows are packed, and the residual predicates and
the SELECT list are a filter and a projection over what the operator emits. Inside is left a query whose every
expression is a column.

Of queries that share a run, the join's own keys and operands are columns likewise. All that is a reader's is evaluated
inside, so that readers can come and go.

Running aggregates and ``EXCEPT`` need the joined row inside: residual predicates, group keys and arguments of
aggregates are evaluated there, as in process. Those of one stream that cannot be are columns that Spark computes
before, too. The SELECT list of ``EXCEPT`` is Spark's. That of aggregates, and HAVING, are evaluated inside: a row is
emitted if what they make of it changes, so its bucket must know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from sqlglot import exp

from thalweg.cql.group import Group, expressions_of
from thalweg.cql.query import (
    Aggregation,
    AttributeClass,
    Operand,
    Projection,
    Query,
    RangeWindow,
    RowsWindow,
    StreamRef,
    Window,
)
from thalweg.engine.outputs.results import TIME, engine_columns
from thalweg.engine.rows.expressions import ColumnKey, columns_of, physical_names
from thalweg.spark.below import Below, Columns
from thalweg.spark.carriage import Carried, Kept, carriage, narrowed


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
        return _divide_lasting(query, keep)
    return _divide_join(query, keep)


def divide_shared(group: Group, keep: Mapping[str, Kept] | None = None) -> Division:
    """Divide the join of queries that share a run; ``keep`` as of :func:`divide`. Buckets get all that is carried.

    What is inside is the join over the columns that buckets get, with the windows of all readers together.
    """
    query = group.whole
    below = Below(query)
    for reader in group.readers:
        for expression in expressions_of(reader):
            below.check_inside(expression, reader.name)
    inside = replace(query, streams=tuple(replace(r, window=_window(below, r.window)) for r in query.streams))
    inside = _with_join(below, inside)
    carried = carriage(inside, keep)
    given = tuple(replace(r, schema=each.columns) for r, each in zip(inside.streams, carried, strict=True))
    inside = _with_columns(replace(inside, streams=given), below.types)
    # Who selects a row may change: so everything is computed of all rows.
    query = replace(query, streams=tuple(replace(ref, selection=None) for ref in query.streams))
    return Division(query, inside, carried, below.computed, tuple(None for _ in query.streams), {}, (), ())


def _divide_join(query: Query, keep: Mapping[str, Kept] | None) -> Division:
    below = Below(query)
    computed, types, column = below.computed, below.types, below.column
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
                selection = column(s, selection, pa.bool_(), of_all=True)
        refs.append(replace(ref, selection=selection, window=_window(below, ref.window)))
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


def _window(below: Below, window: Window) -> Window:
    """A window whose partitions can be told inside."""
    if not isinstance(window, RowsWindow):
        return window
    keys = (below.if_needed(key, pa.string(), of_all=True) for key in window.partition_by)
    return replace(window, partition_by=tuple(keys))


def _divide_lasting(query: Query, keep: Mapping[str, Kept] | None) -> Division:
    """Aggregates and EXCEPT: joined rows are needed inside. What can be computed there is."""
    below = Below(query)
    refs = tuple(
        replace(
            ref,
            selection=None if ref.selection is None else below.if_needed(ref.selection, pa.bool_(), of_all=True),
            window=_window(below, ref.window),
        )
        for ref in query.streams
    )
    residual = tuple(below.if_needed(each, pa.bool_()) for each in query.residual)
    inside = _with_join(below, replace(query, streams=refs, residual=residual))
    read: list[ColumnKey] = []
    names = physical_names(query) | engine_columns(query)
    if query.aggregation is None:
        read = columns_of([p.expression for p in query.select]) or [TIME]
        inside = replace(inside, select=tuple(_gather(key, names[key], query.streams) for key in read))
    else:
        below.check_shown(query.aggregation)
        inside = replace(inside, aggregation=_aggregation(below, query.aggregation))
    carried = carriage(inside, keep)
    inside = _with_columns(narrowed(inside, carried), below.types)
    filters = tuple(None for _ in query.streams)
    gathered = {names[key]: key for key in read}
    return Division(query, inside, carried, below.computed, filters, gathered, (), query.select if read else ())


def _with_join(below: Below, query: Query) -> Query:
    """The query with keys and operands that can be computed inside."""
    classes = (
        replace(attribute, members={s: below.if_needed(m, attribute.type) for s, m in attribute.members.items()})
        for attribute in query.classes
    )
    thetas = (
        replace(
            theta,
            left=replace(theta.left, expression=below.if_needed(theta.left.expression, theta.type)),
            right=replace(theta.right, expression=below.if_needed(theta.right.expression, theta.type)),
        )
        for theta in query.thetas
    )
    return replace(query, classes=tuple(classes), thetas=tuple(thetas))


def _aggregation(below: Below, aggregation: Aggregation) -> Aggregation:
    keys = (replace(key, expression=below.if_needed(key.expression, key.type)) for key in aggregation.keys)
    calls = (
        call if call.argument is None else replace(call, argument=below.if_needed(call.argument, call.argument_type))
        for call in aggregation.calls
    )
    return replace(aggregation, keys=tuple(keys), calls=tuple(calls))


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
