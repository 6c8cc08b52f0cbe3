"""Wall-clock times of contenders, taken in turns so that a busy moment hits all of them."""

from __future__ import annotations

import gc
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from thalweg.experiments.experiment import Report


@dataclass(frozen=True, slots=True)
class Contender:
    """Something to be timed.

    Attributes:
        name: what it is called in the report.
        run: does the whole work once; what it returns is dropped after the clock stops.
        threads: how many it may use; with one, the process is held on one core meanwhile.

    """

    name: str
    run: Callable[[], object]
    threads: int = 1


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of several runs.

    >>> Timing((3.0, 1.0, 2.0), (3.0, 2.0, 2.0)).median
    2.0
    """

    seconds: tuple[float, ...]
    cpu_seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def fastest(self) -> float:
        return min(self.seconds)

    @property
    def slowest(self) -> float:
        return max(self.seconds)

    @property
    def cores(self) -> float:
        """Cores kept busy on average: 1 for a run on one core that nothing disturbed."""
        return sum(self.cpu_seconds) / sum(self.seconds)


def take_turns(contenders: Sequence[Contender], rounds: int, report: Report) -> dict[str, Timing]:
    """Time every contender once per round. Warm-up is the caller's: run each once before."""
    wall: dict[str, list[float]] = {contender.name: [] for contender in contenders}
    cpu: dict[str, list[float]] = {contender.name: [] for contender in contenders}
    for turn in range(1, rounds + 1):
        for contender in contenders:
            report(f"timing {contender.name}, {turn} of {rounds}")
            gc.collect()
            with one_core() if contender.threads == 1 else nullcontext():
                cpu_start, start = time.process_time(), time.perf_counter()
                answer = contender.run()
                wall[contender.name].append(time.perf_counter() - start)
                cpu[contender.name].append(time.process_time() - cpu_start)
            del answer
    return {name: Timing(tuple(wall[name]), tuple(cpu[name])) for name in wall}


@contextmanager
def one_core() -> Iterator[None]:
    """Hold all threads of this process on one core; no effect where the system cannot."""
    tasks = Path("/proc/self/task")
    if not hasattr(os, "sched_setaffinity") or not tasks.exists():
        yield
        return
    allowed = os.sched_getaffinity(0)
    _hold(tasks, {max(allowed)})
    try:
        yield
    finally:
        _hold(tasks, allowed)


def _hold(tasks: Path, cores: set[int]) -> None:
    for task in tasks.iterdir():
        try:
            os.sched_setaffinity(int(task.name), cores)
        except ProcessLookupError:
            continue  # the thread ended since it was listed
