"""How far the streams have moved since plans were last compared."""

from __future__ import annotations

import math
from itertools import combinations

from thalweg.plan.join_graph import JoinGraph
from thalweg.plan.statistics import Statistics

_FEW = 0.5
"""Partners per probe below which it hardly matters how few they are."""


def drift(graph: JoinGraph, before: Statistics, after: Statistics) -> float:
    """How far the streams have moved: the logarithm of the largest factor among all that matters to a plan."""
    pairs = [(a, b, 0.05) for a, b in zip(_rate_shares(before), _rate_shares(after), strict=True)]
    pairs += [(a, b, 1.0) for a, b in zip(before.windows, after.windows, strict=True)]
    pairs += [(a, b, 0.05) for a, b in zip(before.thetas, after.thetas, strict=True)]
    for cls, members in enumerate(graph.classes):
        for one, other in combinations(sorted(members), 2):
            pairs.append((_partners(before, cls, one, other), _partners(after, cls, one, other), _FEW))
    return max(_moved(*pair) for pair in pairs)


def _rate_shares(known: Statistics) -> list[float]:
    return [rate / sum(known.rates) for rate in known.rates]


def _partners(known: Statistics, cls: int, a: int, b: int) -> float:
    agreeing = known.in_common(cls, a, b) / (known.distinct[cls][a] * known.distinct[cls][b])
    return agreeing * max(known.windows[a], known.windows[b])


def _moved(before: float, after: float, floor: float) -> float:
    """The logarithm of a factor; what is far below the floor counts as small, however small it is."""
    return abs(math.log((after + floor) / (before + floor)))
