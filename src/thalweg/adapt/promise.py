"""What a tuple would cost if joins asked for parts that somebody needs: feedback's promise.

The chance that a tuple has no partner follows from what the windows hold and how often their values meet (from a
sample, as if columns were independent), and so does the price of finding it out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from thalweg.adapt.prices import asking_price
from thalweg.engine.kernels.compiled import Int64s
from thalweg.engine.observations import Glimpse
from thalweg.engine.rows.layout import StreamLayout
from thalweg.plan.cost import DEFAULT_COSTS, Costs
from thalweg.plan.demand import Demands
from thalweg.plan.program import Demand, Program, Programs

SAMPLE = 256
"""Tuples of each window in a look: enough to tell how often values meet."""
_MULTIPLIER = 0x5851F42D4C957F2D
"""Mixes the codes of several columns into one; odd, and larger than they are far apart."""


class Promise:
    """What a tuple would cost if joins asked for parts."""

    def __init__(
        self,
        glimpse: Glimpse,
        layouts: Sequence[StreamLayout],
        programs: Programs,
        demands: Demands,
        costs: Costs = DEFAULT_COSTS,
    ) -> None:
        self._held = [window.held for window in glimpse.windows]
        self._words = [window.words for window in glimpse.windows]
        self._arrived = [window.arrived for window in glimpse.windows]
        self._layouts = layouts
        self._programs = programs
        self._demands = demands
        self._costs = costs
        self._met: dict[tuple[int, int, int], float] = {}

    def cost(self, now: float) -> float:
        """Per tuple, given what it costs ``now``."""
        total = sum(self._arrived)
        if not total or min(self._held, default=0) <= 0:
            return math.inf
        shares = [arrived / total for arrived in self._arrived]
        ways = [self._way(stream) for stream in range(len(shares))]
        scale = now / sum(share * way for share, way in zip(shares, ways, strict=True))
        return sum(
            share * self._of_stream(stream, scale * ways[stream]) for stream, share in enumerate(shares) if share
        )

    def _way(self, stream: int) -> float:
        """What the program of a stream costs a tuple, by the model."""
        tuples, cost, seen = 1.0, self._costs.base, [stream]
        for probe, stores in self._programs.heads[stream].stored_probes():
            found = 1.0
            for other in sorted(probe.target):
                found *= self._matches(seen, other)
                seen.append(other)
            cost += tuples * (self._costs.probe + found * self._costs.candidate)
            tuples *= found
            cost += tuples * (self._costs.store if stores is not None else 0.0)
        return cost

    def _of_stream(self, stream: int, now: float) -> float:
        demanded, asking = 1.0, 0.0
        for gate in self._demands.gates[stream]:
            demand = self._demands.demands[gate.demand]
            if gate.depth < 0 and demand.key:
                test = self._search(stream, demand.witness) + asking_price(1, 0)
                asking += demanded * self._novelty(stream, demand.key) * test
                demanded *= 1 - math.exp(-self._partners(stream, demand))
        return demanded * now + asking + asking_price(0, 1)

    def _novelty(self, stream: int, key: Sequence[int]) -> float:
        """The share of tuples with values that nothing is remembered of.

        A sample that has many of its values more than once has nearly all that the window has.
        """
        first, *others = (self._words[stream][:, self._layouts[stream].codes[attribute]] for attribute in key)
        for column in others:
            first = first * _MULTIPLIER ^ column
        distinct = _distinct(np.sort(first))
        return distinct / max(1.0, self._held[stream] if 2 * distinct <= len(first) else len(first))

    def _partners(self, stream: int, demand: Demand) -> float:
        """How many combinations a tuple is expected to find."""
        expected, seen = 1.0, [stream]
        for other in demand.others:
            expected *= self._matches(seen, other)
            seen.append(other)
        return expected

    def _matches(self, seen: Sequence[int], other: int) -> float:
        matches = self._held[other]
        for attribute in self._layouts[other].codes:
            carrier = next((s for s in seen if attribute in self._layouts[s].codes), None)
            if carrier is not None:
                matches *= self._meeting(attribute, carrier, other)
        return matches

    def _search(self, stream: int, witness: Program) -> float:
        """What it costs to look for one."""
        tuples, cost, seen = 1.0, 0.0, [stream]
        for probe in witness.probes:
            (other,) = probe.target
            candidates = self._matches(seen, other)
            cost += tuples * (self._costs.probe + candidates * self._costs.candidate)
            tuples *= candidates
            seen.append(other)
        return cost

    def _meeting(self, attribute: int, one: int, other: int) -> float:
        """The share of pairs of tuples, one of each stream, that agree on an attribute class."""
        known = self._met.get((attribute, one, other))
        if known is None:
            known = _agreement(*(self._words[s][:, self._layouts[s].codes[attribute]] for s in (one, other)))
            self._met[attribute, one, other] = self._met[attribute, other, one] = known
        return known


def _distinct(ordered: Int64s) -> int:
    return int(np.count_nonzero(ordered[1:] != ordered[:-1])) + (len(ordered) > 0)


def _agreement(one: Int64s, other: Int64s) -> float:
    ordered = np.sort(other)
    matches = np.searchsorted(ordered, one, "right") - np.searchsorted(ordered, one, "left")
    return float(matches.sum()) / max(1, len(one) * len(other))
