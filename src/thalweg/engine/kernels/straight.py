"""The M-Join of one key over RANGE windows, and nothing else asked: the same memory in a loop of its own."""

from __future__ import annotations

import numpy as np

from thalweg.engine.kernels import tables as k
from thalweg.engine.kernels.compiled import Int64s, allocating
from thalweg.engine.kernels.prefetch import prefetch
from thalweg.engine.time_bounds import FOREVER

MEETINGS = 64
"""Partners of one window that a straight program looks at together."""
LOOK_AHEAD = 2
"""How many tuples of its stream before its turn the cache line that a tuple will look up is asked for."""


@allocating
def run_straight(
    mem: Int64s,
    streams: Int64s,
    paths: Int64s,
    steps: Int64s,
    work: Int64s,
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

    Args are those of :func:`run`, without the tables that no such program needs. Unless results are to be ``timed``,
    those of tuples in order come without time and expiry. (Results with ages are timed.)
    """
    n, room = streams.shape[0], output.shape[1]
    region, mask, stride = streams[:, k.S_REGION].copy(), streams[:, k.S_MASK].copy(), streams[:, k.S_STRIDE].copy()
    oldest, following, lifetime = (
        streams[:, k.S_OLDEST].copy(),
        streams[:, k.S_NEXT].copy(),
        streams[:, k.S_LIFETIME].copy(),
    )
    path = streams[:, k.S_PATH]
    heads, head_mask, span = paths[path, k.P_HEADS], paths[path, k.P_MASK], paths[path, k.P_SPAN]
    chain, field = paths[path, k.P_LINK], programs[:n, k.G_STRAIGHT].copy()
    at, end = place[:, 0].copy(), place[:, 1].copy()
    is_aged = output.shape[0] > 2 + n
    coming = np.full(n, FOREVER)
    for s in range(n):
        if at[s] < end[s]:
            coming[s] = tuples[at[s]]
    met_row = np.empty((n, MEETINGS), np.int64)
    met_time, met_expiry = np.empty((n, MEETINGS), np.int64), np.empty((n, MEETINGS), np.int64)
    candidates, met = np.zeros(n, np.int64), np.zeros(n, np.int64)
    arrived, looked_at = np.zeros(n, np.int64), np.zeros((n, n), np.int64)
    outputs, watermark = registers[k.R_OUTPUTS], registers[k.R_WATERMARK]
    in_order = horizon == FOREVER
    taken = 0
    results = np.zeros(n, np.int64)
    stop, store = k.FINISHED, 0
    while taken < limit:
        s, now = 0, coming[0]
        for x in range(1, n):
            if coming[x] < now:
                s, now = x, coming[x]
        if now == FOREVER:
            break
        new, prefix, offered = at[s], streams[s, k.S_PREFIX], streams[s, k.S_OFFERED]
        soon = new + LOOK_AHEAD * offered
        if soon < end[s]:
            prefetch(mem, heads[s] + (tuples[soon + field[s]] & head_mask[s]) * span[s])
        watermark = max(watermark, min(now, horizon))
        if tuples[new + streams[s, k.S_OFFERED_MASK]] != 0:
            # 1. Purge.
            first, sequence, life = oldest[s], following[s], lifetime[s]
            start, wrap, step = region[s], mask[s], stride[s]
            while first < sequence and life < FOREVER and mem[start + (first & wrap) * step + k.T] + life <= watermark:
                first += 1
            oldest[s] = first
            if sequence - first > wrap:
                stop, store = k.WINDOW_FULL, s
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
                    candidate, count, looked = candidates[x], 0, 0
                    while candidate >= oldest[x]:
                        word = region[x] + (candidate & mask[x]) * stride[x]
                        candidate = mem[word + chain[x]]
                        looked += 1
                        if mem[word + field[x]] == key:
                            since = mem[word + k.T]
                            until = since + lifetime[x] if lifetime[x] < FOREVER else FOREVER
                            if max(now, since) < min(expiry, until):
                                if count == MEETINGS:
                                    combinations = room + 1
                                    break
                                met_row[x, count] = mem[word + k.ROW]
                                met_time[x, count] = since
                                met_expiry[x, count] = until
                                count += 1
                    looked_at[s, x] += looked
                    met[x] = count
                    combinations *= count
                    if combinations == 0 or combinations > room:
                        break
                if combinations > room - outputs:
                    stop = k.OUTPUT_FULL if combinations <= room else k.CROWDED
                    break
                if combinations > 0:
                    met_row[s, 0], met_time[s, 0], met_expiry[s, 0], met[s] = tuples[new + k.ROW], now, expiry, 1
                    filled = outputs + combinations
                    repeat = combinations
                    if is_aged:
                        for x in range(n):
                            repeat //= met[x]
                            r = outputs
                            while r < filled:
                                for i in range(met[x]):
                                    for _ in range(repeat):
                                        output[3 + n + x, r] = met_time[x, i]
                                        r += 1
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
                    begun = outputs
                    if in_order:
                        outputs = filled
                        results[s] += combinations
                    else:
                        for r in range(outputs, filled):
                            if output[0, r] < output[1, r]:
                                for i in range(output.shape[0]):
                                    output[i, outputs] = output[i, r]
                                outputs += 1
                                results[s] += 1
                    if is_aged:
                        for r in range(begun, outputs):
                            output[2 + n, r] = k.ALL
                            for x in range(n):
                                output[3 + n + x, r] = output[0, r] - output[3 + n + x, r]
            # 3. Insert.
            word = start + (sequence & wrap) * step
            for i in range(prefix):
                mem[word + i] = tuples[new + i]
            following[s] = sequence + 1
            mem[word + chain[s]] = candidates[s]
            mem[heads[s] + (key & head_mask[s]) * span[s]] = sequence
        at[s] = new + offered
        coming[s] = tuples[at[s]] if at[s] < end[s] else FOREVER
        arrived[s] += 1
        taken += 1
    for s in range(n):
        streams[s, k.S_OLDEST], streams[s, k.S_NEXT], place[s, 0] = oldest[s], following[s], at[s]
    registers[k.R_OUTPUTS], registers[k.R_WATERMARK] = outputs, watermark
    counters[k.C_TUPLES] += taken
    for s in range(n):
        first = programs[s, k.G_FIRST]
        for step in range(first, first + n - 1):
            work[step, k.W_ENTERED] += arrived[s]
            work[step, k.W_CANDIDATES] += looked_at[s, steps[step, k.X_TARGET]]
        work[first + n - 1, k.W_ENTERED] += results[s]
    return stop, store
