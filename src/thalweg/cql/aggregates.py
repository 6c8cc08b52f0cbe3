"""GROUP BY, HAVING and the five aggregates.

Keys and calls are computed per result and per group; the SELECT list and HAVING are then
expressions over them, under the names ``__k0 ...`` and ``__a0 ...``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import pyarrow as pa
from sqlglot import exp

from thalweg.cql import decimals
from thalweg.cql.expression_types import TIME_COLUMN
from thalweg.cql.expressions import Expressions
from thalweg.cql.functions import is_aggregate
from thalweg.cql.nodes import ContinuousSelect, as_expression, grouped, rewrite
from thalweg.cql.query import AggregateCall, AggregateFunction, Aggregation, Projection
from thalweg.cql.rendering import render, shorten
from thalweg.cql.select_list import Item
from thalweg.cql.types import describe, family, is_numeric
from thalweg.errors import BindError


def is_aggregated(select: ContinuousSelect, items: Sequence[Item]) -> bool:
    """Whether a query groups its results."""
    has_call = any(is_aggregate(node) for item in items for node in item.expression.walk())
    return bool(select.args.get("group")) or has_call or select.args.get("having") is not None


class Aggregator:
    """Binds the grouping of one query; ``select`` are its items over keys and calls."""

    def __init__(self, select: ContinuousSelect, items: Sequence[Item], expressions: Expressions) -> None:
        self._expressions = expressions
        self._source = expressions.scope.source
        self._items = items
        self.keys: list[Projection] = []
        self._written_keys: list[exp.Expression] = []
        self.calls: list[AggregateCall] = []
        for key in select.args.get("group") or ():
            self._add_key(key)
        having: exp.Expr | None = select.args.get("having")
        bound = None if having is None else self._bind_having(having)
        if having is not None and bound is not None and not self.keys:
            written = [bound, *(item.expression for item in items)]
            if not any(is_aggregate(node) for expression in written for node in expression.walk()):
                raise BindError("HAVING stands without GROUP BY or aggregates", self._source.of(having), "Write WHERE.")
        self._rewritten = [self._over_groups(item.expression) for item in items]
        self._having = None if bound is None else self._over_groups(bound)

    def finish(self) -> tuple[Aggregation, list[exp.Expression], Expressions]:
        """The aggregation, the SELECT list over it, and what finds types there."""
        columns = {f"__k{n}": key.type for n, key in enumerate(self.keys)}
        columns |= {f"__a{n}": call.type for n, call in enumerate(self.calls)}
        over_groups = Expressions(self._expressions.scope, self._expressions.types.with_columns(columns))
        having = None if self._having is None else over_groups.condition(self._having)
        select = [over_groups.checked(expression) for expression in self._rewritten]
        return Aggregation(tuple(self.keys), tuple(self.calls), having), select, over_groups

    def _add_key(self, key: exp.Expr) -> None:
        written = as_expression(self._key(key).unnest())
        if written in self._written_keys:
            return
        self._written_keys.append(written)
        expression = self._expressions.checked(as_expression(written.copy()))
        self.keys.append(Projection(f"__k{len(self.keys)}", expression, self._expressions.types.of(expression)))

    def _key(self, key: exp.Expr) -> exp.Expression:
        """GROUP BY names a column, else an alias of the SELECT list, else its position."""
        chosen = None
        if isinstance(key, exp.Literal) and not key.is_string:
            if not key.name.isdecimal() or not 1 <= int(key.name) <= len(self._items):
                what = f"GROUP BY {key.name} is not a position in the SELECT list"
                raise BindError(what, self._source.of(key), f"Positions go from 1 to {len(self._items)}.")
            chosen = self._items[int(key.name) - 1]
        elif isinstance(key, exp.Column) and len(key.parts) == 1:
            chosen = self._by_alias(key)
        if chosen is None:
            return self._expressions.bind(key, "GROUP BY")
        for node in chosen.expression.walk():
            if is_aggregate(node) or (isinstance(node, exp.Column) and node.name == TIME_COLUMN and not node.table):
                what = (
                    f"GROUP BY {render(key)} means '{shorten(chosen.node.meta['text'])}', which is known only per group"
                )
                raise BindError(what, self._source.of(key))
        return as_expression(chosen.expression.copy())

    def _by_alias(self, column: exp.Column) -> Item | None:
        """The item of the SELECT list that a bare name means, if no column has that name."""
        scope = self._expressions.scope
        if scope.find(column.name, scope.visible):
            return None
        matches = [item for item in self._items if item.named and item.name.lower() == column.name.lower()]
        return matches[0] if matches else None

    def _bind_having(self, having: exp.Expr) -> exp.Expression:
        def named(node: exp.Expr) -> exp.Expr:
            item = self._by_alias(node) if isinstance(node, exp.Column) and len(node.parts) == 1 else None
            return grouped(item.node.this) if item is not None else node

        return self._expressions.bind(rewrite(having.copy(), named), "HAVING", aggregates=True)

    def _over_groups(self, expression: exp.Expression) -> exp.Expression:
        """The expression with keys and aggregates replaced by their names; nothing else may be left."""
        holder = exp.Paren(this=expression.copy())
        pending: list[exp.Expr] = [holder.this]
        while pending:
            node = pending.pop()
            name = self._name(node)
            if name is not None:
                column = exp.column(exp.to_identifier(name, quoted=True))
                column.meta.update({key: node.meta[key] for key in ("start",) if key in node.meta})
                node.replace(column)
            elif isinstance(node, exp.Column) and node.table:
                what = f"'{render(node)}' is neither grouped nor aggregated"
                raise BindError(what, self._source.of(node), "Add it to GROUP BY, or put it into MIN or MAX.")
            else:
                pending += reversed(list(node.iter_expressions()))
        return as_expression(holder.this.pop())

    def _name(self, node: exp.Expr) -> str | None:
        if node in self._written_keys:
            return f"__k{self._written_keys.index(as_expression(node))}"
        if not is_aggregate(node):
            return None
        call = self._call(node)
        if call not in self.calls:
            self.calls.append(call)
        return f"__a{self.calls.index(call)}"

    def _call(self, node: exp.Expr) -> AggregateCall:
        function = cast("AggregateFunction", node.key.upper())
        argument = node.this
        if argument is None or node.expressions:
            raise BindError(f"{function} has one argument", self._source.of(node))
        for inner in argument.walk():
            if is_aggregate(inner):
                raise BindError(f"{function} stands around another aggregate", self._source.of(node))
            if isinstance(inner, exp.Column) and not inner.table:
                raise BindError(f"RESULT_TIME() stands inside {function}", self._source.of(node))
        if function == "COUNT" and isinstance(argument, (exp.Star, exp.Literal, exp.Boolean)):
            return AggregateCall("COUNT", None, None, pa.int64())
        checked = self._expressions.checked(as_expression(argument.copy()))
        kind = self._expressions.types.of(checked)
        return AggregateCall(function, checked, kind, self._result_type(function, kind, node))

    def _result_type(self, function: AggregateFunction, kind: pa.DataType, node: exp.Expr) -> pa.DataType:
        if function == "COUNT":
            return pa.int64()
        ordered = is_numeric(kind) or family(kind) in ("string", "binary", "boolean", "date", "timestamp", "time")
        if not ordered or (function in ("SUM", "AVG") and not is_numeric(kind)):
            what = f"{function} cannot take '{shorten(render(node.this))}' of type {describe(kind)}"
            hint = "It takes numbers." if function in ("SUM", "AVG") else "It takes values that have an order."
            raise BindError(what, self._source.of(node), hint)
        if function in ("MIN", "MAX"):
            return kind
        if pa.types.is_decimal(kind):
            return decimals.averaged(kind) if function == "AVG" else decimals.summed(kind)
        return pa.float64() if function == "AVG" or pa.types.is_floating(kind) else pa.int64()
