"""Base windows: rings of tuples, each in a hash chain of every access path; ROWS windows also count by partition."""

from __future__ import annotations

from thalweg.engine.instants import FOREVER
from thalweg.engine.kernels.compiled import Int64s, inlined, jit
from thalweg.engine.kernels.hashing import hash_codes, hash_fields, rotate
from thalweg.engine.kernels.tables import (
    ALIVE,
    COUNTED,
    DEAD,
    LOOKED_AT,
    NEWER,
    OCCUPIED,
    P_COUNT,
    P_FIELDS,
    P_HEADS,
    P_LINK,
    P_MASK,
    P_SPAN,
    PART_CLASS_COUNT,
    PART_CLASSES,
    PART_PATH,
    PART_STREAM,
    PART_WIDTH,
    PARTITION_FIELDS,
    ROW,
    S_LIFETIME,
    S_MASK,
    S_NEXT,
    S_OLDEST,
    S_PARTITIONS,
    S_PATH,
    S_PATHS,
    S_PREFIX,
    S_REGION,
    S_RENUMBERED,
    S_ROWS,
    S_STRIDE,
    SETTLED,
    VOID,
    T,
    Tables,
)


@jit
def link(mem: Int64s, paths: Int64s, lists: Int64s, path: int, word: int, sequence: int) -> None:
    """Put a base tuple at the head of its chain in one access path."""
    key = hash_fields(mem, word, lists, paths[path, P_FIELDS], paths[path, P_COUNT])
    head = paths[path, P_HEADS] + (key & paths[path, P_MASK]) * paths[path, P_SPAN]
    mem[word + paths[path, P_LINK]] = mem[head]
    mem[head] = sequence


@jit
def join_partition(mem: Int64s, streams: Int64s, stream: int, sequence: int) -> int:
    """Append to the tuple's partition of a ROWS window; its oldest dies if there are too many.

    Returns the word of one that has died and could be part of results, else -1.
    """
    region, mask, stride = streams[stream, S_REGION], streams[stream, S_MASK], streams[stream, S_STRIDE]
    newer = streams[stream, S_PREFIX] + NEWER
    partition = (
        streams[stream, S_PARTITIONS]
        + mem[region + (sequence & mask) * stride + streams[stream, S_PREFIX] - 1] * PARTITION_FIELDS
    )
    if mem[partition + 2] == 0:
        mem[partition] = sequence
    else:
        mem[region + (mem[partition + 1] & mask) * stride + newer] = sequence
    mem[partition + 1] = sequence
    mem[partition + 2] += 1
    if mem[partition + 2] <= streams[stream, S_ROWS]:
        return -1
    victim = region + (mem[partition] & mask) * stride
    mem[partition] = mem[victim + newer]
    mem[partition + 2] -= 1
    mem[victim + streams[stream, S_PREFIX] + ALIVE] = DEAD
    return victim if mem[victim + ROW] >= 0 else -1


@jit
def is_over(mem: Int64s, streams: Int64s, stream: int, word: int, watermark: int) -> bool:
    """Whether a base tuple can be part of nothing to come."""
    if mem[word + ROW] < 0:
        return True
    if streams[stream, S_ROWS] > 0:
        return mem[word + streams[stream, S_PREFIX] + ALIVE] == DEAD
    lifetime = streams[stream, S_LIFETIME]
    return lifetime < FOREVER and mem[word + T] + lifetime <= watermark


@jit
def key_of(mem: Int64s, word: int, fields: Int64s) -> int:
    """The key that a base tuple's codes in these fields hash to."""
    if len(fields) == 0:
        return 0
    key = mem[word + fields[0]]
    for i in range(1, len(fields)):
        key = rotate(key) ^ mem[word + fields[i]]
    return key


@inlined
def vacancy(
    mem: Int64s,
    streams: Int64s,
    paths: Int64s,
    lists: Int64s,
    code: Int64s,
    frame: int,
    start: int,
    count: int,
    birth: int,
) -> int:
    """What base windows tell about a key of a state that they are below.

    VOID: one has no tuple for its part of the key, so that the state has no entry. SETTLED: one has none from before
    the state's ``birth`` (-1: whenever that was), so that nothing is missing. Else the key is OCCUPIED, or a chain is
    too long to tell: then it costs less to look the key up.

    ``lists`` has ``count`` parts from ``start`` on. Windows that are looked up by the same key have their heads side by
    side, so all heads are asked first; a tuple, which lies anywhere, would have to be waited for.
    """
    for part in range(start, start + count * PART_WIDTH, PART_WIDTH):
        path = lists[part + PART_PATH]
        key = hash_codes(code, frame, lists, lists[part + PART_CLASSES], lists[part + PART_CLASS_COUNT])
        head = mem[paths[path, P_HEADS] + (key & paths[path, P_MASK]) * paths[path, P_SPAN]]
        if head < streams[lists[part + PART_STREAM], S_OLDEST]:
            return VOID
    for part in range(start, start + count * PART_WIDTH, PART_WIDTH):
        path, stream = lists[part + PART_PATH], lists[part + PART_STREAM]
        key = hash_codes(code, frame, lists, lists[part + PART_CLASSES], lists[part + PART_CLASS_COUNT])
        region, mask, stride = streams[stream, S_REGION], streams[stream, S_MASK], streams[stream, S_STRIDE]
        fields, field_count, chain = paths[path, P_FIELDS], paths[path, P_COUNT], paths[path, P_LINK]
        oldest, born = streams[stream, S_OLDEST], mem[birth + stream] if birth >= 0 else FOREVER
        told, left = VOID, LOOKED_AT
        candidate = mem[paths[path, P_HEADS] + (key & paths[path, P_MASK]) * paths[path, P_SPAN]]
        while candidate >= oldest and told != OCCUPIED:
            word = region + (candidate & mask) * stride
            if hash_fields(mem, word, lists, fields, field_count) == key:
                told = OCCUPIED if candidate < born else SETTLED
            candidate = mem[word + chain]
            left -= 1
            if left == 0:
                told = OCCUPIED
        if told != OCCUPIED:
            return told
    return OCCUPIED


@inlined
def forget_newest(mem: Int64s, streams: Int64s, paths: Int64s, lists: Int64s, stream: int) -> None:
    """Take back the newest tuple of a window: nothing will ever want it (JIT V)."""
    sequence = streams[stream, S_NEXT] - 1
    word = streams[stream, S_REGION] + (sequence & streams[stream, S_MASK]) * streams[stream, S_STRIDE]
    if streams[stream, S_ROWS] > 0:  # it counts all the same
        mem[word + streams[stream, S_PREFIX] + ALIVE] = COUNTED
        mem[word + ROW] = ~mem[word + ROW]
        return
    first = streams[stream, S_PATH]
    for path in range(first, first + streams[stream, S_PATHS]):
        key = hash_fields(mem, word, lists, paths[path, P_FIELDS], paths[path, P_COUNT])
        mem[paths[path, P_HEADS] + (key & paths[path, P_MASK]) * paths[path, P_SPAN]] = mem[word + paths[path, P_LINK]]
    streams[stream, S_NEXT] = sequence
    streams[stream, S_RENUMBERED] -= 1  # it has come all the same


@jit
def purge(mem: Int64s, streams: Int64s, watermark: int) -> None:
    """Drop what is over at the beginning of every base window."""
    for s in range(streams.shape[0]):
        oldest = streams[s, S_OLDEST]
        while oldest < streams[s, S_NEXT]:
            word = streams[s, S_REGION] + (oldest & streams[s, S_MASK]) * streams[s, S_STRIDE]
            if streams[s, S_ROWS] > 0:
                if mem[word + streams[s, S_PREFIX] + ALIVE] != DEAD:
                    break
            elif streams[s, S_LIFETIME] == FOREVER or mem[word + T] + streams[s, S_LIFETIME] > watermark:
                break
            oldest += 1
        streams[s, S_OLDEST] = oldest


@jit
def relink_path(mem: Int64s, tables: Tables, stream: int, path: int) -> None:
    """Build an access path of a base window anew."""
    row = tables.streams[stream]
    heads, span = tables.paths[path, P_HEADS], tables.paths[path, P_SPAN]
    for i in range(tables.paths[path, P_MASK] + 1):
        mem[heads + i * span] = -1
    for sequence in range(row[S_OLDEST], row[S_NEXT]):
        word = row[S_REGION] + (sequence & row[S_MASK]) * row[S_STRIDE]
        if mem[word + ROW] >= 0:
            link(mem, tables.paths, tables.lists, path, word, sequence)


@jit
def rejoin_partitions(mem: Int64s, tables: Tables, stream: int, partitions: int) -> None:
    """Build the partitions of a ROWS window anew, after its tuples got new sequence numbers."""
    row = tables.streams[stream]
    region, mask, stride, newer = row[S_REGION], row[S_MASK], row[S_STRIDE], row[S_PREFIX] + NEWER
    for word in range(row[S_PARTITIONS], row[S_PARTITIONS] + partitions * PARTITION_FIELDS):
        mem[word] = 0
    for sequence in range(row[S_OLDEST], row[S_NEXT]):
        word = region + (sequence & mask) * stride
        if mem[word + row[S_PREFIX] + ALIVE] == DEAD:
            continue
        partition = row[S_PARTITIONS] + mem[word + row[S_PREFIX] - 1] * PARTITION_FIELDS
        if mem[partition + 2] == 0:
            mem[partition] = sequence
        else:
            mem[region + (mem[partition + 1] & mask) * stride + newer] = sequence
        mem[partition + 1] = sequence
        mem[partition + 2] += 1
