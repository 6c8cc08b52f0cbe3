"""Expressions as people read them."""

from __future__ import annotations

import re

from sqlglot import exp

from thalweg.cql.dialect import CQL

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def render(expression: exp.Expr) -> str:
    """The CQL text of an expression, quoted only where a name needs it.

    >>> render(exp.column(exp.to_identifier("x", quoted=True), exp.to_identifier("my stream", quoted=True)))
    '`my stream`.x'
    """
    tree = expression.copy()
    for identifier in tree.find_all(exp.Identifier):
        identifier.set("quoted", not _PLAIN.match(identifier.name))
    return tree.sql(dialect=CQL, comments=False)


def shorten(text: str, width: int = 60) -> str:
    """A text that fits into a message."""
    flat = " ".join(text.split())
    return flat if len(flat) <= width else flat[: width - 3] + "..."
