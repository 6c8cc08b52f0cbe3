"""Which paths refresh the states, for as few probes as possible (JAQPOT 4.2, problem 2).

A state is *covered* if at least so many entries per second go into it. A path covers every state that it leads through.
Both functions return the tuples per second of each stream that have to go all the way.

- :func:`greedy_cover` is what the paper uses: GH-WMSCP, a greedy algorithm for the weighted multiple set cover problem.
  In whole units that problem is NP-hard.
- :func:`least_cover` is exact. Fractions of a unit are allowed here, and the paths of a plan meet and stay together
  (:mod:`.model`). That makes the problem easy: from the smallest state upwards, raise the path that enters it for the
  fewest probes. Beyond a state all paths cost and yield the same. So those that are cheapest for it are so above it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from thalweg.plan.allocation.model import AllocationModel
from thalweg.plan.allocation.path_table import path_table
from thalweg.plan.tree import Node

Cover = Callable[[AllocationModel, Mapping[Node, float]], tuple[float, ...]]
"""From the model and the entries per second that each state needs, to the tuples per second of each stream."""

CLOSE = 1e-9
"""A state is covered if this share of what it needs is missing, or less: sums of floats are not exact."""


def least_cover(model: AllocationModel, refresh: Mapping[Node, float]) -> tuple[float, ...]:
    """The cover with the fewest probes. O(k²) for k streams."""
    entries = entries_per_tuple(model)
    costs = [row.probes_per_tuple for row in path_table(model)]
    leaves = [0.0] * len(costs)
    for node in sorted(refresh, key=len):
        missing = refresh[node] - math.fsum(leaves[head] * entries[head, node] for head in node)
        cheapest = sorted((costs[head] / entries[head, node], head) for head in node if entries[head, node] > 0)
        for _, head in cheapest:
            more = min(max(missing, 0.0) / entries[head, node], model.streams[head].rate - leaves[head])
            leaves[head] += more
            missing -= more * entries[head, node]
    return tuple(leaves)


def greedy_cover(model: AllocationModel, refresh: Mapping[Node, float]) -> tuple[float, ...]:
    """GH-WMSCP (Yang and Leung): again and again the path that covers most per probe.

    What a path covers is counted as shares of what the states need. The chosen path is raised until a further state is
    covered, or until its stream's rate is used up. O(m + k) choices among k paths over m states.
    """
    entries = entries_per_tuple(model)
    rows = path_table(model)
    leaves = [0.0] * len(rows)
    missing = {node: rate for node, rate in refresh.items() if rate > 0}
    while missing:
        offers = []
        for row in rows:
            helps = {node: entries.get((row.head, node), 0.0) for node in missing}
            gain = math.fsum(each / refresh[node] for node, each in helps.items())
            if gain > 0 and leaves[row.head] < model.streams[row.head].rate:
                offers.append((gain / row.probes_per_tuple, -row.head, helps))
        if not offers:
            break
        _, negative, helps = max(offers, key=lambda offer: offer[:2])
        head, rate = -negative, model.streams[-negative].rate
        steps = [missing[node] / each for node, each in helps.items() if each > 0]
        leaves[head] = min(rate, leaves[head] + min(steps))
        for node in helps:
            missing[node] = refresh[node] - math.fsum(leaves[h] * entries[h, node] for h in node)
        missing = {node: rate for node, rate in missing.items() if rate > CLOSE * refresh[node]}
    return tuple(leaves)


def entries_per_tuple(model: AllocationModel) -> dict[tuple[int, Node], float]:
    """(stream, state): the entries that one tuple of the stream makes in the state, on its way."""
    found: dict[tuple[int, Node], float] = {}
    for head in range(len(model.streams)):
        grown = model.cardinalities(head)
        for state in model.states:
            step = model.entry(head, state.node)
            if step is not None:
                found[head, state.node] = grown[step + 1]
    return found


def cost_of(model: AllocationModel, leaves: tuple[float, ...]) -> float:
    """The probes per second of a cover (equation 11)."""
    return math.fsum(leaf * row.probes_per_tuple for leaf, row in zip(leaves, path_table(model), strict=True))
