"""The readers of a join on their way through finite tables, a batch at a time."""

from __future__ import annotations

import time as clock
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa

from thalweg.arrow_input import unusable_columns
from thalweg.cql.durations import interval_option
from thalweg.cql.group import Group
from thalweg.cql.query import StreamRef
from thalweg.driver.bucket_driver import BucketDriver
from thalweg.driver.planning import check_budget
from thalweg.engine.compilation import ready_kernels
from thalweg.engine.outputs.readers import Emitted
from thalweg.engine.rows.batch import Batch
from thalweg.engine.rows.payload import TablePayload
from thalweg.engine.time_bounds import FOREVER
from thalweg.errors import QueryError
from thalweg.event_times import warn_of_zones
from thalweg.options import Options
from thalweg.plan.difference import format_any
from thalweg.policies import Policies
from thalweg.replayer.arrivals import Arrivals, arrivals, cut, measured_statistics
from thalweg.replayer.schedule import (
    Budgets,
    Change,
    Entries,
    Schedule,
    Transitions,
    checked_budgets,
    checked_entries,
    checked_transitions,
)
from thalweg.replayer.summary import BudgetUse, PlanUse, ReplayResult, Summary
from thalweg.replayer.tally import Tally

WHOLE = "100%"
"""The budget that a replay begins with if only changes of it were given: it refuses nothing."""


class Replay:
    """A group of queries on its way through its tables: when all of :meth:`steps` are done, there are results.

    A query whose first entry is "enter" is not there from the beginning. While none is, tuples pass by. Entries at one
    position happen together. Those behind the last tuple change nothing: who is there at the end stays to the end.

    Attributes:
        total: how many tuples there are.
        answers: what has been found so far, by the names of queries.
        plans: the plans used so far.

    """

    def __init__(
        self,
        group: Group,
        tables: Mapping[str, pa.Table],
        options: Options,
        transitions: Transitions = (),
        entries: Entries = (),
        budgets: Budgets = (),
    ) -> None:
        self.group = group = group.weighed(options.weight_of)
        self.query = query = group.whole
        self.options = options if options.budget is not None or not budgets else replace(options, budget=WHOLE)
        self.answers: dict[str, list[pa.Table]] = {reader.name: [] for reader in group.readers}
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
        self.schedule = schedule = Schedule(
            checked_transitions(transitions, query, options, self.total),
            checked_entries(entries, group, self.total),
            checked_budgets(budgets, self.total),
        )
        self._present = [reader.name for reader in group.readers if schedule.begins_with(reader.name)]
        written = options.plan is not None or bool(schedule.transitions)
        self.policies = Policies.of(self.options, written=written, lasting=query.may_hold_forever)
        if self.policies.budget is not None:
            check_budget(group)

    def _pairs(self) -> Iterator[tuple[StreamRef, Arrivals]]:
        return zip(self.query.streams, self.arrivals, strict=True)

    @property
    def answer(self) -> list[pa.Table]:
        """What has been found so far for the only query."""
        (answer,) = self.answers.values()
        return answer

    @property
    def _serving(self) -> Group:
        """The group of the queries that are there now."""
        return Group(self.group.join, tuple(r for r in self.group.readers if r.name in self._present))

    def steps(self) -> Iterator[int]:
        """Process a batch at a time; yields how many tuples are done."""
        policies = self.policies
        self._compile_seconds = ready_kernels(
            eddies=policies.is_eddy,
            feedback=policies.feedback is not None or (policies.budget is not None and policies.states != "none"),
            budget=policies.budget is not None,
        )
        started = clock.perf_counter()
        self._payloads = [TablePayload(a.table) for a in self.arrivals]
        self._tally = Tally(self.group)
        self._budget = self.options.budget
        self._driver: BucketDriver | None = None
        self._latest: BucketDriver | None = None
        if self._present:
            self._open(0)
        yield from self._steps()
        self._seconds = clock.perf_counter() - started

    @property
    def driver(self) -> BucketDriver:
        """Who runs the bucket, or ran the last one."""
        if self._latest is None:
            raise QueryError(f"no query of the group of '{self.query.name}' has been there yet", None, "")
        return self._latest

    def _open(self, position: int) -> None:
        """Begin with the queries that are there now."""
        changes = bool(self.schedule.entries)
        self._driver = driver = BucketDriver(self._serving, self.policies, self._payloads, keeps_all=changes)
        self._latest = driver
        driver.begin(measured_statistics(self.query, self.arrivals), self.options.plan)
        if driver.spender is not None:
            driver.set_budget(self._budget)
        self._note_plan(position)
        driver.bucket.offer([_batch(a, 0, len(a)) if ref.is_static else None for ref, a in self._pairs()])
        self._take(driver.advance())

    def _close(self) -> None:
        """The input ends."""
        driver = self.driver
        self._tally.input_ends(driver)
        self._take(driver.bucket.close())
        self._stop()

    def _stop(self) -> None:
        """There is no query any more: remember what was done."""
        driver, self._driver = self.driver, None
        self._tally.add(driver)

    def _take(self, emitted: Iterator[Emitted]) -> None:
        for reader, table in emitted:
            self.answers[reader].append(table)

    def result(self, name: str | None = None) -> ReplayResult:
        """The answer of a query and what happened, after the last step; ``name``: which, if there are several."""
        reader = next(r for r in self.group.readers if name is None or r.name == name)
        answer = pa.concat_tables([reader.schema.empty_table(), *self.answers[reader.name]])
        tally, work = self._tally, self._tally.work
        return ReplayResult(
            answer,
            Summary(
                query=reader.name,
                tuples_in={alias: len(a) for alias, a in self.moving.items()},
                static={ref.alias: len(a) for ref, a in self._pairs() if ref.is_static},
                results=answer.num_rows,
                late={alias: len(a.late) for alias, a in self.moving.items()},
                bad={alias: a.bad for alias, a in self.moving.items()},
                states=tally.states,
                plans=tuple(self.plans),
                decisions=tally.decisions,
                seconds=self._seconds,
                compile_seconds=self._compile_seconds,
                probes=work.probes,
                candidates=work.candidates,
                stored=work.stored,
                completions=work.completions,
                savings=tally.savings,
                group=tuple(each.name for each in self.group.readers),
                present=tuple(self.schedule.presence(reader.name, self.total)),
                chains=tally.chains,
                routings=tally.routings,
                budget=self._budget_use(reader.name),
            ),
            self._late_rows(),
        )

    def _budget_use(self, name: str) -> BudgetUse | None:
        latest = self._latest
        return None if latest is None else self._tally.budget_use(name, latest, self.options.allocation, self.moving)

    def _steps(self) -> Iterator[int]:
        schedule = self.schedule
        events: list[tuple[int, Callable[[], None]]] = [
            *((position, partial(self._change, position, changes)) for position, changes in schedule.changes()),
            *((position, partial(self._switch, position, text)) for position, text in schedule.transitions),
            *((position, partial(self._set_budget, budget)) for position, budget in schedule.budgets),
        ]
        events.sort(key=lambda event: event[0])
        done = 0
        for coming, watermark in cut(list(self.moving.values()), self.options.batch_size):
            cuts: Sequence[tuple[int, int]] = coming
            self._offer(cuts)
            end = done + sum(b - a for a, b in cuts)
            while events and events[0][0] < end:
                position, act = events.pop(0)
                cuts = self._advance(cuts, position - done)
                done = position
                is_idle = self._driver is None
                act()
                if is_idle:
                    self._offer(cuts)
            self._advance(cuts, end - done)
            done = end
            if watermark == FOREVER:
                break
            if self._driver is not None:
                self._take(self._driver.bucket.settle(watermark))
                changes = self._driver.history.changes
                self._driver.consider(done)
                if self._driver.history.changes > changes:
                    self._note_plan(done)
            yield done
        for position, text in schedule.transitions:
            if position == done:  # after the last tuple
                self._switch(position, text)
        if self._driver is not None:
            self._close()
        yield done

    def _offer(self, cuts: Sequence[tuple[int, int]]) -> None:
        """Hand over these rows of each stream, if a query is there."""
        if self._driver is not None:
            coming = {alias: _batch(a, *cut) for (alias, a), cut in zip(self.moving.items(), cuts, strict=True)}
            self._driver.bucket.offer([coming.get(alias) for alias in self.query.aliases])

    def _advance(self, cuts: Sequence[tuple[int, int]], count: int) -> Sequence[tuple[int, int]]:
        """Go on by so many of these rows; those that are left. While no query is there, they pass by."""
        if self._driver is not None:
            self._take(self._driver.advance(count))
        if not self.schedule.entries:
            return cuts
        times = np.concatenate([a.times[start:end] for a, (start, end) in zip(self.moving.values(), cuts, strict=True)])
        streams = np.repeat(np.arange(len(cuts)), [end - start for start, end in cuts])
        gone = np.bincount(streams[np.lexsort((streams, times))[:count]], minlength=len(cuts)).tolist()
        return [(start + passed, end) for (start, end), passed in zip(cuts, gone, strict=True)]

    def _change(self, position: int, changes: Mapping[str, Change]) -> None:
        """Queries enter and leave, all at once: one that enters sees what those that leave could still use.

        A query that leaves has emitted what was to be said of instants before the tuple that comes.
        """
        there = [name for name in self._present if name not in changes]
        coming = [name for name, change in changes.items() if change == "enter"]
        if self._driver is not None:
            self._take(self._driver.bucket.settle(self._time_at(position)))
        self._present = there + coming
        if self._driver is None and self._present:
            self._open(position)
        elif self._driver is not None and self._present:
            self._driver.serve(self._serving, anew=coming)
        elif self._driver is not None:
            self._stop()

    def _time_at(self, position: int) -> int:
        """When the tuple at a position comes."""
        times = np.concatenate([a.times for a in self.moving.values()])
        return int(np.partition(times, position)[position])

    def _switch(self, position: int, text: str) -> None:
        if self._driver is not None:
            self._driver.command(text, taken=position, lasts=False)
            self._note_plan(position)

    def _set_budget(self, value: int | str | None) -> None:
        self._budget = value
        if self._driver is not None:
            self._driver.set_budget(value)

    def _note_plan(self, position: int) -> None:
        if self.driver.plan is not None:
            self.plans.append(PlanUse(position, format_any(self.driver.plan, self.query.aliases)))

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
