"""The join kernel: one machine that runs every probe program over flat memory.

Design
    Everything that lasts lives in one int64 array, ``mem``: the rings of the base windows,
    the entries of the states, hash heads and key directories, each a region found through
    a row of a table. Programs are rows of numbers too (see ``engine.assembly``). So one
    compiled function serves any number of streams, any plan and any query.

    For every new tuple: 1. *purge* what its arrival expires in its own window, 2. *insert* it
    there, 3. *probe* by its stream's program, depth first, 4. *store* what grows into an
    entry of a kept state and *emit* what reaches the end of the program.

    A probe of a state key that is not live first *completes* it (JISC 4): a frame is
    pushed that runs the state's completion program for that key, which may push
    further ones for the states below, and the probe is opened again when it returns. Between two
    tuples the same can be asked for without a probe (:func:`complete`), or a whole state be filled,
    by a program in frame 0 that scans a base window.

    The programs of heads may be routed by an eddy (``kernels.eddy``); all others run in order. They may stop where
    nobody needs what would come (``kernels.feedback``).

Invariants
    A key of a state that is not live has no entries (but for the one that is being completed,
    and in states that follow JISC as PRINTED, which are there to show what goes wrong then).
    An entry's components are alive in their base windows for as long as the entry is (expiry is
    the least of theirs).
    While a state is being scanned nothing is stored in it: the targets of one program
    are disjoint, and completing one touches only what is below it.

Cost
    A probe costs a lookup and its candidates. Nothing is unlinked: chains run from new to
    old, and end where the window ends. The machine stops only between two actions and keeps
    its place in ``Frames``, so that the caller can make room (or take the output) and go on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

from thalweg.engine.instants import FOREVER, NEVER
from thalweg.engine.kernels import eddy as eddies
from thalweg.engine.kernels import feedback as fb
from thalweg.engine.kernels.hashing import DIRECTORY_FIELDS, find, hash_codes, rotate
from thalweg.engine.kernels.prefetch import prefetch

_Function = TypeVar("_Function", bound=Callable[..., Any])
Int64s = NDArray[np.int64]
Float64s = NDArray[np.float64]

GREATEST = 2**63 - 1
ALL = -1
"""A word with every bit set."""
MEETINGS = 64
"""Partners of one window that a straight program looks at together."""
LOOK_AHEAD = 2
"""How many tuples of its stream before its turn the cache line that a tuple will look up is asked for."""

# A tuple of a base window; then its codes, operands, [partition, newer, alive], links. ROW is negative if it can join
# nothing (it may still count in a ROWS window). Its expiry follows from its time, which keeps a tuple with one key
# within half a cache line.
T, ROW, CODES = 0, 1, 2
# An entry of a state; then the sequence numbers of its components.
ENTRY_T, ENTRY_EXPIRY, ENTRY_KEY, ENTRY_LINK, COMPONENTS = 0, 1, 2, 3, 4

# Columns of Tables.streams.
(S_REGION, S_MASK, S_STRIDE, S_OLDEST, S_NEXT, S_PREFIX, S_LIFETIME, S_ROWS, S_PARTITIONS, S_PATH, S_PATHS) = range(11)
S_RENUMBERED = 11  # how many numbers below S_NEXT were given to tuples that had one before
STREAM_FIELDS = 12
# Fields of a tuple in a ROWS window, counted from the end of its own words, and values of the second.
NEWER, ALIVE = 0, 1
DEAD, JOINING, COUNTED = 0, 1, 2  # pushed out; in the window; in the window but able to join nothing
# A partition of a ROWS window: its oldest and newest tuple and their number.
PARTITION_FIELDS = 3
# Columns of Tables.paths.
P_LINK, P_HEADS, P_SPAN, P_MASK, P_FIELDS, P_COUNT = range(6)
PATH_FIELDS = 6
# Columns of Tables.states.
(N_REGION, N_CAPACITY, N_STRIDE, N_COUNT, N_COMPLETE, N_HEADS, N_MASK, N_DIRECTORY, N_DIRECTORY_MASK) = range(9)
N_LIVE, N_COMPONENTS, N_COMPONENT_COUNT, N_KEY, N_KEY_COUNT, N_ROWS, N_ROWS_COUNT = range(9, 16)
N_CHECK, N_BORN = 16, 17  # live keys at which to look for absent ones; when it began incomplete: the watermark, or
# of a state that gathers, the next sequence number of the window whose turn it waits for
STATE_FIELDS = 18
# Columns of Tables.steps.
(X_TARGET, X_IS_STATE, X_PATH, X_FIELD, X_KEY, X_KEY_COUNT, X_CHECKS, X_CHECK_COUNT) = range(8)
X_THETAS, X_THETA_COUNT, X_BINDS, X_BIND_COUNT, X_STORES, X_SCAN = range(8, 14)
STEP_FIELDS = 14
# Columns of Tables.programs.
G_FIRST, G_STEPS, G_BINDS, G_BIND_COUNT, G_STRAIGHT = range(5)
PROGRAM_FIELDS = 5
# Columns of Tables.thetas, their kinds and operators.
H_KIND, H_OPERATOR, H_ABSOLUTE, H_LEFT, H_LEFT_FIELD, H_RIGHT, H_RIGHT_FIELD = range(7)
THETA_FIELDS = 7
COMPARE, SUBTRACT_INTEGERS, SUBTRACT_FLOATS = range(3)
LESS, LESS_EQUAL, GREATER, GREATER_EQUAL, NOT_EQUAL = range(5)

# Values of N_COMPLETE. PRINTED: incomplete, and taken for live is every key of which there is an entry.
# GATHERING: incomplete, stores whatever comes, and no program probes it.
INCOMPLETE, COMPLETE, PRINTED, GATHERING = range(4)

# The status of a key in a directory, in its lowest bits. TOUCHED: live, and probed since cold keys were made absent;
# SUSPENDED: not live, for something of it was withheld. Above these bits: with how many tuples the key was completed.
ABSENT, LIVE, TOUCHED, SUSPENDED = range(4)
STATUS, STATUS_BITS = 3, 2

# What the machine stops for.
FINISHED, OUTPUT_FULL, WINDOW_FULL, STATE_FULL, DIRECTORY_FULL, CROWDED, FEEDBACK_FULL = range(7)
# Frames.registers.
R_FRAME, R_DEPTH, R_PHASE, R_OUTPUTS, R_DEATHS, R_WATERMARK = range(6)
REGISTERS = 6
FETCH, OPEN, SCAN, ACT, JUDGE, ASK = range(6)
# Counters.
C_TUPLES, C_PROBES, C_CANDIDATES, C_STORED, C_COMPLETIONS, C_RESULTS, C_FINISHED = range(7)
COUNTERS = 7


class Tables(NamedTuple):
    """Where everything is, and what the programs do; all int64 but the last."""

    streams: Int64s  # a row per base window
    paths: Int64s  # a row per access path of a base window
    states: Int64s  # a row per kept state
    steps: Int64s  # a row per step of a program
    programs: Int64s  # heads by stream, then completions by state, then what fills whole states
    lists: Int64s  # what rows refer to by start and count
    thetas: Int64s
    integer_offsets: Int64s
    float_offsets: Float64s


class Frames(NamedTuple):
    """The machine's place: frame 0 serves the new tuple, those above it complete keys."""

    registers: Int64s
    program: Int64s  # [frame]
    depth: Int64s  # [frame] where to go on when the frame above returns
    state: Int64s  # [frame] the state that the frame completes
    key: Int64s  # [frame] and the key
    cursor: Int64s  # [frame, depth] the next candidate
    probe: Int64s  # [frame, depth] the key looked up
    latest: Int64s  # [frame, depth] the greatest time so far
    expiry: Int64s  # [frame, depth] the least expiry so far
    bound: Int64s  # [frame, stream] the component of that stream
    code: Int64s  # [frame, class] the value of that attribute class


class Inbox(NamedTuple):
    """New tuples, laid out like the head of a base entry, in time order per stream."""

    tuples: Int64s
    place: Int64s  # [stream, (next word, words end)]


def _jit(function: _Function) -> _Function:
    return cast("_Function", numba.njit(cache=True, error_model="numpy")(function))


def _inlined(function: _Function) -> _Function:
    """Compiled into its caller: a call would count references to every array, which costs more than most do."""
    return cast("_Function", numba.njit(cache=True, error_model="numpy", forceinline=True)(function))


# Helpers take the arrays they read and nothing more: handing over a tuple of arrays, or a slice of one,
# makes the compiler count references, which costs more than most of these functions do.


@_jit
def _holds(operator: int, left: Any, right: Any) -> bool:
    if operator == LESS:
        return left < right
    if operator == LESS_EQUAL:
        return left <= right
    if operator == GREATER:
        return left > right
    if operator == GREATER_EQUAL:
        return left >= right
    return left != right


@_jit
def _theta_holds(
    mem: Int64s,
    floats: Float64s,
    streams: Int64s,
    thetas: Int64s,
    integer_offsets: Int64s,
    float_offsets: Float64s,
    bound: Int64s,
    frame: int,
    theta: int,
) -> bool:
    """Whether a theta predicate holds between the components bound so far."""
    stream = thetas[theta, H_LEFT]
    left = streams[stream, S_REGION] + (bound[frame, stream] & streams[stream, S_MASK]) * streams[stream, S_STRIDE]
    left += thetas[theta, H_LEFT_FIELD]
    stream = thetas[theta, H_RIGHT]
    right = streams[stream, S_REGION] + (bound[frame, stream] & streams[stream, S_MASK]) * streams[stream, S_STRIDE]
    right += thetas[theta, H_RIGHT_FIELD]
    operator = thetas[theta, H_OPERATOR]
    if thetas[theta, H_KIND] == COMPARE:
        return _holds(operator, mem[left], mem[right])
    if thetas[theta, H_KIND] == SUBTRACT_INTEGERS:
        minuend, subtrahend = mem[left], mem[right]
        difference = minuend - subtrahend
        if (minuend ^ subtrahend) < 0 and (minuend ^ difference) < 0:  # too large for 64 bits
            difference = GREATEST if minuend >= 0 else -GREATEST
        if thetas[theta, H_ABSOLUTE] and difference < 0:
            difference = -difference
        return _holds(operator, difference, integer_offsets[theta])
    distance = floats[left] - floats[right]
    if thetas[theta, H_ABSOLUTE]:
        distance = abs(distance)
    if np.isnan(distance):  # NaN is the greatest number
        return operator >= GREATER
    return _holds(operator, distance, float_offsets[theta])


@_jit
def _code_of(mem: Int64s, streams: Int64s, bound: Int64s, frame: int, stream: int, field: int) -> int:
    """A word of the component that a stream contributes to the tuple so far."""
    return mem[
        streams[stream, S_REGION] + (bound[frame, stream] & streams[stream, S_MASK]) * streams[stream, S_STRIDE] + field
    ]


@_jit
def _link(mem: Int64s, paths: Int64s, lists: Int64s, path: int, word: int, sequence: int) -> None:
    """Put a base tuple at the head of its chain in one access path."""
    fields = paths[path, P_FIELDS]
    key = mem[word + lists[fields]]
    for i in range(fields + 1, fields + paths[path, P_COUNT]):
        key = rotate(key) ^ mem[word + lists[i]]
    head = paths[path, P_HEADS] + (key & paths[path, P_MASK]) * paths[path, P_SPAN]
    mem[word + paths[path, P_LINK]] = mem[head]
    mem[head] = sequence


@_jit
def _join_partition(mem: Int64s, streams: Int64s, stream: int, sequence: int) -> int:
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


@_jit
def _components_alive(mem: Int64s, streams: Int64s, lists: Int64s, entry: int, start: int, count: int) -> bool:
    """Whether no component of a state entry has left its ROWS window."""
    for i in range(start, start + 2 * count, 2):
        stream, sequence = lists[i], mem[entry + lists[i + 1]]
        if sequence < streams[stream, S_OLDEST]:
            return False
        slot = (sequence & streams[stream, S_MASK]) * streams[stream, S_STRIDE]
        if mem[streams[stream, S_REGION] + slot + streams[stream, S_PREFIX] + ALIVE] == DEAD:
            return False
    return True


@_inlined
def _has_no_part(
    mem: Int64s,
    streams: Int64s,
    paths: Int64s,
    steps: Int64s,
    programs: Int64s,
    lists: Int64s,
    code: Int64s,
    frame: int,
    program: int,
) -> bool:
    """Whether a completion would find nothing: it begins in a base window that holds no tuple in the key's chain."""
    step = programs[program, G_FIRST]
    if steps[step, X_IS_STATE] or steps[step, X_SCAN]:
        return False
    key = hash_codes(code, frame, lists, steps[step, X_KEY], steps[step, X_KEY_COUNT])
    path = steps[step, X_PATH]
    newest = mem[paths[path, P_HEADS] + (key & paths[path, P_MASK]) * paths[path, P_SPAN]]
    return newest < streams[steps[step, X_TARGET], S_OLDEST]


@_jit
def _has_entry(
    mem: Int64s, streams: Int64s, states: Int64s, lists: Int64s, target: int, key: int, watermark: int
) -> bool:
    """Whether a state has an entry of a key: JISC's procedure 1, line 1, as printed."""
    entry = mem[states[target, N_HEADS] + (key & states[target, N_MASK])]
    while entry >= 0:
        word = states[target, N_REGION] + entry * states[target, N_STRIDE]
        if (
            mem[word + ENTRY_KEY] == key
            and mem[word + ENTRY_EXPIRY] > watermark
            and _components_alive(mem, streams, lists, word, states[target, N_ROWS], states[target, N_ROWS_COUNT])
        ):
            return True
        entry = mem[word + ENTRY_LINK]
    return False


@_jit
def _is_over(mem: Int64s, streams: Int64s, stream: int, word: int, watermark: int) -> bool:
    """Whether a base tuple can be part of nothing to come."""
    if mem[word + ROW] < 0:
        return True
    if streams[stream, S_ROWS] > 0:
        return mem[word + streams[stream, S_PREFIX] + ALIVE] == DEAD
    lifetime = streams[stream, S_LIFETIME]
    return lifetime < FOREVER and mem[word + T] + lifetime <= watermark


@_inlined
def _is_empty(mem: Int64s, tables: Tables, index: int, watermark: int) -> bool:
    """Whether a state has no entry that is not over, and surely so."""
    state = tables.states[index]
    if state[N_COMPLETE] != COMPLETE:
        return False
    if state[N_COUNT] > 0:
        newest = state[N_REGION] + (state[N_COUNT] - 1) * state[N_STRIDE]
        if mem[newest + ENTRY_EXPIRY] > watermark and state[N_ROWS_COUNT] == 0:
            return False
        sweep(mem, tables, index, watermark)  # the newest of those that stay tells from then on
    return bool(state[N_COUNT] == 0)


@_inlined
def _drop_entries(mem: Int64s, states: Int64s, target: int, key: int) -> None:
    """Let the entries of a state's key expire."""
    entry = mem[states[target, N_HEADS] + (key & states[target, N_MASK])]
    while entry >= 0:
        word = states[target, N_REGION] + entry * states[target, N_STRIDE]
        if mem[word + ENTRY_KEY] == key:
            mem[word + ENTRY_EXPIRY] = NEVER
        entry = mem[word + ENTRY_LINK]


@_inlined
def _witness(
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
    frame: int,
    watermark: int,
) -> int:
    """Look for a combination of base tuples with the codes in a frame; until when it lasts, NEVER if there is none."""
    first, count = programs[program, G_FIRST], programs[program, G_STEPS]
    latests[frame, 0], expiries[frame, 0] = watermark, FOREVER
    depth, opens = 0, True
    until = FOREVER
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
                if _code_of(mem, streams, bound, frame, lists[i + 1], lists[i + 2]) != code[frame, lists[i]]:
                    opens = False
                    break
            for i in range(steps[step, X_THETAS], steps[step, X_THETAS] + steps[step, X_THETA_COUNT]):
                opens = opens and _theta_holds(
                    mem, floats, streams, thetas, integer_offsets, float_offsets, bound, frame, lists[i]
                )
        cursors[frame, depth] = candidate
        if not opens:
            depth -= 1
            continue
        if rows > 0:
            until = watermark + 1  # it may be pushed out at any time
        latests[frame, depth + 1], expiries[frame, depth + 1] = reached, lasting
        if depth + 1 == count:
            return min(until, lasting)
        binds = steps[step, X_BINDS]
        for i in range(binds, binds + 3 * steps[step, X_BIND_COUNT], 3):
            code[frame, lists[i]] = _code_of(mem, streams, bound, frame, lists[i + 1], lists[i + 2])
        depth += 1
    return NEVER


@_inlined
def _examine(
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
    frame = code.shape[0] - 1
    first = demands[demand, fb.D_KEY]
    for i in range(first, first + demands[demand, fb.D_KEY_COUNT]):
        code[frame, lists[i]] = code[0, lists[i]]
    until = _witness(
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
        demands[demand, fb.D_PROGRAM],
        frame,
        watermark,
    )
    tally[fb.T_TESTS] += 1
    return fb.remember(mem, streams, S_NEXT, lists, demands, tally, demand, word, key, until, watermark)


@_inlined
def _forget_newest(mem: Int64s, streams: Int64s, paths: Int64s, lists: Int64s, stream: int) -> None:
    """Take back the newest tuple of a window: nothing will ever want it (JIT V)."""
    sequence = streams[stream, S_NEXT] - 1
    word = streams[stream, S_REGION] + (sequence & streams[stream, S_MASK]) * streams[stream, S_STRIDE]
    if streams[stream, S_ROWS] > 0:  # it counts all the same
        mem[word + streams[stream, S_PREFIX] + ALIVE] = COUNTED
        mem[word + ROW] = ~mem[word + ROW]
        return
    first = streams[stream, S_PATH]
    for path in range(first, first + streams[stream, S_PATHS]):
        fields = paths[path, P_FIELDS]
        key = mem[word + lists[fields]]
        for i in range(fields + 1, fields + paths[path, P_COUNT]):
            key = rotate(key) ^ mem[word + lists[i]]
        mem[paths[path, P_HEADS] + (key & paths[path, P_MASK]) * paths[path, P_SPAN]] = mem[word + paths[path, P_LINK]]
    streams[stream, S_NEXT] = sequence


@_jit
def _renew_filter(mem: Int64s, streams: Int64s, lists: Int64s, filters: Int64s, row: int, watermark: int) -> None:
    """Build a Bloom filter anew from the tuples that its window holds now.

    That is done whenever as many were added since: at most half of its values are gone.
    """
    stream = filters[row, fb.F_STREAM]
    region = filters[row, fb.F_REGION]
    for word in range(region, region + ((filters[row, fb.F_MASK] + 64) >> 6)):
        mem[word] = 0
    filters[row, fb.F_ADDED] = 0
    for sequence in range(streams[stream, S_OLDEST], streams[stream, S_NEXT]):
        word = streams[stream, S_REGION] + (sequence & streams[stream, S_MASK]) * streams[stream, S_STRIDE]
        if not _is_over(mem, streams, stream, word, watermark):
            fb.add_to_filter(mem, lists, filters, row, word)
    filters[row, fb.F_MOST] = 2 * filters[row, fb.F_ADDED] + 64


@_jit
def run(
    mem: Int64s,
    floats: Float64s,
    tables: Tables,
    frames: Frames,
    inbox: Inbox,
    output: Int64s,
    deaths: Int64s,
    counters: Int64s,
    horizon: int,
    limit: int,
    eddy: eddies.Eddy | None = None,
    feedback: fb.Feedback | None = None,
) -> tuple[int, int]:
    """Process up to ``limit`` tuples of the inbox in total order; (what it stopped for, which store).

    Args:
        mem: the memory.
        floats: the same bytes, read as float64.
        tables: updated: bounds of windows, counts of states.
        frames: the machine's place, kept between calls.
        inbox: the place of each stream moves on as its tuples are taken.
        output: [(time, expiry, row per stream), result]; registers[R_OUTPUTS] are filled.
        deaths: [death, (stream, row, time)]: tuples that left a ROWS window.
        counters: the work done, added up.
        horizon: no tuple before this time comes after these. They are taken in time order, so up to there each of
            them moves the watermark on; FOREVER: the tuples of all calls come in order.
        limit: how many more tuples to take.
        eddy: who picks the next step of a new tuple's program, instead of taking them in order. Without one, nothing
            of it is compiled: a pipeline pays nothing for it.
        feedback: who says that nobody needs what a partial tuple would become; likewise.

    """
    streams, paths, states, steps, programs, lists, thetas, integer_offsets, float_offsets = tables
    registers, frame_program, frame_depth, frame_state, frame_key = frames[:5]
    cursors, probed, latests, expiries, bound, code = frames[5:]
    tuples, place = inbox
    n = streams.shape[0]
    room = output.shape[1]
    frame, depth, phase = registers[R_FRAME], registers[R_DEPTH], registers[R_PHASE]
    outputs, died, watermark = registers[R_OUTPUTS], registers[R_DEATHS], registers[R_WATERMARK]
    taken, probes, candidates, stored, completions, results = 0, 0, 0, 0, 0, 0
    stop, store = FINISHED, 0
    if eddy is not None:
        modules, eddy_heads, climbs, order, seen, price, hops, temper = eddy
    clock, spot = 0, 0
    if feedback is not None:
        demands, sites, places, gaps, filters, stream_filters, met, tally = feedback
        clock = counters[C_TUPLES]

    while True:
        if phase == FETCH:
            # The next tuple in total order: least time, then least stream.
            if taken == limit:
                break
            if feedback is not None and tally[fb.T_IS_FULL]:
                stop = FEEDBACK_FULL
                break
            stream, now = -1, 0
            for s in range(n):
                at = place[s, 0]
                if at < place[s, 1] and (stream < 0 or tuples[at] < now):
                    stream, now = s, tuples[at]
            if stream < 0:
                break
            at = place[stream, 0]
            watermark = max(watermark, min(now, horizon))
            region, mask, stride = streams[stream, S_REGION], streams[stream, S_MASK], streams[stream, S_STRIDE]
            prefix, rows = streams[stream, S_PREFIX], streams[stream, S_ROWS]
            if tuples[at + ROW] < 0 and rows == 0:
                place[stream, 0] = at + prefix
                taken += 1
                continue
            # 1. Purge.
            oldest, sequence = streams[stream, S_OLDEST], streams[stream, S_NEXT]
            lifetime = streams[stream, S_LIFETIME]
            if rows > 0:
                while oldest < sequence and mem[region + (oldest & mask) * stride + prefix + ALIVE] == DEAD:
                    oldest += 1
            elif lifetime < FOREVER:
                while oldest < sequence and mem[region + (oldest & mask) * stride + T] + lifetime <= watermark:
                    oldest += 1
            streams[stream, S_OLDEST] = oldest
            if sequence - oldest > mask:
                stop, store = WINDOW_FULL, stream
                break
            # 2. Insert.
            word = region + (sequence & mask) * stride
            for i in range(prefix):
                mem[word + i] = tuples[at + i]
            place[stream, 0] = at + prefix
            streams[stream, S_NEXT] = sequence + 1
            taken += 1
            if rows > 0:
                mem[word + prefix + ALIVE] = JOINING if mem[word + ROW] >= 0 else COUNTED
                victim = _join_partition(mem, streams, stream, sequence)
                if victim >= 0:
                    deaths[died, 0] = stream
                    deaths[died, 1] = mem[victim + ROW]
                    deaths[died, 2] = now
                    died += 1
            if mem[word + ROW] < 0:
                continue
            expiry = now + lifetime if lifetime < FOREVER else FOREVER
            first_path = streams[stream, S_PATH]
            for path in range(first_path, first_path + streams[stream, S_PATHS]):
                _link(mem, paths, lists, path, word, sequence)
            # 3. Probe.
            frame, depth = 0, 0
            frame_program[0] = stream
            bound[0, stream] = sequence
            latests[0, 0] = now
            expiries[0, 0] = expiry
            binds = programs[stream, G_BINDS]
            for i in range(binds, binds + 3 * programs[stream, G_BIND_COUNT], 3):
                code[0, lists[i]] = mem[word + lists[i + 2]]
            if programs[stream, G_STEPS] == 0:
                depth, phase = -1, ACT
            else:
                phase = OPEN
                if eddy is not None:
                    eddies.embark(modules, eddy_heads, climbs, order, seen, price, hops, temper, stream)
                if feedback is not None:
                    clock += 1
                    for i in range(stream_filters[stream, 0], stream_filters[stream, 0] + stream_filters[stream, 1]):
                        if filters[i, fb.F_ADDED] >= filters[i, fb.F_MOST]:
                            _renew_filter(mem, streams, lists, filters, i, watermark)
                        else:
                            fb.add_to_filter(mem, lists, filters, i, word)
                    if places[stream, fb.L_SITE_COUNT] > 0:
                        spot, phase = -1, JUDGE

        elif phase == OPEN:
            step = programs[frame_program[frame], G_FIRST] + depth
            if eddy is not None and frame_program[frame] < n:
                step = hops[depth, eddies.H_STEP]
            target = steps[step, X_TARGET]
            key = hash_codes(code, frame, lists, steps[step, X_KEY], steps[step, X_KEY_COUNT])
            if steps[step, X_IS_STATE]:
                if states[target, N_COMPLETE] != COMPLETE:
                    slot = find(mem, states[target, N_DIRECTORY], states[target, N_DIRECTORY_MASK], key)
                    status = mem[slot + 1] & STATUS
                    if feedback is not None and status in (LIVE, TOUCHED):
                        since = mem[slot + 1] >> STATUS_BITS
                        if fb.has_gap(mem, lists, gaps, target, code, frame, since):
                            _drop_entries(mem, states, target, key)
                            mem[slot + 1] = status = SUSPENDED
                    if status == LIVE:
                        mem[slot + 1] += TOUCHED - LIVE
                    elif status == SUSPENDED or (
                        status == ABSENT
                        and (
                            states[target, N_COMPLETE] == INCOMPLETE
                            or not _has_entry(mem, streams, states, lists, target, key, watermark)
                        )
                    ):
                        if 2 * (states[target, N_LIVE] + 1) > states[target, N_DIRECTORY_MASK]:
                            stop, store = DIRECTORY_FULL, target
                            break
                        completions += 1
                        if _has_no_part(mem, streams, paths, steps, programs, lists, code, frame, n + target):
                            if feedback is not None:  # most keys are asked for once; there is no point in keeping this
                                probed[frame, depth] = key
                                cursors[frame, depth] = -1
                                probes += 1
                                phase = SCAN
                                if frame == 0:
                                    met[depth] = 0
                                continue
                            states[target, N_LIVE] += status == ABSENT
                            mem[slot] = key
                            mem[slot + 1] = (clock << STATUS_BITS) | TOUCHED
                            continue
                        # Complete this key first, in a frame of its own.
                        frame_depth[frame] = depth
                        above = frame + 1
                        frame_program[above] = n + target
                        frame_state[above] = target
                        frame_key[above] = key
                        first = states[target, N_KEY]
                        for i in range(first, first + states[target, N_KEY_COUNT]):
                            code[above, lists[i]] = code[frame, lists[i]]
                        # What expires by the watermark can meet no tuple to come.
                        latests[above, 0] = watermark
                        expiries[above, 0] = FOREVER
                        frame, depth = above, 0
                        continue
                if steps[step, X_SCAN]:
                    cursors[frame, depth] = states[target, N_COUNT] - 1
                else:
                    cursors[frame, depth] = mem[states[target, N_HEADS] + (key & states[target, N_MASK])]
            elif steps[step, X_SCAN]:
                cursors[frame, depth] = streams[target, S_NEXT] - 1
            else:
                path = steps[step, X_PATH]
                cursors[frame, depth] = mem[paths[path, P_HEADS] + (key & paths[path, P_MASK]) * paths[path, P_SPAN]]
            probed[frame, depth] = key
            probes += 1
            if feedback is not None and frame == 0:
                met[depth] = 0
            if eddy is not None and frame_program[frame] < n:
                seen[step, eddies.V_PROBES] += 1
            phase = SCAN

        elif phase == SCAN:
            step = programs[frame_program[frame], G_FIRST] + depth
            has, knows, looked = ALL, ALL, candidates
            if eddy is not None and frame_program[frame] < n:
                step = hops[depth, eddies.H_STEP]
                has = hops[depth, eddies.H_DONE] | modules[step, eddies.M_STREAMS]
                knows = hops[depth, eddies.H_KNOWN]
            target, is_state = steps[step, X_TARGET], steps[step, X_IS_STATE]
            scan, key = steps[step, X_SCAN] != 0, probed[frame, depth]
            latest, expiry = latests[frame, depth], expiries[frame, depth]
            candidate = cursors[frame, depth]
            checks, check_count = steps[step, X_CHECKS], steps[step, X_CHECK_COUNT]
            first_theta, theta_count = steps[step, X_THETAS], steps[step, X_THETA_COUNT]
            if is_state:
                region, stride, mask, oldest = states[target, N_REGION], states[target, N_STRIDE], GREATEST, 0
                chain, field, exact = ENTRY_LINK, ENTRY_KEY, True
                lifetime, rows, alive = 0, 0, 0
            else:
                region, stride = streams[target, S_REGION], streams[target, S_STRIDE]
                mask, oldest = streams[target, S_MASK], streams[target, S_OLDEST]
                chain = 0 if scan else paths[steps[step, X_PATH], P_LINK]
                field, exact = steps[step, X_FIELD], steps[step, X_KEY_COUNT] == 1
                lifetime, rows = streams[target, S_LIFETIME], streams[target, S_ROWS]
                alive = streams[target, S_PREFIX] + ALIVE
            reached, lasting = latest, expiry
            found = False
            while candidate >= oldest and not found:
                word = region + (candidate & mask) * stride
                sequence = candidate
                candidate = candidate - 1 if scan else mem[word + chain]
                candidates += 1
                if exact and mem[word + field] != key:
                    continue
                reached = mem[word + T]  # of an entry just as of a base tuple
                if is_state:
                    lasting = mem[word + ENTRY_EXPIRY]
                elif lifetime < FOREVER:
                    lasting = reached + lifetime
                elif rows > 0 and mem[word + alive] != JOINING:
                    continue
                else:
                    lasting = FOREVER
                reached, lasting = max(latest, reached), min(expiry, lasting)
                if reached >= lasting:
                    continue
                if is_state:
                    first = states[target, N_ROWS]
                    if not _components_alive(mem, streams, lists, word, first, states[target, N_ROWS_COUNT]):
                        continue
                    first = states[target, N_COMPONENTS]
                    for i in range(states[target, N_COMPONENT_COUNT]):
                        bound[frame, lists[first + i]] = mem[word + COMPONENTS + i]
                else:
                    bound[frame, target] = sequence
                found = True
                for i in range(checks, checks + 3 * check_count, 3):
                    if eddy is not None and not (knows >> lists[i]) & 1:
                        continue
                    if _code_of(mem, streams, bound, frame, lists[i + 1], lists[i + 2]) != code[frame, lists[i]]:
                        found = False
                        break
                if found:
                    for i in range(first_theta, first_theta + theta_count):
                        if eddy is not None and not (
                            (has >> thetas[lists[i], H_LEFT]) & (has >> thetas[lists[i], H_RIGHT]) & 1
                        ):
                            continue
                        if not _theta_holds(
                            mem, floats, streams, thetas, integer_offsets, float_offsets, bound, frame, lists[i]
                        ):
                            found = False
                            break
            if eddy is not None and frame_program[frame] < n:
                seen[step, eddies.V_CANDIDATES] += candidates - looked
                seen[step, eddies.V_MATCHES] += found
            if found:
                cursors[frame, depth] = candidate
                latests[frame, depth + 1] = reached
                expiries[frame, depth + 1] = lasting
                binds = steps[step, X_BINDS]
                for i in range(binds, binds + 3 * steps[step, X_BIND_COUNT], 3):
                    code[frame, lists[i]] = _code_of(mem, streams, bound, frame, lists[i + 1], lists[i + 2])
                phase = ACT
                if feedback is not None and frame_program[frame] < n:
                    met[depth] = 1
                    if places[n + step, fb.L_SITE_COUNT] > 0:
                        spot, phase = depth, JUDGE
            elif (
                feedback is not None
                and frame_program[frame] < n
                and met[depth] == 0
                and places[n + step, fb.L_ASKED_COUNT] > 0
            ):
                met[depth] = 1
                phase = ASK
            elif depth > 0:
                depth -= 1
            elif frame > 0:
                # The key is complete: live from now on; open the probe that asked for it again, if one did.
                target, key = frame_state[frame], frame_key[frame]
                slot = find(mem, states[target, N_DIRECTORY], states[target, N_DIRECTORY_MASK], key)
                if mem[slot + 1] == ABSENT:
                    states[target, N_LIVE] += 1
                mem[slot] = key
                mem[slot + 1] = (clock << STATUS_BITS) | LIVE
                frame -= 1
                depth = frame_depth[frame]
                phase = OPEN if depth >= 0 else FETCH
            else:
                phase = FETCH

        elif feedback is not None and phase == JUDGE:
            # Is there a demand for what was found? If not, it goes no further.
            here = frame_program[0] if spot < 0 else programs[frame_program[0], G_FIRST] + depth
            if eddy is not None and spot >= 0:
                here = hops[depth, eddies.H_STEP]
            here += n if spot >= 0 else 0
            phase = OPEN if spot < 0 else ACT
            first = places[here, fb.L_SITES]
            for site in range(first, first + places[here, fb.L_SITE_COUNT]):
                if not sites[site, fb.W_IS_USED]:
                    continue
                demand = sites[site, fb.W_DEMAND]
                sites[site, fb.W_LOOKS] += 1
                if demands[demand, fb.D_STATE] >= 0:
                    verdict = fb.DEMANDED
                    if _is_empty(mem, tables, demands[demand, fb.D_STATE], watermark):
                        verdict = fb.WANTING
                elif demands[demand, fb.D_IS_FILTERED]:
                    verdict = fb.WANTING if fb.lacks(mem, lists, demands, filters, demand, code) else fb.DEMANDED
                else:
                    key = hash_codes(code, 0, lists, demands[demand, fb.D_KEY], demands[demand, fb.D_KEY_COUNT])
                    word = fb.slot_of(mem, demands, demand, key)
                    verdict = fb.recall(mem, streams, S_NEXT, paths, lists, demands, demand, word, code, watermark)
                    if verdict == fb.OUTDATED:
                        verdict = _examine(
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
                            demands,
                            tally,
                            counters,
                            demand,
                            word,
                            key,
                            watermark,
                        )
                if verdict == fb.WANTING:
                    sites[site, fb.W_STOPS] += 1
                    tally[fb.T_UNPROBED] += 1
                    tally[fb.T_WITHHELD] += spot >= 0
                    fb.leave_gaps(mem, lists, sites, gaps, tally, code, site, clock)
                    phase = SCAN
                    if spot < 0:
                        phase = FETCH
                        if demands[demand, fb.D_IS_FINAL]:
                            _forget_newest(mem, streams, paths, lists, frame_program[0])
                    break

        elif feedback is not None and phase == ASK:
            # The probe at this depth has found nothing: which part of the tuple has no partner (JIT IV-A)?
            step = programs[frame_program[0], G_FIRST] + depth
            if eddy is not None:
                step = hops[depth, eddies.H_STEP]
            first = places[n + step, fb.L_ASKED]
            stopping, size = -1, 0
            back = depth
            for i in range(first, first + places[n + step, fb.L_ASKED_COUNT]):
                site = lists[i]
                if not sites[site, fb.W_IS_USED]:
                    continue
                if stopping >= 0 and sites[site, fb.W_SIZE] > size:
                    break  # not minimal
                at = sites[site, fb.W_DEPTH]
                if eddy is not None and at >= 0:
                    at = depth
                    for d in range(depth):
                        if hops[d, eddies.H_STEP] == sites[site, fb.W_STEP]:
                            at = d
                if at >= back:
                    continue
                demand = sites[site, fb.W_DEMAND]
                key = hash_codes(code, 0, lists, demands[demand, fb.D_KEY], demands[demand, fb.D_KEY_COUNT])
                word = fb.slot_of(mem, demands, demand, key)
                verdict = fb.recall(mem, streams, S_NEXT, paths, lists, demands, demand, word, code, watermark)
                if verdict != fb.DEMANDED and verdict != fb.WANTING:
                    verdict = _examine(
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
                        demands,
                        tally,
                        counters,
                        demand,
                        word,
                        key,
                        watermark,
                    )
                if verdict == fb.WANTING:
                    stopping, back, size = site, at, sites[site, fb.W_SIZE]
            phase = SCAN
            if stopping >= 0:
                fb.leave_gaps(mem, lists, sites, gaps, tally, code, stopping, clock)
                if back < 0:
                    phase = FETCH
                depth = max(0, back)

        else:
            # 4. Store or emit; never both, for the root keeps no state.
            program = frame_program[frame]
            last = depth + 1 == programs[program, G_STEPS]
            target = steps[programs[program, G_FIRST] + depth, X_STORES] if depth >= 0 else -1
            if eddy is not None and program < n and depth >= 0:
                target = eddies.land(modules, climbs, hops, program, depth)
                last = hops[depth + 1, eddies.H_DONE] == (1 << n) - 1
            if target >= 0:
                key = hash_codes(code, frame, lists, states[target, N_KEY], states[target, N_KEY_COUNT])
                wanted = last or states[target, N_COMPLETE] != INCOMPLETE
                if not wanted:
                    slot = find(mem, states[target, N_DIRECTORY], states[target, N_DIRECTORY_MASK], key)
                    wanted = mem[slot + 1] != ABSENT and mem[slot + 1] != SUSPENDED
                if wanted:
                    count = states[target, N_COUNT]
                    if count == states[target, N_CAPACITY]:
                        stop, store = STATE_FULL, target
                        break
                    word = states[target, N_REGION] + count * states[target, N_STRIDE]
                    mem[word + ENTRY_T] = latests[frame, depth + 1]
                    mem[word + ENTRY_EXPIRY] = expiries[frame, depth + 1]
                    mem[word + ENTRY_KEY] = key
                    head = states[target, N_HEADS] + (key & states[target, N_MASK])
                    mem[word + ENTRY_LINK] = mem[head]
                    mem[head] = count
                    first = states[target, N_COMPONENTS]
                    for i in range(states[target, N_COMPONENT_COUNT]):
                        mem[word + COMPONENTS + i] = bound[frame, lists[first + i]]
                    states[target, N_COUNT] = count + 1
                    stored += 1
            elif last:
                if outputs == room:
                    stop = OUTPUT_FULL
                    break
                output[0, outputs] = latests[0, depth + 1]
                output[1, outputs] = expiries[0, depth + 1]
                for s in range(n):
                    output[2 + s, outputs] = _code_of(mem, streams, bound, 0, s, ROW)
                outputs += 1
                results += 1
                if depth < 0:
                    phase = FETCH
                    continue
            if last:
                phase = SCAN
            else:
                depth += 1
                phase = OPEN
                if eddy is not None and program < n:
                    eddies.send(modules, eddy_heads, climbs, order, hops, temper, program, depth)

    registers[R_FRAME], registers[R_DEPTH], registers[R_PHASE] = frame, depth, phase
    registers[R_OUTPUTS], registers[R_DEATHS], registers[R_WATERMARK] = outputs, died, watermark
    counters[C_TUPLES] += taken
    counters[C_PROBES] += probes
    counters[C_CANDIDATES] += candidates
    counters[C_STORED] += stored
    counters[C_COMPLETIONS] += completions
    counters[C_RESULTS] += results
    return stop, store


@_jit
def run_straight(
    mem: Int64s,
    streams: Int64s,
    paths: Int64s,
    programs: Int64s,
    registers: Int64s,
    tuples: Int64s,
    place: Int64s,
    output: Int64s,
    counters: Int64s,
    horizon: int,
    timed: bool,
    limit: int,
) -> tuple[int, int]:
    """What :func:`run` does, for programs that only look up base RANGE windows by one key: an M-Join in a tight loop.

    Each window is looked up once per tuple, not once per partial result. The heads of one key lie
    side by side, so one look tells if some window has no partner. The memory is that of the general
    machine, so either can go on where the other stopped; a tuple with more combinations of partners
    than the output could ever hold is CROWDED, and left to the other.

    Args are those of :func:`run`, without the tables that no such program needs. Unless results
    are to be ``timed``, those of tuples in order come without time and expiry.
    """
    n, room = streams.shape[0], output.shape[1]
    region, mask, stride = streams[:, S_REGION].copy(), streams[:, S_MASK].copy(), streams[:, S_STRIDE].copy()
    oldest, following, lifetime = streams[:, S_OLDEST].copy(), streams[:, S_NEXT].copy(), streams[:, S_LIFETIME].copy()
    path = streams[:, S_PATH]
    heads, head_mask, span = paths[path, P_HEADS], paths[path, P_MASK], paths[path, P_SPAN]
    chain, field = paths[path, P_LINK], programs[:n, G_STRAIGHT].copy()
    at, end = place[:, 0].copy(), place[:, 1].copy()
    coming = np.full(n, FOREVER)
    for s in range(n):
        if at[s] < end[s]:
            coming[s] = tuples[at[s]]
    met_row = np.empty((n, MEETINGS), np.int64)
    met_time, met_expiry = np.empty((n, MEETINGS), np.int64), np.empty((n, MEETINGS), np.int64)
    candidates, met = np.zeros(n, np.int64), np.zeros(n, np.int64)
    outputs, watermark = registers[R_OUTPUTS], registers[R_WATERMARK]
    in_order = horizon == FOREVER
    taken, looked, results = 0, 0, 0
    stop, store = FINISHED, 0
    while taken < limit:
        s, now = 0, coming[0]
        for x in range(1, n):
            if coming[x] < now:
                s, now = x, coming[x]
        if now == FOREVER:
            break
        new, prefix = at[s], streams[s, S_PREFIX]
        soon = new + LOOK_AHEAD * prefix
        if soon < end[s]:
            prefetch(mem, heads[s] + (tuples[soon + field[s]] & head_mask[s]) * span[s])
        watermark = max(watermark, min(now, horizon))
        if tuples[new + ROW] >= 0:
            # 1. Purge.
            first, sequence, life = oldest[s], following[s], lifetime[s]
            start, wrap, step = region[s], mask[s], stride[s]
            while first < sequence and life < FOREVER and mem[start + (first & wrap) * step + T] + life <= watermark:
                first += 1
            oldest[s] = first
            if sequence - first > wrap:
                stop, store = WINDOW_FULL, s
                break
            expiry = now + life if life < FOREVER else FOREVER
            # 2. Probe.
            key = tuples[new + field[s]]
            missing = 0
            for x in range(n):
                candidates[x] = mem[heads[x] + (key & head_mask[x]) * span[x]]
                missing += (candidates[x] < oldest[x]) & (x != s)
            if missing == 0:
                combinations = 1
                for x in range(n):
                    if x == s:
                        continue
                    candidate, count = candidates[x], 0
                    while candidate >= oldest[x]:
                        word = region[x] + (candidate & mask[x]) * stride[x]
                        candidate = mem[word + chain[x]]
                        looked += 1
                        if mem[word + field[x]] == key:
                            since = mem[word + T]
                            until = since + lifetime[x] if lifetime[x] < FOREVER else FOREVER
                            if max(now, since) < min(expiry, until):
                                if count == MEETINGS:
                                    combinations = room + 1
                                    break
                                met_row[x, count] = mem[word + ROW]
                                met_time[x, count] = since
                                met_expiry[x, count] = until
                                count += 1
                    met[x] = count
                    combinations *= count
                    if combinations == 0 or combinations > room:
                        break
                if combinations > room - outputs:
                    stop = OUTPUT_FULL if combinations <= room else CROWDED
                    break
                if combinations > 0:
                    met_row[s, 0], met_time[s, 0], met_expiry[s, 0], met[s] = tuples[new + ROW], now, expiry, 1
                    filled = outputs + combinations
                    repeat = combinations
                    if in_order and not timed:
                        for x in range(n):
                            repeat //= met[x]
                            r = outputs
                            while r < filled:
                                for i in range(met[x]):
                                    for _ in range(repeat):
                                        output[2 + x, r] = met_row[x, i]
                                        r += 1
                    else:
                        for r in range(outputs, filled):
                            output[0, r], output[1, r] = now, expiry
                        for x in range(n):
                            repeat //= met[x]
                            r = outputs
                            while r < filled:
                                for i in range(met[x]):
                                    for _ in range(repeat):
                                        output[0, r] = max(output[0, r], met_time[x, i])
                                        output[1, r] = min(output[1, r], met_expiry[x, i])
                                        output[2 + x, r] = met_row[x, i]
                                        r += 1
                    if in_order:
                        outputs = filled
                        results += combinations
                    else:
                        for r in range(outputs, filled):
                            if output[0, r] < output[1, r]:
                                for i in range(n + 2):
                                    output[i, outputs] = output[i, r]
                                outputs += 1
                                results += 1
            # 3. Insert.
            word = start + (sequence & wrap) * step
            for i in range(prefix):
                mem[word + i] = tuples[new + i]
            following[s] = sequence + 1
            mem[word + chain[s]] = candidates[s]
            mem[heads[s] + (key & head_mask[s]) * span[s]] = sequence
        at[s] = new + prefix
        coming[s] = tuples[at[s]] if at[s] < end[s] else FOREVER
        taken += 1
    for s in range(n):
        streams[s, S_OLDEST], streams[s, S_NEXT], place[s, 0] = oldest[s], following[s], at[s]
    registers[R_OUTPUTS], registers[R_WATERMARK] = outputs, watermark
    counters[C_TUPLES] += taken
    counters[C_PROBES] += taken * (n - 1)
    counters[C_CANDIDATES] += looked
    counters[C_RESULTS] += results
    return stop, store


@_jit
def complete(
    mem: Int64s,
    floats: Float64s,
    tables: Tables,
    frames: Frames,
    inbox: Inbox,
    output: Int64s,
    deaths: Int64s,
    counters: Int64s,
    horizon: int,
    target: int,
    codes: Int64s,
    done: int,
) -> tuple[int, int, int]:
    """Complete keys of a state between two tuples; (what it stopped for, which store, how many keys were begun).

    Args are those of :func:`run`; ``codes`` has a row per key, with the code of each class of the state's key, and
    the first ``done`` of them were begun before: a key that the machine stopped in is gone on with.

    """
    registers = frames.registers
    first = tables.states[target, N_KEY]
    while True:
        stop, store = run(mem, floats, tables, frames, inbox, output, deaths, counters, horizon, 0)
        if stop != FINISHED or done == codes.shape[0]:
            return stop, store, done
        if 2 * (tables.states[target, N_LIVE] + 1) > tables.states[target, N_DIRECTORY_MASK]:
            return DIRECTORY_FULL, target, done  # a memory limit may have taken room away again
        frames.depth[0] = -1  # no probe waits below
        frames.program[1] = tables.streams.shape[0] + target
        frames.state[1] = target
        for i in range(codes.shape[1]):
            frames.code[1, tables.lists[first + i]] = codes[done, i]
        frames.key[1] = hash_codes(frames.code, 1, tables.lists, first, codes.shape[1])
        frames.latest[1, 0] = registers[R_WATERMARK]
        frames.expiry[1, 0] = FOREVER
        registers[R_FRAME], registers[R_DEPTH], registers[R_PHASE] = 1, 0, OPEN
        counters[C_COMPLETIONS] += 1
        done += 1


@_jit
def _key_of(mem: Int64s, word: int, fields: Int64s) -> int:
    """The key that a base tuple's codes in these fields hash to."""
    if len(fields) == 0:
        return 0
    key = mem[word + fields[0]]
    for i in range(1, len(fields)):
        key = rotate(key) ^ mem[word + fields[i]]
    return key


@_jit
def renew_filters(mem: Int64s, tables: Tables, filters: Int64s, watermark: int) -> None:
    """Build all Bloom filters anew."""
    for row in range(filters.shape[0]):
        _renew_filter(mem, tables.streams, tables.lists, filters, row, watermark)


@_jit
def absent_keys(
    mem: Int64s,
    tables: Tables,
    index: int,
    stream: int,
    fields: Int64s,
    watermark: int,
    found: Int64s,
    places: Int64s,
    patience: int,
) -> int:
    """Find the keys that a base window has and a state has not live; returns how many there are, at most.

    -1: after ``patience`` tuples there seem to be far more than that (0: it has no end).

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

    """
    row, state = tables.streams[stream], tables.states[index]
    mask, count, last = len(places) - 1, 0, row[S_NEXT] - 1
    for sequence in range(last, row[S_OLDEST] - 1, -1):
        if last - sequence == patience > 0 and count * (last - row[S_OLDEST]) > 2 * found.shape[0] * patience:
            return -1
        word = row[S_REGION] + (sequence & row[S_MASK]) * row[S_STRIDE]
        if _is_over(mem, tables.streams, stream, word, watermark):
            continue
        key = _key_of(mem, word, fields)
        if mem[find(mem, state[N_DIRECTORY], state[N_DIRECTORY_MASK], key) + 1] != ABSENT:
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


@_jit
def move_keys(mem: Int64s, tables: Tables, index: int, directory: int, mask: int) -> None:
    """Move the live keys of a state to a larger directory, each with its status."""
    state = tables.states[index]
    old = state[N_DIRECTORY]
    for word in range(old, old + (state[N_DIRECTORY_MASK] + 1) * DIRECTORY_FIELDS, DIRECTORY_FIELDS):
        if mem[word + 1] != ABSENT:
            slot = find(mem, directory, mask, mem[word])
            mem[slot] = mem[word]
            mem[slot + 1] = mem[word + 1]
    state[N_DIRECTORY], state[N_DIRECTORY_MASK] = directory, mask


@_jit
def renew_keys(
    mem: Int64s, tables: Tables, index: int, directory: int, mask: int, stream: int, fields: Int64s, watermark: int
) -> None:
    """Move the live keys of a state to another directory, without those that nothing has any more.

    A live key without entries is worth remembering only as long as a tuple to come could find a partner for it in
    the base window of ``stream``, which carries the whole key (-1: none does). A key that is forgotten is absent:
    completing it again finds what there is by then, and the directory stays bounded, however many keys were asked for.
    """
    row, state = tables.streams[stream], tables.states[index]
    old, old_mask, region, stride = state[N_DIRECTORY], state[N_DIRECTORY_MASK], state[N_REGION], state[N_STRIDE]
    entries = state[N_COUNT]
    tuples = row[S_NEXT] - row[S_OLDEST] if stream >= 0 else 0
    live = 0
    for i in range(entries + tuples):
        if i < entries:
            key = mem[region + i * stride + ENTRY_KEY]
        else:
            sequence = row[S_OLDEST] + i - entries
            word = row[S_REGION] + (sequence & row[S_MASK]) * row[S_STRIDE]
            if _is_over(mem, tables.streams, stream, word, watermark):
                continue
            key = _key_of(mem, word, fields)
        slot = find(mem, directory, mask, key)
        status = mem[find(mem, old, old_mask, key) + 1]
        if mem[slot + 1] == ABSENT and status != ABSENT and status != SUSPENDED:
            mem[slot] = key
            mem[slot + 1] = status
            live += 1
    state[N_DIRECTORY], state[N_DIRECTORY_MASK], state[N_LIVE] = directory, mask, live


@_jit
def evict(mem: Int64s, tables: Tables, frames: Frames, index: int, directory: int, mask: int, most: int) -> None:
    """Make cold keys of a state absent until it has about ``most`` entries; the other keys move to a new directory.

    Cold is a key that nothing has probed since this was last done; if that does not free enough, so are keys
    whose entries are old. (Of a complete state nothing is known but that.) A key that is being completed keeps what it
    has: it is not live yet, and nobody would complete it a second time.
    """
    state = tables.states[index]
    region, stride, count = state[N_REGION], state[N_STRIDE], state[N_COUNT]
    is_complete = state[N_COMPLETE] == COMPLETE
    has_guest, guest = False, 0
    for frame in range(1, frames.registers[R_FRAME] + 1):
        if frames.state[frame] == index:
            has_guest, guest = True, frames.key[frame]
    kept, live = 0, 0
    for entry in range(count - 1, -1, -1):
        key = mem[region + entry * stride + ENTRY_KEY]
        if has_guest and key == guest:
            kept += 1
            continue
        slot = find(mem, directory, mask, key)
        status = LIVE if is_complete else mem[find(mem, state[N_DIRECTORY], state[N_DIRECTORY_MASK], key) + 1]
        is_warm = is_complete or status & STATUS == TOUCHED
        if is_warm and mem[slot + 1] == ABSENT and kept < most and 2 * (live + 1) < mask:
            mem[slot] = key
            mem[slot + 1] = status & ~STATUS | LIVE
            live += 1
        if mem[slot + 1] != ABSENT:
            kept += 1
    kept = 0
    for entry in range(count):
        word = region + entry * stride
        key = mem[word + ENTRY_KEY]
        if (has_guest and key == guest) or mem[find(mem, directory, mask, key) + 1] != ABSENT:
            for i in range(stride):
                mem[region + kept * stride + i] = mem[word + i]
            kept += 1
    state[N_COUNT], state[N_LIVE] = kept, live
    state[N_DIRECTORY], state[N_DIRECTORY_MASK] = directory, mask
    relink(mem, tables, index)


@_jit
def sweep(mem: Int64s, tables: Tables, index: int, watermark: int) -> None:
    """Drop the expired entries of a state; its keys keep their status."""
    states = tables.states
    state = states[index]
    region, stride = state[N_REGION], state[N_STRIDE]
    kept = 0
    for entry in range(state[N_COUNT]):
        word = region + entry * stride
        if mem[word + ENTRY_EXPIRY] > watermark and (
            state[N_ROWS_COUNT] == 0
            or _components_alive(mem, tables.streams, tables.lists, word, state[N_ROWS], state[N_ROWS_COUNT])
        ):
            if kept != entry:
                into = region + kept * stride
                for i in range(stride):
                    mem[into + i] = mem[word + i]
            kept += 1
    states[index, N_COUNT] = kept
    relink(mem, tables, index)


@_jit
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
            at = gaps[index, fb.O_CARRIERS] + 4 * i
            stream = lists[at + 1]
            frames.bound[frame, stream] = mem[word + lists[at + 2]]
            frames.code[frame, lists[at]] = _code_of(mem, tables.streams, frames.bound, frame, stream, lists[at + 3])
        if fb.has_gap(mem, lists, gaps, index, frames.code, frame, status >> STATUS_BITS):
            mem[word + ENTRY_EXPIRY] = NEVER
            continue
        slot = find(mem, directory, mask, key)
        if mem[slot + 1] == ABSENT:
            mem[slot], mem[slot + 1] = key, status
            live += 1
    state[N_DIRECTORY], state[N_DIRECTORY_MASK], state[N_LIVE] = directory, mask, live
    sweep(mem, tables, index, watermark)


@_jit
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


@_jit
def count_before(mem: Int64s, tables: Tables, rows: Int64s, watermark: int) -> int:
    """Walk through all windows and states for tuples with a lesser row number than that of their stream in ``rows``.

    Returns how many tuples of base windows, and entries of states that hold one, are not over.
    """
    streams, states, lists = tables.streams, tables.states, tables.lists
    count = 0
    for s in range(streams.shape[0]):
        for sequence in range(streams[s, S_OLDEST], streams[s, S_NEXT]):
            word = streams[s, S_REGION] + (sequence & streams[s, S_MASK]) * streams[s, S_STRIDE]
            if not _is_over(mem, streams, s, word, watermark) and mem[word + ROW] < rows[s]:
                count += 1
    for index in range(states.shape[0]):
        for entry in range(states[index, N_COUNT]):
            word = states[index, N_REGION] + entry * states[index, N_STRIDE]
            if mem[word + ENTRY_EXPIRY] <= watermark or not _components_alive(
                mem, streams, lists, word, states[index, N_ROWS], states[index, N_ROWS_COUNT]
            ):
                continue
            first = states[index, N_COMPONENTS]
            for i in range(states[index, N_COMPONENT_COUNT]):
                s = lists[first + i]
                slot = (mem[word + COMPONENTS + i] & streams[s, S_MASK]) * streams[s, S_STRIDE]
                if mem[streams[s, S_REGION] + slot + ROW] < rows[s]:
                    count += 1
                    break
    return count


@_jit
def relink(mem: Int64s, tables: Tables, index: int) -> None:
    """Build the hash chains of a state anew."""
    state = tables.states[index]
    region, stride, heads, mask = state[N_REGION], state[N_STRIDE], state[N_HEADS], state[N_MASK]
    for word in range(heads, heads + mask + 1):
        mem[word] = -1
    for entry in range(state[N_COUNT]):
        word = region + entry * stride
        head = heads + (mem[word + ENTRY_KEY] & mask)
        mem[word + ENTRY_LINK] = mem[head]
        mem[head] = entry


@_jit
def relink_path(mem: Int64s, tables: Tables, stream: int, path: int) -> None:
    """Build an access path of a base window anew."""
    row = tables.streams[stream]
    heads, span = tables.paths[path, P_HEADS], tables.paths[path, P_SPAN]
    for i in range(tables.paths[path, P_MASK] + 1):
        mem[heads + i * span] = -1
    for sequence in range(row[S_OLDEST], row[S_NEXT]):
        word = row[S_REGION] + (sequence & row[S_MASK]) * row[S_STRIDE]
        if mem[word + ROW] >= 0:
            _link(mem, tables.paths, tables.lists, path, word, sequence)


@_jit
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


@_jit
def key_entries(entries: Int64s, codes: Int64s, lists: Int64s, start: int, count: int) -> None:
    """Set the keys of entries from the codes of their attribute classes, a row each."""
    for i in range(entries.shape[0]):
        entries[i, ENTRY_KEY] = hash_codes(codes, i, lists, start, count)
