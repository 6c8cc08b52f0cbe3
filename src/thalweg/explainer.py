"""``explain``: what a query over tables means and how it would run, in process, without running it."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from thalweg import cql as language
from thalweg.cql.group import Group, grouped
from thalweg.cql.query import Query
from thalweg.driver.planning import check_budget, plan_for
from thalweg.engine.windows.sampling import SAMPLE_ROWS
from thalweg.event_times import DEFAULT_TIME, Times, TimeUnits
from thalweg.options import Options
from thalweg.plan.explain import explain_json
from thalweg.plan.explain_group import NO_OTHER, explain_group, why_apart
from thalweg.plan.explain_group_text import lay_out_any, lay_out_overview
from thalweg.plan.explain_text import lay_out
from thalweg.plan.partitioning import choose_partitioning
from thalweg.plan.statistics import ASSUMED, Statistics
from thalweg.policies import Policies
from thalweg.replayer import open_tables, pick_query
from thalweg.replayer.arrivals import arrivals, measured_statistics


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a query means and how it would run.

    Attributes:
        text: for a person; printing the explanation prints it.
        facts: the same for a program, of nothing but what JSON knows.

    """

    text: str
    facts: dict[str, Any]

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        """For notebooks, which would else wrap its lines."""
        return f"<pre>{html.escape(self.text)}</pre>"


def explain(
    cql: str,
    streams: Mapping[str, Any],
    *,
    time: Times = DEFAULT_TIME,
    time_unit: TimeUnits | None = None,
    options: Options | Mapping[str, Any] | None = None,
    query: str | None = None,
) -> Explanation:
    """Explain a query without running it; or several, and how they share their joins.

    Args:
        cql: the query text.
        streams: what :func:`thalweg.replay` takes. A ``pyarrow.Schema`` in the place of a table describes a stream
            without rows: the planner then goes by assumptions instead of what the rows say.
        time: as of :func:`thalweg.replay`.
        time_unit: as of :func:`thalweg.replay`.
        options: as of :func:`thalweg.replay`; with ``buckets`` it is also said how Spark would spread tuples.
        query: the name of the one query to explain, if the text has several.

    Returns:
        The explanation. Of one query, its facts are those of that query. Of several, they are ``groups`` (which queries
        share a join, and why others do not) and ``explained`` (the facts of each group, in the same order).

    >>> trades = {"ts": [1_000_000], "sym": ["x"], "px": [10]}
    >>> explained = explain("SELECT sym, px FROM trades [RANGE 5 SECONDS] WHERE px > 5", {"trades": trades})
    >>> explained.facts["plan"]["text"]
    'trades'
    >>> text = "CREATE QUERY a AS SELECT px FROM trades [NOW]; CREATE QUERY b AS SELECT px FROM trades [RANGE 1 DAY]"
    >>> explain(text, {"trades": trades}).facts["groups"]
    [{'queries': ['a', 'b'], 'apart': None}]

    """
    chosen = Options.of(options)
    described = isinstance(streams, Mapping) and any(isinstance(given, pa.Schema) for given in streams.values())
    tables, catalog = open_tables(streams, time, time_unit)
    bound = list(language.bind(cql, catalog))
    if query is not None:
        bound = [pick_query(bound, query)]
    groups = groups_of(bound, chosen)
    explained = [explain_any(group, {} if described else tables, chosen) for group in groups]
    if len(bound) == 1:
        return Explanation(lay_out(explained[0]).rstrip(), explained[0])
    return Explanation(
        several_as_text(groups, explained, chosen), {"groups": overview(groups, chosen), "explained": explained}
    )


def groups_of(queries: Sequence[Query], options: Options) -> list[Group]:
    """Queries that these options have share a join, together. On Spark, each runs by itself."""
    if options.sharing == "none" or options.buckets is not None:
        return [Group.of(query) for query in queries]
    return grouped(queries)


def explain_any(
    group: Group,
    tables: Mapping[str, pa.Table],
    options: Options,
    carried: Sequence[dict[str, Any]] | None = None,
) -> dict[str, Any]:
    """The facts of a group; of one with a single query, those of that query, with what Spark carries for it."""
    whole = group.whole
    statistics = statistics_of(whole, tables)
    policies = Policies.of(options, written=options.plan is not None, lasting=whole.may_hold_forever)
    if policies.budget is not None:
        check_budget(group)
    plan = plan_for(whole, statistics, options.plan, options.states if policies.budget is None else "none")
    basis = [basis_of(whole, tables)]
    if len(group.readers) > 1:
        return explain_group(group, plan, statistics, policies, basis=basis)
    return explain_json(
        whole,
        plan,
        statistics,
        policies,
        partitioning=None if options.buckets is None else choose_partitioning(whole, options.buckets),
        carried=carried,
        basis=basis,
    )


def overview(groups: Sequence[Group], options: Options) -> list[dict[str, Any]]:
    """Which queries share a join; and why a group is apart from the others, unless all share one."""
    return [
        {"queries": [reader.name for reader in group.readers], "apart": _why_apart(group, groups, options)}
        for group in groups
    ]


def _why_apart(group: Group, groups: Sequence[Group], options: Options) -> str | None:
    if len(groups) == 1:
        return None
    if options.buckets is not None:
        return "on Spark each query runs by itself"
    if options.sharing == "none":
        return "sharing is none"
    reason = why_apart(group.whole, [other for other in groups if other is not group])
    return None if reason == NO_OTHER and len(group.readers) > 1 else reason


def several_as_text(groups: Sequence[Group], explained: Sequence[dict[str, Any]], options: Options) -> str:
    """Several queries, for a person."""
    texts = [lay_out_any(facts).rstrip() for facts in explained]
    return "\n\n".join([lay_out_overview(overview(groups, options)), *texts])


def statistics_of(query: Query, tables: Mapping[str, pa.Table]) -> Statistics:
    """What tables say about the streams, if there is one for each of them; else assumptions."""
    if not _has_all(query, tables):
        return Statistics.default(query)
    ordered = arrivals([(ref.stream, tables[ref.stream], ref.time) for ref in query.streams], None)
    return measured_statistics(query, ordered)


def basis_of(query: Query, tables: Mapping[str, pa.Table]) -> str:
    """Where these statistics come from, for a person."""
    if not _has_all(query, tables):
        return ASSUMED
    return (
        f"measured: rates, window sizes, and how often values agree, in the first {SAMPLE_ROWS:,} rows of each source."
    )


def _has_all(query: Query, tables: Mapping[str, pa.Table]) -> bool:
    return all(ref.stream in tables for ref in query.streams)
