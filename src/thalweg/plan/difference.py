"""Plans of set differences: the order in which streams are taken from the first one (JISC 4.7).

A plan is written as people write it, with or without parentheses::

    ((A - B) - C) - D
    A - B - C - D

When the plan changes, its intermediate differences (``A - B``, ``A - B - C``) move like the states of a left-deep
join, as :func:`~thalweg.plan.transition.classify` says. The engine keeps none of them, for a reason that
:mod:`thalweg.engine.difference` gives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from thalweg.errors import PlanError
from thalweg.plan.tree import Node, Plan, format_plan, position_of, quoted, read_tokens


@dataclass(frozen=True, slots=True)
class DifferencePlan:
    """``order``: the streams that are taken from stream 0, one after the other."""

    order: tuple[int, ...]

    @property
    def streams(self) -> tuple[int, ...]:
        """All streams, as the text has them."""
        return (0, *self.order)

    @property
    def intermediate(self) -> tuple[Node, ...]:
        """The differences below the result: what is left after the first streams were taken away."""
        return tuple(frozenset(self.streams[:count]) for count in range(2, len(self.streams)))


AnyPlan = Plan | DifferencePlan


def as_written(streams: int) -> DifferencePlan:
    """The plan that takes the streams away in the order of the query."""
    return DifferencePlan(tuple(range(1, streams)))


def format_any(plan: AnyPlan, aliases: Sequence[str]) -> str:
    """The text of a plan of either kind.

    >>> format_any(DifferencePlan((2, 1)), ["a", "b", "c"])
    'a - c - b'
    """
    if isinstance(plan, DifferencePlan):
        return " - ".join(quoted(aliases[stream]) for stream in plan.streams)
    return format_plan(plan, aliases)


def parse_difference(text: str, aliases: Sequence[str]) -> DifferencePlan:
    """Read the plan of a set difference with these aliases.

    >>> parse_difference("(a - c) - b", ["a", "b", "c"])
    DifferencePlan(order=(2, 1))
    """
    remedy = f"Write it like '{format_any(as_written(len(aliases)), aliases)}'."
    streams: list[int] = []
    opened, wants_stream = 0, True
    for token in read_tokens(text):
        is_minus = token.is_name and token.text == "-"
        if wants_stream and token.is_name and not is_minus:
            streams.append(position_of(token.text, text, aliases))
            wants_stream = False
        elif wants_stream and token.text == "(" and not streams:
            opened += 1
        elif not wants_stream and is_minus:
            wants_stream = True
        elif not wants_stream and token.text == ")" and opened:
            opened -= 1
        else:
            raise PlanError(f"plan '{text}': '{token.text}' has no place there in a set difference. {remedy}")
    if wants_stream or opened:
        raise PlanError(f"plan '{text}': it ends too early. {remedy}")
    if sorted(streams) != list(range(len(aliases))) or streams[0] != 0:
        raise PlanError(
            f"plan '{text}': a set difference takes every other stream of the query once from '{aliases[0]}'. {remedy}"
        )
    return DifferencePlan(tuple(streams[1:]))
