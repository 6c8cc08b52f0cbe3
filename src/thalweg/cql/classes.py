"""Attribute classes: equalities joined by transitivity.

``a.k = b.k AND b.k = c.k`` is one class with three members. Two expressions of one stream in
a class become a selection on that stream. Equalities compared as floating point form
classes of their own: ``a.k = b.k`` on integers and ``b.k = c.d`` on doubles do not imply
that a.k equals c.d, because large integers are not exact there.
"""

from __future__ import annotations

from functools import reduce

import pyarrow as pa
from sqlglot import exp

from thalweg.cql.predicates import Equality, Side, Split
from thalweg.cql.query import AttributeClass
from thalweg.cql.types import cast_to, common, family, fits_exactly

_Member = tuple[int, exp.Expression, str]
"""Stream, expression, and the manner in which it is compared."""


def attribute_classes(split: Split) -> tuple[AttributeClass, ...]:
    """The classes of a split condition; what they imply about single streams is added to its selections."""
    groups: list[list[Equality]] = []
    for equality in split.equalities:
        touching = [group for group in groups if _members(group) & _members([equality])]
        merged = [*(e for group in touching for e in group), equality]
        if not _fits(merged):
            split.keep(equality.condition)
            continue
        place = groups.index(touching[0]) if touching else len(groups)
        groups[place : place + len(touching[:1])] = [merged]
        groups = [group for group in groups if group not in touching[1:]]
    return tuple(_class(group, split) for group in groups)


def _manner(equality: Equality) -> str:
    shared = family(common(equality.left.type, equality.right.type))
    return "timestamp" if shared == "date" else shared  # a date equals its first instant, and only that


def _members(group: list[Equality]) -> set[_Member]:
    return {(side.stream, side.expression, _manner(e)) for e in group for side in (e.left, e.right)}


def _fits(group: list[Equality]) -> bool:
    kinds = [side.type for side in _sides(group)]
    return _manner(group[0]) != "exact" or fits_exactly(kinds)


def _sides(group: list[Equality]) -> list[Side]:
    """The distinct sides of a class, in the order in which they were written."""
    sides: list[Side] = []
    for equality in group:
        sides += [side for side in (equality.left, equality.right) if side not in sides]
    return sides


def _class(group: list[Equality], split: Split) -> AttributeClass:
    sides = _sides(group)
    kind: pa.DataType = reduce(common, (side.type for side in sides))
    null_safe = all(equality.null_safe for equality in group)
    members: dict[int, exp.Expression] = {}
    for side in sides:
        key = cast_to(side.expression, side.type, kind)
        first = members.setdefault(side.stream, key)
        if first is not key:
            operator = exp.NullSafeEQ if null_safe else exp.EQ
            split.select(side.stream, operator(this=first.copy(), expression=key.copy()))
    return AttributeClass(dict(sorted(members.items())), kind, null_safe)
