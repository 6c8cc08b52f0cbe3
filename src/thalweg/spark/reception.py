"""What a batch brings for a bucket, sorted: the rows that came in time, and those to be kept out. All are counted.

A row that is copied to several buckets is counted, and kept out, by the first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thalweg.cql.query import RangeWindow
from thalweg.spark.bucket_spec import Arriving, Spec
from thalweg.spark.chunks import packed_times, times_of
from thalweg.spark.image_directory import tell_once
from thalweg.spark.intake import Intake, is_large, late_causes
from thalweg.spark.packing import blob, unblob, usable
from thalweg.spark.side_output import LATE, NO_TIME, KeptOut


@dataclass(frozen=True, slots=True)
class Received:
    """A batch of a bucket.

    Attributes:
        tables: the rows that came in time, by stream.
        kept_out: those that did not, if they are wanted.
        taken: how many of each kind there were.

    """

    tables: dict[int, pa.Table]
    kept_out: list[KeptOut]
    taken: Intake


def receive(spec: Spec, number: int, arriving: Arriving, watermark: int) -> Received:
    """Sort the rows of a batch for a bucket by the watermark of the batch before."""
    received = Received({}, [], Intake.of(len(spec.lateness)))
    _decode(spec, number, arriving, watermark, received)
    _sort_out(spec, arriving, watermark, received)
    return received


def _decode(spec: Spec, number: int, arriving: Arriving, watermark: int, received: Received) -> None:
    """Rows that can join: those that came in time, by stream, and those that were late."""
    taken = received.taken
    parts: dict[int, list[pa.Table]] = {}
    for stream, body in arriving.bodies:
        parts.setdefault(stream, []).append(unblob(body))
    for stream in sorted(parts):
        table = pa.concat_tables(parts[stream])
        in_time = times_of(spec.query.streams[stream], table) >= watermark
        counts = spec.partitioning.is_first_copy(stream, number)
        if counts:
            taken.rows[stream] += table.num_rows
        if not in_time.all():
            if counts:
                taken.late[stream] += int((~in_time).sum())
            if counts and spec.late_directory is not None:
                received.kept_out.append((stream, LATE, blob(table.filter(pa.array(~in_time)))))
            table = table.filter(pa.array(in_time))
        if table.num_rows:
            kept = table.drop_columns(list(spec.shown[stream])) if spec.shown else table
            received.tables[stream] = _in_order(spec, stream, kept)


def _in_order(spec: Spec, stream: int, table: pa.Table) -> pa.Table:
    """Rows as an engine puts them into its windows, if the log has to say in which order that was."""
    if not spec.policies.by_batch or not isinstance(spec.query.streams[stream].window, RangeWindow):
        return table
    times = times_of(spec.query.streams[stream], table)
    if (times[1:] >= times[:-1]).all():
        return table
    return table.take(pa.array(np.argsort(times, kind="stable")))


def _sort_out(spec: Spec, arriving: Arriving, watermark: int, received: Received) -> None:
    """Rows that can join nothing."""
    taken, kept_out = received.taken, received.kept_out
    for stream, bad in arriving.bad.items():
        taken.rows[stream] += bad
        taken.bad[stream] += bad
    for stream, body in arriving.rejected:
        table = unblob(body)
        times = packed_times(spec.query.streams[stream], table)
        has_time = usable(times)
        if has_time is not None:
            kept_out.append((stream, NO_TIME, blob(table.filter(pc.invert(has_time)))))
            table, times = table.filter(has_time), times.filter(has_time)
        taken.rows[stream] += len(times)
        is_late = pc.less(times, watermark)
        if count := pc.sum(is_late).as_py():
            taken.late[stream] += count
            if spec.late_directory is not None:
                kept_out.append((stream, LATE, blob(table.filter(is_late))))


def warn_of_late(spec: Spec, taken: Intake, so_far: Intake, *, ended: bool) -> None:
    """Say in the log, once, of which streams many rows are late; ``ended``: the input was, by a command."""
    for stream, late in enumerate(so_far.late):
        if taken.late[stream] and is_large(late, so_far.rows[stream]):
            tell_once(
                f"query '{spec.query.name}': many rows of stream '{spec.query.aliases[stream]}' are late and kept "
                f"out (late_so_far in the metrics says how many). {late_causes(ended=ended)}"
            )
