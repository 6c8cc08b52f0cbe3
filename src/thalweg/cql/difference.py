"""``EXCEPT``: one stream without what others hold, on a key (the papers' set difference)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import pyarrow as pa
from sqlglot import exp

from thalweg.cql.aggregates import is_aggregated
from thalweg.cql.expression_types import Types
from thalweg.cql.expressions import Expressions
from thalweg.cql.nodes import ContinuousSelect, Difference, as_expression
from thalweg.cql.parser import Statement
from thalweg.cql.predicates import HASHABLE, Split, Splitter
from thalweg.cql.query import AttributeClass, Output, Projection, Query
from thalweg.cql.scope import Scope
from thalweg.cql.select_list import Item, select_list
from thalweg.cql.stream_refs import stream_refs
from thalweg.cql.types import cast_to, common, describe, family, fits_exactly
from thalweg.cql.windows import frame, written_windows
from thalweg.errors import BindError, UnsupportedError


def bind_difference(statement: Statement, tree: Difference, scope: Scope, types: Types) -> Query:
    """Bind ``SELECT ... EXCEPT SELECT ...``."""
    branches: Sequence[ContinuousSelect] = [tree.this, *tree.expressions]
    if scope.streams[0].is_static:
        what = f"EXCEPT starts from '{scope.streams[0].alias}', a static relation"
        hint = "Its rows come at no time, so none could enter. Only what is subtracted can be static."
        raise UnsupportedError(what, scope.source.of(scope.streams[0].item), hint)
    lists: list[list[Item]] = []
    split = Split()
    for position, branch in enumerate(branches):
        if len(branch.args["streams"]) != 1:
            location = scope.source.of(branch.args["streams"][1])
            raise UnsupportedError("EXCEPT between joins is not supported", location, "Each SELECT reads one stream.")
        expressions = Expressions(Scope(scope.streams, scope.source, [position]), types)
        items = select_list(branch.expressions, expressions)
        if is_aggregated(branch, items):
            location = scope.source.of(branch)
            raise UnsupportedError("EXCEPT between aggregates is not supported", location)
        checked = [expressions.checked(item.expression) for item in items]
        lists.append([Item(i.name, i.named, e, i.node) for i, e in zip(items, checked, strict=True)])
        _select(split, branch, position, expressions)
    expressions = Expressions(scope, types)
    defaults = [branch.args.get("window") or tree.args.get("window") for branch in branches]
    time_frame = frame(expressions, written_windows(expressions, defaults, required=True), [], scope.source.of(tree))
    return Query(
        name=statement.name,
        text=statement.text,
        kind="difference",
        output=Output(tree.args.get("output") or "ISTREAM"),
        streams=stream_refs(scope, split, time_frame, tree, is_current=True),
        select=tuple(Projection(item.name, item.expression, types.of(item.expression)) for item in lists[0]),
        classes=_classes(_keys(lists, tree, scope), types, scope),
        freshness_us=tree.args.get("freshness"),
        differences=time_frame.differences,
    )


def _select(split: Split, branch: ContinuousSelect, position: int, expressions: Expressions) -> None:
    """The WHERE of one side, which is about its stream alone."""
    if branch.args.get("where") is None:
        return
    splitter = Splitter(expressions)
    splitter.add(expressions.bind(branch.args["where"], "WHERE"))
    conditions = splitter.split.selections.get(position, [])
    for condition in [exp.false()] if splitter.split.never else conditions:
        split.select(position, condition)


def _keys(lists: Sequence[Sequence[Item]], tree: Difference, scope: Scope) -> list[list[Item]]:
    """The compared items: per key, one of each list."""
    names: Sequence[exp.Identifier] | None = tree.args.get("by")
    if names is None:
        for other in lists[1:]:
            if len(other) != len(lists[0]):
                what = f"EXCEPT compares {len(lists[0])} columns with {len(other)}"
                hint = "Both lists need as many columns, or CORRESPONDING BY (column, ...)."
                raise BindError(what, scope.source.of(other[0].node), hint)
        return [list(key) for key in zip(*lists, strict=True)]
    keys = []
    for name in names:
        key = [item for items in lists for item in items if item.name.lower() == name.name.lower()]
        if len(key) != len(lists):
            what = f"not every SELECT list has a column '{name.name}' for CORRESPONDING BY"
            raise BindError(what, scope.source.of(name), "Name it with AS in each list.")
        keys.append(key)
    return keys


def _classes(keys: Sequence[Sequence[Item]], types: Types, scope: Scope) -> tuple[AttributeClass, ...]:
    classes = []
    for key in keys:
        kinds = []
        for item in key:
            if any(not column.table for column in item.expression.find_all(exp.Column)):
                raise BindError("EXCEPT cannot compare RESULT_TIME()", scope.source.of(item.node))
            kinds.append(types.of(item.expression))
        kind: pa.DataType | None = reduce(lambda one, other: one and common(one, other), kinds)
        if kind is None or family(kind) not in HASHABLE or (family(kind) == "exact" and not fits_exactly(kinds)):
            compared = " with ".join(describe(kind) for kind in kinds)
            what = f"EXCEPT compares '{key[0].name}' of types {compared}"
            raise BindError(what, scope.source.of(key[-1].node), "Cast one of them: CAST(... AS type).")
        members = {
            position: as_expression(cast_to(item.expression.copy(), own, kind))
            for position, (item, own) in enumerate(zip(key, kinds, strict=True))
        }
        classes.append(AttributeClass(members, kind))
    return tuple(classes)
