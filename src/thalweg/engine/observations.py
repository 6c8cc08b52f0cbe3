"""What a join tells of itself: what it holds, what is in its windows, and the work it has done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from thalweg.engine.kernels.compiled import Int64s
from thalweg.plan.cost import DEFAULT_COSTS, Costs
from thalweg.plan.tree import Node


@dataclass(frozen=True, slots=True)
class StoreSize:
    """What a base window (one stream) or a kept state holds.

    ``live_keys`` is None for base windows and for states whose keys are all live.
    """

    node: Node
    tuples: int
    live_keys: int | None
    bytes: int


@dataclass(frozen=True, slots=True)
class WindowGlimpse:
    """Some of the tuples that a base window holds and that can still be in a result.

    Attributes:
        words: those taken, as rows of the stream's layout.
        held: how many there are, about (exactly, where all were taken).
        arrived: how many tuples have ever come into the window.

    """

    words: Int64s
    held: float
    arrived: int


@dataclass(frozen=True, slots=True)
class Glimpse:
    """A look into every base window, at the time up to which tuples were processed (NEVER before the first)."""

    time: int
    windows: tuple[WindowGlimpse, ...] = ()


Counts = tuple[int, ...]
"""What the cost model prices: tuples, probes, candidates, stored, completions, results."""


class Work(NamedTuple):
    """Work done since the start.

    Attributes:
        tuples: taken.
        probes: lookups, of base windows and states.
        candidates: that these looked at.
        stored: entries put into states.
        completions: keys of states that were completed because a probe, or the end of a migration, called for it.
        results: emitted.
        states_completed: states that began incomplete and became complete.
        completing_probes, completing_candidates, completing_stored: those of the above that completed keys.
        purged: entries that were over and were swept out of states, but for those that feedback sweeps on its way.
        checked: results in which duplicates were looked for, by plans running side by side.
        duplicates: found among those.
        suspensions, resumptions, withheld, unprobed: see :class:`thalweg.engine.feedback.memory.Savings`.

    """

    tuples: int
    probes: int
    candidates: int
    stored: int
    completions: int
    results: int
    states_completed: int = 0
    completing_probes: int = 0
    completing_candidates: int = 0
    completing_stored: int = 0
    purged: int = 0
    checked: int = 0
    duplicates: int = 0
    suspensions: int = 0
    resumptions: int = 0
    withheld: int = 0
    unprobed: int = 0

    @property
    def counts(self) -> Counts:
        """The part that the cost model prices."""
        return self[:6]

    def completing_share(self, before: Work, costs: Costs = DEFAULT_COSTS) -> float:
        """Which part of the work since ``before`` completed keys: counted, and weighed by what each kind costs.

        To measure it for each key would take longer than completing many of them.
        """
        done = [after - earlier for after, earlier in zip(self.counts, before.counts, strict=True)]
        tuples, probes, candidates, stored, completions, results = done

        def price(probes: int, candidates: int, stored: int) -> float:
            """Of probes and what they find; each completion also looks its key up."""
            return (probes + completions) * costs.probe + candidates * costs.candidate + stored * costs.store

        total = tuples * costs.base + price(probes, candidates, stored) + results * costs.result
        completing = price(
            self.completing_probes - before.completing_probes,
            self.completing_candidates - before.completing_candidates,
            self.completing_stored - before.completing_stored,
        )
        return completing / total if total else 0.0
