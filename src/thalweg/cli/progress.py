"""What the batches of a running query did, from what Spark reports about them."""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from thalweg.cli.console import grid
from thalweg.cli.overload import change_text

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery
    from rich.table import Table

    from thalweg.spark.app import App


_CHANGES = 20
"""Of what is refused, that are remembered."""


@dataclass(frozen=True, slots=True)
class Intake:
    """How many rows a stream has brought, and how many of them were kept out."""

    rows: int
    late: int
    bad: int


@dataclass(frozen=True, slots=True)
class BatchReport:
    """One batch; ``late`` and ``bad`` count the rows kept out, by alias.

    ``so_far`` has the rows of each stream since the checkpoint began: all, the late ones, and those without a time.
    ``refused`` are commands that the batch did not obey, with the reasons, ``latest_refused`` also those before.

    ``tuples`` is what the base windows hold after it, ``entries`` what the kept states hold; ``histories`` are the
    plans of every bucket (``App.plan_history``); ``savings`` is what feedback
    saved (:class:`thalweg.engine.feedback.memory.Savings`), if joins give some; ``ended``: the input has, by a command.
    ``queries`` are the results of each of the queries that share the run, ``failed`` those that failed in the batch,
    with the reasons. ``spending`` is what a budget was spent on, and ``freshness`` how old the tuples in results were,
    as in ``App.metrics``, if there is one, or was asked for.
    """

    number: int
    rows_in: int
    results: int
    late: Counter[str]
    bad: Counter[str]
    watermark: dt.datetime | None
    plans: tuple[str, ...]
    tuples: int
    entries: int
    bytes: int
    completions: int
    rebuilds: int
    seconds: float
    histories: tuple[dict[str, Any], ...] = ()
    savings: Counter[str] = field(default_factory=Counter)
    ended: bool = False
    so_far: Mapping[str, Intake] = field(default_factory=dict)
    refused: tuple[str, ...] = ()
    latest_refused: tuple[str, ...] = ()
    queries: Mapping[str, int] = field(default_factory=dict)
    spending: Mapping[str, Any] = field(default_factory=dict)
    freshness: Mapping[str, Any] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)


def report_of(app: App, progress: StreamingQueryProgress) -> BatchReport | None:
    """What a batch did; None for a report that Spark makes while nothing comes in."""
    duration = progress.durationMs
    if "addBatch" not in duration:
        return None
    metrics = app.metrics(progress=progress)
    rows, late, bad = (metrics[f"{name}_so_far"] for name in ("rows", "late", "bad"))
    return BatchReport(
        number=progress.batchId,
        rows_in=sum(source.numInputRows for source in progress.sources[:-1]),  # the last one brings commands
        results=metrics["results"],
        late=Counter(metrics["late"]),
        bad=Counter(metrics["bad"]),
        watermark=metrics["watermark"],
        plans=tuple(metrics["plans"]),
        tuples=metrics["state_tuples"],
        entries=metrics["state_entries"],
        bytes=metrics["state_bytes"],
        completions=metrics["completions"],
        rebuilds=metrics["rebuilds"],
        seconds=duration.get("triggerExecution", 0) / 1000,
        histories=tuple(app.plan_history(progress=progress)),
        savings=Counter(metrics.get("savings", {})),
        ended=metrics["ended"],
        so_far={alias: Intake(rows[alias], late[alias], bad[alias]) for alias in rows},
        refused=tuple(metrics["refused"]),
        latest_refused=tuple(metrics["latest_refused"]),
        queries=dict(metrics["queries"]),
        spending=metrics.get("spending", {}),
        freshness=metrics.get("freshness", {}),
        failed=metrics["failed"],
    )


@dataclass(slots=True)
class Spent:
    """What a budget was spent on in all batches of a run."""

    wanted: int = 0
    allowed: int = 0
    found: int = 0
    full: float = 0.0
    variance: float = 0.0
    is_known: bool = True

    def add(self, spending: Mapping[str, Any]) -> None:
        """That of one more batch; nothing, if there is no budget."""
        if not spending:
            return
        self.wanted += spending["wanted"]
        self.allowed += spending["allowed"]
        self.found += spending["found"]
        self.full += spending["full"]
        self.variance += spending["variance"]
        self.is_known = self.is_known and spending["share"] is not None

    @property
    def share(self) -> tuple[float, float] | None:
        """The estimated share of the full answer that was found, with its standard error; None: nobody knows."""
        if not self.is_known:
            return None
        if self.allowed == self.wanted or not self.full:
            return 1.0, 0.0
        share = self.found / self.full
        return min(1.0, share), share * math.sqrt(self.variance) / self.full


@dataclass(slots=True)
class Totals:
    """All batches since a start together; ``plans`` are those used, each with the batch it was first seen after.

    ``refused`` are the commands that were not obeyed, with the reasons, and ``failed`` the queries that ended.
    ``overload`` says when, and why, something began to be refused, or no longer was; ``spending`` is the last one.
    ``savings`` is what feedback saved in all of them, and what it has suspended after the last.
    """

    batches: int = 0
    rows_in: int = 0
    results: int = 0
    late: Counter[str] = field(default_factory=Counter)
    bad: Counter[str] = field(default_factory=Counter)
    completions: int = 0
    rebuilds: int = 0
    seconds: float = 0.0
    plans: list[tuple[int, tuple[str, ...]]] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    savings: Counter[str] = field(default_factory=Counter)
    queries: Counter[str] = field(default_factory=Counter)
    spent: Spent = field(default_factory=Spent)
    spending: Mapping[str, Any] = field(default_factory=dict)
    overload: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    last: BatchReport | None = None

    def add(self, report: BatchReport) -> None:
        self.batches += 1
        self.rows_in += report.rows_in
        self.results += report.results
        self.late.update(report.late)
        self.bad.update(report.bad)
        self.completions += report.completions
        self.rebuilds += report.rebuilds
        self.seconds += report.seconds
        if report.plans and (not self.plans or self.plans[-1][1] != report.plans):
            self.plans.append((report.number, report.plans))
        self.refused += report.refused
        self.savings.update(report.savings)
        self.queries.update(report.queries)
        self.spent.add(report.spending)
        if report.spending and (report.rows_in or self.overload == []):
            change = change_text(report.number, self.spending, report.spending)
            self.overload = [*self.overload, *([] if change is None else [change])][-_CHANGES:]
            self.spending = report.spending
        self.failed |= report.failed
        if report.savings:
            self.savings["suspended"] = report.savings["suspended"]
        self.last = report


class Follower:
    """Hands out each batch of a query once."""

    def __init__(self, app: App, query: StreamingQuery) -> None:
        self._app = app
        self._query = query
        self._seen = -1

    def new_reports(self) -> list[BatchReport]:
        newest = self._query.lastProgress
        if newest is None:
            return []
        # A report without a batch bears the number of the batch to come.
        behind = newest.batchId - self._seen
        recent = [newest] if behind == 1 and "addBatch" in newest.durationMs else self._query.recentProgress
        reports = [report for each in recent if (report := report_of(self._app, each)) is not None]
        fresh = [report for report in reports if report.number > self._seen]
        if fresh:
            self._seen = fresh[-1].number
        return fresh


def intake_table(streams: Mapping[str, Intake]) -> Table:
    """What streams have brought since the checkpoint began, and what of it was kept out."""
    numbers = ("rows so far", "late", "share", "without a time")
    table = grid("stream", *numbers, right=set(numbers))
    for alias, each in streams.items():
        share = f"{each.late / each.rows:.1%}" if each.rows else ""
        table.add_row(alias, f"{each.rows:,}", f"{each.late:,}", share, f"{each.bad:,}")
    return table


def time_text(moment: dt.datetime | None) -> str:
    """A point in event time as a person reads it.

    >>> time_text(dt.datetime(2024, 5, 1, 12, 0, 0, 250_000, tzinfo=dt.UTC)), time_text(None)
    ('2024-05-01 12:00:00.250', '-')
    """
    return "-" if moment is None else moment.replace(tzinfo=None).isoformat(sep=" ", timespec="milliseconds")
