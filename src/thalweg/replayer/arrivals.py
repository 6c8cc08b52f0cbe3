"""The rows of finite tables as streams: which are bad, which late, and in what order they come."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from thalweg.cql.query import Query
from thalweg.engine.kernels.compiled import Int64s
from thalweg.engine.rows.encoding import Booleans, microseconds
from thalweg.engine.time_bounds import FOREVER, NEVER
from thalweg.engine.windows.sampling import SAMPLE_ROWS, sample
from thalweg.plan.statistics import Statistics


@dataclass(frozen=True, slots=True)
class Arrivals:
    """The usable rows of one table in time order (ties in table order).

    Attributes:
        table: all of its rows.
        times: event times, ascending.
        rows: where each of them stands in the table.
        bad: rows without an event time.
        late: where the rows stand that came after the watermark had passed them.
        in_place: whether they are all rows of the table, as they stand in it.

    """

    table: pa.Table
    times: Int64s
    rows: Int64s
    bad: int
    late: Int64s
    in_place: bool

    def __len__(self) -> int:
        return len(self.times)

    def slice(self, start: int, end: int) -> pa.Table:
        """Rows by their place in time order."""
        if self.in_place:
            return self.table.slice(start, end - start)
        return self.table.take(pa.array(self.rows[start:end]))


def arrivals(tables: Sequence[tuple[str, pa.Table, str | None]], lateness_us: int | None) -> list[Arrivals]:
    """Order the rows of each (name, table, time column); without a time column, the table is a static relation.

    Without a lateness the tables are taken as complete: nothing is late. With one, rows are
    taken to arrive in table order, and the tables side by side in step with their newest times.
    """
    timed = [_timed(*given) for given in tables]
    usable = [np.flatnonzero(valid) if not valid.all() else np.arange(len(valid)) for _, valid in timed]
    moments = [times[rows] if len(rows) < len(times) else times for (times, _), rows in zip(timed, usable, strict=True)]
    ordered = []
    for position, (_, table, _) in enumerate(tables):
        rows, times = usable[position], moments[position]
        late = np.zeros(len(rows), bool)
        if lateness_us is not None and len(rows):
            late = times < _watermarks(moments, position, lateness_us)
        kept, kept_times = (rows[~late], times[~late]) if late.any() else (rows, times)
        in_place = len(kept) == table.num_rows
        if not (kept_times[1:] >= kept_times[:-1]).all():
            order = np.argsort(kept_times, kind="stable")
            kept, kept_times, in_place = kept[order], kept_times[order], False
        ordered.append(Arrivals(table, kept_times, kept, table.num_rows - len(rows), rows[late], in_place))
    return ordered


def _timed(name: str, table: pa.Table, time: str | None) -> tuple[Int64s, Booleans]:
    """The times of rows, and which have one; those of a static relation came before all time."""
    if time is None:
        return np.full(table.num_rows, NEVER, np.int64), np.ones(table.num_rows, bool)
    return microseconds(table.column(time), f"column '{time}' of stream '{name}'")


def _watermarks(moments: Sequence[Int64s], position: int, lateness_us: int) -> Int64s:
    """The watermark before each row of one stream arrives: the least (newest - lateness) of all.

    A row arrives when its stream's newest time is reached; ties go by the order of the streams. A stream
    that has not begun holds the watermark back for ever, one that has ended not at all.
    """
    newest = [np.maximum.accumulate(times) for times in moments]
    own = newest[position]
    least = np.concatenate([[-FOREVER], own[:-1]])
    for other, reached in enumerate(newest):
        if other == position or not len(reached):
            continue
        before = np.searchsorted(reached, own, side="right" if other < position else "left")
        seen = np.where(before > 0, reached[before - 1], -FOREVER)
        least = np.minimum(least, np.where(before == len(reached), FOREVER, seen))
    return np.where(least <= -FOREVER, -FOREVER, least - lateness_us)


def measured_statistics(query: Query, streams: Sequence[Arrivals]) -> Statistics:
    """What the beginnings of the streams say about them."""
    beginnings = [(s.slice(0, SAMPLE_ROWS), s.times[:SAMPLE_ROWS], len(s)) for s in streams]
    return Statistics.measure(query, sample(query, beginnings))


def cut(streams: Sequence[Arrivals], batch_size: int) -> Iterator[tuple[list[tuple[int, int]], int]]:
    """Cut the streams, side by side, into batches at common times.

    Yields each stream's (start, end) and a watermark: every row before it is in this batch or an earlier one.
    Rows of one time are never parted, so that batches follow each other in total order.
    """
    places = [0] * len(streams)
    while True:
        active = [s for s, stream in enumerate(streams) if places[s] < len(stream)]
        if not active:
            return
        share = max(1, batch_size // len(active))
        limits = [int(streams[s].times[places[s] + share]) for s in active if places[s] + share < len(streams[s])]
        first = min(int(streams[s].times[places[s]]) for s in active)
        until = max(min(limits), first + 1) if limits else FOREVER
        cuts = [
            (place, int(np.searchsorted(stream.times, until))) for place, stream in zip(places, streams, strict=True)
        ]
        yield cuts, until
        places = [end for _, end in cuts]
