"""Event times of the tuples that results are made of: how fresh results are is told by these and a clock.

The clock is not read here. Results are those of the join: a condition that only the joined row decides is not asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from thalweg.cql.group import Group
from thalweg.cql.query import Reader, StreamRef
from thalweg.engine.kernels.compiled import Int64s
from thalweg.engine.rows.payload import Rows

Times = dict[tuple[str, str], Int64s]
"""By the name of a reader and the alias of a stream."""


def freshness_of(reader: Reader, stream: int) -> int | None:
    """The microseconds after which no result of a reader may hold a tuple of a stream; None: nothing was asked."""
    asked = [each for each in (reader.freshness_us, reader.views[stream].freshness_us) if each is not None]
    return min(asked, default=None)


def fresh_streams(group: Group, reader: Reader) -> list[int]:
    """The streams of which a reader has asked that its results are fresh."""
    moving = [stream for stream, ref in enumerate(group.whole.streams) if not ref.is_static]
    return [stream for stream in moving if freshness_of(reader, stream) is not None]


def timed_columns(group: Group) -> list[str | None]:
    """For each stream the column with its event time, if somebody asks how fresh it is."""
    asked = {stream for reader in group.readers for stream in fresh_streams(group, reader)}
    return [ref.time if stream in asked else None for stream, ref in enumerate(group.whole.streams)]


class Ages:
    """Collects event times for the readers of a group."""

    def __init__(self, group: Group, payloads: Sequence[Rows]) -> None:
        self._streams: Sequence[StreamRef] = group.whole.streams
        self._payloads = payloads
        self._asked: Mapping[int, list[int]] = {
            place: streams
            for place, reader in enumerate(group.readers)
            if not reader.is_lasting and (streams := fresh_streams(group, reader))
        }
        self._names = [reader.name for reader in group.readers]
        self._times: dict[tuple[str, str], list[Int64s]] = {}

    def note(self, reader: int, results: Int64s) -> None:
        """A reader has these results: time, expiry and row numbers of each."""
        for stream in self._asked.get(reader, ()):
            ref = self._streams[stream]
            if ref.time is not None:
                times = _microseconds(self._payloads[stream].take(ref.time, results[:, 2 + stream]))
                self._times.setdefault((self._names[reader], ref.alias), []).append(times)

    def take(self) -> Times:
        """The event times since this was last asked."""
        taken, self._times = self._times, {}
        return {place: np.concatenate(parts) for place, parts in taken.items()}


def _microseconds(times: pa.Array) -> Int64s:
    kind = times.type
    if not pa.types.is_integer(kind):
        times = times.cast(pa.timestamp("us", kind.tz if pa.types.is_timestamp(kind) else None), safe=False)
    counted: Int64s = times.cast(pa.int64()).to_numpy(zero_copy_only=False)
    return counted
