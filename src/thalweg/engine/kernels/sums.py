"""Kernels of SUM and AVG: exact sums of integers and doubles.

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

from thalweg.engine.kernels.aggregate import NOTHING, Routed
from thalweg.engine.kernels.compiled import Int64s, jit

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


class DoubleSums(NamedTuple):
    """Exact sums of doubles."""

    value: Int64s  # [slot] bits of the result's value
    limbs: Int64s  # [group, limb] from limb number ``base`` of the superaccumulator on
    special: Int64s  # [group, NANS..NEGATIVES]
    rounded: Int64s  # [group] bits of the nearest double of the sum
    scratch: Int64s  # one more than the limbs of a group


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
