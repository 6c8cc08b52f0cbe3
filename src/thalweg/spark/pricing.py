"""From what triggers took to prices: on the driver, out of Spark's progress (:mod:`thalweg.spark.prices`).

Two sums are fitted, by least squares that forget: the time of probing over rows, probes and results of the partition
that took longest, and the rest of the trigger over one, all rows and all results. What is known stays known in the
directions that nothing new is said of: under steady input, say, a row and a trigger cannot be told apart.

What took less than was thought is believed sooner than what took more: a machine that was busy is not so for ever, and
a Java runtime gets faster for a long time after its start. Left out are triggers that built an engine anew, the first
two of a run, in which workers load what they need, and those without rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from thalweg.spark.prices import DEFAULT_PRICES, Prices, Shares

_WARMING_UP = 2
"""Triggers of a run that say nothing."""
_MEMORY = 0.85
"""What a trigger leaves of the weight of those before: about the last seven count."""
_SCALE = 1e-5
"""Rows and probes are counted in 100,000."""
_DOUBT = 4.0
"""How little is known at first, as the variance of a price in seconds for 100,000; and the most that is forgotten."""
_LEAST = 1e-9
"""Seconds; nothing is for nothing."""
_LEAST_PROBE = 5e-8
"""What a compiled probe takes at least: results cannot explain it all."""
_DIGITS = 4


class _Fit:
    """A fit ``y = sum of known * x``, with nothing known below 0."""

    def __init__(self, *known: float) -> None:
        self.known = np.array(known)
        self._doubt = _DOUBT * np.eye(len(known))

    def see(self, x: Sequence[float], y: float) -> None:
        """One more point."""
        point = np.array(x)
        gain = self._doubt @ point / (_MEMORY + point @ self._doubt @ point)
        self.known = np.maximum(0.0, self.known + gain * (y - point @ self.known))
        doubt = (self._doubt - np.outer(gain, point @ self._doubt)) / _MEMORY
        self._doubt = doubt * min(1.0, len(point) * _DOUBT / np.trace(doubt))
        if 0 < y < (thought := float(point @ self.known)):
            self.known = self.known * (thought + y) / (2 * thought)


@dataclass(frozen=True, slots=True)
class _Partition:
    seconds: float
    probing: float
    tuples: int
    probes: int
    results: int


class Pricing:
    """Knows the prices of one running query.

    Attributes:
        prices: as they are known by now.

    """

    def __init__(self) -> None:
        self.prices = DEFAULT_PRICES
        first = DEFAULT_PRICES
        self._rest = _Fit(first.fixed, first.row / _SCALE, first.result / _SCALE / 4)
        self._inside = _Fit(first.tuple / _SCALE / 2, first.probe / _SCALE, first.result / _SCALE / 2)
        self._taking: float | None = None
        self._shares: dict[int, Shares] = {}
        self._seen = 0

    def see(self, seconds: float, reports: Sequence[Mapping[str, Any]]) -> Prices | None:
        """A trigger took so long, and its buckets have reported; the prices, if they may be others now."""
        tuples = sum(sum(each["tuples"].values()) for each in reports)
        self._seen += tuples > 0
        if not tuples or self._seen <= _WARMING_UP or any(each["rebuilds"] for each in reports):
            return None
        partitions: dict[int, list[Mapping[str, Any]]] = {}
        for each in reports:
            partitions.setdefault(each["partition"], []).append(each)
        longest = max(map(_of_partition, partitions.values()), key=lambda each: each.seconds)
        results = sum(each["results"] for each in reports)
        self._rest.see((1.0, tuples * _SCALE, results * _SCALE), max(0.0, seconds - longest.seconds))
        if longest.tuples:
            counts = longest.tuples, longest.probes, longest.results
            self._inside.see([_SCALE * count for count in counts], longest.probing)
            taking = (longest.seconds - longest.probing) / longest.tuples
            self._taking = taking if self._taking is None else (self._taking + taking) / 2
        self._share(partitions, tuples)
        fixed, row, outside = self._rest.known.tolist()
        inside, probe, found = self._inside.known.tolist()
        self.prices = Prices(
            fixed=_rounded(fixed),
            row=_rounded(row * _SCALE),
            tuple=_rounded((self._taking or 0.0) + inside * _SCALE),
            probe=_rounded(max(_LEAST_PROBE, probe * _SCALE)),
            result=_rounded((found + len(partitions) * outside) * _SCALE),
            partitions=len(partitions),
            buckets=dict(sorted(self._shares.items())),
        )
        return self.prices

    def _share(self, partitions: Mapping[int, Sequence[Mapping[str, Any]]], tuples: int) -> None:
        """Know what each bucket had of the whole."""
        for reports in partitions.values():
            here = sum(_tuples(each) for each in reports)
            wanted = sum(_wanted(each) for each in reports)
            for each in reports:
                work = _wanted(each) / wanted if wanted else 1 / len(reports)
                now = work, _tuples(each) / tuples, _tuples(each) / here if here else 1 / len(reports)
                known = self._shares.get(each["bucket"])
                before = now if known is None else (known.work, known.rows, known.rows_here)
                self._shares[each["bucket"]] = Shares(
                    *(_rounded((a + b) / 2, 3) for a, b in zip(before, now, strict=True))
                )


def _of_partition(reports: Sequence[Mapping[str, Any]]) -> _Partition:
    phases = [each["seconds"] for each in reports]
    return _Partition(
        sum(sum(each.values()) for each in phases),
        sum(each["probe"] + each["complete"] + each["emit"] for each in phases),
        sum(map(_tuples, reports)),
        sum(each["spending"]["allowed"] for each in reports),
        sum(each["results"] for each in reports),
    )


def _tuples(report: Mapping[str, Any]) -> int:
    return int(sum(report["tuples"].values()))


def _wanted(report: Mapping[str, Any]) -> int:
    spending = report["spending"]
    return int(spending["allowed"] + spending["refused"])


def _rounded(number: float, digits: int = _DIGITS) -> float:
    """A number above nothing, as exactly as it is known.

    >>> _rounded(0.123456), _rounded(0.0)
    (0.1235, 1e-09)
    """
    return float(f"{max(number, _LEAST):.{digits}g}")
