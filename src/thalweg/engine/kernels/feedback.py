"""Feedback's part of the join kernel: whether somebody needs what a partial tuple would become (JIT III, IV).

Design
    The join kernel runs the programs of a plan. Given :class:`Feedback`, it asks at the *sites* of a program
    (:mod:`thalweg.plan.demand`) whether the demand there is met, and stops where it is not. What was found
    out about the values of a demand is remembered:

    DEMANDED until the combination of tuples that was found expires. Nothing has to be asked before.
    WANTING  (a suspended sub-tuple) until a tuple arrives that could be part of a partner: the newest tuple in the
             hash chain of the values, in one of the windows asked, is younger than the memory. Then it is asked again.

    As in the paper, a demand is looked into only after a probe has failed; from then on everything of
    the same values stops, until a partner arrives. Where the demand has a Bloom filter instead, nothing is
    remembered or asked: one bit per value and window tells at once what has no partner for sure.

    Where a program stops, entries are missing in states. Each state has a table of *gaps*: for what is known of
    the key of such an entry, the number of the tuple that left it out. A live key is to be trusted only if it was
    computed after the last gap that it may have.

Invariants
    What is WANTING has no partner now. (A memory may be forgotten at any time, a gap never: when the table of gaps is
    full, the state as a whole has one.)

Cost
    A site costs a lookup and, where the values are WANTING, one per window asked. A state's probe costs a lookup per
    kind of gap that it can have.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

from thalweg.engine.kernels.hashing import find, hash_codes

_Function = TypeVar("_Function", bound=Callable[..., Any])
Int64s = NDArray[np.int64]

# Columns of Feedback.demands: the table of what is remembered; the classes of its key; the program that looks for a
# witness; the windows asked, or the state (-1: none); whether filters tell; whether what is asked never changes.
D_TABLE, D_MASK, D_STRIDE, D_COUNT, D_WANTING, D_KEY, D_KEY_COUNT, D_PROGRAM = range(8)
D_PARTNERS, D_PARTNER_COUNT, D_STATE, D_IS_FILTERED, D_IS_FINAL = range(8, 13)
DEMAND_FIELDS = 13
# A window asked: its stream; its access path by the classes that it carries, or filter (-1: neither); these classes.
A_STREAM, A_PLACE, A_CLASSES, A_CLASS_COUNT = range(4)
PARTNER_FIELDS = 4
# A memory: the key, the verdict, until when it holds, and per window asked the number of the next tuple by then.
V_KEY, V_VERDICT, V_UNTIL, V_NEXT = range(4)
UNKNOWN, DEMANDED, WANTING, OUTDATED = range(4)
# Columns of Feedback.sites: the demand; the step after which it is asked (-1: before the first) and its depth; the size
# of the part; its gaps; whether it is used; and what was counted: looks and stops.
W_DEMAND, W_STEP, W_DEPTH, W_SIZE, W_GAPS, W_GAP_COUNT, W_IS_USED, W_LOOKS, W_STOPS = range(9)
SITE_FIELDS = 9
# A gap: the state, which of its kinds of gap, and the classes whose values say where.
G_STATE, G_KIND, G_CLASSES, G_CLASS_COUNT = range(4)
GAP_FIELDS = 4
# Columns of Feedback.places: the sites in the program of a stream before its first step, or after a step; and those to
# be asked when a step has found nothing: (site, ...) in lists.
L_SITES, L_SITE_COUNT, L_ASKED, L_ASKED_COUNT = range(4)
PLACE_FIELDS = 4
# Columns of Feedback.gaps, a row per state: its table; the tuple that left a gap everywhere; its kinds of gap, as
# (classes, their number) in lists; for each class of its key, in lists: (class, stream, word of the component in an
# entry, field of the tuple).
O_TABLE, O_MASK, O_COUNT, O_ALL, O_KINDS, O_KIND_COUNT, O_CARRIERS = range(7)
STATE_GAP_FIELDS = 7
# Columns of Feedback.filters: a Bloom filter over some classes of a stream's window.
F_STREAM, F_REGION, F_MASK, F_FIELDS, F_FIELD_COUNT, F_ADDED, F_MOST = range(7)
FILTER_FIELDS = 7
# Feedback.tally: whether a table is filling up; what was counted.
T_IS_FULL, T_SUSPENSIONS, T_RESUMPTIONS, T_WITHHELD, T_UNPROBED, T_TESTS = range(6)
TALLIES = 6


class Feedback(NamedTuple):
    """What feedback goes by; tables lie in the engine's memory."""

    demands: Int64s
    sites: Int64s
    places: Int64s  # [head, then step]
    gaps: Int64s
    filters: Int64s
    stream_filters: Int64s  # [stream, (first, number)]
    met: Int64s  # [depth] whether the probe there has found anything
    tally: Int64s


def _jit(function: _Function) -> _Function:
    return cast("_Function", numba.njit(cache=True, error_model="numpy")(function))


def _inlined(function: _Function) -> _Function:
    """Compiled into its caller: a call would count references to every array."""
    return cast("_Function", numba.njit(cache=True, error_model="numpy", forceinline=True)(function))


@_inlined
def slot_of(mem: Int64s, demands: Int64s, demand: int, key: int) -> int:
    """The word of what is remembered of a demand's key, or of the free slot where it would go."""
    table, mask, stride = demands[demand, D_TABLE], demands[demand, D_MASK], demands[demand, D_STRIDE]
    slot = (key ^ (key >> 32)) & mask
    word = table + slot * stride
    while mem[word + V_VERDICT] != UNKNOWN and mem[word + V_KEY] != key:
        slot = (slot + 1) & mask
        word = table + slot * stride
    return word


@_inlined
def recall(
    mem: Int64s,
    following: Int64s,
    next_column: int,
    heads: Int64s,
    lists: Int64s,
    demands: Int64s,
    demand: int,
    word: int,
    code: Int64s,
    watermark: int,
) -> int:
    """What is known by now of the values of a demand whose slot is at ``word``.

    ``following`` and ``heads`` are the tables of windows and access paths; numbers of next tuples are in the
    ``next_column`` of the first.
    """
    verdict = mem[word + V_VERDICT]
    if verdict == DEMANDED:
        return DEMANDED if mem[word + V_UNTIL] > watermark else UNKNOWN
    if verdict == WANTING:
        first = demands[demand, D_PARTNERS]
        for i in range(demands[demand, D_PARTNER_COUNT]):
            at = first + i * PARTNER_FIELDS
            path = lists[at + A_PLACE]
            if path < 0:
                newest = following[lists[at + A_STREAM], next_column] - 1
            else:
                key = hash_codes(code, 0, lists, lists[at + A_CLASSES], lists[at + A_CLASS_COUNT])
                newest = mem[heads[path, 1] + (key & heads[path, 3]) * heads[path, 2]]
            if newest >= mem[word + V_NEXT + i]:
                return OUTDATED
    return verdict


@_inlined
def remember(
    mem: Int64s,
    following: Int64s,
    next_column: int,
    lists: Int64s,
    demands: Int64s,
    tally: Int64s,
    demand: int,
    word: int,
    key: int,
    until: int,
    watermark: int,
) -> int:
    """Take down what a test has found: DEMANDED ``until`` a time, or nothing (a time that has come); the verdict."""
    before = mem[word + V_VERDICT]
    verdict = DEMANDED if until > watermark else WANTING
    if verdict == WANTING and before != WANTING:
        tally[T_SUSPENSIONS] += 1
        demands[demand, D_WANTING] += 1
    elif verdict == DEMANDED and before == WANTING:
        tally[T_RESUMPTIONS] += 1
        demands[demand, D_WANTING] -= 1
    if before == UNKNOWN:
        if 2 * demands[demand, D_COUNT] > demands[demand, D_MASK]:
            tally[T_IS_FULL] = 1
            if 4 * demands[demand, D_COUNT] > 3 * demands[demand, D_MASK]:
                demands[demand, D_WANTING] -= verdict == WANTING
                return verdict  # forgotten at once
        demands[demand, D_COUNT] += 1
    mem[word + V_KEY], mem[word + V_VERDICT], mem[word + V_UNTIL] = key, verdict, until
    first = demands[demand, D_PARTNERS]
    for i in range(demands[demand, D_PARTNER_COUNT]):
        mem[word + V_NEXT + i] = following[lists[first + i * PARTNER_FIELDS + A_STREAM], next_column]
    return verdict


@_inlined
def leave_gaps(
    mem: Int64s, lists: Int64s, sites: Int64s, gaps: Int64s, tally: Int64s, code: Int64s, site: int, clock: int
) -> None:
    """A program stops at a site: say what is missing now."""
    first = sites[site, W_GAPS]
    for i in range(sites[site, W_GAP_COUNT]):
        at = first + i * GAP_FIELDS
        state, count = lists[at + G_STATE], lists[at + G_CLASS_COUNT]
        if count == 0:
            gaps[state, O_ALL] = clock
            continue
        key = _gap_key(code, 0, lists, lists[at + G_CLASSES], count, lists[at + G_KIND])
        word = find(mem, gaps[state, O_TABLE], gaps[state, O_MASK], key)
        if mem[word + 1] == 0:
            if 2 * gaps[state, O_COUNT] > gaps[state, O_MASK]:
                tally[T_IS_FULL] = 1
                gaps[state, O_ALL] = clock
                continue
            gaps[state, O_COUNT] += 1
        mem[word], mem[word + 1] = key, clock


@_inlined
def _gap_key(code: Int64s, frame: int, lists: Int64s, start: int, count: int, kind: int) -> int:
    return hash_codes(code, frame, lists, start, count) ^ (kind * 0x9E3779B97F4A7C1)


@_inlined
def has_gap(mem: Int64s, lists: Int64s, gaps: Int64s, state: int, code: Int64s, frame: int, since: int) -> bool:
    """Whether entries of a state's key may have been left out after the tuple ``since``."""
    if gaps[state, O_ALL] > since:
        return True
    kinds = gaps[state, O_KINDS]
    for kind in range(gaps[state, O_KIND_COUNT]):
        at = kinds + 2 * kind
        if lists[at + 1] == 0:
            continue
        key = _gap_key(code, frame, lists, lists[at], lists[at + 1], kind)
        if mem[find(mem, gaps[state, O_TABLE], gaps[state, O_MASK], key) + 1] > since:
            return True
    return False


# Bloom filters: two bits per value, from two halves of its well-mixed code.


@_inlined
def _bits(key: int, mask: int) -> tuple[int, int]:
    return key & mask, (key >> 29) & mask


@_inlined
def add_to_filter(mem: Int64s, lists: Int64s, filters: Int64s, row: int, word: int) -> None:
    """Take a tuple of the window into a filter."""
    first = filters[row, F_FIELDS]
    key = mem[word + lists[first]]
    for i in range(first + 1, first + filters[row, F_FIELD_COUNT]):
        key = ((key << 23) | ((key >> 41) & 0x7FFFFF)) ^ mem[word + lists[i]]
    one, two = _bits(key, filters[row, F_MASK])
    region = filters[row, F_REGION]
    mem[region + (one >> 6)] |= 1 << (one & 63)
    mem[region + (two >> 6)] |= 1 << (two & 63)
    filters[row, F_ADDED] += 1


@_inlined
def lacks(mem: Int64s, lists: Int64s, demands: Int64s, filters: Int64s, demand: int, code: Int64s) -> bool:
    """Whether a filter says that some window has no tuple with the values of a demand."""
    first = demands[demand, D_PARTNERS]
    for i in range(demands[demand, D_PARTNER_COUNT]):
        at = first + i * PARTNER_FIELDS
        row = lists[at + A_PLACE]
        if row < 0:
            continue
        key = hash_codes(code, 0, lists, lists[at + A_CLASSES], lists[at + A_CLASS_COUNT])
        one, two = _bits(key, filters[row, F_MASK])
        region = filters[row, F_REGION]
        if not (mem[region + (one >> 6)] >> (one & 63)) & (mem[region + (two >> 6)] >> (two & 63)) & 1:
            return True
    return False
