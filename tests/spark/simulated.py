"""Spark's part, played in process: tasks that pack, a shuffle, buckets with a durable log, crashes and retries.

What is ours of the Spark runtime (packing, partitioning, watermarks, the log, rebuilding) runs as it is; only
Spark is left out, so thousands of cases take minutes.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from thalweg.cql.query import Query, StreamRef
from thalweg.engine.observations import Work
from thalweg.engine.rows.expressions import Expressions, physical_names
from thalweg.engine.rows.interner import comparable
from thalweg.engine.time_bounds import NEVER
from thalweg.plan.partitioning import Coordinate, Partitioning
from thalweg.policies import DEFAULT_POLICIES, Policies
from thalweg.spark.attendance import attend
from thalweg.spark.bucket_spec import Arriving, Delivery, Outcome, Spec
from thalweg.spark.carriage import Kept, carriage, narrowed
from thalweg.spark.chunks import PIECES
from thalweg.spark.commands import Sent
from thalweg.spark.description import description
from thalweg.spark.division import divide_shared
from thalweg.spark.packing import MOMENT, PARTITION, PASSES, Packer, T, hash_column, time_column, unblob, unbundle
from thalweg.spark.prices import Prices
from thalweg.spark.relations import relation_blob
from thalweg.spark.resident import Resident
from thalweg.spark.run import Run, joined
from thalweg.spark.shared_run import Registered, SharedRun, base_query


@dataclass
class DictLog:
    """A log in memory; a transaction is a copy of it."""

    held: dict[tuple[int, int], bytes] = field(default_factory=dict)

    def put(self, batch: int, number: int, body: bytes) -> None:
        assert (batch, number) not in self.held
        self.held[batch, number] = body

    def get(self, batch: int, number: int) -> bytes | None:
        return self.held.get((batch, number))

    def drop(self, batch: int, number: int) -> None:
        del self.held[batch, number]


class SimulatedBucket:
    """One bucket: its committed record and log, and engines that may be current, stale or ahead."""

    def __init__(self, spec: Spec, number: int, rng: Random, troubled: float, directory: Path) -> None:
        self._number = number
        self._spec, self._rng, self._troubled, self._directory = spec, rng, troubled, directory
        self._record: str | None = None
        self._log = DictLog()
        self._kept: dict[int, Resident] = {}
        self.metrics: list[dict[str, object]] = []
        self.work: Work | None = None

    @property
    def values(self) -> set[tuple[int, int]]:
        """The keys of what is in the log: batch and number."""
        return set(self._log.held)

    @property
    def homes(self) -> set[int]:
        """The streams by whose numbers bundles are put into the log."""
        return {number // PIECES for _, number in self.values}

    @property
    def chunks(self) -> int:
        return len(self.values)

    def lose_engines(self) -> None:
        """Let the next batch begin with what was committed alone."""
        self._kept.clear()
        shutil.rmtree(self._directory, ignore_errors=True)  # there may be none

    def go_on_from(self, other: SimulatedBucket) -> None:
        """Begin with what another has committed."""
        self._record, self._log = other._record, other._log

    @property
    def committed(self) -> tuple[str | None, dict[tuple[int, int], bytes]]:
        """The record and the log."""
        return self._record, self._log.held

    @property
    def rows(self) -> int:
        """How many rows there are in the log."""
        return sum(table.num_rows for body in self._log.held.values() for table in unbundle(body))

    def run(self, arriving: Arriving) -> list[Delivery]:
        """What a batch has for readers; attempts that fail after their work is done would have written the same."""
        failed = []
        while self._rng.random() < self._troubled:
            failed.append(self._attempt(arriving))
        log, outcome = self._attempt(arriving)
        for other_log, other in failed:
            assert other_log.held == log.held
            assert other.record == outcome.record
            assert rows_of(other) == rows_of(outcome)
            assert other.metrics.get("spending") == outcome.metrics.get("spending")
        self._log, self._record = log, outcome.record
        self.metrics.append(outcome.metrics)
        json.dumps(outcome.metrics)
        return outcome.results

    def _attempt(self, arriving: Arriving) -> tuple[DictLog, Outcome]:
        """By one of three workers, which may find the directory taken by another, or cleared."""
        log = DictLog(dict(self._log.held))
        worker = self._rng.randrange(3)
        directory = None if self._rng.random() < self._troubled / 2 else self._directory
        if self._rng.random() < self._troubled / 4:
            shutil.rmtree(self._directory, ignore_errors=True)  # it may not be there yet
        kept = self._kept.pop(worker, None)
        resident, outcome = attend(self._spec, self._number, self._record, arriving, log, directory, kept)
        self.work = resident.bucket.work
        if directory is not None:
            self._kept[worker] = resident
        return log, outcome


def rows_of(outcome: Outcome) -> Counter[tuple[str, str]]:
    """The results of an attempt, with their readers; engines that have learned otherwise may find them in any order.

    Also who has failed, but not why: the first row that is found may be another.
    """
    rows = [(each.reader, repr(row)) for each in outcome.results if each.body for row in unblob(each.body).to_pylist()]
    return Counter([*rows, *((each.reader, "failed") for each in outcome.results if each.failure)])


class SimulatedQuery:
    """A query over some buckets, or several that share a run."""

    def __init__(
        self, spec: Spec, partitioning: Partitioning, rng: Random, directory: Path, troubled: float = 0.0
    ) -> None:
        self._query, self._partitioning = spec.query, partitioning
        self._carried = [stream["columns"] for stream in spec.described["streams"]]
        self.buckets = [
            SimulatedBucket(spec, b, rng, troubled, directory / str(b)) for b in range(partitioning.buckets)
        ]
        self._moment = 0
        self.published: dict[str, list[pa.Table]] = {}
        self.failed: dict[str, tuple[int, str]] = {}
        """By reader, the batch in which it failed, and why."""
        self._leaving: dict[str, dict[str, Any]] = {}
        """What the commit of the batch before has to say of those."""

    def answer(self, reader: str) -> list[dict[str, Any]]:
        """The rows of one of the queries that share the run."""
        return [row for table in self.published.get(reader, ()) for row in table.to_pylist()]

    def _publish(self, batch: int, delivered: Sequence[Delivery]) -> list[pa.Table]:
        """What an outbox shows of what all buckets have for readers."""

        def is_out(each: Delivery) -> bool:
            return each.reader in self.failed and each.since <= self.failed[each.reader][0]

        for each in delivered:
            if each.failure is not None:
                self._leaving[each.reader] = {"command": "leave", "name": each.reader, "since": each.since}
                if not is_out(each):
                    self.failed[each.reader] = batch, each.failure
        shown = [(each.reader, unblob(each.body)) for each in delivered if each.body is not None and not is_out(each)]
        for reader, table in shown:
            self.published.setdefault(reader, []).append(table)
        return [table for _, table in shown]

    def batch(
        self,
        rows: Sequence[tuple[pa.Table, Sequence[int | None]] | None],
        commands: Sequence[Mapping[str, object] | str] = (),
        prices: Prices | None = None,
    ) -> list[pa.Table]:
        """Run a micro-batch: the rows of each stream with their event times, and commands, or texts for such.

        ``prices``: what triggers take, if the driver has anything new to say.
        """
        self._moment += 1
        commands = [*commands, *self._leaving.values()]
        self._leaving = {}
        arriving = [Arriving(batch=self._moment) for _ in self.buckets]
        for stream, given in enumerate(rows):
            if given is not None:
                for row in self._packed(stream, *given):
                    mine = arriving[row["bucket"]]
                    if row["body"] is not None:
                        mine.bodies.append((stream, row["body"]))
                    if row["rejected"] is not None:
                        mine.rejected.append((stream, row["rejected"]))
                    mine.bad[stream] = mine.bad.get(stream, 0) + row["bad"]
                    mine.news.append((stream, None if row["newest"] == NEVER else row["newest"], row["moment"]))
        for mine in arriving:
            mine.prices = prices
            mine.commands = [
                Sent(position, f"{position}.json", command if isinstance(command, str) else json.dumps(command))
                for position, command in enumerate(commands)
            ]
        delivered = [
            each
            for bucket, mine in zip(self.buckets, arriving, strict=True)
            if mine.news or mine.commands or mine.prices is not None
            for each in bucket.run(mine)
        ]
        return self._publish(self._moment, delivered)

    def _packed(self, stream: int, table: pa.Table, times: Sequence[int | None]) -> list[dict[str, Any]]:
        carried = table.select(list(self._carried[stream]))
        packer = _packer(stream, self._query.streams[stream], carried.schema, self._partitioning)
        handed = carried if packer.time != T else carried.append_column(T, pa.array(times, pa.int64()))
        if PASSES in table.column_names:
            handed = handed.append_column(PASSES, table.column(PASSES))
        handed = handed.append_column(PARTITION, pa.array([0] * table.num_rows, pa.int32()))
        handed = handed.append_column(MOMENT, pa.array([self._moment] * table.num_rows, pa.int64()))
        handed = with_hashes(self._query, self._partitioning, stream, handed, table)
        packed = packer(iter(handed.combine_chunks().to_batches()))
        return [row for batch in packed for row in batch.to_pylist()]


@dataclass(frozen=True)
class Shared:
    """What Spark would broadcast."""

    value: dict[int, bytes]


def with_hashes(query: Query, partitioning: Partitioning, stream: int, handed: pa.Table, table: pa.Table) -> pa.Table:
    """Rows to be handed on, with the hashes of the columns of ``table`` that say which buckets they belong to."""
    for axis, coordinate in enumerate(partitioning.known(stream)):
        handed = handed.append_column(hash_column(axis), pa.array(_hashes(query, stream, coordinate, table)))
    return handed


def _hashes(query: Query, stream: int, coordinate: Coordinate, table: pa.Table) -> np.ndarray:
    if coordinate.kind == "row":
        values = [tuple(row.values()) for row in table.to_pylist()]
    else:
        ref = query.streams[stream]
        table = table.select(ref.schema.names)
        names = [physical_names(query)[ref.alias, name] for name in table.column_names]
        expressions = Expressions(physical_names(query))
        scalar = expressions.compile([(f"x{i}", e) for i, e in enumerate(coordinate.expressions)])
        computed = expressions.evaluate(scalar, table.rename_columns(names))
        columns = [comparable(column.combine_chunks()).to_pylist() for column in computed.columns]
        values = list(zip(*columns, strict=True))
    digests = [hashlib.blake2b(repr(value).encode(), digest_size=8).digest() for value in values]
    return np.array([int.from_bytes(digest, "little", signed=True) for digest in digests], np.int64)


def _packer(stream: int, ref: StreamRef, carried: pa.Schema, partitioning: Partitioning) -> Packer:
    assert ref.time is not None
    time = time_column(ref.time, ref.schema.field(ref.time).type)
    schema = pa.schema([*([pa.field(T, pa.int64())] if time == T else []), *carried])
    return Packer(stream, schema, time, partitioning, tuple(range(partitioning.buckets)), keeps_rejected=False)


def simulated_spec(
    query: Query,
    partitioning: Partitioning,
    lateness: Sequence[int | None],
    plan: str | None = None,
    policies: Policies = DEFAULT_POLICIES,
    *,
    relations: Mapping[int, pa.Table] | None = None,
    keep: Mapping[str, Kept] | None = None,
) -> Spec:
    carried = carriage(query, keep)
    described = description(query, partitioning, carried)
    collected = {
        s: relation_blob(with_hashes(query, partitioning, s, table, table), carried[s].columns, partitioning, s)
        for s, table in (relations or {}).items()
    }
    return Spec(
        identity="simulated",
        query=narrowed(query, carried),
        partitioning=partitioning,
        lateness=tuple(lateness),
        relations=Shared(collected) if collected else None,
        idle_timeout=None,
        plan=plan,
        policies=policies,
        late_directory=None,
        described=described,
    )


def shared_spec(
    run: Run, registered: tuple[Registered, ...], lateness: int, policies: Policies = DEFAULT_POLICIES
) -> Spec:
    """What the buckets of a run get that begins with these queries; all columns of its streams are carried."""
    partitioning = run.partitioning
    group = joined(run.founder, registered, run.catalog, partitioning)
    keep = {name: Kept(tuple(source.schema.names)) for name, source in run.catalog.items()}
    division = divide_shared(group, keep)
    inside = replace(division.inside, name=run.name)
    query = base_query(group.join, run.name)
    identity = uuid.uuid4().hex
    return Spec(
        identity=identity,
        query=inside,
        partitioning=partitioning,
        lateness=(lateness,) * len(query.streams),
        relations=None,
        idle_timeout=None,
        plan=None,
        policies=policies,
        late_directory=None,
        described=description(query, partitioning, division.carried),
        shared=SharedRun(identity, run.name, group.join, inside.join, run.catalog, registered, partitioning),
    )
