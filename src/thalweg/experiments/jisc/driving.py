"""Policies as contenders: each drives the same tuples through an engine that changes its plan by it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from thalweg.engine.migration.joiner import Joiner, open_joiner
from thalweg.engine.observations import Work
from thalweg.experiments import answers
from thalweg.experiments.jisc.workloads import Tuples, Uniform
from thalweg.experiments.laps import Lap, Laps
from thalweg.plan.program import Rank
from thalweg.plan.tree import Plan
from thalweg.policies import Policies

JISC = "jisc"
MOVING_STATE = "moving_state"
PARALLEL_TRACK = "parallel_track"
PRINTED = "parallel_track_printed"
CACQ = "cacq"
STAIRS = "stairs"
STAIRS_JISC = "stairs_jisc"

AT_ONCE = 1 << 14
"""Tuples handed over at once."""

_COUNTS = ("probes", "candidates", "stored", "purged", "completions", "checked", "duplicates")
"""What is shown of the work."""

Result = TypeVar("Result")
Changes = Sequence[tuple[int, Plan]]
"""(position, plan): the plan from the tuple at this position on."""


def open_policy(policy: str, workload: Uniform, plan: Plan, memory_limit: int | None = None) -> Joiner:
    """An engine that begins with ``plan`` and changes it by ``policy``."""
    policies = Policies(migration=policy, memory_limit=memory_limit)  # type: ignore[arg-type] # one of the names above
    return open_joiner(workload.query, plan, workload.rank, policies)


class Drive:
    """An engine on its way through tuples.

    Its clock counts processor time, which others on the machine do not add to, and runs while the engine does, not
    while the answer is taken down.
    """

    def __init__(
        self, policy: str, workload: Uniform, plan: Plan, tuples: Tuples, *, memory_limit: int | None = None
    ) -> None:
        self.joiner = open_policy(policy, workload, plan, memory_limit)
        self.position = 0
        self._rank: Rank = workload.rank
        self._tuples = tuples
        self._reset()

    def _reset(self) -> None:
        self.seconds, self.found = 0.0, answers.NOTHING
        self._before = self.joiner.work

    def to(self, end: int, changes: Changes = (), at_once: int = AT_ONCE) -> Lap:
        """Process all tuples before ``end``; what that took, and its answer."""
        self._reset()
        waiting = list(changes)
        while self.position < end:
            while waiting and waiting[0][0] == self.position:
                self._timed(partial(self.joiner.transition, waiting.pop(0)[1], self._rank))
            next_change = waiting[0][0] if waiting else end
            self._take(min(self.position + at_once, next_change, end))
        return Lap(self.seconds, counted(self._before, self.joiner.work), self.found)

    def _take(self, end: int) -> None:
        batch = self._tuples.between(self.position, end)
        self._timed(partial(self.joiner.offer, batch))
        blocks = self.joiner.advance()
        while (block := self._timed(partial(next, blocks, None))) is not None:
            self.found = self.found.joined(answers.fingerprint(block[:, 2:].T))
        self.position = end

    def _timed(self, act: Callable[[], Result]) -> Result:
        started = time.process_time()
        result = act()
        self.seconds += time.process_time() - started
        return result


def faster(laps: dict[str, Laps], name: str, other: str) -> float:
    """How many times as fast ``name`` was as ``other``."""
    return laps[name].times_as_fast_as(laps[other])


def counted(before: Work, after: Work) -> dict[str, int]:
    """The work between two moments."""
    return {name: getattr(after, name) - getattr(before, name) for name in _COUNTS}
