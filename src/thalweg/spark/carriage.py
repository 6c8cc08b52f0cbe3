"""Which columns of a stream travel to the buckets, and stay in their logs.

A bucket is sent the columns that its query reads: event time, keys, operands, partitions of ROWS windows, and what
results are made of. Columns that Spark alone reads, below the operator, stay there. ``keep`` names columns that are
carried besides, so that a later query can go on from the same checkpoint and read them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
from sqlglot import exp

from thalweg.cql.query import Query, RowsWindow, StreamRef
from thalweg.engine.rows.expressions import columns_of


@dataclass(frozen=True, slots=True)
class Kept:
    """Columns that are carried whether or not a query reads them.

    ``required``: a checkpoint whose rows lack one of them is refused. Else what it lacks is not kept.
    """

    columns: tuple[str, ...] = ()
    required: bool = True


@dataclass(frozen=True, slots=True)
class Carried:
    """What travels of one stream.

    Attributes:
        columns: the columns of the source that are carried, in its order.
        read: those of them that the operator reads.
        required: those of them that a checkpoint must have.
        total: how many columns the source has.

    """

    columns: pa.Schema
    read: tuple[str, ...]
    required: tuple[str, ...]
    total: int


def carriage(query: Query, keep: Mapping[str, Kept] | None = None) -> tuple[Carried, ...]:
    """What a query that runs inside the operator needs of its streams; ``keep`` is by name of the stream."""
    read = columns_of(_expressions(query))
    return tuple(_carried(ref, {name for alias, name in read if alias == ref.alias}, keep) for ref in query.streams)


def narrowed(query: Query, carried: tuple[Carried, ...]) -> Query:
    """The query over streams that have no other columns than those it reads."""
    streams = (
        replace(ref, schema=pa.schema([field for field in ref.schema if field.name in each.read]))
        for ref, each in zip(query.streams, carried, strict=True)
    )
    return replace(query, streams=tuple(streams))


def _carried(ref: StreamRef, read: set[str], keep: Mapping[str, Kept] | None) -> Carried:
    if ref.time is not None:
        read = read | {ref.time}
    if not read:  # rows without columns could not be counted
        read = {next((field.name for field in ref.schema if field.type != pa.null()), ref.schema.names[0])}
    # A static relation is read again at every start, so nothing of it is kept for later.
    kept = Kept() if keep is None or ref.is_static else keep.get(ref.stream, Kept())
    required = read | set(kept.columns) if kept.required else read
    columns = [field for field in ref.schema if field.name in read or field.name in kept.columns]
    names = [field.name for field in columns]
    return Carried(
        pa.schema(columns),
        tuple(name for name in names if name in read),
        tuple(name for name in names if name in required),
        len(ref.schema),
    )


def _expressions(query: Query) -> list[exp.Expression]:
    """All that a query computes."""
    found = [projection.expression for projection in query.select]
    found += query.residual
    found += [member for attribute in query.classes for member in attribute.members.values()]
    found += [operand.expression for theta in query.thetas for operand in (theta.left, theta.right)]
    for ref in query.streams:
        if ref.selection is not None:
            found.append(ref.selection)
        if isinstance(ref.window, RowsWindow):
            found += ref.window.partition_by
    if query.aggregation is not None:
        found += [key.expression for key in query.aggregation.keys]
        found += [call.argument for call in query.aggregation.calls if call.argument is not None]
        found += [] if query.aggregation.having is None else [query.aggregation.having]
    return found
