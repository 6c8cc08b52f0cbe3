"""The bound query: what a CQL text means once every name is resolved.

A :class:`Query` is immutable and says *what* to compute, never how. Streams are
known by their position in the FROM list from here on; expressions are sqlglot
trees whose columns are all qualified by alias (``t.price``) and spelled as the source
spells them. A column whose Arrow type Spark does not have (an unsigned integer,
milliseconds, a dictionary) stands in a CAST to the type that Spark would read.

The WHERE clause arrives split into four kinds, because each runs somewhere else:

========== ===================================== ==============================
kind       example                               runs
========== ===================================== ==============================
equality   ``a.k = b.k``                         in the kernels, by hash
theta      ``a.x < b.x``, ``ABS(a.x-b.x) < 3``   in the kernels, by comparison
selection  ``a.name LIKE 'x%'``                  below the join, per stream
residual   ``a.name || b.name = c.name``         above the join, per result
========== ===================================== ==============================
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Literal

import pyarrow as pa
from sqlglot import exp


class Output(Enum):
    """Which changes of the result relation a query emits."""

    ISTREAM = "ISTREAM"  # results entering the window
    DSTREAM = "DSTREAM"  # results leaving it


@dataclass(frozen=True, slots=True)
class RangeWindow:
    """``[RANGE w]``: a tuple is alive during ``[t, t + width_us)``.

    ``[NOW]`` is a width of one microsecond and ``[RANGE UNBOUNDED]`` has no width.
    A ``derived`` window was not written: it is the least one that loses no result
    of the query's interval predicates.
    """

    width_us: int | None
    derived: bool = False


@dataclass(frozen=True, slots=True)
class RowsWindow:
    """``[ROWS n]`` or ``[PARTITION BY k ROWS n]``: alive until ``rows`` newer tuples came.

    ``partition_by`` holds expressions over the one stream.
    """

    rows: int
    partition_by: tuple[exp.Expression, ...] = ()


Window = RangeWindow | RowsWindow


@dataclass(frozen=True, slots=True)
class StreamRef:
    """One item of the FROM list; its position in ``Query.streams`` is its identity.

    Attributes:
        alias: the name that the query uses for it.
        stream: the name of the source.
        schema: the columns of the source.
        time: the source's event time column; None for a static relation, whose rows came before
            everything and are alive for ever.
        window: which of its tuples are alive.
        retention_us: how long after its time a tuple can still find partners that
            arrive later: the window, or less if interval predicates say so
            (None: for ever). Where results are needed until they leave (DSTREAM,
            aggregates, EXCEPT) it is the window's whole width, and None for ROWS.
        selection: conjunction of the predicates on this stream alone. It applies to
            the *contents* of the window: a row that fails still counts in ROWS n.
            A condition that never holds (``WHERE 1 = 0``) is FALSE on every stream.
        freshness_us: ``FRESHNESS`` of this stream.

    """

    alias: str
    stream: str
    schema: pa.Schema
    time: str | None
    window: Window
    retention_us: int | None
    selection: exp.Expression | None = None
    freshness_us: int | None = None

    @property
    def is_static(self) -> bool:
        """Whether this is a static relation."""
        return self.time is None


@dataclass(frozen=True, slots=True)
class AttributeClass:
    """Expressions of different streams that must all be equal (``A.k = B.k = C.k``).

    At most one member per stream: a second one becomes a selection on that stream.

    Attributes:
        members: stream position -> key expression over that stream, already cast to ``type``;
            in the order of the positions.
        type: the common type that all members are compared in.
        null_safe: whether NULL equals NULL (every equality of the class was ``<=>``).

    """

    members: dict[int, exp.Expression]
    type: pa.DataType
    null_safe: bool = False


@dataclass(frozen=True, slots=True)
class Operand:
    """One side of a theta predicate: a number or time computed from one stream."""

    stream: int
    expression: exp.Expression


ThetaOp = Literal["<", "<=", ">", ">=", "<>"]


@dataclass(frozen=True, slots=True)
class Theta:
    """``left - right  op  offset``, or ``|left - right|  op  offset`` if ``absolute``.

    With ``offset`` None there is no subtraction: ``left op right`` (always the case
    for plain comparisons, so that nothing can overflow or round).
    ``type`` is the common type that both operands are cast to: int64, float64,
    timestamp("us"), with or without a zone, or a decimal of at most 18 digits; ``offset`` is in
    its unit (microseconds for times, the unscaled integer for decimals). NULL operands never
    match. NaN is greater than every number and equal to itself, as in Spark and DuckDB.
    ``text`` is the predicate as it was written, for people; one of BETWEEN's two sides, say.
    """

    left: Operand
    op: ThetaOp
    right: Operand
    type: pa.DataType
    offset: int | float | None = None
    absolute: bool = False
    text: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Projection:
    """One output column."""

    name: str
    expression: exp.Expression
    type: pa.DataType


AggregateFunction = Literal["COUNT", "SUM", "MIN", "MAX", "AVG"]


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """``function(argument)``; COUNT without an argument is ``COUNT(*)``."""

    function: AggregateFunction
    argument: exp.Expression | None
    argument_type: pa.DataType | None
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class Aggregation:
    """Running aggregates over the current window contents.

    The relation R(tau) has one row per group of the results alive at instant tau (and
    exactly one row if there are no ``keys``). ISTREAM emits, at every instant, the rows
    of R(tau) that were not in R(tau-), DSTREAM those of R(tau-) that are not in R(tau).

    ``Query.select`` expressions refer to the group keys and calls by the column names
    ``__k0, __k1, ...`` and ``__a0, __a1, ...``; so does ``having``.
    """

    keys: tuple[Projection, ...]
    calls: tuple[AggregateCall, ...]
    having: exp.Expression | None = None


@dataclass(frozen=True, slots=True)
class JoinStream:
    """One stream of a join, whoever reads it: the part of a :class:`StreamRef` that no reader decides.

    ``partition_by`` has the keys of ROWS windows; None: the windows are RANGE.
    """

    alias: str
    stream: str
    schema: pa.Schema
    time: str | None
    partition_by: tuple[exp.Expression, ...] | None


@dataclass(frozen=True, slots=True)
class JoinSpec:
    """What the engine joins: the half of a query that all readers of a group have in common.

    Attributes are those of :class:`Query`.
    """

    kind: Literal["join", "difference"]
    streams: tuple[JoinStream, ...]
    classes: tuple[AttributeClass, ...] = ()
    thetas: tuple[Theta, ...] = ()


@dataclass(frozen=True, slots=True)
class View:
    """What a reader sees of one stream: its window over it, and which tuples of that count."""

    window: Window
    retention_us: int | None
    selection: exp.Expression | None = None
    freshness_us: int | None = None


@dataclass(frozen=True, slots=True)
class Reader:
    """Who wants which results of a join: the other half of a query.

    Attributes are those of :class:`Query`; ``views`` has one per stream. ``weight``: how much it matters beside others
    that share a budget with it.
    """

    name: str
    text: str
    output: Output
    views: tuple[View, ...]
    select: tuple[Projection, ...]
    residual: tuple[exp.Expression, ...] = ()
    aggregation: Aggregation | None = None
    freshness_us: int | None = None
    differences: tuple[tuple[int | None, ...], ...] = ()
    weight: float = 1.0

    @property
    def is_lasting(self) -> bool:
        """Whether it speaks of results that leave, so that these are kept until they do."""
        return self.output is Output.DSTREAM or self.aggregation is not None

    @property
    def schema(self) -> pa.Schema:
        """The schema of its output."""
        return pa.schema([pa.field(p.name, p.type) for p in self.select])


@dataclass(frozen=True, slots=True)
class Query:
    """A bound continuous query: a join and a reader of it, in one.

    Attributes:
        kind: ``"join"``, or ``"difference"`` for ``EXCEPT``: stream 0 minus all others, whose
            keys are the attribute classes (each of which then has every stream as member).
        select: the output columns. ``RESULT_TIME()`` appears in them as the
            column ``__time``: when the result entered (ISTREAM) or left (DSTREAM).
        classes, thetas, residual: the split WHERE clause between streams.
        differences: closure of the time constraints: ``differences[x][y]`` is the largest
            ``t_y - t_x`` that a result can have (None: unbounded). For ``EXCEPT``: how long
            after a tuple of x one of y can still meet it.
        weight: how much it matters beside others that share a budget with it; no text says so.

    """

    name: str
    text: str
    kind: Literal["join", "difference"]
    output: Output
    streams: tuple[StreamRef, ...]
    select: tuple[Projection, ...]
    classes: tuple[AttributeClass, ...] = ()
    thetas: tuple[Theta, ...] = ()
    residual: tuple[exp.Expression, ...] = ()
    aggregation: Aggregation | None = None
    freshness_us: int | None = None
    differences: tuple[tuple[int | None, ...], ...] = ()
    weight: float = 1.0

    @property
    def join(self) -> JoinSpec:
        """What of it every reader of the same join has in common."""
        streams = (
            JoinStream(
                ref.alias,
                ref.stream,
                ref.schema,
                ref.time,
                ref.window.partition_by if isinstance(ref.window, RowsWindow) else None,
            )
            for ref in self.streams
        )
        return JoinSpec(self.kind, tuple(streams), self.classes, self.thetas)

    @property
    def reader(self) -> Reader:
        """What of it is its own."""
        return Reader(
            self.name,
            self.text,
            self.output,
            tuple(View(ref.window, ref.retention_us, ref.selection, ref.freshness_us) for ref in self.streams),
            self.select,
            self.residual,
            self.aggregation,
            self.freshness_us,
            self.differences,
            self.weight,
        )

    @staticmethod
    def of(join: JoinSpec, reader: Reader) -> Query:
        """The two halves put together.

        >>> query = Query("q", "", "join", Output.ISTREAM, (), ())
        >>> Query.of(query.join, query.reader) == query
        True
        """
        streams = (
            StreamRef(
                each.alias,
                each.stream,
                each.schema,
                each.time,
                view.window,
                view.retention_us,
                view.selection,
                view.freshness_us,
            )
            for each, view in zip(join.streams, reader.views, strict=True)
        )
        return Query(
            reader.name,
            reader.text,
            join.kind,
            reader.output,
            tuple(streams),
            reader.select,
            join.classes,
            join.thetas,
            reader.residual,
            reader.aggregation,
            reader.freshness_us,
            reader.differences,
            reader.weight,
        )

    @property
    def aliases(self) -> tuple[str, ...]:
        return tuple(stream.alias for stream in self.streams)

    @property
    def may_hold_forever(self) -> bool:
        """Whether a tuple can stay in one of the windows for ever."""
        return any(
            ref.window.width_us is None if isinstance(ref.window, RangeWindow) else bool(ref.window.partition_by)
            for ref in self.streams
        )

    @property
    def schema(self) -> pa.Schema:
        """The schema of the output."""
        return pa.schema([pa.field(p.name, p.type) for p in self.select])
