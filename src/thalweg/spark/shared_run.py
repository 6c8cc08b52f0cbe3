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

import pyarrow as pa
from sqlglot import exp

from thalweg import cql as language
from thalweg.cql.group import Group
from thalweg.cql.query import JoinSpec, Output, Projection, Query, RangeWindow, Reader, RowsWindow, View
from thalweg.errors import QueryError
from thalweg.plan.partitioning import Partitioning
from thalweg.spark.fitting import Misfit, Terms


@dataclass(frozen=True, slots=True)
class Registered:
    """A query of a shared run.

    Attributes:
        name: its own.
        text: what it asks.
        since: the batch that it entered with; results of the rows that came before are none of its. As a directory
            knows it, a batch before which it cannot have entered.

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

    @property
    def terms(self) -> Terms:
        """What a query must agree to."""
        return Terms(self.name, self.join, self.inside, self.partitioning)

    def reader(self, registered: Registered) -> Reader:
        """A registered query as a reader of the join inside; an error says why it cannot be one."""
        return self.terms.require(self._bound(registered))

    def apart(self, registered: Registered, others: Sequence[Registered]) -> str | None:
        """Why a query cannot share the run with these; None: it can, if the columns that it reads are carried."""
        found = self.terms.fit(self._bound(registered), self.group(others))
        return found.reason if isinstance(found, Misfit) else None

    def _bound(self, registered: Registered) -> Query:
        return bind_one(registered.text, registered.name, self.catalog)

    def group(self, registered: Sequence[Registered]) -> Group:
        """The group of some queries; an error if they cannot share the join. If there are none, nothing is kept."""
        place = self.identity, tuple(registered)
        if place not in _groups:
            while len(_groups) >= _MOST_GROUPS:
                del _groups[next(iter(_groups))]
            _groups[place] = self._group(registered)
        return _groups[place]

    def _group(self, registered: Sequence[Registered]) -> Group:
        if not registered:
            return Group(self.inside, (nobody(self.inside),))
        first, *others = (self._known_reader(each) for each in registered)
        group = Group(self.inside, (first,))
        for reader in others:
            group = self.terms.require_beside(reader, group)
        return group

    def _known_reader(self, registered: Registered) -> Reader:
        place = self.identity, registered.name, registered.text
        if place not in _readers:
            if len(_readers) >= _MOST_READERS:
                _readers.clear()
            _readers[place] = self.reader(registered)
        return _readers[place]


def bind_one(text: str, name: str, catalog: Mapping[str, language.Source]) -> Query:
    """The one query of a text, under this name, with the types that are computed in process."""
    queries = language.bind(text, catalog)
    if len(queries) != 1:
        raise QueryError(f"query '{name}': its text has {len(queries)} queries", None, "Register one at a time.")
    return replace(queries[0], name=name)


def nobody(join: JoinSpec) -> Reader:
    """A reader that selects nothing: who is there when no query is. So tuples pass by."""
    views = []
    for stream in join.streams:
        if stream.partition_by is not None:
            views.append(View(RowsWindow(1, stream.partition_by), None, exp.false()))
        else:
            width = None if stream.time is None else 1
            views.append(View(RangeWindow(width), width, exp.false()))
    return Reader("", "", Output.ISTREAM, tuple(views), (Projection("nothing", exp.false(), pa.bool_()),))


def base_query(join: JoinSpec, name: str) -> Query:
    """What a checkpoint remembers of a shared run: the join, and nothing that readers decide."""
    views = []
    for stream in join.streams:
        if stream.partition_by is None:
            views.append(View(RangeWindow(None), None))
        else:
            views.append(View(RowsWindow(1, stream.partition_by), None))
    return Query.of(join, Reader(name, "", Output.DSTREAM, tuple(views), ()))
