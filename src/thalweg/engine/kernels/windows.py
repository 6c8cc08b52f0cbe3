"""Base windows: rings of tuples, each in a hash chain of every access path; ROWS windows also count by partition."""

from __future__ import annotations

from thalweg.engine.kernels import tables as k
from thalweg.engine.kernels.compiled import Int64s, inlined, jit
from thalweg.engine.kernels.hashing import hash_codes, hash_fields, rotate
from thalweg.engine.kernels.prefetch import prefetch
from thalweg.engine.time_bounds import FOREVER

FAR_AHEAD = 16
"""How many tuples before their turn the hash heads are asked for, when a whole window is indexed."""


@jit
def link(mem: Int64s, paths: Int64s, lists: Int64s, path: int, word: int, sequence: int) -> None:
    """Put a base tuple at the head of its chain in one access path."""
    key = hash_fields(mem, word, lists, paths[path, k.P_FIELDS], paths[path, k.P_COUNT])
    head = paths[path, k.P_HEADS] + (key & paths[path, k.P_MASK]) * paths[path, k.P_SPAN]
    mem[word + paths[path, k.P_LINK]] = mem[head]
    mem[head] = sequence


@jit
def join_partition(mem: Int64s, streams: Int64s, stream: int, sequence: int) -> int:
    """Append to the tuple's partition of a ROWS window; its oldest dies if there are too many.

    Returns the word of one that has died and could be part of results, else -1.
    """
    region, mask, stride = streams[stream, k.S_REGION], streams[stream, k.S_MASK], streams[stream, k.S_STRIDE]
    newer = streams[stream, k.S_PREFIX] + k.NEWER
    partition = (
        streams[stream, k.S_PARTITIONS]
        + mem[region + (sequence & mask) * stride + streams[stream, k.S_PREFIX] - 1] * k.PARTITION_FIELDS
    )
    if mem[partition + 2] == 0:
        mem[partition] = sequence
        before = -1
    else:
        newest = region + (mem[partition + 1] & mask) * stride + newer
        mem[newest] = sequence
        before = mem[newest + k.ORDINAL - k.NEWER]
    mem[region + (sequence & mask) * stride + newer + k.ORDINAL - k.NEWER] = before + 1
    mem[partition + 1] = sequence
    mem[partition + 2] += 1
    if mem[partition + 2] <= streams[stream, k.S_ROWS]:
        return -1
    victim = region + (mem[partition] & mask) * stride
    mem[partition] = mem[victim + newer]
    mem[partition + 2] -= 1
    alive = victim + streams[stream, k.S_PREFIX] + k.ALIVE
    joined = mem[alive] == k.JOINING
    mem[alive] = k.DEAD
    return victim if joined else -1


@inlined
def rows_since(mem: Int64s, streams: Int64s, stream: int, word: int) -> int:
    """How many tuples of its partition have come since a tuple of a ROWS window."""
    fields = streams[stream, k.S_PREFIX]
    partition = streams[stream, k.S_PARTITIONS] + mem[word + fields - 1] * k.PARTITION_FIELDS
    slot = (mem[partition + 1] & streams[stream, k.S_MASK]) * streams[stream, k.S_STRIDE]
    newest = streams[stream, k.S_REGION] + slot
    return mem[newest + fields + k.ORDINAL] - mem[word + fields + k.ORDINAL]


@jit
def is_over(mem: Int64s, streams: Int64s, stream: int, word: int, watermark: int) -> bool:
    """Whether a base tuple can be part of nothing to come."""
    if streams[stream, k.S_ROWS] > 0:
        return mem[word + streams[stream, k.S_PREFIX] + k.ALIVE] != k.JOINING
    lifetime = streams[stream, k.S_LIFETIME]
    return lifetime < FOREVER and mem[word + k.T] + lifetime <= watermark


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
    for part in range(start, start + count * k.PART_WIDTH, k.PART_WIDTH):
        path = lists[part + k.PART_PATH]
        key = hash_codes(code, frame, lists, lists[part + k.PART_CLASSES], lists[part + k.PART_CLASS_COUNT])
        head = mem[paths[path, k.P_HEADS] + (key & paths[path, k.P_MASK]) * paths[path, k.P_SPAN]]
        if head < streams[lists[part + k.PART_STREAM], k.S_OLDEST]:
            return k.VOID
    for part in range(start, start + count * k.PART_WIDTH, k.PART_WIDTH):
        path, stream = lists[part + k.PART_PATH], lists[part + k.PART_STREAM]
        key = hash_codes(code, frame, lists, lists[part + k.PART_CLASSES], lists[part + k.PART_CLASS_COUNT])
        region, mask, stride = streams[stream, k.S_REGION], streams[stream, k.S_MASK], streams[stream, k.S_STRIDE]
        fields, field_count, chain = paths[path, k.P_FIELDS], paths[path, k.P_COUNT], paths[path, k.P_LINK]
        oldest, born = streams[stream, k.S_OLDEST], mem[birth + stream] if birth >= 0 else FOREVER
        told, left = k.VOID, k.LOOKED_AT
        candidate = mem[paths[path, k.P_HEADS] + (key & paths[path, k.P_MASK]) * paths[path, k.P_SPAN]]
        while candidate >= oldest and told != k.OCCUPIED:
            word = region + (candidate & mask) * stride
            if hash_fields(mem, word, lists, fields, field_count) == key:
                told = k.OCCUPIED if candidate < born else k.SETTLED
            candidate = mem[word + chain]
            left -= 1
            if left == 0:
                told = k.OCCUPIED
        if told != k.OCCUPIED:
            return told
    return k.OCCUPIED


@inlined
def forget_newest(mem: Int64s, streams: Int64s, paths: Int64s, lists: Int64s, stream: int) -> None:
    """Take back the newest tuple of a slice: nothing will ever want it (JIT V)."""
    sequence = streams[stream, k.S_NEXT] - 1
    word = streams[stream, k.S_REGION] + (sequence & streams[stream, k.S_MASK]) * streams[stream, k.S_STRIDE]
    if streams[stream, k.S_ROWS] > 0:  # it counts all the same
        mem[word + streams[stream, k.S_PREFIX] + k.ALIVE] = k.COUNTED
        return
    first = streams[stream, k.S_PATH]
    for path in range(first, first + streams[stream, k.S_PATHS]):
        key = hash_fields(mem, word, lists, paths[path, k.P_FIELDS], paths[path, k.P_COUNT])
        mem[paths[path, k.P_HEADS] + (key & paths[path, k.P_MASK]) * paths[path, k.P_SPAN]] = mem[
            word + paths[path, k.P_LINK]
        ]
    streams[stream, k.S_NEXT] = sequence
    streams[stream, k.S_RENUMBERED] -= 1  # it has come all the same


@jit
def purge(mem: Int64s, streams: Int64s, watermark: int) -> None:
    """Drop what is over at the beginning of every base window."""
    for s in range(streams.shape[0]):
        oldest = streams[s, k.S_OLDEST]
        while oldest < streams[s, k.S_NEXT]:
            word = streams[s, k.S_REGION] + (oldest & streams[s, k.S_MASK]) * streams[s, k.S_STRIDE]
            if streams[s, k.S_ROWS] > 0:
                if mem[word + streams[s, k.S_PREFIX] + k.ALIVE] != k.DEAD:
                    break
            elif streams[s, k.S_LIFETIME] == FOREVER or mem[word + k.T] + streams[s, k.S_LIFETIME] > watermark:
                break
            oldest += 1
        streams[s, k.S_OLDEST] = oldest


@jit
def clear_path(mem: Int64s, paths: Int64s, path: int) -> None:
    """Let the hash heads of an access path lead to nothing."""
    heads, span = paths[path, k.P_HEADS], paths[path, k.P_SPAN]
    for i in range(paths[path, k.P_MASK] + 1):
        mem[heads + i * span] = -1


@jit
def fill_path(mem: Int64s, tables: k.Tables, stream: int, path: int) -> None:
    """Put all tuples of a base window into an access path that leads to nothing yet.

    Their heads lie anywhere, so they are asked for ahead: else most of the time would be spent on waiting for memory.
    """
    row, paths, lists = tables.streams[stream], tables.paths, tables.lists
    region, mask, stride = row[k.S_REGION], row[k.S_MASK], row[k.S_STRIDE]
    fields, count, heads = paths[path, k.P_FIELDS], paths[path, k.P_COUNT], paths[path, k.P_HEADS]
    for sequence in range(row[k.S_OLDEST], row[k.S_NEXT]):
        if sequence + FAR_AHEAD < row[k.S_NEXT]:
            key = hash_fields(mem, region + ((sequence + FAR_AHEAD) & mask) * stride, lists, fields, count)
            prefetch(mem, heads + (key & paths[path, k.P_MASK]) * paths[path, k.P_SPAN])
        word = region + (sequence & mask) * stride
        if row[k.S_ROWS] == 0 or mem[word + row[k.S_PREFIX] + k.ALIVE] != k.COUNTED:
            link(mem, paths, lists, path, word, sequence)


@jit
def rejoin_partitions(mem: Int64s, tables: k.Tables, stream: int, partitions: int) -> None:
    """Build the partitions of a ROWS window anew, after its tuples got new sequence numbers."""
    row = tables.streams[stream]
    region, mask, stride, newer = row[k.S_REGION], row[k.S_MASK], row[k.S_STRIDE], row[k.S_PREFIX] + k.NEWER
    for word in range(row[k.S_PARTITIONS], row[k.S_PARTITIONS] + partitions * k.PARTITION_FIELDS):
        mem[word] = 0
    for sequence in range(row[k.S_OLDEST], row[k.S_NEXT]):
        word = region + (sequence & mask) * stride
        if mem[word + row[k.S_PREFIX] + k.ALIVE] == k.DEAD:
            continue
        partition = row[k.S_PARTITIONS] + mem[word + row[k.S_PREFIX] - 1] * k.PARTITION_FIELDS
        if mem[partition + 2] == 0:
            mem[partition] = sequence
        else:
            mem[region + (mem[partition + 1] & mask) * stride + newer] = sequence
        mem[word + row[k.S_PREFIX] + k.ORDINAL] = mem[partition + 2]  # those before it have died without gaps
        mem[partition + 1] = sequence
        mem[partition + 2] += 1
