"""A run as its directory knows it, without Spark: who is registered, and whether one more query may be."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from thalweg import cql as language
from thalweg.cql.group import Group, grouped
from thalweg.cql.query import JoinSpec, Reader
from thalweg.errors import QueryError
from thalweg.plan.partitioning import Partitioning, choose_partitioning, keeps_groups
from thalweg.spark.fitting import Misfit, Terms
from thalweg.spark.shared_run import Registered, SharedRun, bind_one


@dataclass(frozen=True, slots=True)
class Run:
    """A run of a directory.

    Attributes:
        name: by which commands know it.
        founder: the text of one of the first queries. The join is in its words for good, and tuples are spread over
            buckets as suits it, also when it has left.
        buckets: how many there are at most.
        registered: the queries.
        catalog: the sources that their texts may name.
        carried: for each source, the columns that its rows have in the run.
        is_alone: whether it has a single query for good, whose expressions Spark computes.

    """

    name: str
    founder: str
    buckets: int
    registered: tuple[Registered, ...]
    catalog: Mapping[str, language.Source]
    carried: Mapping[str, tuple[str, ...]]
    is_alone: bool = False

    @property
    def partitioning(self) -> Partitioning:
        """How tuples are spread over buckets."""
        return partitioning_for(self.founder, self.buckets, self.catalog)

    @property
    def shared(self) -> SharedRun:
        """What tells whether another query fits. It is known by what it is made of, so texts are bound once."""
        join = bind_one(self.founder, self.name, self.catalog).join
        known = repr((self.name, self.founder, self.buckets, sorted(self.carried.items()), self.catalog))
        identity = hashlib.sha256(known.encode()).hexdigest()
        narrow = self._narrowed(join)
        return SharedRun(identity, self.name, join, narrow, self.catalog, self.registered, self.partitioning)

    def _narrowed(self, join: JoinSpec) -> JoinSpec:
        """The join over the columns that are carried."""
        streams = (
            replace(each, schema=pa.schema([f for f in each.schema if f.name in self.carried[each.stream]]))
            for each in join.streams
        )
        return replace(join, streams=tuple(streams))

    def apart(self, registered: Registered, streams: Sequence[str]) -> str | None:
        """Why a query over these streams cannot be one more reader here; None: it can, if its columns are carried."""
        if self.is_alone:
            return f"'{self.name}' has a single query, which Spark computes"
        if not set(streams) <= set(self.catalog):
            return f"query '{registered.name}' does not join what the queries of '{self.name}' join"
        return self.shared.apart(registered, self.registered)

    def reader(self, registered: Registered) -> Reader:
        """A query as one more reader; an error if it cannot be one."""
        return self.shared.group((*self.registered, registered)).readers[-1]


def partitioning_for(founder: str, buckets: int, catalog: Mapping[str, language.Source]) -> Partitioning:
    """How the tuples of the join of a text are spread: so that no group of the text's own is torn apart."""
    return choose_partitioning(bind_one(founder, "founder", catalog), buckets)


def joined(
    founder: str, registered: Sequence[Registered], catalog: Mapping[str, language.Source], partitioning: Partitioning
) -> Group:
    """Queries as the readers of the founder's join; an error if some are of another."""
    join = bind_one(founder, "founder", catalog).join
    terms = Terms("the run", join, join, partitioning)
    group: Group | None = None
    for each in registered:
        reader = terms.fit(bind_one(each.text, each.name, catalog))
        if isinstance(reader, Misfit):
            what = f"query '{each.name}' cannot share the run that it was registered for"
            raise QueryError(what, None, "The streams are not what they were. Begin in a new directory.")
        group = Group(join, (reader,)) if group is None else group.with_reader(reader)
    if group is None:
        raise QueryError("no query is registered", None, "Register one first.")
    return group


def divided(
    registered: Sequence[Registered], buckets: int, catalog: Mapping[str, language.Source]
) -> list[tuple[str, tuple[Registered, ...]]]:
    """Queries that begin together: for each run that they need, the founder's text and the queries.

    The founder is the query whose streams can be spread over most buckets: a sum over all results, say, needs a single
    bucket, and would have all others share that.
    """
    by_name = {each.name: each for each in registered}
    runs = []
    for group in grouped(bind_one(each.text, each.name, catalog) for each in registered):
        waiting = list(group.readers)
        while waiting:
            spread = {reader.name: choose_partitioning(group.query(reader), buckets) for reader in waiting}
            founder = max(waiting, key=lambda reader: spread[reader.name].buckets)
            taken = [each for each in waiting if keeps_groups(group.query(each), spread[founder.name])]
            runs.append((by_name[founder.name].text, tuple(by_name[each.name] for each in taken)))
            waiting = [each for each in waiting if each not in taken]
    return runs
