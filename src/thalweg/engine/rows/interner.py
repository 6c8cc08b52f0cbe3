"""Exact integer codes for keys of any type, so that kernels only ever compare integers.

Two rows get the same code exactly when their key columns are equal, position by position:
NULL equals NULL, NaN equals NaN and -0.0 equals 0.0. (Whether a NULL may *match* is the
query's affair; here it is a value like any other.) A code stays bound to its value until
the value is forgotten, and is then given to another value, so codes stay dense and can
index arrays.

Cost: a batch is reduced to its distinct values by Arrow's hash tables; Python touches each
distinct value once. Memory: :meth:`Interner.retain` forgets what is no longer in use once
the number of values has doubled since it last did, so the table holds at most about twice
the values in use and the price of a sweep is spread over as many insertions.

A row of each value is kept in Arrow too: from it the table can be made again, exactly and for every type.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from thalweg.errors import InputError

_SMALLEST_SWEEP = 1_024  # a table this small is not worth sweeping
_MOST_PIECES = 64  # tables of known values before they are put together


class Interner:
    """Codes of one kind of key; the columns of every batch have the same types.

    >>> interner = Interner()
    >>> interner.codes([pa.array(["x", "y", None, "x"])]).tolist()
    [0, 1, 2, 0]
    >>> interner.codes([pa.array(["z", "y"])]).tolist()
    [3, 1]
    """

    __image__: ClassVar = ("_schema", "_known", "_free", "_sweep_at")

    def __init__(self) -> None:
        self._table: dict[Hashable, int] = {}
        self._pieces: list[pa.Table] = []
        self._free: list[int] = []
        self._types: list[pa.DataType] | None = None
        self._sweep_at = _SMALLEST_SWEEP

    def __len__(self) -> int:
        """How many values have a code."""
        return len(self._table)

    @property
    def capacity(self) -> int:
        """Every code ever given out is below this number."""
        return len(self._table) + len(self._free)

    @property
    def due(self) -> bool:
        """Whether the next :meth:`retain` would sweep: a caller need not collect the live codes before."""
        return len(self._table) >= self._sweep_at

    def codes(self, columns: Sequence[pa.Array | pa.ChunkedArray]) -> npt.NDArray[np.int64]:
        """The code of each row, its value being the tuple of all columns."""
        arrays = [column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column for column in columns]
        types = [array.type for array in arrays]
        if self._types is None:
            self._types = types
        if types != self._types:
            raise InputError(
                f"key columns of types ({', '.join(map(str, types))}) cannot be compared with those of types "
                f"({', '.join(map(str, self._types))}). Cast them to one type."
            )
        indices, values = _distinct(arrays)
        codes, new = self._codes_of(values)
        if len(new):
            self._remember(arrays, indices, codes, new)
        return codes[indices]

    def retain(self, live_codes: npt.NDArray[np.int64]) -> bool:
        """Forget every value but those of ``live_codes``, if the table has doubled since the last time.

        Returns whether it did.
        """
        if not self.due:
            return False
        capacity = self.capacity
        live = np.zeros(capacity, np.bool_)
        live[live_codes] = True
        self._table = {value: code for value, code in self._table.items() if live[code]}
        self._free = [code for code in range(capacity - 1, -1, -1) if not live[code]]
        known = self._known
        if known is not None:
            self._pieces = [known.filter(pa.array(live[known.column("code").to_numpy()]))]
        self._sweep_at = max(_SMALLEST_SWEEP, 2 * len(self._table))
        return True

    def _codes_of(self, values: Sequence[Hashable]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The code of each value, and the positions of those that had none before."""
        lookup = self._table.get
        codes = np.array([lookup(value, -1) for value in values], np.int64)
        new = np.flatnonzero(codes < 0)
        if len(new):
            fresh = self._fresh(len(new))
            self._table.update(zip([values[i] for i in new.tolist()], fresh, strict=True))
            codes[new] = fresh
        return codes, new

    def _remember(
        self,
        arrays: Sequence[pa.Array],
        indices: npt.NDArray[np.int64],
        codes: npt.NDArray[np.int64],
        new: npt.NDArray[np.int64],
    ) -> None:
        """Keep a row of each new value."""
        rows = np.empty(len(codes), np.int64)
        rows[indices] = np.arange(len(indices))
        columns = [_plain(array).take(pa.array(rows[new])) for array in arrays]
        names = [*map(str, range(len(columns))), "code"]
        self._pieces.append(pa.Table.from_arrays([*columns, pa.array(codes[new])], names))
        if len(self._pieces) > _MOST_PIECES:
            self._pieces = [pa.concat_tables(self._pieces).combine_chunks()]

    @property
    def _known(self) -> pa.Table | None:
        return pa.concat_tables(self._pieces).combine_chunks() if self._pieces else None

    @_known.setter
    def _known(self, known: pa.Table | None) -> None:
        self._pieces, self._table = [], {}
        if known is not None:
            *arrays, codes = (column.combine_chunks() for column in known.columns)
            indices, values = _distinct(arrays)
            self._table = {values[i]: code for i, code in zip(indices.tolist(), codes.to_pylist(), strict=True)}
            self._pieces = [known]

    @property
    def _schema(self) -> pa.Schema | None:
        return None if self._types is None else pa.schema([(str(i), kind) for i, kind in enumerate(self._types)])

    @_schema.setter
    def _schema(self, schema: pa.Schema | None) -> None:
        self._types = None if schema is None else schema.types

    def _fresh(self, count: int) -> list[int]:
        """Codes that no value has: those of forgotten values first."""
        capacity = self.capacity
        kept = max(0, len(self._free) - count)
        reused, self._free = self._free[kept:], self._free[:kept]
        return reused[::-1] + list(range(capacity, capacity + count - len(reused)))


def comparable(array: pa.Array) -> pa.Array:
    """The array in a type whose bits are equal exactly when the values are.

    Floats get one zero and one NaN, times and dates become integers, dictionaries are decoded.
    """
    array = _plain(array)
    kind = array.type
    if pa.types.is_floating(kind):
        doubles = array.cast(pa.float64())
        bits = canonical_bits(doubles.fill_null(0.0).to_numpy(zero_copy_only=False))
        return pa.array(bits, mask=doubles.is_null().to_numpy(zero_copy_only=False))
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        return array.cast(pa.int32())
    if pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        return array.cast(pa.int64())
    if pa.types.is_decimal32(kind) or pa.types.is_decimal64(kind):
        return array.cast(pa.decimal128(kind.precision, kind.scale))
    return array


def _plain(array: pa.Array) -> pa.Array:
    """The values of a dictionary themselves, and those of views, which Arrow cannot take rows of, laid out in a row."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        return _plain(array.dictionary_decode())
    if pa.types.is_string_view(kind):
        return array.cast(pa.large_string())
    return array.cast(pa.large_binary()) if pa.types.is_binary_view(kind) else array


def canonical_bits(doubles: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """The bits of doubles, with one zero and one NaN.

    >>> bits = canonical_bits(np.array([0.0, -0.0, np.nan, -np.nan]))
    >>> bool(bits[0] == bits[1]), bool(bits[2] == bits[3])
    (True, True)
    """
    canonical: npt.NDArray[np.float64] = doubles + 0.0
    canonical[np.isnan(canonical)] = np.nan
    return canonical.view(np.int64)


def _distinct(arrays: Sequence[pa.Array]) -> tuple[npt.NDArray[np.int64], Sequence[Hashable]]:
    """For each row the position of its value in a list of distinct values, and this list."""
    indices, values = _distinct_of_column(arrays[0])
    if len(arrays) == 1:
        return indices, values
    columns = [(indices, values)]
    combined = indices
    for array in arrays[1:]:
        others, other_values = _distinct_of_column(array)
        columns.append((others, other_values))
        # Dense again after every column, so that the product stays far below 2**63.
        combined = _dense(combined * max(1, len(other_values)) + others)
    representative = np.empty(combined.max(initial=-1) + 1, np.int64)
    representative[combined] = np.arange(len(combined))
    parts = [[values[i] for i in indices[representative].tolist()] for indices, values in columns]
    return combined, list(zip(*parts, strict=True))


def _distinct_of_column(array: pa.Array) -> tuple[npt.NDArray[np.int64], Sequence[Hashable]]:
    array = comparable(array)
    if pa.types.is_nested(array.type) or pa.types.is_interval(array.type):
        # Arrow has no hash table for these: each row is touched in Python.
        positions: dict[Hashable, int] = {}
        rows = [positions.setdefault(_hashable(value), len(positions)) for value in array.to_pylist()]
        return np.array(rows, np.int64), list(positions)
    encoded = array.dictionary_encode()
    dictionary = encoded.dictionary.drop_null()
    values: list[Hashable] = dictionary.to_numpy(zero_copy_only=False).tolist()
    indices = encoded.indices
    if indices.null_count:
        indices = indices.fill_null(len(values))
        values.append(None)
    return indices.to_numpy(zero_copy_only=False).astype(np.int64), values


def _dense(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    codes: npt.NDArray[np.int64] = (
        pc.dictionary_encode(pa.array(numbers)).indices.to_numpy(zero_copy_only=False).astype(np.int64)
    )
    return codes


def _hashable(value: object) -> Hashable:
    """A nested value as nested tuples."""
    if isinstance(value, dict):
        return tuple((name, _hashable(item)) for name, item in value.items())
    if isinstance(value, list | tuple):
        return tuple(_hashable(item) for item in value)
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value
