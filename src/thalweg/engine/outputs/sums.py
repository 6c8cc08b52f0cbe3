"""SUM and AVG, exact: the sum is held without rounding, and rounded once when it is shown.

- SUM of integers is an int64, or an error if the sum of the window's contents does not fit.
- SUM of decimals is a decimal of ten digits more, as Spark's, or an error likewise.
- AVG of integers is the double nearest to the exact quotient. AVG of decimals is a decimal with four more digits
  behind the point, as Spark's: the exact quotient, half rounded away from zero.
- SUM of doubles is the double nearest to the exact sum (as :func:`math.fsum` has it; an infinity
  if that is out of range), and AVG that double divided by the count.
"""

from __future__ import annotations

from decimal import Decimal
from typing import ClassVar

import numpy as np
import pyarrow as pa

from thalweg.cql.query import AggregateCall
from thalweg.engine.kernels import sums as kernels
from thalweg.engine.kernels.aggregate import Routed
from thalweg.engine.kernels.sums import LIMB_BITS, LIMB_MASK, DoubleSums
from thalweg.engine.outputs.accumulators import (
    CountValues,
    Sides,
    as_integers,
    blank_sides,
    checked_cast,
    decimal_scale,
    decimal_words,
    decimals,
    is_short_decimal,
)
from thalweg.engine.rows.interner import canonical_bits
from thalweg.engine.storage.arrays import Bools, Int64s, grown
from thalweg.errors import InputError

_EXACT_IN_DOUBLE = 2**53  # integers below are doubles, so the quotient of two is rounded once
_LARGEST_DECIMAL = 10**38 - 1


class IntegerSum(CountValues):
    """SUM and AVG of integers, and of decimals as unscaled integers."""

    __image__: ClassVar = ("_slot_words", "_limbs")

    def __init__(self, call: AggregateCall) -> None:
        super().__init__(call)
        kind = call.argument_type
        self._scale = decimal_scale(kind)  # None: integers
        words = 1 if self._scale is None or is_short_decimal(kind) else 2
        self._slot_words = np.zeros((0, words), np.int64)
        self._limbs = np.zeros((0, 2 * words), np.int64)

    def reserve(self, slots: int, groups: int) -> None:
        super().reserve(slots, groups)
        self._slot_words = grown(self._slot_words, slots)
        self._limbs = grown(self._limbs, groups)

    def apply(self, routed: Routed, argument: pa.Array) -> Sides:
        counts = super().apply(routed, argument)
        before, after = blank_sides(routed, self._limbs.shape[1])
        kernels.sum_integers(routed, self._words(argument), self._slot_words, self._limbs, before, after)
        return Sides(
            before=self._shown(before, counts.before),
            after=self._shown(after, counts.after),
            before_null=counts.before == 0,
            after_null=counts.after == 0,
        )

    def column(self, values: Int64s, null: Bools) -> pa.Array:
        if self._scale is not None:
            return checked_cast(decimals(values, null, self.call.type.scale), self.call.type, self)
        if self.call.function == "AVG":
            return pa.array(values.view(np.float64), mask=null).cast(self.call.type)
        return pa.array(values, mask=null).cast(self.call.type)

    def _words(self, argument: pa.Array) -> Int64s:
        if self._scale is None:
            return as_integers(checked_cast(argument, pa.int64(), self)).reshape(-1, 1)
        return np.array(decimal_words(argument)[:, : self._slot_words.shape[1]], order="C")

    def _shown(self, limbs: Int64s, counts: Int64s) -> Int64s:
        words, beyond = _settled(limbs)
        if self.call.function == "AVG":
            if self._scale is None:
                return _quotients(words, beyond, counts)
            return self._decimal_quotients(words, beyond, counts, 10 ** (self.call.type.scale - self._scale))
        if self._scale is None:
            self._check(words, beyond, beyond != words[:, 0] >> 63, 2**63 - 1, "a 64-bit integer")
            return words[:, 0]
        if words.shape[1] == 1:  # cannot overflow: 10**18 times 2**62 is less than 10**38
            return np.stack([words[:, 0], beyond], axis=1)
        top = words[:, 1]
        bound = _LARGEST_DECIMAL >> 64
        suspect = (beyond != top >> 63) | (top >= bound) | (top < -bound)
        self._check(words, beyond, suspect, _LARGEST_DECIMAL, "a decimal of 38 digits")
        return words

    def _decimal_quotients(self, words: Int64s, beyond: Int64s, counts: Int64s, finer: int) -> Int64s:
        """Unscaled decimals in two words: the quotients in units so much finer, half rounded away from zero."""
        low = words[:, 0]
        divisors = np.maximum(counts, 1)
        limit = 2**62 // (2 * finer)
        short = (low < limit) & (low > -limit) & (beyond == low >> 63)
        for higher in words.T[1:]:
            short &= higher == low >> 63
        quotients = np.zeros((len(low), 2), np.int64)
        rounded = (np.abs(low[short]) * (2 * finer) // divisors[short] + 1) // 2
        quotients[short, 0] = np.where(low[short] < 0, -rounded, rounded)
        quotients[short, 1] = quotients[short, 0] >> 63
        for i in np.flatnonzero(~short):
            total = _integer(words[i], beyond[i])
            whole = (abs(total) * 2 * finer // int(divisors[i]) + 1) // 2
            if whole > _LARGEST_DECIMAL:
                raise InputError(f"{self} overflows: it does not fit in {self.call.type}. Cast its argument to DOUBLE.")
            signed = -whole if total < 0 else whole
            quotients[i] = np.array([signed & 2**64 - 1, signed >> 64 & 2**64 - 1], np.uint64).view(np.int64)
        return quotients

    def _check(self, words: Int64s, beyond: Int64s, suspect: Bools, largest: int, holder: str) -> None:
        """Raise for the first suspect sum that does not fit."""
        smallest = -largest - 1 if self._scale is None else -largest
        for i in np.flatnonzero(suspect):
            total = _integer(words[i], beyond[i])
            if not smallest <= total <= largest:
                digits = tuple(int(digit) for digit in str(abs(total)))
                value = Decimal((int(total < 0), digits, -(self._scale or 0)))
                raise InputError(
                    f"{self} overflows: {value:f} does not fit in {holder}. "
                    f"Cast its argument to DOUBLE if a rounded sum will do."
                )


class DoubleSum(CountValues):
    """SUM and AVG of doubles."""

    __image__: ClassVar = ("_base", "_sums")

    def __init__(self, call: AggregateCall) -> None:
        super().__init__(call)
        self._base = 0  # the number of the first limb held
        self._sums = DoubleSums(
            value=np.zeros(0, np.int64),
            limbs=np.zeros((0, 0), np.int64),
            special=np.zeros((0, 3), np.int64),
            rounded=np.zeros(0, np.int64),
            scratch=np.zeros(1, np.int64),
        )

    def reserve(self, slots: int, groups: int) -> None:
        super().reserve(slots, groups)
        sums = self._sums
        self._sums = sums._replace(
            value=grown(sums.value, slots),
            limbs=grown(sums.limbs, groups),
            special=grown(sums.special, groups),
            rounded=grown(sums.rounded, groups),
        )

    def apply(self, routed: Routed, argument: pa.Array) -> Sides:
        counts = super().apply(routed, argument)
        bits = as_integers(argument)
        self._reach(bits)
        before, after = blank_sides(routed)
        kernels.sum_doubles(routed, bits, self._sums, self._base, before, after)
        if self.call.function == "AVG":
            before, after = _averages(before, counts.before), _averages(after, counts.after)
        return Sides(before, after, counts.before == 0, counts.after == 0)

    def column(self, values: Int64s, null: Bools) -> pa.Array:
        return pa.array(values.view(np.float64), mask=null).cast(self.call.type)

    def _reach(self, bits: Int64s) -> None:
        """Hold all limbs that these values add to: few, unless their magnitudes differ widely."""
        exponents = (bits >> kernels.MANTISSA_BITS) & kernels.EXPONENT_MASK
        exponents = exponents[(exponents != kernels.EXPONENT_MASK) & (bits << 1 != 0)]
        if not len(exponents):
            return
        held = self._sums.limbs.shape[1]
        first = max(0, int(exponents.min()) - 1) // LIMB_BITS
        end = max(0, int(exponents.max()) - 1) // LIMB_BITS + 3  # a value spans three limbs
        if held:
            first, end = min(first, self._base), max(end, self._base + held)
        if end - first > held:
            limbs = np.zeros((len(self._sums.limbs), end - first), np.int64)
            limbs[:, self._base - first : self._base - first + held] = self._sums.limbs
            self._base = first
            self._sums = self._sums._replace(limbs=limbs, scratch=np.zeros(end - first + 1, np.int64))


def _settled(limbs: Int64s) -> tuple[Int64s, Int64s]:
    """Sums in 64-bit words, the lowest first, and what is beyond these: carries propagated."""
    carry = np.zeros(len(limbs), np.int64)
    digits = np.empty_like(limbs)
    for i in range(limbs.shape[1]):
        carry += limbs[:, i]
        digits[:, i] = carry & LIMB_MASK
        carry >>= LIMB_BITS
    return digits[:, 0::2] | digits[:, 1::2] << LIMB_BITS, carry


def _integer(words: Int64s, beyond: np.int64) -> int:
    number = int(beyond)
    for word in words[::-1]:
        number = number << 64 | int(word) & 2**64 - 1
    return number


def _quotients(words: Int64s, beyond: Int64s, counts: Int64s) -> Int64s:
    """Bits of the doubles nearest to ``sum / count``; no matter what where the count is 0."""
    low = words[:, 0]
    divisors = np.maximum(counts, 1)
    short = (low < _EXACT_IN_DOUBLE) & (low > -_EXACT_IN_DOUBLE) & (beyond == low >> 63)
    for higher in words.T[1:]:
        short &= higher == low >> 63
    short &= divisors < _EXACT_IN_DOUBLE
    quotients = np.zeros(len(low), np.float64)
    quotients[short] = low[short] / divisors[short]
    for i in np.flatnonzero(~short):
        quotients[i] = _integer(words[i], beyond[i]) / int(divisors[i])
    return canonical_bits(quotients)


def _averages(sums: Int64s, counts: Int64s) -> Int64s:
    return canonical_bits(sums.view(np.float64) / np.maximum(counts, 1))
