"""Who takes part, and how each is driven through the same tuples.

With *push*, an intermediate result is produced as soon as it can be; with *jit*, consumers without partners suspend its
production; *auto* decides which of the two it is worth. Each joins by nested loops, as in the paper, or by hash.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from thalweg.engine.join import JoinEngine
from thalweg.engine.observations import StoreSize
from thalweg.experiments import answers
from thalweg.experiments.experiment import Row
from thalweg.experiments.jisc.driving import Lap
from thalweg.experiments.jisc.workloads import Tuples
from thalweg.experiments.jit.workloads import Clique

Method = Literal["nested loops", "hash"]
Production = Literal["push", "jit", "auto"]

SAMPLES = 20
"""Looks into the stores per window."""
_COUNTS = ("tuples", "probes", "candidates", "stored", "results", "suspensions", "resumptions", "withheld", "unprobed")


@dataclass(frozen=True, slots=True)
class Contender:
    """A way to join, and a way to produce."""

    method: Method
    production: Production

    @property
    def name(self) -> str:
        return f"{self.production}, {self.method}"


PUSH_LOOPS, JIT_LOOPS = Contender("nested loops", "push"), Contender("nested loops", "jit")
PUSH_HASH, JIT_HASH, AUTO_HASH = (Contender("hash", production) for production in ("push", "jit", "auto"))
LOOPS = (PUSH_LOOPS, JIT_LOOPS)
HASH = (PUSH_HASH, JIT_HASH, AUTO_HASH)
CONTENDERS = {contender.name: contender for contender in (*LOOPS, *HASH)}


@dataclass(slots=True)
class Peaks:
    """The most that windows and states held at any look.

    A state's bytes are those of its entries, its hash heads and what it remembers of its keys, those that are suspended
    included.
    """

    window_bytes: int = 0
    state_bytes: int = 0
    state_entries: int = 0

    def look(self, sizes: Iterable[StoreSize]) -> None:
        sizes = list(sizes)
        states = [size for size in sizes if len(size.node) > 1]
        self.window_bytes = max(self.window_bytes, sum(size.bytes for size in sizes if len(size.node) == 1))
        self.state_bytes = max(self.state_bytes, sum(size.bytes for size in states))
        self.state_entries = max(self.state_entries, sum(size.tuples for size in states))

    def columns(self) -> Row:
        return {
            "peak_state_bytes": self.state_bytes,
            "peak_state_entries": self.state_entries,
            "peak_window_bytes": self.window_bytes,
        }


@dataclass(frozen=True, slots=True)
class Course:
    """The tuples of a join: the first window fills the stores, the rest is on the clock."""

    clique: Clique
    tuples: Tuples
    end: int

    def drive(self, name: str, peaks: Peaks | None = None) -> Lap:
        """Drive a contender through; given ``peaks``, with looks into its stores in between.

        A look drops what has expired from the states. Nested loops would otherwise compare with it until a state is
        full; the paper's joins drop it at every arrival.
        """
        contender, clique = CONTENDERS[name], self.clique
        engine = JoinEngine(
            clique.query,
            clique.plan,
            clique.rank,
            nested_loops=contender.method == "nested loops",
            production=contender.production,
        )
        stride = clique.window // SAMPLES if peaks is not None else clique.window
        start = min(clique.window, self.end)
        seconds, found = self._lap(engine, 0, start, stride, peaks)
        before = engine.work
        seconds, later = self._lap(engine, start, self.end, stride, peaks)
        after = engine.work
        work = {name: getattr(after, name) - getattr(before, name) for name in _COUNTS}
        return Lap(seconds, work, found.joined(later))

    def _lap(
        self, engine: JoinEngine, start: int, end: int, stride: int, peaks: Peaks | None
    ) -> tuple[float, answers.Fingerprint]:
        """Seconds of processor time that the engine took, and its answer."""
        seconds, found = 0.0, answers.NOTHING
        for position in range(start, end, stride):
            batch = self.tuples.between(position, min(position + stride, end))
            started = time.process_time()
            engine.offer(batch)
            blocks = engine.advance()
            while (block := next(blocks, None)) is not None:
                seconds += time.process_time() - started
                found = found.joined(answers.fingerprint(block[:, 2:].T))
                started = time.process_time()
            seconds += time.process_time() - started
            if peaks is not None:
                peaks.look(engine.sizes())
        return seconds, found
