"""Where the time of a batch goes."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager


class Phases:
    """Adds up the seconds spent in each phase; a block within another counts for its own phase alone."""

    def __init__(self, names: Iterable[str]) -> None:
        self._seconds = dict.fromkeys(names, 0.0)
        self._within = 0.0

    @contextmanager
    def __call__(self, phase: str) -> Iterator[None]:
        before, self._within = self._within, 0.0
        started = time.perf_counter()
        yield
        spent = time.perf_counter() - started
        self._seconds[phase] += spent - self._within
        self._within = before + spent

    def move(self, seconds: float, source: str, target: str) -> None:
        """So much of one phase was another: that is estimated, not measured."""
        self._seconds[source] -= seconds
        self._seconds[target] += seconds

    def take(self) -> dict[str, float]:
        """The seconds since this was last asked."""
        taken = {phase: round(spent, 6) for phase, spent in self._seconds.items()}
        self._seconds = dict.fromkeys(self._seconds, 0.0)
        return taken
