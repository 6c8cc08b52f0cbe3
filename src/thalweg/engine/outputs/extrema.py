"""MIN and MAX while results leave: a heap per group, of whatever has an order.

Values become integers of the same order: directly, if they have at most 64 bits; otherwise
(texts, long decimals) by their rank among the distinct values in use.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pyarrow as pa

from thalweg.cql.query import AggregateCall
from thalweg.engine.kernels import extrema as kernels
from thalweg.engine.kernels.aggregate import NOTHING, Routed
from thalweg.engine.kernels.extrema import KEY, Heaps
from thalweg.engine.kernels.sums import SIGN
from thalweg.engine.outputs.accumulators import (
    Accumulator,
    Sides,
    as_integers,
    blank_sides,
    checked_cast,
    decimal_scale,
    decimals,
    validity,
)
from thalweg.engine.rows.interner import Interner
from thalweg.engine.storage.arrays import Bools, Int8s, Int64s, grown


class Extremum(Accumulator):
    """MIN and MAX of values of at most 64 bits; MAX is the least in the reversed order."""

    __image__: ClassVar[tuple[str, ...]] = ("_heaps",)

    def __init__(self, call: AggregateCall) -> None:
        super().__init__(call)
        self._flip = -1 if call.function == "MAX" else 0  # all bits: x ^ -1 reverses the order of integers
        self._heaps = Heaps(
            node=np.zeros((0, 4), np.int64),
            held=np.zeros(0, np.int8),
            root=np.zeros(0, np.int64),
        )

    def reserve(self, slots: int, groups: int) -> None:
        heaps = self._heaps
        self._heaps = Heaps(
            node=grown(heaps.node, slots),
            held=grown(heaps.held, slots),
            root=grown(heaps.root, groups, NOTHING),
        )

    def apply(self, routed: Routed, argument: pa.Array) -> Sides:
        return self._follow(routed, _ordered(argument), validity(argument))

    def column(self, values: Int64s, null: Bools) -> pa.Array:
        kind = self.call.argument_type
        keys = values ^ self._flip
        scale = decimal_scale(kind)
        if scale is not None:
            column = decimals(np.stack([keys, keys >> 63], axis=1), null, scale)
        elif pa.types.is_floating(kind):
            column = pa.array(_float_order(keys).view(np.float64), mask=null)
        elif pa.types.is_uint64(kind):
            column = pa.array((keys ^ SIGN).view(np.uint64), mask=null)
        elif pa.types.is_date32(kind) or pa.types.is_time32(kind):
            column = pa.array(keys.astype(np.int32), mask=null)
        else:
            column = pa.array(keys, mask=null)
        return checked_cast(column, self.call.type, self)

    def _follow(self, routed: Routed, ordered: Int64s, valid: Int8s) -> Sides:
        before, after = blank_sides(routed)
        before_null, after_null = np.empty(len(before), np.int8), np.empty(len(after), np.int8)
        kernels.least(routed, ordered ^ self._flip, valid, self._heaps, before, before_null, after, after_null)
        return Sides(before, after, before_null.view(np.bool_), after_null.view(np.bool_))


class RankedExtremum(Extremum):
    """MIN and MAX of texts and long decimals, by rank.

    A new value shifts the ranks of those above it. The order stays, and every heap with it: only the keys are
    written anew, for all results at once. So a batch costs Python work per value never seen before, and
    array work per result if there is any such value.
    """

    __image__: ClassVar = ("_interner", "_slot_code", "_rank", "_codes", "_arrow_values")

    def __init__(self, call: AggregateCall) -> None:
        super().__init__(call)
        self._interner = Interner()
        self._slot_code = np.zeros(0, np.int64)
        self._rank = np.zeros(0, np.int64)  # [code] NOTHING: not in use
        self._codes = np.zeros(0, np.int64)  # [rank]
        self._values = np.zeros(0, np.object_)  # [rank]

    def reserve(self, slots: int, groups: int) -> None:
        super().reserve(slots, groups)
        self._slot_code = grown(self._slot_code, slots)

    def apply(self, routed: Routed, argument: pa.Array) -> Sides:
        self._forget()
        values = argument.drop_null()
        value_codes = self._interner.codes([values])
        self._learn(value_codes, values)
        valid = validity(argument)
        ordered, codes = np.zeros(len(argument), np.int64), np.zeros(len(argument), np.int64)
        codes[valid != 0] = value_codes
        ordered[valid != 0] = self._rank[value_codes]
        sides = self._follow(routed, ordered, valid)
        self._slot_code[routed.slot[routed.entry != NOTHING]] = codes  # the last one, if a slot is reused
        return sides

    def column(self, values: Int64s, null: Bools) -> pa.Array:
        shown = np.full(len(values), None, np.object_)
        shown[~null] = self._values[values[~null] ^ self._flip]
        return pa.array(shown, self.call.type)

    @property
    def _arrow_values(self) -> pa.Array:
        return pa.array(self._values, self.call.argument_type)

    @_arrow_values.setter
    def _arrow_values(self, values: pa.Array) -> None:
        self._values = np.array(values.to_pylist(), np.object_)

    def _forget(self) -> None:
        """Drop the values that no result has, if there may be many."""
        if not self._interner.due:
            return
        live = self._slot_code[self._heaps.held != 0]
        self._interner.retain(live)
        in_use = np.zeros(len(self._rank), np.bool_)
        in_use[live] = True
        self._rank[~in_use] = NOTHING
        kept = in_use[self._codes]
        self._order(self._codes[kept], self._values[kept])

    def _learn(self, codes: Int64s, values: pa.Array) -> None:
        """Give every value a rank that has none."""
        self._rank = grown(self._rank, self._interner.capacity, NOTHING)
        unknown = np.flatnonzero(self._rank[codes] == NOTHING)
        if not len(unknown):
            return
        new_codes, first = np.unique(codes[unknown], return_index=True)
        new_values = np.array(values.take(unknown[first]).to_pylist(), np.object_)
        ascending = np.argsort(new_values)
        places = np.searchsorted(self._values, new_values[ascending])
        self._order(
            np.insert(self._codes, places, new_codes[ascending]),
            np.insert(self._values, places, new_values[ascending]),
        )

    def _order(self, codes: Int64s, values: np.ndarray[tuple[int], np.dtype[np.object_]]) -> None:
        self._codes, self._values = codes, values
        self._rank[codes] = np.arange(len(codes))
        held = np.flatnonzero(self._heaps.held)
        self._heaps.node[held, KEY] = self._rank[self._slot_code[held]] ^ self._flip


def _ordered(array: pa.Array) -> Int64s:
    """The values as integers of the same order."""
    integers = as_integers(array)
    if pa.types.is_floating(array.type):
        return _float_order(integers)
    return integers ^ SIGN if pa.types.is_uint64(array.type) else integers


def _float_order(bits: Int64s) -> Int64s:
    """Bits of doubles as integers of the same order, NaN greatest, and back again."""
    return bits ^ ((bits >> 63) & (2**63 - 1))
