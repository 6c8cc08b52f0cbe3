"""What a run that many queries share knows of them: the join, who reads it, and how a text becomes a reader of it.

Queries come and go while it runs, by commands that hold their texts. Every bucket binds a text by itself, to the same
columns, so all buckets and all attempts at a batch make the same reader of it. Nothing that is Python's own is ever
read from a command.

What the join needs is computed by Spark, where it cannot be computed in process: keys, operands, partitions of ROWS
windows. They are the same for all readers. What a reader adds (selections, residual predicates, SELECT lists,
aggregates) is computed in the buckets, as in a replay. So it can be other for every reader, and change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from thalweg import cql as language
from thalweg.cql.group import Group, expressions_of, placed_in
from thalweg.cql.query import JoinSpec, Output, Query, RangeWindow, Reader, RowsWindow, View
from thalweg.cql.rendering import render
from thalweg.engine.rows.expressions import columns_of
from thalweg.errors import QueryError
from thalweg.plan.partitioning import Partitioning, keeps_groups


@dataclass(frozen=True, slots=True)
class Registered:
    """A query of a shared run.

    Attributes:
        name: its own.
        text: what it asks.
        since: the batch that it entered with; results of the rows that came before are none of its.

    """

    name: str
    text: str
    since: int = 0


_MOST_GROUPS, _MOST_READERS = 8, 20_000
_groups: dict[tuple[str, tuple[Registered, ...]], Group] = {}
_readers: dict[tuple[str, str, str], Reader] = {}
"""What texts were bound to, in this process: a bucket asks in every batch, and binding takes milliseconds."""


@dataclass(frozen=True, slots=True)
class SharedRun:
    """The join of a shared run.

    Attributes:
        identity: told apart from every other run.
        name: that of the run, by which commands know it.
        join: what is joined, over the columns of the sources.
        inside: the same over the columns that buckets get.
        catalog: the sources, as texts name them.
        registered: the queries that it begins with.
        partitioning: how its tuples are spread over buckets.

    """

    identity: str
    name: str
    join: JoinSpec
    inside: JoinSpec
    catalog: Mapping[str, language.Source]
    registered: tuple[Registered, ...]
    partitioning: Partitioning

    def reader(self, registered: Registered) -> Reader:
        """A registered query as a reader of the join inside; an error says why it cannot be one."""
        query = bind_one(registered.text, registered.name, self.catalog)
        placed = placed_in(query, self.join)
        if placed is None:
            raise QueryError(
                f"query '{registered.name}' does not join what the queries of '{self.name}' join",
                None,
                "Queries share a run if they join the same streams on the same predicates. Start it by itself.",
            )
        self._check_columns(placed)
        torn = self._torn_apart(placed.reader)
        if torn is not None:
            raise QueryError(torn, None, "Start it by itself.")
        return self._seen(placed.reader)

    def apart(self, registered: Registered, others: Sequence[Registered]) -> str | None:
        """Why a query cannot share the run with these; None: it can, if the columns that it reads are carried."""
        placed = placed_in(bind_one(registered.text, registered.name, self.catalog), self.join)
        if placed is None:
            return f"query '{registered.name}' does not join what the queries of '{self.name}' join"
        if not self.group(others).may_take(self._seen(placed.reader)):
            return (
                f"query '{registered.name}' and the queries of '{self.name}' count rows in their windows, results "
                "leave one of them, and the windows differ"
            )
        return self._torn_apart(placed.reader)

    def _torn_apart(self, reader: Reader) -> str | None:
        """Why a reader cannot be served by the buckets that there are; None: it can."""
        query = Query.of(self.join, reader)
        if keeps_groups(query, self.partitioning):
            return None
        keys = ", ".join(render(key.expression) for key in query.aggregation.keys) if query.aggregation else ""
        grouped_by = f"groups by {keys}" if keys else "has one group of all results"
        return (
            f"query '{reader.name}' {grouped_by}, and the rows of a group would be in several of the "
            f"{self.partitioning.buckets} buckets of '{self.name}'"
        )

    def group(self, registered: Sequence[Registered]) -> Group:
        """The group of some queries; an error if they cannot share the join."""
        place = self.identity, tuple(registered)
        if place not in _groups:
            while len(_groups) >= _MOST_GROUPS:
                del _groups[next(iter(_groups))]
            _groups[place] = self._group(registered)
        return _groups[place]

    def _group(self, registered: Sequence[Registered]) -> Group:
        first, *others = (self._known_reader(each) for each in registered)
        group = Group(self.inside, (first,))
        for reader in others:
            if not group.may_take(reader):
                raise QueryError(
                    f"query '{reader.name}' cannot share a run with '{group.readers[0].name}'",
                    None,
                    "Results leave one of them, and their windows count rows: then the windows must be the same.",
                )
            group = group.with_reader(reader)
        return group

    def _known_reader(self, registered: Registered) -> Reader:
        place = self.identity, registered.name, registered.text
        if place not in _readers:
            if len(_readers) >= _MOST_READERS:
                _readers.clear()
            _readers[place] = self.reader(registered)
        return _readers[place]

    def _seen(self, reader: Reader) -> Reader:
        """A reader of the join as one of the join inside."""
        return replace(reader, views=tuple(map(self._view, reader.views, range(len(reader.views)))))

    def _view(self, view: View, stream: int) -> View:
        """What a reader sees of a stream, with the partitions of windows as buckets know them."""
        keys = self.inside.streams[stream].partition_by
        if not isinstance(view.window, RowsWindow) or keys is None:
            return view
        return replace(view, window=replace(view.window, partition_by=keys))

    def _check_columns(self, query: Query) -> None:
        """Refuse a query that reads columns which buckets do not get."""
        carried = {stream.alias: set(stream.schema.names) for stream in self.inside.streams}
        names = {stream.alias: stream.stream for stream in self.inside.streams}
        missing: dict[str, list[str]] = {}
        for alias, name in columns_of(list(expressions_of(query.reader))):
            if alias in carried and name not in carried[alias]:
                missing.setdefault(names[alias], []).append(name)
        for stream, columns in missing.items():
            listed = " and ".join(f"'{name}'" for name in columns)
            them = "them" if len(columns) > 1 else "it"
            raise QueryError(
                f"query '{query.name}' reads {listed} of stream '{stream}', and '{self.name}' does not carry {them}",
                None,
                f"Leave {them} out, or begin in a new directory with app.stream('{stream}', ..., keep={columns!r}) "
                f"(thalweg run: --keep {stream}={','.join(columns)}).",
            )


def bind_one(text: str, name: str, catalog: Mapping[str, language.Source]) -> Query:
    """The one query of a text, under this name, with the types that are computed in process."""
    queries = language.bind(text, catalog)
    if len(queries) != 1:
        raise QueryError(f"query '{name}': its text has {len(queries)} queries", None, "Register one at a time.")
    return replace(queries[0], name=name)


def base_query(join: JoinSpec, name: str) -> Query:
    """What a checkpoint remembers of a shared run: the join, and nothing that readers decide."""
    views = []
    for stream in join.streams:
        if stream.partition_by is None:
            views.append(View(RangeWindow(None), None))
        else:
            views.append(View(RowsWindow(1, stream.partition_by), None))
    return Query.of(join, Reader(name, "", Output.DSTREAM, tuple(views), ()))
