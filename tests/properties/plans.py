"""Random plan texts: left-deep and bushy trees, and linear orders."""

from __future__ import annotations

from collections.abc import Sequence

from tests.properties.pick import Pick


def a_plan(pick: Pick, aliases: Sequence[str], *, linear: bool) -> str:
    """Any plan that joins these aliases; a linear order only if it may be one."""
    form = pick.one("left-deep", "bushy", "linear") if linear and len(aliases) > 1 else pick.one("left-deep", "bushy")
    if form == "linear":
        orders = {head: pick.order([a for a in aliases if a != head]) for head in aliases}
        return "; ".join(f"{head}: {' '.join(order)}" for head, order in orders.items())
    order = pick.order(aliases)
    return left_deep(order) if form == "left-deep" else bushy(pick, order)


def left_deep(order: Sequence[str]) -> str:
    """The tree that joins in this order.

    >>> left_deep(["A", "B", "C"])
    '(A B) C'
    """
    text = order[0]
    for n, alias in enumerate(order[1:], 1):
        text = f"{text if n == 1 else f'({text})'} {alias}"
    return text


def bushy(pick: Pick, order: Sequence[str]) -> str:
    """A tree of any shape over the aliases in this order."""
    if len(order) == 1:
        return order[0]
    cut = 1 + pick.below(len(order) - 1)
    sides = [bushy(pick, side) for side in (order[:cut], order[cut:])]
    return " ".join(f"({side})" if " " in side else side for side in sides)


def a_difference(pick: Pick, aliases: Sequence[str]) -> str:
    """Any order of taking the other streams from the first, with or without parentheses."""
    first, *others = aliases
    nested = pick.chance(2)
    text = first
    for n, alias in enumerate(pick.order(others)):
        text = f"({text}) - {alias}" if nested and n > 0 else f"{text} - {alias}"
    return text
