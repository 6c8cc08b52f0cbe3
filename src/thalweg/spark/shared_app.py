"""An app's queries that share runs: registered and let go, started, read.

Design
    Queries over one join share a run: one query of Spark, whose stateful operator runs their join once and tells each
    result whose it is. Its sink is an outbox, a durable stream of plain parquet for each query. So a sink that is
    broken is the matter of whoever reads that stream, and stops nobody else.

    Before :meth:`SharedQueries.start`, registering only collects. After it, a query goes to the run whose join it
    shares, by a command, and enters at the boundary of a batch. One that can share none gets a run beside the others.

    What a run begins with, and which commands come after that, is looked up while nobody else can register. So a query
    that a shell registers at that moment is among the first, or comes as a command.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from thalweg.errors import OptionError, QueryError, warn
from thalweg.options import Options
from thalweg.spark.answer import Answer
from thalweg.spark.command_files import CommandFiles
from thalweg.spark.data_sources import active
from thalweg.spark.metrics import metrics_of
from thalweg.spark.outbox.reading import read_stream, read_table
from thalweg.spark.outbox.sink import write_stream
from thalweg.spark.overview import overview
from thalweg.spark.queries_file import Running
from thalweg.spark.query_builder import QueryBuilder
from thalweg.spark.receivers import Receiver, leave_word
from thalweg.spark.registry import Registry, check_name, known_names, names_of
from thalweg.spark.run import Run, divided, joined, partitioning_for
from thalweg.spark.shared_run import Registered
from thalweg.spark.started import Started

_BEGINNING = ("Initializing StreamExecution", "Initializing sources")
"""What Spark says of a query whose sources are not open yet."""
_LOOK_SECONDS = 0.05

_NOT_ON_SPARK = {
    "none": "app.start has queries over one join share a run. For a plan of its own, give each query an App and a "
    "directory of its own",
    "push_down": "push_down is for comparison, and in process alone: a bucket has one join. Use thalweg.replay",
}
"""Ways to share a join that runs do not have, and what to do."""

_started: dict[Path, Started] = {}
"""By directory, what was started last in this process: if it has ended by itself, its right is taken back."""


class SharedQueries:
    """The registered queries of one app."""

    def __init__(self, builder: QueryBuilder) -> None:
        self._builder = builder
        self._collected: list[Registered] = []
        self._registry: Registry | None = None
        self._started: Started | None = None
        self._options = Options()
        self._trigger: Mapping[str, Any] = {}

    # -- Queries ------------------------------------------------------------------------

    def register(self, name: str, text: str) -> None:
        """Take in one more query."""
        check_name(name)
        if not isinstance(text, str):
            raise OptionError(f"query '{name}' is given as its text, not as {type(text).__name__}")
        is_alone = self._builder.needs_spark(text, name)  # what is wrong with it is said now
        registry = self._registry
        if registry is None:
            if any(each.name == name for each in self._collected):
                what = f"there is a query '{name}' already"
                raise QueryError(what, None, "Deregister it first, or choose another name.")
            self._collected.append(Registered(name, text))
        elif is_alone:
            registry.check_new(name)
            self._begin_alone(Registered(name, text), registry, self._running())
        elif registry.register(name, text, self._builder.catalog) is None:
            self._begin(text, (Registered(name, text),), registry, self._running())

    def deregister(self, name: str) -> None:
        """Let a query go."""
        if self._registry is not None:
            run = self._registry.deregister(name)
            if self._registry.has_ended(run) and (query := self._running().runs.pop(run, None)) is not None:
                query.stop()
            return
        left = [each for each in self._collected if each.name != name]
        if len(left) == len(self._collected):
            hint = known_names([each.name for each in self._collected])
            raise QueryError(f"there is no query '{name}'", None, hint)
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
            raise OptionError(
                f"this app was started in {self._registry.directory} before. Stop what app.start returned, and start "
                "another App."
            )
        if options.sharing in _NOT_ON_SPARK:
            raise OptionError(f"option sharing: {_NOT_ON_SPARK[options.sharing]}; or leave sharing out.")
        registry = Registry(directory)
        self._check(registry, sinks or {})
        right = Running(registry.directory)
        _take(right, registry.directory)
        self._options, self._trigger = options, dict(trigger or {})
        started = Started(right)
        try:
            self._start_all(registry, started, sinks or {})
        except BaseException:
            started.stop()
            raise
        self._registry, self._started = registry, started
        _started[registry.directory] = started
        return started

    def _check(self, registry: Registry, sinks: Mapping[str, str | Path]) -> None:
        """Refuse what cannot be started, before anything is."""
        known = {
            each.name: each.text
            for run in registry.runs
            for each in run.registered
            if registry.failure(run, each) is None
        }
        if not (self._collected or names_of(registry.runs)):
            raise QueryError("no query is registered", None, "Call app.register(name, text) before app.start.")
        for each in self._collected:
            if known.get(each.name, each.text) != each.text:
                raise QueryError(
                    f"query '{each.name}' is registered in {registry.directory} with another text",
                    None,
                    f"Deregister it first (thalweg deregister {registry.directory} {each.name}), or choose another "
                    "name.",
                )
        names = dict.fromkeys((*names_of(registry.runs), *(each.name for each in self._collected)))
        for name, path in sinks.items():
            if name not in names:
                raise QueryError(f"the sink {path} is for the query '{name}'", None, known_names([*names]))
            _check_sink(name, path)

    def _start_all(self, registry: Registry, started: Started, sinks: Mapping[str, str | Path]) -> None:
        for name in [run.name for run in registry.runs if run.registered]:
            with registry.changing():
                run = next(each for each in registry.runs if each.name == name)
                make = self._builder.alone if run.is_alone else self._builder.shared
                answer = make(run, self._options, registry.commands)
            self._launch(run, answer, registry, started)
        catalog = self._builder.catalog
        known = {each.name: each.text for run in registry.runs for each in run.registered}
        # One that has failed is replaced if its text is another now.
        new = [each for each in self._collected if known.get(each.name) != each.text]
        alone = [each for each in new if self._builder.needs_spark(each.text, each.name)]
        for each in alone:
            registry.check_new(each.name)
            self._begin_alone(each, registry, started)
        new = [each for each in new if each not in alone]
        rest = [each for each in new if registry.register(each.name, each.text, catalog) is None]
        for founder, registered in divided(rest, self._builder.most_buckets(self._options), catalog):
            self._begin(founder, registered, registry, started)
        for name, path in sinks.items():
            started.sinks[name] = self._sink(name, path, registry)

    def _begin(self, founder: str, registered: tuple[Registered, ...], registry: Registry, started: Started) -> None:
        """Start a run that has not been there before."""
        catalog, buckets = self._builder.catalog, self._builder.most_buckets(self._options)
        group = joined(founder, registered, catalog, partitioning_for(founder, buckets, catalog))
        division = self._builder.divide_shared(group)
        carried = {
            ref.stream: tuple(each.columns.names)
            for ref, each in zip(group.join.streams, division.carried, strict=True)
        }
        used = {stream: catalog[stream] for stream in dict.fromkeys(ref.stream for ref in group.join.streams)}
        with registry.changing():
            run = Run(registry.free_name(), founder, buckets, registered, used, carried)
            answer = self._builder.shared(run, self._options, registry.commands)
            registry.add_run(run, {reader.name: reader.schema for reader in group.readers})
        self._launch(run, answer, registry, started)

    def _begin_alone(self, registered: Registered, registry: Registry, started: Started) -> None:
        """Start a run for a query that Spark has to compute."""
        [query] = self._builder.bind(registered.text)
        used = {ref.stream: self._builder.catalog[ref.stream] for ref in query.streams}
        buckets, schema = (
            self._builder.most_buckets(self._options),
            self._builder.schema(registered.text, self._options),
        )
        with registry.changing():
            run = Run(registry.free_name(), registered.text, buckets, (registered,), used, {}, is_alone=True)
            answer = self._builder.alone(run, self._options, registry.commands)
            registry.add_run(run, {registered.name: schema})
        self._launch(run, answer, registry, started)

    def _launch(self, run: Run, answer: Answer, registry: Registry, started: Started) -> None:
        """Have Spark run it; returns when its sources are open.

        Spark starts a process for the commands of every run, and gives up if that takes 10 seconds. Many at once would
        take that long.
        """
        [founder] = self._builder.bind(run.founder)
        aliases = tuple(founder.aliases)
        leave_word(registry.commands, [Receiver(run.name, founder.kind, aliases, self._options.states)])
        writer = write_stream(answer, registry.results(run.name), run.name, registry.commands)
        writer = writer.option("checkpointLocation", registry.checkpoint(run.name)).queryName(run.name)
        if self._trigger:
            writer = writer.trigger(**self._trigger)
        with active(self._builder.spark):
            started.runs[run.name] = query = writer.start()
        while query.isActive and query.status["message"] in _BEGINNING:
            time.sleep(_LOOK_SECONDS)

    def _sink(self, name: str, path: str | Path, registry: Registry) -> StreamingQuery:
        """Deliver the results of a query to a directory of the user's."""
        rows = read_stream(self._builder.spark, registry.published(name), name)
        writer = rows.writeStream.format("parquet").option("checkpointLocation", registry.sink_checkpoint(name))
        return writer.queryName(f"sink_{name}").start(str(path))

    # -- What they say ------------------------------------------------------------------

    def read(self, name: str) -> DataFrame:
        """The results of a query, as a stream."""
        self._warn(name)
        return read_stream(self._builder.spark, self._require().published(name), name)

    def table(self, name: str) -> DataFrame:
        """The results of a query so far."""
        self._warn(name)
        return read_table(self._builder.spark, self._require().published(name), name)

    def _warn(self, name: str) -> None:
        """Say that no more rows will come, if a query has failed."""
        if (failure := self._require().failure_of(name)) is not None:
            warn(f"query '{name}' {failure} What was published before is there, and no more will come.")

    def describe(self) -> list[dict[str, Any]]:
        """A dictionary for each query: its run, its slices, what was published for it, and what it costs."""
        if self._registry is None:
            waiting = {"run": None, "status": "waiting", "failure": None}
            return [{"query": each.name, **waiting, "text": each.text} for each in self._collected]
        runs = self._running().runs
        told = {name: metrics_of(query.lastProgress) | _took(query.lastProgress) for name, query in runs.items()}
        ended = {name: _error_of(query) for name, query in runs.items() if not query.isActive}
        return overview(self._registry, told, self._options.sharing, ended)

    @property
    def commands(self) -> CommandFiles | None:
        """Where commands to the runs are put; None: none was started."""
        return None if self._registry is None else self._registry.commands

    def _require(self) -> Registry:
        if self._registry is None:
            raise OptionError("this app has not been started. Call app.start(directory) first.")
        return self._registry

    def _running(self) -> Started:
        if self._started is None:
            raise OptionError("this app has not been started. Call app.start(directory) first.")
        return self._started


def _took(progress: StreamingQueryProgress | None) -> dict[str, float]:
    """The seconds of a trigger, if there was any."""
    took = 0 if progress is None else progress.durationMs.get("triggerExecution", 0)
    return {"trigger_seconds": took / 1000} if took else {}


def _error_of(query: StreamingQuery) -> str | None:
    """What ended a query of Spark, in a line; None: it was stopped, or has read all that it was to read."""
    error = query.exception()
    return None if error is None else str(error).split("\n", 1)[0]


def _check_sink(name: str, path: str | Path) -> None:
    """Refuse a directory that cannot be written, if it is on this machine."""
    if "://" in str(path):
        return
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OptionError(
            f"the sink of query '{name}' is {path}, which cannot be written: {error.strerror or error}. Give a "
            "directory."
        ) from error


def _take(right: Running, directory: Path) -> None:
    """Take the right to run the queries of a directory; an error says who has it."""
    before = _started.get(directory)
    if before is not None and not before.is_active:
        before.right.release()
    holder = right.take()
    if holder is not None:
        raise OptionError(
            f"the queries of {directory} run already, in {holder}. Stop them there first. To add a query meanwhile, "
            f'use: thalweg register {directory} NAME "SELECT ..."'
        )
