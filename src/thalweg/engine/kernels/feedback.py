"""Feedback's part of the join kernel: whether somebody needs what a partial tuple would become (JIT III, IV).

Design
    The join kernel runs the programs of a plan. Given :class:`Feedback`, it asks at the *sites* of a program
    (:mod:`thalweg.plan.demand`) whether the demand there is met, and stops where it is not. What was found
    out about the values of a demand is remembered:

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
    A site costs a lookup and, where the values are WANTING, one per window asked. A state's probe costs a lookup per
    kind of gap that it can have.
"""

from __future__ import annotations

from typing import NamedTuple

from thalweg.engine.instants import FOREVER, NEVER
from thalweg.engine.kernels.compiled import Float64s, Int64s, inlined, jit
from thalweg.engine.kernels.hashing import find, hash_codes, hash_fields
from thalweg.engine.kernels.predicates import code_of, theta_holds
from thalweg.engine.kernels.states import sweep
from thalweg.engine.kernels.tables import (
    ABSENT,
    ALIVE,
    C_CANDIDATES,
    C_PROBES,
    ENTRY_EXPIRY,
    ENTRY_KEY,
    G_FIRST,
    G_STEPS,
    JOINING,
    N_COUNT,
    N_DIRECTORY,
    N_DIRECTORY_MASK,
    N_KEY_COUNT,
    N_LIVE,
    N_REGION,
    N_STRIDE,
    P_HEADS,
    P_LINK,
    P_MASK,
    P_SPAN,
    ROW,
    S_LIFETIME,
    S_MASK,
    S_NEXT,
    S_OLDEST,
    S_PREFIX,
    S_REGION,
    S_ROWS,
    S_STRIDE,
    STATUS_BITS,
    X_BIND_COUNT,
    X_BINDS,
    X_CHECK_COUNT,
    X_CHECKS,
    X_FIELD,
    X_KEY,
    X_KEY_COUNT,
    X_PATH,
    X_TARGET,
    X_THETA_COUNT,
    X_THETAS,
    Frames,
    T,
    Tables,
)
from thalweg.engine.kernels.windows import is_over

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
# Columns of Feedback.sites: the demand; the step after which it is asked (-1: before the first) and its depth; the size
# of the part; its gaps; how often something stopped there.
W_DEMAND, W_STEP, W_DEPTH, W_SIZE, W_GAPS, W_GAP_COUNT, W_STOPS = range(7)
SITE_FIELDS = 7
# A gap: the state, which of its kinds of gap, and the classes whose values say where.
G_STATE, G_KIND, G_CLASSES, G_CLASS_COUNT = range(4)
GAP_FIELDS = 4
# Columns of Feedback.places: the sites in the program of a stream before its first step, or after a step; and those to
# be asked when a step has found nothing: (site, ...) in lists.
L_SITES, L_SITE_COUNT, L_ASKED, L_ASKED_COUNT = range(4)
PLACE_FIELDS = 4
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
    sites: Int64s
    places: Int64s  # [head, then step]
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
            newest = streams[lists[at + A_STREAM], S_NEXT] - 1
        else:
            key = hash_codes(code, 0, lists, lists[at + A_CLASSES], lists[at + A_CLASS_COUNT])
            newest = mem[paths[path, P_HEADS] + (key & paths[path, P_MASK]) * paths[path, P_SPAN]]
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
        mem[word + V_NEXT + i] = streams[lists[first + i * PARTNER_FIELDS + A_STREAM], S_NEXT]
    return verdict


@inlined
def leave_gaps(
    mem: Int64s, lists: Int64s, sites: Int64s, gaps: Int64s, tally: Int64s, code: Int64s, site: int, clock: int
) -> None:
    """A program stops at a site: say what is missing now."""
    first = sites[site, W_GAPS]
    for i in range(sites[site, W_GAP_COUNT]):
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


@jit
def witness(
    mem: Int64s,
    floats: Float64s,
    streams: Int64s,
    paths: Int64s,
    steps: Int64s,
    programs: Int64s,
    lists: Int64s,
    thetas: Int64s,
    integer_offsets: Int64s,
    float_offsets: Float64s,
    cursors: Int64s,
    probed: Int64s,
    latests: Int64s,
    expiries: Int64s,
    bound: Int64s,
    code: Int64s,
    counters: Int64s,
    program: int,
    source: int,
    start: int,
    count: int,
    watermark: int,
) -> int:
    """Look for a combination of base tuples; until when it lasts, NEVER if there is none.

    Given are the codes that the frame ``source`` has of the ``count`` classes that ``lists`` names from ``start`` on.
    """
    frame = code.shape[0] - 1
    for i in range(start, start + count):
        code[frame, lists[i]] = code[source, lists[i]]
    first, last = programs[program, G_FIRST], programs[program, G_STEPS] - 1
    latests[frame, 0], expiries[frame, 0] = watermark, FOREVER
    depth, opens = 0, True
    until, lasts = FOREVER, NEVER
    while depth >= 0:
        step = first + depth
        target, keys = steps[step, X_TARGET], steps[step, X_KEY_COUNT]
        if opens:
            key = hash_codes(code, frame, lists, steps[step, X_KEY], keys)
            path = steps[step, X_PATH]
            if keys > 0:
                cursors[frame, depth] = mem[paths[path, P_HEADS] + (key & paths[path, P_MASK]) * paths[path, P_SPAN]]
            else:
                cursors[frame, depth] = streams[target, S_NEXT] - 1
            probed[frame, depth] = key
            counters[C_PROBES] += 1
        key, candidate = probed[frame, depth], cursors[frame, depth]
        region, stride = streams[target, S_REGION], streams[target, S_STRIDE]
        mask, oldest = streams[target, S_MASK], streams[target, S_OLDEST]
        lifetime, rows = streams[target, S_LIFETIME], streams[target, S_ROWS]
        chain = paths[steps[step, X_PATH], P_LINK] if keys > 0 else 0
        opens = False
        while candidate >= oldest and not opens:
            word = region + (candidate & mask) * stride
            bound[frame, target] = candidate
            candidate = mem[word + chain] if keys > 0 else candidate - 1
            counters[C_CANDIDATES] += 1
            if (keys == 1 and mem[word + steps[step, X_FIELD]] != key) or mem[word + ROW] < 0:
                continue
            if rows > 0 and mem[word + streams[target, S_PREFIX] + ALIVE] != JOINING:
                continue
            reached = max(latests[frame, depth], mem[word + T])
            lasting = expiries[frame, depth]
            if lifetime < FOREVER:
                lasting = min(lasting, mem[word + T] + lifetime)
            if reached >= lasting:
                continue
            opens = True
            for i in range(steps[step, X_CHECKS], steps[step, X_CHECKS] + 3 * steps[step, X_CHECK_COUNT], 3):
                if code_of(mem, streams, bound, frame, lists[i + 1], lists[i + 2]) != code[frame, lists[i]]:
                    opens = False
                    break
            for i in range(steps[step, X_THETAS], steps[step, X_THETAS] + steps[step, X_THETA_COUNT]):
                opens = opens and theta_holds(
                    mem, floats, streams, thetas, integer_offsets, float_offsets, bound, frame, lists[i]
                )
        cursors[frame, depth] = candidate
        if not opens:
            depth -= 1
            continue
        if rows > 0:
            until = watermark + 1  # it may be pushed out at any time
        latests[frame, depth + 1], expiries[frame, depth + 1] = reached, lasting
        if depth == last:
            lasts = min(until, lasting)
            break
        binds = steps[step, X_BINDS]
        for i in range(binds, binds + 3 * steps[step, X_BIND_COUNT], 3):
            code[frame, lists[i]] = code_of(mem, streams, bound, frame, lists[i + 1], lists[i + 2])
        depth += 1
    return lasts


@jit
def examine(
    mem: Int64s,
    floats: Float64s,
    streams: Int64s,
    paths: Int64s,
    steps: Int64s,
    programs: Int64s,
    lists: Int64s,
    thetas: Int64s,
    integer_offsets: Int64s,
    float_offsets: Float64s,
    cursors: Int64s,
    probed: Int64s,
    latests: Int64s,
    expiries: Int64s,
    bound: Int64s,
    code: Int64s,
    demands: Int64s,
    tally: Int64s,
    counters: Int64s,
    demand: int,
    word: int,
    key: int,
    watermark: int,
) -> int:
    """Find out whether a demand for the values in frame 0 is met, and remember it at ``word``; the verdict."""
    until = witness(
        mem,
        floats,
        streams,
        paths,
        steps,
        programs,
        lists,
        thetas,
        integer_offsets,
        float_offsets,
        cursors,
        probed,
        latests,
        expiries,
        bound,
        code,
        counters,
        demands[demand, D_PROGRAM],
        0,
        demands[demand, D_KEY],
        demands[demand, D_KEY_COUNT],
        watermark,
    )
    tally[T_TESTS] += 1
    return remember(mem, streams, lists, demands, tally, demand, word, key, until, watermark)


@jit
def renew_filter(mem: Int64s, streams: Int64s, lists: Int64s, filters: Int64s, row: int, watermark: int) -> None:
    """Build a Bloom filter anew from the tuples that its window holds now.

    That is done whenever as many were added since: at most half of its values are gone.
    """
    stream = filters[row, F_STREAM]
    region = filters[row, F_REGION]
    for word in range(region, region + ((filters[row, F_MASK] + 64) >> 6)):
        mem[word] = 0
    filters[row, F_ADDED] = 0
    for sequence in range(streams[stream, S_OLDEST], streams[stream, S_NEXT]):
        word = streams[stream, S_REGION] + (sequence & streams[stream, S_MASK]) * streams[stream, S_STRIDE]
        if not is_over(mem, streams, stream, word, watermark):
            add_to_filter(mem, lists, filters, row, word)
    filters[row, F_MOST] = 2 * filters[row, F_ADDED] + 64


@jit
def renew_filters(mem: Int64s, tables: Tables, filters: Int64s, watermark: int) -> None:
    """Build all Bloom filters anew."""
    for row in range(filters.shape[0]):
        renew_filter(mem, tables.streams, tables.lists, filters, row, watermark)


@jit
def settle(
    mem: Int64s, tables: Tables, frames: Frames, gaps: Int64s, index: int, directory: int, mask: int, watermark: int
) -> None:
    """Drop the entries of a state that may be short of others, so that its gaps can be forgotten.

    The keys of the entries that stay move to a new directory; a key without entries becomes absent.
    """
    state, lists, frame = tables.states[index], tables.lists, frames.program.shape[0] - 1
    sweep(mem, tables, index, watermark)
    live = 0
    for entry in range(state[N_COUNT]):
        word = state[N_REGION] + entry * state[N_STRIDE]
        key = mem[word + ENTRY_KEY]
        status = mem[find(mem, state[N_DIRECTORY], state[N_DIRECTORY_MASK], key) + 1]
        for i in range(state[N_KEY_COUNT]):
            at = gaps[index, O_CARRIERS] + 4 * i
            stream = lists[at + 1]
            frames.bound[frame, stream] = mem[word + lists[at + 2]]
            frames.code[frame, lists[at]] = code_of(mem, tables.streams, frames.bound, frame, stream, lists[at + 3])
        if has_gap(mem, lists, gaps, index, frames.code, frame, status >> STATUS_BITS):
            mem[word + ENTRY_EXPIRY] = NEVER
            continue
        slot = find(mem, directory, mask, key)
        if mem[slot + 1] == ABSENT:
            mem[slot], mem[slot + 1] = key, status
            live += 1
    state[N_DIRECTORY], state[N_DIRECTORY_MASK], state[N_LIVE] = directory, mask, live
    sweep(mem, tables, index, watermark)
