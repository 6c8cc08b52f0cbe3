"""``replay``: a query over finite tables, in process, exactly as it would run over streams."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict, Unpack

import pyarrow as pa

from thalweg import cql as language
from thalweg.arrow_input import as_tables, unusable_columns
from thalweg.cql.group import Group, grouped
from thalweg.cql.parser import parse
from thalweg.cql.query import Query
from thalweg.errors import OptionError, QueryError, warn
from thalweg.event_times import DEFAULT_TIME, Times, TimeUnits, time_columns, time_units, with_unit
from thalweg.options import Options
from thalweg.replayer.replaying import Replay
from thalweg.replayer.schedule import Budgets, Entries, Entry, Transitions
from thalweg.replayer.summary import ReplayResult, Summary

_AN_ENTRY = "For example entries=[(1000, 'q1', 'enter')]."

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
    entries: Entries | None = None,
    budgets: Budgets | None = None,
    query: str | None = None,
) -> pa.Table | dict[str, pa.Table]:
    """Answer a query over finite tables; or several, each with a name, at once.

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
        entries: (position, name, "enter" or "leave"): queries that come and go while others run, those of one position
            all together. A query that enters sees what windows hold for the others, and all of static relations, and
            has the results that come from then on. One that leaves has emitted what belongs to times before the next
            tuple's. Behind the last tuple nobody comes or goes.
        budgets: (position, budget) pairs: what ``Options(budget=...)`` is from there on; None: nothing is refused.
        query: the name of the one query to answer, if the text has several.

    Returns:
        The results in time order; of several queries, those of each by its name. Queries over one join share it. A
        :class:`thalweg.InputWarning` tells of rows that were left out: without an event time, or late.
        (:func:`thalweg.replayer.run` returns the numbers.)

    >>> trades = {"ts": [1_000_000, 4_000_000], "sym": ["x", "y"], "px": [10, 20]}
    >>> quotes = {"ts": [2_000_000, 9_000_000], "sym": ["x", "y"], "bid": [9, 19]}
    >>> text = "SELECT t.sym, px, bid FROM trades t [RANGE 5 SECONDS], quotes q [RANGE 5 SECONDS] WHERE t.sym = q.sym"
    >>> replay(text, {"trades": trades, "quotes": quotes}).to_pylist()
    [{'sym': 'x', 'px': 10, 'bid': 9}]
    >>> names = {"sym": ["x", "y"], "name": ["Xenon", "Yttrium"]}
    >>> text = "SELECT name, px FROM trades t, names n WHERE t.sym = n.sym"
    >>> replay(text, {"trades": trades, "names": names}, time={"trades": "ts", "names": None}).to_pylist()
    [{'name': 'Xenon', 'px': 10}, {'name': 'Yttrium', 'px': 20}]
    >>> join = "SELECT px, bid FROM trades t, quotes q WHERE t.sym = q.sym WINDOW RANGE"
    >>> both = f"CREATE QUERY short AS {join} 2 SECONDS; CREATE QUERY long AS {join} 1 MINUTE"
    >>> {name: table.num_rows for name, table in replay(both, {"trades": trades, "quotes": quotes}).items()}
    {'short': 1, 'long': 2}

    """
    results = run_all(
        cql,
        streams,
        time=time,
        time_unit=time_unit,
        options=options,
        transitions=transitions,
        entries=entries,
        budgets=budgets,
        query=query,
    )
    told: set[tuple[str, str]] = set()
    for result in results.values():
        _warn_of_rejected(result.summary, told)
    tables = {name: result.table for name, result in results.items()}
    return tables if len(tables) > 1 else next(iter(tables.values()))


class How(TypedDict, total=False):
    """What a replay may be told beside a text and streams; :func:`replay` says what each means."""

    time: Times
    time_unit: TimeUnits | None
    options: Options | Mapping[str, Any] | None
    transitions: Transitions | None
    budgets: Budgets | None
    query: str | None


def run(cql: str, streams: Mapping[str, Any], *, progress: Progress | None = None, **how: Unpack[How]) -> ReplayResult:
    """Like :func:`replay` of one query, with a summary; ``query`` picks one of several named queries of the text."""
    replay = open_replay(cql, streams, **how)
    for done in replay.steps():
        if progress is not None:
            progress(done, replay.total)
    return replay.result()


def run_all(
    cql: str,
    streams: Mapping[str, Any],
    *,
    entries: Entries | None = None,
    progress: Progress | None = None,
    **how: Unpack[How],
) -> dict[str, ReplayResult]:
    """The same for all queries of a text, by their names; those over one join are answered together."""
    replays = open_replays(cql, streams, entries=entries, **how)
    total, before = sum(replay.total for replay in replays), 0
    results: dict[str, ReplayResult] = {}
    for replay in replays:
        for done in replay.steps():
            if progress is not None:
                progress(before + done, total)
        before += replay.total
        results |= {reader.name: replay.result(reader.name) for reader in replay.group.readers}
    return {name: results[name] for name in sorted(results, key=_place_in(cql))}


def open_replay(
    cql: str,
    streams: Mapping[str, Any],
    *,
    time: Times = DEFAULT_TIME,
    time_unit: TimeUnits | None = None,
    options: Options | Mapping[str, Any] | None = None,
    transitions: Transitions | None = None,
    budgets: Budgets | None = None,
    query: str | None = None,
) -> Replay:
    """What :func:`run` goes through, to be gone through a step at a time."""
    chosen = Options.of(options)
    tables, catalog = open_tables(streams, time, time_unit)
    group = Group.of(pick_query(language.bind(cql, catalog), query))
    return Replay(group, tables, chosen, transitions or (), budgets=budgets or ())


def open_replays(
    cql: str,
    streams: Mapping[str, Any],
    *,
    time: Times = DEFAULT_TIME,
    time_unit: TimeUnits | None = None,
    options: Options | Mapping[str, Any] | None = None,
    transitions: Transitions | None = None,
    entries: Entries | None = None,
    budgets: Budgets | None = None,
    query: str | None = None,
) -> list[Replay]:
    """What :func:`run_all` goes through: one replay for each group of queries over the same join."""
    chosen = Options.of(options)
    tables, catalog = open_tables(streams, time, time_unit)
    queries = list(language.bind(cql, catalog))
    if query is not None or not queries:
        queries = [pick_query(queries, query)]
    _check_weights(chosen, queries)
    groups = [Group.of(each) for each in queries] if chosen.sharing == "none" else grouped(queries)
    if transitions:
        _check_is_one(groups, "a plan is that of one join")
    mine = _entries_of(groups, entries)
    if budgets:
        _check_is_one(groups, "a position counts the tuples of one")
    return [
        Replay(group, tables, chosen, transitions or (), own, budgets or ())
        for group, own in zip(groups, mine, strict=True)
    ]


def _check_is_one(groups: Sequence[Group], why: str) -> None:
    """An error if there are several joins, where one was meant."""
    if len(groups) > 1:
        names = ", ".join(group.whole.name for group in groups)
        what = f"the queries of the text have {len(groups)} joins ({names}), and {why}"
        raise QueryError(what, None, "Pick one with query=...")


def _entries_of(groups: Sequence[Group], entries: Entries | None) -> list[list[Entry]]:
    """The entries that speak of the queries of each group."""
    if not isinstance(entries, Sequence | None) or isinstance(entries, str):
        raise QueryError(f"entries are a list of them, not {entries!r}", None, _AN_ENTRY)
    mine: list[list[Entry]] = [[] for _ in groups]
    for entry in entries or ():
        mine[_owner(groups, entry)].append(entry)
    return mine


def _check_weights(options: Options, queries: Sequence[Query]) -> None:
    """An error if a weight is given to a query that there is not."""
    names = {query.name.lower() for query in queries}
    for name in options.weight if isinstance(options.weight, Mapping) else ():
        if name.lower() not in names:
            known = ", ".join(query.name for query in queries)
            raise OptionError(f"option weight names the query '{name}', and the text has none. It has {known}.")


def _place_in(cql: str) -> Callable[[str], int]:
    """Where the query of a name stands in a text."""
    places = {statement.name: place for place, statement in enumerate(parse(cql))}
    return lambda name: places[name]


def _owner(groups: Sequence[Group], entry: Entry) -> int:
    """The group with the query that an entry speaks of."""
    if not isinstance(entry, Sequence) or isinstance(entry, str) or len(entry) != 3:
        raise QueryError(
            f"an entry is a position, the name of a query and what it does, not {entry!r}",
            None,
            _AN_ENTRY,
        )
    names = [[reader.name.lower() for reader in group.readers] for group in groups]
    for place, known in enumerate(names):
        if isinstance(entry[1], str) and entry[1].lower() in known:
            return place
    known_names = ", ".join(reader.name for group in groups for reader in group.readers)
    raise QueryError(f"entries name the query {entry[1]!r}, and the text has none", None, f"It has {known_names}.")


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


def _warn_of_rejected(summary: Summary, told: set[tuple[str, str]]) -> None:
    """Tell of rows that were left out, of each stream once."""
    for rejected, why in ((summary.bad, "had no event time"), (summary.late, "came too late")):
        for alias, rows in rejected.items():
            if rows and (alias, why) not in told:
                told.add((alias, why))
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
