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

from thalweg.driver.batches import begin_with, run_batch
from thalweg.driver.bucket_driver import BucketDriver
from thalweg.driver.measures import Measures
from thalweg.driver.phases import Phases
from thalweg.driver.planning import first_statistics
from thalweg.engine.bucket import AnyBucket
from thalweg.engine.image.image import live_in, read_image, write_image
from thalweg.engine.outputs.readers import Emitted
from thalweg.errors import ReaderError, ThalwegError
from thalweg.settings import Budget
from thalweg.spark.bucket_spec import Arriving, Delivery, Outcome, Spec
from thalweg.spark.chunks import Log
from thalweg.spark.commands import Command, for_query, refusal
from thalweg.spark.freshness import freshness_report
from thalweg.spark.image_directory import tell_once
from thalweg.spark.membership import Membership, group_of
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
        first = group_of(spec, self._record.registered)
        self._driver = BucketDriver(first, spec.policies, keeps_all=spec.shared is not None)
        self._members = Membership(spec, self._record, self._driver)
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

    def _rebuild(self, text: str, log: Log, directory: Path | None) -> None:
        driver, record = self._driver, self._record
        compared = record.recall(text, driver)
        if compared.rewrites:
            carry_over(self.spec, self._number, driver, record, compared, log)
        left = survivors(self.spec, record, log)
        self._members.prepare(record.first_registered if left is None else None)
        driver.reopen()
        if directory is not None:
            try:
                live_in(directory, self.bucket)
            except OSError as error:
                tell_of_image(self.spec, error)
        refill(self.spec, self._number, driver, record, log, left)
        self._members.follow()
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
        resident._members.prepare()
        notes = _read_notes(directory)
        if notes is None:
            return None
        driver.recall_shares(notes)
        driver.reopen(kept.bucket if kept is not None and driver.suits(kept.bucket) else None)
        if not read_image(directory, resident.bucket, resident._stamp):
            return None
        driver.recall_notes(notes)
        resident._members.follow()
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
            failures += self._members.begin_without(failing)
            relations = relations_of(spec, self._number)
            driver.begin(first_statistics(spec.query, {**rows, **relations}), spec.plan)
            begin_with(driver, spec.query, relations)
        refused = self._obey_all(arriving, failures)
        failures += self._members.put_out(failing)
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
        fresh = freshness_report(self._members.group, ages, time.time_ns() // 1000)
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

    def _obey(self, command: Command, batch: int) -> str | None:
        """Do what a command says; if that cannot be done, says why, or raises that, and leaves everything as it is."""
        if command["command"] == "end":
            self._record.ended = True
            return None
        if command["command"] == "adapt":
            return self._driver.release()
        if command["command"] == "enter":
            return self._members.enter(Registered(command["name"], command["text"], batch))
        if command["command"] == "leave":
            return self._members.leave(command["name"], command.get("since"))
        if command["command"] == "budget":
            self._driver.set_budget(Budget.parse(str(command["budget"])))
            return None
        self._driver.command(command["plan"], command.get("states"), lasts=True)
        return None

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


def tell_of_image(spec: Spec, error: OSError) -> None:
    """A bucket goes on without an image: an image is a cache, and whatever happens to its files stops nothing."""
    reason = error.strerror or error
    tell_once(f"query '{spec.query.name}' goes on without an image of its engine, from the log: {reason}")


def _read_notes(directory: Path) -> dict[str, Any] | None:
    """The notes beside an image; None if there are none, or they were cut short."""
    try:
        notes: dict[str, Any] = json.loads((directory / _NOTES).read_bytes())
    except (OSError, ValueError):
        return None
    return notes
