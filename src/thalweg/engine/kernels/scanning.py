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
def _agrees(
    mem: Int64s, floats: Float64s, tables: k.Tables, frames: k.Frames, frame: int, step: int, has: int, knows: int
) -> bool:
    """Whether the components bound so far agree in all that a probe has to check beside the key that it looks up."""
    streams, steps, lists, thetas = tables.streams, tables.steps, tables.lists, tables.thetas
    bound, code = frames.bound, frames.code
    first = steps[step, k.X_CHECKS]
    for i in range(first, first + 3 * steps[step, k.X_CHECK_COUNT], 3):
        is_known = (knows >> lists[i]) & 1
        if is_known and code_of(mem, streams, bound, frame, lists[i + 1], lists[i + 2]) != code[frame, lists[i]]:
            return False
    first = steps[step, k.X_THETAS]
    for i in range(first, first + steps[step, k.X_THETA_COUNT]):
        if not (has >> thetas[lists[i], k.H_LEFT]) & (has >> thetas[lists[i], k.H_RIGHT]) & 1:
            continue
        integers, fractions = tables.integer_offsets, tables.float_offsets
        if not theta_holds(mem, floats, streams, thetas, integers, fractions, bound, frame, lists[i]):
            return False
    return True


@inlined
def _scan_state(
    mem: Int64s, floats: Float64s, tables: k.Tables, frames: k.Frames, frame: int, depth: int, has: int, knows: int
) -> bool:
    """Go on to the next entry of a state that matches; whether there is one."""
    states, steps, lists = tables.states, tables.steps, tables.lists
    step, key, birth = frames.step[frame, depth], frames.probe[frame, depth], frames.birth[frame]
    target, is_scan = steps[step, k.X_TARGET], steps[step, k.X_SCAN] != 0
    region, stride, kept_mask = states[target, k.N_REGION], states[target, k.N_STRIDE], states[target, k.N_KEPT_MASK]
    first, count = states[target, k.N_COMPONENTS], states[target, k.N_COMPONENT_COUNT]
    first_rows, rows_count = states[target, k.N_ROWS], states[target, k.N_ROWS_COUNT]
    latest, expiry, before = frames.latest[frame, depth], frames.expiry[frame, depth], frames.mask[frame, depth]
    candidate, looked, found = frames.cursor[frame, depth], 0, False
    reached, lasting, selected = latest, expiry, before
    while candidate >= 0 and not found:
        word = region + candidate * stride
        candidate = candidate - 1 if is_scan else mem[word + k.ENTRY_LINK]
        looked += 1
        if mem[word + k.ENTRY_KEY] != key:
            continue
        reached, lasting = max(latest, mem[word + k.ENTRY_T]), min(expiry, mem[word + k.ENTRY_EXPIRY])
        if reached >= lasting:
            continue
        if kept_mask > 0:
            selected = before & mem[word + kept_mask]
            if selected == 0:
                continue
        if rows_count > 0 and not components_alive(mem, tables.streams, lists, word, first_rows, rows_count):
            continue
        if birth >= 0 and not is_older(mem, lists, word, first, count, birth):
            continue
        for i in range(count):
            frames.bound[frame, lists[first + i]] = mem[word + k.COMPONENTS + i]
        found = _agrees(mem, floats, tables, frames, frame, step, has, knows)
    tables.work[step, k.W_CANDIDATES] += looked
    if found:
        prefetch(mem, region + max(candidate, 0) * stride)  # it comes before it is needed
        _descend(mem, tables, frames, frame, depth, candidate, reached, lasting, selected)
    return found


@inlined
def _scan_window(
    mem: Int64s,
    floats: Float64s,
    tables: k.Tables,
    frames: k.Frames,
    frame: int,
    depth: int,
    has: int,
    knows: int,
    accounts: budget.Accounts | None,
) -> bool:
    """Go on to the next tuple of a base window that matches, one slice after the other; whether there is one."""
    streams, steps = tables.streams, tables.steps
    step, key, birth = frames.step[frame, depth], frames.probe[frame, depth], frames.birth[frame]
    target, is_scan = steps[step, k.X_TARGET], steps[step, k.X_SCAN] != 0
    field, is_exact = steps[step, k.X_FIELD], steps[step, k.X_KEY_COUNT] == 1
    chain = 0 if is_scan else tables.paths[steps[step, k.X_PATH], k.P_LINK]  # the same in every slice
    rows, kept_mask = streams[target, k.S_ROWS], streams[target, k.S_KEPT_MASK]
    alive, reach = streams[target, k.S_PREFIX] + k.ALIVE, k.GREATEST
    if kept_mask > 0 and rows == 0:
        reach = frames.reach[frame, depth]
    latest, expiry, before = frames.latest[frame, depth], frames.expiry[frame, depth], frames.mask[frame, depth]
    width, part = 0, 0
    if accounts is not None and frame == 0 and accounts.tally[budget.A_WAYS] > 1:
        width = accounts.widths[target]
    candidate, looked, found = frames.cursor[frame, depth], 0, False
    reached, lasting, selected = latest, expiry, before
    while candidate >= 0 and not found:
        row = frames.slice[frame, depth]
        region, stride, mask = streams[row, k.S_REGION], streams[row, k.S_STRIDE], streams[row, k.S_MASK]
        oldest, lifetime = streams[row, k.S_OLDEST], streams[row, k.S_LIFETIME]
        born = mem[birth + row] if birth >= 0 else k.GREATEST
        while candidate >= oldest and not found:
            sequence, word = candidate, region + (candidate & mask) * stride
            candidate = candidate - 1 if is_scan else mem[word + chain]
            looked += 1
            since = mem[word + k.T]
            if latest - since >= reach:
                if latest - since - streams[row, k.S_LAG] >= reach:
                    candidate = -1  # all that came before it is too old as well
                continue
            if (is_exact and mem[word + field] != key) or sequence >= born:
                continue
            if accounts is not None and width > 0:
                part = budget.part_at(accounts, frames.latest[0, 0] - since, width)
                if not budget.looks_at(accounts, frames.program[0], depth, part):
                    if budget.is_beyond(accounts, frames.program[0], depth, part):
                        candidate = -1  # all that came before it is older
                    continue
            if rows > 0 and mem[word + alive] != k.JOINING:
                continue
            reached = max(latest, since)
            lasting = min(expiry, since + lifetime if lifetime < FOREVER else FOREVER)
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
            frames.bound[frame, target] = sequence
            found = _agrees(mem, floats, tables, frames, frame, step, has, knows)
        if found:
            prefetch(mem, region + (max(candidate, oldest) & mask) * stride)  # it comes before it is needed
        if candidate < oldest:
            candidate = _in_next_slice(mem, tables, frames, frame, depth) if kept_mask > 0 else -1
    tables.work[step, k.W_CANDIDATES] += looked
    if found:
        if accounts is not None and frame == 0:
            accounts.place[depth] = part
        _descend(mem, tables, frames, frame, depth, candidate, reached, lasting, selected)
    return found


@inlined
def _descend(
    mem: Int64s,
    tables: k.Tables,
    frames: k.Frames,
    frame: int,
    depth: int,
    candidate: int,
    reached: int,
    lasting: int,
    selected: int,
) -> None:
    """A match: tell the depth below the time, the expiry and the mask of the tuple so far, and bind its codes."""
    step, lists = frames.step[frame, depth], tables.lists
    tables.work[step, k.W_MATCHES] += 1
    frames.cursor[frame, depth] = candidate
    frames.latest[frame, depth + 1] = reached
    frames.expiry[frame, depth + 1] = lasting
    frames.mask[frame, depth + 1] = selected
    binds = tables.steps[step, k.X_BINDS]
    for i in range(binds, binds + 3 * tables.steps[step, k.X_BIND_COUNT], 3):
        word = code_of(mem, tables.streams, frames.bound, frame, lists[i + 1], lists[i + 2])
        frames.code[frame, lists[i]] = word


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
    """Go on to the next match of the probe at a depth; whether there is one. Then its components are bound.

    ``has``, ``knows``: the streams and classes, as bits, that the tuple has with this match. Predicates and checks of
    others wait: an eddy takes its probes in any order. (ALL: nothing waits.)

    ``accounts``: they may say that the new tuple looks at parts of the window alone.
    """
    if tables.steps[frames.step[frame, depth], k.X_IS_STATE]:
        if accounts is not None and frame == 0:
            accounts.place[depth] = 0  # a state is one part
        return _scan_state(mem, floats, tables, frames, frame, depth, has, knows)
    return _scan_window(mem, floats, tables, frames, frame, depth, has, knows, accounts)
