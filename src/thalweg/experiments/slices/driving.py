"""Who takes part, and how each is driven through the same tuples.

A contender is a way to share a join: *memory*, *cpu* and *auto* are chains of slices, *pull_up* is one slice, with
selections at the end, *push_down* a join for each part of the streams, *none* a plan for each query. Joins are nested
loops, as in the paper, or look keys up.

Clocks count the processor time from the rows as they arrive to the row numbers of each query's results. So they count
the encoding, the selections, the join and the routing, and that each query's results are taken from those of all. The
columns of results are not made.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from thalweg.cql.group import Group
from thalweg.engine.join.engine import JoinEngine
from thalweg.engine.join_bucket import JoinBucket
from thalweg.engine.kernels.compiled import Int64s
from thalweg.engine.migration.joiner import Joiner
from thalweg.engine.migration.stream_partition import StreamPartition
from thalweg.engine.outputs.readers import Part
from thalweg.engine.rows.batch import Batch
from thalweg.errors import ThalwegError
from thalweg.experiments import answers
from thalweg.experiments.answers import Fingerprint
from thalweg.experiments.experiment import Report, Row, rounded
from thalweg.experiments.laps import NO_LAP, Lap, Laps, side_by_side
from thalweg.experiments.slices.workloads import Queries, Streams
from thalweg.experiments.workloads import MICROSECONDS
from thalweg.policies import Policies
from thalweg.settings import Sharing

Method = Literal["nested loops", "hash"]

STRATEGIES: tuple[Sharing, ...] = ("memory", "cpu", "auto", "pull_up", "push_down", "none")
"""All, in the order in which they are told of. Where their slices are the same, *cpu* is *auto*."""
_PIECES = 6
"""Pieces of a run after which contenders that are driven side by side take turns."""


@dataclass(frozen=True, slots=True)
class Held:
    """What a contender held: the mean over many moments, after purging.

    ``least``: what some query could still use, which is the least that can be held.
    """

    tuples: float
    bytes: float
    least: float

    def columns(self) -> Row:
        return {
            "tuples_held": rounded(self.tuples),
            "least_tuples": rounded(self.least),
            "bytes_held": rounded(self.bytes),
        }


@dataclass(frozen=True, slots=True)
class Course:
    """Streams on their way through the join of some queries, for so many seconds."""

    queries: Queries
    streams: Streams
    rate: float
    seconds: int

    def look(self, strategy: Sharing, method: Method) -> tuple[Lap, Held]:
        """Drive a contender through, second by second: its answer, and what it holds once windows are full."""
        ride = Ride(self, strategy, method, checked=True)
        filled = round(self.queries.longest)
        filling = ride.to(filled * MICROSECONDS)
        lap, held = ride.to_end_looking(filled)
        return filling.joined(lap), held

    def race(
        self, strategies: Sequence[Sharing], method: Method, rounds: int, report: Report
    ) -> tuple[dict[Sharing, Laps], dict[Sharing, Held]]:
        """Compare answers, look at what is held, then time all side by side."""
        looked, first = {}, None
        for strategy in strategies:
            report(f"{strategy}, {method}: answers and memory")
            lap, looked[strategy] = self.look(strategy, method)
            first = lap.found if first is None else first
            answers.check_fingerprints(first, lap.found, (strategies[0], strategy))
        cuts = [0, *(self.seconds * MICROSECONDS * (i + 1) // _PIECES for i in range(_PIECES))]
        names = dict.fromkeys(map(str, strategies), rounds)
        laps = side_by_side(lambda name: self._start(name, method), cuts, names, report)
        if first is not None and any(each.results != first.rows for each in laps.values()):
            raise ThalwegError("contenders answered otherwise when they were timed")
        return {strategy: laps[strategy] for strategy in strategies}, looked

    def _start(self, name: str, method: Method) -> Callable[[int], Lap]:
        strategy = next(each for each in STRATEGIES if each == name)
        return Ride(self, strategy, method).to


class Ride:
    """A contender on its way through a course.

    ``checked``: its laps have fingerprints of what each query got, else only how much that was.
    """

    def __init__(self, course: Course, strategy: Sharing, method: Method, *, checked: bool = False) -> None:
        group = course.queries.group
        groups = [Group.of(query) for query in group.queries] if strategy == "none" else [group]
        plan, rank = course.queries.plan(course.rate)
        policies = Policies(sharing=strategy, nested_loops=method == "nested loops")
        payloads = course.streams.payloads()
        self.buckets = [JoinBucket(each, plan, rank, payloads, policies) for each in groups]
        self.newest = 0
        self._course, self._streams = course, course.streams
        self._checked = checked
        self._numbers = {reader.name: i for i, reader in enumerate(group.readers)}
        self._position = [0] * len(course.streams.times)

    def to(self, end: int) -> Lap:
        """Process what comes before ``end``, in microseconds."""
        batches = self._until(end)
        before, found, seconds = self._work(), answers.NOTHING, 0.0
        for bucket in self.buckets:
            started = time.process_time()
            bucket.offer(batches)
            parts = bucket.find()
            while (part := next(parts, None)) is not None:
                results = part.results()
                seconds += time.process_time() - started
                found = found.joined(self._fingerprint(bucket, part, results))
                started = time.process_time()
            seconds += time.process_time() - started
        after = self._work()
        return Lap(seconds, {name: after[name] - before[name] for name in after}, found)

    def to_end_looking(self, done: int) -> tuple[Lap, Held]:
        """Go on from so many seconds to the end of the course, second by second, and look after each."""
        whole, looks = NO_LAP, []
        for second in range(done + 1, self._course.seconds + 1):
            whole = whole.joined(self.to(second * MICROSECONDS))
            looks.append((*self.held(), self._streams.least_held(self._course.queries, self.newest)))
        tuples, size, least = np.mean(looks, axis=0).tolist()
        return whole, Held(tuples, size, least)

    def _until(self, end: int) -> list[Batch | None]:
        batches: list[Batch | None] = []
        for stream, (times, table) in enumerate(zip(self._streams.times, self._streams.tables, strict=True)):
            first, last = self._position[stream], int(np.searchsorted(times, end))
            self._position[stream] = last
            rows = np.arange(first, last)
            batches.append(Batch(table.slice(first, last - first), times[first:last], rows) if last > first else None)
            self.newest = max(self.newest, int(times[last - 1]) if last else 0)
        return batches

    def _fingerprint(self, bucket: JoinBucket, part: Part, results: Int64s) -> Fingerprint:
        """What some queries got, with their numbers."""
        if not self._checked:
            return Fingerprint(part.count * len(part.readers), 0, 0)
        found = answers.NOTHING
        for place in part.readers:
            number = self._numbers[bucket.group.readers[place].name]
            ids = np.vstack([results[:, 2:].T, np.full(len(results), number)])
            found = found.joined(answers.fingerprint(ids))
        return found

    def _work(self) -> dict[str, int]:
        work = [bucket.work for bucket in self.buckets]
        joiners = [bucket.joiner for bucket in self.buckets]
        return {
            "probes": sum(each.probes for each in work),
            "candidates": sum(each.candidates for each in work),
            "join_results": sum(each.results for each in work),
            "routings": sum(bucket.routings for bucket in self.buckets),
            "unions": sum(joiner.unions for joiner in joiners if isinstance(joiner, StreamPartition)),
            "purges": sum(arrived - held for engine in self._engines() for arrived, held in _turnover(engine)),
        }

    def held(self) -> tuple[int, int]:
        """Tuples, and bytes of windows, after purging."""
        for engine in self._engines():
            engine.pass_time(self.newest)
        sizes = [size for engine in self._engines() for size in engine.sizes()]
        return sum(size.tuples for size in sizes if len(size.node) == 1), sum(size.bytes for size in sizes)

    def _engines(self) -> list[JoinEngine]:
        return [engine for bucket in self.buckets for engine in engines_of(bucket.joiner)]


def engines_of(joiner: Joiner) -> Iterable[JoinEngine]:
    """The engines that a contender consists of."""
    if isinstance(joiner, StreamPartition):
        return joiner.engines.values()
    if not isinstance(joiner, JoinEngine):
        raise ThalwegError(f"a {type(joiner).__name__} does not take part in this experiment")
    return [joiner]


def _turnover(engine: JoinEngine) -> Iterator[tuple[int, int]]:
    """Per stream, how many tuples came into its window, and how many of these it has."""
    for stream, window in enumerate(engine.glimpse(0).windows):
        yield window.arrived, engine.held(stream)


def counted_work(work: Mapping[str, int]) -> int:
    """Comparisons, as the paper counts them.

    They are of tuples, of results with windows and selections, of results of several joins with each other, and of
    times with ends of windows, to purge.
    """
    return work["candidates"] + work["routings"] + work["unions"] + work["purges"]


def faster(laps: Mapping[Sharing, Laps], one: Sharing, other: Sharing) -> tuple[float, float]:
    """How many times as fast one contender was as another; and the standard error of that, 0 if it is not known."""
    return laps[one].times_as_fast_as(laps[other]), laps[one].noise_beside(laps[other]) or 0.0


def best_of(laps: Mapping[Sharing, Laps], names: Sequence[Sharing]) -> Sharing:
    """The fastest of some contenders, beside ``auto``."""
    return max(names, key=lambda name: laps[name].times_as_fast_as(laps["auto"]))
