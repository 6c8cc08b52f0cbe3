"""What the batches of a running query did, from what Spark reports about them."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery

    from thalweg.spark.app import App

_UNKNOWN_TIME = -(1 << 62)
"""Earlier than any event: the watermark while a stream has not begun."""


@dataclass(frozen=True, slots=True)
class BatchReport:
    """One batch; ``late`` and ``bad`` count the rows kept out, by alias.

    ``tuples`` is what the base windows hold after it, ``entries`` what the kept states hold; ``histories`` are the
    plans of every bucket (``App.plan_history``); ``savings`` is what feedback
    saved (:class:`thalweg.engine.feedback.Savings`), if joins give some; ``ended``: the input has, by a command.
    """

    number: int
    rows_in: int
    results: int
    late: Counter[str]
    bad: Counter[str]
    watermark: int | None
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


def report_of(app: App, progress: StreamingQueryProgress, aliases: Sequence[str]) -> BatchReport | None:
    """What a batch did; None for a report that Spark makes while nothing comes in."""
    duration = progress.durationMs
    if "addBatch" not in duration:
        return None
    metrics = app.metrics(progress=progress)
    watermark = metrics["watermark"]
    return BatchReport(
        number=progress.batchId,
        rows_in=sum(source.numInputRows for source in progress.sources[:-1]),  # the last one brings commands
        results=metrics.get("results", 0),
        late=_by_alias(metrics.get("late", {}), aliases),
        bad=_by_alias(metrics.get("bad", {}), aliases),
        watermark=None if watermark is None or watermark <= _UNKNOWN_TIME else watermark,
        plans=tuple(metrics["plans"]),
        tuples=metrics.get("state_tuples", 0),
        entries=metrics.get("state_entries", 0),
        bytes=metrics.get("state_bytes", 0),
        completions=metrics.get("completions", 0),
        rebuilds=metrics.get("rebuilds", 0),
        seconds=duration.get("triggerExecution", 0) / 1000,
        histories=tuple(app.plan_history(progress=progress)),
        savings=Counter(metrics.get("savings", {})),
        ended=metrics["ended"],
    )


def _by_alias(counts: Mapping[str, int], aliases: Sequence[str]) -> Counter[str]:
    return Counter({aliases[int(stream)]: number for stream, number in counts.items()})


@dataclass(slots=True)
class Totals:
    """All batches of a run together; ``plans`` are those used, each with the batch it was first seen after.

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
    savings: Counter[str] = field(default_factory=Counter)
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
        self.savings.update(report.savings)
        if report.savings:
            self.savings["suspended"] = report.savings["suspended"]
        self.last = report


class Follower:
    """Hands out each batch of a query once."""

    def __init__(self, app: App, query: StreamingQuery, aliases: Sequence[str]) -> None:
        self._app = app
        self._query = query
        self._aliases = aliases
        self._seen = -1

    def new_reports(self) -> list[BatchReport]:
        newest = self._query.lastProgress
        if newest is None:
            return []
        # A report without a batch bears the number of the batch to come.
        behind = newest.batchId - self._seen
        recent = [newest] if behind == 1 and "addBatch" in newest.durationMs else self._query.recentProgress
        reports = [report for each in recent if (report := report_of(self._app, each, self._aliases)) is not None]
        fresh = [report for report in reports if report.number > self._seen]
        if fresh:
            self._seen = fresh[-1].number
        return fresh


def time_text(watermark: int | None) -> str:
    """A point in event time as a person reads it.

    >>> time_text(1_714_564_800_250_000), time_text(None)
    ('2024-05-01 12:00:00.250', '-')
    """
    if watermark is None:
        return "-"
    try:
        moment = dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=watermark)
    except OverflowError:
        return f"{watermark:,}"
    return moment.isoformat(sep=" ", timespec="milliseconds")
