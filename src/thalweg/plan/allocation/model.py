"""What a budget is divided over: the half-way joins of a plan, and the way of each stream's tuples through them.

A *half-way join* is one direction of a join: a partial result probes the partner's window or state (JAQPOT 2). The
tuples of a stream take a *path*: its half-way joins, from the stream to the result (JAQPOT, definition 3).

Paths that meet stay together: what two of them share, they share to the end. A tree gives such paths. In a linear plan
every path is on its own. So the half-way joins form a forest, and two facts follow which the algorithms rely on:

- the states on the paths are nested or disjoint;
- beyond a state, a tuple costs and yields the same, whichever stream it came from.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from thalweg.errors import AllocationError
from thalweg.plan.cost import productivity
from thalweg.plan.tree import Node, format_node


@dataclass(frozen=True, slots=True)
class StreamLoad:
    """A stream, as far as budgets are concerned.

    Attributes:
        name: what error texts call it.
        rate: tuples per second.
        window: tuples that its window holds.
        freshness: the seconds after which no result may hold a tuple of it; None: nothing was asked.

    """

    name: str
    rate: float
    window: float
    freshness: float | None = None

    @property
    def lifetime(self) -> float:
        """The seconds that a tuple stays in its window."""
        return self.window / self.rate


@dataclass(frozen=True, slots=True)
class HalfWayJoin:
    """One direction of a join: ``bound ⋉ target``.

    Attributes:
        bound: the streams of the partial results that probe.
        target: the streams of the window or state that they probe.
        selectivity: the share of pairs that join.
        partner: the entries of the target.
        profile: how the matches spread over equal segments of the target, the newest first; only their ratios count.
            Empty: nothing is known, so they are taken to spread evenly.
        cost: what a probe costs, counted in probes: more than one if it has to complete what the target lacks.

    """

    bound: Node
    target: Node
    selectivity: float
    partner: float
    profile: tuple[float, ...] = ()
    cost: float = 1.0

    @property
    def output(self) -> Node:
        """The streams of what it produces. Directions of one join produce the same."""
        return self.bound | self.target

    @property
    def productivity(self) -> float:
        """Matches per probe (JAQPOT, definition 1 and equation 3)."""
        return productivity(self.selectivity, self.partner)


@dataclass(frozen=True, slots=True)
class StateLoad:
    """A kept state: results come late out of it if too little goes into it. JAQPOT 4.2 calls it staleness susceptible.

    Attributes:
        node: its streams.
        size: its entries.

    """

    node: Node
    size: float


@dataclass(frozen=True, slots=True)
class AllocationModel:
    """A plan in numbers.

    Attributes:
        streams: in the order of the query.
        half_ways: the half-way joins, in any order.
        paths: per stream, its half-way joins as positions in ``half_ways``.
        states: the staleness susceptible states. A tree of k streams that keeps everything has k - 2 (lemma 2).

    """

    streams: tuple[StreamLoad, ...]
    half_ways: tuple[HalfWayJoin, ...]
    paths: tuple[tuple[int, ...], ...]
    states: tuple[StateLoad, ...] = ()

    def __post_init__(self) -> None:
        if len(self.streams) < 2 or len(self.paths) != len(self.streams):
            raise AllocationError(
                f"budget model: number of streams {len(self.streams)}, number of paths {len(self.paths)}. "
                "A join has at least two streams, and each of them one path."
            )
        for stream in self.streams:
            _check("rate", stream.name, stream.rate, stream.rate > 0)
            _check("window size", stream.name, stream.window, stream.window > 0)
            if stream.freshness is not None:
                _check("freshness", stream.name, stream.freshness, stream.freshness > 0)
        for half_way in self.half_ways:
            name = self.name_of(half_way)
            _check("productivity", name, half_way.productivity, half_way.productivity >= 0)
            valid = all(share >= 0 for share in half_way.profile) and (not half_way.profile or any(half_way.profile))
            _check("sum of match rates", name, math.fsum(half_way.profile), valid)
        for state in self.states:
            _check("size", self.state_name(state.node), state.size, state.size > 0)
        for head in range(len(self.streams)):
            self._check_path(head)
        self._check_meetings()

    def cardinalities(self, head: int) -> tuple[float, ...]:
        """Combinations per tuple of a stream: itself, then what each of its half-way joins makes of it (equation 5).

        The last one counts results.
        """
        grown = [1.0]
        for index in self.paths[head]:
            grown.append(grown[-1] * self.half_ways[index].productivity)
        return tuple(grown)

    def costs(self, head: int) -> tuple[float, ...]:
        """What each step costs that follows from one tuple of a stream (the parts of equation 6)."""
        grown = self.cardinalities(head)
        return tuple(self.half_ways[index].cost * each for index, each in zip(self.paths[head], grown, strict=False))

    def entry(self, head: int, node: Node) -> int | None:
        """The step of a path whose matches are entries of a state; None: it does not lead there."""
        for step, index in enumerate(self.paths[head]):
            if self.half_ways[index].output == node:
                return step
        return None

    def users(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """Per half-way join, the (stream, step) that it is."""
        found: list[list[tuple[int, int]]] = [[] for _ in self.half_ways]
        for head, path in enumerate(self.paths):
            for step, index in enumerate(path):
                found[index].append((head, step))
        return tuple(map(tuple, found))

    def from_below(self) -> tuple[int, ...]:
        """The positions of the half-way joins, each behind those that feed it."""
        return tuple(sorted(range(len(self.half_ways)), key=lambda index: len(self.half_ways[index].bound)))

    def name_of(self, half_way: HalfWayJoin) -> str:
        return f"{self.state_name(half_way.bound)} ⋉ {self.state_name(half_way.target)}"

    def state_name(self, node: Node) -> str:
        return format_node(node, [stream.name for stream in self.streams])

    def _check_path(self, head: int) -> None:
        bound: Node = frozenset((head,))
        for index in self.paths[head]:
            half_way = self.half_ways[index]
            if half_way.bound != bound or half_way.target & bound:
                raise AllocationError(
                    f"path of stream '{self.streams[head].name}': {self.name_of(half_way)} cannot follow "
                    f"where {self.state_name(bound)} is bound"
                )
            bound = half_way.output
        if len(bound) != len(self.streams):
            raise AllocationError(f"path of stream '{self.streams[head].name}' ends at {self.state_name(bound)}")
        if not math.isfinite(self.streams[head].rate * math.fsum(self.cardinalities(head))):
            raise AllocationError(
                f"path of stream '{self.streams[head].name}': more results than a number can hold. "
                "Check the selectivities."
            )

    def _check_meetings(self) -> None:
        for index, users in enumerate(self.users()):
            if len({self.paths[head][step:] for head, step in users}) != 1:
                name = self.name_of(self.half_ways[index])
                raise AllocationError(f"{name}: the paths that share it do not go on together, or there are none")
        for state in self.states:
            heads = sorted(state.node)
            entries = [self.entry(head, state.node) for head in heads]
            ends = {self.paths[h][step + 1 :] for h, step in zip(heads, entries, strict=True) if step is not None}
            if None in entries or len(ends) != 1 or () in ends:
                raise AllocationError(
                    f"state {self.state_name(state.node)}: the paths of its streams do not all lead through it"
                )


def _check(what: str, of: str, value: float, valid: bool) -> None:
    if not (valid and math.isfinite(value)):
        raise AllocationError(
            f"budget model: the {what} of {of} is {value!r}. It has to be finite, and more than nothing."
        )


def check_budget(budget: float) -> None:
    """A budget is a number of probes per second, 0 to any."""
    if not budget >= 0:
        raise AllocationError(f"budget: {budget!r} is not a number of probes per second. Give 0 or more.")


def names_of(count: int) -> Sequence[str]:
    """What streams are called that were given no names: A, B, ..."""
    return [chr(ord("A") + i) if i < 26 else f"S{i}" for i in range(count)]
