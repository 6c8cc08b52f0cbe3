"""Who takes part, and how each is driven through the same tuples.

With *push*, an intermediate result is produced as soon as it can be; with *jit*, consumers without partners suspend its
production; *auto* decides which of the two it is worth. Each joins by nested loops, as in the paper, or by hash.

Clocks count the processor time that an engine takes, not what it takes to write its answer down or to look into its
stores.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from thalweg.adapt.ledger import Ledger
from thalweg.adapt.production import ProductionDecider
from thalweg.engine.join.engine import JoinEngine
from thalweg.experiments import answers
from thalweg.experiments.experiment import Report, Row
from thalweg.experiments.jisc.workloads import Tuples
from thalweg.experiments.jit.workloads import Clique
from thalweg.experiments.laps import NO_LAP, Lap, Laps, side_by_side
from thalweg.plan.join_graph import JoinGraph
from thalweg.policies import Policies
from thalweg.settings import Production

Method = Literal["nested loops", "hash"]

_LOOKS = 20
"""Looks into the stores per window."""
_PIECES = 4
"""Pieces of a window after which contenders that are driven side by side take turns."""
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
    """The most that an engine held at any look.

    A state's bytes are those of its entries, its hash heads and the status of its keys, a window's those of its tuples
    and access paths. The rest is what feedback remembers.
    """

    all_bytes: int = 0
    state_bytes: int = 0
    state_entries: int = 0
    window_bytes: int = 0
    feedback_bytes: int = 0

    def look(self, engine: JoinEngine) -> None:
        sizes, used = engine.sizes(), engine.bytes_used
        states = [size for size in sizes if len(size.node) > 1]
        self.all_bytes = max(self.all_bytes, used)
        self.state_bytes = max(self.state_bytes, sum(size.bytes for size in states))
        self.state_entries = max(self.state_entries, sum(size.tuples for size in states))
        self.window_bytes = max(self.window_bytes, sum(size.bytes for size in sizes if len(size.node) == 1))
        self.feedback_bytes = max(self.feedback_bytes, used - sum(size.bytes for size in sizes))

    def columns(self) -> Row:
        return {
            "peak_bytes": self.all_bytes,
            "peak_state_bytes": self.state_bytes,
            "peak_state_entries": self.state_entries,
            "peak_window_bytes": self.window_bytes,
            "peak_feedback_bytes": self.feedback_bytes,
        }


@dataclass(frozen=True, slots=True)
class Course:
    """The tuples of a join: the first window fills the stores, the rest is on the clock."""

    clique: Clique
    tuples: Tuples
    end: int

    def cuts(self, pieces: int) -> list[int]:
        """Times from the end of the first window on, so many of them in a window."""
        return [*range(self.clique.window, self.end, self.clique.window // pieces), self.end]

    def drive(self, name: str, peaks: Peaks | None = None) -> Lap:
        """Drive a contender through, alone; given ``peaks``, with looks into its stores.

        A look drops what has expired from the states. Nested loops would otherwise compare with it until a state is
        full; the paper's joins drop it at every arrival.
        """
        ride, whole = Ride(self, CONTENDERS[name]), NO_LAP
        for cut in self.cuts(_LOOKS)[1:]:
            whole = whole.joined(ride.to(cut))
            if peaks is not None:
                peaks.look(ride.engine)
        return whole

    def drive_side_by_side(self, names: Sequence[str], rounds: int, report: Report) -> dict[str, Laps]:
        """Drive several through at the same time, without looks."""
        return side_by_side(self._start, self.cuts(_PIECES), dict.fromkeys(names, rounds), report)

    def _start(self, name: str) -> Callable[[int], Lap]:
        return Ride(self, CONTENDERS[name]).to


class Ride:
    """An engine on its way through a course, the first window behind it."""

    def __init__(self, course: Course, contender: Contender) -> None:
        clique = course.clique
        self.engine = JoinEngine(
            clique.query,
            clique.plan,
            clique.rank,
            Policies(production=contender.production, nested_loops=contender.method == "nested loops"),
        )
        self._decider = ProductionDecider(JoinGraph.of(clique.query), Ledger())
        self._tuples = course.tuples
        self._position = 0
        self.to(clique.window)

    def to(self, end: int) -> Lap:
        """Process what comes before ``end``."""
        batch = self._tuples.between(self._position, end)
        before, found, seconds = self.engine.work, answers.NOTHING, 0.0
        started = time.process_time()
        self.engine.offer(batch)
        decides = self.engine.gated is not None
        blocks = self._decider.advance(self.engine) if decides else self.engine.advance()
        while (block := next(blocks, None)) is not None:
            seconds += time.process_time() - started
            found = found.joined(answers.fingerprint(block[:, 2:].T))
            started = time.process_time()
        seconds += time.process_time() - started
        self._position = end
        after = self.engine.work
        return Lap(seconds, {name: getattr(after, name) - getattr(before, name) for name in _COUNTS}, found)
