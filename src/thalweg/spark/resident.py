"""A bucket that lives on: its engine, its durable log, and what is remembered between batches.

Durable are the base windows, as a log of *chunks* (:mod:`thalweg.spark.chunks`), and a small *record*. What a batch
writes to them is a function of what was committed before and of the batch's input. Two attempts at a batch write the
same bytes, whichever engines they run on.

Everything else is a cache. The engine's states are one, and so is what it has learned: the plan that it adapted to,
what the controller knows, the course of its states. These differ from attempt to attempt, so they are not committed.
They are *notes*, which lie beside the engine's image and go with it. A resident that is lost, or that is ahead of what
was committed, is built anew from the log, under a plan that suits what its windows hold.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from thalweg.cql.group import Group
from thalweg.cql.query import Query
from thalweg.driver.bucket_driver import BucketDriver
from thalweg.engine.batch import Batch
from thalweg.engine.bucket import AnyBucket
from thalweg.engine.image import live_in, mark_dirty, read_image, write_image
from thalweg.engine.kernels.compiled import Int64s
from thalweg.engine.observations import Work
from thalweg.engine.readers import Emitted
from thalweg.engine.sampling import SAMPLE_ROWS, sample
from thalweg.engine.savings import Savings
from thalweg.engine.time_bounds import FOREVER, NEVER
from thalweg.errors import CheckpointError, ThalwegError
from thalweg.plan.difference import AnyPlan, format_any
from thalweg.plan.partitioning import Partitioning
from thalweg.plan.plan_json import any_plan_from_json
from thalweg.plan.statistics import Statistics
from thalweg.policies import DEFAULT_POLICIES, Policies
from thalweg.spark.chunks import Chunk, Chunks, Log, packed_times, placed, plain, times_of
from thalweg.spark.commands import Command, Sent, for_query, refusal
from thalweg.spark.compatibility import Comparison, carried_on, check
from thalweg.spark.description import FORMAT, Description
from thalweg.spark.image_directory import tell_once
from thalweg.spark.intake import Intake, is_large, late_causes
from thalweg.spark.log_change import Held, LogChange
from thalweg.spark.metrics import PHASES
from thalweg.spark.packing import blob, blobs, unblob, usable
from thalweg.spark.relations import Relations, rows_of_bucket
from thalweg.spark.side_output import LATE, NO_TIME, KeptOut
from thalweg.spark.watermarks import Watermarks

_NOTES = "notes.json"

_REFUSALS = 10
"""Of commands, that are remembered: who sent one may look for it later than after the next batch."""


@dataclass(frozen=True, slots=True)
class Spec:
    """What a bucket runs; the same for all buckets of a query.

    Attributes:
        identity: told apart from every other run of any query.
        query: the query inside the operator.
        partitioning: how its tuples are spread over buckets.
        lateness: for each stream, in microseconds; None for a static relation.
        relations: the rows of the static relations, if there are any.
        idle_timeout: see :class:`Watermarks`.
        plan: the initial plan as text, if the user gave one.
        late_directory: where rows that were kept out are put; None: they are only counted.
        described: what a checkpoint remembers of the query.
        policies: those of each bucket.
        shown: for each stream, the columns that come with its rows only to be shown if a row is kept out.
        selections: for each stream the conditions on it alone, where Spark computes them; (): nowhere.

    """

    identity: str
    query: Query
    partitioning: Partitioning
    lateness: tuple[int | None, ...]
    relations: Relations | None
    idle_timeout: int | None
    plan: str | None
    late_directory: Path | None
    described: Description
    policies: Policies = DEFAULT_POLICIES
    shown: tuple[tuple[str, ...], ...] = ()
    selections: tuple[exp.Expression | None, ...] = ()


@dataclass(slots=True)
class Arriving:
    """What a batch brings for one bucket.

    ``bodies`` are (stream, blob of rows), ``news`` (stream, newest event time, moment), ``bad`` how many rows of each
    stream have no event time, ``rejected`` (stream, blob) rows that can join nothing, or only their event times,
    ``commands`` what was sent to queries, ``query_id`` Spark's own id of this one, ``starts`` whether the batch is the
    first one of a run (told only where streams may be idle).
    """

    bodies: list[tuple[int, bytes]] = field(default_factory=list)
    news: list[tuple[int, int | None, int]] = field(default_factory=list)
    bad: dict[int, int] = field(default_factory=dict)
    rejected: list[tuple[int, bytes]] = field(default_factory=list)
    commands: list[Sent] = field(default_factory=list)
    query_id: str | None = None
    starts: bool = False


@dataclass(slots=True)
class Outcome:
    """What a batch led to: its number, results as blobs with their readers, rows kept out, the new record, and metrics."""

    batch: int
    results: list[tuple[str, bytes]]
    kept_out: list[KeptOut]
    record: str
    metrics: dict[str, Any]


class Resident:
    """One bucket of a running query."""

    def __init__(self, spec: Spec, number: int) -> None:
        self.spec = spec
        self.token = ""
        self._described = spec.described
        self._number = number
        self._batch = 0
        self._driver = BucketDriver(Group.of(spec.query), spec.policies)
        self._chunks = Chunks(spec.query)
        self._marks = Watermarks(spec.lateness, spec.idle_timeout)
        self._intake = Intake.of(len(spec.lateness))
        self._refused: list[str] = []
        self._ended = False
        self._rebuilds = 0
        self._seconds = dict.fromkeys(PHASES, 0.0)
        self._work = Work(0, 0, 0, 0, 0, 0)
        self._savings = Savings()

    # -- Coming to life -------------------------------------------------------------------

    @staticmethod
    def rebuild(spec: Spec, number: int, record: str, log: Log, directory: Path | None = None) -> Resident:
        """The bucket that wrote this record, from its log; its memory in the directory, if there is one.

        So what is large is filled once, and not moved into files afterwards.
        """
        started = time.perf_counter()
        resident = Resident(spec, number)
        compared = resident._recall(record)
        if compared.rewrites:
            resident._carry_over(compared, log)
        resident._driver.reopen()
        if directory is not None:
            try:
                live_in(directory, resident.bucket)
            except OSError as error:
                _tell(spec, error)
        resident._refill(log)
        resident._driver.plan_anew()
        resident._work, resident._savings = resident.bucket.work, resident._driver.savings or Savings()
        resident._rebuilds = 1
        resident._seconds["rebuild"] = time.perf_counter() - started
        return resident

    def _refill(self, log: Log) -> None:
        """Let a new engine be where the log is."""
        relations = self._relations()
        if self._load(log, relations):
            return
        self._begin_with(relations)
        chunks = self._chunks.read(log)
        for _, group in groupby(chunks, key=lambda pair: pair[0].batch):
            pairs = list(group)
            rows = {chunk.stream: self._logged(chunk, table) for chunk, table in pairs}
            self._replay(rows, pairs[0][0].watermark)
        # Batches without rows may have moved time on.
        self._replay({}, self._watermark)

    def _carry_over(self, compared: Comparison, log: Log) -> None:
        """Write the log anew for a query that has changed."""
        change = LogChange(self.spec.query, self.spec.selections, compared, self._watermark)
        self._chunks.rewrite(compared.places, change, log)
        if not change.counted:
            return
        # Which rows a ROWS window had is known to an engine that runs the query as it was.
        before = Resident(replace(self.spec, query=change.before_it_grew()), self._number)
        before._driver.plan, before._marks = self._driver.plan, self._marks
        before._chunks.restore(self._chunks.to_json())
        before._driver.reopen()
        before._refill(log)
        held = Held({stream: before.bucket.rows(stream) for stream in change.counted})
        self._chunks.rewrite(sorted(compared.places), held, log)

    @staticmethod
    def take_over(spec: Spec, number: int, record: str, directory: Path, kept: Resident | None) -> Resident | None:
        """The bucket that wrote this record, if its image is in the directory; ``kept`` saves opening another.

        OSError: its files went away meanwhile; then ``kept`` is ruined.
        """
        resident = Resident(spec, number)
        if resident._recall(record).rewrites:
            return None
        resident._driver.reopen(None if kept is None else kept.bucket)
        notes = _read_notes(directory)
        if notes is None or not read_image(directory, resident.bucket, resident._stamp):
            return None
        resident._driver.recall_notes(notes)
        resident._work = resident.bucket.work
        resident._savings = resident._driver.savings or Savings()
        return resident

    @property
    def _stamp(self) -> str:
        """What an image is known by: also by the run, for options and static relations may change between two."""
        return f"{self.spec.identity} {self.token}"

    @property
    def is_imaged(self) -> bool:
        """Whether the engine's image was written after its last batch."""
        return self.bucket.image.name is not None

    def leave_image(self, directory: Path) -> None:
        """Let another process go on from here. OSError: it cannot."""
        self.bucket.image.name = None
        directory.mkdir(parents=True, exist_ok=True)
        (directory / _NOTES).write_text(json.dumps(self._driver.notes()))
        write_image(directory, self.bucket, self._stamp)

    def _recall(self, record: str) -> Comparison:
        """Know what the record says; how the query has changed since. Chunks are known as they lie in the log."""
        known: dict[str, Any] = json.loads(record)
        if known["format"] != FORMAT:
            raise CheckpointError(
                f"query '{self.spec.query.name}': the checkpoint has format {known['format']}, and this version of "
                f"thalweg reads format {FORMAT}. Start with a new checkpoint directory."
            )
        compared = check(self.spec.query.name, known["query"], self.spec.described)
        self._described = carried_on(known["query"], self.spec.described, compared)
        self.token, self._batch, self._ended = known["token"], known["batch"], known["ended"]
        self._driver.recall(self._former_plan(known["plan"], known["query"], compared.places), known)
        self._marks.restore(known["marks"], compared.places)
        self._intake = Intake.from_json(known["intake"], compared.places)
        self._refused = list(known["refused"])
        self._chunks.restore(known["chunks"])
        self._driver.at(self._batch, self._marks.reached)
        return compared

    def _former_plan(
        self, known: Mapping[str, Any] | None, query: Description, places: Sequence[int]
    ) -> AnyPlan | None:
        """A plan in which streams have the names, and the positions, that they had in another ``query``."""
        if known is None:
            return None
        aliases = placed([stream["alias"] for stream in query["streams"]], places)
        kept = [[places[stream] for stream in node] for node in known["kept"]]
        return any_plan_from_json({**known, "kept": kept}, self.spec.query, aliases)

    def _load(self, log: Log, relations: Mapping[int, pa.Table]) -> bool:
        """Put the rows of all chunks into the windows at once, if the bucket can do that."""
        join = self._driver.join
        if join is None or not join.can_load:
            return False
        streams = range(len(self.spec.query.streams))
        parts: list[list[Batch]] = [[self._rows_of(s, relations[s])] if s in relations else [] for s in streams]
        for chunk, table in self._chunks.read(log):
            parts[chunk.stream].append(self._logged(chunk, table))
        join.load(parts, self._watermark)
        return True

    def _logged(self, chunk: Chunk, table: pa.Table) -> Batch:
        """Rows of the log as the bucket took them when they came."""
        return self._rows_of(chunk.stream, plain(table), self._chunks.numbers(chunk, table))

    def _replay(self, rows: Mapping[int, Batch], watermark: int) -> None:
        """Take rows again whose results were emitted before."""
        self._take(rows, watermark)
        for _ in self._answers(watermark):
            pass

    def _relations(self) -> dict[int, pa.Table]:
        """The rows of static relations that belong into this bucket, by stream."""
        if self.spec.relations is None:
            return {}
        return rows_of_bucket(self.spec.relations, self.spec.partitioning, self._number)

    def _begin_with(self, relations: Mapping[int, pa.Table]) -> None:
        """Offer static relations to a new engine, before everything else. They are no part of the log."""
        streams = range(len(self.spec.query.streams))
        self.bucket.offer([self._rows_of(s, relations[s]) if s in relations else None for s in streams], NEVER)
        for _ in self.bucket.advance():
            pass

    @property
    def _watermark(self) -> int:
        return FOREVER if self._ended else self._marks.watermark

    @property
    def bucket(self) -> AnyBucket:
        """The live engine."""
        return self._driver.bucket

    def _first_statistics(self, tables: Mapping[int, pa.Table]) -> Statistics:
        """What the first rows say about the streams."""
        query = self.spec.query
        beginnings = [self._beginning(s, tables.get(s)) for s in range(len(query.streams))]
        return Statistics.measure(query, sample(query, beginnings))

    def _beginning(self, stream: int, table: pa.Table | None) -> tuple[pa.Table, Int64s, int]:
        """The first rows of a stream in time order, their times, and how many rows there are."""
        schema = self.spec.query.streams[stream].schema
        if table is None:
            return schema.empty_table(), np.zeros(0, np.int64), 0
        times = self._times(stream, table)
        order = np.argsort(times, kind="stable")[:SAMPLE_ROWS]
        return table.select(schema.names).take(pa.array(order)), times[order], table.num_rows

    def _rows_of(self, stream: int, table: pa.Table, numbers: Int64s | None = None) -> Batch:
        columns = table.select(self.spec.query.streams[stream].schema.names)
        return Batch(columns, self._times(stream, table), numbers=numbers)

    def _new_rows(self, stream: int, table: pa.Table) -> Batch:
        return self._rows_of(stream, table, self._chunks.next_numbers(stream, table.num_rows))

    def _times(self, stream: int, table: pa.Table) -> Int64s:
        return times_of(self.spec.query.streams[stream], table)

    # -- A batch --------------------------------------------------------------------------

    def process(self, arriving: Arriving, log: Log) -> Outcome:
        """Take a batch; what it leads to is to be committed together with what was put into the log."""
        clock = _Clock(self._seconds)
        with clock("decode"):
            taken = Intake.of(len(self.spec.lateness))
            tables, kept_out = self._decode(arriving, taken)
            kept_out += self._sort_out(arriving, taken)
            self._intake.add(taken)
            self._warn(taken)
        driver = self._driver
        driver.at(self._batch, self._marks.reached)
        if not driver.is_open:
            relations = self._relations()
            driver.begin(self._first_statistics({**tables, **relations}), self.spec.plan)
            self._begin_with(relations)
        refused = self._obey_all(arriving)
        self._refused = [*self._refused, *refused][-_REFUSALS:]
        now = max((moment for _, _, moment in arriving.news), default=0) or None
        if arriving.starts:
            self._marks.wake()
        for stream, newest, moment in arriving.news:
            self._marks.hear(stream, newest, moment)
        self._marks.advance(now)
        driver.at(self._batch, self._marks.reached)
        watermark = self._watermark
        work, join = self.bucket.work, driver.join
        ran = 0.0 if join is None else join.seconds
        decisions: list[dict[str, Any]] = []

        def adapt() -> None:
            with clock("adapt"):
                made = driver.consider(self.bucket.work.tuples - work.tuples)
                decisions.extend(decision.to_json() for decision in made)

        with clock("probe"):
            self._take({s: self._new_rows(s, table) for s, table in tables.items()}, watermark)
            answers = list(self._answers(watermark, None if driver.controller is None else adapt))
        # Probes complete the keys that they find absent; what that took is estimated, not measured.
        if join is not None:
            completing = (join.seconds - ran) * join.work.completing_share(work)
            self._seconds["probe"] -= completing
            self._seconds["complete"] += completing
        adapt()
        with clock("emit"):
            results = [(reader, body) for reader, table in answers for body in blobs(table)]
        with clock("log"):
            self._chunks.add(self._batch, tables, watermark, log)
            self._chunks.tidy(self.bucket, watermark, log)
        self._batch += 1
        metrics = {
            "tuples": {self._alias(s): table.num_rows for s, table in tables.items()},
            "results": sum(table.num_rows for _, table in answers),
            "late": self._by_alias(taken.late),
            "bad": self._by_alias(taken.bad),
            "rows_so_far": self._by_alias(self._intake.rows),
            "late_so_far": self._by_alias(self._intake.late),
            "bad_so_far": self._by_alias(self._intake.bad),
            "refused": refused,
            "latest_refused": self._refused,
            "ended": self._ended,
            "decisions": decisions,
        }
        measured = self._measure(metrics)  # of the history too, which the record remembers
        return Outcome(self._batch - 1, results, kept_out, self._new_record(), measured)

    def _alias(self, stream: int) -> str:
        return self.spec.query.aliases[stream]

    def _by_alias(self, counts: Sequence[int]) -> dict[str, int]:
        return {self._alias(stream): count for stream, count in enumerate(counts) if count}

    def _decode(self, arriving: Arriving, taken: Intake) -> tuple[dict[int, pa.Table], list[KeptOut]]:
        """The rows that came in time, by stream, and those that were late if they are wanted; counts them.

        A row that is copied to several buckets is counted by the first.
        """
        parts: dict[int, list[pa.Table]] = {}
        for stream, body in arriving.bodies:
            parts.setdefault(stream, []).append(unblob(body))
        tables: dict[int, pa.Table] = {}
        kept_out: list[KeptOut] = []
        watermark = self._watermark
        for stream in sorted(parts):
            table = pa.concat_tables(parts[stream])
            in_time = self._times(stream, table) >= watermark
            counts = self.spec.partitioning.is_first_copy(stream, self._number)
            if counts:
                taken.rows[stream] += table.num_rows
            if not in_time.all():
                if counts:
                    taken.late[stream] += int((~in_time).sum())
                if counts and self.spec.late_directory is not None:
                    kept_out.append((stream, LATE, blob(table.filter(pa.array(~in_time)))))
                table = table.filter(pa.array(in_time))
            if table.num_rows:
                tables[stream] = table.drop_columns(list(self.spec.shown[stream])) if self.spec.shown else table
        return tables, kept_out

    def _sort_out(self, arriving: Arriving, taken: Intake) -> list[KeptOut]:
        """Count the rows that can join nothing; those to keep, if they are wanted."""
        kept_out: list[KeptOut] = []
        for stream, bad in arriving.bad.items():
            taken.rows[stream] += bad
            taken.bad[stream] += bad
        for stream, body in arriving.rejected:
            table = unblob(body)
            times = packed_times(self.spec.query.streams[stream], table)
            has_time = usable(times)
            if has_time is not None:
                kept_out.append((stream, NO_TIME, blob(table.filter(pc.invert(has_time)))))
                table, times = table.filter(has_time), times.filter(has_time)
            taken.rows[stream] += len(times)
            is_late = pc.less(times, self._watermark)
            if count := pc.sum(is_late).as_py():
                taken.late[stream] += count
                if self.spec.late_directory is not None:
                    kept_out.append((stream, LATE, blob(table.filter(is_late))))
        return kept_out

    def _warn(self, taken: Intake) -> None:
        """Say in the log, once, of which streams many rows are late."""
        for stream, late in enumerate(self._intake.late):
            if taken.late[stream] and is_large(late, self._intake.rows[stream]):
                tell_once(
                    f"query '{self.spec.query.name}': many rows of stream '{self._alias(stream)}' are late and kept "
                    f"out (late_so_far in the metrics says how many). {late_causes(ended=self._ended)}"
                )

    def _obey_all(self, arriving: Arriving) -> list[str]:
        """Do what the commands of a batch say; which of them were refused, and why."""
        own = {self.spec.query.name} | ({arriving.query_id} if arriving.query_id else set())
        commands, refused = for_query(arriving.commands, own)
        for file, command in commands:
            try:
                reason = self._obey(command)
            except ThalwegError as error:
                reason = str(error)
            if reason is not None:
                refused.append(refusal(file, reason))
        return refused

    def _obey(self, command: Command) -> str | None:
        """Do what a command says; if that cannot be done, says why, or raises that, and leaves everything as it is."""
        if command["command"] == "end":
            self._ended = True
            return None
        if command["command"] == "adapt":
            return self._driver.release()
        self._driver.command(command["plan"], command.get("states"), lasts=True)
        return None

    def _take(self, rows: Mapping[int, Batch], watermark: int) -> None:
        self.bucket.offer([rows.get(s) for s in range(len(self.spec.query.streams))], watermark)

    def _answers(self, watermark: int, between: Callable[[], None] | None = None) -> Iterator[Emitted]:
        join = self._driver.join
        yield from self.bucket.advance() if join is None else join.advance(between=between)
        if watermark == FOREVER:
            yield from self.bucket.close()
        else:
            yield from self.bucket.settle(watermark)

    # -- What is remembered ---------------------------------------------------------------

    def _new_record(self) -> str:
        """What is to be committed; from now on, it is what the bucket was last equal to.

        The token names what was committed: it is a digest of this record and of the token before.
        """
        content = {
            "format": FORMAT,
            "query": self._described,
            "batch": self._batch,
            **self._driver.record(),
            "chunks": self._chunks.to_json(),
            "marks": self._marks.to_json(),
            "intake": self._intake.to_json(),
            "refused": self._refused,
            "ended": self._ended,
        }
        self.token = hashlib.sha256((self.token + json.dumps(content)).encode()).hexdigest()[:32]
        return json.dumps({"token": self.token, **content})

    def _measure(self, counts: dict[str, Any]) -> dict[str, Any]:
        """Counts of this batch, and what the bucket holds after it."""
        sizes = self.bucket.sizes()
        streams = [size for size in sizes if len(size.node) == 1]
        work = self.bucket.work
        driver = self._driver
        driver.history.update(sum(counts["tuples"].values()), sizes)
        history = driver.history.to_json()
        measured = counts | {
            "bucket": self._number,
            "plan_changes": history["changes"],
            "history": history["periods"],
            "latest_decisions": [] if driver.controller is None else driver.controller.latest_decisions,
            "watermark": self._marks.watermark,
            "plan": None if driver.plan is None else format_any(driver.plan, self.spec.query.aliases),
            "state_tuples": sum(size.tuples for size in streams),
            "state_entries": sum(size.tuples for size in sizes) - sum(size.tuples for size in streams),
            "state_bytes": sum(size.bytes for size in sizes),
            "chunks": len(self._chunks),
            "probes": work.probes - self._work.probes,
            "completions": work.completions - self._work.completions,
            "rebuilds": self._rebuilds,
            "seconds": {phase: round(spent, 6) for phase, spent in self._seconds.items()},
        }
        self._work, self._rebuilds, self._seconds = work, 0, dict.fromkeys(PHASES, 0.0)
        savings = driver.savings
        if savings is not None:
            measured["savings"] = asdict(savings.since(self._savings))
            self._savings = savings
        return measured


def attend(
    spec: Spec,
    number: int,
    record: str | None,
    arriving: Arriving,
    log: Log,
    directory: Path | None,
    kept: Resident | None = None,
) -> tuple[Resident, Outcome]:
    """Run a batch of a bucket: on the engine as it was committed, or on one built anew.

    An image is a cache. Whatever happens to its files (a full disk, say), the batch goes on without one.

    Args:
        spec: what the bucket runs.
        number: the bucket's own.
        record: what was committed last; None before the first batch.
        arriving: the batch.
        log: the chunks, as they were committed.
        directory: the caller's alone, for the bucket's image; None: there is no place for one.
        kept: the resident that the caller used last, which may be behind, ahead, or ruined.

    """
    taken = None
    if directory is not None:
        try:
            taken = None if record is None else Resident.take_over(spec, number, record, directory, kept)
            mark_dirty(directory)
        except OSError as error:
            taken = directory = None
            _tell(spec, error)
    if record is None:
        resident = Resident(spec, number)
    else:
        resident = taken or Resident.rebuild(spec, number, record, log, directory)
    outcome = resident.process(arriving, log)
    if directory is not None:
        try:
            resident.leave_image(directory)
        except OSError as error:
            _tell(spec, error)
    return resident, outcome


def _tell(spec: Spec, error: OSError) -> None:
    reason = error.strerror or error
    tell_once(f"query '{spec.query.name}' goes on without an image of its engine, from the log: {reason}")


def _read_notes(directory: Path) -> dict[str, Any] | None:
    """The notes beside an image; None if there are none, or they were cut short."""
    try:
        notes: dict[str, Any] = json.loads((directory / _NOTES).read_bytes())
    except (OSError, ValueError):
        return None
    return notes


class _Clock:
    """Adds the time spent in blocks to that of their phases; a block within another counts for its own phase alone."""

    def __init__(self, seconds: dict[str, float]) -> None:
        self._seconds = seconds
        self._within = 0.0

    @contextmanager
    def __call__(self, phase: str) -> Iterator[None]:
        before, self._within = self._within, 0.0
        started = time.perf_counter()
        yield
        spent = time.perf_counter() - started
        self._seconds[phase] += spent - self._within
        self._within = before + spent
