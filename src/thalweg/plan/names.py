"""Predicates, keys and columns of a query, as a person would write them."""

from __future__ import annotations

from sqlglot import exp

from thalweg.cql.query import AggregateCall, AttributeClass, Projection, Query, Theta
from thalweg.cql.rendering import render


def class_names(query: Query) -> list[str]:
    """A short name for every attribute class: the column's, if all members share it and no other class has it."""
    names = [_shared_column(cls) or render(_first(cls)) for cls in query.classes]
    return [
        name if names.count(name) == 1 else render(_first(cls)) for name, cls in zip(names, query.classes, strict=True)
    ]


def _first(cls: AttributeClass) -> exp.Expression:
    return cls.members[min(cls.members)]


def _shared_column(cls: AttributeClass) -> str | None:
    columns = {m.name for m in map(_bare, cls.members.values()) if isinstance(m, exp.Column)}
    all_columns = all(isinstance(_bare(m), exp.Column) for m in cls.members.values())
    return columns.pop() if all_columns and len(columns) == 1 else None


def _bare(expression: exp.Expression) -> exp.Expression:
    while isinstance(expression, exp.Cast | exp.Paren):
        expression = expression.this
    return expression


def class_text(cls: AttributeClass) -> str:
    operator = " <=> " if cls.null_safe else " = "
    return operator.join(render(cls.members[s]) for s in sorted(cls.members))


def theta_text(theta: Theta) -> str:
    if theta.text:
        return theta.text
    left, right = render(theta.left.expression), render(theta.right.expression)
    if theta.offset is None:
        return f"{left} {theta.op} {right}"
    difference = f"{left} - {right}"
    return f"{f'ABS({difference})' if theta.absolute else difference} {theta.op} {theta.offset}"


def aggregate_text(call: AggregateCall) -> str:
    return f"{call.function}({'*' if call.argument is None else render(call.argument)})"


def output_text(output: Projection | exp.Expression, query: Query) -> str:
    """An output expression with the query's own words for the group keys, the aggregates and the result's time."""
    words = {"__time": "RESULT_TIME()"}
    if query.aggregation is not None:
        words |= {f"__k{i}": render(key.expression) for i, key in enumerate(query.aggregation.keys)}
        words |= {f"__a{i}": aggregate_text(call) for i, call in enumerate(query.aggregation.calls)}

    def worded(node: exp.Expression) -> exp.Expression:
        is_word = isinstance(node, exp.Column) and node.name in words
        return exp.Var(this=words[node.name]) if is_word else node

    expression = output.expression if isinstance(output, Projection) else output
    return render(expression.transform(worded))
