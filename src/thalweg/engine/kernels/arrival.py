"""Taking the next tuple: what its arrival expires is purged, and it is put into its window."""

from __future__ import annotations

from thalweg.engine.kernels import accounts as budget
from thalweg.engine.kernels import tables as k
from thalweg.engine.kernels.compiled import Int64s, inlined
from thalweg.engine.kernels.hashing import hash_fields
from thalweg.engine.kernels.prefetch import LINE, prefetch
from thalweg.engine.kernels.windows import join_partition, link
from thalweg.engine.time_bounds import FOREVER

AHEAD = 2
"""How many tuples before their turn the ends of a window are asked for."""

# What came of it.
JOINS, JOINS_NOTHING, NO_ROOM, NO_TUPLE = range(4)


@inlined
def take(
    mem: Int64s,
    tables: k.Tables,
    frames: k.Frames,
    inbox: k.Inbox,
    deaths: Int64s,
    horizon: int,
    accounts: budget.Accounts | None,
) -> tuple[int, int]:
    """Take the next tuple in total order: least time, then least stream; (what came of it, its stream).

    Afterwards it is the tuple of frame 0, with its codes, its mask, its time and its expiry. If its window is a chain
    of slices, the last of its offered words says by how many rows its slice is below its stream's first one. (NO_ROOM
    comes with that row.)

    A tuple that ``accounts`` do not admit joins nothing. It counts in a ROWS window.
    """
    streams, paths, lists, programs = tables.streams, tables.paths, tables.lists, tables.programs
    registers, code = frames.registers, frames.code
    tuples = inbox.tuples
    place = inbox.place
    stream, now, n = -1, 0, place.shape[0]
    for s in range(n):
        at = place[s, 0]
        if at < place[s, 1] and (stream < 0 or tuples[at] < now):
            stream, now = s, tuples[at]
    if stream < 0:
        return NO_TUPLE, 0
    at = place[stream, 0]
    watermark = max(registers[k.R_WATERMARK], min(now, horizon))
    registers[k.R_WATERMARK] = watermark
    prefix, offered, rows = streams[stream, k.S_PREFIX], streams[stream, k.S_OFFERED], streams[stream, k.S_ROWS]
    row = stream
    if streams[stream, k.S_KEPT_MASK] > 0:
        row += tuples[at + prefix]
    region, mask, stride = streams[row, k.S_REGION], streams[row, k.S_MASK], streams[row, k.S_STRIDE]
    selected = tuples[at + streams[stream, k.S_OFFERED_MASK]]
    is_shed = False
    if accounts is not None:
        is_shed = selected != 0 and not budget.admits(accounts, stream)
        selected = 0 if is_shed else selected
    if selected == 0 and rows == 0:
        place[stream, 0] = at + offered
        if accounts is not None and is_shed:
            budget.shed(accounts, stream)
        return JOINS_NOTHING, stream
    # 1. Purge.
    oldest, sequence = streams[row, k.S_OLDEST], streams[row, k.S_NEXT]
    lifetime = streams[row, k.S_LIFETIME]
    if rows > 0:
        while oldest < sequence and mem[region + (oldest & mask) * stride + prefix + k.ALIVE] == k.DEAD:
            oldest += 1
    elif lifetime < FOREVER:
        while oldest < sequence and mem[region + (oldest & mask) * stride + k.T] + lifetime <= watermark:
            oldest += 1
    streams[row, k.S_OLDEST] = oldest
    if sequence - oldest > mask:
        return NO_ROOM, row
    # 2. Insert.
    word = region + (sequence & mask) * stride
    for i in range(prefix):
        mem[word + i] = tuples[at + i]
    place[stream, 0] = at + offered
    streams[row, k.S_NEXT] = sequence + 1
    if streams[row, k.S_KEPT_MASK] > 0:
        streams[row, k.S_NEWEST] = max(streams[row, k.S_NEWEST], now)
        streams[row, k.S_LAG] = max(streams[row, k.S_LAG], streams[row, k.S_NEWEST] - now)
    if rows > 0:
        mem[word + prefix + k.ALIVE] = k.JOINING if selected != 0 else k.COUNTED
        victim = join_partition(mem, streams, stream, sequence)
        if victim >= 0:
            died = registers[k.R_DEATHS]
            deaths[died, 0] = stream
            deaths[died, 1] = mem[victim + k.ROW]
            deaths[died, 2] = now
            registers[k.R_DEATHS] = died + 1
    if selected == 0:
        if accounts is not None and is_shed:
            budget.shed(accounts, stream)
        return JOINS_NOTHING, stream
    first_path = streams[row, k.S_PATH]
    for path in range(first_path, first_path + streams[row, k.S_PATHS]):
        link(mem, paths, lists, path, word, sequence)
    # What the next tuple of this stream will look up lies anywhere: by its turn, it will have come.
    prefetch(mem, region + ((oldest + AHEAD) & mask) * stride)
    prefetch(mem, region + ((sequence + AHEAD) & mask) * stride)
    if at + offered < place[stream, 1]:
        _prefetch_partners(mem, tables, tuples, at + offered, stream)
    frames.program[0] = stream
    frames.bound[0, stream] = sequence
    frames.latest[0, 0] = now
    frames.mask[0, 0] = selected
    frames.expiry[0, 0] = now + lifetime if lifetime < FOREVER else FOREVER
    binds = programs[stream, k.G_BINDS]
    for i in range(binds, binds + 3 * programs[stream, k.G_BIND_COUNT], 3):
        code[0, lists[i]] = mem[word + lists[i + 2]]
    return JOINS, stream


@inlined
def _prefetch_partners(mem: Int64s, tables: k.Tables, tuples: Int64s, at: int, stream: int) -> None:
    """Ask for the hash heads that a stream's next tuple will look up, and be put into."""
    streams, paths, states, steps = tables.streams, tables.paths, tables.states, tables.steps
    lists, programs = tables.lists, tables.programs
    step, beside = programs[stream, k.G_FIRST], LINE
    if programs[stream, k.G_KEY_COUNT] > 0 and steps[step, k.X_OP] == k.PROBE and steps[step, k.X_IS_STATE]:
        key = hash_fields(tuples, at, lists, programs[stream, k.G_KEY], programs[stream, k.G_KEY_COUNT])
        target = steps[step, k.X_TARGET]
        prefetch(mem, states[target, k.N_HEADS] + (key & states[target, k.N_MASK]))
        if states[target, k.N_COMPLETE] != k.COMPLETE:
            beside = -LINE  # where windows below it have their heads, which are asked what is missing
    first_path = streams[stream, k.S_PATH]
    for path in range(first_path, first_path + streams[stream, k.S_PATHS]):
        key = hash_fields(tuples, at, lists, paths[path, k.P_FIELDS], paths[path, k.P_COUNT])
        head = paths[path, k.P_HEADS] + (key & paths[path, k.P_MASK]) * paths[path, k.P_SPAN]
        prefetch(mem, head)
        prefetch(mem, head + beside)  # other windows that are looked up by the same key
