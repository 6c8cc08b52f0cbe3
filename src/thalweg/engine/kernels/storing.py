"""What becomes of a partial tuple: an entry of a kept state, or a result."""

from __future__ import annotations

from thalweg.engine.kernels import tables as k
from thalweg.engine.kernels.compiled import Int64s, inlined
from thalweg.engine.kernels.hashing import find, hash_codes
from thalweg.engine.kernels.predicates import component
from thalweg.engine.kernels.windows import rows_since


@inlined
def store(mem: Int64s, tables: k.Tables, frames: k.Frames, frame: int, depth: int, step: int) -> bool:
    """Make the tuple so far an entry of a state, if its key is kept there; whether there was room for it.

    Of a state that is INCOMPLETE, only live keys have entries. The key that is being completed gets them ALWAYS.
    """
    states, lists = tables.states, tables.lists
    target = tables.steps[step, k.X_TARGET]
    key = hash_codes(frames.code, frame, lists, states[target, k.N_KEY], states[target, k.N_KEY_COUNT])
    if not tables.steps[step, k.X_ALWAYS] and states[target, k.N_COMPLETE] == k.INCOMPLETE:
        slot = find(mem, states[target, k.N_DIRECTORY], states[target, k.N_DIRECTORY_MASK], key)
        if mem[slot + 1] == k.ABSENT or mem[slot + 1] == k.SUSPENDED:
            tables.work[step, k.W_LEFT_OUT] += 1
            return True
    count = states[target, k.N_COUNT]
    if count == states[target, k.N_CAPACITY]:
        return False
    word = states[target, k.N_REGION] + count * states[target, k.N_STRIDE]
    mem[word + k.ENTRY_T] = frames.latest[frame, depth + 1]
    mem[word + k.ENTRY_EXPIRY] = frames.expiry[frame, depth + 1]
    mem[word + k.ENTRY_KEY] = key
    head = states[target, k.N_HEADS] + (key & states[target, k.N_MASK])
    mem[word + k.ENTRY_LINK] = mem[head]
    mem[head] = count
    if states[target, k.N_KEPT_MASK] > 0:
        mem[word + states[target, k.N_KEPT_MASK]] = frames.mask[frame, depth + 1]
    first = states[target, k.N_COMPONENTS]
    for i in range(states[target, k.N_COMPONENT_COUNT]):
        mem[word + k.COMPONENTS + i] = frames.bound[frame, lists[first + i]]
    states[target, k.N_COUNT] = count + 1
    return True


@inlined
def emit(mem: Int64s, tables: k.Tables, frames: k.Frames, depth: int, output: Int64s) -> bool:
    """Put the tuple so far into the output, as the row numbers of its components; whether there was room for it.

    An output with more columns also gets its mask, and the age of each component: the time since, in a ROWS window the
    number of tuples since.
    """
    registers, streams, n = frames.registers, tables.streams, frames.bound.shape[1]
    outputs = registers[k.R_OUTPUTS]
    if outputs == output.shape[1]:
        return False
    now, is_aged = frames.latest[0, depth + 1], registers[k.R_AGED] != 0
    output[0, outputs] = now
    output[1, outputs] = frames.expiry[0, depth + 1]
    for stream in range(n):
        word = component(streams, frames.bound, 0, stream)
        output[2 + stream, outputs] = mem[word + k.ROW]
        if is_aged:
            age = rows_since(mem, streams, stream, word) if streams[stream, k.S_ROWS] > 0 else now - mem[word + k.T]
            output[3 + n + stream, outputs] = age
    if is_aged:
        output[2 + n, outputs] = frames.mask[0, depth + 1]
    registers[k.R_OUTPUTS] = outputs + 1
    return True
