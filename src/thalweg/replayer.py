"""``replay``: a query over finite tables, in process, exactly as it would run over streams."""

from __future__ import annotations

import time as clock
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from thalweg import cql as language
from thalweg.adapt.decision import Decision
from thalweg.arrivals import Arrivals, arrivals, measured_statistics, slices
from thalweg.arrow_input import as_tables, unusable_columns
from thalweg.cql.query import Query, StreamRef
from thalweg.driver.bucket_driver import BucketDriver
from thalweg.driver.planning import interval_option, plan_for
from thalweg.engine.batch import Batch
from thalweg.engine.compilation import ready_kernels
from thalweg.engine.payload import TablePayload
from thalweg.engine.savings import Savings
from thalweg.engine.time_bounds import FOREVER
from thalweg.errors import PlanError, QueryError, warn
from thalweg.event_times import DEFAULT_TIME, Times, TimeUnits, time_columns, time_units, warn_of_zones, with_unit
from thalweg.options import Options
from thalweg.plan.difference import format_any
from thalweg.plan.statistics import Statistics
from thalweg.plan.tree import Node, format_node
from thalweg.policies import Policies

Progress = Callable[[int, int], None]
"""Told the tuples processed so far, and how many there are."""
Transitions = Sequence[tuple[int, str]]
"""(position, plan text): the plan from the tuple at this position of the total order on."""


@dataclass(frozen=True, slots=True)
class StateSize:
    """What a base window or a kept state holds; ``live_keys`` is None where every key is live."""

    name: str
    tuples: int
    live_keys: int | None
    bytes: int


@dataclass(frozen=True, slots=True)
class PlanUse:
    """A plan, and the position of the first tuple that ran under it."""

    position: int
    plan: str


@dataclass(frozen=True, slots=True)
class Summary:
    """What happened in a replay; mappings are by alias.

    Attributes:
        query: its name.
        tuples_in: rows of streams that took part.
        static: rows of static relations.
        results: rows emitted.
        late: rows that came too late to take part.
        bad: rows without an event time.
        states: base windows and kept states at the end of the input, before time ran out for their tuples.
        plans: the plans used.
        decisions: what was decided about the plan while it ran, and why; nothing if it was not to adapt.
        seconds: wall time, without compiling.
        compile_seconds: spent on compiling kernels, or on loading them.
        probes, candidates, stored, completions: work of the join.
        savings: what feedback saved; None where joins pass on all that they find.

    """

    query: str
    tuples_in: dict[str, int]
    static: dict[str, int]
    results: int
    late: dict[str, int]
    bad: dict[str, int]
    states: tuple[StateSize, ...]
    plans: tuple[PlanUse, ...]
    decisions: tuple[Decision, ...]
    seconds: float
    compile_seconds: float
    probes: int
    candidates: int
    stored: int
    completions: int
    savings: Savings | None = None


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """The answer, what happened, and (if asked for) the late rows by alias."""

    table: pa.Table
    summary: Summary
    late: dict[str, pa.Table] = field(default_factory=dict)


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


class Replay:
    """A query on its way through its tables: when all of :meth:`steps` are done, there is a :meth:`result`.

    Attributes:
        total: how many tuples there are.
        answer: what has been found so far.
        plans: the plans used so far.

    """

    def __init__(
        self, query: Query, tables: Mapping[str, pa.Table], options: Options, transitions: Transitions
    ) -> None:
        self.query = query
        self.options = options
        self.answer: list[pa.Table] = []
        self.plans: list[PlanUse] = []
        lateness = None if options.lateness is None else interval_option("lateness", options.lateness)
        names = list(dict.fromkeys(ref.stream for ref in query.streams))
        times = {ref.stream: ref.time for ref in query.streams}
        warn_of_zones({name: tables[name].schema.field(time).type for name, time in times.items() if time is not None})
        self._tables = tables
        usable = {name: tables[name].drop_columns(list(unusable_columns(tables[name]))) for name in names}
        ordered = arrivals([(name, usable[name], times[name]) for name in names], lateness)
        self.arrivals: list[Arrivals] = [ordered[names.index(ref.stream)] for ref in query.streams]
        self.moving = {ref.alias: a for ref, a in self._pairs() if not ref.is_static}
        self.total = sum(len(a) for a in self.moving.values())
        self.switches = self._check(transitions)
        written = options.plan is not None or bool(self.switches)
        self.policies = Policies.of(options, written=written, lasting=query.may_hold_forever)

    def _pairs(self) -> Iterator[tuple[StreamRef, Arrivals]]:
        return zip(self.query.streams, self.arrivals, strict=True)

    def _check(self, transitions: Transitions) -> list[tuple[int, str]]:
        checked = []
        for transition in transitions:
            if not isinstance(transition, Sequence) or len(transition) != 2:
                raise PlanError(
                    f"a transition is a pair of a position and a plan, as in (1000, 'b a'), not {transition!r}"
                )
            position, text = transition
            if not isinstance(text, str):
                raise PlanError(f"a transition leads to the text of a plan, not to {text!r}")
            if not isinstance(position, int) or isinstance(position, bool) or position < 0:
                raise PlanError(f"a transition happens at a position counted from 0, not {position!r}")
            if position > self.total:
                raise PlanError(
                    f"the transition to '{text}' at position {position} is past the end: "
                    f"the input has {self.total} tuples"
                )
            plan_for(self.query, Statistics.default(self.query), text, self.options.states)
            checked.append((position, text))
        return sorted(checked, key=lambda pair: pair[0])

    def steps(self) -> Iterator[int]:
        """Process a batch at a time; yields how many tuples are done."""
        policies = self.policies
        self._compile_seconds = ready_kernels(eddies=policies.is_eddy, feedback=policies.feedback is not None)
        started = clock.perf_counter()
        self.driver = BucketDriver(self.query, policies, [TablePayload(a.table) for a in self.arrivals])
        self.driver.begin(measured_statistics(self.query, self.arrivals), self.options.plan)
        self._note_plan(0)
        yield from self._steps()
        self._seconds = clock.perf_counter() - started

    def result(self) -> ReplayResult:
        """The answer and what happened, after the last step."""
        answer = pa.concat_tables([self.query.schema.empty_table(), *self.answer])
        bucket, controller = self.driver.bucket, self.driver.controller
        work = bucket.work
        return ReplayResult(
            answer,
            Summary(
                query=self.query.name,
                tuples_in={alias: len(a) for alias, a in self.moving.items()},
                static={ref.alias: len(a) for ref, a in self._pairs() if ref.is_static},
                results=answer.num_rows,
                late={alias: len(a.late) for alias, a in self.moving.items()},
                bad={alias: a.bad for alias, a in self.moving.items()},
                states=self._states,
                plans=tuple(self.plans),
                decisions=() if controller is None else tuple(controller.decisions),
                seconds=self._seconds,
                compile_seconds=self._compile_seconds,
                probes=work.probes,
                candidates=work.candidates,
                stored=work.stored,
                completions=work.completions,
                savings=bucket.savings,
            ),
            self._late_rows(),
        )

    def _steps(self) -> Iterator[int]:
        driver, switches = self.driver, list(self.switches)
        bucket = driver.bucket
        done = 0
        bucket.offer([_batch(a, 0, len(a)) if ref.is_static else None for ref, a in self._pairs()])
        self.answer += bucket.advance()
        for cuts, watermark in slices(list(self.moving.values()), self.options.batch_size):
            coming = {alias: _batch(a, *cut) for (alias, a), cut in zip(self.moving.items(), cuts, strict=True)}
            bucket.offer([coming.get(alias) for alias in self.query.aliases])
            end = done + sum(b - a for a, b in cuts)
            while switches and switches[0][0] < end:
                position, text = switches.pop(0)
                self.answer += bucket.advance(position - done)
                done = position
                self._switch(position, text)
            self.answer += bucket.advance()
            done = end
            if watermark == FOREVER:
                break
            self.answer += bucket.settle(watermark)
            if any(decision.action == "change" for decision in driver.consider(done)):
                self._note_plan(done)
            yield done
        for position, text in switches:  # after the last tuple
            self._switch(position, text)
        self._states = tuple(
            StateSize(self._name(size.node), size.tuples, size.live_keys, size.bytes) for size in bucket.sizes()
        )
        self.answer += bucket.close()
        yield done

    def _switch(self, position: int, text: str) -> None:
        self.driver.command(text, taken=position, lasts=False)
        self._note_plan(position)

    def _note_plan(self, position: int) -> None:
        if self.driver.plan is not None:
            self.plans.append(PlanUse(position, format_any(self.driver.plan, self.query.aliases)))

    def _name(self, node: Node) -> str:
        if self.query.kind == "difference":
            return " - ".join(self.query.aliases)
        return format_node(node, self.query.aliases)

    def _late_rows(self) -> dict[str, pa.Table]:
        if self.options.late_rows != "table":
            return {}
        return {
            ref.alias: self._tables[ref.stream].take(pa.array(a.late)) for ref, a in self._pairs() if not ref.is_static
        }


def _batch(stream: Arrivals, start: int, end: int) -> Batch | None:
    if start == end:
        return None
    return Batch(stream.slice(start, end), stream.times[start:end], stream.rows[start:end])


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
