"""What a bucket runs, what a batch brings for it, and what the batch led to."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from sqlglot import exp

from thalweg.cql.query import Query
from thalweg.plan.partitioning import Partitioning
from thalweg.policies import DEFAULT_POLICIES, Policies
from thalweg.spark.commands import Sent
from thalweg.spark.description import Description
from thalweg.spark.prices import Prices
from thalweg.spark.relations import Relations
from thalweg.spark.shared_run import SharedRun
from thalweg.spark.side_output import KeptOut


@dataclass(frozen=True, slots=True)
class Spec:
    """What a bucket runs; the same for all buckets of a query.

    Attributes:
        identity: told apart from every other start of any query.
        query: the query inside the operator.
        partitioning: how its tuples are spread over buckets.
        lateness: for each stream, in microseconds; None for a static relation.
        relations: the rows of the static relations, if there are any.
        idle_timeout: see :class:`Watermarks`.
        plan: the initial plan as text, if the user gave one.
        late_directory: where rows that were kept out are put; None: they are only counted.
        described: what a checkpoint remembers of the query.
        policies: those of each bucket.
        shown: for each stream, the columns that come with its rows only to be shown if a row is kept out.
        selections: for each stream the conditions on it alone, where Spark computes them; (): nowhere.
        shared: the queries that share the run; None: it is that of one query. ``query`` is then what those that the run
            begins with amount to.

    """

    identity: str
    query: Query
    partitioning: Partitioning
    lateness: tuple[int | None, ...]
    relations: Relations | None
    idle_timeout: int | None
    plan: str | None
    late_directory: Path | None
    described: Description
    policies: Policies = DEFAULT_POLICIES
    shown: tuple[tuple[str, ...], ...] = ()
    selections: tuple[exp.Expression | None, ...] = ()
    shared: SharedRun | None = None


@dataclass(slots=True)
class Arriving:
    """What a batch brings for one bucket.

    ``bodies`` are (stream, blob of rows), ``news`` (stream, newest event time, moment), ``bad`` how many rows of each
    stream have no event time, ``rejected`` (stream, blob) rows that can join nothing, or only their event times,
    ``commands`` what was sent to queries, ``query_id`` Spark's own id of this one, ``batch`` the number of the
    batch among all of the query (a bucket does not take part in each), ``starts`` whether the batch is the
    first one after a start (told only where streams may be idle), ``prices`` what triggers have taken, as the driver
    has gathered it (:mod:`thalweg.spark.prices`; None: as it was).
    """

    bodies: list[tuple[int, bytes]] = field(default_factory=list)
    news: list[tuple[int, int | None, int]] = field(default_factory=list)
    bad: dict[int, int] = field(default_factory=dict)
    rejected: list[tuple[int, bytes]] = field(default_factory=list)
    commands: list[Sent] = field(default_factory=list)
    query_id: str | None = None
    batch: int = 0
    starts: bool = False
    prices: Prices | None = None


class Delivery(NamedTuple):
    """What a batch has for a reader.

    Attributes:
        reader: its name.
        since: the batch that it entered with. A query that comes again under its name has another one.
        body: a blob of its results; None: there are none.
        failure: why there will be no more; None: there may be.

    """

    reader: str
    since: int
    body: bytes | None
    failure: str | None = None


@dataclass(slots=True)
class Outcome:
    """What a batch led to: its number, what there is for readers, rows kept out, the record, metrics."""

    batch: int
    results: list[Delivery]
    kept_out: list[KeptOut]
    record: str
    metrics: dict[str, Any]
