"""An app's queries that share runs: registered and let go, started, read.

Design
    Queries over one join share a run: one query of Spark, whose stateful operator runs their join once and tells each
    result whose it is. Its sink is an outbox, a durable stream of plain parquet for each query. So a sink that is
    broken is the matter of whoever reads that stream, and stops nobody else.

    Before :meth:`SharedQueries.start`, registering only collects. After it, a query goes to the run whose join it
    shares, by a command, and enters at the boundary of a batch. One that shares no join gets a run beside the others.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from thalweg.cql.group import grouped
from thalweg.errors import OptionError, QueryError
from thalweg.options import Options
from thalweg.plan.slices import chain_text, cost_shares, share
from thalweg.spark.data_sources import active
from thalweg.spark.metrics import metrics_of
from thalweg.spark.outbox.reading import read_stream, read_table
from thalweg.spark.outbox.sink import write_stream
from thalweg.spark.query_builder import QueryBuilder
from thalweg.spark.receivers import Receiver, leave_word
from thalweg.spark.registry import Registry, Run
from thalweg.spark.shared_run import Registered, bind_one


@dataclass(slots=True)
class Started:
    """What :meth:`thalweg.App.start` returns: the runs, by their names, as queries of Spark.

    Attributes:
        runs: each serves the registered queries over one join.
        sinks: those that write to a directory of the user's, by the names of registered queries.

    """

    runs: dict[str, StreamingQuery] = field(default_factory=dict)
    sinks: dict[str, StreamingQuery] = field(default_factory=dict)

    def processAllAvailable(self) -> None:  # noqa: N802 - as Spark's own
        """Wait until everything that is there now has been taken."""
        for query in (*self.runs.values(), *self.sinks.values()):
            query.processAllAvailable()

    def awaitTermination(self, timeout: float | None = None) -> bool:  # noqa: N802 - as Spark's own
        """Wait until all runs have ended, or so many seconds; whether they have. The error of one that failed."""
        end = None if timeout is None else time.monotonic() + timeout
        for query in (*self.runs.values(), *self.sinks.values()):
            left = None if end is None else max(0.0, end - time.monotonic())
            if query.awaitTermination(left) is False:  # type: ignore[arg-type] # None: for ever
                return False
        return True

    def stop(self) -> None:
        """Stop all runs. They go on from here when they are started again."""
        for query in (*self.runs.values(), *self.sinks.values()):
            query.stop()


class SharedQueries:
    """The registered queries of one app."""

    def __init__(self, builder: QueryBuilder) -> None:
        self._builder = builder
        self._collected: list[Registered] = []
        self._registry: Registry | None = None
        self._started = Started()
        self._options = Options()
        self._trigger: Mapping[str, Any] = {}

    # -- Queries ------------------------------------------------------------------------

    def register(self, name: str, text: str) -> None:
        """Take in one more query."""
        if not isinstance(name, str) or not name.strip():
            raise OptionError(f"a registered query has a name, as text, not {name!r}")
        bind_one(text, name, self._builder.catalog)  # what is wrong with it is said now
        registry = self._registry
        if registry is None:
            if any(each.name == name for each in self._collected):
                what = f"there is a query '{name}' already"
                raise QueryError(what, None, "Deregister it first, or choose another name.")
            self._collected.append(Registered(name, text))
        elif registry.register(name, text) is None:
            self._begin((Registered(name, text),), registry)

    def deregister(self, name: str) -> None:
        """Let a query go."""
        if self._registry is not None:
            self._registry.deregister(name)
            return
        left = [each for each in self._collected if each.name != name]
        if len(left) == len(self._collected):
            names = ", ".join(each.name for each in self._collected) or "none yet"
            raise QueryError(f"there is no query '{name}'", None, f"Those that are registered are: {names}.")
        self._collected = left

    def start(
        self,
        directory: str | Path,
        options: Options,
        sinks: Mapping[str, str | Path] | None,
        trigger: Mapping[str, Any] | None,
    ) -> Started:
        """Start the runs of a directory, and those of queries that are new."""
        if self._registry is not None:
            raise OptionError(f"this app has been started in {self._registry.directory}. Use another app for another.")
        registry = Registry(directory)
        if not (self._collected or registry.exists):
            raise QueryError("no query is registered", None, "Call app.register(name, text) before app.start.")
        self._options, self._trigger = options, dict(trigger or {})
        known = {each.name: each.text for run in registry.runs for each in run.registered}
        for each in self._collected:
            if known.get(each.name, each.text) != each.text:
                raise QueryError(
                    f"query '{each.name}' is registered in {registry.directory} with another text",
                    None,
                    "Deregister that one first, or choose another name.",
                )
        for name in sinks or {}:
            if name not in known and all(each.name != name for each in self._collected):
                raise QueryError(f"there is no query '{name}' for the sink {sinks[name] if sinks else ''}", None, "")
        self._registry = registry
        for run in registry.runs:
            self._start(run, registry)
        new = [each for each in self._collected if each.name not in known]
        left = [each for each in new if registry.exists and registry.register(each.name, each.text) is not None]
        rest = [each for each in new if each not in left]
        by_name = {each.name: each for each in rest}
        for group in grouped(bind_one(each.text, each.name, self._builder.catalog) for each in rest):
            self._begin(tuple(by_name[reader.name] for reader in group.readers), registry)
        for name, path in (sinks or {}).items():
            self._started.sinks[name] = self._sink(name, path)
        return self._started

    def _begin(self, registered: tuple[Registered, ...], registry: Registry) -> None:
        """Start a run that has not been there before."""
        (group,) = grouped(bind_one(each.text, each.name, self._builder.catalog) for each in registered)
        division = self._builder.divide_shared(group)
        carried = {
            ref.stream: tuple(each.columns.names)
            for ref, each in zip(group.join.streams, division.carried, strict=True)
        }
        taken = {run.name for run in registry.runs}
        name = next(f"run{n}" for n in range(1, len(taken) + 2) if f"run{n}" not in taken)
        used = {stream.stream for stream in group.join.streams}
        catalog = {stream: source for stream, source in self._builder.catalog.items() if stream in used}
        run = Run(name, registered, catalog, carried)
        registry.add_run(run, {reader.name: reader.schema for reader in group.readers})
        self._start(run, registry)

    def _start(self, run: Run, registry: Registry) -> None:
        """Start a run, or go on with it."""
        answer = self._builder.shared(run.name, run.registered, self._options, registry.commands)
        aliases = tuple(stream.alias for stream in run.shared.join.streams)
        leave_word(registry.commands, [Receiver(run.name, "join", aliases, self._options.states)])
        writer = write_stream(answer, registry.results(run.name))
        writer = writer.option("checkpointLocation", registry.checkpoint(run.name)).queryName(run.name)
        if self._trigger:
            writer = writer.trigger(**self._trigger)
        with active(self._builder.spark):
            self._started.runs[run.name] = writer.start()

    def _sink(self, name: str, path: str | Path) -> StreamingQuery:
        """Deliver the results of a query to a directory of the user's."""
        registry = self._require()
        checkpoint = str(registry.directory / "sinks" / name)
        writer = self.read(name).writeStream.format("parquet").option("checkpointLocation", checkpoint)
        return writer.queryName(f"sink_{name}").start(str(path))

    # -- What they say ------------------------------------------------------------------

    def read(self, name: str) -> DataFrame:
        """The results of a query, as a stream."""
        registry = self._require()
        return read_stream(self._builder.spark, registry.results(registry.owner(name).name), name)

    def table(self, name: str) -> DataFrame:
        """The results of a query so far."""
        registry = self._require()
        return read_table(self._builder.spark, registry.results(registry.owner(name).name), name)

    def describe(self) -> list[dict[str, Any]]:
        """A dictionary for each query: its run, its slices, what was published for it, and what it costs."""
        if self._registry is None:
            return [{"query": each.name, "run": None, "text": each.text} for each in self._collected]
        return [row for run in self._registry.runs for row in self._described(run, self._registry)]

    def _described(self, run: Run, registry: Registry) -> Iterator[dict[str, Any]]:
        query = self._started.runs.get(run.name)
        told = metrics_of(None if query is None else query.lastProgress)
        group = run.shared.group(run.registered)
        shared, costs = share(group, self._options.sharing, is_keyed=bool(group.join.classes)), cost_shares(group)
        rows_in = sum(told["tuples"].values())
        published = {reader.name: registry.outbox(run.name).totals(reader.name) for reader in group.readers}
        for reader in group.readers:
            yield {
                "query": reader.name,
                "run": run.name,
                "slices": {
                    stream.alias: chain_text(ends)
                    for stream, ends in zip(group.join.streams, shared.slicing.ends, strict=True)
                },
                "rows_in": rows_in,
                "results": told["queries"].get(reader.name, 0),
                "results_so_far": published[reader.name].rows,
                "cost_share": costs[reader.name],
                "directory": str(registry.outbox(run.name).places.reader(reader.name)),
                "text": next(each.text for each in run.registered if each.name == reader.name),
            }

    def _require(self) -> Registry:
        if self._registry is None:
            raise OptionError("this app has not been started. Call app.start(directory) first.")
        return self._registry
