"""The eddy's part of the join kernel: where a partial tuple goes next (CACQ, STAIRs; JISC 3.1, 4.6).

Design
    The join kernel runs the programs of a plan; given an :class:`Eddy`, it asks here after every hop
    instead, and the steps of a head's program are the *modules* to choose from (:mod:`thalweg.plan.routes`). A
    partial tuple carries the streams it has and the classes it knows as bits. Everything else, windows, states,
    completion, is the kernel's own.

    Among the modules that are ready, those with a key come first, then those that a predicate connects, then
    any; among these, the one that cost least so far: candidates looked at, and matches, each of
    which comes back to the eddy. Now and then a hop tries another, so that the eddy notices what has become
    cheap. Chance is seeded, so that runs repeat; the answer does not depend on it.

Invariants
    A module that is chosen is disjoint from the streams of the partial tuple and within the next kept state
    on its way up, so that the tuple becomes an entry of that state before it goes beyond.

Cost
    A hop walks the order of preference up to the first module with a key that is not done yet. Modules are put in
    order anew after so many tuples.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from thalweg.engine.kernels.compiled import Float64s, Int64s, inlined, jit

BITS = 62
"""How many streams or attribute classes the bits of a word can tell apart."""
RETURN = 4
"""What a match costs, in candidates: it comes back to the eddy, and is probed with again."""

# Columns of Eddy.modules: its streams, the classes it is looked up by, the classes it carries, the streams that a theta
# connects it with (all as bits); whether it is a base window to be scanned; the kept state around it, or -1.
M_STREAMS, M_NEEDS, M_CARRIES, M_MEETS, M_IS_SCAN, M_ABOVE = range(6)
MODULE_FIELDS = 6
# Columns of Eddy.heads: the classes that a tuple of the stream carries; its first module, and how many it has.
E_CARRIES, E_FIRST, E_COUNT = range(3)
HEAD_FIELDS = 3
# A level of Eddy.climbs: the streams that a tuple must have before it goes beyond; the state it is then stored in,
# or -1.
L_STREAMS, L_STATE = range(2)
LEVEL_FIELDS = 2
# A row of Eddy.hops: the streams and classes before the hop, the level that is climbed to, the module.
H_DONE, H_KNOWN, H_LEVEL, H_STEP = range(4)
HOP_FIELDS = 4
# Columns of Eddy.seen.
V_PROBES, V_CANDIDATES, V_MATCHES = range(3)
SEEN_FIELDS = 3
# Eddy.temper: the state of the random numbers; the tuples until the modules are judged again, and between two such
# judgements; the probes that a judgement takes; a mask of random bits, which are all 0 when a hop is an adventure.
SEED, UNTIL, PATIENCE, ENOUGH, CAUTION = range(5)

# How a module is connected with what a partial tuple has; the least is best.
KEYED, MET, LOOSE, UNREADY = range(4)


class Eddy(NamedTuple):
    """What an eddy goes by; all but ``modules``, ``heads`` and ``climbs`` changes as it runs."""

    modules: Int64s  # [step, field]
    heads: Int64s  # [head, field]
    climbs: Int64s  # [head, level, field]; the last level of a head is the root
    order: Int64s  # [place]: the modules of each head, the preferred ones first
    seen: Int64s  # [step, what]: what was counted since the last judgement
    price: Float64s  # [step]: candidates and returns per probe; infinite if unknown
    hops: Int64s  # [depth, field]: of the new tuple, and of the partial tuples that it has grown into
    temper: Int64s


@inlined
def _connection(modules: Int64s, module: int, done: int, known: int) -> int:
    needs = modules[module, M_NEEDS]
    if needs != 0:
        return KEYED if needs & ~known == 0 else UNREADY
    shared = modules[module, M_CARRIES] & known
    if shared != 0 and modules[module, M_IS_SCAN] != 0:
        return UNREADY  # it can be looked up instead
    if shared != 0 or modules[module, M_MEETS] & done != 0:
        return MET
    return LOOSE


@inlined
def _is_shadowed(modules: Int64s, module: int, connection: int, done: int, known: int, within: int) -> bool:
    """Whether a kept state that holds the module's streams joined already can be probed instead."""
    above = modules[module, M_ABOVE]
    while above >= 0 and modules[above, M_STREAMS] & (done | ~within) == 0:
        if _connection(modules, above, done, known) <= connection:
            return True
        above = modules[above, M_ABOVE]
    return False


@inlined
def _route(
    modules: Int64s, heads: Int64s, order: Int64s, temper: Int64s, head: int, done: int, known: int, within: int
) -> int:
    """The module that a partial tuple of ``head`` goes to.

    ``done``: its streams; ``known``: its classes; ``within``: the streams that it must have before it goes beyond.
    """
    first, count = heads[head, E_FIRST], heads[head, E_COUNT]
    drawn = (temper[SEED] * 1103515245 + 12345) & 0x7FFFFFFF
    temper[SEED] = drawn
    place = 0
    if (drawn >> 8) & temper[CAUTION] == 0:
        place = (drawn >> 16) % count
    best, least = -1, UNREADY
    for _ in range(count):
        module = order[first + place]
        place += 1
        if place == count:
            place = 0
        if modules[module, M_STREAMS] & (done | ~within) != 0:
            continue
        connection = _connection(modules, module, done, known)
        if connection < least and not _is_shadowed(modules, module, connection, done, known, within):
            best, least = module, connection
            if connection == KEYED:
                break
    return best


@jit
def _judge(heads: Int64s, order: Int64s, seen: Int64s, price: Float64s, enough: int) -> None:
    """Put the modules of every head in the order of what they cost; what was seen last counts for half.

    A module that nothing is known of stays behind the others, in the order of the plan.
    """
    for head in range(heads.shape[0]):
        first = heads[head, E_FIRST]
        end = first + heads[head, E_COUNT]
        for module in range(first, end):
            probes = seen[module, V_PROBES]
            if probes >= enough:
                cost = (seen[module, V_CANDIDATES] + RETURN * seen[module, V_MATCHES]) / probes
                price[module] = cost if price[module] == np.inf else (price[module] + cost) / 2
                for i in range(SEEN_FIELDS):
                    seen[module, i] = 0
        for place in range(first + 1, end):
            module = order[place]
            into = place
            while into > first and price[order[into - 1]] > price[module]:
                order[into] = order[into - 1]
                into -= 1
            order[into] = module


# The three moments at which the join kernel turns to the eddy.


@inlined
def send(
    modules: Int64s, heads: Int64s, climbs: Int64s, order: Int64s, hops: Int64s, temper: Int64s, head: int, depth: int
) -> None:
    """Decide on the next hop of a partial tuple."""
    within = climbs[head, hops[depth, H_LEVEL], L_STREAMS]
    hops[depth, H_STEP] = _route(modules, heads, order, temper, head, hops[depth, H_DONE], hops[depth, H_KNOWN], within)


@inlined
def embark(
    modules: Int64s,
    heads: Int64s,
    climbs: Int64s,
    order: Int64s,
    seen: Int64s,
    price: Float64s,
    hops: Int64s,
    temper: Int64s,
    stream: int,
) -> None:
    """Take in a new tuple, and decide on its first hop."""
    temper[UNTIL] -= 1
    if temper[UNTIL] <= 0:
        temper[UNTIL] = temper[PATIENCE]
        _judge(heads, order, seen, price, temper[ENOUGH])
    hops[0, H_DONE] = 1 << stream
    hops[0, H_KNOWN] = heads[stream, E_CARRIES]
    hops[0, H_LEVEL] = 0
    send(modules, heads, climbs, order, hops, temper, stream, 0)


@inlined
def land(modules: Int64s, climbs: Int64s, hops: Int64s, head: int, depth: int) -> int:
    """Take back what has grown by a hop; the state that it is an entry of now, or -1."""
    module, level = hops[depth, H_STEP], hops[depth, H_LEVEL]
    done = hops[depth, H_DONE] | modules[module, M_STREAMS]
    state = -1
    if done == climbs[head, level, L_STREAMS]:
        state = climbs[head, level, L_STATE]
        level += 1
    hops[depth + 1, H_DONE] = done
    hops[depth + 1, H_KNOWN] = hops[depth, H_KNOWN] | modules[module, M_CARRIES]
    hops[depth + 1, H_LEVEL] = level
    return state
