"""Texts to bound queries: names, types and windows put together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from sqlglot import exp

from thalweg.cql.aggregates import Aggregator, is_aggregated
from thalweg.cql.classes import attribute_classes
from thalweg.cql.difference import bind_difference
from thalweg.cql.expression_types import InProcessTypes, Types
from thalweg.cql.expressions import Expressions
from thalweg.cql.locations import SourceText
from thalweg.cql.nodes import ContinuousSelect, Difference, as_expression
from thalweg.cql.parser import Statement, parse, too_deep
from thalweg.cql.predicates import Splitter
from thalweg.cql.query import Aggregation, AttributeClass, Output, Projection, Query
from thalweg.cql.scope import NamedStream, Scope, Source, open_streams
from thalweg.cql.select_list import Item, select_list
from thalweg.cql.stream_refs import stream_refs
from thalweg.cql.windows import frame, written_windows
from thalweg.errors import BindError, ParseError

Typing = Callable[[SourceText, Sequence[NamedStream]], Types]
"""What finds the types of a query's expressions, given its text and streams."""


def in_process(source: SourceText, streams: Sequence[NamedStream]) -> Types:
    """Spark's types without Spark, for expressions that are computed in process."""
    return InProcessTypes(source, {stream.alias: stream.schema for stream in streams})


def bind(text: str, catalog: Mapping[str, Source], typing: Typing = in_process) -> tuple[Query, ...]:
    """All queries of a text, bound to the streams of a catalog.

    ``typing`` finds the types of expressions, and so decides which may be used.

    >>> import pyarrow as pa
    >>> trades = Source(pa.schema([("ts", pa.timestamp("us")), ("sym", pa.string()), ("px", pa.float64())]), time="ts")
    >>> [query] = bind("SELECT sym, px * 2 AS twice FROM trades [RANGE 5 MINUTES] WHERE px > 10", {"trades": trades})
    >>> query.schema.names, query.streams[0].window
    (['sym', 'twice'], RangeWindow(width_us=300000000, derived=False))
    """
    if not isinstance(text, str):
        raise ParseError(f"a query is a text, not {type(text).__name__}")
    source = SourceText(text)
    try:
        statements = parse(text)
        return tuple(_bind(statement, catalog, source, typing) for statement in statements)
    except RecursionError as error:
        raise too_deep() from error


def _bind(statement: Statement, catalog: Mapping[str, Source], source: SourceText, typing: Typing) -> Query:
    tree = statement.tree
    selects = [tree.this, *tree.expressions] if isinstance(tree, Difference) else [tree]
    streams = open_streams([item for select in selects for item in select.args["streams"]], catalog, source)
    types = typing(source, streams)
    if isinstance(tree, Difference):
        return bind_difference(statement, tree, Scope(streams, source), types)
    return _bind_join(statement, tree, Expressions(Scope(streams, source), types))


def _bind_join(statement: Statement, select: ContinuousSelect, expressions: Expressions) -> Query:
    splitter = Splitter(expressions)
    _add_joins(splitter, expressions)
    items = select_list(select.expressions, expressions)
    if select.args.get("where") is not None:
        splitter.add(expressions.bind(select.args["where"], "WHERE"))
    split = splitter.split
    classes = attribute_classes(split)
    _check_connected(classes, splitter, expressions.scope)
    aggregation, projections = _project(select, items, expressions)
    output = Output(select.args.get("output") or "ISTREAM")
    is_current = output is Output.DSTREAM or aggregation is not None
    scope = expressions.scope
    written = written_windows(expressions, [select.args.get("window")] * len(scope.streams), required=False)
    derives = sum(not stream.is_static for stream in scope.streams) > 1 or not is_current
    time_frame = frame(expressions, written, split.bounds, scope.source.of(select), derives=derives)
    return Query(
        name=statement.name,
        text=statement.text,
        kind="join",
        output=output,
        streams=stream_refs(scope, split, time_frame, select, is_current=is_current),
        select=projections,
        classes=classes,
        thetas=tuple(split.thetas),
        residual=tuple(split.residual),
        aggregation=aggregation,
        freshness_us=select.args.get("freshness"),
        differences=time_frame.differences,
    )


def _add_joins(splitter: Splitter, expressions: Expressions) -> None:
    """ON conditions, and the equalities of USING."""
    scope = expressions.scope
    for position, stream in enumerate(scope.streams):
        condition = stream.item.args.get("on")
        if condition is not None:
            splitter.add(expressions.bind(condition, "ON", visible=range(position + 1)))
        for name in stream.item.args.get("using") or ():
            splitter.add(_using(name, position, scope))


def _using(name: exp.Identifier, position: int, scope: Scope) -> exp.Expression:
    own = scope.find(name.name, [position])
    earlier = scope.find(name.name, range(position))
    location = scope.source.of(name)
    if not own or not earlier:
        side = f"stream '{scope.streams[position].alias}' has" if not own else "the streams before have"
        raise BindError(f"{side} no column '{name.name}' for USING", location, "Write ON instead.")
    if len(earlier) > 1:
        owners = " and ".join(f"'{scope.streams[stream].alias}'" for stream, _ in earlier)
        raise BindError(f"column '{name.name}' of USING is ambiguous: {owners} have it", location, "Write ON instead.")
    scope.merged.setdefault(name.name.lower(), [earlier[0][0]]).append(position)
    start = name.meta.get("start")
    left, right = (scope.column(stream, column, start) for stream, column in (earlier[0], own[0]))
    return exp.EQ(this=left, expression=right)


def _check_connected(classes: Sequence[AttributeClass], splitter: Splitter, scope: Scope) -> None:
    """Refuse a product of streams that nobody asked for."""
    groups = [{position} for position in range(len(scope.streams))]
    split = splitter.split
    links = [set(attribute.members) for attribute in classes]
    links += [{theta.left.stream, theta.right.stream} for theta in split.thetas]
    links += [set(splitter.streams_of(residual)) for residual in split.residual]
    for position, stream in enumerate(scope.streams):
        if stream.item.args.get("join") == "CROSS":
            links.append({position, position - 1})
    for link in links:
        joined = [group for group in groups if group & link]
        groups = [group for group in groups if not group & link] + [set().union(*joined)]
    if len(groups) > 1:
        names = [
            ", ".join(scope.streams[stream].alias for stream in sorted(group)) for group in sorted(groups, key=min)
        ]
        apart = scope.streams[min(sorted(groups, key=min)[1])]
        what = f"nothing connects {' with '.join(names)}, so every tuple would pair with every other"
        raise BindError(what, scope.source.of(apart.item), "Add a condition between them, or write CROSS JOIN.")


def _project(
    select: ContinuousSelect, items: Sequence[Item], expressions: Expressions
) -> tuple[Aggregation | None, tuple[Projection, ...]]:
    aggregation = None
    selected = [as_expression(item.expression.copy()) for item in items]
    if is_aggregated(select, items):
        aggregation, selected, expressions = Aggregator(select, items, expressions).finish()
    else:
        selected = [expressions.checked(expression) for expression in selected]
    expressions.types.prime(selected)
    return aggregation, tuple(
        Projection(item.name, expression, expressions.types.of(expression))
        for item, expression in zip(items, selected, strict=True)
    )
