"""What is missing in states: which entries gates have left out, and whether a key is to be trusted (JIT IV).

Invariant
    A gap is never forgotten while an entry is there that may be short of others. When the table is full, the state as
    a whole has a gap.

Cost
    A state's probe costs a lookup per kind of gap that it can have.
"""

from __future__ import annotations

from thalweg.engine.kernels import feedback_tables as fb
from thalweg.engine.kernels import tables as k
from thalweg.engine.kernels.compiled import Int64s, inlined, jit
from thalweg.engine.kernels.hashing import find, hash_codes
from thalweg.engine.kernels.predicates import code_of
from thalweg.engine.kernels.states import sweep
from thalweg.engine.time_bounds import NEVER


@inlined
def leave_gaps(
    mem: Int64s,
    lists: Int64s,
    gaps: Int64s,
    tally: Int64s,
    code: Int64s,
    first: int,
    count_of_gaps: int,
    clock: int,
) -> None:
    """A program stops at an instruction with these gaps, which are in ``lists``: say what is missing now."""
    for i in range(count_of_gaps):
        at = first + i * fb.GAP_FIELDS
        state, count = lists[at + fb.G_STATE], lists[at + fb.G_CLASS_COUNT]
        if count == 0:
            gaps[state, fb.O_ALL] = clock
            continue
        key = _gap_key(code, 0, lists, lists[at + fb.G_CLASSES], count, lists[at + fb.G_KIND])
        word = find(mem, gaps[state, fb.O_TABLE], gaps[state, fb.O_MASK], key)
        if mem[word + 1] == 0:
            if 4 * gaps[state, fb.O_COUNT] > 3 * gaps[state, fb.O_MASK]:
                tally[fb.T_IS_FULL] = 1
                if 8 * gaps[state, fb.O_COUNT] > 7 * gaps[state, fb.O_MASK]:
                    gaps[state, fb.O_ALL] = clock
                    continue
            gaps[state, fb.O_COUNT] += 1
        mem[word], mem[word + 1] = key, clock


@inlined
def _gap_key(code: Int64s, frame: int, lists: Int64s, start: int, count: int, kind: int) -> int:
    return hash_codes(code, frame, lists, start, count) ^ (kind * 0x9E3779B9)


@inlined
def has_gap(mem: Int64s, lists: Int64s, gaps: Int64s, state: int, code: Int64s, frame: int, since: int) -> bool:
    """Whether entries of a state's key may have been left out after the tuple ``since``."""
    found = gaps[state, fb.O_ALL] > since
    kinds = gaps[state, fb.O_KINDS]
    for kind in range(gaps[state, fb.O_KIND_COUNT]):
        at = kinds + 2 * kind
        if lists[at + 1] > 0 and not found:
            key = _gap_key(code, frame, lists, lists[at], lists[at + 1], kind)
            found = mem[find(mem, gaps[state, fb.O_TABLE], gaps[state, fb.O_MASK], key) + 1] > since
    return bool(found)


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
            at = gaps[index, fb.O_CARRIERS] + 4 * i
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
