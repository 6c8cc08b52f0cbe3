"""Running aggregates over the results in the window.

Results enter and leave; the relation R(tau) has a row per group of the results alive at
instant tau (and always exactly one row without GROUP BY). ISTREAM emits the rows of R(tau) that were not
in R(tau-), DSTREAM those of R(tau-) that are not in R(tau).

Why HAVING can stay outside, where a row shows every aggregate: it is a condition on the values of a row alone. Rows
with equal values before and after an instant pass or fail on both sides, and cancel out. A row
whose values changed is another row: whether its former self passed does not matter
to ISTREAM, nor its new self to DSTREAM. So it suffices to emit the *changed* rows
of one side and to filter those by HAVING. Where an aggregate is hidden (it stands in HAVING alone, or inside an
expression), its change need not be one of the row: ``differ`` decides.

Memory is bounded by the results and groups alive (their peak, and for a group key about twice): a group
without results is forgotten and its number given to another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thalweg.cql.query import AggregateCall, Aggregation, Output
from thalweg.engine.kernels import aggregate as kernels
from thalweg.engine.kernels.aggregate import NOTHING, Routed
from thalweg.engine.outputs.accumulators import (
    Accumulator,
    CountResults,
    CountValues,
    Sides,
    checked_cast,
    decimal_scale,
    is_short_decimal,
)
from thalweg.engine.outputs.extrema import Extremum, RankedExtremum
from thalweg.engine.outputs.sums import DoubleSum, IntegerSum
from thalweg.engine.rows.interner import Interner
from thalweg.engine.storage.arrays import Bools, Int8s, Int64s, grown
from thalweg.errors import ThalwegError, UnsupportedError

Differ = Callable[[Int64s, pa.Table, pa.Table], Bools]
"""Given instants, and the rows of groups before and at them: which rows are other ones to whoever sees them."""


class RunningAggregation:
    """The aggregation of one query: events in, changed rows out.

    An event is a result entering (+1) or leaving (-1) the window at an instant. The caller owns the results' slots:
    small numbers, free again once their result has left. All events of an instant come in one call, and
    every call is later than those before it; a result enters before it leaves.
    """

    __image__: ClassVar = ("_accumulators", "_keys", "_slot_group", "_alive", "_mark", "_now")

    def __init__(self, aggregation: Aggregation, output: Output, differ: Differ | None = None) -> None:
        """Start with no results; an aggregate that has no meaning for its argument's type is an UnsupportedError.

        Without ``differ`` a row is another one as soon as one of its aggregates is.
        """
        self._output = output
        self._differ = differ
        self._calls = aggregation.calls
        self._accumulators = [_accumulator(call) for call in aggregation.calls]
        key_types = [key.type for key in aggregation.keys]
        self._keys = _GroupKeys(key_types) if key_types else None
        self._slot_group = np.zeros(0, np.int64)
        self._alive = np.zeros(0, np.int64)  # [group] results
        self._mark = np.zeros(0, np.int64)
        self._now: int | None = None

    @property
    def results(self) -> int:
        """How many results are in the window."""
        return int(self._alive.sum())

    @property
    def groups(self) -> int:
        """How many groups have results."""
        return int(np.count_nonzero(self._alive))

    @property
    def schema(self) -> pa.Schema:
        """The columns of what :meth:`apply` returns: group keys, then aggregates."""
        keys = self._keys.types if self._keys is not None else []
        return pa.schema(
            [pa.field(f"__k{i}", kind) for i, kind in enumerate(keys)]
            + [pa.field(f"__a{i}", call.type) for i, call in enumerate(self._calls)]
        )

    def apply(self, times: Int64s, signs: Int8s, slots: Int64s, rows: pa.Table) -> tuple[Int64s, pa.Table]:
        """Apply events in time order, and return the changed rows with their instants, in time order.

        ``times`` are the instants of the events, not decreasing; ``signs`` is +1 where a result enters and -1
        where it leaves; ``slots`` says which result it is. ``rows`` has a row per entering result, in the order of
        the events: group keys ``__k0, ...`` and the arguments ``__x0, ...`` of the calls by their position
        (COUNT(*) has none).

        Rows of one instant come in the order in which the events first touched their groups. A sum that
        does not fit in its type is an error, and so are events that contradict each other.
        """
        self._check(times, signs, rows)
        if not len(times):
            return times, self.schema.empty_table()
        groups = self._keys.groups(rows) if self._keys is not None else np.zeros(len(times), np.int64)
        self._reserve(int(slots.max()) + 1)
        routed = self._route(times, signs, slots, groups)
        sides = [
            accumulator.apply(routed, _argument(rows, position, accumulator))
            for position, accumulator in enumerate(self._accumulators)
        ]
        if self._keys is None:
            was_there = is_there = np.ones(len(routed.group), np.bool_)
        else:
            was_there, is_there = routed.before > 0, routed.after > 0
        changed = was_there != is_there
        for side in sides:
            changed |= side.differ()
        if self._differ is not None:
            both = np.flatnonzero(changed & was_there & is_there)
            before, after = (self._rows(routed, sides, both, entering=side) for side in (False, True))
            changed[both] = self._differ(times[routed.first[both]], before, after)
        entering = self._output is Output.ISTREAM
        shown = np.flatnonzero(changed & (is_there if entering else was_there))
        emitted = self._rows(routed, sides, shown, entering=entering)
        if self._keys is not None:
            self._keys.forget(self._alive)
        return times[routed.first[shown]], emitted

    def _rows(self, routed: Routed, sides: Sequence[Sides], changes: Int64s, *, entering: bool) -> pa.Table:
        """The rows of the groups of some changes: as they are from that instant on, or as they were before it."""
        columns = self._keys.columns(routed.group[changes]) if self._keys is not None else []
        for accumulator, side in zip(self._accumulators, sides, strict=True):
            values, null = (side.after, side.after_null) if entering else (side.before, side.before_null)
            columns.append(accumulator.column(values[changes], null[changes]))
        return pa.Table.from_arrays(columns, schema=self.schema)

    def _check(self, times: Int64s, signs: Int8s, rows: pa.Table) -> None:
        entering = np.count_nonzero(signs > 0)
        if rows.num_columns and entering != rows.num_rows:  # COUNT(*) alone needs no values
            raise ThalwegError(f"{entering} results enter a running aggregation, with {rows.num_rows} rows of values")
        if not len(times):
            return
        if np.any(times[1:] < times[:-1]) or (self._now is not None and times[0] <= self._now):
            raise ThalwegError("events of a running aggregation are out of time order")
        self._now = int(times[-1])

    def _reserve(self, slots: int) -> None:
        groups = self._keys.capacity if self._keys is not None else 1
        self._slot_group = grown(self._slot_group, slots, NOTHING)
        self._alive = grown(self._alive, groups)
        self._mark = grown(self._mark, groups, NOTHING)
        for accumulator in self._accumulators:
            accumulator.reserve(slots, groups)

    def _route(self, times: Int64s, signs: Int8s, slots: Int64s, groups: Int64s) -> Routed:
        room = Routed(*(np.empty(len(times), np.int64) for _ in Routed._fields))
        changes = kernels.route(times, signs, slots, groups, self._slot_group, self._alive, self._mark, room)
        if changes < 0:
            event = -1 - changes
            verb = "enters, but its slot is held" if signs[event] > 0 else "leaves, but is not there"
            raise ThalwegError(f"result {slots[event]} of a running aggregation {verb} (at {times[event]})")
        return Routed(
            slot=room.slot,
            entry=room.entry,
            change=room.change,
            group=room.group[:changes],
            first=room.first[:changes],
            last=room.last[:changes],
            before=room.before[:changes],
            after=room.after[:changes],
        )


class _GroupKeys:
    """The number of each group, and the keys of each number."""

    __image__: ClassVar = ("_interner", "_place", "_columns")

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        self.types = list(types)
        self._interner = Interner()
        self._place = np.zeros(0, np.int64)  # [group] its row in the columns; NOTHING if it has none
        self._columns = [pa.array([], kind) for kind in types]

    @property
    def capacity(self) -> int:
        """Every group's number is below this one."""
        return self._interner.capacity

    def groups(self, rows: pa.Table) -> Int64s:
        """The group of each row."""
        columns = [_key(rows.column(f"__k{i}"), kind) for i, kind in enumerate(self.types)]
        groups = self._interner.codes(columns)
        self._place = grown(self._place, self.capacity, NOTHING)
        unknown = np.flatnonzero(self._place[groups] == NOTHING)
        if len(unknown):
            new, first = np.unique(groups[unknown], return_index=True)
            held = len(self._columns[0])
            self._place[new] = held + np.arange(len(new))
            self._columns = [
                pa.concat_arrays([known, column.take(unknown[first])])
                for known, column in zip(self._columns, columns, strict=True)
            ]
        return groups

    def columns(self, groups: Int64s) -> list[pa.Array]:
        """The keys of these groups."""
        return [column.take(self._place[groups]) for column in self._columns]

    def forget(self, alive: Int64s) -> None:
        """Forget the groups that have no results, if there may be many."""
        if not self._interner.due:
            return
        live = np.flatnonzero(alive)
        self._interner.retain(live)
        self._columns = self.columns(live)
        self._place[:] = NOTHING
        self._place[live] = np.arange(len(live))


def _accumulator(call: AggregateCall) -> Accumulator:
    types = pa.types
    kind = call.argument_type
    if call.function == "COUNT":
        return CountResults(call) if kind is None else CountValues(call)
    if call.function in ("SUM", "AVG"):
        if types.is_integer(kind) or decimal_scale(kind) is not None:
            return IntegerSum(call)
        if types.is_floating(kind):
            return DoubleSum(call)
    elif is_short_decimal(kind) or (types.is_primitive(kind) and not types.is_interval(kind)):
        return Extremum(call)
    elif decimal_scale(kind) is not None or _is_text(kind):
        return RankedExtremum(call)
    raise UnsupportedError(
        f"{call.function} of a value of type {kind}",
        hint="SUM and AVG take numbers; MIN and MAX take numbers, times, booleans and texts.",
    )


def _is_text(kind: pa.DataType) -> bool:
    types = pa.types
    strings = types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
    binaries = types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind)
    return bool(strings or binaries or types.is_fixed_size_binary(kind))


def _argument(rows: pa.Table, position: int, accumulator: Accumulator) -> pa.Array | None:
    kind = accumulator.call.argument_type
    if kind is None:
        return None
    return checked_cast(rows.column(f"__x{position}").combine_chunks(), kind, accumulator)


def _key(column: pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    """A key column in its declared type, and with one zero only, as -0.0 and 0.0 are one group."""
    array = checked_cast(column.combine_chunks(), kind, "GROUP BY")
    return pc.add(array, pa.scalar(0.0, kind)) if pa.types.is_floating(kind) else array
