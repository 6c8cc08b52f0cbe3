"""A test case as plain data: streams, a query in structured form, and how to run it.

A :class:`Case` knows nothing of thalweg. It says what a query means (the oracle computes
the answer from this structure), renders it as the text a user would write
(:meth:`Case.cql`), and holds the rows as Python values (:meth:`Case.tables`).

Every ``repr`` is Python that builds the same object again, so a failing case can be
pasted into ``tests/properties/test_pinned.py`` as it is printed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from tests.expressions import Agg, Expr, Lit, Pred, Spec, Value, aliases_of, duration, identifier, parts

Row = tuple[Value, ...]

TIME = "ts"
"""The event time column of every stream."""

TYPES: dict[str, pa.DataType] = {
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "decimal(10,2)": pa.decimal128(10, 2),
    "decimal(12,4)": pa.decimal128(12, 4),
    "string": pa.string(),
    "binary": pa.binary(),
    "bool": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
}

_TIME_TYPES = {"us": pa.timestamp("us"), "ns": pa.timestamp("ns"), "UTC": pa.timestamp("us", "UTC")}


@dataclass(frozen=True, repr=False)
class Stream(Spec):
    """A source: its columns as (name, type) pairs, one of them ``ts``, and its rows in arrival order.

    ``time_type`` is how the table stores its event times. In a ``static`` relation ``ts`` is a column like any other.
    """

    name: str
    columns: tuple[tuple[str, str], ...]
    rows: tuple[Row, ...] = ()
    time_type: Literal["us", "ns", "UTC"] = "us"
    static: bool = False

    def position(self, column: str) -> int:
        return [name for name, _ in self.columns].index(column)

    def type_of(self, column: str) -> str:
        return dict(self.columns)[column]

    def table(self) -> pa.Table:
        arrays = []
        schema = []
        for i, (name, type_name) in enumerate(self.columns):
            array = pa.array([row[i] for row in self.rows], type=TYPES[type_name])
            if name == TIME:
                array = array.cast(
                    pa.timestamp("us", "UTC") if self.time_type == "UTC" else pa.timestamp(self.time_type)
                )
            arrays.append(array)
            schema.append((name, array.type))
        return pa.table(arrays, schema=pa.schema(schema))


@dataclass(frozen=True, repr=False)
class Range(Spec):
    """``[RANGE w]``; a width of None is ``[RANGE UNBOUNDED]``."""

    width: int | None

    def cql(self) -> str:
        return "RANGE UNBOUNDED" if self.width is None else f"RANGE {duration(self.width)}"


@dataclass(frozen=True, repr=False)
class Now(Spec):
    def cql(self) -> str:
        return "NOW"


@dataclass(frozen=True, repr=False)
class Rows(Spec):
    """``[ROWS n]``, or ``[PARTITION BY columns ROWS n]``."""

    count: int
    partition_by: tuple[str, ...] = ()

    def cql(self) -> str:
        keys = ", ".join(map(identifier, self.partition_by))
        return (f"PARTITION BY {keys} " if keys else "") + f"ROWS {self.count}"


Window = Range | Now | Rows


@dataclass(frozen=True, repr=False)
class Item(Spec):
    """One item of the FROM list; without a window of its own it has the WINDOW clause's or a derived one."""

    stream: str
    alias: str
    window: Window | None = None

    def cql(self) -> str:
        text = identifier(self.stream)
        if self.alias != self.stream:
            text += f" {identifier(self.alias)}"
        return text + (f" [{self.window.cql()}]" if self.window else "")


@dataclass(frozen=True, repr=False)
class Star(Spec):
    """``*``, or ``alias.*``."""

    alias: str | None = None

    def cql(self) -> str:
        return f"{identifier(self.alias)}.*" if self.alias else "*"


@dataclass(frozen=True, repr=False)
class Out(Spec):
    """An output column: an expression and its name (None: as it comes)."""

    expr: Expr
    name: str | None = None

    def cql(self) -> str:
        return self.expr.cql() + (f" AS {identifier(self.name)}" if self.name else "")


@dataclass(frozen=True, repr=False)
class Case(Spec):
    """A query over finite streams, and the settings of one run of it.

    ``where`` holds the conjuncts. With ``minus`` the query is an EXCEPT: the first item
    with the list ``select``, minus each further item with its list of ``minus``; ``by``
    is its CORRESPONDING BY list. ``join_style`` and ``wrap`` choose between ways to write
    the same query. ``eager``: the plan adapts, at the slightest sign.
    """

    streams: tuple[Stream, ...]
    items: tuple[Item, ...]
    select: tuple[Out | Star, ...]
    where: tuple[Pred, ...] = ()
    output: Literal["istream", "dstream"] = "istream"
    group_by: tuple[Expr, ...] = ()
    having: Pred | None = None
    window: Window | None = None
    minus: tuple[tuple[Out, ...], ...] = ()
    by: tuple[str, ...] = ()
    join_style: Literal["comma", "join"] = "comma"
    wrap: bool = False
    plan: str | None = None
    states: Literal["all", "none", "auto"] = "auto"
    batch_size: int = 65_536
    migration: str = "jisc"
    production: str | tuple[tuple[str, int], ...] = "push"
    memory_limit: int | None = None
    lateness: int | None = None
    transitions: tuple[tuple[int, str], ...] = ()
    eager: bool = False

    def source(self, item: Item) -> Stream:
        return next(stream for stream in self.streams if stream.name == item.stream)

    @property
    def aggregated(self) -> bool:
        return bool(self.group_by) or any(isinstance(p, Agg) for out in self.select for p in parts(_expr(out)))

    def tables(self) -> dict[str, pa.Table]:
        return {stream.name: stream.table() for stream in self.streams}

    def times(self) -> dict[str, str | None]:
        """The event time column of every stream; None for static relations."""
        return {stream.name: None if stream.static else TIME for stream in self.streams}

    def lateness_text(self) -> str | None:
        return None if self.lateness is None else duration(self.lateness).lower()

    def cql(self) -> str:
        """The text of the query, as a user would write it."""
        body = self._except() if self.minus else self._join()
        if self.wrap:
            return f"{self.output.upper()}({body})"
        if self.output == "dstream":
            return body.replace("SELECT ", "SELECT DSTREAM ", 1)
        return body

    def _join(self) -> str:
        lines = ["SELECT " + ", ".join(out.cql() for out in self.select), *self._from_and_where()]
        if self.group_by:
            lines.append("GROUP BY " + ", ".join(key.cql() for key in self.group_by))
        if self.having:
            lines.append("HAVING " + self.having.cql())
        if self.window:
            lines.append("WINDOW " + self.window.cql())
        return "\n".join(lines)

    def _from_and_where(self) -> Iterator[str]:
        if self.join_style == "comma" and self._connected():
            yield "FROM " + ", ".join(item.cql() for item in self.items)
            rest = list(self.where)
        else:
            rest = [p for p in self.where if len(aliases_of(p)) < 2]
            between = [p for p in self.where if len(aliases_of(p)) > 1]
            yield "FROM " + self.items[0].cql()
            seen = {self.items[0].alias}
            for item in self.items[1:]:
                seen.add(item.alias)
                on = [p for p in between if aliases_of(p) <= seen]
                between = [p for p in between if p not in on]
                if on:
                    yield f"JOIN {item.cql()} ON {_conjunction(on)}"
                else:
                    yield f"CROSS JOIN {item.cql()}"
        if rest:
            yield "WHERE " + _conjunction(rest)

    def _connected(self) -> bool:
        """Whether the predicates link all items; where they do not, CROSS JOIN has to be written."""
        reached = {self.items[0].alias}
        links = [aliases_of(p) for p in self.where]
        for _ in self.items:
            for link in links:
                if link & reached:
                    reached |= link
        return len(reached) == len(self.items)

    def _except(self) -> str:
        by = f" CORRESPONDING BY ({', '.join(map(identifier, self.by))})" if self.by else ""
        blocks = []
        for item, outs in zip(self.items, (self.select, *self.minus), strict=True):
            mine = [p for p in self.where if aliases_of(p) == {item.alias}]
            block = f"SELECT {', '.join(out.cql() for out in outs)}\nFROM {item.cql()}"
            blocks.append(block + (f"\nWHERE {_conjunction(mine)}" if mine else ""))
        return f"\nEXCEPT{by}\n".join(blocks) + (f"\nWINDOW {self.window.cql()}" if self.window else "")


def _expr(out: Out | Star) -> Expr:
    return out.expr if isinstance(out, Out) else Lit(None, "string")


def _conjunction(predicates: list[Pred]) -> str:
    return " AND ".join(p.cql() for p in predicates)
