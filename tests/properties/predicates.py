"""Random predicates: equalities, theta and interval predicates between items, selections, residuals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from tests.cases import TIME
from tests.expressions import (
    Abs,
    Arith,
    Between,
    Cmp,
    Col,
    Either,
    Expr,
    In,
    Interval,
    IsNull,
    Lit,
    Not,
    Pred,
    StartsWith,
)
from tests.properties.sketch import Sketch

EdgeKind = Literal["key", "composite", "theta", "time"]


def edges(sketch: Sketch, kinds: Sequence[EdgeKind]) -> list[Pred]:
    """Link every item to an earlier one, and perhaps more pairs: chains, stars, cycles."""
    pick, aliases = sketch.pick, sketch.aliases
    shape = pick.one("chain", "star", "any")
    predicates: list[Pred] = []
    for s in range(1, len(aliases)):
        if len(aliases) <= 3 and pick.chance(20):
            continue  # nothing links this one: a cross product
        parent = s - 1 if shape == "chain" else 0 if shape == "star" else pick.below(s)
        predicates += edge(sketch, pick.one(*kinds), aliases[parent], aliases[s])
    for _ in range(pick.one(0, 0, 1, 2) if len(aliases) < 5 else pick.one(0, 0, 0, 1)):
        left, right = pick.one(*aliases), pick.one(*aliases)
        if left != right:
            predicates += edge(sketch, pick.one(*kinds), left, right)
    return predicates


def edge(sketch: Sketch, kind: EdgeKind, left: str, right: str) -> list[Pred]:
    pick = sketch.pick
    if kind == "theta":
        return [theta(sketch, Col(left, sketch.number.name), Col(right, sketch.number.name))]
    if kind == "time" and pick.chance(6):
        return [Cmp("=", Col(left, TIME), Col(right, TIME))]
    if kind == "time":
        return [compared(sketch, Col(left, TIME), Col(right, TIME), Interval(sketch.clock.span(pick)))]
    predicates: list[Pred] = []
    for c in range(len(sketch.keys)) if kind == "composite" else [pick.below(len(sketch.keys))]:
        op = pick.one("=", "<=>") if sketch.key_ops[c] == "either" else sketch.key_ops[c]
        predicates.append(Cmp(op, Col(left, sketch.keys[c].name), Col(right, sketch.keys[c].name)))
    return predicates


def theta(sketch: Sketch, left: Col, right: Col) -> Pred:
    pick, family = sketch.pick, sketch.number.family
    if family == "timestamp":
        return compared(sketch, left, right, Interval(sketch.clock.span(pick)))
    if family in ("double", "number"):
        return compared(sketch, left, right, Lit(pick.one(1.0, 0.5, 2.0), "double"))
    return compared(sketch, left, right, Lit(pick.one(1, 2), "int64"))


def compared(sketch: Sketch, left: Col, right: Col, offset: Expr) -> Pred:
    """One column against the other, perhaps moved by the offset, or their difference against the offset."""
    pick = sketch.pick
    form = pick.one("plain", "moved", "between", "subtracted", "distance")
    if form == "between":
        return Between(left, Arith("-", right, offset) if pick.chance(2) else right, Arith("+", right, offset))
    if form == "plain":
        return Cmp(pick.one("<", "<=", ">", ">=", "<>"), left, right)
    op = pick.one("<", "<=", ">", ">=")
    if form == "moved":
        return Cmp(op, left, Arith(pick.one("+", "-"), right, offset))
    gap = Arith("-", left, right)
    return Cmp(op, Abs(gap) if form == "distance" else gap, offset)


def interval(sketch: Sketch, time: Col, other: Col, *, both_sides: bool) -> Pred:
    """A bound on how much later than ``time`` the other may be, perhaps also on how much earlier."""
    pick = sketch.pick
    low = Arith("-", other, Interval(sketch.clock.span(pick)))
    if both_sides or pick.chance(2):
        return Between(time, low, Arith("+", other, Interval(sketch.clock.span(pick))) if pick.chance(2) else other)
    return Cmp(pick.one(">=", ">"), time, low)


def selection(sketch: Sketch, alias: str) -> Pred:
    """A predicate on one item; its literals are values that occur."""
    pick, source = sketch.pick, sketch.source(alias)
    name, type_ = pick.one(*source.columns)
    column = Col(alias, name)
    if type_ == "string" and pick.chance(3):
        return StartsWith(column, "a")
    present = {row[source.position(name)] for row in source.rows}
    values = sorted((v for v in present if v is not None and v == v), key=repr)
    if not values or pick.chance(5):
        return IsNull(column) if None in present and pick.chance(2) else Not(IsNull(column))
    literal = Lit(pick.one(*values), type_)
    form = pick.one("not equal", "compare", "in", "not", "or")
    if form == "not equal":
        return Cmp("<>", column, literal)
    if form == "in":
        return In(column, (literal, Lit(pick.one(*values), type_)))
    compare = Cmp("=" if type_ == "bool" else pick.one(">=", "<=", "<", ">", "="), column, literal)
    if form == "not":
        return Not(compare)
    return Either(compare, IsNull(column)) if form == "or" else compare


def residual(sketch: Sketch) -> Pred:
    """A predicate over several items that is neither an equality nor a theta predicate."""
    pick = sketch.pick
    if sketch.number.family != "timestamp" and pick.chance(2):
        total = Arith("+", sketch.a_number(), sketch.a_number())
        limit: Expr = Lit(2, "int64")
        return Cmp("<=", total, Arith("+", sketch.a_number(), limit) if pick.chance(2) else limit)
    return Either(selection(sketch, sketch.aliases[0]), selection(sketch, sketch.aliases[-1]))
