"""From Arrow rows to the int64 words that the kernels work on.

Keys become *codes*: equal keys have equal codes. Where 64 bits hold the whole key (integers,
dates, times, doubles, short decimals) the code says it all; for strings and other wide
types it is a hash, which only finds candidates: the true columns decide (``exact`` tells).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from thalweg.cql.query import Query, RowsWindow, Theta
from thalweg.engine.kernels.compiled import Float64s, Int64s
from thalweg.engine.kernels.tables import ROW, T
from thalweg.engine.rows.expressions import (
    HASH,
    Expressions,
    Scalar,
    columns_of,
    of_selected,
    physical_names,
    plain_column,
)
from thalweg.engine.rows.interner import Interner
from thalweg.engine.rows.layout import layouts, sides
from thalweg.engine.time_bounds import GREATEST_TIME
from thalweg.errors import InputError, UnsupportedError
from thalweg.plan.slices import Shared

Booleans = np.ndarray[tuple[int], np.dtype[np.bool_]]


def microseconds(column: pa.ChunkedArray | pa.Array, where: str) -> tuple[Int64s, Booleans]:
    """Event times as microseconds, and which rows have one.

    Timestamps of any unit, dates, and integers (already microseconds) are times.
    """
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    kind = array.type
    if not (pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_integer(kind)):
        raise InputError(f"{where} is {kind}, not a time. Use a timestamp, a date, or an integer of microseconds.")
    try:
        array = microsecond_array(array)
    except pa.ArrowInvalid as error:
        raise InputError(f"{where} has times outside the years that microseconds can count ({error})") from error
    valid = array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else np.ones(len(array), bool)
    times: Int64s = _values(array, 0)
    if len(times) and max(int(times.max()), -int(times.min())) > GREATEST_TIME:
        raise InputError(
            f"{where} has times outside the years that microseconds can count: {times.min()} to {times.max()}"
        )
    return times, valid


def mix(values: Int64s) -> Int64s:
    """Spread values one to one over all 64 bits (the finaliser of splitmix64), so that any of them serve as a hash."""
    bits = values.astype(np.uint64)
    bits ^= bits >> np.uint64(30)
    bits *= np.uint64(0xBF58476D1CE4E5B9)
    bits ^= bits >> np.uint64(27)
    bits *= np.uint64(0x94D049BB133111EB)
    bits ^= bits >> np.uint64(31)
    return bits.view(np.int64)


def spread(values: Int64s) -> Int64s:
    """Spread integers one to one, so that their low bits serve as a hash: cheaper, and even for neighbouring values.

    A multiple of the golden ratio is spread evenly in its high bits (Fibonacci hashing); swapping the bytes puts
    those below. Not good enough where several codes are combined to one hash.
    """
    bits = values.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return bits.byteswap(inplace=True).view(np.int64)


def exact(kind: pa.DataType) -> bool:
    """Whether a key of this type fits its 64-bit code."""
    if pa.types.is_decimal(kind):
        return bool(kind.precision <= 18)
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or (pa.types.is_temporal(kind) and kind.bit_width <= 64)
    )


def _values(array: pa.Array, null: float) -> Any:
    """The values of a numeric array, with NULL as a given number."""
    return (pc.fill_null(array, null) if array.null_count else array).to_numpy(zero_copy_only=False)


def _integers(array: pa.Array) -> Int64s:
    """The values of an exact type as integers, equal when the values are; NULL gives any integer."""
    kind = array.type
    if pa.types.is_floating(kind):
        values: Float64s = _values(array.cast(pa.float64()), 0.0) + 0.0  # -0.0 is 0.0
        values[np.isnan(values)] = np.nan
        return values.view(np.int64)
    if pa.types.is_decimal(kind):
        # The unscaled value; at most 18 digits, so its lower half is all of it.
        array = array.cast(pa.decimal128(kind.precision, kind.scale))
        words = np.frombuffer(array.buffers()[1], np.int64)
        return words[2 * array.offset : 2 * (array.offset + len(array)) : 2].copy()
    if pa.types.is_boolean(kind):
        array = array.cast(pa.int8())
    elif pa.types.is_temporal(kind):
        array = array.cast(pa.int64() if kind.bit_width == 64 else pa.int32())
    elif kind == pa.uint64():
        return np.asarray(_values(array, 0)).view(np.int64)
    return np.asarray(_values(array.cast(pa.int64()), 0))


def _ordered(array: pa.Array) -> Int64s:
    """The values of a theta operand as integers in the same order; NaN is the greatest."""
    integers = _integers(array)
    if pa.types.is_floating(array.type):
        return integers ^ ((integers >> 63) & np.int64(0x7FFFFFFFFFFFFFFF))
    return integers


@dataclass(frozen=True, slots=True)
class _Input:
    """Something that a stream's encoding needs: a column as it is, or a computed one."""

    name: str
    computed: bool


class StreamEncoder:
    """Encodes the rows of one stream of a query."""

    __image__: ClassVar = ("_partitions",)

    def __init__(self, query: Query, stream: int, expressions: Expressions, shared: Shared | None = None) -> None:
        self._query = query
        self._ref = query.streams[stream]
        self.stream = stream
        self.layout = layouts(query, None if shared is None else shared.slicing)[stream]
        self._expressions = expressions
        self._names = {n: physical_names(query)[self._ref.alias, n] for n in self._ref.schema.names}
        self._outputs: list[tuple[str, exp.Expression]] = []
        selections = [(self._ref.selection, 1)] if shared is None else shared.selections(stream)
        self._selections = [
            (None if selection is None else self._input(selection), bits) for selection, bits in selections
        ]
        self._conditions = list(dict.fromkeys(selection for selection, _ in selections))
        self._selection_names = {name for name, _ in self._outputs}
        self._slice_masks = shared.slice_masks(stream) if shared is not None and self.layout.is_sliced else []
        self._keys = {c: self._key_input(c) for c in self.layout.codes}
        self._operands = {
            (theta, side): self._input(of_selected(sides(query.thetas[theta])[side].expression, self._ref.selection))
            for theta, side in self.layout.operands
        }
        window = self._ref.window
        partition_by = window.partition_by if isinstance(window, RowsWindow) else ()
        self._partition_by = [self._input(expression) for expression in partition_by]
        self._partitions = Interner()
        self._scalar: Scalar | None = expressions.compile(self._outputs) if self._outputs else None

    def _input(self, expression: exp.Expression) -> _Input:
        key = plain_column(expression)
        if key is not None:
            return _Input(key[1], computed=False)
        name = f"e{len(self._outputs)}"
        self._outputs.append((name, expression))
        return _Input(name, computed=True)

    def _key_input(self, attribute: int) -> _Input:
        bound = self._query.classes[attribute]
        member = bound.members[self.stream]
        if bound.null_safe or not exact(bound.type):
            # hash() of NULL is a value like any other, which is what null-safe equality wants.
            hashed = exp.Anonymous(this=HASH, expressions=[member.copy()])
            return self._input(hashed if plain_column(member) is not None else of_selected(hashed, self._ref.selection))
        return self._input(of_selected(member, self._ref.selection))

    def encode(self, table: pa.Table, times: Int64s, rows: Int64s) -> Int64s:
        """A row of words per row of ``table``; what can join nothing passes no selection.

        Nor does a row whose key is NULL, or an operand.

        ``times`` are the event times of the rows, none missing, and ``rows`` their numbers.
        """
        count = table.num_rows
        words = np.empty((count, self.layout.offered), np.int64)
        words[:, T] = times
        words[:, ROW] = rows
        computed = self._compute(table)
        joins = np.ones(count, bool)
        masks = self._masks(table, computed)
        for attribute, field in self.layout.codes.items():
            array = self._fetch(self._keys[attribute], table, computed)
            bound = self._query.classes[attribute]
            if array.null_count and not bound.null_safe:
                joins &= array.is_valid().to_numpy(zero_copy_only=False)
            if array.type != bound.type and exact(bound.type) and not bound.null_safe:
                array = array.cast(bound.type)
            plain = len(self._query.classes) == 1 and pa.types.is_integer(array.type)
            words[:, field] = spread(_integers(array)) if plain else mix(_integers(array))
        for (index, side), field in self.layout.operands.items():
            array = self._fetch(self._operands[index, side], table, computed)
            if array.null_count:
                joins &= array.is_valid().to_numpy(zero_copy_only=False)
            words[:, field] = _operand(array, self._query.thetas[index])
        if self.layout.partition is not None:
            columns = [self._fetch(source, table, computed) for source in self._partition_by]
            words[:, self.layout.partition] = self._partitions.codes(columns) if columns else 0
        if not joins.all():
            masks[~joins] = 0  # what fails may still count in a ROWS window
        if self.layout.kept_mask is not None:
            words[:, self.layout.width] = self._slices(masks)
        words[:, self.layout.offered_mask] = masks
        return words

    def uncomputable(self, table: pa.Table) -> dict[exp.Expression | None, str]:
        """The conditions on this stream by which readers select rows for which something has no value; and why.

        That may be the condition itself, a key or an operand: the latter are needed of selected rows alone. None stands
        for no condition.
        """
        found: dict[exp.Expression | None, str] = {}
        keys = [(name, each) for name, each in self._outputs if name not in self._selection_names]
        renamed = table.rename_columns([self._names[name] for name in table.column_names])
        for selection in self._conditions:
            try:
                selected = renamed.filter(pa.array(self.passes(selection, table)))
                for each in keys:
                    self._expressions.evaluate(self._expressions.compile([each]), selected)
            except (InputError, UnsupportedError) as error:
                found[selection] = str(error)
        return found

    @cached_property
    def reads(self) -> list[str]:
        """The columns that it needs of a table."""
        inputs = [*self._keys.values(), *self._operands.values(), *self._partition_by]
        inputs += [selection for selection, _ in self._selections if selection is not None]
        names = {source.name for source in inputs if not source.computed}
        names |= {name for _, name in columns_of([expression for _, expression in self._outputs])}
        return [name for name in self._ref.schema.names if name in names]

    def joins(self, table: pa.Table) -> Booleans:
        """Which rows can join anything: no key is NULL, and no operand."""
        outputs = [(name, each) for name, each in self._outputs if name not in self._selection_names]
        renamed = table.rename_columns([self._names[name] for name in table.column_names])
        computed = self._expressions.evaluate(self._expressions.compile(outputs), renamed) if outputs else pa.table({})
        keys = [key for attribute, key in self._keys.items() if not self._query.classes[attribute].null_safe]
        joins: Booleans = np.ones(table.num_rows, np.bool_)
        for source in (*keys, *self._operands.values()):
            joins &= self._fetch(source, table, computed).is_valid().to_numpy(zero_copy_only=False)
        return joins

    def passes(self, selection: exp.Expression | None, table: pa.Table) -> Booleans:
        """Which rows pass a condition on this stream."""
        if selection is None:
            return np.ones(table.num_rows, np.bool_)
        scalar = self._expressions.compile([("passes", selection)])
        renamed = table.rename_columns([self._names[name] for name in table.column_names])
        holds = self._expressions.evaluate(scalar, renamed).column("passes").combine_chunks()
        passes: Booleans = pc.fill_null(holds, False).to_numpy(zero_copy_only=False)
        return passes

    def _masks(self, table: pa.Table, computed: pa.Table) -> Int64s:
        """The bits of the selections that rows pass."""
        masks = np.zeros(table.num_rows, np.int64)
        for selection, bits in self._selections:
            if selection is None:
                masks |= bits
            else:
                holds = pc.fill_null(self._fetch(selection, table, computed), False).to_numpy(zero_copy_only=False)
                masks |= holds * np.int64(bits)  # faster than to pick the rows
        return masks

    def _slices(self, masks: Int64s) -> Int64s:
        """The slices that rows of these masks belong to, as the kernel counts them: in rows of a table."""
        slices = np.zeros(len(masks), np.int64)
        for number, mask in enumerate(self._slice_masks[1:], 1):
            slices[(masks & mask) != 0] = number
        return slices * len(self._query.streams)

    def _compute(self, table: pa.Table) -> pa.Table:
        if self._scalar is None:
            return pa.table({})
        return self._expressions.evaluate(
            self._scalar, table.rename_columns([self._names[n] for n in table.column_names])
        )

    def _fetch(self, source: _Input, table: pa.Table, computed: pa.Table) -> pa.Array:
        column = computed.column(source.name) if source.computed else table.column(source.name)
        return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _operand(array: pa.Array, theta: Theta) -> Int64s:
    if pa.types.is_timestamp(theta.type):
        array = microsecond_array(array)
    elif array.type != theta.type:
        array = array.cast(theta.type)
    if theta.offset is not None and pa.types.is_floating(theta.type):
        return np.asarray(_values(array, 0.0)).view(np.int64)
    return _ordered(array)


def microsecond_array(array: pa.Array) -> pa.Array:
    """Times of any kind as int64 microseconds, NULLs kept."""
    if pa.types.is_date(array.type):
        array = array.cast(pa.timestamp("us"))
    if pa.types.is_timestamp(array.type):
        finer = array.type.unit == "ns"  # nothing else can lose digits
        array = array.cast(pa.timestamp("us", array.type.tz), safe=not finer)
    return array.cast(pa.int64())


def encoders(query: Query, expressions: Expressions, shared: Shared | None = None) -> Sequence[StreamEncoder]:
    """An encoder for each stream; ``shared``: how several readers share the join, if the query stands for them."""
    return [StreamEncoder(query, stream, expressions, shared) for stream in range(len(query.streams))]
