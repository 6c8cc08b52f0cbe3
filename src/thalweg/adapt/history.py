"""Which plans a bucket has run under, since when and why, and how their states have filled.

A history is part of what a bucket commits with every batch, so it survives restarts; it is bounded, so the
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


@dataclass(slots=True)
class StateProgress:
    """A kept state: whether it began complete, and what it held when it was last seen.

    ``live_keys`` are the keys that are complete by then; None: all are.
    """

    state: str
    complete_at_start: bool
    entries: int
    live_keys: int | None


@dataclass(slots=True)
class Period:
    """A stretch under one plan: its first batch, the tuples processed before it, and why it began."""

    batch: int
    position: int
    plan: str
    reason: str
    states: list[StateProgress] = field(default_factory=list)


class History:
    """The plans of one bucket; ``changes`` counts them all, also those forgotten."""

    def __init__(self, aliases: Sequence[str]) -> None:
        self._aliases = aliases
        self.changes = 0
        self.position = 0
        self.periods: list[Period] = []

    def begin(self, batch: int, plan: str, reason: str, taken: int = 0) -> None:
        """From here on, another plan; ``taken``: so many tuples of the batch were processed before."""
        self.changes += bool(self.periods)
        self.periods.append(Period(batch, self.position + taken, plan, reason))
        del self.periods[:-_PERIODS]

    def update(self, tuples: int, sizes: Sequence[StoreSize]) -> None:
        """So many tuples later the states hold this much."""
        self.position += tuples
        if not self.periods:
            return
        known = {state.state: state for state in self.periods[-1].states}
        self.periods[-1].states = [
            StateProgress(
                name,
                known[name].complete_at_start if name in known else size.live_keys is None,
                size.tuples,
                size.live_keys,
            )
            for size in sizes
            if len(size.node) > 1
            for name in [format_node(size.node, self._aliases)]
        ]

    def to_json(self) -> dict[str, Any]:
        periods = [asdict(period) for period in self.periods]
        return {"changes": self.changes, "position": self.position, "periods": periods}

    def restore(self, known: Mapping[str, Any]) -> None:
        """Be what another history of the same bucket was."""
        self.changes, self.position = known["changes"], known["position"]
        self.periods = [
            Period(**{**period, "states": [StateProgress(**state) for state in period["states"]]})
            for period in known["periods"]
        ]
