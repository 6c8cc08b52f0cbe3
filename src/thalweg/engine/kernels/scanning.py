"""Going through the candidates of a probe: the one loop in which joins find their partners.

New tuples, the completion of keys and the search for a partner that feedback asks for all come through here. A probe
has a place (frame, depth) in :class:`Frames`: its instruction, the key it looks up, the next candidate.

A window that serves readers with different selections is a chain of slices (State-Slice 4): rings of tuples that are of
use for the same time. A probe goes through one after the other. In each it goes from new to old, and ends where tuples
are too old for every reader that the tuple so far can still have.
"""

from __future__ import annotations

from thalweg.engine.kernels import accounts as budget
from thalweg.engine.kernels import tables as k
from thalweg.engine.kernels.compiled import Float64s, Int64s, inlined
from thalweg.engine.kernels.predicates import code_of, theta_holds
from thalweg.engine.kernels.prefetch import prefetch
from thalweg.engine.kernels.states import components_alive, is_older
from thalweg.engine.time_bounds import FOREVER


@inlined
def _path_in(tables: k.Tables, step: int, row: int) -> int:
    """The access path that a probe takes in a slice: paths lie in the same order in all slices of a stream."""
    first = tables.streams[tables.steps[step, k.X_TARGET], k.S_PATH]
    return tables.steps[step, k.X_PATH] - first + tables.streams[row, k.S_PATH]


@inlined
def newest(mem: Int64s, tables: k.Tables, step: int, key: int, row: int) -> int:
    """The first candidate of a probe, of a base window in one of its slices: chains and scans go from new to old."""
    target = tables.steps[step, k.X_TARGET]
    if tables.steps[step, k.X_IS_STATE]:
        states = tables.states
        if tables.steps[step, k.X_SCAN]:
            return states[target, k.N_COUNT] - 1
        return mem[states[target, k.N_HEADS] + (key & states[target, k.N_MASK])]
    if tables.steps[step, k.X_SCAN]:
        return tables.streams[row, k.S_NEXT] - 1
    path, paths = _path_in(tables, step, row), tables.paths
    return mem[paths[path, k.P_HEADS] + (key & paths[path, k.P_MASK]) * paths[path, k.P_SPAN]]


@inlined
def _in_next_slice(mem: Int64s, tables: k.Tables, frames: k.Frames, frame: int, depth: int) -> int:
    """Go on to the next slice that has a candidate; the candidate, -1: there is none."""
    step, key, streams = frames.step[frame, depth], frames.probe[frame, depth], tables.streams
    row, candidate = streams[frames.slice[frame, depth], k.S_MORE], -1
    while row >= 0 and candidate < 0:
        frames.slice[frame, depth] = row
        candidate = newest(mem, tables, step, key, row)
        if candidate < streams[row, k.S_OLDEST]:
            candidate = -1
        row = streams[row, k.S_MORE]
    return candidate


@inlined
def reach_of(reach: Int64s, stream: int, mask: int) -> int:
    """How long a tuple of a stream is of use that passes the selections of a mask: its lineage (State-Slice 6)."""
    longest = 0
    for bit in range(reach.shape[1]):
        if (mask >> bit) & 1:
            longest = max(longest, reach[stream, bit])
    return longest


@inlined
def open_scan(mem: Int64s, tables: k.Tables, frames: k.Frames, frame: int, depth: int, step: int, key: int) -> None:
    """Let the candidates of a probe be gone through from the first one on."""
    target, streams = tables.steps[step, k.X_TARGET], tables.streams
    frames.step[frame, depth], frames.probe[frame, depth] = step, key
    candidate = newest(mem, tables, step, key, target)
    if tables.steps[step, k.X_IS_STATE] == 0:
        frames.slice[frame, depth] = target
        if streams[target, k.S_KEPT_MASK] > 0:
            frames.reach[frame, depth] = reach_of(tables.reach, target, frames.mask[frame, depth])
            if candidate < streams[target, k.S_OLDEST]:
                candidate = _in_next_slice(mem, tables, frames, frame, depth)
    frames.cursor[frame, depth] = candidate


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
    accounts: budget.Accounts | None = None,
) -> bool:
    """Go on to the next match of the probe at a depth; whether there is one.

    Then its components and codes are bound, and time, expiry and mask of the tuple so far are told for the depth below.

    ``has``, ``knows``: the streams and classes, as bits, that the tuple has with this match. Predicates and checks of
    others wait: an eddy takes its probes in any order. (ALL: nothing waits.)

    ``accounts``: they may say that the new tuple looks at parts of the window alone.
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
    selected = before = frames.mask[frame, depth]
    reached, lasting, looked = latest, expiry, 0
    width, part = 0, 0
    if accounts is not None and frame == 0 and not is_state and accounts.tally[budget.A_WAYS] > 1:
        width = accounts.widths[target]
    found, is_over = False, False
    while not is_over:
        if is_state:
            region, stride, mask, oldest = states[target, k.N_REGION], states[target, k.N_STRIDE], k.GREATEST, 0
            chain, field, exact = k.ENTRY_LINK, k.ENTRY_KEY, True
            lifetime, rows, alive, born = 0, 0, 0, k.GREATEST
            kept_mask, reach, lag = states[target, k.N_KEPT_MASK], k.GREATEST, 0
        else:
            row = frames.slice[frame, depth]
            region, stride = streams[row, k.S_REGION], streams[row, k.S_STRIDE]
            mask, oldest = streams[row, k.S_MASK], streams[row, k.S_OLDEST]
            born = mem[birth + row] if birth >= 0 else k.GREATEST
            chain = 0 if is_scan else paths[_path_in(tables, step, row), k.P_LINK]
            field, exact = steps[step, k.X_FIELD], steps[step, k.X_KEY_COUNT] == 1
            lifetime, rows = streams[row, k.S_LIFETIME], streams[row, k.S_ROWS]
            alive = streams[row, k.S_PREFIX] + k.ALIVE
            kept_mask, reach, lag = streams[row, k.S_KEPT_MASK], k.GREATEST, 0
            if kept_mask > 0 and rows == 0:
                reach, lag = frames.reach[frame, depth], streams[row, k.S_LAG]
        while candidate >= oldest and not found:
            word = region + (candidate & mask) * stride
            sequence = candidate
            candidate = candidate - 1 if is_scan else mem[word + chain]
            looked += 1
            reached = mem[word + k.T]  # of an entry just as of a base tuple
            if latest - reached >= reach:
                if latest - reached - lag >= reach:
                    candidate = -1  # all that came before it is too old as well
                continue
            if (exact and mem[word + field] != key) or sequence >= born:
                continue
            if accounts is not None and width > 0:
                part = budget.part_at(accounts, frames.latest[0, 0] - reached, width)
                if not budget.looks_at(accounts, frames.program[0], depth, part):
                    if budget.is_beyond(accounts, frames.program[0], depth, part):
                        candidate = -1  # all that came before it is older
                    continue
            if is_state:
                lasting = mem[word + k.ENTRY_EXPIRY]
            elif lifetime < FOREVER:
                lasting = reached + lifetime
            elif rows > 0 and mem[word + alive] != k.JOINING:
                continue
            else:
                lasting = FOREVER
            since = reached
            reached, lasting = max(latest, reached), min(expiry, lasting)
            if reached >= lasting:
                continue
            if kept_mask > 0:
                selected = before & mem[word + kept_mask]
                if selected == 0:
                    continue
                if selected != before and reach < FOREVER:
                    lasting = min(lasting, since + reach_of(tables.reach, target, selected))
                    if reached >= lasting:
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
        is_over = found
        if candidate < oldest:
            candidate = -1
            if kept_mask > 0 and is_state == 0:
                candidate = _in_next_slice(mem, tables, frames, frame, depth)
            is_over |= candidate < 0
    work[step, k.W_CANDIDATES] += looked
    if found:
        if accounts is not None and frame == 0:
            accounts.place[depth] = part
        frames.cursor[frame, depth] = candidate
        work[step, k.W_MATCHES] += 1
        prefetch(mem, region + (max(candidate, oldest) & mask) * stride)  # it comes before it is needed
        frames.latest[frame, depth + 1] = reached
        frames.expiry[frame, depth + 1] = lasting
        frames.mask[frame, depth + 1] = selected
        binds = steps[step, k.X_BINDS]
        for i in range(binds, binds + 3 * steps[step, k.X_BIND_COUNT], 3):
            code[frame, lists[i]] = code_of(mem, streams, bound, frame, lists[i + 1], lists[i + 2])
    return found
