"""The records of a set difference: tuples, keys and queues in one pool, linked by their numbers.

Each record is as long as a cache line. Its role says what its fields are. Some are always there: the head of the pool,
the key of members that nothing can block, the queues of what was touched and went at this instant, and one queue per
stream.

A *directory* finds the key or the queue of a code: a table of numbers of records, open addressing. (Functions take few
arrays, and numbers rather than tuples of arrays: numba counts references for each array at each call.)
"""

from __future__ import annotations

import numpy as np

from thalweg.engine.kernels.compiled import Int64s, jit

NOTHING = -1
"""No record."""

# Records. Each has a role and a link: of a free one, to the next free one.
FIELDS = 8
"""Of a record: as many as a cache line has words."""
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


def empty_pool(streams: int) -> Int64s:
    """A pool without tuples for a difference of so many streams."""
    used = STREAM_QUEUES + streams
    records = np.full((used, FIELDS), NOTHING, np.int64)
    records[POOL, ROLE] = HEAD
    records[POOL, TUPLES] = 0
    records[POOL, [USED, IN_USE]] = used
    records[UNBLOCKABLE, ROLE] = KEY
    records[UNBLOCKABLE, BLOCKERS] = 0
    records[UNBLOCKABLE, BEFORE] = UNTOUCHED
    records[UNBLOCKABLE + 1 :, ROLE] = QUEUE
    records[UNBLOCKABLE + 1 :, LENGTH] = 0
    return records


@jit
def home(code: int, mask: int) -> int:
    """Where the search for a code starts; products stay below 2**62."""
    mixed = ((code ^ (code >> 31)) & 0x7FFFFFFF) * 0x61C88647
    return (mixed ^ (mixed >> 29)) & mask


@jit
def find(directory: Int64s, records: Int64s, code: int) -> int:
    """The place of a code in a directory, or the free place where it belongs."""
    mask = len(directory) - 1
    place = home(code, mask)
    while directory[place] != NOTHING and records[directory[place], CODE] != code:
        place = (place + 1) & mask
    return place


@jit
def unlist(directory: Int64s, records: Int64s, code: int) -> None:
    """Take a code out of a directory, closing the gap so that every search still ends where it should."""
    mask = len(directory) - 1
    gap = find(directory, records, code)
    place = gap
    while True:
        place = (place + 1) & mask
        if directory[place] == NOTHING:
            break
        start = home(records[directory[place], CODE], mask)
        if ((place - start) & mask) >= ((place - gap) & mask):
            directory[gap] = directory[place]
            gap = place
    directory[gap] = NOTHING


@jit
def enlist(directory: Int64s, records: Int64s, role: int, first: int) -> None:
    """Fill an empty directory with the records of a role, from number ``first`` on."""
    for record in range(first, records[POOL, USED]):
        if records[record, ROLE] == role:
            directory[find(directory, records, records[record, CODE])] = record


@jit
def new(records: Int64s, role: int) -> int:
    """Take a record that nobody uses; the pool has room for it."""
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
def free(records: Int64s, record: int) -> None:
    """Nobody uses a record any more."""
    records[record, ROLE] = FREE
    records[record, LINK] = records[POOL, FIRST_FREE]
    records[POOL, FIRST_FREE] = record
    records[POOL, IN_USE] -= 1


@jit
def listed(records: Int64s, directory: Int64s, role: int, code: int) -> int:
    """The key or queue of a code, new if need be."""
    place = find(directory, records, code)
    record: int = directory[place]
    if record == NOTHING:
        record = new(records, role)
        records[record, CODE] = code
        records[record, FIRST] = NOTHING
        records[record, LAST] = NOTHING
        records[record, BLOCKERS] = 0
        records[record, BEFORE] = UNTOUCHED
        directory[place] = record
    return record


@jit
def push(records: Int64s, queue: int, record: int) -> None:
    """Link a record behind the youngest of a queue."""
    records[record, LINK] = NOTHING
    youngest = records[queue, YOUNGEST]
    if youngest == NOTHING:
        records[queue, OLDEST] = record
    else:
        records[youngest, LINK] = record
    records[queue, YOUNGEST] = record
    records[queue, LENGTH] += 1
