"""Whether a query fits a run. It is asked here, and nowhere else.

A query fits if

1. it joins the same streams on the same predicates (:func:`thalweg.cql.group.placed_in`);
2. it may stand beside the others: where windows count rows and results leave, the windows must be the same
   (:meth:`thalweg.cql.group.Group.may_take`);
3. no group of its aggregation would lie in several buckets (:func:`thalweg.plan.partitioning.keeps_groups`);
4. buckets get the columns that it reads.

A query that is a misfit by the first three gets a run of its own. One that lacks columns is refused: whoever asks wants
that run, and can begin it anew with these columns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from thalweg.cql.group import Group, expressions_of, placed_in
from thalweg.cql.query import JoinSpec, Query, Reader, RowsWindow, View
from thalweg.cql.rendering import render
from thalweg.engine.rows.expressions import columns_of
from thalweg.errors import QueryError
from thalweg.plan.partitioning import Partitioning, keeps_groups


@dataclass(frozen=True, slots=True)
class Misfit:
    """Why a query does not fit, and what to do."""

    reason: str
    hint: str

    @property
    def error(self) -> QueryError:
        return QueryError(self.reason, None, self.hint)


@dataclass(frozen=True, slots=True)
class Terms:
    """What a query must agree to, to share a run.

    Attributes:
        name: that of the run.
        join: what is joined, over the columns of the sources.
        inside: the same over the columns that buckets get.
        partitioning: how tuples are spread over buckets.

    """

    name: str
    join: JoinSpec
    inside: JoinSpec
    partitioning: Partitioning

    def fit(self, query: Query, beside: Group | None = None) -> Reader | Misfit:
        """A query as a reader of the join inside; ``beside``: of a group that it must be able to join.

        Whether buckets get its columns is another question (:meth:`require`).
        """
        placed = placed_in(query, self.join)
        if placed is None:
            return Misfit(
                f"query '{query.name}' does not join what the queries of '{self.name}' join",
                "Queries share a run if they join the same streams on the same predicates. Start it by itself.",
            )
        reader = self._seen(placed.reader)
        if beside is not None and not beside.may_take(reader):
            return self._cannot_stand_beside(reader)
        if not keeps_groups(placed, self.partitioning):
            return self._torn_apart(placed)
        return reader

    def require(self, query: Query) -> Reader:
        """The same; an error if the query does not fit, or buckets do not get what it reads."""
        found = self.fit(query)
        if isinstance(found, Misfit):
            raise found.error
        self._require_columns(found)
        return found

    def require_beside(self, reader: Reader, group: Group) -> Group:
        """The group with one more reader that fits; an error if it cannot stand beside the others."""
        if not group.may_take(reader):
            raise self._cannot_stand_beside(reader).error
        return group.with_reader(reader)

    def _cannot_stand_beside(self, reader: Reader) -> Misfit:
        return Misfit(
            f"query '{reader.name}' and the queries of '{self.name}' count rows in their windows, results leave one of "
            "them, and the windows differ",
            "Start it by itself.",
        )

    def _torn_apart(self, query: Query) -> Misfit:
        keys = ", ".join(render(key.expression) for key in query.aggregation.keys) if query.aggregation else ""
        grouped_by = f"groups by {keys}" if keys else "has one group of all results"
        return Misfit(
            f"query '{query.name}' {grouped_by}, and the rows of a group would be in several of the "
            f"{self.partitioning.buckets} buckets of '{self.name}'",
            "Start it by itself.",
        )

    def _require_columns(self, reader: Reader) -> None:
        """Refuse a query that reads columns which buckets do not get."""
        carried = {stream.alias: set(stream.schema.names) for stream in self.inside.streams}
        names = {stream.alias: stream.stream for stream in self.inside.streams}
        missing: dict[str, list[str]] = {}
        for alias, name in columns_of(list(expressions_of(reader))):
            if alias in carried and name not in carried[alias]:
                missing.setdefault(names[alias], []).append(name)
        for stream, columns in missing.items():
            listed = " and ".join(f"'{name}'" for name in columns)
            them = "them" if len(columns) > 1 else "it"
            raise QueryError(
                f"query '{reader.name}' reads {listed} of stream '{stream}', and '{self.name}' does not carry {them}",
                None,
                f"Leave {them} out, or begin in a new directory with app.stream('{stream}', ..., keep={columns!r}) "
                f"(thalweg run: --keep {stream}={','.join(columns)}).",
            )

    def _seen(self, reader: Reader) -> Reader:
        """A reader of the join as one of the join inside."""
        return replace(reader, views=tuple(map(self._view, reader.views, range(len(reader.views)))))

    def _view(self, view: View, stream: int) -> View:
        """What a reader sees of a stream, with the partitions of windows as buckets know them."""
        keys = self.inside.streams[stream].partition_by
        if not isinstance(view.window, RowsWindow) or keys is None:
            return view
        return replace(view, window=replace(view.window, partition_by=keys))
