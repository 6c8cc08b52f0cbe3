"""Beyond the paper: up to a thousand queries over one hash join, in process, against a plan for each.

Each query has a window of its own. They have eight selections; the first one takes all, in the longest window. What is
timed is the bucket's whole work on a batch: encoding, selections, join, and whose every result is. *With output* also
counts that each query's rows are taken, and that its columns are made as Arrow tables.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from thalweg.cql.group import Group
from thalweg.engine.join_bucket import JoinBucket
from thalweg.engine.rows.batch import Batch
from thalweg.experiments import answers
from thalweg.experiments.answers import Fingerprint
from thalweg.experiments.experiment import Claim, Report, Row, at_least, at_most, rounded
from thalweg.experiments.slices.sizes import SEED, Many
from thalweg.experiments.slices.workloads import Asked, Queries, Streams, poisson
from thalweg.experiments.timing import one_core
from thalweg.experiments.workloads import MICROSECONDS

MANY = "many queries over one join"
PLANS = "as many plans"

_SELECTED = (1.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8)
_NEAR = 500
"""Times that a thousand plans must cost at least. Plans like that of the one query would cost a thousand times. But the
mean plan has half the longest window, and of the stream with selections it takes half the tuples."""


@dataclass(frozen=True, slots=True)
class Runner:
    """Buckets that go through the same streams.

    ``queries``: those of all buckets. ``groups``: the readers of each bucket. ``delivers``: with output.
    """

    queries: Queries
    groups: tuple[Group, ...]
    delivers: bool = False


@dataclass(frozen=True, slots=True)
class Passage:
    """What a runner took for each piece, and what it found.

    ``work``: the tuples, probes, candidates and results that were counted.
    """

    pieces: tuple[float, ...]
    joined: int
    delivered: int
    work: int

    @property
    def seconds(self) -> float:
        return sum(self.pieces)

    def best(self, other: Passage) -> Passage:
        """Of each piece the better of two."""
        return replace(self, pieces=tuple(map(min, self.pieces, other.pieces)))


def serve_many(sizes: Many, report: Report) -> tuple[list[Row], list[Claim]]:
    """All joins."""
    rows: list[Row] = []
    claims: list[Claim] = []
    for streams in sizes.streams:
        found, wanted = _join_of(streams, sizes, report)
        rows += found
        claims += wanted
    return sorted(rows, key=lambda row: str(row["part"]) == PLANS), claims


def many_queries(count: int, sizes: Many, streams: int) -> Queries:
    """The first is the one with the longest window, which takes all; each window is different."""
    rng = np.random.default_rng(SEED)
    windows = [float(sizes.longest), *rng.uniform(1 / sizes.longest, 1, count - 1) * sizes.longest]
    asked = [Asked(round(float(w), 6), _SELECTED[i % len(_SELECTED)]) for i, w in enumerate(windows)]
    return Queries(tuple(asked), sizes.keys, streams)


def _join_of(streams: int, sizes: Many, report: Report) -> tuple[list[Row], list[Claim]]:
    where = f"{streams} streams"
    report(f"{where}: {max(sizes.queries):,} queries are bound")
    every = many_queries(max(sizes.queries), sizes, streams)
    group = every.group
    seconds = sizes.longest + sizes.seconds
    data = poisson(np.random.default_rng(SEED), streams, sizes.rate, seconds, 1 / sizes.keys)
    runners: dict[tuple[str, int], Runner] = {}
    for count in sizes.queries:
        some = Group(group.join, group.readers[:count])
        runners["join and routing", count] = Runner(every, (some,))
        runners["with output", count] = Runner(every, (some,), delivers=True)
    sample = np.random.default_rng(SEED).permutation(len(group.readers))
    for count in sizes.plans:
        chosen = sorted(sample[:count].tolist())
        runners["plans", count] = Runner(every, tuple(Group(group.join, (group.readers[i],)) for i in chosen))
    report(f"{where}: answers")
    _check(data, runners["join and routing", max(sizes.queries)], runners["plans", max(sizes.plans)], sizes)
    runs = _take_turns(runners, data, sizes, where, report)
    arrived = sum(int((times >= sizes.longest * MICROSECONDS).sum()) for times in data.times)
    return _rows(streams, runs, arrived), _claims(streams, runs, sizes)


def _take_turns(
    runners: Mapping[tuple[str, int], Runner], data: Streams, sizes: Many, where: str, report: Report
) -> dict[tuple[str, int], Passage]:
    best: dict[tuple[str, int], Passage] = {}
    rng = np.random.default_rng(SEED)
    names = list(runners)
    with one_core():
        for turn in range(1, sizes.rounds + 1):
            for number in rng.permutation(len(names)).tolist():
                name = names[number]
                report(f"{where}: {name[1]:,} queries, {name[0]}, {turn} of {sizes.rounds}")
                gc.collect()
                run = _drive(runners[name], data, sizes)
                best[name] = best[name].best(run) if name in best else run
    return {name: best[name] for name in names}


def _drive(runner: Runner, data: Streams, sizes: Many) -> Passage:
    buckets = _open(runner, data, sizes)
    pieces = []
    joined = delivered = work = 0
    for batches, is_timed in _batches(data, sizes):
        known, counted = sum(bucket.work.results for bucket in buckets), _counted(buckets)
        started = time.process_time()
        count = 0
        for bucket in buckets:
            bucket.offer(batches)
            if runner.delivers:
                count += sum(table.num_rows for _, table in bucket.advance())
            else:
                count += sum(part.count * len(part.readers) for part in bucket.find())
        took = time.process_time() - started
        if is_timed:
            pieces.append(took)
            joined += sum(bucket.work.results for bucket in buckets) - known
            delivered += count
            work += _counted(buckets) - counted
    return Passage(tuple(pieces), joined, delivered, work)


def _counted(buckets: Sequence[JoinBucket]) -> int:
    works = [bucket.work for bucket in buckets]
    return sum(work.tuples + work.probes + work.candidates + work.results for work in works)


def _open(runner: Runner, data: Streams, sizes: Many) -> list[JoinBucket]:
    plan, rank = runner.queries.plan(sizes.rate)
    payloads = data.payloads()
    return [JoinBucket(group, plan, rank, payloads) for group in runner.groups]


def _batches(data: Streams, sizes: Many) -> list[tuple[list[Batch | None], bool]]:
    """What fills the windows, then the pieces; whether they are timed."""
    first, last = sizes.longest * MICROSECONDS, (sizes.longest + sizes.seconds) * MICROSECONDS
    cuts = [0, first, *(first + (last - first) * (i + 1) // sizes.pieces for i in range(sizes.pieces))]
    pieces = []
    for start, end in pairwise(cuts):
        batches: list[Batch | None] = []
        for times, table in zip(data.times, data.tables, strict=True):
            a, b = np.searchsorted(times, (start, end)).tolist()
            batches.append(Batch(table.slice(a, b - a), times[a:b], np.arange(a, b)) if b > a else None)
        pieces.append((batches, start > 0))
    return pieces


def _check(data: Streams, shared: Runner, plans: Runner, sizes: Many) -> None:
    """Queries that share the join get what they get from plans of their own."""
    own = _answers(data, plans, sizes)
    served = _answers(data, shared, sizes)
    for name, expected in own.items():
        answers.check_fingerprints(expected, served[name], ("a plan of its own", f"query {name} of many"))


def _answers(data: Streams, runner: Runner, sizes: Many) -> dict[str, Fingerprint]:
    found = {reader.name: answers.NOTHING for group in runner.groups for reader in group.readers}
    for bucket in _open(runner, data, sizes):
        for batches, _ in _batches(data, sizes):
            bucket.offer(batches)
            for part in bucket.find():
                ids = part.results()[:, 2:].T
                for place in part.readers:
                    name = bucket.group.readers[place].name
                    found[name] = found[name].joined(answers.fingerprint(ids))
    return found


def _rows(streams: int, runs: Mapping[tuple[str, int], Passage], arrived: int) -> list[Row]:
    rows: list[Row] = []
    for (what, count), run in runs.items():
        one = runs["with output" if what == "with output" else "join and routing", 1]
        rows.append(
            {
                "part": PLANS if what == "plans" else MANY,
                "streams": streams,
                "queries": count,
                "measured": what,
                "tuples": arrived,
                "joined": run.joined,
                "delivered": run.delivered,
                "cpu_seconds": rounded(run.seconds),
                "ns_per_tuple": rounded(run.seconds / arrived * 1e9),
                "times_one_query": rounded(run.seconds / one.seconds),
                "counted_work": run.work,
                "work_times_one_query": rounded(run.work / one.work),
            }
        )
    return rows


def _claims(streams: int, runs: Mapping[tuple[str, int], Passage], sizes: Many) -> list[Claim]:
    most, plans = max(sizes.queries), max(sizes.plans)
    one = runs["join and routing", 1]
    shared = runs["join and routing", most].seconds / one.seconds
    apart = runs["plans", plans].seconds / plans * most / one.seconds
    return [
        at_most(f"{streams} streams: time of {most:,} queries / of the one with the longest window", shared, 5),
        at_least(
            f"{streams} streams: time of {most:,} plans, taken from {plans} of them / of that one query",
            apart,
            _NEAR * most / 1000,
        ),
    ]
