"""Queries over one join: a group has one join and any number of readers.

Queries belong together if they join the same streams on the same predicates. Their windows, selections, residual
predicates, SELECT lists and outputs may differ: these are the readers' own. What one query calls its streams, and in
which order it names them, does not matter either: it is put into the words of the group's join.

Some queries stay by themselves. A set difference is no join. And where windows count rows, a tuple's place among those
of one time follows the order of FROM, and results that leave follow the size of the window: such queries share a join
only if these are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice, permutations, product
from typing import Any

from sqlglot import exp

from thalweg.cql.query import (
    AttributeClass,
    JoinSpec,
    Operand,
    Output,
    Projection,
    Query,
    RangeWindow,
    Reader,
    RowsWindow,
    StreamRef,
    Theta,
    View,
    Window,
)

_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "<>": "<>"}
_MOST_ORDERS = 5040
"""Orders of streams that are tried, at most: joins of more streams of one name are not compared in every order."""


@dataclass(frozen=True)
class Group:
    """One join, and who reads it.

    Attributes:
        join: what is joined.
        readers: at least one, each with a name of its own.

    """

    join: JoinSpec
    readers: tuple[Reader, ...]

    @staticmethod
    def of(query: Query) -> Group:
        """The group of a query that is by itself."""
        return Group(query.join, (query.reader,))

    def query(self, reader: Reader) -> Query:
        """What one reader asks, as a query of its own."""
        return Query.of(self.join, reader)

    @property
    def queries(self) -> list[Query]:
        """What all readers ask."""
        return [self.query(reader) for reader in self.readers]

    @cached_property
    def whole(self) -> Query:
        """A query that all readers together amount to: what a plan is chosen for, and what is kept for them.

        Its windows are the widest of each stream, its selections hold if one of the readers' does, and its results have
        all columns that some reader reads. If there is a single reader, it is that one's query.
        """
        if len(self.readers) == 1:
            return self.query(self.readers[0])
        views = [[reader.views[stream] for reader in self.readers] for stream in range(len(self.join.streams))]
        first, *others = self.readers
        return replace(
            self.query(first),
            name=f"{first.name} and {len(others)} more",
            text=";\n".join(reader.text for reader in self.readers),
            output=Output.DSTREAM if any(reader.is_lasting for reader in self.readers) else Output.ISTREAM,
            streams=tuple(_widest(ref, mine) for ref, mine in zip(self.query(first).streams, views, strict=True)),
            select=tuple(self._columns()),
            residual=(),
            aggregation=None,
            freshness_us=None,
            differences=(),
            weight=1.0,
        )

    def _columns(self) -> Iterator[Projection]:
        """All columns that some reader makes its results of, or selects by."""
        schemas = {stream.alias: stream.schema for stream in self.join.streams}
        seen = {}
        for reader in self.readers:
            for expression in expressions_of(reader):
                for column in expression.find_all(exp.Column):
                    if column.table in schemas:
                        seen[column.table, column.name] = column
        for i, ((alias, name), column) in enumerate(seen.items()):
            yield Projection(f"c{i}", column.copy(), schemas[alias].field(name).type)

    def takes(self, query: Query) -> Reader | None:
        """A query as a further reader of this group; None: it does not belong here."""
        placed = placed_in(query, self.join)
        return placed.reader if placed is not None and self.may_take(placed.reader) else None

    def may_take(self, reader: Reader) -> bool:
        """Whether a reader of the same join can be added; see the head of this module."""
        return all(_may_share(reader, other) for other in self.readers)

    def with_reader(self, reader: Reader) -> Group:
        """The group with one more reader."""
        return Group(self.join, (*self.readers, reader))

    def weighed(self, weight_of: Callable[[str], float]) -> Group:
        """The group with the weight of each reader, by its name."""
        return Group(self.join, tuple(replace(reader, weight=weight_of(reader.name)) for reader in self.readers))

    def without(self, name: str) -> Group:
        """The group without a reader."""
        return Group(self.join, tuple(reader for reader in self.readers if reader.name != name))


def grouped(queries: Iterable[Query]) -> list[Group]:
    """Queries that share a join, together; groups and readers are in the order of the queries."""
    groups: list[Group] = []
    alike: dict[Hashable, list[int]] = {}
    for query in queries:
        places = alike.setdefault(_likeness(query.join), [])
        for place in places:
            reader = groups[place].takes(query)
            if reader is not None:
                groups[place] = groups[place].with_reader(reader)
                break
        else:
            places.append(len(groups))
            groups.append(Group.of(query))
    return groups


def expressions_of(reader: Reader) -> Iterator[exp.Expression]:
    """What a reader computes of joined rows, and selects by."""
    yield from (projection.expression for projection in reader.select)
    yield from reader.residual
    yield from (view.selection for view in reader.views if view.selection is not None)
    if reader.aggregation is not None:
        yield from (key.expression for key in reader.aggregation.keys)
        yield from (call.argument for call in reader.aggregation.calls if call.argument is not None)


def _widest(ref: StreamRef, views: Sequence[View]) -> StreamRef:
    """A stream as the widest of these views have it."""
    retentions = [view.retention_us for view in views]
    selections = list(dict.fromkeys(view.selection for view in views))
    return replace(
        ref,
        window=_widest_window([view.window for view in views]),
        retention_us=None if None in retentions else max(each for each in retentions if each is not None),
        selection=None if None in selections else _any_of([each for each in selections if each is not None]),
        freshness_us=None,
    )


def _widest_window(windows: Sequence[Window]) -> Window:
    ranges = [window.width_us for window in windows if isinstance(window, RangeWindow)]
    if len(ranges) == len(windows):
        return RangeWindow(None if None in ranges else max(each for each in ranges if each is not None))
    return max((window for window in windows if isinstance(window, RowsWindow)), key=lambda window: window.rows)


def _any_of(selections: Sequence[exp.Expression]) -> exp.Expression:
    """Whether one of these holds, as a tree that is not deep."""
    if len(selections) == 1:
        return selections[0]
    half = len(selections) // 2
    left, right = _any_of(selections[:half]), _any_of(selections[half:])
    return exp.Or(this=exp.paren(left.copy()), expression=exp.paren(right.copy()))


def _may_share(one: Reader, other: Reader) -> bool:
    """Whether two readers of the same join may read it together; see the head of this module."""
    if not (one.is_lasting or other.is_lasting):
        return True
    return all(
        not isinstance(mine.window, RowsWindow) or mine.window == theirs.window
        for mine, theirs in zip(one.views, other.views, strict=True)
    )


# Putting a query into the words of a join --------------------------------------------------------


def placed_in(query: Query, join: JoinSpec) -> Query | None:
    """A query with the aliases, and the order of streams, of a join that is the same as its own; None: it is another.

    >>> from thalweg.cql import Source, bind
    >>> import pyarrow as pa
    >>> schema = pa.schema([("ts", pa.timestamp("us")), ("k", pa.int64())])
    >>> catalog = {name: Source(schema, "ts") for name in ("A", "B")}
    >>> [one] = bind("SELECT A.k FROM A, B WHERE A.k = B.k WINDOW RANGE 1 SECOND", catalog)
    >>> [other] = bind("SELECT y.ts FROM B x, A y WHERE x.k = y.k AND y.k > 2 WINDOW RANGE 1 HOUR", catalog)
    >>> placed_in(other, one.join).select[0].expression.sql(), placed_in(other, one.join).aliases
    ('"A"."ts"', ('A', 'B'))
    """
    if query.kind != "join" or join.kind != "join":
        return None
    wanted = _comparable(join)
    for order in _orders(query, join):
        placed = _moved(query, order, [stream.alias for stream in join.streams])
        if _comparable(placed.join) == wanted:
            return replace(placed, classes=join.classes, thetas=join.thetas)
    return None


def _orders(query: Query, join: JoinSpec) -> Iterator[tuple[int, ...]]:
    """Ways to give the streams of a query the places of a join: for each place, the stream that comes there."""
    theirs = [stream.stream for stream in join.streams]
    mine = [ref.stream for ref in query.streams]
    if sorted(theirs) != sorted(mine):
        return
    counts_rows = any(stream.partition_by is not None for stream in join.streams)
    places = {name: [p for p, other in enumerate(theirs) if other == name] for name in dict.fromkeys(theirs)}
    if counts_rows:
        if theirs == mine:
            yield tuple(range(len(mine)))
        return
    sources = [[s for s, other in enumerate(mine) if other == name] for name in places]
    for choice in islice(product(*(permutations(each) for each in sources)), _MOST_ORDERS):
        order = [0] * len(mine)
        for where, which in zip(places.values(), choice, strict=True):
            for place, stream in zip(where, which, strict=True):
                order[place] = stream
        yield tuple(order)


def _moved(query: Query, order: Sequence[int], aliases: Sequence[str]) -> Query:
    """The query with its streams in this order, under these aliases."""
    place = {stream: position for position, stream in enumerate(order)}
    names = {query.streams[stream].alias: aliases[position] for position, stream in enumerate(order)}

    def operand(each: Operand) -> Operand:
        return Operand(place[each.stream], _renamed(each.expression, names))

    def window(each: Window) -> Window:
        if isinstance(each, RangeWindow):
            return each
        return replace(each, partition_by=tuple(_renamed(key, names) for key in each.partition_by))

    streams = []
    for position, stream in enumerate(order):
        ref = query.streams[stream]
        selection = None if ref.selection is None else _renamed(ref.selection, names)
        streams.append(replace(ref, alias=aliases[position], window=window(ref.window), selection=selection))
    aggregation = query.aggregation
    if aggregation is not None:
        aggregation = replace(
            aggregation,
            keys=tuple(replace(key, expression=_renamed(key.expression, names)) for key in aggregation.keys),
            calls=tuple(
                call if call.argument is None else replace(call, argument=_renamed(call.argument, names))
                for call in aggregation.calls
            ),
        )
    return replace(
        query,
        streams=tuple(streams),
        select=tuple(replace(each, expression=_renamed(each.expression, names)) for each in query.select),
        classes=tuple(
            replace(each, members={place[s]: _renamed(member, names) for s, member in each.members.items()})
            for each in query.classes
        ),
        thetas=tuple(replace(each, left=operand(each.left), right=operand(each.right)) for each in query.thetas),
        residual=tuple(_renamed(each, names) for each in query.residual),
        aggregation=aggregation,
        differences=tuple(tuple(query.differences[x][y] for y in order) for x in order) if query.differences else (),
    )


def _renamed(expression: exp.Expression, names: Mapping[str, str]) -> exp.Expression:
    """An expression with other aliases."""
    tree = expression.copy()
    for column in list(tree.find_all(exp.Column)):
        if column.table in names:
            column.set("table", exp.to_identifier(names[column.table], quoted=True))
    return tree


def _likeness(join: JoinSpec) -> Hashable:
    """The same for joins that are the same but for aliases and orders: of many joins, few have to be compared."""
    names = {stream.alias: "" for stream in join.streams}

    def operand(stream: int, expression: exp.Expression) -> tuple[str, str]:
        return join.streams[stream].stream, _renamed(expression, names).sql()

    classes = [tuple(sorted(operand(*member) for member in each.members.items())) for each in join.classes]
    thetas = [
        tuple(sorted(operand(side.stream, side.expression) for side in (each.left, each.right))) for each in join.thetas
    ]
    return (
        join.kind,
        tuple(sorted(stream.stream for stream in join.streams)),
        tuple(sorted(classes)),
        tuple(sorted(thetas)),
    )


def _comparable(join: JoinSpec) -> Any:
    """What makes a join what it is, whatever the order in which its predicates are written."""
    classes = [_class(each) for each in join.classes]
    thetas = [_theta(each) for each in join.thetas]
    return (join.streams, sorted(classes, key=repr), sorted(thetas, key=repr))


def _class(each: AttributeClass) -> Any:
    members = sorted((stream, member.sql()) for stream, member in each.members.items())
    return members, str(each.type), each.null_safe


def _theta(each: Theta) -> Any:
    """A comparison with the earlier stream on its left."""
    left, op, right, offset = each.left, each.op, each.right, each.offset
    if left.stream > right.stream:
        left, right = right, left
        if not each.absolute:
            op, offset = _FLIPPED[op], None if offset is None else -offset  # type: ignore[assignment] # one of them
    sides = (left.stream, left.expression.sql(), right.stream, right.expression.sql())
    return (*sides, op, str(each.type), offset, each.absolute)
