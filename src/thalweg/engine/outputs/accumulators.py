"""What every aggregate call has in common, and COUNT.

An :class:`Accumulator` turns arguments from Arrow into integers, lets a kernel follow them through
the events, and turns what the kernel saw before and after each change back into Arrow. All of
them are exact, so their values depend on the window contents alone, never on the order or
the batches in which events came.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from decimal import Decimal
from typing import ClassVar

import numpy as np
import pyarrow as pa

from thalweg.cql import render
from thalweg.cql.query import AggregateCall
from thalweg.engine.kernels import aggregate as kernels
from thalweg.engine.kernels.aggregate import Routed
from thalweg.engine.rows.interner import canonical_bits, comparable
from thalweg.engine.storage.arrays import Bools, Int8s, Int64s, grown
from thalweg.errors import InputError


@dataclass(frozen=True, slots=True)
class Sides:
    """An aggregate before and after each change, as integers (one or two per change) or NULL."""

    before: Int64s
    after: Int64s
    before_null: Bools
    after_null: Bools

    def differ(self) -> Bools:
        """In which changes the aggregate changed."""
        differ = self.before != self.after
        if differ.ndim > 1:
            differ = differ.any(axis=1)
        shown: Bools = (self.before_null != self.after_null) | (differ & ~self.before_null)
        return shown


class Accumulator(ABC):
    """The memory of one aggregate call: what each result contributed, and the value of each group."""

    __image__: ClassVar[tuple[str, ...]] = ()

    def __init__(self, call: AggregateCall) -> None:
        self.call = call

    def __str__(self) -> str:
        """The call as a user would write it."""
        argument = render(self.call.argument) if self.call.argument is not None else "*"
        return f"{self.call.function}({argument})"

    @abstractmethod
    def reserve(self, slots: int, groups: int) -> None:
        """Make room for results and groups below these numbers."""

    @abstractmethod
    def apply(self, routed: Routed, argument: pa.Array) -> Sides:
        """Follow a batch of events; ``argument`` has a value per entering result."""

    @abstractmethod
    def column(self, values: Int64s, null: Bools) -> pa.Array:
        """Some values of one side of the latest :class:`Sides` as a column of the call's type."""


class CountResults(Accumulator):
    """COUNT(*): the routing counts results anyway."""

    def reserve(self, slots: int, groups: int) -> None:
        """Nothing to hold."""

    def apply(self, routed: Routed, argument: pa.Array) -> Sides:  # noqa: ARG002 (it has none)
        never = np.zeros(len(routed.group), np.bool_)
        return Sides(routed.before, routed.after, never, never)

    def column(self, values: Int64s, null: Bools) -> pa.Array:
        return pa.array(values, mask=null).cast(self.call.type)


class CountValues(Accumulator):
    """COUNT(x): the values that are not NULL. Sums need to know this too."""

    __image__: ClassVar[tuple[str, ...]] = ("_slot_valid", "_counts")

    def __init__(self, call: AggregateCall) -> None:
        super().__init__(call)
        self._slot_valid = np.zeros(0, np.int8)
        self._counts = np.zeros(0, np.int64)

    def reserve(self, slots: int, groups: int) -> None:
        self._slot_valid = grown(self._slot_valid, slots)
        self._counts = grown(self._counts, groups)

    def apply(self, routed: Routed, argument: pa.Array) -> Sides:
        before, after = blank_sides(routed)
        kernels.count(routed, validity(argument), self._slot_valid, self._counts, before, after)
        never = np.zeros(len(before), np.bool_)
        return Sides(before, after, never, never)

    def column(self, values: Int64s, null: Bools) -> pa.Array:
        return pa.array(values, mask=null).cast(self.call.type)


def blank_sides(routed: Routed, *shape: int) -> tuple[Int64s, Int64s]:
    """Room for a kernel to write the values before and after each change."""
    changes = len(routed.group)
    return np.empty((changes, *shape), np.int64), np.empty((changes, *shape), np.int64)


def validity(array: pa.Array) -> Int8s:
    """1 for each value, 0 for each NULL."""
    valid: Int8s = array.is_valid().to_numpy(zero_copy_only=False).astype(np.int8)
    return valid


def decimal_scale(kind: pa.DataType | None) -> int | None:
    """The scale of a decimal of at most 38 digits (so of 128 bits); None if it is no such thing."""
    if kind is None or not pa.types.is_decimal(kind) or kind.precision > 38:
        return None
    return int(kind.scale)


def is_short_decimal(kind: pa.DataType | None) -> bool:
    """Whether it is a decimal whose unscaled value fits in 64 bits."""
    return kind is not None and bool(pa.types.is_decimal(kind)) and kind.precision <= 18


def as_integers(array: pa.Array) -> Int64s:
    """Values of any type of at most 64 bits as integers, NULLs as 0.

    Doubles as their bits, times and dates in their unit, short decimals unscaled, uint64 modulo 2**64.
    """
    if pa.types.is_decimal(array.type):
        return np.ascontiguousarray(decimal_words(array)[:, 0])
    if pa.types.is_floating(array.type):
        return canonical_bits(array.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False))
    plain = comparable(array)
    if pa.types.is_uint64(plain.type):
        unsigned: Int64s = plain.fill_null(0).to_numpy(zero_copy_only=False).view(np.int64)
        return unsigned
    integers: Int64s = plain.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return integers


def decimal_words(array: pa.Array) -> Int64s:
    """The unscaled values of decimals as two words each, the lower first; NULLs as 0."""
    kind = pa.decimal128(array.type.precision, array.type.scale)
    plain = array.cast(kind).fill_null(pa.scalar(Decimal(0), kind))
    if not len(plain):
        return np.zeros((0, 2), np.int64)
    words = np.frombuffer(plain.buffers()[1], np.int64).reshape(-1, 2)
    return words[plain.offset : plain.offset + len(plain)]


def decimals(words: Int64s, null: Bools, scale: int) -> pa.Array:
    """Decimals of 38 digits from their unscaled values in two words each.

    >>> decimals(np.array([[-125, -1], [0, 0]]), np.array([False, True]), 2).to_pylist()
    [Decimal('-1.25'), None]
    """
    valid = pa.array(~null).buffers()[1]
    data = pa.py_buffer(np.ascontiguousarray(words))
    return pa.Array.from_buffers(pa.decimal128(38, scale), len(null), [valid, data])


def checked_cast(array: pa.Array, kind: pa.DataType, what: object) -> pa.Array:
    """The array in another type; a value that does not fit is an error that names ``what`` it is for."""
    if array.type == kind:
        return array
    try:
        return array.cast(kind)
    except pa.ArrowInvalid as invalid:
        raise InputError(f"{what}: a value of type {array.type} does not fit in {kind} ({invalid})") from invalid
