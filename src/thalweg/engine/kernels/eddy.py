"""The eddy's part of the join kernel: where a partial tuple goes next (CACQ, STAIRs; JISC 3.1, 4.6).

Design
    The programs of heads leave open which PROBE comes next (:mod:`thalweg.plan.passes.routes`): SEND picks one of the
    *modules*, and LAND takes back what has grown by a match. A partial tuple carries the streams it has and the classes
    it knows as bits. Everything else, windows, states, completion, is the machine's own.

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

from thalweg.engine.kernels import tables as k
from thalweg.engine.kernels.compiled import Float64s, Int64s, inlined, jit

BITS = 62
"""How many streams or attribute classes the bits of a word can tell apart."""
RETURN = 4
"""What a match costs, in candidates: it comes back to the eddy, and is probed with again."""

# Columns of Eddy.modules: its streams, the classes it is looked up by, the classes it carries, the streams that a theta
# connects it with (all as bits); whether it is a base window to be scanned; the kept state around it, or -1.
M_STREAMS, M_NEEDS, M_CARRIES, M_MEETS, M_IS_SCAN, M_ABOVE = range(6)
MODULE_FIELDS = 6
# Columns of Eddy.heads: the classes that a tuple of the stream carries; where its modules are in Eddy.order, and how
# many; its SEND.
E_CARRIES, E_FIRST, E_COUNT, E_SEND = range(4)
HEAD_FIELDS = 4
# A level of Eddy.climbs: the streams that a tuple must have before it goes beyond; the instruction that is next then,
# the STORE of a state or EMIT.
L_STREAMS, L_NEXT = range(2)
LEVEL_FIELDS = 2
# A row of Eddy.hops: the streams and classes before the hop, the level that is climbed to.
H_DONE, H_KNOWN, H_LEVEL = range(3)
HOP_FIELDS = 3
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
    judged: Int64s  # [step, what]: the work that judgements have taken into account
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
def _judge(heads: Int64s, order: Int64s, work: Int64s, judged: Int64s, price: Float64s, enough: int) -> None:
    """Put the modules of every head in the order of what they cost; what was seen last counts for half.

    A module that nothing is known of stays behind the others, in the order of the plan.
    """
    for head in range(heads.shape[0]):
        first = heads[head, E_FIRST]
        end = first + heads[head, E_COUNT]
        for place in range(first, end):
            module = order[place]
            probes = work[module, k.W_ENTERED] - judged[module, k.W_ENTERED]
            if probes >= enough:
                candidates = work[module, k.W_CANDIDATES] - judged[module, k.W_CANDIDATES]
                matches = work[module, k.W_MATCHES] - judged[module, k.W_MATCHES]
                cost = (candidates + RETURN * matches) / probes
                price[module] = cost if price[module] == np.inf else (price[module] + cost) / 2
                for i in range(k.WORK_FIELDS):
                    judged[module, i] = work[module, i]
        for place in range(first + 1, end):
            module = order[place]
            into = place
            while into > first and price[order[into - 1]] > price[module]:
                order[into] = order[into - 1]
                into -= 1
            order[into] = module


# The moments at which the machine turns to the eddy.


@inlined
def embark(eddy: Eddy, work: Int64s, stream: int) -> None:
    """Take in a new tuple."""
    temper, hops = eddy.temper, eddy.hops
    temper[UNTIL] -= 1
    if temper[UNTIL] <= 0:
        temper[UNTIL] = temper[PATIENCE]
        _judge(eddy.heads, eddy.order, work, eddy.judged, eddy.price, temper[ENOUGH])
    hops[0, H_DONE] = 1 << stream
    hops[0, H_KNOWN] = eddy.heads[stream, E_CARRIES]
    hops[0, H_LEVEL] = 0


@inlined
def send(eddy: Eddy, head: int, depth: int) -> int:
    """Decide on the next hop of a partial tuple: the PROBE of a module."""
    done, known = eddy.hops[depth, H_DONE], eddy.hops[depth, H_KNOWN]
    within = eddy.climbs[head, eddy.hops[depth, H_LEVEL], L_STREAMS]
    return _route(eddy.modules, eddy.heads, eddy.order, eddy.temper, head, done, known, within)


@inlined
def seen_by(eddy: Eddy, module: int, depth: int) -> tuple[int, int]:
    """The streams and classes that a tuple has, as bits, when it is compared with the candidates of a module."""
    return eddy.hops[depth, H_DONE] | eddy.modules[module, M_STREAMS], eddy.hops[depth, H_KNOWN]


@inlined
def land(eddy: Eddy, head: int, module: int, depth: int) -> int:
    """Take back what has grown by a hop; the instruction that is next."""
    hops, level = eddy.hops, eddy.hops[depth, H_LEVEL]
    done = hops[depth, H_DONE] | eddy.modules[module, M_STREAMS]
    following = eddy.heads[head, E_SEND]
    if done == eddy.climbs[head, level, L_STREAMS]:
        following = eddy.climbs[head, level, L_NEXT]
        level += 1
    hops[depth + 1, H_DONE] = done
    hops[depth + 1, H_KNOWN] = hops[depth, H_KNOWN] | eddy.modules[module, M_CARRIES]
    hops[depth + 1, H_LEVEL] = level
    return following
