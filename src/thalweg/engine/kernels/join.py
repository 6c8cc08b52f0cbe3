"""The join kernel: one machine that runs every probe program over flat memory.

Design
    Everything that lasts lives in one int64 array, ``mem``: the rings of the base windows,
    the entries of the states, hash heads and key directories, each a region found through
    a row of a table. Programs are rows of numbers too (see ``engine.assembly``). So one
    compiled function serves any number of streams, any plan and any query.

    For every new tuple: 1. *purge* what its arrival expires in its own window, 2. *insert* it
    there, 3. *probe* by its stream's program, depth first, 4. *store* what grows into an
    entry of a kept state and *emit* what reaches the end of the program.

    A probe of a state key that is not live first *completes* it (JISC 4): a frame is
    pushed that runs the state's completion program for that key, which may push
    further ones for the states below, and the probe is opened again when it returns. Between two
    tuples the caller can ask for the same without a probe, or for a whole state to be filled, by a program in frame 0
    that scans a base window.

    A state that a change of plan began is *young*: it stores what comes like any other, and lacks only what tuples
    from before its birth make among themselves. So these alone take part in completing its keys, and nothing is missing
    once all of them have left one of its windows.

    A key is *void* if some base window below the state has no tuple for it, and *settled* if one has none from before
    the state's birth. There is nothing to complete then: the windows say so faster than the directory of the state
    would.

    The programs of heads may be routed by an eddy (``kernels.eddy``); all others run in order. They may stop where
    nobody needs what would come (``kernels.feedback``).

Invariants
    A key of a state that is not live has no entries (but for the one that is being completed); in a young state, none
    of tuples from before its birth alone. (States that follow JISC as PRINTED show what goes wrong otherwise.)
    An entry's components are alive in their base windows for as long as the entry is (expiry is
    the least of theirs).
    While a state is being scanned nothing is stored in it: the targets of one program
    are disjoint, and completing one touches only what is below it.

Cost
    A probe costs a lookup and its candidates. Nothing is unlinked: chains run from new to
    old, and end where the window ends. What will be looked up in large windows lies outside the
    caches, so it is asked for ahead: the hash heads of the stream's next tuple, the next entry of a chain.
    The machine stops only between two actions and keeps its place in ``Frames``, so that the caller can make room (or
    take the output) and go on.
"""

from __future__ import annotations

from thalweg.engine.instants import FOREVER
from thalweg.engine.kernels import eddy as eddies
from thalweg.engine.kernels import feedback as fb
from thalweg.engine.kernels.compiled import Float64s, Int64s, jit
from thalweg.engine.kernels.hashing import find, hash_codes, hash_fields
from thalweg.engine.kernels.predicates import code_of, theta_holds
from thalweg.engine.kernels.prefetch import LINE, prefetch
from thalweg.engine.kernels.states import components_alive, drop_entries, has_entry, is_older, seems_empty, sweep
from thalweg.engine.kernels.tables import (
    ABSENT,
    ACT,
    ALIVE,
    ALL,
    ASK,
    C_CANDIDATES,
    C_COMPLETING_CANDIDATES,
    C_COMPLETING_PROBES,
    C_COMPLETING_STORED,
    C_COMPLETIONS,
    C_PROBES,
    C_RESULTS,
    C_STORED,
    C_TUPLES,
    COMPLETE,
    COMPONENTS,
    COUNTED,
    DEAD,
    DIRECTORY_FULL,
    ENTRY_EXPIRY,
    ENTRY_KEY,
    ENTRY_LINK,
    ENTRY_T,
    FEEDBACK_FULL,
    FETCH,
    FINISHED,
    G_BIND_COUNT,
    G_BINDS,
    G_FIRST,
    G_KEY,
    G_KEY_COUNT,
    G_STEPS,
    GREATEST,
    H_LEFT,
    H_RIGHT,
    INCOMPLETE,
    JOINING,
    JUDGE,
    LIVE,
    N_BIRTH,
    N_CAPACITY,
    N_COMPLETE,
    N_COMPONENT_COUNT,
    N_COMPONENTS,
    N_COUNT,
    N_DIRECTORY,
    N_DIRECTORY_MASK,
    N_HEADS,
    N_KEY,
    N_KEY_COUNT,
    N_LIVE,
    N_MASK,
    N_REGION,
    N_ROWS,
    N_ROWS_COUNT,
    N_STRIDE,
    OCCUPIED,
    OPEN,
    OUTPUT_FULL,
    P_COUNT,
    P_FIELDS,
    P_HEADS,
    P_LINK,
    P_MASK,
    P_SPAN,
    PRINTED,
    R_DEATHS,
    R_DEPTH,
    R_FRAME,
    R_OUTPUTS,
    R_PHASE,
    R_WATERMARK,
    ROW,
    S_LIFETIME,
    S_MASK,
    S_NEXT,
    S_OLDEST,
    S_PATH,
    S_PATHS,
    S_PREFIX,
    S_REGION,
    S_ROWS,
    S_STRIDE,
    SCAN,
    STATE_FULL,
    STATUS,
    STATUS_BITS,
    SUSPENDED,
    TOUCHED,
    VOID,
    WINDOW_FULL,
    X_BIND_COUNT,
    X_BINDS,
    X_CHECK_COUNT,
    X_CHECKS,
    X_FIELD,
    X_IS_STATE,
    X_KEY,
    X_KEY_COUNT,
    X_PART_COUNT,
    X_PARTS,
    X_PATH,
    X_SCAN,
    X_STORES,
    X_TARGET,
    X_THETA_COUNT,
    X_THETAS,
    YOUNG,
    Frames,
    Inbox,
    T,
    Tables,
)
from thalweg.engine.kernels.windows import forget_newest, join_partition, link, vacancy

AHEAD = 2
"""How many tuples before their turn the ends of a window are asked for."""


@jit
def run(
    mem: Int64s,
    floats: Float64s,
    tables: Tables,
    frames: Frames,
    inbox: Inbox,
    output: Int64s,
    deaths: Int64s,
    counters: Int64s,
    horizon: int,
    limit: int,
    eddy: eddies.Eddy | None = None,
    feedback: fb.Feedback | None = None,
) -> tuple[int, int]:
    """Process up to ``limit`` tuples of the inbox in total order; (what it stopped for, which store).

    Args:
        mem: the memory.
        floats: the same bytes, read as float64.
        tables: updated: bounds of windows, counts of states.
        frames: the machine's place, kept between calls.
        inbox: the place of each stream moves on as its tuples are taken.
        output: [(time, expiry, row per stream), result]; registers[R_OUTPUTS] are filled.
        deaths: [death, (stream, row, time)]: tuples that left a ROWS window.
        counters: the work done, added up.
        horizon: no tuple before this time comes after these. They are taken in time order, so up to there each of
            them moves the watermark on; FOREVER: the tuples of all calls come in order.
        limit: how many more tuples to take.
        eddy: who picks the next step of a new tuple's program, instead of taking them in order. Without one, nothing
            of it is compiled: a pipeline pays nothing for it.
        feedback: who says that nobody needs what a partial tuple would become; likewise.

    """
    streams, paths, states, steps, programs, lists, thetas, integer_offsets, float_offsets = tables
    registers, frame_program, frame_depth, frame_state, frame_key, frame_birth = frames[:6]
    cursors, probed, latests, expiries, bound, code = frames[6:]
    tuples, place = inbox
    n = streams.shape[0]
    room = output.shape[1]
    frame, depth, phase = registers[R_FRAME], registers[R_DEPTH], registers[R_PHASE]
    outputs, died, watermark = registers[R_OUTPUTS], registers[R_DEATHS], registers[R_WATERMARK]
    taken, probes, candidates, stored, completions, results = 0, 0, 0, 0, 0, 0
    stop, store = FINISHED, 0
    completing_probes, completing_candidates, completing_stored = 0, 0, 0
    if eddy is not None:
        modules, eddy_heads, climbs, order, seen, price, hops, temper = eddy
    clock, spot = 0, 0
    if feedback is not None:
        demands, sites, places, gaps, filters, stream_filters, met, tally = feedback
        clock = counters[C_TUPLES]

    origin = programs[frame_program[frame], G_FIRST]  # where the steps of the topmost frame's program begin

    while True:
        if phase == FETCH:
            # The next tuple in total order: least time, then least stream.
            if taken == limit:
                break
            if feedback is not None and tally[fb.T_IS_FULL]:
                stop = FEEDBACK_FULL
                break
            stream, now = -1, 0
            for s in range(n):
                at = place[s, 0]
                if at < place[s, 1] and (stream < 0 or tuples[at] < now):
                    stream, now = s, tuples[at]
            if stream < 0:
                break
            at = place[stream, 0]
            watermark = max(watermark, min(now, horizon))
            region, mask, stride = streams[stream, S_REGION], streams[stream, S_MASK], streams[stream, S_STRIDE]
            prefix, rows = streams[stream, S_PREFIX], streams[stream, S_ROWS]
            if tuples[at + ROW] < 0 and rows == 0:
                place[stream, 0] = at + prefix
                taken += 1
                continue
            # 1. Purge.
            oldest, sequence = streams[stream, S_OLDEST], streams[stream, S_NEXT]
            lifetime = streams[stream, S_LIFETIME]
            if rows > 0:
                while oldest < sequence and mem[region + (oldest & mask) * stride + prefix + ALIVE] == DEAD:
                    oldest += 1
            elif lifetime < FOREVER:
                while oldest < sequence and mem[region + (oldest & mask) * stride + T] + lifetime <= watermark:
                    oldest += 1
            streams[stream, S_OLDEST] = oldest
            if sequence - oldest > mask:
                stop, store = WINDOW_FULL, stream
                break
            # 2. Insert.
            word = region + (sequence & mask) * stride
            for i in range(prefix):
                mem[word + i] = tuples[at + i]
            place[stream, 0] = at + prefix
            streams[stream, S_NEXT] = sequence + 1
            taken += 1
            if rows > 0:
                mem[word + prefix + ALIVE] = JOINING if mem[word + ROW] >= 0 else COUNTED
                victim = join_partition(mem, streams, stream, sequence)
                if victim >= 0:
                    deaths[died, 0] = stream
                    deaths[died, 1] = mem[victim + ROW]
                    deaths[died, 2] = now
                    died += 1
            if mem[word + ROW] < 0:
                continue
            expiry = now + lifetime if lifetime < FOREVER else FOREVER
            first_path = streams[stream, S_PATH]
            for path in range(first_path, first_path + streams[stream, S_PATHS]):
                link(mem, paths, lists, path, word, sequence)
            # What the next tuple of this stream will look up lies anywhere: by its turn, it will have come.
            prefetch(mem, region + ((oldest + AHEAD) & mask) * stride)
            prefetch(mem, region + ((sequence + AHEAD) & mask) * stride)
            at += prefix
            if at < place[stream, 1]:
                step, beside = programs[stream, G_FIRST], LINE
                if programs[stream, G_KEY_COUNT] > 0 and steps[step, X_IS_STATE]:
                    key = hash_fields(tuples, at, lists, programs[stream, G_KEY], programs[stream, G_KEY_COUNT])
                    target = steps[step, X_TARGET]
                    prefetch(mem, states[target, N_HEADS] + (key & states[target, N_MASK]))
                    if states[target, N_COMPLETE] != COMPLETE:
                        beside = -LINE  # where windows below it have their heads, which are asked what is missing
                for path in range(first_path, first_path + streams[stream, S_PATHS]):
                    key = hash_fields(tuples, at, lists, paths[path, P_FIELDS], paths[path, P_COUNT])
                    head = paths[path, P_HEADS] + (key & paths[path, P_MASK]) * paths[path, P_SPAN]
                    prefetch(mem, head)
                    prefetch(mem, head + beside)  # other windows that are looked up by the same key
            # 3. Probe.
            frame, depth = 0, 0
            frame_program[0] = stream
            origin = programs[stream, G_FIRST]
            bound[0, stream] = sequence
            latests[0, 0] = now
            expiries[0, 0] = expiry
            binds = programs[stream, G_BINDS]
            for i in range(binds, binds + 3 * programs[stream, G_BIND_COUNT], 3):
                code[0, lists[i]] = mem[word + lists[i + 2]]
            if programs[stream, G_STEPS] == 0:
                depth, phase = -1, ACT
            else:
                phase = OPEN
                if eddy is not None:
                    eddies.embark(modules, eddy_heads, climbs, order, seen, price, hops, temper, stream)
                if feedback is not None:
                    clock += 1
                    for i in range(stream_filters[stream, 0], stream_filters[stream, 0] + stream_filters[stream, 1]):
                        if filters[i, fb.F_ADDED] >= filters[i, fb.F_MOST]:
                            fb.renew_filter(mem, streams, lists, filters, i, watermark)
                        else:
                            fb.add_to_filter(mem, lists, filters, i, word)
                    if places[stream, fb.L_SITE_COUNT] > 0:
                        spot, phase = -1, JUDGE

        elif phase == OPEN:
            step = origin + depth
            if eddy is not None and frame_program[frame] < n:
                step = hops[depth, eddies.H_STEP]
            target = steps[step, X_TARGET]
            key = hash_codes(code, frame, lists, steps[step, X_KEY], steps[step, X_KEY_COUNT])
            if steps[step, X_IS_STATE]:
                if states[target, N_COMPLETE] != COMPLETE:
                    told = vacancy(
                        mem,
                        streams,
                        paths,
                        lists,
                        code,
                        frame,
                        steps[step, X_PARTS],
                        steps[step, X_PART_COUNT],
                        states[target, N_BIRTH] if states[target, N_COMPLETE] == YOUNG else -1,
                    )
                    if told == VOID:
                        # Nothing to complete, whatever the status: it is not worth looking up, nor remembering.
                        probed[frame, depth] = key
                        cursors[frame, depth] = -1
                        probes += 1
                        phase = SCAN
                        if feedback is not None and frame == 0:
                            met[depth] = 0
                        if eddy is not None and frame_program[frame] < n:
                            seen[step, eddies.V_PROBES] += 1
                        continue
                    slot, status = 0, TOUCHED
                    if told == OCCUPIED:
                        slot = find(mem, states[target, N_DIRECTORY], states[target, N_DIRECTORY_MASK], key)
                        status = mem[slot + 1] & STATUS
                        if feedback is not None and status in (LIVE, TOUCHED):
                            since = mem[slot + 1] >> STATUS_BITS
                            if fb.has_gap(mem, lists, gaps, target, code, frame, since):
                                drop_entries(mem, states, target, key)
                                mem[slot + 1] = status = SUSPENDED
                    if status == LIVE:
                        mem[slot + 1] += TOUCHED - LIVE
                    elif status == SUSPENDED or (
                        status == ABSENT
                        and (
                            states[target, N_COMPLETE] != PRINTED
                            or not has_entry(mem, streams, states, lists, target, key, watermark)
                        )
                    ):
                        if feedback is not None and gaps[target, fb.O_SEARCH] >= 0:
                            until = fb.witness(
                                mem,
                                floats,
                                streams,
                                paths,
                                steps,
                                programs,
                                lists,
                                thetas,
                                integer_offsets,
                                float_offsets,
                                cursors,
                                probed,
                                latests,
                                expiries,
                                bound,
                                code,
                                counters,
                                gaps[target, fb.O_SEARCH],
                                frame,
                                states[target, N_KEY],
                                states[target, N_KEY_COUNT],
                                watermark,
                            )
                            if until <= watermark:  # most keys are asked for once: it is not worth keeping
                                probed[frame, depth] = key
                                cursors[frame, depth] = -1
                                probes += 1
                                completions += 1
                                phase = SCAN
                                if frame == 0:
                                    met[depth] = 0
                                continue
                        if 2 * (states[target, N_LIVE] + 1) > states[target, N_DIRECTORY_MASK]:
                            stop, store = DIRECTORY_FULL, target
                            break
                        completions += 1
                        # Complete this key first, in a frame of its own.
                        if frame == 0:
                            completing_probes -= probes
                            completing_candidates -= candidates
                            completing_stored -= stored
                        frame_depth[frame] = depth
                        above = frame + 1
                        frame_program[above] = n + target
                        origin = programs[n + target, G_FIRST]
                        frame_state[above] = target
                        frame_key[above] = key
                        frame_birth[above] = states[target, N_BIRTH] if states[target, N_COMPLETE] == YOUNG else -1
                        first = states[target, N_KEY]
                        for i in range(first, first + states[target, N_KEY_COUNT]):
                            code[above, lists[i]] = code[frame, lists[i]]
                        # What expires by the watermark can meet no tuple to come.
                        latests[above, 0] = watermark
                        expiries[above, 0] = FOREVER
                        frame, depth = above, 0
                        continue
                if steps[step, X_SCAN]:
                    cursors[frame, depth] = states[target, N_COUNT] - 1
                else:
                    cursors[frame, depth] = mem[states[target, N_HEADS] + (key & states[target, N_MASK])]
            elif steps[step, X_SCAN]:
                cursors[frame, depth] = streams[target, S_NEXT] - 1
            else:
                path = steps[step, X_PATH]
                cursors[frame, depth] = mem[paths[path, P_HEADS] + (key & paths[path, P_MASK]) * paths[path, P_SPAN]]
            probed[frame, depth] = key
            probes += 1
            if feedback is not None and frame == 0:
                met[depth] = 0
            if eddy is not None and frame_program[frame] < n:
                seen[step, eddies.V_PROBES] += 1
            phase = SCAN

        elif phase == SCAN:
            if feedback is None and eddy is None:
                while depth > 0 and cursors[frame, depth] < 0:  # the chain has ended
                    depth -= 1
            step = origin + depth
            has, knows, looked = ALL, ALL, candidates
            if eddy is not None and frame_program[frame] < n:
                step = hops[depth, eddies.H_STEP]
                has = hops[depth, eddies.H_DONE] | modules[step, eddies.M_STREAMS]
                knows = hops[depth, eddies.H_KNOWN]
            target, is_state, birth = steps[step, X_TARGET], steps[step, X_IS_STATE], frame_birth[frame]
            scan, key = steps[step, X_SCAN] != 0, probed[frame, depth]
            latest, expiry = latests[frame, depth], expiries[frame, depth]
            candidate = cursors[frame, depth]
            checks, check_count = steps[step, X_CHECKS], steps[step, X_CHECK_COUNT]
            first_theta, theta_count = steps[step, X_THETAS], steps[step, X_THETA_COUNT]
            if is_state:
                region, stride, mask, oldest = states[target, N_REGION], states[target, N_STRIDE], GREATEST, 0
                chain, field, exact = ENTRY_LINK, ENTRY_KEY, True
                lifetime, rows, alive, born = 0, 0, 0, GREATEST
            else:
                region, stride = streams[target, S_REGION], streams[target, S_STRIDE]
                mask, oldest = streams[target, S_MASK], streams[target, S_OLDEST]
                born = mem[birth + target] if birth >= 0 else GREATEST
                chain = 0 if scan else paths[steps[step, X_PATH], P_LINK]
                field, exact = steps[step, X_FIELD], steps[step, X_KEY_COUNT] == 1
                lifetime, rows = streams[target, S_LIFETIME], streams[target, S_ROWS]
                alive = streams[target, S_PREFIX] + ALIVE
            reached, lasting = latest, expiry
            found = False
            while candidate >= oldest and not found:
                word = region + (candidate & mask) * stride
                sequence = candidate
                candidate = candidate - 1 if scan else mem[word + chain]
                candidates += 1
                if (exact and mem[word + field] != key) or sequence >= born:
                    continue
                reached = mem[word + T]  # of an entry just as of a base tuple
                if is_state:
                    lasting = mem[word + ENTRY_EXPIRY]
                elif lifetime < FOREVER:
                    lasting = reached + lifetime
                elif rows > 0 and mem[word + alive] != JOINING:
                    continue
                else:
                    lasting = FOREVER
                reached, lasting = max(latest, reached), min(expiry, lasting)
                if reached >= lasting:
                    continue
                if is_state:
                    first = states[target, N_ROWS]
                    if not components_alive(mem, streams, lists, word, first, states[target, N_ROWS_COUNT]):
                        continue
                    first = states[target, N_COMPONENTS]
                    if birth >= 0 and not is_older(mem, lists, word, first, states[target, N_COMPONENT_COUNT], birth):
                        continue
                    for i in range(states[target, N_COMPONENT_COUNT]):
                        bound[frame, lists[first + i]] = mem[word + COMPONENTS + i]
                else:
                    bound[frame, target] = sequence
                found = True
                for i in range(checks, checks + 3 * check_count, 3):
                    if eddy is not None and not (knows >> lists[i]) & 1:
                        continue
                    if code_of(mem, streams, bound, frame, lists[i + 1], lists[i + 2]) != code[frame, lists[i]]:
                        found = False
                        break
                if found:
                    for i in range(first_theta, first_theta + theta_count):
                        if eddy is not None and not (
                            (has >> thetas[lists[i], H_LEFT]) & (has >> thetas[lists[i], H_RIGHT]) & 1
                        ):
                            continue
                        if not theta_holds(
                            mem, floats, streams, thetas, integer_offsets, float_offsets, bound, frame, lists[i]
                        ):
                            found = False
                            break
            if eddy is not None and frame_program[frame] < n:
                seen[step, eddies.V_CANDIDATES] += candidates - looked
                seen[step, eddies.V_MATCHES] += found
            if found:
                cursors[frame, depth] = candidate if candidate >= oldest else -1
                prefetch(mem, region + (max(candidate, oldest) & mask) * stride)  # it comes before it is needed
                latests[frame, depth + 1] = reached
                expiries[frame, depth + 1] = lasting
                binds = steps[step, X_BINDS]
                for i in range(binds, binds + 3 * steps[step, X_BIND_COUNT], 3):
                    code[frame, lists[i]] = code_of(mem, streams, bound, frame, lists[i + 1], lists[i + 2])
                phase = ACT
                if feedback is not None and frame_program[frame] < n:
                    met[depth] = 1
                    if places[n + step, fb.L_SITE_COUNT] > 0:
                        spot, phase = depth, JUDGE
            elif (
                feedback is not None
                and frame_program[frame] < n
                and met[depth] == 0
                and places[n + step, fb.L_ASKED_COUNT] > 0
            ):
                met[depth] = 1
                cursors[frame, depth] = -1
                phase = ASK
            elif depth > 0:
                depth -= 1
            elif frame > 0:
                # The key is complete: live from now on; open the probe that asked for it again, if one did.
                target, key = frame_state[frame], frame_key[frame]
                slot = find(mem, states[target, N_DIRECTORY], states[target, N_DIRECTORY_MASK], key)
                if mem[slot + 1] == ABSENT:
                    states[target, N_LIVE] += 1
                mem[slot] = key
                mem[slot + 1] = (clock << STATUS_BITS) | LIVE
                frame -= 1
                origin = programs[frame_program[frame], G_FIRST]
                if frame == 0:
                    completing_probes += probes
                    completing_candidates += candidates
                    completing_stored += stored
                depth = frame_depth[frame]
                phase = OPEN if depth >= 0 else FETCH
            else:
                phase = FETCH

        elif feedback is not None and phase == JUDGE:
            # Is there a demand for what was found? If not, it goes no further.
            here = frame_program[0] if spot < 0 else programs[frame_program[0], G_FIRST] + depth
            if eddy is not None and spot >= 0:
                here = hops[depth, eddies.H_STEP]
            here += n if spot >= 0 else 0
            phase = OPEN if spot < 0 else ACT
            first = places[here, fb.L_SITES]
            for site in range(first, first + places[here, fb.L_SITE_COUNT]):
                demand = sites[site, fb.W_DEMAND]
                if demands[demand, fb.D_STATE] >= 0:
                    verdict = fb.DEMANDED
                    state = demands[demand, fb.D_STATE]
                    if seems_empty(mem, streams, states, lists, state, watermark):
                        if states[state, N_COUNT] > 0:
                            sweep(mem, tables, state, watermark)
                        if states[state, N_COUNT] == 0:
                            verdict = fb.WANTING
                elif demands[demand, fb.D_IS_FILTERED]:
                    verdict = fb.WANTING if fb.lacks(mem, lists, demands, filters, demand, code) else fb.DEMANDED
                else:
                    key = hash_codes(code, 0, lists, demands[demand, fb.D_KEY], demands[demand, fb.D_KEY_COUNT])
                    word = fb.slot_of(mem, demands, demand, key)
                    verdict = fb.recall(mem, streams, paths, lists, demands, demand, word, code, watermark)
                    if verdict == fb.OUTDATED:
                        verdict = fb.examine(
                            mem,
                            floats,
                            streams,
                            paths,
                            steps,
                            programs,
                            lists,
                            thetas,
                            integer_offsets,
                            float_offsets,
                            cursors,
                            probed,
                            latests,
                            expiries,
                            bound,
                            code,
                            demands,
                            tally,
                            counters,
                            demand,
                            word,
                            key,
                            watermark,
                        )
                if verdict == fb.WANTING:
                    sites[site, fb.W_STOPS] += 1
                    tally[fb.T_UNPROBED] += 1
                    tally[fb.T_WITHHELD] += spot >= 0
                    fb.leave_gaps(mem, lists, sites, gaps, tally, code, site, clock)
                    phase = SCAN
                    if spot < 0:
                        phase = FETCH
                        if demands[demand, fb.D_IS_FINAL]:
                            forget_newest(mem, streams, paths, lists, frame_program[0])
                    break

        elif feedback is not None and phase == ASK:
            # The probe at this depth has found nothing: which part of the tuple has no partner (JIT IV-A)?
            step = programs[frame_program[0], G_FIRST] + depth
            if eddy is not None:
                step = hops[depth, eddies.H_STEP]
            first = places[n + step, fb.L_ASKED]
            stopping, size = -1, 0
            back = depth
            for i in range(first, first + places[n + step, fb.L_ASKED_COUNT]):
                site = lists[i]
                if stopping >= 0 and sites[site, fb.W_SIZE] > size:
                    break  # not minimal
                at = sites[site, fb.W_DEPTH]
                if eddy is not None and at >= 0:
                    at = depth
                    for d in range(depth):
                        if hops[d, eddies.H_STEP] == sites[site, fb.W_STEP]:
                            at = d
                if at >= back:
                    continue
                demand = sites[site, fb.W_DEMAND]
                key = hash_codes(code, 0, lists, demands[demand, fb.D_KEY], demands[demand, fb.D_KEY_COUNT])
                word = fb.slot_of(mem, demands, demand, key)
                verdict = fb.recall(mem, streams, paths, lists, demands, demand, word, code, watermark)
                if verdict != fb.DEMANDED and verdict != fb.WANTING:
                    verdict = fb.examine(
                        mem,
                        floats,
                        streams,
                        paths,
                        steps,
                        programs,
                        lists,
                        thetas,
                        integer_offsets,
                        float_offsets,
                        cursors,
                        probed,
                        latests,
                        expiries,
                        bound,
                        code,
                        demands,
                        tally,
                        counters,
                        demand,
                        word,
                        key,
                        watermark,
                    )
                if verdict == fb.WANTING:
                    stopping, back, size = site, at, sites[site, fb.W_SIZE]
            phase = SCAN
            if stopping >= 0:
                fb.leave_gaps(mem, lists, sites, gaps, tally, code, stopping, clock)
                if back < 0:
                    phase = FETCH
                depth = max(0, back)

        else:
            # 4. Store or emit; never both, for the root keeps no state.
            program = frame_program[frame]
            last = depth + 1 == programs[program, G_STEPS]
            step = origin + depth
            target = steps[step, X_STORES] if depth >= 0 else -1
            if eddy is not None and program < n and depth >= 0:
                target = eddies.land(modules, climbs, hops, program, depth)
                last = hops[depth + 1, eddies.H_DONE] == (1 << n) - 1
            if target >= 0:
                key = hash_codes(code, frame, lists, states[target, N_KEY], states[target, N_KEY_COUNT])
                wanted = last or states[target, N_COMPLETE] != INCOMPLETE
                if not wanted:
                    slot = find(mem, states[target, N_DIRECTORY], states[target, N_DIRECTORY_MASK], key)
                    wanted = mem[slot + 1] != ABSENT and mem[slot + 1] != SUSPENDED
                if wanted:
                    count = states[target, N_COUNT]
                    if count == states[target, N_CAPACITY]:
                        stop, store = STATE_FULL, target
                        break
                    word = states[target, N_REGION] + count * states[target, N_STRIDE]
                    mem[word + ENTRY_T] = latests[frame, depth + 1]
                    mem[word + ENTRY_EXPIRY] = expiries[frame, depth + 1]
                    mem[word + ENTRY_KEY] = key
                    head = states[target, N_HEADS] + (key & states[target, N_MASK])
                    mem[word + ENTRY_LINK] = mem[head]
                    mem[head] = count
                    first = states[target, N_COMPONENTS]
                    for i in range(states[target, N_COMPONENT_COUNT]):
                        mem[word + COMPONENTS + i] = bound[frame, lists[first + i]]
                    states[target, N_COUNT] = count + 1
                    stored += 1
            elif last:
                if outputs == room:
                    stop = OUTPUT_FULL
                    break
                output[0, outputs] = latests[0, depth + 1]
                output[1, outputs] = expiries[0, depth + 1]
                for s in range(n):
                    output[2 + s, outputs] = code_of(mem, streams, bound, 0, s, ROW)
                outputs += 1
                results += 1
                if depth < 0:
                    phase = FETCH
                    continue
            if last:
                phase = SCAN
            else:
                depth += 1
                phase = OPEN
                if eddy is not None and program < n:
                    eddies.send(modules, eddy_heads, climbs, order, hops, temper, program, depth)

    registers[R_FRAME], registers[R_DEPTH], registers[R_PHASE] = frame, depth, phase
    registers[R_OUTPUTS], registers[R_DEATHS], registers[R_WATERMARK] = outputs, died, watermark
    if frame > 0:  # stopped while completing
        completing_probes += probes
        completing_candidates += candidates
        completing_stored += stored
    counters[C_COMPLETING_PROBES] += completing_probes
    counters[C_COMPLETING_CANDIDATES] += completing_candidates
    counters[C_COMPLETING_STORED] += completing_stored
    counters[C_TUPLES] += taken
    counters[C_PROBES] += probes
    counters[C_CANDIDATES] += candidates
    counters[C_STORED] += stored
    counters[C_COMPLETIONS] += completions
    counters[C_RESULTS] += results
    return stop, store
