"""Opening a probe: which key it looks up, and whether that key is there to be looked up."""

from __future__ import annotations

from thalweg.engine.kernels import feedback_tables as fb
from thalweg.engine.kernels import tables as k
from thalweg.engine.kernels.compiled import Float64s, Int64s, inlined
from thalweg.engine.kernels.demands import witness
from thalweg.engine.kernels.gaps import has_gap
from thalweg.engine.kernels.hashing import find, hash_codes
from thalweg.engine.kernels.scanning import open_scan
from thalweg.engine.kernels.states import drop_entries, has_entry
from thalweg.engine.kernels.windows import vacancy
from thalweg.engine.time_bounds import FOREVER

# What came of it: there may be candidates; there is none; the key has to be completed first; there is no room for it in
# the directory of the state.
OPENED, NOTHING, MISSING, NO_ROOM = range(4)


@inlined
def open_probe(
    mem: Int64s,
    floats: Float64s,
    tables: k.Tables,
    frames: k.Frames,
    frame: int,
    depth: int,
    step: int,
    watermark: int,
    counters: Int64s,
    feedback: fb.Feedback | None,
) -> int:
    """Begin the probe of an instruction at a depth; what came of it.

    A key of a state that base windows know to be void, or settled, is not looked up in the directory: they say so
    faster than it would.
    """
    streams, states, steps, lists = tables.streams, tables.states, tables.steps, tables.lists
    key = hash_codes(frames.code, frame, lists, steps[step, k.X_KEY], steps[step, k.X_KEY_COUNT])
    frames.probe[frame, depth] = key
    target = steps[step, k.X_TARGET]
    if steps[step, k.X_IS_STATE] and states[target, k.N_COMPLETE] != k.COMPLETE:
        told = vacancy(
            mem,
            streams,
            tables.paths,
            lists,
            frames.code,
            frame,
            steps[step, k.X_PARTS],
            steps[step, k.X_PART_COUNT],
            states[target, k.N_BIRTH] if states[target, k.N_COMPLETE] == k.YOUNG else -1,
        )
        slot, status = 0, k.TOUCHED
        if told == k.VOID:
            # Nothing to complete, whatever the status: it is not worth looking up, nor remembering.
            return NOTHING
        if told == k.OCCUPIED:
            slot = find(mem, states[target, k.N_DIRECTORY], states[target, k.N_DIRECTORY_MASK], key)
            status = mem[slot + 1] & k.STATUS
            if feedback is not None and status in (k.LIVE, k.TOUCHED):
                since = mem[slot + 1] >> k.STATUS_BITS
                if has_gap(mem, lists, feedback.gaps, target, frames.code, frame, since):
                    drop_entries(mem, states, target, key)
                    mem[slot + 1] = status = k.SUSPENDED
        if status == k.LIVE:
            mem[slot + 1] += k.TOUCHED - k.LIVE
        elif status == k.SUSPENDED or (
            status == k.ABSENT
            and (
                states[target, k.N_COMPLETE] != k.PRINTED
                or not has_entry(mem, streams, states, lists, target, key, watermark)
            )
        ):
            if feedback is not None and feedback.gaps[target, fb.O_SEARCH] >= 0:
                until = witness(
                    mem,
                    floats,
                    tables,
                    frames,
                    feedback.gaps[target, fb.O_SEARCH],
                    frame,
                    states[target, k.N_KEY],
                    states[target, k.N_KEY_COUNT],
                    watermark,
                )
                if until <= watermark:  # most keys are asked for once: it is not worth keeping
                    counters[k.C_COMPLETIONS] += 1
                    return NOTHING
            if 2 * (states[target, k.N_LIVE] + 1) > states[target, k.N_DIRECTORY_MASK]:
                return NO_ROOM
            counters[k.C_COMPLETIONS] += 1
            return MISSING
    open_scan(mem, tables, frames, frame, depth, step, key)
    return OPENED


@inlined
def begin_completion(tables: k.Tables, frames: k.Frames, frame: int, step: int, key: int, watermark: int) -> int:
    """Give the frame above this one a state's key to complete (JISC 4); the first instruction for it."""
    states, lists = tables.states, tables.lists
    target, above = tables.steps[step, k.X_TARGET], frame + 1
    program = frames.bound.shape[1] + target
    frames.program[above] = program
    frames.state[above] = target
    frames.key[above] = key
    frames.birth[above] = states[target, k.N_BIRTH] if states[target, k.N_COMPLETE] == k.YOUNG else -1
    first = states[target, k.N_KEY]
    for i in range(first, first + states[target, k.N_KEY_COUNT]):
        frames.code[above, lists[i]] = frames.code[frame, lists[i]]
    # What expires by the watermark can meet no tuple to come.
    frames.latest[above, 0] = watermark
    frames.expiry[above, 0] = FOREVER
    return tables.programs[program, k.G_FIRST]


@inlined
def end_completion(mem: Int64s, states: Int64s, frames: k.Frames, frame: int, clock: int) -> None:
    """The key of a frame is complete: live from now on."""
    target, key = frames.state[frame], frames.key[frame]
    slot = find(mem, states[target, k.N_DIRECTORY], states[target, k.N_DIRECTORY_MASK], key)
    if mem[slot + 1] == k.ABSENT:
        states[target, k.N_LIVE] += 1
    mem[slot] = key
    mem[slot + 1] = (clock << k.STATUS_BITS) | k.LIVE
