"""Conditions cut into conjuncts.

AND is flattened, BETWEEN becomes two comparisons, and NOT is pushed inwards where that is
exact in three-valued logic.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from thalweg.cql.nodes import as_expression

_NEGATED: dict[type[exp.Expr], type[exp.Binary]] = {
    exp.LT: exp.GTE,
    exp.LTE: exp.GT,
    exp.GT: exp.LTE,
    exp.GTE: exp.LT,
    exp.EQ: exp.NEQ,
    exp.NEQ: exp.EQ,
    exp.NullSafeEQ: exp.NullSafeNEQ,
    exp.NullSafeNEQ: exp.NullSafeEQ,
}


def conjuncts(condition: exp.Expr) -> Iterator[exp.Expression]:
    """The conditions that must all hold for ``condition`` to hold.

    >>> from sqlglot import parse_one
    >>> [c.sql() for c in conjuncts(parse_one("a BETWEEN 1 AND 2 AND NOT (b < 3 OR NOT c)"))]
    ['a >= 1', 'a <= 2', 'b >= 3', 'c']
    """
    pending = [condition]
    while pending:
        node = pending.pop()
        if isinstance(node, exp.Paren):
            pending.append(node.this)
        elif isinstance(node, exp.And):
            pending += [node.expression, node.this]
        elif isinstance(node, exp.Between):
            low, high = node.args["low"], node.args["high"]
            pending.append(exp.LTE(this=node.this.copy(), expression=high.copy()))
            pending.append(exp.GTE(this=node.this.copy(), expression=low.copy()))
        elif isinstance(node, exp.In) and len(node.expressions) == 1:
            pending.append(exp.EQ(this=node.this.copy(), expression=node.expressions[0].copy()))
        elif isinstance(node, exp.Not):
            negated = _negate(node.this.unnest())
            if negated is None:
                yield as_expression(node.copy())
            else:
                pending += reversed(negated)
        else:
            yield as_expression(node.copy())


def _negate(node: exp.Expr) -> list[exp.Expr] | None:
    """Conjuncts equal to NOT node; None if NOT has to stay."""
    if isinstance(node, exp.Not):
        return [node.this]
    if isinstance(node, exp.Or):
        return [exp.Not(this=exp.paren(side)) for side in (node.this, node.expression)]
    if isinstance(node, exp.Boolean):
        return [exp.Boolean(this=not node.this)]
    opposite = _NEGATED.get(type(node))
    if opposite is not None:
        return [opposite(this=node.this.copy(), expression=node.expression.copy())]
    return None
