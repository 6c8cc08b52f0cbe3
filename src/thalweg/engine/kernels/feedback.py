"""Feedback's part of the join kernel: whether somebody needs what a partial tuple would become (JIT III, IV).

Design
    A GATE in a program (:mod:`thalweg.plan.passes.gates`) asks whether its demand is met, and stops the tuple if it is
    not. What was found out about the values of a demand is remembered (:mod:`~thalweg.engine.kernels.demands`):

    DEMANDED until the combination of tuples that was found expires. Nothing has to be asked before.
    WANTING  (a suspended sub-tuple) until a tuple arrives that could be part of a partner. Then it is asked again.

    As in the paper, a demand is looked into only after a probe has failed; from then on everything of
    the same values stops, until a partner arrives. Where the demand has a Bloom filter instead
    (:mod:`~thalweg.engine.kernels.filters`), nothing is remembered or asked: one bit per value and window tells at once
    what has no partner for sure.

    Where a program stops, entries are missing in states. Each state has a table of *gaps*
    (:mod:`~thalweg.engine.kernels.gaps`): for what is known of the key of such an entry, the number of the tuple that
    left it out. A live key is to be trusted only if it was computed after the last gap that it may have.
"""

from __future__ import annotations

from thalweg.engine.kernels import feedback_tables as fb
from thalweg.engine.kernels import tables as k
from thalweg.engine.kernels.compiled import Float64s, Int64s, inlined
from thalweg.engine.kernels.demands import look_into
from thalweg.engine.kernels.filters import lacks
from thalweg.engine.kernels.gaps import leave_gaps
from thalweg.engine.kernels.states import seems_empty, sweep
from thalweg.engine.kernels.windows import forget_newest


@inlined
def passes(
    mem: Int64s,
    floats: Float64s,
    tables: k.Tables,
    frames: k.Frames,
    feedback: fb.Feedback,
    step: int,
    depth: int,
    clock: int,
    watermark: int,
) -> bool:
    """Whether the tuple so far goes on behind a GATE: whether there may be a demand for it (JIT III).

    As in the paper, nobody looks for one here: a probe that fails does (:func:`ask`).
    """
    demands, tally = feedback.demands, feedback.tally
    gate = tables.steps[step, k.X_TARGET]
    demand = feedback.gates[gate, fb.Q_DEMAND]
    state = demands[demand, fb.D_STATE]
    verdict = fb.DEMANDED
    if state >= 0:
        if seems_empty(mem, tables.streams, tables.states, tables.lists, state, watermark):
            if tables.states[state, k.N_COUNT] > 0:
                sweep(mem, tables, state, watermark)
            if tables.states[state, k.N_COUNT] == 0:
                verdict = fb.WANTING
    elif demands[demand, fb.D_IS_FILTERED]:
        if lacks(mem, tables.lists, demands, feedback.filters, demand, frames.code):
            verdict = fb.WANTING
    else:
        verdict = look_into(mem, floats, tables, frames, feedback, demand, watermark, False)
    if verdict != fb.WANTING:
        return True
    tally[fb.T_UNPROBED] += 1
    tally[fb.T_WITHHELD] += depth >= 0
    first, count = feedback.gates[gate, fb.Q_GAPS], feedback.gates[gate, fb.Q_GAP_COUNT]
    leave_gaps(mem, tables.lists, feedback.gaps, tally, frames.code, first, count, clock)
    if depth < 0 and demands[demand, fb.D_IS_FINAL]:
        head = frames.program[0]
        row = head + (frames.bound[0, head] >> k.SLICE_SHIFT)
        forget_newest(mem, tables.streams, tables.paths, tables.lists, row)
    return False


@inlined
def may_ask(feedback: fb.Feedback, step: int, depth: int) -> bool:
    """Whether a probe that has ended found nothing, and somebody is to be asked about that."""
    return feedback.met[depth] == 0 and feedback.asked[step, fb.L_ASKED_COUNT] > 0


@inlined
def ask(
    mem: Int64s,
    floats: Float64s,
    tables: k.Tables,
    frames: k.Frames,
    feedback: fb.Feedback,
    depth: int,
    clock: int,
    watermark: int,
) -> int:
    """Find the smallest part of the tuple that has no partner (JIT IV-A); the depth to go on at, -1: at none.

    Everything of the same values stops at that part's gate from now on.
    """
    gates, step = feedback.gates, frames.step[0, depth]
    feedback.met[depth] = 1
    frames.cursor[0, depth] = -1
    first = feedback.asked[step, fb.L_ASKED]
    stopping, size, back = -1, 0, depth
    for i in range(first, first + feedback.asked[step, fb.L_ASKED_COUNT]):
        gate = tables.lists[i]
        if stopping >= 0 and gates[gate, fb.Q_SIZE] > size:
            break  # not minimal
        at = gates[gate, fb.Q_DEPTH]
        if at == fb.ANYWHERE:
            at = depth
            for d in range(depth):
                if frames.step[0, d] == gates[gate, fb.Q_STEP]:
                    at = d
        if at >= back:
            continue
        if look_into(mem, floats, tables, frames, feedback, gates[gate, fb.Q_DEMAND], watermark, True) == fb.WANTING:
            stopping, back, size = gate, at, gates[gate, fb.Q_SIZE]
    if stopping >= 0:
        first, count = gates[stopping, fb.Q_GAPS], gates[stopping, fb.Q_GAP_COUNT]
        leave_gaps(mem, tables.lists, feedback.gaps, feedback.tally, frames.code, first, count, clock)
    return back
