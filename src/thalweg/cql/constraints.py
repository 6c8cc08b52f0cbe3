"""How far apart in time the components of a result can be.

Windows and interval predicates are both bounds on differences of event times:

    t_later - t_earlier <= limit                                  (whole microseconds)

``[RANGE w]`` of stream x says that nothing in a result comes ``w`` or more after x's
tuple: ``t_y - t_x <= w - 1`` for every y. A system of such bounds is a weighted graph. Its
shortest paths are the tightest bounds that follow from all of them together, and
a negative cycle means that no result can exist. A stream without a window gets the least
one that loses nothing: as long as the latest partner that the bounds allow. Nothing of a static relation comes after
anything: ``t_relation - t_x <= 0``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Differences = tuple[tuple[int | None, ...], ...]
"""``differences[x][y]``: the largest ``t_y - t_x`` of a result; None if nothing bounds it."""


@dataclass(frozen=True, slots=True)
class Bound:
    """``t_later - t_earlier <= limit``, and the text that says so."""

    earlier: int
    later: int
    limit: int
    why: str = ""


def window_bounds(streams: int, stream: int, width_us: int, why: str = "") -> list[Bound]:
    """The bounds that a window of ``width_us`` puts on what comes after its stream's tuple."""
    return [Bound(stream, other, width_us - 1, why) for other in range(streams) if other != stream]


def static_bounds(streams: int, relation: int) -> list[Bound]:
    """The bounds on a static relation, which was there before every tuple."""
    return [Bound(other, relation, 0) for other in range(streams) if other != relation]


def closure(streams: int, bounds: Sequence[Bound]) -> Differences:
    """The tightest bounds that follow (Floyd and Warshall); there must be no contradiction.

    >>> closure(3, [Bound(0, 1, 5), Bound(1, 2, 7)])
    ((0, 5, 12), (None, 0, 7), (None, None, 0))
    """
    limits: list[list[int | None]] = [[0 if x == y else None for y in range(streams)] for x in range(streams)]
    for bound in bounds:
        limits[bound.earlier][bound.later] = _least(limits[bound.earlier][bound.later], bound.limit)
    for via in range(streams):
        for x in range(streams):
            first = limits[x][via]
            if first is None:
                continue
            for y in range(streams):
                second = limits[via][y]
                if second is not None:
                    limits[x][y] = _least(limits[x][y], first + second)
    return tuple(tuple(row) for row in limits)


def contradiction(streams: int, bounds: Sequence[Bound]) -> list[Bound]:
    """Bounds that exclude each other (a negative cycle, by Bellman and Ford); empty if all can hold.

    >>> [bound.why for bound in contradiction(2, [Bound(0, 1, -1, "b before a"), Bound(1, 0, 0, "a not after b")])]
    ['b before a', 'a not after b']
    """
    distance = [0] * streams
    reached_by = [-1] * streams  # the bound that last lowered a stream's distance
    improved = -1
    for _ in range(streams):
        improved = -1
        for number, bound in enumerate(bounds):
            if distance[bound.earlier] + bound.limit < distance[bound.later]:
                distance[bound.later] = distance[bound.earlier] + bound.limit
                reached_by[bound.later] = number
                improved = bound.later
        if improved < 0:
            return []
    start = improved
    for _ in range(streams):  # walk back far enough to stand on the cycle
        start = bounds[reached_by[start]].earlier
    cycle = [bounds[reached_by[start]]]
    while cycle[-1].earlier != start:
        cycle.append(bounds[reached_by[cycle[-1].earlier]])
    return cycle[::-1]


def latest_partner(differences: Differences, stream: int) -> int | None:
    """How long after a tuple of ``stream`` a partner can come (0: none later); None: for ever."""
    limits = differences[stream]
    if any(limit is None for limit in limits):
        return None
    return max(0, *(limit for limit in limits if limit is not None), 0)


def _least(one: int | None, other: int) -> int:
    return other if one is None else min(one, other)
