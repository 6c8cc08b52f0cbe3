"""A query on its way through finite tables, a batch at a time."""

from __future__ import annotations

import time as clock
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from thalweg.arrow_input import unusable_columns
from thalweg.cql.query import Query, StreamRef
from thalweg.driver.bucket_driver import BucketDriver
from thalweg.driver.planning import interval_option, plan_for
from thalweg.engine.batch import Batch
from thalweg.engine.compilation import ready_kernels
from thalweg.engine.payload import TablePayload
from thalweg.engine.time_bounds import FOREVER
from thalweg.errors import PlanError
from thalweg.event_times import warn_of_zones
from thalweg.options import Options
from thalweg.plan.difference import format_any
from thalweg.plan.statistics import Statistics
from thalweg.plan.tree import Node, format_node
from thalweg.policies import Policies
from thalweg.replayer.arrivals import Arrivals, arrivals, measured_statistics, slices
from thalweg.replayer.summary import PlanUse, ReplayResult, StateSize, Summary

Transitions = Sequence[tuple[int, str]]
"""(position, plan text): the plan from the tuple at this position of the total order on."""


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
        work, controller = self.driver.bucket.work, self.driver.controller
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
                savings=self.driver.savings,
            ),
            self._late_rows(),
        )

    def _steps(self) -> Iterator[int]:
        driver, switches = self.driver, list(self.switches)
        bucket = driver.bucket
        done = 0
        bucket.offer([_batch(a, 0, len(a)) if ref.is_static else None for ref, a in self._pairs()])
        self.answer += driver.advance()
        for cuts, watermark in slices(list(self.moving.values()), self.options.batch_size):
            coming = {alias: _batch(a, *cut) for (alias, a), cut in zip(self.moving.items(), cuts, strict=True)}
            bucket.offer([coming.get(alias) for alias in self.query.aliases])
            end = done + sum(b - a for a, b in cuts)
            while switches and switches[0][0] < end:
                position, text = switches.pop(0)
                self.answer += driver.advance(position - done)
                done = position
                self._switch(position, text)
            self.answer += driver.advance()
            done = end
            if watermark == FOREVER:
                break
            self.answer += bucket.settle(watermark)
            changes = driver.history.changes
            driver.consider(done)
            if driver.history.changes > changes:
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
