"""What flows through a plan when half-way joins refuse what they have no allowance for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from thalweg.plan.allocation.model import AllocationModel
from thalweg.plan.tree import Node

Steps = tuple[tuple[float, ...], ...]
"""[stream][step]: a number for every step of every stream's program."""


@dataclass(frozen=True, slots=True)
class Flows:
    """Per stream and step, what happens per second.

    Attributes:
        probes: work that is paid for. A probe that looks at a part of its target counts as that part.
        matches: what comes out; of the last step, results.

    """

    probes: Steps
    matches: Steps

    @property
    def paid(self) -> float:
        """All probes per second."""
        return math.fsum(map(math.fsum, self.probes))

    @property
    def results(self) -> float:
        """Results per second."""
        return math.fsum(path[-1] for path in self.matches)

    def entries(self, model: AllocationModel) -> dict[Node, float]:
        """What is inserted per second into each of the model's states: inserts are never refused."""
        found: dict[Node, float] = {}
        for state in model.states:
            steps = [(head, model.entry(head, state.node)) for head in sorted(state.node)]
            found[state.node] = math.fsum(self.matches[head][step] for head, step in steps if step is not None)
        return found


def flows_of_leaves(model: AllocationModel, leaves: Sequence[float]) -> Flows:
    """So many tuples of each stream go all the way: whatever one step produces, the next one may probe with.

    JAQPOT 4.1 calls this the match of producer and consumer.
    """
    probes = tuple(tuple(leaf * each for each in model.costs(head)) for head, leaf in enumerate(leaves))
    grown = [[leaf * each for each in model.cardinalities(head)] for head, leaf in enumerate(leaves)]
    return Flows(probes, tuple(tuple(path[1:]) for path in grown))


def unlimited(model: AllocationModel) -> Flows:
    """Nothing is refused."""
    return flows_of_leaves(model, [stream.rate for stream in model.streams])


def saturation(model: AllocationModel) -> float:
    """The budget from which on nothing is refused (JAQPOT 5.1)."""
    return unlimited(model).paid


def needs(model: AllocationModel) -> tuple[float, ...]:
    """Per half-way join, its probes per second if nothing is refused."""
    full = unlimited(model)
    return tuple(math.fsum(full.probes[head][step] for head, step in users) for users in model.users())


def limited(model: AllocationModel, allowances: Sequence[float]) -> tuple[Flows, Steps]:
    """What flows if each half-way join may make so many probes, and the allowances divided among the streams.

    Streams that share a half-way join get of its allowance what they have of its input.
    """
    full = unlimited(model)
    offered = [[stream.rate, *[0.0] * len(path)] for stream, path in zip(model.streams, model.paths, strict=True)]
    paid = [[0.0] * len(path) for path in model.paths]
    granted = [[0.0] * len(path) for path in model.paths]
    users = model.users()
    for index in model.from_below():
        allowance, growth, cost = allowances[index], model.half_ways[index].productivity, model.half_ways[index].cost
        asked = [offered[head][step] * cost for head, step in users[index]]
        # Without input the division is that of the full input. It does not matter then, but it has to add up.
        weights = asked if any(asked) else [full.probes[head][step] or 1.0 for head, step in users[index]]
        scale = allowance / math.fsum(weights)
        for (head, step), want, weight in zip(users[index], asked, weights, strict=True):
            granted[head][step] = weight * scale
            paid[head][step] = min(want, granted[head][step])
            offered[head][step + 1] = paid[head][step] / cost * growth
    matches = tuple(tuple(path[1:]) for path in offered)
    return Flows(tuple(map(tuple, paid)), matches), tuple(map(tuple, granted))
