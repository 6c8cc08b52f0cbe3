"""What a bounded look at the input says about windows, keys and comparisons.

Everything is measured *inside windows*: at a few instants spread evenly over the input,
the contents of every window are taken (some of them, if there are many), and all pairs
across two windows are compared. So keys that drift with time, such as running order
numbers, are seen as selective as they are for the tuples that can meet, not for the
whole input. The work is bounded by :data:`INSTANTS` x :data:`CONTENTS` rows per stream,
and the choice of rows is fixed: the same input gives the same statistics.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from thalweg.cql.query import RangeWindow, RowsWindow, StreamRef, Theta

INSTANTS = 8
"""Moments at which the windows are looked at: enough to average over bursts."""

CONTENTS = 2_500
"""Rows taken of a window at an instant; with :data:`INSTANTS`, 20,000 per stream."""

COMPARED = 128
"""Rows of these whose theta operands are compared, each with each."""

MICROSECONDS = 1_000_000

_GOLDEN = (math.sqrt(5) - 1) / 2

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class StreamSample:
    """The rows of one stream, as plain arrays, in the order of their time.

    Rows that can never be in a result (their selection fails, a key is NULL) are left out,
    and ``share`` says which share of the stream's rows is here.

    Attributes:
        times: event times in microseconds, ascending.
        codes: attribute class -> its key; equal values have equal codes, across all streams.
        operands: theta predicate -> this stream's operand (NaN: NULL).
        partitions: codes of the window's PARTITION BY key.
        share: of the stream's rows in this stretch of time, the share that is given here.
        total: if these are only the beginning of the stream, how many rows like these it has.

    """

    times: Ints
    codes: Mapping[int, Ints] = field(default_factory=dict)
    operands: Mapping[int, Floats] = field(default_factory=dict)
    partitions: Ints | None = None
    share: float = 1.0
    total: float | None = None


@dataclass(frozen=True, slots=True)
class Contents:
    """One window at one instant: how many tuples it holds, and the positions of those taken."""

    size: int
    taken: Ints


def instants(samples: Sequence[StreamSample]) -> list[int]:
    """Moments spread evenly over the tuples of all streams together, as far as all beginnings reach."""
    total = sum(len(sample.times) for sample in samples)
    if total == 0:
        return []
    stride = max(total // 4096, 1)
    merged = np.sort(np.concatenate([sample.times[stride // 2 :: stride] for sample in samples]))
    ends = [sample.times[-1] for sample in samples if sample.total is not None and len(sample.times)]
    reached = merged[merged <= min(ends)] if ends else merged
    merged = reached if len(reached) else merged[:1]
    return [int(merged[(2 * i + 1) * len(merged) // (2 * INSTANTS)]) for i in range(INSTANTS)]


def rates(samples: Sequence[StreamSample]) -> tuple[float, ...]:
    """Tuples per second of each stream, from the first tuple of all to its own last.

    The beginnings of a fast and a slow stream cover different stretches of time.
    """
    given = [sample.times for sample in samples if len(sample.times)]
    start, end = min(int(t[0]) for t in given), max(int(t[-1]) for t in given)
    longest = end - start or MICROSECONDS
    return tuple(
        max(len(sample.times), 1)
        * MICROSECONDS
        / ((int(sample.times[-1]) - start if len(sample.times) else 0) or longest)
        for sample in samples
    )


def window_size(sample: StreamSample, stream: StreamRef, rate: float, seen: float) -> float:
    """The tuples that a window holds: as many as were ``seen``, on average, if the sample is all there is.

    The windows at the beginning of a stream are not full yet: there, what they will hold. Of a static relation, all.
    """
    if sample.total is None:
        return seen
    if stream.is_static:
        return sample.total
    widths = [w for w in (_width(stream), stream.retention_us) if w is not None]
    full = [rate * min(widths) / MICROSECONDS] if widths else []
    if not isinstance(stream.window, RangeWindow):
        full.append(_rows_held(sample, stream.window, len(sample.times)))
    return min(max(seen, min(full, default=sample.total / 2)), sample.total)


def contents(sample: StreamSample, stream: StreamRef, instant: int) -> Contents:
    """What the window holds right after ``instant``."""
    end = int(np.searchsorted(sample.times, instant, side="right"))
    start = 0
    widths = [w for w in (_width(stream), stream.retention_us) if w is not None]
    if widths:
        start = int(np.searchsorted(sample.times, instant - min(widths), side="right"))
    if not isinstance(stream.window, RangeWindow):
        start = max(start, end - math.ceil(_rows_held(sample, stream.window, end)))
    return Contents(end - start, spread(start, end))


def _width(stream: StreamRef) -> int | None:
    return stream.window.width_us if isinstance(stream.window, RangeWindow) else None


def _rows_held(sample: StreamSample, window: RowsWindow, end: int) -> float:
    """The tuples in a full ROWS window once the first ``end`` rows have come; those left out count in its rows."""
    partitions = 1 if sample.partitions is None else len(np.unique(sample.partitions[spread(0, end)]))
    return window.rows * sample.share * partitions


def spread(start: int, end: int, most: int = CONTENTS) -> Ints:
    """Positions within ``[start, end)``: all, or at most so many of them, evenly but aperiodically spread.

    Multiples of the golden ratio never fall into step with rows that repeat periodically.
    """
    if end - start <= most:
        return np.arange(start, end, dtype=np.int64)
    fractions = np.arange(most) * _GOLDEN % 1.0
    return np.unique(start + (fractions * (end - start)).astype(np.int64))


@dataclass(slots=True)
class Tally:
    """How many of the pairs seen satisfied something."""

    pairs: int = 0
    satisfied: int = 0

    def share(self) -> float | None:
        """The share, never zero: less than one in the pairs seen. None: no pair was seen."""
        return max(self.satisfied, 0.5) / self.pairs if self.pairs else None


def agreement(
    members: Iterable[int], cls: int, samples: Sequence[StreamSample], windows: Sequence[Sequence[Contents]]
) -> dict[tuple[int, int], Tally]:
    """How often two tuples agree on an attribute class, per pair of streams (and within one: ``(s, s)``).

    ``windows[i][s]``: the contents of stream ``s`` at the i-th instant.
    """
    streams = sorted(s for s in members if cls in samples[s].codes)
    tallies = {(a, b): Tally() for a in streams for b in streams if a <= b}
    for moment in windows:
        counted = {s: np.unique(samples[s].codes[cls][moment[s].taken], return_counts=True) for s in streams}
        for (a, b), tally in tallies.items():
            (values, counts), (others, other_counts) = counted[a], counted[b]
            if a == b:
                rows = int(counts.sum())
                tally.pairs += rows * (rows - 1)
                tally.satisfied += int((counts * (counts - 1)).sum())
            else:
                _, here, there = np.intersect1d(values, others, assume_unique=True, return_indices=True)
                tally.pairs += int(counts.sum()) * int(other_counts.sum())
                tally.satisfied += int((counts[here] * other_counts[there]).sum())
    return tallies


def satisfaction(theta: Theta, left: Sequence[Floats], right: Sequence[Floats]) -> Tally:
    """How often a theta predicate holds; ``left[i]``, ``right[i]``: operands in the windows at the i-th instant."""
    tally = Tally()
    for ours, theirs in zip(left, right, strict=True):
        few, others = _few(ours), _few(theirs)
        tally.pairs += len(few) * len(others)
        tally.satisfied += int(np.count_nonzero(_holds(theta, few[:, None], others[None, :])))
    return tally


def _few(values: Floats) -> Floats:
    positions = np.linspace(0, len(values) - 1, min(len(values), COMPARED)).astype(np.int64)
    return values[positions]


def _holds(theta: Theta, left: Floats, right: Floats) -> NDArray[np.bool_]:
    with np.errstate(invalid="ignore"):  # infinity minus infinity is NaN, in SQL too
        difference: Floats = left - right
    if theta.absolute:
        difference = np.abs(difference)
    compare = _COMPARISONS[theta.op]
    return compare(difference, float(theta.offset or 0)) & ~np.isnan(difference)


_COMPARISONS: dict[str, Callable[[Floats, float], NDArray[np.bool_]]] = {
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "<>": np.not_equal,
}
