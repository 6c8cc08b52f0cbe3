"""What expressions and predicates mean: SQL's three-valued logic over Python values.

Comparisons follow Spark and DuckDB: NULL makes a comparison unknown, NaN equals itself and
is greater than every other number, and -0.0 equals 0.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from tests.expressions import (
    Abs,
    Arith,
    Between,
    Cmp,
    Either,
    Expr,
    In,
    Interval,
    IsNull,
    Lit,
    Not,
    Pred,
    StartsWith,
    Value,
)

Env = Mapping[Expr, Value]
"""What columns, aggregate calls and RESULT_TIME() stand for."""


def evaluate(expr: Expr, env: Env) -> Value:
    if isinstance(expr, Lit):
        return expr.value
    if isinstance(expr, Interval):
        return expr.us
    if expr in env:
        return env[expr]
    if isinstance(expr, Abs):
        inner: Any = evaluate(expr.inner, env)
        return None if inner is None else abs(inner)
    assert isinstance(expr, Arith), f"{expr} has no value here"
    left: Any = evaluate(expr.left, env)
    right: Any = evaluate(expr.right, env)
    if left is None or right is None:
        return None
    result: Value = left - right if expr.op == "-" else left + right
    return result


def holds(pred: Pred, env: Env) -> bool:
    """Whether the predicate is true; unknown is not."""
    return truth(pred, env) is True


def truth(pred: Pred, env: Env) -> bool | None:
    """True, false or (None) unknown."""
    if isinstance(pred, Cmp):
        return compare(pred.op, evaluate(pred.left, env), evaluate(pred.right, env))
    if isinstance(pred, Between):
        inner = evaluate(pred.inner, env)
        above = compare(">=", inner, evaluate(pred.low, env))
        below = compare("<=", inner, evaluate(pred.high, env))
        return negation(either(negation(above), negation(below)))
    if isinstance(pred, IsNull):
        return evaluate(pred.inner, env) is None
    if isinstance(pred, In):
        found: bool | None = False
        for choice in pred.choices:
            found = either(found, compare("=", evaluate(pred.inner, env), choice.value))
        return found
    if isinstance(pred, StartsWith):
        text = evaluate(pred.inner, env)
        return None if text is None else str(text).startswith(pred.prefix)
    if isinstance(pred, Not):
        return negation(truth(pred.inner, env))
    assert isinstance(pred, Either)
    return either(truth(pred.left, env), truth(pred.right, env))


def compare(op: str, left: Value, right: Value) -> bool | None:
    if op == "<=>":
        return identity(left) == identity(right)
    if left is None or right is None:
        return None
    a: Any = order(left)
    b: Any = order(right)
    outcomes: dict[str, bool] = {"=": a == b, "<>": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}
    return outcomes[op]


def order(value: Value) -> tuple[bool, Value]:
    """A sort key with NaN above every number."""
    return (True, 0) if value != value else (False, value)


def identity(value: Value) -> tuple[str, Value]:
    """Equal for equal values, NULL and NaN included; of one column, so of one type."""
    if value is None or value != value:
        return (repr(value), None)
    return ("value", value)


def either(left: bool | None, right: bool | None) -> bool | None:
    if left is True or right is True:
        return True
    return None if left is None or right is None else False


def negation(value: bool | None) -> bool | None:
    return None if value is None else not value


def sql(node: Expr | Pred) -> str:
    """The same as DuckDB SQL, over tables that hold timestamps as integers."""
    if isinstance(node, Lit):
        if isinstance(node.value, bytes):
            return f"from_hex('{node.value.hex()}')"
        if node.type in ("double", "float"):
            return f"CAST('{node.value}' AS DOUBLE)"
        if node.type == "timestamp" or isinstance(node.value, Decimal):
            return str(node.value)
        return node.cql()
    if isinstance(node, Interval):
        return str(node.us)
    if isinstance(node, Abs):
        return f"abs({sql(node.inner)})"
    if isinstance(node, Arith):
        return f"({sql(node.left)} {node.op} {sql(node.right)})"
    if isinstance(node, Cmp):
        op = "IS NOT DISTINCT FROM" if node.op == "<=>" else node.op
        return f"({sql(node.left)} {op} {sql(node.right)})"
    if isinstance(node, Between):
        return f"({sql(node.inner)} BETWEEN {sql(node.low)} AND {sql(node.high)})"
    if isinstance(node, IsNull):
        return f"({sql(node.inner)} IS NULL)"
    if isinstance(node, In):
        return f"({sql(node.inner)} IN ({', '.join(map(sql, node.choices))}))"
    if isinstance(node, StartsWith):
        return f"({sql(node.inner)} LIKE '{node.prefix}%')"
    if isinstance(node, Not):
        return f"(NOT {sql(node.inner)})"
    if isinstance(node, Either):
        return f"({sql(node.left)} OR {sql(node.right)})"
    return node.cql().replace("`", '"')
