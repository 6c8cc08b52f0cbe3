"""``replay``: a query over finite tables, in process, exactly as it would run over streams."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from thalweg import cql as language
from thalweg.arrow_input import as_tables, unusable_columns
from thalweg.cql.query import Query
from thalweg.errors import QueryError, warn
from thalweg.event_times import DEFAULT_TIME, Times, TimeUnits, time_columns, time_units, with_unit
from thalweg.options import Options
from thalweg.replayer.replaying import Replay, Transitions
from thalweg.replayer.summary import ReplayResult, Summary

Progress = Callable[[int, int], None]
"""Told the tuples processed so far, and how many there are."""


def replay(
    cql: str,
    streams: Mapping[str, Any],
    *,
    time: Times = DEFAULT_TIME,
    time_unit: TimeUnits | None = None,
    options: Options | Mapping[str, Any] | None = None,
    transitions: Transitions | None = None,
    query: str | None = None,
) -> pa.Table:
    """Answer a query over finite tables.

    Args:
        cql: the query text.
        streams: a table per stream: pyarrow, pandas, polars, anything that speaks Arrow, or a mapping of columns.
        time: the event time column; or a mapping from streams to theirs. A stream whose time is None is a static
            relation: its rows came before everything and stay.
        time_unit: what event times that are integers count since 1970: "s", "ms", "us" or "ns"; or a mapping from
            streams to theirs. The query then sees them as timestamps. Without it they are microseconds, and stay
            integers; a warning says so if they look like another unit.
        options: :class:`thalweg.Options`, or a mapping of the same names.
        transitions: (position, plan) pairs: plans to change to while it runs. With these, or a plan in the options, the
            plan does not change by itself, unless ``Options(adaptive=Adaptivity(...))`` says so.
        query: the name of the query to answer, if the text has several.

    Returns:
        The results in time order. A :class:`thalweg.InputWarning` tells of rows that were left out: without an event
        time, or late. (:func:`thalweg.replayer.run` returns the numbers.)

    >>> trades = {"ts": [1_000_000, 4_000_000], "sym": ["x", "y"], "px": [10, 20]}
    >>> quotes = {"ts": [2_000_000, 9_000_000], "sym": ["x", "y"], "bid": [9, 19]}
    >>> text = "SELECT t.sym, px, bid FROM trades t [RANGE 5 SECONDS], quotes q [RANGE 5 SECONDS] WHERE t.sym = q.sym"
    >>> replay(text, {"trades": trades, "quotes": quotes}).to_pylist()
    [{'sym': 'x', 'px': 10, 'bid': 9}]
    >>> names = {"sym": ["x", "y"], "name": ["Xenon", "Yttrium"]}
    >>> text = "SELECT name, px FROM trades t, names n WHERE t.sym = n.sym"
    >>> replay(text, {"trades": trades, "names": names}, time={"trades": "ts", "names": None}).to_pylist()
    [{'name': 'Xenon', 'px': 10}, {'name': 'Yttrium', 'px': 20}]

    """
    result = run(cql, streams, time=time, time_unit=time_unit, options=options, transitions=transitions, query=query)
    _warn_of_rejected(result.summary)
    return result.table


def run(
    cql: str,
    streams: Mapping[str, Any],
    *,
    time: Times = DEFAULT_TIME,
    time_unit: TimeUnits | None = None,
    options: Options | Mapping[str, Any] | None = None,
    transitions: Transitions | None = None,
    query: str | None = None,
    progress: Progress | None = None,
) -> ReplayResult:
    """Like :func:`replay`, with a summary; ``query`` picks one of several named queries of the text."""
    replay = open_replay(
        cql, streams, time=time, time_unit=time_unit, options=options, transitions=transitions, query=query
    )
    for done in replay.steps():
        if progress is not None:
            progress(done, replay.total)
    return replay.result()


def open_replay(
    cql: str,
    streams: Mapping[str, Any],
    *,
    time: Times = DEFAULT_TIME,
    time_unit: TimeUnits | None = None,
    options: Options | Mapping[str, Any] | None = None,
    transitions: Transitions | None = None,
    query: str | None = None,
) -> Replay:
    """What :func:`run` goes through, to be gone through a step at a time."""
    chosen = Options.of(options)
    tables, catalog = open_tables(streams, time, time_unit)
    return Replay(pick_query(language.bind(cql, catalog), query), tables, chosen, transitions or ())


def open_tables(
    streams: Mapping[str, Any], time: Times, time_unit: TimeUnits | None
) -> tuple[dict[str, pa.Table], dict[str, language.Source]]:
    """The tables that a caller passed, and what a query may know of them."""
    tables = as_tables(streams)
    times, units = time_columns(tables, time), time_units(tables, time_unit)
    tables = {
        name: table if (column := times[name]) is None else with_unit(name, table, column, units.get(name))
        for name, table in tables.items()
    }
    return tables, {
        name: language.Source(table.schema, times[name], unusable_columns(table)) for name, table in tables.items()
    }


def _warn_of_rejected(summary: Summary) -> None:
    for rejected, why in ((summary.bad, "had no event time"), (summary.late, "came too late")):
        for alias, rows in rejected.items():
            if rows:
                kept_out = "1 row" if rows == 1 else f"{rows:,} rows"
                warn(f"{kept_out} of stream '{alias}' {why} and took no part")


def pick_query(queries: Sequence[Query], name: str | None) -> Query:
    """The query of this name; without a name, the only one."""
    names = ", ".join(query.name for query in queries)
    if name is None:
        if len(queries) != 1:
            hint = f"Say which one: query='{queries[0].name}'." if queries else ""
            raise QueryError(f"the text has {len(queries)} queries ({names})", None, hint)
        return queries[0]
    if not isinstance(name, str):
        raise QueryError(f"query={name!r} is not the name of a query", None, f"Its queries are {names}.")
    for query in queries:
        if query.name.lower() == name.lower():
            return query
    raise QueryError(f"the text has no query '{name}'", None, f"Its queries are {names}.")
