"""How fresh results are when they leave a bucket, and which freshness a target can keep.

A result that leaves at clock time T may hold no tuple of a stream older than T minus its freshness. The clock is read
for the metrics alone: nothing that is committed depends on it.

A row waits until its trigger begins, for as long as the one before takes, and then until its own ends. So with a target
for triggers, a result is found two targets after its last row at most. Its oldest row is then as old as the window, and
what the stream may lag.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from thalweg.cql.durations import format_interval
from thalweg.cql.group import Group
from thalweg.engine.outputs.ages import Times, fresh_streams, freshness_of
from thalweg.errors import FreshnessError

_BIN = 1.05
"""Ages are counted in bins, each so many times as long as the one before: so exact are the quantiles."""
_LEAST_US = 1_000
"""The first bin."""
_SECOND = 1e6


def freshness_report(group: Group, times: Times, now_us: int) -> dict[str, dict[str, dict[str, Any]]]:
    """By reader and stream, as JSON: what was asked, how many results there were, how many were stale, their ages."""
    report: dict[str, dict[str, dict[str, Any]]] = {}
    for reader in group.readers:
        for stream in fresh_streams(group, reader):
            alias, asked = group.whole.streams[stream].alias, freshness_of(reader, stream)
            ages = now_us - times.get((reader.name, alias), np.zeros(0, np.int64))
            bins = np.ceil(np.log(np.maximum(ages, _LEAST_US) / _LEAST_US) / math.log(_BIN)).astype(np.int64)
            places, counts = np.unique(bins, return_counts=True)
            report.setdefault(reader.name, {})[alias] = {
                "asked": None if asked is None else asked / _SECOND,
                "results": len(ages),
                "stale": 0 if asked is None else int((ages > asked).sum()),
                "max": int(ages.max()) / _SECOND if len(ages) else None,
                "bins": dict(zip(map(str, places.tolist()), counts.tolist(), strict=True)),
            }
    return report


def freshness_total(reports: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, dict[str, Any]]]:
    """All buckets together, in seconds.

    >>> one = {"asked": 2.0, "results": 3, "stale": 1, "max": 2.5, "bins": {"100": 2, "160": 1}}
    >>> freshness_total([{"q": {"t": one}}, {"q": {"t": one}}])["q"]["t"]
    {'asked': 2.0, 'results': 6, 'stale': 2, 'p50': 0.132, 'p99': 2.46, 'max': 2.5}
    """
    total: dict[str, dict[str, dict[str, Any]]] = {}
    for reader in {name: None for report in reports for name in report}:
        for alias in {name: None for report in reports for name in report.get(reader, ())}:
            mine = [report[reader][alias] for report in reports if alias in report.get(reader, ())]
            bins: Counter[int] = Counter()
            for each in mine:
                bins.update({int(place): count for place, count in each["bins"].items()})
            oldest = max((each["max"] for each in mine if each["max"] is not None), default=None)
            total.setdefault(reader, {})[alias] = {
                "asked": mine[0]["asked"],
                "results": sum(each["results"] for each in mine),
                "stale": sum(each["stale"] for each in mine),
                "p50": _quantile(bins, 0.5, oldest),
                "p99": _quantile(bins, 0.99, oldest),
                "max": oldest,
            }
    return total


def _quantile(bins: Counter[int], share: float, oldest: float | None) -> float | None:
    """The upper end of the bin in which it lies."""
    left = share * bins.total()
    for place in sorted(bins):
        left -= bins[place]
        if left <= 0:
            end = float(f"{_LEAST_US * _BIN**place / _SECOND:.3g}")
            return end if oldest is None else min(end, oldest)
    return oldest


def check_freshness(group: Group, lateness: Sequence[int | None], target_us: int) -> None:
    """An error, with the least that can be kept, if triggers of this target are too long for what was asked."""
    least: dict[int, int] = {}
    problems = []
    for reader in group.readers:
        for stream in fresh_streams(group, reader):
            stays, asked = reader.views[stream].retention_us, freshness_of(reader, stream)
            if asked is None or stays is None:
                continue
            needed = stays + (lateness[stream] or 0) + 2 * target_us
            least[stream] = max(needed, least.get(stream, 0))
            if asked < needed:
                alias = group.whole.streams[stream].alias
                problems.append(f"{format_interval(needed)} for stream '{alias}' (it is {format_interval(asked)})")
    if problems:
        names = ", ".join(reader.name for reader in group.readers)
        raise FreshnessError(
            f"FRESHNESS of '{names}' cannot be kept with a target_trigger of {format_interval(target_us)}: a row waits "
            "for its trigger, and for the end of it, after it was in its window for as long as that lasts, and as late "
            f"as it may be. The least that can be kept: {', '.join(dict.fromkeys(problems))}. Ask for that, or shorten "
            "the target, the window or the lateness.",
            tuple(least.get(stream, 0) / _SECOND for stream in range(len(group.whole.streams))),
        )
