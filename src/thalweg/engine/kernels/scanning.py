"""Going through the candidates of a probe: the one loop in which joins find their partners.

New tuples, the completion of keys and the search for a partner that feedback asks for all come through here. A probe
has a place (frame, depth) in :class:`Frames`: its instruction, the key it looks up, the next candidate.
"""

from __future__ import annotations

from thalweg.engine.kernels import tables as k
from thalweg.engine.kernels.compiled import Float64s, Int64s, inlined
from thalweg.engine.kernels.predicates import code_of, theta_holds
from thalweg.engine.kernels.prefetch import prefetch
from thalweg.engine.kernels.states import components_alive, is_older
from thalweg.engine.time_bounds import FOREVER


@inlined
def newest(mem: Int64s, tables: k.Tables, step: int, key: int) -> int:
    """The first candidate of a probe: chains and scans go from new to old."""
    target = tables.steps[step, k.X_TARGET]
    if tables.steps[step, k.X_IS_STATE]:
        states = tables.states
        if tables.steps[step, k.X_SCAN]:
            return states[target, k.N_COUNT] - 1
        return mem[states[target, k.N_HEADS] + (key & states[target, k.N_MASK])]
    if tables.steps[step, k.X_SCAN]:
        return tables.streams[target, k.S_NEXT] - 1
    path, paths = tables.steps[step, k.X_PATH], tables.paths
    return mem[paths[path, k.P_HEADS] + (key & paths[path, k.P_MASK]) * paths[path, k.P_SPAN]]


@inlined
def scan(
    mem: Int64s,
    floats: Float64s,
    tables: k.Tables,
    frames: k.Frames,
    frame: int,
    depth: int,
    has: int,
    knows: int,
) -> bool:
    """Go on to the next match of the probe at a depth; whether there is one.

    Then its components and codes are bound, and time, expiry and mask of the tuple so far are told for the depth below.

    ``has``, ``knows``: the streams and classes, as bits, that the tuple has with this match. Predicates and checks of
    others wait: an eddy takes its probes in any order. (ALL: nothing waits.)
    """
    streams, paths, states, steps, work = tables.streams, tables.paths, tables.states, tables.steps, tables.work
    lists, thetas = tables.lists, tables.thetas
    bound, code = frames.bound, frames.code
    step = frames.step[frame, depth]
    target, is_state, birth = steps[step, k.X_TARGET], steps[step, k.X_IS_STATE], frames.birth[frame]
    is_scan, key = steps[step, k.X_SCAN] != 0, frames.probe[frame, depth]
    latest, expiry = frames.latest[frame, depth], frames.expiry[frame, depth]
    candidate = frames.cursor[frame, depth]
    checks, check_count = steps[step, k.X_CHECKS], steps[step, k.X_CHECK_COUNT]
    first_theta, theta_count = steps[step, k.X_THETAS], steps[step, k.X_THETA_COUNT]
    if is_state:
        region, stride, mask, oldest = states[target, k.N_REGION], states[target, k.N_STRIDE], k.GREATEST, 0
        chain, field, exact = k.ENTRY_LINK, k.ENTRY_KEY, True
        lifetime, rows, alive, born = 0, 0, 0, k.GREATEST
        kept_mask = states[target, k.N_KEPT_MASK]
    else:
        region, stride = streams[target, k.S_REGION], streams[target, k.S_STRIDE]
        mask, oldest = streams[target, k.S_MASK], streams[target, k.S_OLDEST]
        born = mem[birth + target] if birth >= 0 else k.GREATEST
        chain = 0 if is_scan else paths[steps[step, k.X_PATH], k.P_LINK]
        field, exact = steps[step, k.X_FIELD], steps[step, k.X_KEY_COUNT] == 1
        lifetime, rows = streams[target, k.S_LIFETIME], streams[target, k.S_ROWS]
        alive = streams[target, k.S_PREFIX] + k.ALIVE
        kept_mask = streams[target, k.S_KEPT_MASK]
    selected = before = frames.mask[frame, depth]
    reached, lasting, looked = latest, expiry, 0
    found = False
    while candidate >= oldest and not found:
        word = region + (candidate & mask) * stride
        sequence = candidate
        candidate = candidate - 1 if is_scan else mem[word + chain]
        looked += 1
        if (exact and mem[word + field] != key) or sequence >= born:
            continue
        reached = mem[word + k.T]  # of an entry just as of a base tuple
        if is_state:
            lasting = mem[word + k.ENTRY_EXPIRY]
        elif lifetime < FOREVER:
            lasting = reached + lifetime
        elif rows > 0 and mem[word + alive] != k.JOINING:
            continue
        else:
            lasting = FOREVER
        reached, lasting = max(latest, reached), min(expiry, lasting)
        if reached >= lasting:
            continue
        if kept_mask > 0:
            selected = before & mem[word + kept_mask]
            if selected == 0:
                continue
        if is_state:
            first = states[target, k.N_ROWS]
            if not components_alive(mem, streams, lists, word, first, states[target, k.N_ROWS_COUNT]):
                continue
            first = states[target, k.N_COMPONENTS]
            if birth >= 0 and not is_older(mem, lists, word, first, states[target, k.N_COMPONENT_COUNT], birth):
                continue
            for i in range(states[target, k.N_COMPONENT_COUNT]):
                bound[frame, lists[first + i]] = mem[word + k.COMPONENTS + i]
        else:
            bound[frame, target] = sequence
        found = True
        for i in range(checks, checks + 3 * check_count, 3):
            if not (knows >> lists[i]) & 1:
                continue
            if code_of(mem, streams, bound, frame, lists[i + 1], lists[i + 2]) != code[frame, lists[i]]:
                found = False
                break
        if found:
            for i in range(first_theta, first_theta + theta_count):
                if not (has >> thetas[lists[i], k.H_LEFT]) & (has >> thetas[lists[i], k.H_RIGHT]) & 1:
                    continue
                if not theta_holds(
                    mem,
                    floats,
                    streams,
                    thetas,
                    tables.integer_offsets,
                    tables.float_offsets,
                    bound,
                    frame,
                    lists[i],
                ):
                    found = False
                    break
    work[step, k.W_CANDIDATES] += looked
    if found:
        frames.cursor[frame, depth] = candidate if candidate >= oldest else -1
        work[step, k.W_MATCHES] += 1
        prefetch(mem, region + (max(candidate, oldest) & mask) * stride)  # it comes before it is needed
        frames.latest[frame, depth + 1] = reached
        frames.expiry[frame, depth + 1] = lasting
        frames.mask[frame, depth + 1] = selected
        binds = steps[step, k.X_BINDS]
        for i in range(binds, binds + 3 * steps[step, k.X_BIND_COUNT], 3):
            code[frame, lists[i]] = code_of(mem, streams, bound, frame, lists[i + 1], lists[i + 2])
    return found
