"""The join machine: one loop that runs every program over flat memory.

Design
    Everything that lasts lives in one int64 array, ``mem``: the rings of the base windows, the entries of the states,
    hash heads and key directories, each a region found through a row of a table. Programs are rows of numbers too, a
    row per instruction (:mod:`thalweg.plan.program`, ``engine.assembly``). So one compiled function serves any number
    of streams, any plan and any query.

    For every new tuple: 1. *purge* what its arrival expires in its own window, 2. *insert* it there, 3. *probe* by its
    stream's program, depth first, 4. *store* what grows into an entry of a kept state and *emit* what reaches the end
    of the program. Each instruction has a function of its own, in the module named after what it does.

    ====== ==================== ===================================================================
    next   function             then
    ====== ==================== ===================================================================
    FETCH  ``arrival.take``     the first instruction of its stream's program
    PROBE  ``probing``          SCAN, one depth further; or first the completion of the key it asks for
    SCAN   ``scanning.scan``    a match: the instruction behind the PROBE; else SCAN of the probe before
    STORE  ``storing.store``    the next instruction
    EMIT   ``storing.emit``     SCAN
    GATE   ``feedback``         the next instruction, or SCAN if nobody needs the tuple
    PAY    ``accounts``         the next instruction, or SCAN if the budget has no probe for the tuple
    ASK    ``feedback``         SCAN; a probe without a match asks which part of the tuple has no partner
    SEND   ``eddy``             the PROBE that an eddy picks
    LAND   ``eddy``             STORE, EMIT or SEND, whatever is next after that match
    ====== ==================== ===================================================================

    A probe of a state key that is not live first *completes* it (JISC 4): a frame is pushed that runs the state's
    completion program for that key, which may push further ones for the states below, and the probe is opened again
    when it returns. Between two tuples the caller can ask for the same without a probe, or for a whole state to be
    filled, by a program in frame 0 that scans a base window.

    A state that a change of plan began is *young*: it stores what comes like any other, and lacks only what tuples
    from before its birth make among themselves. So these alone take part in completing its keys, and nothing is missing
    once all of them have left one of its windows.

    A key is *void* if some base window below the state has no tuple for it, and *settled* if one has none from before
    the state's birth. There is nothing to complete then.

Invariants
    A key of a state that is not live has no entries (but for the one that is being completed); in a young state, none
    of tuples from before its birth alone. (States that follow JISC as PRINTED show what goes wrong otherwise.)
    An entry's components are alive in their base windows for as long as the entry is (expiry is the least of theirs).
    While a state is being scanned nothing is stored in it: the targets of one program are disjoint, and completing one
    touches only what is below it.

Cost
    A probe costs a lookup and its candidates. Nothing is unlinked: chains run from new to old, and end where the window
    ends. What will be looked up in large windows lies outside the caches, so it is asked for ahead: the hash heads of
    the stream's next tuple, the next entry of a chain. The machine stops only between two actions and keeps its place
    in ``Frames``, so that the caller can make room (or take the output) and go on.
"""

from __future__ import annotations

from thalweg.engine.kernels import accounts as budget
from thalweg.engine.kernels import arrival, probing
from thalweg.engine.kernels import eddy as eddies
from thalweg.engine.kernels import feedback_tables as fb
from thalweg.engine.kernels import tables as k
from thalweg.engine.kernels.compiled import Float64s, Int64s, jit
from thalweg.engine.kernels.feedback import ask, may_ask, passes
from thalweg.engine.kernels.filters import add_to_filters
from thalweg.engine.kernels.gaps import leave_gaps
from thalweg.engine.kernels.scanning import scan
from thalweg.engine.kernels.storing import emit, store


@jit
def run(
    mem: Int64s,
    floats: Float64s,
    tables: k.Tables,
    frames: k.Frames,
    inbox: k.Inbox,
    output: Int64s,
    deaths: Int64s,
    counters: Int64s,
    horizon: int,
    limit: int,
    eddy: eddies.Eddy | None = None,
    feedback: fb.Feedback | None = None,
    accounts: budget.Accounts | None = None,
    scores: Float64s | None = None,
) -> tuple[int, int]:
    """Process up to ``limit`` tuples of the inbox in total order; (what it stopped for, which store).

    Args:
        mem: the memory.
        floats: the same bytes, read as float64.
        tables: updated: bounds of windows, counts of states, work.
        frames: the machine's place, kept between calls.
        inbox: the place of each stream moves on as its tuples are taken.
        output: [(time, expiry, row per stream), result]; registers[R_OUTPUTS] are filled. If it has more columns: then
            its mask, the selections that all components of a result pass, and the age of each component.
        deaths: [death, (stream, row, time)]: tuples that left a ROWS window.
        counters: what is counted beside the work of each instruction.
        horizon: no tuple before this time comes after these. They are taken in time order, so up to there each of
            them moves the watermark on; FOREVER: the tuples of all calls come in order.
        limit: how many more tuples to take.
        eddy: who picks the next probe of a new tuple. Without one, nothing of it is compiled: a pipeline pays nothing
            for it.
        feedback: who says that nobody needs what a partial tuple would become; likewise.
        accounts: what probes of new tuples are paid from; likewise.
        scores: with accounts, the last row of the output as floats: how many results of the full answer each result
            stands for. The row before it has the number of the tuple that found it.

    """
    steps, programs, work = tables.steps, tables.programs, tables.work
    registers, cursors = frames.registers, frames.cursor
    frame, depth = registers[k.R_FRAME], registers[k.R_DEPTH]
    step, phase = registers[k.R_STEP], registers[k.R_PHASE]
    watermark, taken, clock = registers[k.R_WATERMARK], 0, 0
    if feedback is not None:
        clock = counters[k.C_TUPLES]
    stop, full = k.FINISHED, 0

    while True:
        if phase == k.FETCH:
            if taken == limit:
                break
            if feedback is not None and feedback.tally[fb.T_IS_FULL]:
                stop = k.FEEDBACK_FULL
                break
            told, stream = arrival.take(mem, tables, frames, inbox, deaths, horizon, accounts)
            if told == arrival.NO_TUPLE:
                break
            watermark = registers[k.R_WATERMARK]
            if told == arrival.NO_ROOM:
                stop, full = k.WINDOW_FULL, stream
                break
            taken += 1
            if told == arrival.JOINS_NOTHING:
                continue
            frame, depth = 0, -1
            step = programs[stream, k.G_FIRST]
            work[step, k.W_ENTERED] += 1
            phase = steps[step, k.X_OP]
            if feedback is not None:
                clock += 1
                add_to_filters(mem, tables, frames, feedback, stream, watermark)
            if eddy is not None:
                eddies.embark(eddy, work, stream)
            if accounts is not None:
                budget.feed(accounts, stream)

        elif phase == k.PROBE:
            told = probing.open_probe(
                mem, floats, tables, frames, frame, depth + 1, step, watermark, counters, feedback
            )
            if told == probing.NO_ROOM:
                stop, full = k.DIRECTORY_FULL, steps[step, k.X_TARGET]
                break
            if told == probing.MISSING:
                # Complete this key first, in a frame of its own.
                frames.depth[frame], frames.waiting[frame] = depth, step
                step = probing.begin_completion(tables, frames, frame, step, frames.probe[frame, depth + 1], watermark)
                frame, depth, phase = frame + 1, -1, steps[step, k.X_OP]
                work[step, k.W_ENTERED] += 1
                continue
            depth += 1
            if accounts is not None and frame > 0 and frames.waiting[0] >= 0:
                budget.count_completing(accounts, frames.program[0], frames.depth[0] + 1)
            frames.step[frame, depth] = step
            if told == probing.NOTHING:
                cursors[frame, depth] = -1
            phase = k.SCAN
            if feedback is not None and frame == 0:
                feedback.met[depth] = 0

        elif phase == k.SCAN:
            if feedback is None and eddy is None:
                while depth > 0 and cursors[frame, depth] < 0:  # the chain has ended
                    depth -= 1
            has, knows = k.ALL, k.ALL
            if eddy is not None and frame == 0 and frames.program[0] < frames.bound.shape[1]:
                has, knows = eddies.seen_by(eddy, frames.step[0, depth], depth)
            if scan(mem, floats, tables, frames, frame, depth, has, knows, accounts):
                if feedback is not None and frame == 0:
                    feedback.met[depth] = 1
                if accounts is not None and frame == 0 and accounts.tally[budget.A_WAYS] > 1:  # no state is filled then
                    budget.count_match(accounts, frames.program[0], depth)
                step = frames.step[frame, depth] + 1
                phase = steps[step, k.X_OP]
            elif feedback is not None and frame == 0 and may_ask(feedback, frames.step[0, depth], depth):
                phase = k.ASK
            elif depth > 0:
                depth -= 1
            elif frame > 0:
                # The key is complete. Open the probe that asked for it again, if one did.
                probing.end_completion(mem, tables.states, frames, frame, clock)
                frame -= 1
                depth, step = frames.depth[frame], frames.waiting[frame]
                phase = k.PROBE if step >= 0 else k.FETCH
            else:
                phase = k.FETCH

        elif phase == k.STORE:
            if not store(mem, tables, frames, frame, depth, step):
                stop, full = k.STATE_FULL, steps[step, k.X_TARGET]
                break
            step += 1
            phase = steps[step, k.X_OP]

        elif phase == k.EMIT:
            if not emit(mem, tables, frames, depth, output):
                stop = k.OUTPUT_FULL
                break
            if accounts is not None and scores is not None:
                at = registers[k.R_OUTPUTS] - 1
                output[output.shape[0] - 2, at] = accounts.tally[budget.A_NUMBER]
                scores[at] = budget.count_result(accounts, frames.program[0], depth)
            phase = k.SCAN if depth >= 0 else k.FETCH

        elif feedback is not None and phase == k.GATE:
            if passes(mem, floats, tables, frames, feedback, step, depth, clock, watermark):
                step += 1
                phase = steps[step, k.X_OP]
            else:
                work[step, k.W_LEFT_OUT] += 1
                phase = k.SCAN if depth >= 0 else k.FETCH

        elif accounts is not None and phase == k.PAY:
            mask = frames.mask[0, depth + 1]
            if budget.pay(accounts, frames.program[0], steps[step, k.X_TARGET], depth, mask):
                step += 1
                phase = steps[step, k.X_OP]
            else:
                work[step, k.W_LEFT_OUT] += 1
                if feedback is not None:
                    first, count = steps[step, k.X_GAPS], steps[step, k.X_GAP_COUNT]
                    leave_gaps(mem, tables.lists, feedback.gaps, feedback.tally, frames.code, first, count, clock)
                phase = k.SCAN if depth >= 0 else k.FETCH

        elif feedback is not None and phase == k.ASK:
            back = ask(mem, floats, tables, frames, feedback, depth, clock, watermark)
            phase = k.SCAN if back >= 0 else k.FETCH
            depth = max(0, back)

        elif eddy is not None and phase == k.SEND:
            step = eddies.send(eddy, frames.program[0], depth + 1)
            work[step, k.W_ENTERED] += 1
            phase = k.PROBE

        elif eddy is not None:
            step = eddies.land(eddy, frames.program[0], frames.step[0, depth], depth)
            work[step, k.W_ENTERED] += 1
            phase = steps[step, k.X_OP]

        else:
            raise ValueError("a program has an instruction that this machine was compiled without")

    registers[k.R_FRAME], registers[k.R_DEPTH] = frame, depth
    registers[k.R_STEP], registers[k.R_PHASE] = step, phase
    counters[k.C_TUPLES] += taken
    return stop, full
