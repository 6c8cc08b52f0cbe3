"""From the freshness that was asked of streams to the refresh rates of states (JAQPOT 4.2).

A tuple stays in its window for a while, and what it is part of in every state on its path. By Little's law that takes
``size / inserts per second`` each time. Freshness holds if the sum is at most what was asked (lemma 1).

The lemma bounds the sum. It leaves open how a path divides what is over among its states. Here all states of a path are
slowed down by the same factor, and a state follows the path that allows it least. So predicates are met if and only if
they can be met with nothing refused.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from thalweg.errors import FreshnessError
from thalweg.plan.allocation.flows import unlimited
from thalweg.plan.allocation.model import AllocationModel
from thalweg.plan.tree import Node

CLOSE = 1e-9
"""A predicate that is missed by this share of it, or less, is met: sums of floats are not exact."""


def residence(model: AllocationModel, entries: Mapping[Node, float]) -> tuple[float, ...]:
    """Per stream, for how many seconds its tuples can be part of something (lemma 1).

    ``entries``: per state, the entries that are inserted per second.
    """
    return tuple(stream.lifetime + time for stream, time in zip(model.streams, in_states(model, entries), strict=True))


def in_states(model: AllocationModel, entries: Mapping[Node, float]) -> tuple[float, ...]:
    """The part of it that is spent in states."""
    times = {
        state.node: state.size / entries[state.node] if entries[state.node] else math.inf for state in model.states
    }
    return tuple(math.fsum(time for node, time in times.items() if head in node) for head in range(len(model.streams)))


def least_freshness(model: AllocationModel) -> tuple[float, ...]:
    """Per stream, the shortest freshness that the plan can give: nothing is refused."""
    return residence(model, unlimited(model).entries(model))


def refresh_rates(model: AllocationModel, relaxed: float = 1.0) -> dict[Node, float]:
    """Per state, the entries per second that keep the streams as fresh as was asked (definition 5).

    ``relaxed``: the factor by which all that was asked is relaxed.
    """
    full = unlimited(model).entries(model)
    slower: list[float] = []
    for head, (stream, inside) in enumerate(zip(model.streams, in_states(model, full), strict=True)):
        if stream.freshness is None:
            slower.append(math.inf)
            continue
        asked = stream.freshness * relaxed
        if stream.lifetime + inside > asked * (1 + CLOSE):
            raise _too_fresh(model, head)
        slower.append((asked - stream.lifetime) / inside if inside else math.inf)
    return {node: rate / max(1.0, min(slower[head] for head in node)) for node, rate in full.items()}


def _too_fresh(model: AllocationModel, head: int) -> FreshnessError:
    stream, least = model.streams[head], least_freshness(model)
    return FreshnessError(
        f"freshness of stream '{stream.name}': {stream.freshness:g} s cannot be held by this plan with any budget. "
        f"The least that it can hold: {named(model, least)}.",
        least,
    )


def named(model: AllocationModel, seconds: Sequence[float]) -> str:
    """The freshness of every stream for which one was asked."""
    pairs = zip(model.streams, seconds, strict=True)
    return ", ".join(f"{stream.name} {value:.6g} s" for stream, value in pairs if stream.freshness is not None)
