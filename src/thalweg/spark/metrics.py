"""What the batches of a query did: the reports of its buckets, out of Spark's progress, and added up.

Buckets report as JSON texts, in which times are microseconds since 1970. What is handed to a program has timestamps.
"""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from thalweg.engine.time_bounds import NEVER
from thalweg.spark.freshness import freshness_total

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import StreamingQueryProgress

Metrics = dict[str, Any]

OBSERVED = "buckets"
"""The observed metric with the reports of every bucket."""

PHASES = ("decode", "probe", "complete", "emit", "log", "adapt", "rebuild")

_BY_QUERY = "queries"
"""Rows of results, by the names of the queries that share a run."""
_BY_STREAM = ("tuples", "late", "bad", "rows_so_far", "late_so_far", "bad_so_far")
"""By alias; a stream that is not there has none."""
_NUMBERS = (
    "results",
    "state_tuples",
    "state_entries",
    "state_bytes",
    "chunks",
    "probes",
    "completions",
    "rebuilds",
    "plan_changes",
)
_SPENDING = ("needed", "granted", "wanted", "allowed", "refused", "hopeless", "found", "full", "variance")
"""Of a budget: probes, and what is known of results."""
_TEXTS = ("refused", "latest_refused", "failed_so_far")
"""Commands, which all buckets are sent; queries that have failed, by their names."""


class Counts(dict[str, Any]):
    """Numbers by name, none of which is missing."""

    def __missing__(self, name: str) -> int:
        return 0


_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def metrics_of(progress: StreamingQueryProgress | None) -> Metrics:
    """What a batch did: totals, and the same for each bucket; zeros where a progress tells of none."""
    metrics = add_up(_reports(progress))
    if progress is not None and (behind := _backlog(progress)):
        metrics["backlog"] = behind
    metrics["batch"] = progress.batchId if progress is not None and metrics["buckets"] else None
    return metrics


def _backlog(progress: StreamingQueryProgress) -> dict[str, dict[str, float]]:
    """What waits in sources, as far as they tell Spark, by what Spark calls them."""
    told = {}
    for source in progress.sources:
        behind = {name: float(value) for name, value in (source.metrics or {}).items() if "BehindLatest" in name}
        if behind:
            told[source.description] = behind
    return told


def is_of_batch(progress: StreamingQueryProgress) -> bool:
    """Whether a progress tells of a batch; Spark makes others while nothing comes in."""
    return any(OBSERVED in row and row[OBSERVED] for row in (progress.observedMetrics or {}).values())


def _reports(progress: StreamingQueryProgress | None) -> list[Metrics]:
    observed = (progress.observedMetrics or {}) if progress is not None else {}
    texts = (text for row in observed.values() if OBSERVED in row for text in row[OBSERVED])
    return sorted(map(json.loads, texts), key=lambda report: int(report["bucket"]))


def add_up(reports: Sequence[Mapping[str, Any]]) -> Metrics:
    """The totals of the reports of buckets, with each of them."""
    total: Metrics = {name: sum(report[name] for report in reports) for name in _NUMBERS}
    for name in (*_BY_STREAM, _BY_QUERY):
        total[name] = _sum(report[name] for report in reports)
    for name in _TEXTS:
        total[name] = list(dict.fromkeys(text for report in reports for text in report[name]))
    total["failed"] = {name: reason for report in reports[::-1] for name, reason in report["failed"].items()}
    total["slices"] = _slices(reports)
    total["seconds"] = dict.fromkeys(PHASES, 0.0) | _sum(report["seconds"] for report in reports)
    if any("savings" in report for report in reports):
        total["savings"] = dict(_sum(report["savings"] for report in reports if "savings" in report))
    if any("spending" in report for report in reports):
        total["spending"] = spending_of([report["spending"] for report in reports if "spending" in report])
    if any("freshness" in report for report in reports):
        total["freshness"] = freshness_total([report["freshness"] for report in reports if "freshness" in report])
    total["watermark"] = timestamp(min((report["watermark"] for report in reports), default=NEVER))
    total["ended"] = bool(reports) and all(report["ended"] for report in reports)
    total["plans"] = sorted({report["plan"] for report in reports if report["plan"]})
    total["buckets"] = [_with_timestamps(report) for report in reports]
    return total


def spending_of(reports: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What buckets spent of a budget together, and the share of the full answer that was found for it.

    >>> one = dict(budget="60%", needed=9.0, granted=6.0, wanted=10, allowed=6, refused=4, hopeless=0)
    >>> one |= dict(found=3, full=4.0, variance=1.0, streams={"t": [10, 6]})
    >>> both = spending_of([one, one])
    >>> both["share"], round(both["error"], 3), both["streams"]
    (0.75, 0.133, {'t': {'wanted': 20, 'allowed': 12, 'refused': 8, 'share': None, 'error': None}})
    """
    total: dict[str, Any] = {name: reports[0][name] for name in ("budget", "target", "prices") if name in reports[0]}
    total |= {name: sum(report[name] for report in reports) for name in _SPENDING}
    found, full = total["found"], total["full"]
    total["share"] = total["error"] = None  # if something was refused without a chance, nobody knows
    if not total["refused"]:
        total["share"], total["error"] = 1.0, 0.0
    elif full and not total["hopeless"]:
        total["share"] = min(1.0, found / full)
        total["error"] = found / full * math.sqrt(total["variance"]) / full
    streams: dict[str, dict[str, int]] = {}
    for report in reports:
        for alias, (wanted, allowed) in report["streams"].items():
            mine = streams.setdefault(alias, dict.fromkeys(("wanted", "allowed", "refused"), 0))
            for name, count in (("wanted", wanted), ("allowed", allowed), ("refused", wanted - allowed)):
                mine[name] += count
    known = shares([report.get("by_stream", {}) for report in reports], total["share"])
    total["streams"] = {alias: {**mine, **known.get(alias, UNKNOWN)} for alias, mine in streams.items()}
    total["queries"] = shares([report.get("queries", {}) for report in reports], total["share"])
    total["reason"] = _reason(total)
    return total


UNKNOWN: Mapping[str, float | None] = {"share": None, "error": None}
"""Of an answer, if nobody knows how much of it was found."""


def shares(reports: Sequence[Mapping[str, Sequence[float]]], share: float | None) -> dict[str, dict[str, float | None]]:
    """By query or stream, the share of its own answer; None: nobody knows, or it has none.

    ``reports``: results found, the estimate of all, its variance. ``share``: that of the join.

    >>> shares([{"q": [3, 4.0, 1.0]}], 0.5)
    {'q': {'share': 0.75, 'error': 0.1875}}
    """
    known: dict[str, list[float]] = {}
    for report in reports:
        for name, numbers in report.items():
            known[name] = [a + b for a, b in zip(known.get(name, [0, 0, 0]), numbers, strict=True)]
    told: dict[str, dict[str, float | None]] = {}
    for name, (found, full, variance) in known.items():
        if share == 1.0:
            told[name] = {"share": 1.0, "error": 0.0}
        elif share is None or not full:
            told[name] = dict(UNKNOWN)
        else:
            told[name] = {"share": min(1.0, found / full), "error": found / full * math.sqrt(variance) / full}
    return told


def _reason(spending: Mapping[str, Any]) -> str:
    """Why there are so many probes, and whether longer triggers would leave time for all.

    >>> known = {"budget": "60%", "granted": 60.0, "needed": 100.0, "refused": 40}
    >>> _reason(known)
    'the budget of 60% grants 60 probes, and about 100 are needed'
    >>> prices = {"fixed": 0.5, "probe": 0.01, "partitions": 1}
    >>> _reason({**known, "budget": "auto", "target": 2.0, "prices": prices}).split("; ")[0]
    'a trigger of 2 s, of which 0.5 s go in any case, leaves time for 60 probes, and about 100 are needed'
    >>> _reason({**known, "refused": 0})
    'nothing is refused'
    """
    if not spending["refused"]:
        return "nothing is refused"
    probes = f"{spending['granted']:,.0f} probes, and about {spending['needed']:,.0f} are needed"
    if spending["budget"] != "auto":
        return f"the budget of {spending['budget']} grants {probes}"
    fixed = spending["prices"]["fixed"]
    why = f"a trigger of {spending['target']:g} s, of which {fixed:.2g} s go in any case, leaves time for {probes}"
    enough = longer_target(spending)
    longer = "no longer one would" if enough is None else f"one of {enough:.2g} s would"
    return f"{why}; {longer} leave time for all"


def longer_target(spending: Mapping[str, Any]) -> float | None:
    """From which target on, in seconds, triggers would have time for all, as far as prices tell; None: from none.

    A longer trigger brings more rows, and takes its fixed time once.

    >>> prices = {"fixed": 0.5, "probe": 0.01, "partitions": 1}
    >>> known = {"target": 2.0, "prices": prices, "granted": 60.0}
    >>> longer_target({**known, "needed": 80.0}), longer_target({**known, "needed": 200.0})
    (3.3333333333333335, None)
    """
    target, prices = spending["target"], spending["prices"]
    probe = prices["probe"] / max(1, prices["partitions"])
    more = (spending["needed"] - spending["granted"]) * probe
    # Rows and probes take what is not fixed now, and ``more``; all of that grows with the trigger.
    left = prices["fixed"] - more
    return prices["fixed"] * target / left if left > 0 else None


def _sum(counts: Iterable[Mapping[str, Any]]) -> Counts:
    total = Counts()
    for each in counts:
        for name, number in each.items():
            total[name] += number
    return total


def _slices(reports: Sequence[Mapping[str, Any]]) -> dict[str, list[dict[str, int | None]]]:
    """By alias the slices of its window, all buckets together: until which age tuples are kept, and how many are held.

    >>> _slices([{"slices": {"t": [[5, 2], [None, 1]]}}, {"slices": {"t": [[None, 3]]}}])
    {'t': [{'until_us': 5, 'tuples': 2}, {'until_us': None, 'tuples': 4}]}
    """
    held: dict[str, dict[int | None, int]] = {}
    for report in reports:
        for alias, slices in report.get("slices", {}).items():
            mine = held.setdefault(alias, {})
            for end, tuples in slices:
                mine[end] = mine.get(end, 0) + tuples
    return {
        alias: [{"until_us": end, "tuples": mine[end]} for end in sorted(mine, key=lambda end: (end is None, end or 0))]
        for alias, mine in held.items()
    }


def _with_timestamps(report: Mapping[str, Any]) -> Metrics:
    history = [{**period, "time": timestamp(period["time"])} for period in report["history"]]
    counts = {name: Counts(report[name]) for name in (*_BY_STREAM, _BY_QUERY)}
    return {**report, **counts, "watermark": timestamp(report["watermark"]), "history": history}


def timestamp(microseconds: int | None) -> dt.datetime | None:
    """A point in event time; None before time has begun. Beyond the years 1 to 9999 it is the end of these.

    >>> timestamp(1_714_564_800_250_000)
    datetime.datetime(2024, 5, 1, 12, 0, 0, 250000, tzinfo=datetime.timezone.utc)
    >>> timestamp(None), timestamp(NEVER), timestamp(1 << 60).year
    (None, None, 9999)
    """
    if microseconds is None or microseconds <= NEVER:
        return None
    try:
        return _EPOCH + dt.timedelta(microseconds=microseconds)
    except OverflowError:
        end = dt.datetime.max if microseconds > 0 else dt.datetime.min
        return end.replace(tzinfo=dt.UTC)


def measured_text(metrics: Mapping[str, Any]) -> list[str]:
    """What a running query has measured, for a person: instead of what was assumed of it before."""
    rows = ", ".join(f"{alias} {count:,}" for alias, count in metrics["rows_so_far"].items()) or "none"
    late = sum(metrics["late_so_far"].values())
    lines = [
        f"measured: by the query that runs, after batch {metrics['batch']:,}.",
        f"  rows so far: {rows}" + (f" ({late:,} of them late)" if late else ""),
        f"  windows hold {metrics['state_tuples']:,} tuples, kept states {metrics['state_entries']:,} entries",
        f"  plans that run: {' | '.join(metrics['plans']) or 'none'}",
    ]
    for bucket in metrics["buckets"]:
        for decision in bucket["latest_decisions"][-1:]:
            predicted, observed = (decision[f"{name}_before"] for name in ("predicted", "observed"))
            if predicted and observed:
                costs = f"a tuple costs {observed:,.0f} ns, predicted {predicted:,.0f} ns"
                lines.append(f"  bucket {bucket['bucket']}: {costs} ({decision['action']}: {decision['reason']})")
    return lines
