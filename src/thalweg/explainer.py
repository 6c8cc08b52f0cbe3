"""``explain``: what a query over tables means and how it would run, in process, without running it."""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from thalweg import cql as language
from thalweg.cql.group import Group
from thalweg.cql.query import Query
from thalweg.driver.planning import check_budget, plan_for
from thalweg.engine.sampling import SAMPLE_ROWS
from thalweg.event_times import DEFAULT_TIME, Times, TimeUnits
from thalweg.options import Budget, Options
from thalweg.plan.explain import explain_json
from thalweg.plan.explain_text import lay_out
from thalweg.plan.partitioning import choose_partitioning
from thalweg.plan.statistics import ASSUMED, Statistics
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
    """Explain a query without running it.

    Args:
        cql: the query text.
        streams: what :func:`thalweg.replay` takes. A ``pyarrow.Schema`` in the place of a table describes a stream
            without rows: the planner then goes by assumptions instead of what the rows say.
        time: as of :func:`thalweg.replay`.
        time_unit: as of :func:`thalweg.replay`.
        options: those of the run; with ``buckets`` it is also said how Spark would spread the tuples.
        query: the name of the query, if the text has several.

    >>> trades = {"ts": [1_000_000], "sym": ["x"], "px": [10]}
    >>> explained = explain("SELECT sym, px FROM trades [RANGE 5 SECONDS] WHERE px > 5", {"trades": trades})
    >>> explained.facts["plan"]["text"]
    'trades'

    """
    chosen = Options.of(options)
    described = isinstance(streams, Mapping) and any(isinstance(given, pa.Schema) for given in streams.values())
    tables, catalog = open_tables(streams, time, time_unit)
    bound = pick_query(language.bind(cql, catalog), query)
    statistics = Statistics.default(bound) if described else statistics_of(bound, tables)
    budget = None if chosen.budget is None else Budget.of(chosen.budget)
    if budget is not None:
        check_budget(Group.of(bound))
    facts = explain_json(
        bound,
        plan_for(bound, statistics, chosen.plan, chosen.states if budget is None else "none"),
        statistics,
        partitioning=None if chosen.buckets is None else choose_partitioning(bound, chosen.buckets),
        feedback=chosen.feedback,
        budget=budget,
        allocation=chosen.allocation,
        basis=[ASSUMED if described else basis_of(bound, tables)],
    )
    return Explanation(lay_out(facts).rstrip(), facts)


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
