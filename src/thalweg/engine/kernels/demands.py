"""The memory of demands: what is known of values that a join was asked about, and how it is found out (JIT III).

Design
    DEMANDED holds until the combination of tuples that was found expires. WANTING holds until a tuple arrives that
    could be part of a partner: in one of the windows asked, the newest tuple in the hash chain of the values is younger
    than the memory. Then the windows are searched again.

Invariant
    What is WANTING has no partner now. A memory may be forgotten at any time.

Cost
    A lookup, and where the values are WANTING, one more per window asked.
"""

from __future__ import annotations

from thalweg.engine.kernels import feedback_tables as fb
from thalweg.engine.kernels import tables as k
from thalweg.engine.kernels.compiled import Float64s, Int64s, inlined, jit
from thalweg.engine.kernels.hashing import hash_codes
from thalweg.engine.kernels.scanning import open_scan, scan
from thalweg.engine.time_bounds import FOREVER, NEVER


@inlined
def slot_of(mem: Int64s, demands: Int64s, demand: int, key: int) -> int:
    """The word of what is remembered of a demand's key, or of the free slot where it would go."""
    table, mask, stride = demands[demand, fb.D_TABLE], demands[demand, fb.D_MASK], demands[demand, fb.D_STRIDE]
    slot = (key ^ (key >> 32)) & mask
    word = table + slot * stride
    while mem[word + fb.V_VERDICT] != fb.UNKNOWN and mem[word + fb.V_KEY] != key:
        slot = (slot + 1) & mask
        word = table + slot * stride
    return word


@inlined
def recall(
    mem: Int64s,
    streams: Int64s,
    paths: Int64s,
    lists: Int64s,
    demands: Int64s,
    demand: int,
    word: int,
    code: Int64s,
    watermark: int,
) -> int:
    """What is known by now of the values of a demand whose slot is at ``word``.

    One way through: where arrays are used in one branch and not in another, the compiler counts references to them.
    """
    verdict, until = mem[word + fb.V_VERDICT], mem[word + fb.V_UNTIL]
    first, partners = demands[demand, fb.D_PARTNERS], demands[demand, fb.D_PARTNER_COUNT]
    if verdict == fb.DEMANDED and until <= watermark:
        verdict = fb.UNKNOWN
    if verdict != fb.WANTING:
        partners = 0
    for i in range(partners):
        at = first + i * fb.PARTNER_FIELDS
        path = lists[at + fb.A_PLACE]
        if path < 0:
            newest = streams[lists[at + fb.A_STREAM], k.S_NEXT] - 1
        else:
            key = hash_codes(code, 0, lists, lists[at + fb.A_CLASSES], lists[at + fb.A_CLASS_COUNT])
            newest = mem[paths[path, k.P_HEADS] + (key & paths[path, k.P_MASK]) * paths[path, k.P_SPAN]]
        if newest >= mem[word + fb.V_NEXT + i]:
            verdict = fb.OUTDATED
    return verdict


@inlined
def remember(
    mem: Int64s,
    streams: Int64s,
    lists: Int64s,
    demands: Int64s,
    tally: Int64s,
    demand: int,
    word: int,
    key: int,
    until: int,
    watermark: int,
) -> int:
    """Take down what a test has found: DEMANDED ``until`` a time, or nothing (a time that has come); the verdict."""
    before = mem[word + fb.V_VERDICT]
    verdict = fb.DEMANDED if until > watermark else fb.WANTING
    count, slots = demands[demand, fb.D_COUNT], demands[demand, fb.D_MASK]
    is_new = before == fb.UNKNOWN
    if is_new and 4 * count > 3 * slots:
        tally[fb.T_IS_FULL] = 1
    is_kept = not (is_new and 8 * count > 7 * slots)  # else it is forgotten at once
    suspended = int(verdict == fb.WANTING and before != fb.WANTING)
    resumed = int(verdict == fb.DEMANDED and before == fb.WANTING)
    tally[fb.T_SUSPENSIONS] += suspended
    tally[fb.T_RESUMPTIONS] += resumed
    partners = 0
    if is_kept:
        demands[demand, fb.D_COUNT] = count + is_new
        demands[demand, fb.D_WANTING] += suspended - resumed
        mem[word + fb.V_KEY], mem[word + fb.V_VERDICT], mem[word + fb.V_UNTIL] = key, verdict, until
        partners = demands[demand, fb.D_PARTNER_COUNT]
    first = demands[demand, fb.D_PARTNERS]
    for i in range(partners):
        mem[word + fb.V_NEXT + i] = streams[lists[first + i * fb.PARTNER_FIELDS + fb.A_STREAM], k.S_NEXT]
    return verdict


@jit
def witness(
    mem: Int64s,
    floats: Float64s,
    tables: k.Tables,
    frames: k.Frames,
    program: int,
    source: int,
    start: int,
    count: int,
    watermark: int,
) -> int:
    """Look for a combination of base tuples; until when it lasts, NEVER if there is none.

    Given are the codes that the frame ``source`` has of the ``count`` classes that ``lists`` names from ``start`` on.
    """
    steps, lists, code = tables.steps, tables.lists, frames.code
    frame = code.shape[0] - 1
    for i in range(start, start + count):
        code[frame, lists[i]] = code[source, lists[i]]
    frames.latest[frame, 0], frames.expiry[frame, 0] = watermark, FOREVER
    tables.work[tables.programs[program, k.G_FIRST], k.W_ENTERED] += 1
    depth, opens, until = 0, True, FOREVER
    while depth >= 0:
        step = tables.programs[program, k.G_FIRST] + depth
        if opens:
            key = hash_codes(code, frame, lists, steps[step, k.X_KEY], steps[step, k.X_KEY_COUNT])
            open_scan(mem, tables, frames, frame, depth, step, key)
        opens = scan(mem, floats, tables, frames, frame, depth, k.ALL, k.ALL)
        if not opens:
            depth -= 1
            continue
        if tables.streams[steps[step, k.X_TARGET], k.S_ROWS] > 0:
            until = watermark + 1  # it may be pushed out at any time
        depth += 1
        if steps[step + 1, k.X_OP] != k.PROBE:
            return min(until, frames.expiry[frame, depth])
    return NEVER


@inlined
def look_into(
    mem: Int64s,
    floats: Float64s,
    tables: k.Tables,
    frames: k.Frames,
    feedback: fb.Feedback,
    demand: int,
    watermark: int,
    is_told: bool,
) -> int:
    """What is known of a demand for the values in frame 0; found out anew where that is outdated.

    Where nothing is known, it is found out if ``is_told`` to.
    """
    demands, lists, code = feedback.demands, tables.lists, frames.code
    key = hash_codes(code, 0, lists, demands[demand, fb.D_KEY], demands[demand, fb.D_KEY_COUNT])
    word = slot_of(mem, demands, demand, key)
    verdict = recall(mem, tables.streams, tables.paths, lists, demands, demand, word, code, watermark)
    if verdict == fb.OUTDATED or (verdict == fb.UNKNOWN and is_told):
        until = witness(
            mem,
            floats,
            tables,
            frames,
            demands[demand, fb.D_PROGRAM],
            0,
            demands[demand, fb.D_KEY],
            demands[demand, fb.D_KEY_COUNT],
            watermark,
        )
        feedback.tally[fb.T_TESTS] += 1
        verdict = remember(mem, tables.streams, lists, demands, feedback.tally, demand, word, key, until, watermark)
    return verdict
