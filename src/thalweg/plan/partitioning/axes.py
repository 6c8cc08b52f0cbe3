"""Which axes a query allows: those that split nothing which must stay together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa
from sqlglot import exp

from thalweg.cql.nodes import rewrite
from thalweg.cql.predicates import HASHABLE
from thalweg.cql.query import Query, RowsWindow
from thalweg.cql.rendering import render
from thalweg.cql.types import canonical, family
from thalweg.plan.partitioning.grid import BY_ROW, Coordinate, Partitioning

_ONE_SPELLING = HASHABLE - {"float"}
"""Families of types whose equal values are identical, so that their casts are equal too."""


class Candidate(NamedTuple):
    """An axis that the query allows: ``known`` says which streams know it, and by what."""

    known: dict[int, Coordinate]
    classes: tuple[int, ...] = ()
    stream: int | None = None


def allowed_axes(query: Query) -> list[Candidate]:
    """The axes of keys and of rows that are worth a share."""
    return _maximal([*_key_axes(query), *_row_axes(query)])


def obstacle(query: Query) -> str | None:
    """Why nothing may be split at all."""
    for stream in query.streams:
        if isinstance(stream.window, RowsWindow) and not stream.window.partition_by:
            rows = f"[ROWS {stream.window.rows}] of {stream.alias}"
            return f"{rows} counts all tuples of the stream in one place; PARTITION BY would let it be split"
    if query.aggregation is not None and not query.aggregation.keys:
        return "an aggregate without GROUP BY needs all results in one place"
    return None


def torn_apart(query: Query) -> str:
    """Why no axis is left though nothing forbids splitting as such."""
    if query.aggregation is not None:
        keys = ", ".join(render(key.expression) for key in query.aggregation.keys)
        return f"no join key and no stream can be split without splitting the groups of GROUP BY {keys}"
    return "every way to split a stream would split the partitions of its ROWS window"


def keeps_groups(query: Query, partitioning: Partitioning) -> bool:
    """Whether each group of a query is in one bucket, under a partitioning that was chosen for another over its join.

    A query without groups asks for nothing.
    """
    groups = _group_keys(query)
    if groups is None or partitioning.buckets == 1:
        return True
    for number, axis in enumerate(partitioning.axes):
        if axis.stream is None:
            members = [query.classes[each].members.values() for each in axis.classes]
            kept = all(any(_follows(member, groups) for member in each) for each in members)
        else:
            coordinate = partitioning.coordinates[axis.stream][number]
            kept = coordinate != BY_ROW and all(_follows(each, groups) for each in coordinate.expressions)
        if not kept:
            return False
    return True


class _Given(NamedTuple):
    """An expression whose value is the same for what must stay together."""

    expression: exp.Expression
    type: pa.DataType | None


def _group_keys(query: Query) -> list[_Given] | None:
    """What a group has in common; None if the query does not group."""
    return None if query.aggregation is None else [_Given(k.expression, k.type) for k in query.aggregation.keys]


def _partition_keys(query: Query, stream: int) -> list[_Given] | None:
    """What the rows of one partition of a ROWS window have in common; None for a RANGE window."""
    ref = query.streams[stream]
    if not isinstance(ref.window, RowsWindow):
        return None
    return [_Given(e, _column_type(query, stream, e)) for e in ref.window.partition_by]


def _column_type(query: Query, stream: int, expression: exp.Expression) -> pa.DataType | None:
    column = _plain(expression)
    return canonical(query.streams[stream].schema.field(column.name).type) if isinstance(column, exp.Column) else None


def _plain(expression: exp.Expr) -> exp.Expression:
    """The tree without parentheses, which it does not need."""
    return rewrite(expression.copy(), lambda node: node.this if isinstance(node, exp.Paren) else node)


def _follows(expression: exp.Expression, given: Sequence[_Given] | None) -> bool:
    """Whether an expression has one value wherever the given ones have; None asks for nothing."""
    return given is None or any(_casts(_plain(expression), _plain(g.expression), g.type) for g in given)


def _casts(expression: exp.Expr, source: exp.Expr, kind: pa.DataType | None) -> bool:
    """Whether an expression is ``source``, or a cast of it that keeps equal values equal."""
    if expression == source:
        return True
    if kind is None or family(kind) not in _ONE_SPELLING or not isinstance(expression, exp.Cast):
        return False
    return _casts(expression.this, source, kind)


def _key_axes(query: Query) -> Iterator[Candidate]:
    """An axis for each set of streams that share allowed classes.

    Classes of the same streams are hashed together: the axis costs no more copies for that, and a value that
    is frequent in one class is spread by the others.
    """
    groups = _group_keys(query)
    axes: dict[frozenset[int], list[int]] = {}
    for index, cls in enumerate(query.classes):
        if not all(_follows(member, _partition_keys(query, stream)) for stream, member in cls.members.items()):
            continue
        if any(_follows(member, groups) for member in cls.members.values()):
            axes.setdefault(frozenset(cls.members), []).append(index)
    for streams, classes in axes.items():
        known = {s: Coordinate("hash", tuple(query.classes[c].members[s] for c in classes)) for s in sorted(streams)}
        yield Candidate(known, tuple(classes))


def _row_axes(query: Query) -> Iterator[Candidate]:
    """An axis for each stream that may be split by itself: anyhow, or by what must stay together."""
    groups = _group_keys(query)
    for stream in range(1 if query.kind == "difference" else len(query.streams)):
        partitions = _partition_keys(query, stream)
        if partitions is None and groups is None:
            yield Candidate({stream: BY_ROW}, stream=stream)
            continue
        alias = query.streams[stream].alias
        kept = [
            given.expression
            for given in (partitions if partitions is not None else groups or [])
            if {column.table for column in given.expression.find_all(exp.Column)} == {alias}
            and given.type is not None
            and family(given.type) in HASHABLE
            and _follows(given.expression, groups)
        ]
        if kept:
            yield Candidate({stream: Coordinate("hash", tuple(kept))}, stream=stream)


def _maximal(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Those that are worth a share: no other axis is known to the same streams and more."""
    sets = [frozenset(candidate.known) for candidate in candidates]
    return [candidate for i, candidate in enumerate(candidates) if not any(sets[i] < other for other in sets)]
