"""Feedback's part of the join kernel: whether somebody needs what a partial tuple would become (JIT III, IV).

Design
    A GATE in a program (:mod:`thalweg.plan.passes.gates`) asks whether its demand is met, and stops the tuple if it is
    not. What was found out about the values of a demand is remembered:

    DEMANDED until the combination of tuples that was found expires. Nothing has to be asked before.
    WANTING  (a suspended sub-tuple) until a tuple arrives that could be part of a partner: the newest tuple in the
             hash chain of the values, in one of the windows asked, is younger than the memory. Then it is asked again.

    As in the paper, a demand is looked into only after a probe has failed; from then on everything of
    the same values stops, until a partner arrives. Where the demand has a Bloom filter instead, nothing is
    remembered or asked: one bit per value and window tells at once what has no partner for sure.

    Where a program stops, entries are missing in states. Each state has a table of *gaps*: for what is known of
    the key of such an entry, the number of the tuple that left it out. A live key is to be trusted only if it was
    computed after the last gap that it may have.

Invariants
    What is WANTING has no partner now. (A memory may be forgotten at any time, a gap never: when the table of gaps is
    full, the state as a whole has one.)

Cost
    A gate costs a lookup and, where the values are WANTING, one per window asked. A state's probe costs a lookup per
    kind of gap that it can have.
"""

from __future__ import annotations

from typing import NamedTuple

from thalweg.engine.kernels import tables as k
from thalweg.engine.kernels.compiled import Float64s, Int64s, inlined, jit
from thalweg.engine.kernels.hashing import find, hash_codes, hash_fields
from thalweg.engine.kernels.predicates import code_of, component
from thalweg.engine.kernels.scanning import open_scan, scan
from thalweg.engine.kernels.states import seems_empty, sweep
from thalweg.engine.kernels.windows import forget_newest, is_over
from thalweg.engine.time_bounds import FOREVER, NEVER

# Columns of Feedback.demands: the table of what is remembered; the classes of its key; the program that looks for a
# witness; the windows asked, or the state (-1: none); whether filters tell; whether what is asked never changes.
D_TABLE, D_MASK, D_STRIDE, D_COUNT, D_WANTING, D_KEY, D_KEY_COUNT, D_PROGRAM = range(8)
D_PARTNERS, D_PARTNER_COUNT, D_STATE, D_IS_FILTERED, D_IS_FINAL = range(8, 13)
DEMAND_FIELDS = 13
# A window asked: its stream; its access path by the classes that it carries, or filter (-1: neither); these classes.
A_STREAM, A_PLACE, A_CLASSES, A_CLASS_COUNT = range(4)
PARTNER_FIELDS = 4
# A memory: the key, the verdict, until when it holds, and per window asked the number of the next tuple by then.
V_KEY, V_VERDICT, V_UNTIL, V_NEXT = range(4)
UNKNOWN, DEMANDED, WANTING, OUTDATED = range(4)
# Columns of Feedback.gates: the demand; the PROBE behind which it stands (-1: before the first) and its depth
# (ANYWHERE: an eddy takes probes in any order); the size of the part; its gaps; the state that follows, or -1.
Q_DEMAND, Q_STEP, Q_DEPTH, Q_SIZE, Q_GAPS, Q_GAP_COUNT, Q_STORES = range(7)
GATE_FIELDS = 7
ANYWHERE = -2
# A gap: the state, which of its kinds of gap, and the classes whose values say where.
G_STATE, G_KIND, G_CLASSES, G_CLASS_COUNT = range(4)
GAP_FIELDS = 4
# Columns of Feedback.asked, a row per instruction: the gates to ask about when a PROBE has found nothing, in lists.
L_ASKED, L_ASKED_COUNT = range(2)
ASKED_FIELDS = 2
# Columns of Feedback.gaps, a row per state: its table; the tuple that left a gap everywhere; its kinds of gap, as
# (classes, their number) in lists; for each class of its key, in lists: (class, stream, word of the component in an
# entry, field of the tuple); the program that looks whether a key has any entry (-1: none is needed).
O_TABLE, O_MASK, O_COUNT, O_ALL, O_KINDS, O_KIND_COUNT, O_CARRIERS, O_SEARCH = range(8)
STATE_GAP_FIELDS = 8
# Columns of Feedback.filters: a Bloom filter over some classes of a stream's window.
F_STREAM, F_REGION, F_MASK, F_FIELDS, F_FIELD_COUNT, F_ADDED, F_MOST = range(7)
FILTER_FIELDS = 7
# Feedback.tally: whether a table is filling up; what was counted.
T_IS_FULL, T_SUSPENSIONS, T_RESUMPTIONS, T_WITHHELD, T_UNPROBED, T_TESTS = range(6)
TALLIES = 6


class Feedback(NamedTuple):
    """What feedback goes by; tables lie in the engine's memory."""

    demands: Int64s
    gates: Int64s
    asked: Int64s
    gaps: Int64s
    filters: Int64s
    stream_filters: Int64s  # [stream, (first, number)]
    met: Int64s  # [depth] whether the probe there has found anything, or was asked about
    tally: Int64s


@inlined
def slot_of(mem: Int64s, demands: Int64s, demand: int, key: int) -> int:
    """The word of what is remembered of a demand's key, or of the free slot where it would go."""
    table, mask, stride = demands[demand, D_TABLE], demands[demand, D_MASK], demands[demand, D_STRIDE]
    slot = (key ^ (key >> 32)) & mask
    word = table + slot * stride
    while mem[word + V_VERDICT] != UNKNOWN and mem[word + V_KEY] != key:
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
    verdict, until = mem[word + V_VERDICT], mem[word + V_UNTIL]
    first, partners = demands[demand, D_PARTNERS], demands[demand, D_PARTNER_COUNT]
    if verdict == DEMANDED and until <= watermark:
        verdict = UNKNOWN
    if verdict != WANTING:
        partners = 0
    for i in range(partners):
        at = first + i * PARTNER_FIELDS
        path = lists[at + A_PLACE]
        if path < 0:
            newest = streams[lists[at + A_STREAM], k.S_NEXT] - 1
        else:
            key = hash_codes(code, 0, lists, lists[at + A_CLASSES], lists[at + A_CLASS_COUNT])
            newest = mem[paths[path, k.P_HEADS] + (key & paths[path, k.P_MASK]) * paths[path, k.P_SPAN]]
        if newest >= mem[word + V_NEXT + i]:
            verdict = OUTDATED
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
    before = mem[word + V_VERDICT]
    verdict = DEMANDED if until > watermark else WANTING
    count, slots = demands[demand, D_COUNT], demands[demand, D_MASK]
    is_new = before == UNKNOWN
    if is_new and 4 * count > 3 * slots:
        tally[T_IS_FULL] = 1
    is_kept = not (is_new and 8 * count > 7 * slots)  # else it is forgotten at once
    suspended = int(verdict == WANTING and before != WANTING)
    resumed = int(verdict == DEMANDED and before == WANTING)
    tally[T_SUSPENSIONS] += suspended
    tally[T_RESUMPTIONS] += resumed
    partners = 0
    if is_kept:
        demands[demand, D_COUNT] = count + is_new
        demands[demand, D_WANTING] += suspended - resumed
        mem[word + V_KEY], mem[word + V_VERDICT], mem[word + V_UNTIL] = key, verdict, until
        partners = demands[demand, D_PARTNER_COUNT]
    first = demands[demand, D_PARTNERS]
    for i in range(partners):
        mem[word + V_NEXT + i] = streams[lists[first + i * PARTNER_FIELDS + A_STREAM], k.S_NEXT]
    return verdict


@inlined
def leave_gaps(
    mem: Int64s, lists: Int64s, gates: Int64s, gaps: Int64s, tally: Int64s, code: Int64s, gate: int, clock: int
) -> None:
    """A program stops at a gate: say what is missing now."""
    first = gates[gate, Q_GAPS]
    for i in range(gates[gate, Q_GAP_COUNT]):
        at = first + i * GAP_FIELDS
        state, count = lists[at + G_STATE], lists[at + G_CLASS_COUNT]
        if count == 0:
            gaps[state, O_ALL] = clock
            continue
        key = _gap_key(code, 0, lists, lists[at + G_CLASSES], count, lists[at + G_KIND])
        word = find(mem, gaps[state, O_TABLE], gaps[state, O_MASK], key)
        if mem[word + 1] == 0:
            if 4 * gaps[state, O_COUNT] > 3 * gaps[state, O_MASK]:
                tally[T_IS_FULL] = 1
                if 8 * gaps[state, O_COUNT] > 7 * gaps[state, O_MASK]:
                    gaps[state, O_ALL] = clock
                    continue
            gaps[state, O_COUNT] += 1
        mem[word], mem[word + 1] = key, clock


@inlined
def _gap_key(code: Int64s, frame: int, lists: Int64s, start: int, count: int, kind: int) -> int:
    return hash_codes(code, frame, lists, start, count) ^ (kind * 0x9E3779B9)


@inlined
def has_gap(mem: Int64s, lists: Int64s, gaps: Int64s, state: int, code: Int64s, frame: int, since: int) -> bool:
    """Whether entries of a state's key may have been left out after the tuple ``since``."""
    found = gaps[state, O_ALL] > since
    kinds = gaps[state, O_KINDS]
    for kind in range(gaps[state, O_KIND_COUNT]):
        at = kinds + 2 * kind
        if lists[at + 1] > 0 and not found:
            key = _gap_key(code, frame, lists, lists[at], lists[at + 1], kind)
            found = mem[find(mem, gaps[state, O_TABLE], gaps[state, O_MASK], key) + 1] > since
    return bool(found)


# Bloom filters: two bits per value, from two halves of its well-mixed code.


@inlined
def _bits(key: int, mask: int) -> tuple[int, int]:
    return key & mask, (key >> 29) & mask


@inlined
def add_to_filter(mem: Int64s, lists: Int64s, filters: Int64s, row: int, word: int) -> None:
    """Take a tuple of the window into a filter."""
    key = hash_fields(mem, word, lists, filters[row, F_FIELDS], filters[row, F_FIELD_COUNT])
    one, two = _bits(key, filters[row, F_MASK])
    region = filters[row, F_REGION]
    mem[region + (one >> 6)] |= 1 << (one & 63)
    mem[region + (two >> 6)] |= 1 << (two & 63)
    filters[row, F_ADDED] += 1


@inlined
def lacks(mem: Int64s, lists: Int64s, demands: Int64s, filters: Int64s, demand: int, code: Int64s) -> bool:
    """Whether a filter says that some window has no tuple with the values of a demand."""
    first = demands[demand, D_PARTNERS]
    is_lacking = False
    for i in range(demands[demand, D_PARTNER_COUNT]):
        at = first + i * PARTNER_FIELDS
        row = lists[at + A_PLACE]
        if row >= 0:
            key = hash_codes(code, 0, lists, lists[at + A_CLASSES], lists[at + A_CLASS_COUNT])
            one, two = _bits(key, filters[row, F_MASK])
            region = filters[row, F_REGION]
            has_both = (mem[region + (one >> 6)] >> (one & 63)) & (mem[region + (two >> 6)] >> (two & 63)) & 1
            is_lacking |= has_both == 0
    return is_lacking


@inlined
def add_to_filters(
    mem: Int64s, tables: k.Tables, frames: k.Frames, feedback: Feedback, stream: int, watermark: int
) -> None:
    """Take the newest tuple of a stream into the filters over its window."""
    filters, first = feedback.filters, feedback.stream_filters[stream, 0]
    streams = tables.streams
    word = component(streams, frames.bound, 0, stream)
    for row in range(first, first + feedback.stream_filters[stream, 1]):
        if filters[row, F_ADDED] >= filters[row, F_MOST]:
            renew_filter(mem, streams, tables.lists, filters, row, watermark)
        else:
            add_to_filter(mem, tables.lists, filters, row, word)


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
def _verdict(
    mem: Int64s,
    floats: Float64s,
    tables: k.Tables,
    frames: k.Frames,
    feedback: Feedback,
    demand: int,
    watermark: int,
    is_told: bool,
) -> int:
    """What is known of a demand for the values in frame 0; found out anew where that is outdated.

    Where nothing is known, it is found out if ``is_told`` to.
    """
    demands, lists, code = feedback.demands, tables.lists, frames.code
    key = hash_codes(code, 0, lists, demands[demand, D_KEY], demands[demand, D_KEY_COUNT])
    word = slot_of(mem, demands, demand, key)
    verdict = recall(mem, tables.streams, tables.paths, lists, demands, demand, word, code, watermark)
    if verdict == OUTDATED or (verdict == UNKNOWN and is_told):
        until = witness(
            mem,
            floats,
            tables,
            frames,
            demands[demand, D_PROGRAM],
            0,
            demands[demand, D_KEY],
            demands[demand, D_KEY_COUNT],
            watermark,
        )
        feedback.tally[T_TESTS] += 1
        verdict = remember(mem, tables.streams, lists, demands, feedback.tally, demand, word, key, until, watermark)
    return verdict


@inlined
def passes(
    mem: Int64s,
    floats: Float64s,
    tables: k.Tables,
    frames: k.Frames,
    feedback: Feedback,
    step: int,
    depth: int,
    clock: int,
    watermark: int,
) -> bool:
    """Whether the tuple so far goes on behind a GATE: whether there may be a demand for it (JIT III).

    As in the paper, nobody looks for one here: a probe that fails does (:func:`ask`).
    """
    demands, tally = feedback.demands, feedback.tally
    gate = tables.steps[step, k.X_TARGET]
    demand = feedback.gates[gate, Q_DEMAND]
    state = demands[demand, D_STATE]
    verdict = DEMANDED
    if state >= 0:
        if seems_empty(mem, tables.streams, tables.states, tables.lists, state, watermark):
            if tables.states[state, k.N_COUNT] > 0:
                sweep(mem, tables, state, watermark)
            if tables.states[state, k.N_COUNT] == 0:
                verdict = WANTING
    elif demands[demand, D_IS_FILTERED]:
        if lacks(mem, tables.lists, demands, feedback.filters, demand, frames.code):
            verdict = WANTING
    else:
        verdict = _verdict(mem, floats, tables, frames, feedback, demand, watermark, False)
    if verdict != WANTING:
        return True
    tally[T_UNPROBED] += 1
    tally[T_WITHHELD] += depth >= 0
    leave_gaps(mem, tables.lists, feedback.gates, feedback.gaps, tally, frames.code, gate, clock)
    if depth < 0 and demands[demand, D_IS_FINAL]:
        head = frames.program[0]
        row = head + (frames.bound[0, head] >> k.SLICE_SHIFT)
        forget_newest(mem, tables.streams, tables.paths, tables.lists, row)
    return False


@inlined
def may_ask(feedback: Feedback, step: int, depth: int) -> bool:
    """Whether a probe that has ended found nothing, and somebody is to be asked about that."""
    return feedback.met[depth] == 0 and feedback.asked[step, L_ASKED_COUNT] > 0


@inlined
def ask(
    mem: Int64s,
    floats: Float64s,
    tables: k.Tables,
    frames: k.Frames,
    feedback: Feedback,
    depth: int,
    clock: int,
    watermark: int,
) -> int:
    """Find the smallest part of the tuple that has no partner (JIT IV-A); the depth to go on at, -1: at none.

    Everything of the same values stops at that part's gate from now on.
    """
    gates, step = feedback.gates, frames.step[0, depth]
    feedback.met[depth] = 1
    frames.cursor[0, depth] = -1
    first = feedback.asked[step, L_ASKED]
    stopping, size, back = -1, 0, depth
    for i in range(first, first + feedback.asked[step, L_ASKED_COUNT]):
        gate = tables.lists[i]
        if stopping >= 0 and gates[gate, Q_SIZE] > size:
            break  # not minimal
        at = gates[gate, Q_DEPTH]
        if at == ANYWHERE:
            at = depth
            for d in range(depth):
                if frames.step[0, d] == gates[gate, Q_STEP]:
                    at = d
        if at >= back:
            continue
        if _verdict(mem, floats, tables, frames, feedback, gates[gate, Q_DEMAND], watermark, True) == WANTING:
            stopping, back, size = gate, at, gates[gate, Q_SIZE]
    if stopping >= 0:
        leave_gaps(mem, tables.lists, gates, feedback.gaps, feedback.tally, frames.code, stopping, clock)
    return back


@jit
def renew_filter(mem: Int64s, streams: Int64s, lists: Int64s, filters: Int64s, row: int, watermark: int) -> None:
    """Build a Bloom filter anew from the tuples that its window holds now.

    That is done whenever as many were added since: at most half of its values are gone.
    """
    stream, region = filters[row, F_STREAM], filters[row, F_REGION]
    for word in range(region, region + ((filters[row, F_MASK] + 64) >> 6)):
        mem[word] = 0
    filters[row, F_ADDED] = 0
    while stream >= 0:  # slice by slice
        for sequence in range(streams[stream, k.S_OLDEST], streams[stream, k.S_NEXT]):
            word = streams[stream, k.S_REGION] + (sequence & streams[stream, k.S_MASK]) * streams[stream, k.S_STRIDE]
            if not is_over(mem, streams, stream, word, watermark):
                add_to_filter(mem, lists, filters, row, word)
        stream = streams[stream, k.S_MORE]
    filters[row, F_MOST] = 2 * filters[row, F_ADDED] + 64


@jit
def renew_filters(mem: Int64s, tables: k.Tables, filters: Int64s, watermark: int) -> None:
    """Build all Bloom filters anew."""
    for row in range(filters.shape[0]):
        renew_filter(mem, tables.streams, tables.lists, filters, row, watermark)


@jit
def settle(
    mem: Int64s, tables: k.Tables, frames: k.Frames, gaps: Int64s, index: int, directory: int, mask: int, watermark: int
) -> None:
    """Drop the entries of a state that may be short of others, so that its gaps can be forgotten.

    The keys of the entries that stay move to a new directory; a key without entries becomes absent.
    """
    state, lists, frame = tables.states[index], tables.lists, frames.program.shape[0] - 1
    sweep(mem, tables, index, watermark)
    live = 0
    for entry in range(state[k.N_COUNT]):
        word = state[k.N_REGION] + entry * state[k.N_STRIDE]
        key = mem[word + k.ENTRY_KEY]
        status = mem[find(mem, state[k.N_DIRECTORY], state[k.N_DIRECTORY_MASK], key) + 1]
        for i in range(state[k.N_KEY_COUNT]):
            at = gaps[index, O_CARRIERS] + 4 * i
            stream = lists[at + 1]
            frames.bound[frame, stream] = mem[word + lists[at + 2]]
            frames.code[frame, lists[at]] = code_of(mem, tables.streams, frames.bound, frame, stream, lists[at + 3])
        if has_gap(mem, lists, gaps, index, frames.code, frame, status >> k.STATUS_BITS):
            mem[word + k.ENTRY_EXPIRY] = NEVER
            continue
        slot = find(mem, directory, mask, key)
        if mem[slot + 1] == k.ABSENT:
            mem[slot], mem[slot + 1] = key, status
            live += 1
    state[k.N_DIRECTORY], state[k.N_DIRECTORY_MASK], state[k.N_LIVE] = directory, mask, live
    sweep(mem, tables, index, watermark)
