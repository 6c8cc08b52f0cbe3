"""Kernels of the running aggregates: results enter and leave groups, and each touch is a change.

Design
    :func:`route` turns events (a result enters or leaves at an instant) into *changes*: all
    events of one group at one instant. The other kernels replay the same events in the same
    order for one aggregate each, note its value at the first event of a change (which is
    the value before the instant) and after the last (which is the value at the instant).

Invariants
    Sums are linear: what a result added when it entered is exactly what is subtracted when it
    leaves, so a group without results is all zeros, whatever its history, and its number can
    serve another group at once. The order of events within an instant cannot matter.

Numbers
    A sum is held in *limbs*: limb ``i`` counts multiples of ``2**(32 * i)``, each value adding at
    most 32 bits to each of a few limbs, and carries are only propagated when the sum is read.
    An int64 limb so holds more than 2**30 results. Doubles are sums of the same kind in units of
    the smallest double, ``2**-1074`` (a superaccumulator: R. Neal, "Fast exact summation using
    small and large superaccumulators", 2015), of which only the limbs in use are stored.
    Doubles travel as their bits, so every array here is made of integers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thalweg.engine.kernels.compiled import Int64s, jit

Int8s = NDArray[np.int8]

NOTHING = -1
"""No group, no result, no entry."""

LIMB_BITS = 32
LIMB_MASK = 2**32 - 1
MANTISSA_BITS = 52
MANTISSA_MASK = 2**52 - 1
EXPONENT_MASK = 2047
SIGN = -(2**63)
POSITIVE_INFINITY = 2047 << 52
NEGATIVE_INFINITY = POSITIVE_INFINITY | SIGN
NAN = POSITIVE_INFINITY | 1 << 51
# Columns of DoubleSums.special: how many alive values of a group are no numbers.
NANS, POSITIVES, NEGATIVES = 0, 1, 2
# Columns of Heaps.node: the key, the first child, the parent's next child, and the child before
# (of the first child: the parent).
KEY, CHILD, SIBLING, PREVIOUS = 0, 1, 2, 3


class Routed(NamedTuple):
    """The events of a call, each with its change, and the changes, in time order.

    A change with ``first[c] == e`` begins with event ``e``, and ends with ``last[c]``.
    """

    slot: Int64s  # [event] the result
    entry: Int64s  # [event] which of the entering results it is; NOTHING if it leaves
    change: Int64s  # [event]
    group: Int64s  # [change]
    first: Int64s  # [change] event
    last: Int64s  # [change] event
    before: Int64s  # [change] results in the group before the instant
    after: Int64s  # [change] results in the group at the instant


class DoubleSums(NamedTuple):
    """Exact sums of doubles."""

    value: Int64s  # [slot] bits of the result's value
    limbs: Int64s  # [group, limb] from limb number ``base`` of the superaccumulator on
    special: Int64s  # [group, NANS..NEGATIVES]
    rounded: Int64s  # [group] bits of the nearest double of the sum
    scratch: Int64s  # one more than the limbs of a group


class Heaps(NamedTuple):
    """A pairing heap of results per group, least key at the root, linked through the slots.

    Fredman, Sedgewick, Sleator and Tarjan 1986: entering takes constant and leaving, from anywhere
    in the heap, logarithmic amortised time, without any memory but these links.
    """

    node: Int64s  # [slot, KEY..PREVIOUS] together, as they are used together
    held: Int8s  # [slot] whether it is in a heap: NULL is not
    root: Int64s  # [group]


@jit
def route(
    times: Int64s,
    signs: Int8s,
    slots: Int64s,
    groups: Int64s,
    slot_group: Int64s,
    alive: Int64s,
    mark: Int64s,
    routed: Routed,
) -> int:
    """Find the changes of a batch of events, and return their number.

    ``groups`` has the group of each entering result; ``slot_group[slot]``, ``alive[group]`` and all arrays
    of ``routed`` (long enough for a change per event) are updated; ``mark[group]`` is NOTHING before and after.
    An event that makes no sense (a held slot is entered, a free one left) ends the call: ``-1 - event``
    is returned.
    """
    entered = 0
    changes = 0
    opened = 0  # the first change of this instant
    for event in range(len(times)):
        if event > 0 and times[event] != times[event - 1]:
            opened = changes
        slot = slots[event]
        if (signs[event] > 0) != (slot_group[slot] == NOTHING):
            return -1 - event
        if signs[event] > 0:
            group = groups[entered]
            slot_group[slot] = group
            routed.entry[event] = entered
            entered += 1
            step = 1
        else:
            group = slot_group[slot]
            slot_group[slot] = NOTHING
            routed.entry[event] = NOTHING
            step = -1
        change = mark[group]
        if change < opened:
            change = changes
            changes += 1
            mark[group] = change
            routed.group[change] = group
            routed.first[change] = event
            routed.before[change] = alive[group]
        alive[group] += step
        routed.slot[event] = slot
        routed.change[event] = change
        routed.last[change] = event
        routed.after[change] = alive[group]
    for change in range(changes):
        mark[routed.group[change]] = NOTHING
    return changes


@jit
def count(routed: Routed, valid: Int8s, slot_valid: Int8s, counts: Int64s, before: Int64s, after: Int64s) -> None:
    """Count the values that are not NULL.

    ``valid`` has one flag per entering result; ``slot_valid[slot]`` and ``counts[group]`` are updated,
    ``before`` and ``after`` filled per change.
    """
    for event in range(len(routed.slot)):
        change = routed.change[event]
        group = routed.group[change]
        slot = routed.slot[event]
        if event == routed.first[change]:
            before[change] = counts[group]
        if routed.entry[event] != NOTHING:
            slot_valid[slot] = valid[routed.entry[event]]
            counts[group] += slot_valid[slot]
        else:
            counts[group] -= slot_valid[slot]
        if event == routed.last[change]:
            after[change] = counts[group]


@jit
def sum_integers(
    routed: Routed, words: Int64s, slot_words: Int64s, limbs: Int64s, before: Int64s, after: Int64s
) -> None:
    """Add up integers of one or two 64-bit words, the lowest first; NULLs come as 0.

    ``words[entry, word]`` are the arguments; ``slot_words[slot, word]`` and ``limbs[group, limb]``, two limbs
    for each word, are updated; ``before`` and ``after`` get the limbs per change, carries not yet propagated.
    """
    word_count = words.shape[1]
    for event in range(len(routed.slot)):
        change = routed.change[event]
        group = routed.group[change]
        slot = routed.slot[event]
        if event == routed.first[change]:
            for i in range(limbs.shape[1]):
                before[change, i] = limbs[group, i]
        sign = -1
        if routed.entry[event] != NOTHING:
            for i in range(word_count):
                slot_words[slot, i] = words[routed.entry[event], i]
            sign = 1
        for i in range(word_count):
            word = slot_words[slot, i]
            high = word >> LIMB_BITS
            if i + 1 < word_count:  # only the last word has a sign
                high &= LIMB_MASK
            limbs[group, 2 * i] += sign * (word & LIMB_MASK)
            limbs[group, 2 * i + 1] += sign * high
        if event == routed.last[change]:
            for i in range(limbs.shape[1]):
                after[change, i] = limbs[group, i]


@jit
def _bit_length(number: int) -> int:
    """Of a number of at most 32 bits that is not 0."""
    length = 1
    for half in (16, 8, 4, 2, 1):
        if number >> half:
            number >>= half
            length += half
    return length


@jit
def _nearest_double(limbs: Int64s, group: int, base: int, digits: Int64s) -> int:
    """The bits of the double nearest to a group's sum, ties to even. ``digits`` is scratch."""
    size = limbs.shape[1]
    sign = 1
    carry = 0
    for i in range(size):
        carry = (limbs[group, i] + carry) >> LIMB_BITS
    if carry < 0:
        sign = -1
    carry = 0
    for i in range(size):
        carry += sign * limbs[group, i]
        digits[i] = carry & LIMB_MASK
        carry >>= LIMB_BITS
    digits[size] = carry
    top = size
    while top >= 0 and digits[top] == 0:
        top -= 1
    if top < 0:
        return 0
    leading = int(digits[top])
    length = _bit_length(leading)
    highest = LIMB_BITS * (base + top) + length - 1  # the position of the highest bit
    bits = 0
    if highest <= MANTISSA_BITS:  # so small that every bit fits: these are the bits of a double as they stand
        for i in range(top + 1):
            bits |= digits[i] << (LIMB_BITS * (base + i))
    elif highest - MANTISSA_BITS + 1 >= EXPONENT_MASK:
        bits = POSITIVE_INFINITY
    else:
        # The 63 highest bits, and whether anything is below them.
        room = 63 - length
        window = leading << room
        below = 0
        for i in range(top - 1, -1, -1):
            room -= LIMB_BITS
            if room >= 0:
                window |= digits[i] << room
            elif room > -LIMB_BITS:
                window |= digits[i] >> -room
                below |= digits[i] & ((1 << -room) - 1)
            else:
                below |= digits[i]
        mantissa = window >> 10
        rest = window & 1023
        if rest > 512 or (rest == 512 and (below != 0 or mantissa & 1 == 1)):
            mantissa += 1  # may carry into the exponent, and make an infinity, as it should
        bits = ((highest - MANTISSA_BITS) << MANTISSA_BITS) + mantissa
    return bits if sign > 0 else bits | SIGN


@jit
def _add_double(limbs: Int64s, special: Int64s, base: int, group: int, bits: int, sign: int) -> None:
    exponent = (bits >> MANTISSA_BITS) & EXPONENT_MASK
    mantissa = bits & MANTISSA_MASK
    if exponent == EXPONENT_MASK:
        if mantissa != 0:
            special[group, NANS] += sign
        elif bits > 0:
            special[group, POSITIVES] += sign
        else:
            special[group, NEGATIVES] += sign
        return
    if exponent > 0:
        mantissa |= 1 << MANTISSA_BITS
        exponent -= 1
    if mantissa == 0:
        return
    if bits < 0:
        sign = -sign
    shift = exponent & (LIMB_BITS - 1)
    limb = (exponent >> 5) - base
    rest = mantissa >> (LIMB_BITS - shift)
    limbs[group, limb] += sign * ((mantissa << shift) & LIMB_MASK)
    limbs[group, limb + 1] += sign * (rest & LIMB_MASK)
    limbs[group, limb + 2] += sign * (rest >> LIMB_BITS)


@jit
def _rounded(limbs: Int64s, special: Int64s, base: int, group: int, scratch: Int64s) -> int:
    if special[group, NANS] > 0 or (special[group, POSITIVES] > 0 and special[group, NEGATIVES] > 0):
        return NAN
    if special[group, POSITIVES] > 0:
        return POSITIVE_INFINITY
    if special[group, NEGATIVES] > 0:
        return NEGATIVE_INFINITY
    return _nearest_double(limbs, group, base, scratch)


@jit
def sum_doubles(routed: Routed, bits: Int64s, sums: DoubleSums, base: int, before: Int64s, after: Int64s) -> None:
    """Add up doubles exactly; NULLs come as 0.

    ``bits[entry]`` are the arguments; ``sums`` is updated, whose limbs start at number ``base`` and hold every
    value; ``before`` and ``after`` get the bits of the sum per change, rounded once.
    """
    for event in range(len(routed.slot)):
        change = routed.change[event]
        group = routed.group[change]
        slot = routed.slot[event]
        if event == routed.first[change]:
            before[change] = sums.rounded[group]
        if routed.entry[event] != NOTHING:
            sums.value[slot] = bits[routed.entry[event]]
            _add_double(sums.limbs, sums.special, base, group, sums.value[slot], 1)
        else:
            _add_double(sums.limbs, sums.special, base, group, sums.value[slot], -1)
        if event == routed.last[change]:
            sums.rounded[group] = _rounded(sums.limbs, sums.special, base, group, sums.scratch)
            after[change] = sums.rounded[group]


@jit
def _meld(nodes: Int64s, one: int, other: int) -> int:
    """Make the greater of two roots the first child of the other, which is returned."""
    if one == NOTHING:
        return other
    if other == NOTHING:
        return one
    if nodes[other, KEY] < nodes[one, KEY]:
        one, other = other, one
    first = nodes[one, CHILD]
    nodes[other, SIBLING] = first
    if first != NOTHING:
        nodes[first, PREVIOUS] = other
    nodes[other, PREVIOUS] = one
    nodes[one, CHILD] = other
    return one


@jit
def _meld_siblings(nodes: Int64s, first: int) -> int:
    """Meld a list of siblings, in pairs from left to right, then the pairs from right to left."""
    pairs = NOTHING
    while first != NOTHING:
        second = nodes[first, SIBLING]
        rest = NOTHING
        if second != NOTHING:
            rest = nodes[second, SIBLING]
            nodes[second, SIBLING] = NOTHING
        nodes[first, SIBLING] = NOTHING
        pair = _meld(nodes, first, second)
        nodes[pair, SIBLING] = pairs
        pairs = pair
        first = rest
    root = NOTHING
    while pairs != NOTHING:
        rest = nodes[pairs, SIBLING]
        nodes[pairs, SIBLING] = NOTHING
        root = _meld(nodes, root, pairs)
        pairs = rest
    return root


@jit
def _enter_heap(nodes: Int64s, root: int, slot: int, key: int) -> int:
    """The root of a heap with one more result."""
    nodes[slot, KEY] = key
    nodes[slot, CHILD] = NOTHING
    nodes[slot, SIBLING] = NOTHING
    return _meld(nodes, root, slot)


@jit
def _leave_heap(nodes: Int64s, root: int, slot: int) -> int:
    """The root of a heap without one of its results."""
    orphans = _meld_siblings(nodes, nodes[slot, CHILD])
    if root == slot:
        return orphans
    previous = nodes[slot, PREVIOUS]
    sibling = nodes[slot, SIBLING]
    if nodes[previous, CHILD] == slot:
        nodes[previous, CHILD] = sibling
    else:
        nodes[previous, SIBLING] = sibling
    if sibling != NOTHING:
        nodes[sibling, PREVIOUS] = previous
    return _meld(nodes, root, orphans)


@jit
def least(
    routed: Routed,
    keys: Int64s,
    valid: Int8s,
    heaps: Heaps,
    before: Int64s,
    before_null: Int8s,
    after: Int64s,
    after_null: Int8s,
) -> None:
    """Follow the least key of each group.

    ``keys[entry]`` are the arguments as integers of the same order, ``valid[entry]`` is 0 for NULL; ``heaps``
    is updated; ``before`` and ``after`` get the least key per change, or the flag that there is none.
    """
    for event in range(len(routed.slot)):
        change = routed.change[event]
        group = routed.group[change]
        slot = routed.slot[event]
        if event == routed.first[change]:
            root = heaps.root[group]
            before_null[change] = root == NOTHING
            before[change] = 0 if root == NOTHING else heaps.node[root, KEY]
        entry = routed.entry[event]
        if entry != NOTHING:
            heaps.held[slot] = valid[entry]
            if valid[entry]:
                heaps.root[group] = _enter_heap(heaps.node, heaps.root[group], slot, keys[entry])
        elif heaps.held[slot]:
            heaps.held[slot] = 0
            heaps.root[group] = _leave_heap(heaps.node, heaps.root[group], slot)
        if event == routed.last[change]:
            root = heaps.root[group]
            after_null[change] = root == NOTHING
            after[change] = 0 if root == NOTHING else heaps.node[root, KEY]
