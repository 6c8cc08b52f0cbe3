"""A bucket that lives on: its engine, its durable log, and what is remembered between batches.

Durable are the base windows, as a log of *chunks* (:mod:`thalweg.spark.chunks`), and a small *record*
(:mod:`thalweg.spark.record`). What a batch writes to them is a function of what was committed before and of the batch's
input. Two attempts at a batch write the same bytes, whichever engines they run on.

Everything else is a cache. The engine's states are one, and so is what was learned: the plan that it adapted to, what
the controller and the decider about gates know, the course of its states. These differ from attempt to attempt, so they
are not committed. They are *notes*, which lie beside the engine's image and go with it. A resident that is lost, or
that is ahead of what was committed, is built anew from the log, under a plan that suits what its windows hold.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from thalweg.cql.group import Group
from thalweg.driver.batches import begin_with, run_batch
from thalweg.driver.bucket_driver import BucketDriver
from thalweg.driver.measures import Measures
from thalweg.driver.phases import Phases
from thalweg.driver.planning import first_statistics
from thalweg.engine.bucket import AnyBucket
from thalweg.engine.image.image import live_in, mark_dirty, read_image, write_image
from thalweg.engine.outputs.readers import Emitted
from thalweg.errors import ReaderError, ThalwegError
from thalweg.settings import Budget
from thalweg.spark.bucket_spec import Arriving, Delivery, Outcome, Spec
from thalweg.spark.chunks import Log
from thalweg.spark.commands import Command, for_query, refusal
from thalweg.spark.freshness import freshness_report
from thalweg.spark.image_directory import tell_once
from thalweg.spark.metrics import PHASES
from thalweg.spark.packing import blobs
from thalweg.spark.reception import receive, warn_of_late
from thalweg.spark.record import Record
from thalweg.spark.refill import batch_of, carry_over, refill, relations_of
from thalweg.spark.shared_run import Registered
from thalweg.spark.spending_report import spending_report
from thalweg.spark.survivors import survivors

_NOTES = "notes.json"


class Resident:
    """One bucket of a running query."""

    def __init__(self, spec: Spec, number: int) -> None:
        self.spec = spec
        self._number = number
        self._record = Record(spec)
        self._driver = BucketDriver(
            self._group(self._record.registered), spec.policies, keeps_all=spec.shared is not None
        )
        self._measures = Measures()
        self._phases = Phases(PHASES)
        self._rebuilds = 0

    # -- Coming to life -------------------------------------------------------------------

    @staticmethod
    def rebuild(spec: Spec, number: int, record: str, log: Log, directory: Path | None = None) -> Resident:
        """The bucket that wrote this record, from its log; its memory in the directory, if there is one.

        So what is large is filled once, and not moved into files afterwards.
        """
        resident = Resident(spec, number)
        with resident._phases("rebuild"):
            resident._rebuild(record, log, directory)
        return resident

    def _group(self, registered: Sequence[Registered]) -> Group:
        """These queries, if several share the run; else the one."""
        shared = self.spec.shared
        return Group.of(self.spec.query) if shared is None else shared.group(registered)

    def _follow(self) -> None:
        """Let the log keep what the queries that are there now need."""
        record = self._record
        if self.spec.shared is not None:
            record.chunks.serve(self._group(record.registered).whole, [each.until for each in record.former])

    def _rebuild(self, text: str, log: Log, directory: Path | None) -> None:
        driver, record = self._driver, self._record
        compared = record.recall(text, driver)
        if compared.rewrites:
            carry_over(self.spec, self._number, driver, record, compared, log)
        left = survivors(self.spec, record, log)
        driver.readers_are(self._group(record.first_registered if left is None else record.registered))
        driver.reopen()
        if directory is not None:
            try:
                live_in(directory, self.bucket)
            except OSError as error:
                _tell(self.spec, error)
        refill(self.spec, self._number, driver, record, log, left)
        self._follow()
        driver.plan_anew()
        self._measures.begin_with(driver)
        self._rebuilds = 1

    @staticmethod
    def take_over(spec: Spec, number: int, record: str, directory: Path, kept: Resident | None) -> Resident | None:
        """The bucket that wrote this record, if its image is in the directory; ``kept`` saves opening another.

        OSError: its files went away meanwhile; then ``kept`` is ruined.
        """
        resident = Resident(spec, number)
        driver = resident._driver
        if resident._record.recall(record, driver).rewrites:
            return None
        driver.readers_are(resident._group(resident._record.registered))
        notes = _read_notes(directory)
        if notes is None:
            return None
        driver.recall_shares(notes)
        driver.reopen(kept.bucket if kept is not None and driver.suits(kept.bucket) else None)
        if not read_image(directory, resident.bucket, resident._stamp):
            return None
        driver.recall_notes(notes)
        resident._follow()
        resident._measures.begin_with(driver)
        return resident

    @property
    def bucket(self) -> AnyBucket:
        """The live engine."""
        return self._driver.bucket

    @property
    def _stamp(self) -> str:
        """What an image is known by: also by the start, for options and static relations may change between two."""
        return f"{self.spec.identity} {self._record.token}"

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

    # -- A batch --------------------------------------------------------------------------

    def process(self, arriving: Arriving, log: Log, failing: Mapping[str, str] | None = None) -> Outcome:
        """Take a batch; what it leads to is to be committed together with what was put into the log.

        A :class:`ReaderError` names queries that cannot be computed for some row of the batch. Then this resident is
        ruined, and the log is as before. A new one takes the batch with these as ``failing``, each with its reason:
        they are put out before the rows come.
        """
        failing = failing or {}
        spec, driver, record, phases = self.spec, self._driver, self._record, self._phases
        with phases("decode"):
            received = receive(spec, self._number, arriving, record.watermark)
            record.prices = arriving.prices or record.prices
            record.intake.add(received.taken)
            warn_of_late(spec, received.taken, record.intake, ended=record.ended)
            rows = {s: batch_of(spec.query, s, table) for s, table in received.tables.items()}
        driver.at(record.batch, record.marks.reached)
        failures: list[Delivery] = []
        if not driver.is_open:
            failures += self._never_begin(failing)
            relations = relations_of(spec, self._number)
            driver.begin(first_statistics(spec.query, {**rows, **relations}), spec.plan)
            begin_with(driver, spec.query, relations)
        refused = self._obey_all(arriving, failures)
        failures += self._put_out(failing)
        record.remember_refused(refused)
        before = record.marks.reached
        record.hear(arriving)
        driver.at(record.batch, record.marks.reached)
        self._allow(sum(batch.table.num_rows for batch in rows.values()), before)
        watermark = record.watermark
        numbered = {
            s: replace(batch, numbers=record.chunks.next_numbers(s, batch.table.num_rows)) for s, batch in rows.items()
        }
        answers, decisions = run_batch(driver, spec.query, numbered, watermark, phases)
        with phases("emit"):
            since = {each.name: each.since for each in record.registered}
            results = [Delivery(name, since.get(name, 0), body) for name, table in answers for body in blobs(table)]
        ages = {} if driver.join is None else driver.join.take_ages()
        fresh = freshness_report(self._group(record.registered), ages, time.time_ns() // 1000)
        with phases("log"):
            record.chunks.add(record.batch, received.tables, watermark, log)
            record.chunks.tidy(self.bucket, watermark, log)
            record.forget_former()
        record.batch += 1
        counts = {
            "tuples": {spec.query.aliases[s]: table.num_rows for s, table in received.tables.items()},
            "results": sum(table.num_rows for _, table in answers),
            "queries": _by_query(answers),
            "late": self._by_alias(received.taken.late),
            "bad": self._by_alias(received.taken.bad),
            "refused": refused,
            "failed": {each.reader: each.failure for each in failures},
            "decisions": [decision.to_json() for decision in decisions],
            **({"freshness": fresh} if fresh else {}),
        }
        metrics = self._measured(counts)  # of the history too, which the record remembers
        return Outcome(record.batch - 1, [*results, *failures], received.kept_out, record.renew(driver), metrics)

    def _allow(self, rows: int, before: int | None) -> None:
        """Say what a batch of so many rows has time for; ``before`` it, so much event time was reached."""
        reached, target = self._record.marks.reached, self.spec.policies.target_us
        probes = (
            None
            if target is None
            else self._record.prices.probes(target / 1e6, self._number, self.spec.partitioning.buckets, rows)
        )
        seconds = 0.0 if before is None or reached is None else (reached - before) / 1e6
        self._driver.budgeting.allow(probes, seconds, self._record.prices.result_in_probes)

    def _obey_all(self, arriving: Arriving, failures: list[Delivery]) -> list[str]:
        """Do what the commands of a batch say; which of them were refused, and why.

        A query that cannot enter is one of the ``failures``.
        """
        own = {self.spec.query.name} | ({arriving.query_id} if arriving.query_id else set())
        commands, refused = for_query(arriving.commands, own)
        # Those that have failed elsewhere go first: who enters sees what is held for the others, in all buckets alike.
        for file, command in sorted(commands, key=lambda each: "since" not in each[1]):
            try:
                reason = self._obey(command, arriving.batch)
            except ThalwegError as error:
                reason = str(error)
                if command["command"] == "enter":
                    name = command["name"]
                    why = error.reasons.get(name, reason) if isinstance(error, ReaderError) else reason
                    self._record.failed.append(name)
                    failures.append(Delivery(name, arriving.batch, None, why))
            if reason is not None:
                refused.append(refusal(file, reason))
        return refused

    def _serve(self, registered: Sequence[Registered]) -> None:
        """Go on with other queries, as of the watermark of the batch before: also if this one ends the input."""
        self._driver.serve(self._group(registered), self._record.marks.watermark)
        self._record.change(registered)
        self._follow()

    def _obey(self, command: Command, batch: int) -> str | None:
        """Do what a command says; if that cannot be done, says why, or raises that, and leaves everything as it is."""
        if command["command"] == "end":
            self._record.ended = True
            return None
        if command["command"] == "adapt":
            return self._driver.release()
        if command["command"] == "enter":
            return self._enter(Registered(command["name"], command["text"], batch))
        if command["command"] == "leave":
            return self._leave(command["name"], command.get("since"))
        if command["command"] == "budget":
            self._driver.set_budget(Budget.parse(str(command["budget"])))
            return None
        self._driver.command(command["plan"], command.get("states"), lasts=True)
        return None

    def _enter(self, entering: Registered) -> str | None:
        """Take in one more query."""
        record, shared = self._record, self.spec.shared
        if shared is None:
            what = f"query '{self.spec.query.name}' runs by itself"
            return f"{what}. Start it by app.register and app.start, so that others can share it."
        if entering.name in (*(each.name for each in record.registered), *record.failed):
            return f"there is a query '{entering.name}' already. Deregister it first, or choose another name."
        self._serve((*record.registered, entering))
        return None

    def _leave(self, name: str, since: int | None) -> str | None:
        """Let a query go; ``since``: if it is the one that entered with this batch, for it has failed."""
        record = self._record
        staying = tuple(each for each in record.registered if each.name != name or since not in (None, each.since))
        if len(staying) < len(record.registered):
            self._serve(staying)
        elif name in record.failed:
            record.failed.remove(name)
        elif since is None:
            names = ", ".join(each.name for each in record.registered) or "none"
            return f"there is no query '{name}' in '{self.spec.query.name}'. Its queries are: {names}."
        return None

    def _never_begin(self, failing: Mapping[str, str]) -> list[Delivery]:
        """Do without these queries, of those that the first batch begins with."""
        record = self._record
        out = [each for each in record.registered if each.name in failing]
        if out:
            record.registered = tuple(each for each in record.registered if each.name not in failing)
            self._driver.readers_are(self._group(record.registered))
            self._follow()
        return self._noted(out, failing)

    def _put_out(self, failing: Mapping[str, str]) -> list[Delivery]:
        """Do without these queries from now on."""
        out = [each for each in self._record.registered if each.name in failing]
        if out:
            self._serve([each for each in self._record.registered if each.name not in failing])
        return self._noted(out, failing)

    def _noted(self, out: Sequence[Registered], failing: Mapping[str, str]) -> list[Delivery]:
        """Queries that have been put out, for the record, the log of the process, and those who read them."""
        self._record.failed += [each.name for each in out]
        for each in out:
            tell_once(f"query '{each.name}' of '{self.spec.query.name}' has failed and ends: {failing[each.name]}")
        return [Delivery(each.name, each.since, None, failing[each.name]) for each in out]

    def _measured(self, counts: dict[str, Any]) -> dict[str, Any]:
        """Counts of this batch, and what the bucket holds after it."""
        record = self._record
        measured = counts | {
            "bucket": self._number,
            "rows_so_far": self._by_alias(record.intake.rows),
            "late_so_far": self._by_alias(record.intake.late),
            "bad_so_far": self._by_alias(record.intake.bad),
            "latest_refused": record.refused,
            "failed_so_far": record.failed,
            "ended": record.ended,
            "watermark": record.marks.watermark,
            **self._measures.of_batch(self._driver, sum(counts["tuples"].values()), self.spec.query.aliases),
            "chunks": len(record.chunks),
            "rebuilds": self._rebuilds,
            "seconds": self._phases.take(),
        }
        spending = spending_report(self._driver, self.spec, record.prices)
        if spending is not None:
            measured["spending"] = spending
        self._rebuilds = 0
        return measured

    def _by_alias(self, counts: Sequence[int]) -> dict[str, int]:
        return {self.spec.query.aliases[stream]: count for stream, count in enumerate(counts) if count}


def _by_query(answers: Sequence[Emitted]) -> dict[str, int]:
    """How many rows each query has got."""
    counts: dict[str, int] = {}
    for reader, table in answers:
        counts[reader] = counts.get(reader, 0) + table.num_rows
    return counts


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

    A query that cannot be computed for some row of the batch is put out, as if it had left before. Then the batch is
    taken again, by an engine that is built anew: what the first one has done with the rows is gone. Which queries these
    are follows from what was committed and from the batch, and so does all that is done for the others.

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
    failing: dict[str, str] = {}
    while True:
        try:
            outcome = resident.process(arriving, log, failing)
            break
        except ReaderError as error:
            if spec.shared is None or not error.reasons.keys() - failing.keys():
                raise
            failing |= error.reasons
            resident = Resident(spec, number) if record is None else Resident.rebuild(spec, number, record, log)
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
