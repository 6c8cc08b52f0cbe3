"""One run of a join under a budget: what was spent and found, and that nothing was found which is no result.

Every result is checked on its own, from its row numbers: its values join, all of its tuples were in their windows when
the newest of them came, and no result is found twice. So what is found is a part of the full answer, whatever that is.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thalweg.errors import ThalwegError
from thalweg.experiments import answers
from thalweg.experiments.answers import Ids
from thalweg.experiments.jaqpot.workloads import Workload
from thalweg.experiments.workloads import MICROSECONDS
from thalweg.options import Options
from thalweg.plan.allocation import POLICIES
from thalweg.replayer import open_replay
from thalweg.settings import AllocationPolicy, States

ALL: tuple[AllocationPolicy, ...] = tuple(POLICIES)
HALF_WAY: tuple[AllocationPolicy, ...] = ("best_hj", "equal_hj", "global_hjpr", "ebest_hj", "sbest_hj")
"""Those that value half-way joins one by one."""
_BATCH = 1 << 11
"""Tuples handed over at once: many results may come of each, and windows are full between two batches."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a run found.

    Attributes:
        results: per interval of event time, the results that its tuples led to.
        probes: that were paid for in the whole run. One that looks at a part of a window counts as that part.
        refused: probes that were not allowed.
        candidates: tuples that were looked at.
        shed: tuples that were dropped at the input.
        seconds: of processor time, the check left out.
        stale: results that held a tuple older than its freshness.
        share: the estimated share of the full answer; None: it cannot be said.
        paths: per stream, the probes that followed from its tuples, and the results.
        saturation: probes per second once the windows were full.

    """

    results: NDArray[np.int64]
    probes: float
    refused: int
    candidates: int
    shed: int
    seconds: float
    stale: int
    share: float | None
    paths: tuple[tuple[float, int], ...]
    saturation: float

    @property
    def total(self) -> int:
        return int(self.results.sum())


@dataclass(frozen=True)
class Course:
    """A workload that is run under budgets.

    Attributes:
        ends: the seconds at which intervals end, in order. What comes before the first is not counted.
        freshness: how many times its window the freshness of each stream is.
        states: whether the plan keeps its states.

    """

    workload: Workload
    ends: tuple[float, ...]
    freshness: float = 1.5
    states: States = "none"

    def run(self, policy: AllocationPolicy, budget: int | None) -> Found:
        """Run it; ``budget``: probes per second of event time, or None: nothing is refused."""
        options = Options(
            plan=self.workload.plan,
            states=self.states,
            adaptive=False,
            batch_size=_BATCH,
            budget="100%" if budget is None else budget,
            allocation=policy,
        )
        replay = open_replay(self.workload.cql, dict(self.workload.tables), options=options)
        results = np.zeros(len(self.ends) + 1, np.int64)
        stale, seconds = 0, 0.0
        heads = np.zeros(len(self.workload.names), np.int64)
        filled: tuple[float, int] | None = None
        steps = replay.steps()
        while True:
            started = time.process_time()
            done = next(steps, None)
            seconds += time.process_time() - started
            if done is None:
                break
            if replay.answer:
                judged = self._judge.judge(answers.ids_of(pa.concat_tables(replay.answer)))
                results += np.bincount(np.searchsorted(self._edges, judged.times, "right"), minlength=len(results))
                heads += np.bincount(judged.heads, minlength=len(heads))
                stale += judged.stale
                replay.answer.clear()
            now = self._judge.time_of(done)
            if filled is None and now >= self.workload.filled:
                filled = (now, replay.driver.bucket.work.probes)
        summary = replay.result().summary
        use = summary.budget
        if use is None:
            raise ThalwegError("a run under a budget does not say what it was spent on")
        since, before = filled or (0.0, 0)
        paths = tuple(
            (sum(step.paid for step in use.steps if step.stream == name), found)
            for name, found in zip(self.workload.names, heads.tolist(), strict=True)
        )
        return Found(
            results[1:],
            sum(step.paid for step in use.steps),
            sum(step.refused for step in use.steps),
            summary.candidates,
            sum(use.shed.values()),
            seconds,
            stale,
            use.share,
            paths,
            (summary.probes - before) / (self.workload.seconds - since),
        )

    @cached_property
    def full(self) -> Found:
        """With nothing refused."""
        full = self.run("jaqpot", None)
        if full.refused:
            raise ThalwegError(f"{full.refused} probes were refused though the budget pays for all")
        return full

    @property
    def saturation(self) -> float:
        """Probes per second of event time that refuse nothing, counted while windows were full (JAQPOT 5.1)."""
        return self.full.saturation

    def optimum(self, share: float) -> float:
        """The share of all results that so much of saturation can buy at most, as far as that can be said beforehand.

        Tuples of a stream are alike, and so are those that have come equally far on their way. So a path is bought in
        fractions, and the best paths first.
        """
        left = share * self.full.probes
        bought = 0.0
        for probes, results in sorted(self.full.paths, key=lambda path: path[1] / path[0], reverse=True):
            part = min(1.0, left / probes)
            left -= part * probes
            bought += part * results
        return bought / sum(results for _, results in self.full.paths)

    @cached_property
    def _judge(self) -> Judge:
        return Judge(self.workload, self.freshness)

    @cached_property
    def _edges(self) -> NDArray[np.int64]:
        begin = min(self.workload.filled, self.ends[0])
        return (np.array([begin, *self.ends[:-1]]) * MICROSECONDS).astype(np.int64)


class Judged(NamedTuple):
    """What was found to be right: per result its event time and the stream of its newest tuple; how many are stale."""

    times: NDArray[np.int64]
    heads: NDArray[np.int64]
    stale: int


class Judge:
    """Checks results one by one."""

    def __init__(self, workload: Workload, freshness: float) -> None:
        self._workload, self._freshness = workload, freshness
        self._columns = {
            (name, column): workload.tables[name][column].to_numpy() for pair in workload.equal for name, column in pair
        }
        times, lengths = np.concatenate(workload.times), [len(each) for each in workload.times]
        stream = np.repeat(np.arange(len(lengths)), lengths)
        row = np.concatenate([np.arange(length) for length in lengths])
        order = np.lexsort((row, stream, times))
        places = np.empty(len(order), np.int64)
        places[order] = np.arange(len(order))
        self._time = times[order]
        self._stream = stream[order]
        self._place = np.split(places, np.cumsum(lengths)[:-1])
        """Per stream, the places of its tuples in the total order."""
        self._arrived = [np.cumsum(stream[order] == each) for each in range(len(lengths))]
        """Per stream, how many tuples have come with the one at a place."""

    def time_of(self, position: int) -> float:
        """When so many tuples have come, in seconds."""
        return float(self._time[position - 1]) / MICROSECONDS

    def judge(self, ids: Ids) -> Judged:
        """An error if one is no result, or is there twice."""
        names = self._workload.names
        rows = {name: ids[i] for i, name in enumerate(names)}
        for (a, x), (b, y) in self._workload.equal:
            if (self._columns[a, x][rows[a]] != self._columns[b, y][rows[b]]).any():
                raise ThalwegError(f"a result has {a}.{x} that is not its {b}.{y}")
        place = np.max([self._place[i][ids[i]] for i in range(len(names))], axis=0)
        stale = np.zeros(ids.shape[1], bool)
        for i, size in enumerate(self._workload.windows):
            age = self._ages(i, ids[i], place)
            if ((age < 0) | (age >= size)).any():
                raise ThalwegError(f"a result has a tuple of {names[i]} that is not in its window")
            stale |= age >= size * self._freshness
        answers.check_distinct(ids)
        return Judged(self._time[place], self._stream[place], int(stale.sum()))

    def _ages(self, stream: int, rows: NDArray[np.integer], place: NDArray[np.int64]) -> NDArray[np.int64]:
        """How much newer the result is than its tuple: in rows of the stream, or in microseconds."""
        age: NDArray[np.int64]
        if self._workload.unit == "rows":
            age = self._arrived[stream][place] - 1 - rows
        else:
            age = self._time[place] - self._workload.times[stream][rows]
        return age
