"""``thalweg.App``: continuous queries over streaming DataFrames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from thalweg.cql.binder import Typing
from thalweg.cql.query import Query
from thalweg.driver.planning import plan_for
from thalweg.errors import InputError, OptionError, QueryError
from thalweg.event_times import TimeUnit
from thalweg.options import Options
from thalweg.plan.explain import explain_text
from thalweg.plan.partitioning import choose_partitioning
from thalweg.plan.statistics import ASSUMED, Statistics
from thalweg.policies import Policies
from thalweg.spark import control, side_output
from thalweg.spark.answer import Answer
from thalweg.spark.bucket_output import observation
from thalweg.spark.checkpoint import Checkpoint
from thalweg.spark.columns import check_frame, check_times, kept_columns, source_of, with_time_unit
from thalweg.spark.command_files import writable_files_of
from thalweg.spark.commands import new_command
from thalweg.spark.division import carried_facts
from thalweg.spark.metrics import is_of_batch, measured_text, metrics_of
from thalweg.spark.operator_session import check_session, moved, operator_session
from thalweg.spark.query_builder import QueryBuilder
from thalweg.spark.receivers import Receiver, checked, known_receivers, leave_word
from thalweg.spark.session import local_session
from thalweg.spark.shared_app import SharedQueries
from thalweg.spark.started import Started
from thalweg.spark.streams import Stream
from thalweg.spark.temporary import temporary_directory
from thalweg.spark.workers import start_early


class App:
    """Windowed joins over the streams of one Spark session.

    >>> app = App()                                                             # doctest: +SKIP
    >>> app.stream("trades", trades, time="ts", lateness="5 seconds")           # doctest: +SKIP
    >>> app.stream("quotes", quotes, time="ts")                                 # doctest: +SKIP
    >>> df = app.sql("SELECT t.sym, q.bid FROM trades t, quotes q "
    ...              "WHERE t.sym = q.sym WINDOW RANGE 10 SECONDS")             # doctest: +SKIP
    >>> df.writeStream.format("parquet").option("checkpointLocation", c).start(path)  # doctest: +SKIP

    Args:
        spark: the session to run in, a classic one; without one, a Spark on this machine is started.
        directory: where commands to running queries are put: a path, or the address of a file system
            that Arrow can open, such as s3://bucket/folder. Only the driver reads it. Give one, and keep
            it, if queries are to be restarted from their checkpoints.

    """

    def __init__(self, spark: SparkSession | None = None, *, directory: str | Path | None = None) -> None:
        if spark is not None:
            check_session(spark)
        self.directory = temporary_directory("thalweg-app-") if directory is None else directory
        self._commands = writable_files_of(self.directory)
        session = spark or local_session()
        self.spark = operator_session(session)
        control.register(self.spark)
        self._streams: dict[str, Stream] = {}
        self._receivers: list[Receiver] = []
        self._builder = QueryBuilder(self.spark, self._streams, self._commands, self.directory)
        self._shared = SharedQueries(self._builder)
        start_early(self.spark)

    def stream(
        self,
        name: str,
        df: DataFrame,
        *,
        time: str | None = None,
        time_unit: TimeUnit | None = None,
        lateness: str | None = None,
        keep: Sequence[str] | Literal["all"] | None = None,
    ) -> App:
        """Name a streaming DataFrame, its event time column, and how far its rows may be out of order.

        Without a ``lateness`` that of the query's options holds, and without that one, none: "0 seconds". A watermark
        that the DataFrame has (``withWatermark``) says what Spark's own operators before this one drop, not what is
        late here.

        Event times that are integers are microseconds since 1970. With a ``time_unit`` ("s", "ms", "us" or "ns")
        they count that, and queries see them as timestamps.

        Of its columns those travel that a query reads. ``keep`` names others that are to stay with the rows in the
        checkpoint, so that another query can go on from it and read them: a list of columns, or "all".

        A batch DataFrame has none of these: it is a static relation, whose rows came before everything and stay. It
        is read once, by :meth:`sql`.
        """
        check_frame(name, df, self._streams)
        check_times(name, df, time, lateness)
        df = with_time_unit(name, df, time, time_unit)
        source = source_of(df, time)
        if time is not None and time in source.unusable:
            raise InputError(f"the event time '{time}' of stream '{name}' {source.unusable[time]}.")
        kept = kept_columns(name, source, keep)
        self._streams[name] = Stream(moved(df, self.spark), source, lateness, kept, df.sparkSession)
        return self

    def sql(
        self, cql: str, options: Options | Mapping[str, Any] | None = None, *, name: str | None = None
    ) -> DataFrame:
        """The answer of a continuous query, as a streaming DataFrame: from here on it is plain Spark.

        ``name`` is what commands, metrics and late rows know the query by. Without one it is the name that the text
        gives it (``CREATE QUERY name AS ...``), or query1.
        """
        query, chosen = self._bind(cql), Options.of(options)
        query = query if name is None else replace(query, name=name)
        answer = self._builder.answer(query, chosen)
        self._receivers.append(Receiver(query.name, query.kind, tuple(query.aliases), chosen.states))
        leave_word(self._commands, [each for each in self._receivers if each.query == query.name])
        return answer

    @property
    def typing(self) -> Typing:
        """How Spark finds the types of expressions, for :func:`thalweg.cql.bind`."""
        return self._builder.typing

    def _bind(self, cql: str) -> Query:
        if isinstance(cql, DataFrame):
            what = "a query is given as its text, not as a DataFrame"
            raise QueryError(what, None, "For Spark's plan of a DataFrame call df.explain().")
        queries = self._builder.bind(cql)
        if len(queries) != 1:
            names = ", ".join(query.name for query in queries)
            raise QueryError(f"the text has {len(queries)} queries ({names})", None, "Pass one at a time.")
        return queries[0]

    # -- Queries that share runs ----------------------------------------------------------

    def register(self, name: str, cql: str) -> None:
        """Register a continuous query, to be served together with others that join the same.

        Before :meth:`start` it waits for that. Afterwards it enters the run whose join it shares, with the next batch
        but one at the latest: it sees what the windows hold, and has the results that come from then on. Nothing
        changes for the others. A query that shares no join gets a run of its own.

        >>> app.register("spread_1m", "SELECT ... [RANGE 1 MINUTE] ...")        # doctest: +SKIP
        >>> app.register("spread_1h", "SELECT ... [RANGE 1 HOUR] ...")          # doctest: +SKIP
        >>> app.start("/data/jobs/spreads")                                     # doctest: +SKIP
        >>> app.read("spread_1m").writeStream...                                # doctest: +SKIP
        """
        self._shared.register(name, cql)

    def deregister(self, name: str) -> None:
        """Let a registered query go, with the next batch but one at the latest. What was published for it stays."""
        self._shared.deregister(name)

    def start(
        self,
        directory: str | Path,
        *,
        options: Options | Mapping[str, Any] | None = None,
        sinks: Mapping[str, str | Path] | None = None,
        trigger: Mapping[str, Any] | None = None,
    ) -> Started:
        """Run all registered queries, and those that were registered in this directory before.

        Args:
            directory: of the runs: their checkpoints, results, commands. Start from it again to go on.
            options: see :class:`thalweg.Options`; they hold for all.
            sinks: for some of the queries, a directory that their results are also written to, as parquet.
            trigger: as keywords of Spark's own: ``{"processingTime": "5 seconds"}``, ``{"availableNow": True}``.

        """
        return self._shared.start(directory, Options.of(options), sinks, trigger)

    def read(self, name: str) -> DataFrame:
        """The results of a registered query, as a stream of their own: from here on it is plain Spark."""
        return self._shared.read(name)

    def table(self, name: str) -> DataFrame:
        """The results of a registered query so far."""
        return self._shared.table(name)

    def queries(self) -> list[dict[str, Any]]:
        """The registered queries: the run and the slices that serve each, its results, its share of the cost."""
        return self._shared.describe()

    def explain(self, cql: str, options: Options | Mapping[str, Any] | None = None) -> str:
        """What a query means, the plan that it would begin with, and how its tuples are spread over buckets.

        Rates and sizes are assumed, for no stream is read. If a query of this name runs, what it has measured is said
        too.
        """
        chosen = Options.of(options)
        query = self._bind(cql)
        statistics = Statistics.default(query)
        plan = plan_for(query, statistics, chosen.plan, chosen.states)
        partitioning = choose_partitioning(query, self._builder.most_buckets(chosen))
        carried = carried_facts(self._builder.divide(query))
        basis = [ASSUMED, *self._measured(query.name)]
        policies = Policies(chosen.migration, chosen.production)
        return explain_text(query, plan, statistics, policies, partitioning=partitioning, carried=carried, basis=basis)

    def check(
        self,
        query: DataFrame | str,
        checkpoint: str | Path,
        options: Options | Mapping[str, Any] | None = None,
        *,
        name: str | None = None,
    ) -> list[str]:
        """Whether a query can go on from a checkpoint, as ``start`` would ask, without starting it.

        Args:
            query: what :meth:`sql` returned, or the text for it, with its ``options``.
            checkpoint: the directory.
            options: see :meth:`sql`.
            name: what errors call the query; else its name in ``CREATE QUERY name AS ...``.

        Returns:
            What has changed since the query that the checkpoint is of, and what each change means for the results.
            Nothing if nothing has that matters, or the checkpoint is new.

        Raises:
            CheckpointError: it cannot go on; says why, and what to do.

        """
        answer = self._builder.answer(self._bind(query), Options.of(options)) if isinstance(query, str) else query
        if not isinstance(answer, Answer):
            raise OptionError("check() asks about the text of a query, or the DataFrame that app.sql returns for one")
        return answer.changes(Checkpoint(self.spark, str(checkpoint)), name)

    def _measured(self, name: str) -> list[str]:
        """What running queries of a name say about themselves."""
        batches = (self._last_batch(running) for running in self.spark.streams.active)
        return [
            line
            for batch in batches
            if batch is not None and observation(name) in batch.observedMetrics
            for line in measured_text(metrics_of(batch))
        ]

    def late_rows(self, stream: str, query: str = "query1") -> DataFrame:
        """The rows of a stream that a query kept out so far, with the reason; it must run with ``late_rows="table"``.

        ``stream`` is the alias that the query has for it.
        """
        rows = side_output.place(side_output.shared(self.directory), query, stream)
        if not rows.exists():
            raise InputError(
                f"no rows of '{stream}' were kept out of query '{query}' so far (looked in {rows}). "
                'They are collected by a query that runs with the option late_rows="table".'
            )
        return self.spark.read.parquet(str(rows))

    def command(self, command: str, **arguments: Any) -> str:
        """Send a command to the running queries of this app: ``app.command("plan", plan="(A B) C")``.

        ``query="name"`` sends it to the query of that name alone (``CREATE QUERY name AS ...``), and so does
        the id that Spark gives the query (``StreamingQuery.id``). Runs that :meth:`start` has started have names,
        too: ``run1``.

        A plan that fits none of the queries of the directory, and a name that none of them has, is an error.

        Returns:
            The name of the command's file. If a query refuses the command, its metrics say why (``refused``, and
            later ``latest_refused``), under this name.

        """
        places = {self._commands: [*self._receivers, *known_receivers(self._commands)]}
        if (shared := self._shared.commands) is not None:
            places.setdefault(shared, known_receivers(shared))
        given = checked(new_command(command, **arguments), [each for known in places.values() for each in known])
        named = given.get("query")
        meant = [files for files, known in places.items() if named in [each.query for each in known]]
        return [files.send(given) for files in meant or places][-1]

    def metrics(
        self, query: StreamingQuery | None = None, *, progress: StreamingQueryProgress | None = None
    ) -> dict[str, Any]:
        """What a batch did: totals, and the same for each bucket.

        Of the last batch of ``query``, or of the one query of this app that runs; or of the batch that
        ``progress`` tells of. Before the first batch all numbers are zero, and ``batch`` is None.
        """
        return metrics_of(self._last_batch(query) if progress is None else progress)

    def _last_batch(self, query: StreamingQuery | None) -> StreamingQueryProgress | None:
        """What Spark reported of the last batch of a query; None: there was none since the start."""
        chosen = query or self._only_query()
        last = chosen.lastProgress
        if last is None or is_of_batch(last):
            return last
        return next((each for each in reversed(chosen.recentProgress) if is_of_batch(each)), None)

    def plan_history(
        self, query: StreamingQuery | None = None, *, progress: StreamingQueryProgress | None = None
    ) -> list[dict[str, Any]]:
        """Under which plans each bucket has run, since when and why, and how their states became complete.

        A dictionary per bucket: its number ``bucket``, how many ``changes`` there were, the last of the ``periods``
        (:class:`thalweg.adapt.history.Period`), and of the ``decisions`` (:class:`thalweg.adapt.decision.Decision`),
        also those to leave the plan as it is, each with what has come of it. A restart remembers the first plan
        and those by command. The others go with the engine. Arguments are those of :meth:`metrics`.
        """
        return [
            {
                "bucket": bucket["bucket"],
                "changes": bucket["plan_changes"],
                "periods": bucket["history"],
                "decisions": bucket["latest_decisions"],
            }
            for bucket in self.metrics(query, progress=progress)["buckets"]
        ]

    def _only_query(self) -> StreamingQuery:
        running = self.spark.streams.active
        if len(running) != 1:
            raise OptionError(f"{len(running)} queries of this app are running. Say whose metrics you want.")
        return running[0]
