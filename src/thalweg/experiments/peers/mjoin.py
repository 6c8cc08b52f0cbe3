"""A bare M-Join kernel: the most that any engine of this kind could reach on the workload.

An M-Join (Viglas, Naughton, Burger, 2003) keeps a window with a hash index per stream and no
intermediate state: a new tuple expires old ones, is inserted into its own window and probes all
others, and every combination of the partners is a result.

Built for one purpose, it takes every shortcut that the purpose allows:

- one int64 key and one window for all streams; no payload, no predicates, no plan;
- the input arrives merged into its total order, in arrays of exactly the needed types;
- the rings are sized beforehand to the most tuples that any window will hold;
- the newest tuples of a key in *all* streams are neighbours in memory, so that one cache line
  tells whether some stream has no partner, which ends three probes of four on the 4-stream workload;
- chains run from new to old and end at the window's edge, so nothing is ever unlinked;
- results are row numbers (int32) written into one array that is allocated and touched before.

It works for any number of streams. (Unrolled by hand for four it is up to a tenth faster.) What an engine
has to do besides (merging the streams, any key type, gathering the output columns) is not included.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thalweg.engine.kernels.compiled import allocating


class Merged(NamedTuple):
    """All tuples in the total order: event time, then position of the stream, then row.

    ``ring`` is a power of two that no window's contents exceed.
    """

    streams: int
    stream: NDArray[np.uint8]
    key: NDArray[np.int64]
    time: NDArray[np.int64]
    row: NDArray[np.int32]
    ring: int


def merge(arrivals: Mapping[str, pa.Table], window_us: int) -> Merged:
    """Merge the streams (each in time order) for :func:`join`."""
    tables = list(arrivals.values())
    times = [table["ts"].to_numpy().astype(np.int64) for table in tables]
    lengths = [len(table) for table in tables]
    time = np.concatenate(times)
    order = np.argsort(time, kind="stable")
    return Merged(
        streams=len(tables),
        stream=np.repeat(np.arange(len(tables), dtype=np.uint8), lengths)[order],
        key=np.concatenate([table["k"].to_numpy() for table in tables])[order],
        time=time[order],
        row=np.concatenate([np.arange(length, dtype=np.int32) for length in lengths])[order],
        ring=1 << max(_fullest(one, window_us) for one in times).bit_length(),
    )


def join(merged: Merged, window_us: int, out: NDArray[np.int32] | None = None) -> NDArray[np.int32]:
    """Row numbers of all results: one row per stream, one column per result.

    ``out`` is written if it is large enough; the answer is then a view of it.
    """
    if out is None:
        out = np.zeros((merged.streams, len(merged.key) + 1), dtype=np.int32)
    results = _join(*merged, window_us, out)
    if results > out.shape[1]:
        out = np.zeros((merged.streams, results), dtype=np.int32)
        _join(*merged, window_us, out)
    return out[:, :results]


def _fullest(times: NDArray[np.int64], window_us: int) -> int:
    """The most tuples of a stream that are in its window at once."""
    if len(times) == 0:
        return 0
    oldest = np.searchsorted(times, times - window_us, side="right")
    return int((np.arange(len(times)) - oldest).max()) + 1


@allocating
def _join(
    streams: int,
    stream: NDArray[np.uint8],
    key: NDArray[np.int64],
    time: NDArray[np.int64],
    row: NDArray[np.int32],
    ring: int,
    window_us: int,
    out: NDArray[np.int32],
) -> int:
    """The kernel. Returns the number of results; those beyond the size of ``out`` are only counted.

    A tuple is known by its number in its stream and sits in the ring at that number modulo ``ring``.
    ``newest[b, s]`` is the newest tuple of stream ``s`` in hash bucket ``b``, ``older[s, slot]`` the next
    older one of the same bucket, ``oldest[s]`` the oldest tuple still alive.
    """
    slot_mask = ring - 1
    bits = 0
    while (1 << bits) < ring:
        bits += 1
    shift = np.uint64(64 - max(bits, 1))
    newest = np.full((max(ring, 2), streams), -1, np.int32)
    older = np.empty((streams, ring), np.int32)
    keys = np.empty((streams, ring), np.int64)
    times = np.empty((streams, ring), np.int64)
    rows = np.empty((streams, ring), np.int32)
    arrived = np.zeros(streams, np.int32)
    oldest = np.zeros(streams, np.int32)
    partners = np.empty((streams, ring), np.int32)
    counts = np.zeros(streams, np.int64)
    capacity = out.shape[1]
    results = 0
    next_expiry = time[0] if len(time) else 0
    for i in range(len(key)):
        s, k, t = stream[i], key[i], time[i]
        bucket = np.int64((np.uint64(k) * np.uint64(0x9E3779B97F4A7C15)) >> shift)
        # 1. Purge: nothing to do until the next expiry of any stream.
        if t >= next_expiry:
            next_expiry = t + window_us
            for x in range(streams):
                first = oldest[x]
                while first < arrived[x] and times[x, first & slot_mask] + window_us <= t:
                    first += 1
                oldest[x] = first
                if first < arrived[x]:
                    next_expiry = min(next_expiry, times[x, first & slot_mask] + window_us)
        # 2. Probe: is there a candidate in every other stream? Only then look at keys.
        missing = 0
        for x in range(streams):
            missing += (newest[bucket, x] < oldest[x]) & (x != s)
        if missing == 0:
            combinations = 1
            for x in range(streams):
                if x == s:
                    continue
                found = 0
                candidate = newest[bucket, x]
                while candidate >= oldest[x]:
                    slot = candidate & slot_mask
                    if keys[x, slot] == k:
                        partners[x, found] = rows[x, slot]
                        found += 1
                    candidate = older[x, slot]
                counts[x] = found
                combinations *= found
                if found == 0:
                    break
            # 3. Emit: every combination, a column of the output per stream.
            if combinations > 0:
                if results + combinations <= capacity:
                    partners[s, 0] = row[i]
                    counts[s] = 1
                    repeat = combinations
                    for x in range(streams):
                        if counts[x] == 1:
                            for r in range(results, results + combinations):
                                out[x, r] = partners[x, 0]
                            continue
                        repeat //= counts[x]
                        r = results
                        while r < results + combinations:
                            for p in range(counts[x]):
                                for _ in range(repeat):
                                    out[x, r] = partners[x, p]
                                    r += 1
                results += combinations
        # 4. Insert.
        number = arrived[s]
        slot = number & slot_mask
        keys[s, slot] = k
        times[s, slot] = t
        rows[s, slot] = row[i]
        older[s, slot] = newest[bucket, s]
        newest[bucket, s] = number
        arrived[s] = number + 1
    return results
