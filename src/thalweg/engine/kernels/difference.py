"""The kernel of the set difference: tuples of stream 0 while no other stream blocks their key.

Design
    JISC 4.7's binary differences ``((A - B) - C) - ...`` are taken in one step: a *key* has the tuples of
    stream 0 that carry it (its members, in order of arrival) and the number of tuples of all other
    streams that do (its blockers). Its members are in the difference while it has no blockers.

    Tuples, keys and the queues in which tuples wait to leave are records of one pool
    (:mod:`thalweg.engine.kernels.difference_records`).

    Time advances from instant to instant. At each: 1. *expire* what leaves RANGE windows, 2. *arrive*, which
    may push older tuples out of ROWS windows, 3. *emit*: compare every touched key with what it was
    before the instant, 4. *forget* tuples that left and keys that nothing is left of.

Invariants
    Between instants no key is touched and no tuple gone, and the directory of keys has exactly those
    with members or blockers. A key's members are in order of arrival, so those that came at this
    instant are at its tail.

Cost
    Constant per tuple that comes or leaves, plus the output: the members of a key are only walked
    to be emitted.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thalweg.engine.kernels import difference_records as r
from thalweg.engine.kernels.compiled import Int64s, jit

Bools = NDArray[np.bool_]

FOREVER = 2**62
"""Later than every instant."""

# What ends the life of a stream's tuples: time, newer tuples, or nothing. Columns of ``window``.
RANGE, ROWS, UNBOUNDED = 0, 1, 2
KIND, SIZE, PARTITIONED = 0, 1, 2

NO_EQUAL = -2
"""The code of a key that equals no other."""


class Arrivals(NamedTuple):
    """Tuples in their total order: event time, position of the stream, arrival."""

    stream: NDArray[np.int32]  # position in the query
    time: Int64s
    key: Int64s  # codes, not negative, equal exactly if the keys are
    row: Int64s  # what the caller knows a tuple of stream 0 by
    passes: Bools  # False: the selection fails, or (not stream 0) the key has a NULL; only counts in ROWS
    blockable: Bools  # stream 0: False if the key has a NULL, so that nothing equals it
    partition: Int64s  # codes, not negative, of the PARTITION BY values where the window has them


@jit
def _touch(records: Int64s, key: int) -> None:
    """Note what a key was before this instant."""
    if records[key, r.BEFORE] == r.UNTOUCHED:
        records[key, r.BEFORE] = r.WAS_BLOCKED if records[key, r.BLOCKERS] > 0 else r.WAS_FREE
        r.push(records, r.TOUCHED, key)


@jit
def _join_key(records: Int64s, held: int, key: int) -> None:
    """A tuple becomes its key's last member."""
    last = records[key, r.LAST]
    records[held, r.PREVIOUS] = last
    records[held, r.NEXT] = r.NOTHING
    if last == r.NOTHING:
        records[key, r.FIRST] = held
    else:
        records[last, r.NEXT] = held
    records[key, r.LAST] = held


@jit
def _leave_key(records: Int64s, held: int, key: int) -> None:
    previous = records[held, r.PREVIOUS]
    following = records[held, r.NEXT]
    if previous == r.NOTHING:
        records[key, r.FIRST] = following
    else:
        records[previous, r.NEXT] = following
    if following == r.NOTHING:
        records[key, r.LAST] = previous
    else:
        records[following, r.PREVIOUS] = previous


@jit
def _pop(records: Int64s, queue: int) -> None:
    """The oldest tuple of a queue leaves its window."""
    held = records[queue, r.OLDEST]
    records[queue, r.OLDEST] = records[held, r.LINK]
    if records[held, r.LINK] == r.NOTHING:
        records[queue, r.YOUNGEST] = r.NOTHING
    records[queue, r.LENGTH] -= 1
    key = records[held, r.OF_KEY]
    if key != r.NOTHING:
        _touch(records, key)
        if records[held, r.STREAM] == 0:
            _leave_key(records, held, key)
        else:
            records[key, r.BLOCKERS] -= 1
    r.push(records, r.GONE, held)
    records[r.POOL, r.TUPLES] -= 1


@jit
def _arrive(
    records: Int64s,
    key_directory: Int64s,
    queue_directory: Int64s,
    window: Int64s,
    stream: int,
    now: int,
    code: int,
    row: int,
    partition: int,
) -> None:
    """A tuple arrives. Its code is r.NOTHING if it only counts in ROWS, NO_EQUAL if nothing can block it."""
    kind = window[stream, KIND]
    key = r.NOTHING
    if code != r.NOTHING:
        key = r.UNBLOCKABLE
        if code != NO_EQUAL:
            key = r.listed(records, key_directory, r.KEY, code)
        _touch(records, key)
        if stream != 0:
            records[key, r.BLOCKERS] += 1
    if kind != ROWS and (key == r.NOTHING or (kind == UNBOUNDED and stream != 0)):
        return  # nothing will ever ask for it
    held = r.new(records, r.TUPLE)
    records[r.POOL, r.TUPLES] += 1
    records[held, r.ROW] = row
    records[held, r.TIME] = now
    records[held, r.OF_KEY] = key
    records[held, r.STREAM] = stream
    if stream == 0 and key != r.NOTHING:
        _join_key(records, held, key)
    if kind == UNBOUNDED:
        return
    queue = r.STREAM_QUEUES + stream
    if window[stream, PARTITIONED]:
        queue = r.listed(records, queue_directory, r.QUEUE, partition * len(window) + stream)
    r.push(records, queue, held)
    if kind == ROWS and records[queue, r.LENGTH] > window[stream, SIZE]:
        _pop(records, queue)


@jit
def _next_instant(records: Int64s, window: Int64s, arrival: int) -> int:
    """The time of the next arrival, or of an earlier one at which something leaves a RANGE window."""
    now = arrival
    for stream in range(len(window)):
        oldest = records[r.STREAM_QUEUES + stream, r.OLDEST]
        if window[stream, KIND] == RANGE and oldest != r.NOTHING:
            now = min(now, records[oldest, r.TIME] + window[stream, SIZE])
    return now


@jit
def _entering(records: Int64s, now: int, rows: Int64s, count: int) -> int:
    """Write the rows that are in the difference now and were not before; returns where they end."""
    key = records[r.TOUCHED, r.OLDEST]
    while key != r.NOTHING:
        if records[key, r.BLOCKERS] == 0:
            held = records[key, r.FIRST]
            if records[key, r.BEFORE] == r.WAS_FREE:  # only those that came now
                held = r.NOTHING
                newest = records[key, r.LAST]
                while newest != r.NOTHING and records[newest, r.TIME] == now:
                    held = newest
                    newest = records[newest, r.PREVIOUS]
            while held != r.NOTHING:
                rows[count] = records[held, r.ROW]
                count += 1
                held = records[held, r.NEXT]
        key = records[key, r.LINK]
    return count


@jit
def _leaving(records: Int64s, now: int, rows: Int64s, count: int) -> int:
    """Write the rows that were in the difference before and are not now; returns where they end."""
    held = records[r.GONE, r.OLDEST]
    while held != r.NOTHING:
        key = records[held, r.OF_KEY]
        # One that came and went at this instant never was in the difference.
        was_there = key != r.NOTHING and records[held, r.STREAM] == 0 and records[held, r.TIME] < now
        if was_there and records[key, r.BEFORE] == r.WAS_FREE:
            rows[count] = records[held, r.ROW]
            count += 1
        held = records[held, r.LINK]
    key = records[r.TOUCHED, r.OLDEST]
    while key != r.NOTHING:
        if records[key, r.BLOCKERS] > 0 and records[key, r.BEFORE] == r.WAS_FREE:
            held = records[key, r.FIRST]
            while held != r.NOTHING and records[held, r.TIME] < now:
                rows[count] = records[held, r.ROW]
                count += 1
                held = records[held, r.NEXT]
        key = records[key, r.LINK]
    return count


@jit
def _forget(records: Int64s, key_directory: Int64s) -> None:
    """End the instant: free the tuples that are gone, and touched keys that nothing is left of."""
    held = records[r.GONE, r.OLDEST]
    while held != r.NOTHING:
        following = records[held, r.LINK]
        r.free(records, held)
        held = following
    key = records[r.TOUCHED, r.OLDEST]
    while key != r.NOTHING:
        following = records[key, r.LINK]
        records[key, r.BEFORE] = r.UNTOUCHED
        if key != r.UNBLOCKABLE and records[key, r.BLOCKERS] == 0 and records[key, r.FIRST] == r.NOTHING:
            r.unlist(key_directory, records, records[key, r.CODE])
            r.free(records, key)
        key = following
    for queue in (r.GONE, r.TOUCHED):
        records[queue, r.OLDEST] = r.NOTHING
        records[queue, r.YOUNGEST] = r.NOTHING
        records[queue, r.LENGTH] = 0


@jit
def advance(
    arrivals: Arrivals,
    arrived: int,
    watermark: int,
    window: Int64s,
    entering: bool,
    records: Int64s,
    key_directory: Int64s,
    queue_directory: Int64s,
    times: Int64s,
    rows: Int64s,
) -> tuple[bool, int, int]:
    """Pass the instants before the watermark, taking in the arrivals from number ``arrived`` on.

    ``window[stream, (KIND, SIZE, PARTITIONED)]`` says how long tuples live; ``entering`` asks for what enters the
    difference rather than for what leaves it; ``records`` and both directories are updated, and have room for every
    arrival to be a new tuple, key and partition. What is emitted is written to ``times`` and ``rows``.
    An instant emits a tuple at most once: the kernel stops before one for which there may not be room.

    Returns whether all instants are passed, how many arrivals are, and how much was emitted.
    """
    count = 0
    dated = 0
    incoming = len(arrivals.time)
    while True:
        now = _next_instant(records, window, arrivals.time[arrived] if arrived < incoming else FOREVER)
        if now >= watermark:
            return True, arrived, count
        if count + records[r.POOL, r.TUPLES] + incoming - arrived > len(rows):
            return False, arrived, count
        # 1. Expire.
        for stream in range(len(window)):
            if window[stream, KIND] == RANGE:
                queue = r.STREAM_QUEUES + stream
                oldest = records[queue, r.OLDEST]
                while oldest != r.NOTHING and records[oldest, r.TIME] + window[stream, SIZE] == now:
                    _pop(records, queue)
                    oldest = records[queue, r.OLDEST]
        # 2. Arrive.
        while arrived < incoming and arrivals.time[arrived] == now:
            stream = arrivals.stream[arrived]
            code = r.NOTHING
            if arrivals.passes[arrived]:
                code = arrivals.key[arrived] if stream != 0 or arrivals.blockable[arrived] else NO_EQUAL
            row, partition = arrivals.row[arrived], arrivals.partition[arrived]
            _arrive(records, key_directory, queue_directory, window, stream, now, code, row, partition)
            arrived += 1
        # 3. Emit.
        count = _entering(records, now, rows, count) if entering else _leaving(records, now, rows, count)
        while dated < count:
            times[dated] = now
            dated += 1
        # 4. Forget.
        _forget(records, key_directory)
