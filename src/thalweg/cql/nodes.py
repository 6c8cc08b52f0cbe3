"""Syntax nodes of CQL that SQL does not have.

They are sqlglot expressions, so that walking, copying, comparing and printing trees
works on them as on any other. Names in them are not resolved yet.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, cast

from sqlglot import exp


def as_expression(node: exp.Expr) -> exp.Expression:
    """The same node: sqlglot's signatures promise less than its trees hold."""
    return cast("exp.Expression", node)


def grouped(node: exp.Expr) -> exp.Expression:
    """A node that can become an operand: in parentheses if it is an operation itself."""
    return as_expression(exp.paren(node) if isinstance(node, (exp.Binary, exp.Unary)) else node.copy())


def rewrite(tree: exp.Expr, change: Callable[[exp.Expr], exp.Expr]) -> exp.Expression:
    """A tree with ``change`` applied to every node, children before parents."""
    holder = exp.Paren(this=tree)
    for node in reversed(list(tree.walk())):
        changed = change(node)
        if changed is not node:
            node.replace(changed)
    return as_expression(holder.this.pop())


class CreateQuery(exp.Expression):
    """``CREATE QUERY this AS expression``."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expression": True}


class ContinuousSelect(exp.Expression):
    """One ``SELECT`` over windows.

    ``streams`` are the :class:`StreamItem` of the FROM list, ``output`` is ``"DSTREAM"``
    or None (ISTREAM), ``window`` is that of the WINDOW clause and ``freshness`` is in
    microseconds. ``expressions`` are :class:`SelectItem`.
    """

    arg_types: ClassVar[dict[str, bool]] = {
        "output": False,
        "expressions": True,
        "streams": True,
        "where": False,
        "group": False,
        "having": False,
        "window": False,
        "freshness": False,
    }


class SelectItem(exp.Expression):
    """One item of a SELECT list; ``meta["text"]`` is what was written, the name of an item without alias."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "alias": False}


class StreamItem(exp.Expression):
    """One stream of a FROM list and how it is joined to those before it.

    ``join`` is ``"INNER"``, ``"CROSS"`` or ``","`` (None for the first one).
    """

    arg_types: ClassVar[dict[str, bool]] = {
        "this": True,
        "alias": False,
        "window": False,
        "freshness": False,
        "join": False,
        "on": False,
        "using": False,
    }


class StreamWindow(exp.Expression):
    """``RANGE size`` (microseconds) or ``[PARTITION BY expressions] ROWS size``; no size: unbounded."""

    arg_types: ClassVar[dict[str, bool]] = {"kind": True, "size": False, "expressions": False}


class Difference(exp.Expression):
    """``EXCEPT`` between the SELECT in ``this`` and those in ``expressions``.

    ``by`` are the columns of CORRESPONDING BY; ``output``, ``window`` and ``freshness``
    are those of the whole.
    """

    arg_types: ClassVar[dict[str, bool]] = {
        "this": True,
        "expressions": True,
        "by": False,
        "output": False,
        "window": False,
        "freshness": False,
    }
