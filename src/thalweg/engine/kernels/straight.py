"""The M-Join of one key over RANGE windows, and nothing else asked: the same memory in a loop of its own."""

from __future__ import annotations

import numpy as np

from thalweg.engine.instants import FOREVER
from thalweg.engine.kernels.compiled import Int64s, jit
from thalweg.engine.kernels.prefetch import prefetch
from thalweg.engine.kernels.tables import (
    C_CANDIDATES,
    C_PROBES,
    C_RESULTS,
    C_TUPLES,
    CROWDED,
    FINISHED,
    G_STRAIGHT,
    OUTPUT_FULL,
    P_HEADS,
    P_LINK,
    P_MASK,
    P_SPAN,
    R_OUTPUTS,
    R_WATERMARK,
    ROW,
    S_LIFETIME,
    S_MASK,
    S_NEXT,
    S_OLDEST,
    S_PATH,
    S_PREFIX,
    S_REGION,
    S_STRIDE,
    WINDOW_FULL,
    T,
)

MEETINGS = 64
"""Partners of one window that a straight program looks at together."""
LOOK_AHEAD = 2
"""How many tuples of its stream before its turn the cache line that a tuple will look up is asked for."""


@jit
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
