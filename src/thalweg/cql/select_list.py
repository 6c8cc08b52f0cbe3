"""The SELECT list: stars expanded, names given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from thalweg.cql.expressions import Expressions
from thalweg.cql.nodes import SelectItem
from thalweg.cql.scope import match_name
from thalweg.errors import BindError, UnsupportedError


@dataclass(frozen=True, slots=True)
class Item:
    """One output column; ``named`` if the query gives it a name with AS."""

    name: str
    named: bool
    expression: exp.Expression
    node: exp.Expression


def select_list(items: Sequence[SelectItem], expressions: Expressions) -> list[Item]:
    """The output columns of a query, their expressions bound but not checked."""
    columns: list[Item] = []
    for item in items:
        star = _star(item)
        if star is None:
            columns.append(_item(item, expressions))
        elif item.args.get("alias"):
            raise BindError("'*' has an alias", expressions.scope.source.of(item), "Name columns one by one.")
        else:
            columns += _expand(item, star, expressions)
    return _distinct(columns, expressions)


def _item(item: SelectItem, expressions: Expressions) -> Item:
    bound = expressions.bind(item.this, "SELECT", aggregates=True)
    alias = item.args.get("alias")
    if alias is not None:
        return Item(alias.name, True, bound, item)
    column = item.this.unnest()
    name = bound.find(exp.Column) if isinstance(column, exp.Column) else None
    if isinstance(bound, exp.Dot):
        return Item(bound.expression.name, False, bound, item)
    return Item(name.name if name is not None else item.meta["text"], False, bound, item)


def _star(item: SelectItem) -> exp.Star | None:
    node = item.this
    star = node.this if isinstance(node, exp.Column) else node
    return star if isinstance(star, exp.Star) else None


def _expand(item: SelectItem, star: exp.Star, expressions: Expressions) -> list[Item]:
    scope = expressions.scope
    for word in ("replace", "rename"):
        if star.args.get(word):
            raise UnsupportedError(f"* {word.upper()} is not supported", scope.source.of(item), "Name the columns.")
    streams = scope.visible
    if isinstance(item.this, exp.Column):
        parts = item.this.parts
        aliases = [scope.streams[stream].alias for stream in scope.visible]
        alias = match_name(parts[0].name, aliases)
        if alias is None or len(parts) > 2:
            what = f"the query has no stream '{parts[0].name}'"
            raise BindError(what, scope.source.of(item), f"Its streams are {', '.join(aliases)}.")
        streams = [scope.positions[alias]]
    left_out = {column.name.lower() for column in star.args.get("except_") or ()}
    whole = not isinstance(item.this, exp.Column)
    joined = scope.merged if whole else {}
    pairs = [pair for name, members in joined.items() for pair in scope.find(name, members[:1])]
    pairs += [
        (stream, name)
        for stream in streams
        for name in scope.streams[stream].schema.names
        if stream not in joined.get(name.lower(), ())
    ]
    known = {name.lower() for _, name in pairs}
    for column in star.args.get("except_") or ():
        if column.name.lower() not in known:
            raise BindError(f"* EXCEPT names the unknown column '{column.name}'", scope.source.of(column))
    kept = [(stream, name) for stream, name in pairs if name.lower() not in left_out]
    if not kept:
        raise BindError("the SELECT list is empty: * EXCEPT leaves no column", scope.source.of(item))
    return [Item(name, False, scope.column(stream, name, item.meta.get("start")), item) for stream, name in kept]


def _distinct(columns: Sequence[Item], expressions: Expressions) -> list[Item]:
    """Names that differ, whatever their case: given ones stay, others get a number (``k``, ``k_1``) if taken."""
    taken: set[str] = set()
    for item in columns:
        if item.named and item.name.lower() in taken:
            what = f"two columns of the result are called '{item.name}'"
            raise BindError(what, expressions.scope.source.of(item.node), "Give each its own alias.")
        if item.named:
            taken.add(item.name.lower())
    named: list[Item] = []
    for item in columns:
        name, number = item.name, 0
        while not item.named and name.lower() in taken:
            number += 1
            name = f"{item.name}_{number}"
        taken.add(name.lower())
        named.append(Item(name, item.named, item.expression, item.node))
    return named
