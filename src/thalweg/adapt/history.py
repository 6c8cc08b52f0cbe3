"""Which plans a bucket has run under, since when and why, and how their states have filled.

A history lives with the engine whose states it tells of. What the input alone has decided (the first plan, and those by
command) is also part of what a bucket commits with every batch, so it survives a restart. A history is bounded, so the
oldest stretches are forgotten in time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from thalweg.engine.observations import StoreSize
from thalweg.plan.tree import format_node

_PERIODS = 16
"""Stretches that are remembered."""
_COURSE = 8
"""Points at which the keys of a state are remembered; between them, every other one is forgotten in time."""


@dataclass(slots=True)
class StateProgress:
    """A kept state: whether it began complete, what it held when it was last seen, and how it got there.

    ``live_keys`` are the keys that are complete by then; None: all are, and ``completed_at`` says after which tuple of
    the bucket that was seen. ``course``: (tuple, live keys), from the first to the last look, a few in between.
    """

    state: str
    complete_at_start: bool
    entries: int
    live_keys: int | None
    completed_at: int | None = None
    course: list[list[int]] = field(default_factory=list)

    def seen(self, position: int, size: StoreSize) -> None:
        """Be what the state was after so many tuples."""
        if size.live_keys is None and self.live_keys is not None:
            self.completed_at = position
        self.entries, self.live_keys = size.tuples, size.live_keys
        if size.live_keys is not None:
            self.completed_at = None  # want of memory, or a restart, makes keys absent again
            self.course.append([position, size.live_keys])
            if len(self.course) > _COURSE:
                self.course = [*self.course[:-1:2], self.course[-1]]


@dataclass(slots=True)
class Period:
    """A stretch under one plan: its first batch, the tuples processed before it, and why it began.

    ``time``: the event time that was reached, in microseconds since 1970, if there was one. ``lasts``: the input alone
    decided on it, so it is committed with its batch.
    """

    batch: int
    position: int
    plan: str
    reason: str
    states: list[StateProgress] = field(default_factory=list)
    time: int | None = None
    lasts: bool = False


class History:
    """The plans of one bucket; ``changes`` counts them all, also those forgotten."""

    def __init__(self, aliases: Sequence[str]) -> None:
        self._aliases = aliases
        self.changes = 0
        self.position = 0
        self.periods: list[Period] = []
        self._lasting = 0

    def begin(
        self, batch: int, plan: str, reason: str, taken: int = 0, time: int | None = None, *, lasts: bool = False
    ) -> None:
        """From here on, another plan; ``taken``: so many tuples of the batch were processed before."""
        self.changes += bool(self.periods)
        self._lasting += lasts and bool(self.periods)
        for state in self.periods[-1].states if self.periods else ():
            state.course = state.course[:1] + state.course[1:][-1:]  # how it began and ended
        self.periods.append(Period(batch, self.position + taken, plan, reason, time=time, lasts=lasts))
        others = [period for period in self.periods if not period.lasts]
        lasting = [period for period in self.periods if period.lasts]
        kept = {id(period) for period in (*lasting[-_PERIODS:], *others[-_PERIODS:])}
        self.periods = [period for period in self.periods if id(period) in kept]

    def update(self, tuples: int, sizes: Sequence[StoreSize]) -> None:
        """So many tuples later the states hold this much."""
        self.position += tuples
        if not self.periods:
            return
        period = self.periods[-1]
        known = {state.state: state for state in period.states}
        period.states = []
        for size in sizes:
            if len(size.node) > 1:
                name = format_node(size.node, self._aliases)
                state = known.pop(name, None) or StateProgress(
                    name, size.live_keys is None, size.tuples, size.live_keys
                )
                state.seen(max(self.position, period.position), size)
                period.states.append(state)

    def to_json(self) -> dict[str, Any]:
        periods = [asdict(period) for period in self.periods]
        return {"changes": self.changes, "lasting": self._lasting, "position": self.position, "periods": periods}

    def lasting_json(self) -> dict[str, Any]:
        """The part that depends on the input alone: not what the planner decided, and not what states hold."""
        periods = [{**asdict(period), "states": []} for period in self.periods if period.lasts]
        return {"changes": self._lasting, "lasting": self._lasting, "position": self.position, "periods": periods}

    def restore(self, known: Mapping[str, Any]) -> None:
        """Be what another history of the same bucket was."""
        self.changes, self._lasting, self.position = known["changes"], known["lasting"], known["position"]
        self.periods = [
            Period(**{**period, "states": [StateProgress(**state) for state in period["states"]]})
            for period in known["periods"]
        ]
