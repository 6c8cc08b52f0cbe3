"""The kernel of the set difference: tuples of stream 0 while no other stream blocks their key.

Design
    JISC 4.7's binary differences ``((A - B) - C) - ...`` are taken in one step: a *key* has the tuples of
    stream 0 that carry it (its members, in order of arrival) and the number of tuples of all other
    streams that do (its blockers). Its members are in the difference while it has no blockers.

    Tuples, keys and the queues in which tuples wait to leave are records of one pool, each as
    long as a cache line, linked by their numbers. Some are always there: the head of the pool, the key of
    members that nothing can block, the queues of what was touched and went at this instant, one per stream.

    Time advances from instant to instant. At each: 1. *expire* what leaves RANGE windows, 2. *arrive*, which
    may push older tuples out of ROWS windows, 3. *emit*: compare every touched key with what it was
    before the instant, 4. *forget* tuples that left and keys that nothing is left of.

Invariants
    Between instants no key is touched and no tuple gone, and the directory of keys has exactly those
    with members or blockers. A key's members are in order of arrival, so those that came at this
    instant are at its tail.

Cost
    Constant per tuple that comes or leaves, plus the output: the members of a key are only walked
    to be emitted. (Helpers take few arrays, and numbers rather than tuples of arrays: numba counts
    references for each array at each call.)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thalweg.engine.kernels.compiled import Int64s, jit

Bools = NDArray[np.bool_]

NOTHING = -1
"""No record."""
FOREVER = 2**62
"""Later than every instant."""

# What ends the life of a stream's tuples: time, newer tuples, or nothing. Columns of ``window``.
RANGE, ROWS, UNBOUNDED = 0, 1, 2
KIND, SIZE, PARTITIONED = 0, 1, 2

# Records. Each has a role and a link: of a free one, to the next free one.
RECORD_FIELDS = 8
ROLE, LINK = 0, 1
FREE, HEAD, TUPLE, KEY, QUEUE = 0, 1, 2, 3, 4
# The head of the pool: the first free record, how many were ever in use and are now, how many are tuples in windows.
FIRST_FREE, USED, IN_USE, TUPLES = 2, 3, 4, 5
# A tuple, linked to the next younger of its queue: the caller's row, its time, its key (NOTHING: it only counts in
# ROWS), its stream, and its neighbours among the members of the key.
ROW, TIME, OF_KEY, STREAM, PREVIOUS, NEXT = 2, 3, 4, 5, 6, 7
# A key, linked to the next one touched: its code, its members, its blockers, and what it was before this instant.
CODE, FIRST, LAST, BLOCKERS, BEFORE = 2, 3, 4, 5, 6
UNTOUCHED, WAS_FREE, WAS_BLOCKED = 0, 1, 2
# A queue: the code of its partition if it has one, what is linked in it, and how many these are. (As in a key.)
OLDEST, YOUNGEST, LENGTH = 3, 4, 5

# Records that are always there.
POOL = 0
UNBLOCKABLE = 1
TOUCHED = 2
GONE = 3
STREAM_QUEUES = 4

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
def _home(code: int, mask: int) -> int:
    """Where the search for a code starts; products stay below 2**62."""
    mixed = ((code ^ (code >> 31)) & 0x7FFFFFFF) * 0x61C88647
    return (mixed ^ (mixed >> 29)) & mask


@jit
def _find(directory: Int64s, records: Int64s, code: int) -> int:
    """The place of a code in a directory, or the free place where it belongs."""
    mask = len(directory) - 1
    place = _home(code, mask)
    while directory[place] != NOTHING and records[directory[place], CODE] != code:
        place = (place + 1) & mask
    return place


@jit
def _unlist(directory: Int64s, records: Int64s, code: int) -> None:
    """Take a code out of a directory, closing the gap so that every search still ends where it should."""
    mask = len(directory) - 1
    gap = _find(directory, records, code)
    place = gap
    while True:
        place = (place + 1) & mask
        if directory[place] == NOTHING:
            break
        home = _home(records[directory[place], CODE], mask)
        if ((place - home) & mask) >= ((place - gap) & mask):
            directory[gap] = directory[place]
            gap = place
    directory[gap] = NOTHING


@jit
def enlist(directory: Int64s, records: Int64s, role: int, first: int) -> None:
    """Fill an empty directory with the records of a role, from number ``first`` on."""
    for record in range(first, records[POOL, USED]):
        if records[record, ROLE] == role:
            directory[_find(directory, records, records[record, CODE])] = record


@jit
def _new(records: Int64s, role: int) -> int:
    record: int = records[POOL, FIRST_FREE]
    if record == NOTHING:
        record = records[POOL, USED]
        records[POOL, USED] += 1
    else:
        records[POOL, FIRST_FREE] = records[record, LINK]
    records[POOL, IN_USE] += 1
    records[record, ROLE] = role
    records[record, LINK] = NOTHING
    return record


@jit
def _free(records: Int64s, record: int) -> None:
    records[record, ROLE] = FREE
    records[record, LINK] = records[POOL, FIRST_FREE]
    records[POOL, FIRST_FREE] = record
    records[POOL, IN_USE] -= 1


@jit
def _listed(records: Int64s, directory: Int64s, role: int, code: int) -> int:
    """The key or queue of a code, new if need be."""
    place = _find(directory, records, code)
    record: int = directory[place]
    if record == NOTHING:
        record = _new(records, role)
        records[record, CODE] = code
        records[record, FIRST] = NOTHING
        records[record, LAST] = NOTHING
        records[record, BLOCKERS] = 0
        records[record, BEFORE] = UNTOUCHED
        directory[place] = record
    return record


@jit
def _push(records: Int64s, queue: int, record: int) -> None:
    records[record, LINK] = NOTHING
    youngest = records[queue, YOUNGEST]
    if youngest == NOTHING:
        records[queue, OLDEST] = record
    else:
        records[youngest, LINK] = record
    records[queue, YOUNGEST] = record
    records[queue, LENGTH] += 1


@jit
def _touch(records: Int64s, key: int) -> None:
    """Note what a key was before this instant."""
    if records[key, BEFORE] == UNTOUCHED:
        records[key, BEFORE] = WAS_BLOCKED if records[key, BLOCKERS] > 0 else WAS_FREE
        _push(records, TOUCHED, key)


@jit
def _join_key(records: Int64s, held: int, key: int) -> None:
    """A tuple becomes its key's last member."""
    last = records[key, LAST]
    records[held, PREVIOUS] = last
    records[held, NEXT] = NOTHING
    if last == NOTHING:
        records[key, FIRST] = held
    else:
        records[last, NEXT] = held
    records[key, LAST] = held


@jit
def _leave_key(records: Int64s, held: int, key: int) -> None:
    previous = records[held, PREVIOUS]
    following = records[held, NEXT]
    if previous == NOTHING:
        records[key, FIRST] = following
    else:
        records[previous, NEXT] = following
    if following == NOTHING:
        records[key, LAST] = previous
    else:
        records[following, PREVIOUS] = previous


@jit
def _pop(records: Int64s, queue: int) -> None:
    """The oldest tuple of a queue leaves its window."""
    held = records[queue, OLDEST]
    records[queue, OLDEST] = records[held, LINK]
    if records[held, LINK] == NOTHING:
        records[queue, YOUNGEST] = NOTHING
    records[queue, LENGTH] -= 1
    key = records[held, OF_KEY]
    if key != NOTHING:
        _touch(records, key)
        if records[held, STREAM] == 0:
            _leave_key(records, held, key)
        else:
            records[key, BLOCKERS] -= 1
    _push(records, GONE, held)
    records[POOL, TUPLES] -= 1


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
    """A tuple arrives. Its code is NOTHING if it only counts in ROWS, NO_EQUAL if nothing can block it."""
    kind = window[stream, KIND]
    key = NOTHING
    if code != NOTHING:
        key = UNBLOCKABLE
        if code != NO_EQUAL:
            key = _listed(records, key_directory, KEY, code)
        _touch(records, key)
        if stream != 0:
            records[key, BLOCKERS] += 1
    if kind != ROWS and (key == NOTHING or (kind == UNBOUNDED and stream != 0)):
        return  # nothing will ever ask for it
    held = _new(records, TUPLE)
    records[POOL, TUPLES] += 1
    records[held, ROW] = row
    records[held, TIME] = now
    records[held, OF_KEY] = key
    records[held, STREAM] = stream
    if stream == 0 and key != NOTHING:
        _join_key(records, held, key)
    if kind == UNBOUNDED:
        return
    queue = STREAM_QUEUES + stream
    if window[stream, PARTITIONED]:
        queue = _listed(records, queue_directory, QUEUE, partition * len(window) + stream)
    _push(records, queue, held)
    if kind == ROWS and records[queue, LENGTH] > window[stream, SIZE]:
        _pop(records, queue)


@jit
def _next_instant(records: Int64s, window: Int64s, arrival: int) -> int:
    """The time of the next arrival, or of an earlier one at which something leaves a RANGE window."""
    now = arrival
    for stream in range(len(window)):
        oldest = records[STREAM_QUEUES + stream, OLDEST]
        if window[stream, KIND] == RANGE and oldest != NOTHING:
            now = min(now, records[oldest, TIME] + window[stream, SIZE])
    return now


@jit
def _entering(records: Int64s, now: int, rows: Int64s, count: int) -> int:
    """Write the rows that are in the difference now and were not before; returns where they end."""
    key = records[TOUCHED, OLDEST]
    while key != NOTHING:
        if records[key, BLOCKERS] == 0:
            held = records[key, FIRST]
            if records[key, BEFORE] == WAS_FREE:  # only those that came now
                held = NOTHING
                newest = records[key, LAST]
                while newest != NOTHING and records[newest, TIME] == now:
                    held = newest
                    newest = records[newest, PREVIOUS]
            while held != NOTHING:
                rows[count] = records[held, ROW]
                count += 1
                held = records[held, NEXT]
        key = records[key, LINK]
    return count


@jit
def _leaving(records: Int64s, now: int, rows: Int64s, count: int) -> int:
    """Write the rows that were in the difference before and are not now; returns where they end."""
    held = records[GONE, OLDEST]
    while held != NOTHING:
        key = records[held, OF_KEY]
        # One that came and went at this instant never was in the difference.
        was_there = key != NOTHING and records[held, STREAM] == 0 and records[held, TIME] < now
        if was_there and records[key, BEFORE] == WAS_FREE:
            rows[count] = records[held, ROW]
            count += 1
        held = records[held, LINK]
    key = records[TOUCHED, OLDEST]
    while key != NOTHING:
        if records[key, BLOCKERS] > 0 and records[key, BEFORE] == WAS_FREE:
            held = records[key, FIRST]
            while held != NOTHING and records[held, TIME] < now:
                rows[count] = records[held, ROW]
                count += 1
                held = records[held, NEXT]
        key = records[key, LINK]
    return count


@jit
def _forget(records: Int64s, key_directory: Int64s) -> None:
    """End the instant: free the tuples that are gone, and touched keys that nothing is left of."""
    held = records[GONE, OLDEST]
    while held != NOTHING:
        following = records[held, LINK]
        _free(records, held)
        held = following
    key = records[TOUCHED, OLDEST]
    while key != NOTHING:
        following = records[key, LINK]
        records[key, BEFORE] = UNTOUCHED
        if key != UNBLOCKABLE and records[key, BLOCKERS] == 0 and records[key, FIRST] == NOTHING:
            _unlist(key_directory, records, records[key, CODE])
            _free(records, key)
        key = following
    for queue in (GONE, TOUCHED):
        records[queue, OLDEST] = NOTHING
        records[queue, YOUNGEST] = NOTHING
        records[queue, LENGTH] = 0


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
        if count + records[POOL, TUPLES] + incoming - arrived > len(rows):
            return False, arrived, count
        # 1. Expire.
        for stream in range(len(window)):
            if window[stream, KIND] == RANGE:
                queue = STREAM_QUEUES + stream
                oldest = records[queue, OLDEST]
                while oldest != NOTHING and records[oldest, TIME] + window[stream, SIZE] == now:
                    _pop(records, queue)
                    oldest = records[queue, OLDEST]
        # 2. Arrive.
        while arrived < incoming and arrivals.time[arrived] == now:
            stream = arrivals.stream[arrived]
            code = NOTHING
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
