"""Kept states: entries in memory, in hash chains by their key; of an incomplete one, also a directory of its keys."""

from __future__ import annotations

from thalweg.engine.kernels import tables as k
from thalweg.engine.kernels.compiled import Int64s, inlined, jit
from thalweg.engine.kernels.hashing import DIRECTORY_FIELDS, find, hash_codes
from thalweg.engine.kernels.predicates import tuple_at
from thalweg.engine.kernels.prefetch import prefetch
from thalweg.engine.kernels.windows import is_over, key_of, vacancy
from thalweg.engine.time_bounds import NEVER

AHEAD = 8
"""How many tuples ahead of it a search through a window asks for the memory that it will need."""
FEW = 16
"""Of a state's newest entries, so many are looked at for one that is not over; if there is none, all are swept."""


@jit
def components_alive(mem: Int64s, streams: Int64s, lists: Int64s, entry: int, start: int, count: int) -> bool:
    """Whether no component of a state entry has left its ROWS window."""
    for i in range(start, start + 2 * count, 2):
        stream, sequence = lists[i], mem[entry + lists[i + 1]]
        if sequence < streams[stream, k.S_OLDEST]:
            return False
        slot = (sequence & streams[stream, k.S_MASK]) * streams[stream, k.S_STRIDE]
        if mem[streams[stream, k.S_REGION] + slot + streams[stream, k.S_PREFIX] + k.ALIVE] == k.DEAD:
            return False
    return True


@inlined
def is_older(mem: Int64s, lists: Int64s, entry: int, start: int, count: int, birth: int) -> bool:
    """Whether every component of a state entry had come before its slice's number among these births."""
    older = True
    for i in range(count):
        sequence = mem[entry + k.COMPONENTS + i]
        older &= sequence < mem[birth + lists[start + i] + (sequence >> k.SLICE_SHIFT)]
    return older


@jit
def has_entry(
    mem: Int64s, streams: Int64s, states: Int64s, lists: Int64s, target: int, key: int, watermark: int
) -> bool:
    """Whether a state has an entry of a key: JISC's procedure 1, line 1, as printed."""
    entry = mem[states[target, k.N_HEADS] + (key & states[target, k.N_MASK])]
    while entry >= 0:
        word = states[target, k.N_REGION] + entry * states[target, k.N_STRIDE]
        if (
            mem[word + k.ENTRY_KEY] == key
            and mem[word + k.ENTRY_EXPIRY] > watermark
            and components_alive(mem, streams, lists, word, states[target, k.N_ROWS], states[target, k.N_ROWS_COUNT])
        ):
            return True
        entry = mem[word + k.ENTRY_LINK]
    return False


@inlined
def drop_entries(mem: Int64s, states: Int64s, target: int, key: int) -> None:
    """Let the entries of a state's key expire."""
    entry = mem[states[target, k.N_HEADS] + (key & states[target, k.N_MASK])]
    while entry >= 0:
        word = states[target, k.N_REGION] + entry * states[target, k.N_STRIDE]
        if mem[word + k.ENTRY_KEY] == key:
            mem[word + k.ENTRY_EXPIRY] = NEVER
        entry = mem[word + k.ENTRY_LINK]


@inlined
def seems_empty(mem: Int64s, streams: Int64s, states: Int64s, lists: Int64s, index: int, watermark: int) -> bool:
    """Whether a complete state has no entry that is not over, as far as a look at the newest few tells."""
    count = states[index, k.N_COUNT]
    is_seen = states[index, k.N_COMPLETE] != k.COMPLETE
    for entry in range(max(0, count - FEW), count):
        word = states[index, k.N_REGION] + entry * states[index, k.N_STRIDE]
        if mem[word + k.ENTRY_EXPIRY] > watermark:
            rows = states[index, k.N_ROWS]
            is_seen |= components_alive(mem, streams, lists, word, rows, states[index, k.N_ROWS_COUNT])
    return not is_seen


@jit
def absent_keys(
    mem: Int64s,
    tables: k.Tables,
    index: int,
    stream: int,
    fields: Int64s,
    watermark: int,
    found: Int64s,
    places: Int64s,
    patience: int,
    few: int,
    start: int,
    parts: int,
    code: Int64s,
) -> int:
    """Find the keys that a young state may lack something of; how many there are, at most.

    They are those of older tuples in a base window. -1: after ``patience`` tuples there seem to be more than ``few``.

    Args:
        mem: the memory.
        tables: where everything is.
        index: the state.
        stream: a stream of it that carries its whole key.
        fields: where that stream's tuples have the codes of the key.
        watermark: tuples that have expired by then do not count.
        found: [key, (its hash, a code per field)]: filled. When it is full, the search ends.
        places: a scratch hash table of zeros, its length a power of two above that of ``found``.
        patience: see above.
        few: see above.
        start: of the parts of the state's key, in the lists.
        parts: how many they are.
        code: [one row, class]: scratch.

    """
    streams, paths, lists = tables.streams, tables.paths, tables.lists
    first, directory = tables.states[index, k.N_KEY], tables.states[index, k.N_DIRECTORY]
    slots = tables.states[index, k.N_DIRECTORY_MASK]
    region, ring, stride = streams[stream, k.S_REGION], streams[stream, k.S_MASK], streams[stream, k.S_STRIDE]
    birth = tables.states[index, k.N_BIRTH]
    oldest, last = streams[stream, k.S_OLDEST], mem[birth + stream] - 1
    mask, count = len(places) - 1, 0
    for sequence in range(last, oldest - 1, -1):
        if last - sequence == patience and count * (last - oldest) > few * patience:
            return -1
        if sequence - AHEAD >= oldest:
            key = key_of(mem, region + ((sequence - AHEAD) & ring) * stride, fields)
            prefetch(mem, directory + ((key ^ (key >> 32)) & slots) * DIRECTORY_FIELDS)
            if parts > 0:
                path = lists[start + k.PART_PATH]
                prefetch(mem, paths[path, k.P_HEADS] + (key & paths[path, k.P_MASK]) * paths[path, k.P_SPAN])
        word = region + (sequence & ring) * stride
        if is_over(mem, streams, stream, word, watermark):
            continue
        for i in range(len(fields)):
            code[0, lists[first + i]] = mem[word + fields[i]]
        if vacancy(mem, streams, paths, lists, code, 0, start, parts, birth) != k.OCCUPIED:
            continue
        key = key_of(mem, word, fields)
        if mem[find(mem, directory, slots, key) + 1] != k.ABSENT:
            continue
        place = (key ^ (key >> 32)) & mask
        while places[place] != 0 and found[places[place] - 1, 0] != key:
            place = (place + 1) & mask
        if places[place] == 0:
            found[count, 0] = key
            for i in range(len(fields)):
                found[count, 1 + i] = mem[word + fields[i]]
            count += 1
            places[place] = count
            if count == found.shape[0]:
                break
    return count


@jit
def move_keys(mem: Int64s, tables: k.Tables, index: int, directory: int, mask: int) -> None:
    """Move the live keys of a state to a larger directory, each with its status."""
    state = tables.states[index]
    old = state[k.N_DIRECTORY]
    for word in range(old, old + (state[k.N_DIRECTORY_MASK] + 1) * DIRECTORY_FIELDS, DIRECTORY_FIELDS):
        if mem[word + 1] != k.ABSENT:
            slot = find(mem, directory, mask, mem[word])
            mem[slot] = mem[word]
            mem[slot + 1] = mem[word + 1]
    state[k.N_DIRECTORY], state[k.N_DIRECTORY_MASK] = directory, mask


@jit
def renew_keys(
    mem: Int64s, tables: k.Tables, index: int, directory: int, mask: int, stream: int, fields: Int64s, watermark: int
) -> None:
    """Move the live keys of a state to another directory, without those that nothing has any more.

    A live key without entries is worth remembering only as long as a tuple to come could find a partner for it in
    the base window of ``stream``, which carries the whole key (-1: none does). A key that is forgotten is absent:
    completing it again finds what there is by then, and the directory stays bounded, however many keys were asked for.
    """
    row, state = tables.streams[max(stream, 0)], tables.states[index]
    old, old_mask, region, stride = (
        state[k.N_DIRECTORY],
        state[k.N_DIRECTORY_MASK],
        state[k.N_REGION],
        state[k.N_STRIDE],
    )
    entries = state[k.N_COUNT]
    tuples = row[k.S_NEXT] - row[k.S_OLDEST] if stream >= 0 else 0
    live = 0
    for i in range(entries + tuples):
        if i < entries:
            key = mem[region + i * stride + k.ENTRY_KEY]
        else:
            sequence = row[k.S_OLDEST] + i - entries
            word = row[k.S_REGION] + (sequence & row[k.S_MASK]) * row[k.S_STRIDE]
            if is_over(mem, tables.streams, stream, word, watermark):
                continue
            key = key_of(mem, word, fields)
        slot = find(mem, directory, mask, key)
        status = mem[find(mem, old, old_mask, key) + 1]
        if mem[slot + 1] == k.ABSENT and status != k.ABSENT and status != k.SUSPENDED:
            mem[slot] = key
            mem[slot + 1] = status
            live += 1
    state[k.N_DIRECTORY], state[k.N_DIRECTORY_MASK], state[k.N_LIVE] = directory, mask, live


@jit
def evict(mem: Int64s, tables: k.Tables, frames: k.Frames, index: int, directory: int, mask: int, most: int) -> None:
    """Make cold keys of a state absent until it has about ``most`` entries; the other keys move to a new directory.

    A key that is not live loses what a young state has of it: from then on, the state is incomplete.
    Cold is a key that nothing has probed since this was last done; if that does not free enough, so are keys
    whose entries are old. (Of a complete state nothing is known but that.) A key that is being completed keeps what it
    has: it is not live yet, and nobody would complete it a second time.
    """
    state = tables.states[index]
    region, stride, count = state[k.N_REGION], state[k.N_STRIDE], state[k.N_COUNT]
    is_complete = state[k.N_COMPLETE] == k.COMPLETE
    has_guest, guest = False, 0
    for frame in range(1, frames.registers[k.R_FRAME] + 1):
        if frames.state[frame] == index:
            has_guest, guest = True, frames.key[frame]
    kept, live = 0, 0
    for entry in range(count - 1, -1, -1):
        key = mem[region + entry * stride + k.ENTRY_KEY]
        if has_guest and key == guest:
            kept += 1
            continue
        slot = find(mem, directory, mask, key)
        status = k.LIVE if is_complete else mem[find(mem, state[k.N_DIRECTORY], state[k.N_DIRECTORY_MASK], key) + 1]
        is_warm = is_complete or status & k.STATUS == k.TOUCHED
        if is_warm and mem[slot + 1] == k.ABSENT and kept < most and 2 * (live + 1) < mask:
            mem[slot] = key
            mem[slot + 1] = status & ~k.STATUS | k.LIVE
            live += 1
        if mem[slot + 1] != k.ABSENT:
            kept += 1
    kept = 0
    for entry in range(count):
        word = region + entry * stride
        key = mem[word + k.ENTRY_KEY]
        if (has_guest and key == guest) or mem[find(mem, directory, mask, key) + 1] != k.ABSENT:
            for i in range(stride):
                mem[region + kept * stride + i] = mem[word + i]
            kept += 1
    state[k.N_COUNT], state[k.N_LIVE] = kept, live
    state[k.N_DIRECTORY], state[k.N_DIRECTORY_MASK] = directory, mask
    relink(mem, tables, index)


@jit
def sweep(mem: Int64s, tables: k.Tables, index: int, watermark: int) -> None:
    """Drop the expired entries of a state; its keys keep their status."""
    state = tables.states[index]
    region, stride = state[k.N_REGION], state[k.N_STRIDE]
    kept = 0
    for entry in range(state[k.N_COUNT]):
        word = region + entry * stride
        if mem[word + k.ENTRY_EXPIRY] > watermark and (
            state[k.N_ROWS_COUNT] == 0
            or components_alive(mem, tables.streams, tables.lists, word, state[k.N_ROWS], state[k.N_ROWS_COUNT])
        ):
            if kept != entry:
                into = region + kept * stride
                for i in range(stride):
                    mem[into + i] = mem[word + i]
            kept += 1
    if kept < state[k.N_COUNT]:
        state[k.N_COUNT] = kept
        relink(mem, tables, index)


@jit
def count_before(mem: Int64s, tables: k.Tables, rows: Int64s, watermark: int) -> int:
    """Walk through all windows and states for tuples with a lesser row number than that of their stream in ``rows``.

    Returns how many tuples of base windows, and entries of states that hold one, are not over.
    """
    streams, states, lists = tables.streams, tables.states, tables.lists
    count = 0
    for s in range(streams.shape[0]):
        for sequence in range(streams[s, k.S_OLDEST], streams[s, k.S_NEXT]):
            word = streams[s, k.S_REGION] + (sequence & streams[s, k.S_MASK]) * streams[s, k.S_STRIDE]
            if not is_over(mem, streams, s, word, watermark) and mem[word + k.ROW] < rows[s % rows.shape[0]]:
                count += 1
    for index in range(states.shape[0]):
        for entry in range(states[index, k.N_COUNT]):
            word = states[index, k.N_REGION] + entry * states[index, k.N_STRIDE]
            if mem[word + k.ENTRY_EXPIRY] <= watermark or not components_alive(
                mem, streams, lists, word, states[index, k.N_ROWS], states[index, k.N_ROWS_COUNT]
            ):
                continue
            first = states[index, k.N_COMPONENTS]
            for i in range(states[index, k.N_COMPONENT_COUNT]):
                s = lists[first + i]
                if mem[tuple_at(streams, s, mem[word + k.COMPONENTS + i]) + k.ROW] < rows[s]:
                    count += 1
                    break
    return count


@jit
def relink(mem: Int64s, tables: k.Tables, index: int) -> None:
    """Build the hash chains of a state anew."""
    state = tables.states[index]
    region, stride, heads, mask = state[k.N_REGION], state[k.N_STRIDE], state[k.N_HEADS], state[k.N_MASK]
    for word in range(heads, heads + mask + 1):
        mem[word] = -1
    for entry in range(state[k.N_COUNT]):
        word = region + entry * stride
        head = heads + (mem[word + k.ENTRY_KEY] & mask)
        mem[word + k.ENTRY_LINK] = mem[head]
        mem[head] = entry


@jit
def key_entries(entries: Int64s, codes: Int64s, lists: Int64s, start: int, count: int) -> None:
    """Set the keys of entries from the codes of their attribute classes, a row each."""
    for i in range(entries.shape[0]):
        entries[i, k.ENTRY_KEY] = hash_codes(codes, i, lists, start, count)
