"""``thalweg.App``: continuous queries over streaming DataFrames."""

from __future__ import annotations

import atexit
import shutil
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructField, StructType

from thalweg import cql as language
from thalweg.cql.query import Query, StreamRef
from thalweg.driver.planning import interval_option, plan_for
from thalweg.engine.expressions import ColumnKey, plain_column
from thalweg.engine.results import TIME
from thalweg.errors import InputError, OptionError, QueryError
from thalweg.event_times import TimeUnit, warn_of_zones
from thalweg.options import Options
from thalweg.plan.explain import explain_text
from thalweg.plan.partitioning import Coordinate, Partitioning, choose_partitioning
from thalweg.plan.statistics import ASSUMED, Statistics
from thalweg.policies import Policies
from thalweg.spark import control, side_output, sql
from thalweg.spark.analysis import spark_typing
from thalweg.spark.answer import Answer, Prepared
from thalweg.spark.buckets import bucket_keys, default_buckets, default_partitions
from thalweg.spark.carriage import Kept
from thalweg.spark.checkpoint import Checkpoint
from thalweg.spark.columns import check_frame, kept_columns, source_of, with_time_unit
from thalweg.spark.command_files import writable_files_of
from thalweg.spark.commands import new_command
from thalweg.spark.description import BUCKETS, Description, description
from thalweg.spark.division import Division, carried_facts, divide, is_guarded
from thalweg.spark.metrics import OBSERVED, is_of_batch, measured_text, metrics_of
from thalweg.spark.operator import EMITTED, SAVED, TOTALS, BucketOperator
from thalweg.spark.packing import (
    BATCH_ROWS,
    MOMENT,
    PACKED,
    PARTITION,
    PASSES,
    Packer,
    T,
    hash_column,
    time_column,
    unpacker,
)
from thalweg.spark.receivers import Receiver, checked, known_receivers, leave_word
from thalweg.spark.relations import Broadcasted, relation_blob
from thalweg.spark.resident import Spec
from thalweg.spark.session import local_session
from thalweg.spark.workers import start_early

_BATCH_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
_ANY_BYTES, _FEW_BYTES = (1 << 31) - 1, 1 << 26
"""Spark holds a batch that it hands to Python below a number of bytes by measuring it again after every row. That takes
longer than all else that it does with a row of numbers. It does not measure where any number will do: where the
rows of a batch are too few to exceed what Arrow can hold, unless they are huge."""
_TASKS = 2
"""Tasks that pack the rows of a stream, per core: each sends something to every bucket, so the fewer the better, and
with two for each core no core is idle for long where they differ in length."""


@dataclass(frozen=True, slots=True)
class _Stream:
    frame: DataFrame
    source: language.Source
    lateness: str | None
    kept: Kept
    session: SparkSession

    @property
    def schema(self) -> pa.Schema:
        """Its columns, those that no query may name included."""
        return self.source.schema


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
            _check_session(spark)
        self.directory = _temporary_directory() if directory is None else directory
        self._commands = writable_files_of(self.directory)
        session = spark or local_session()
        self.spark = _own_session(session)
        control.register(self.spark)
        self._streams: dict[str, _Stream] = {}
        self._receivers: list[Receiver] = []
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
        _check_times(name, df, time, lateness)
        df = with_time_unit(name, df, time, time_unit)
        source = source_of(df, time)
        if time is not None and time in source.unusable:
            raise InputError(f"the event time '{time}' of stream '{name}' {source.unusable[time]}.")
        kept = kept_columns(name, source, keep)
        self._streams[name] = _Stream(_moved(df, self.spark), source, lateness, kept, df.sparkSession)
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
        answer = self._run(query, chosen)
        self._receivers.append(Receiver(query.name, query.kind, tuple(query.aliases), chosen.states))
        leave_word(self._commands, [each for each in self._receivers if each.query == query.name])
        return answer

    def _bind(self, cql: str) -> Query:
        if isinstance(cql, DataFrame):
            what = "a query is given as its text, not as a DataFrame"
            raise QueryError(what, None, "For Spark's plan of a DataFrame call df.explain().")
        typing = spark_typing(self.spark, lambda name: self._streams[name].frame.schema)
        queries = language.bind(cql, {name: known.source for name, known in self._streams.items()}, typing)
        if len(queries) != 1:
            names = ", ".join(query.name for query in queries)
            raise QueryError(f"the text has {len(queries)} queries ({names})", None, "Pass one at a time.")
        return queries[0]

    def explain(self, cql: str, options: Options | Mapping[str, Any] | None = None) -> str:
        """What a query means, the plan that it would begin with, and how its tuples are spread over buckets.

        Rates and sizes are assumed, for no stream is read. If a query of this name runs, what it has measured is said
        too.
        """
        chosen = Options.of(options)
        query = self._bind(cql)
        statistics = Statistics.default(query)
        plan = plan_for(query, statistics, chosen.plan, chosen.states)
        partitioning = choose_partitioning(query, self._most_buckets(chosen))
        carried = carried_facts(self._divide(query))
        basis = [ASSUMED, *self._measured(query.name)]
        return explain_text(
            query, plan, statistics, partitioning=partitioning, feedback=chosen.feedback, carried=carried, basis=basis
        )

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
        answer = self._run(self._bind(query), Options.of(options)) if isinstance(query, str) else query
        if not isinstance(answer, Answer):
            raise OptionError("check() asks about the text of a query, or the DataFrame that app.sql returns for one")
        return answer.changes(Checkpoint(self.spark, str(checkpoint)), name)

    def _measured(self, name: str) -> list[str]:
        """What running queries of a name say about themselves."""
        batches = (self._last_batch(running) for running in self.spark.streams.active)
        return [
            line
            for batch in batches
            if batch is not None and _observation(name) in batch.observedMetrics
            for line in measured_text(metrics_of(batch))
        ]

    def _divide(self, query: Query) -> Division:
        return divide(query, {name: known.kept for name, known in self._streams.items()})

    def late_rows(self, stream: str, query: str = "query1") -> DataFrame:
        """The rows of a stream that a query kept out so far, with the reason; it must run with ``late_rows="table"``.

        ``stream`` is the alias that the query has for it.
        """
        rows = side_output.place(self._shared_directory(), query, stream)
        if not rows.exists():
            raise InputError(
                f"no rows of '{stream}' were kept out of query '{query}' so far (looked in {rows}). "
                'They are collected by a query that runs with the option late_rows="table".'
            )
        return self.spark.read.parquet(str(rows))

    def command(self, command: str, **arguments: Any) -> str:
        """Send a command to the running queries of this app: ``app.command("plan", plan="(A B) C")``.

        ``query="name"`` sends it to the query of that name alone (``CREATE QUERY name AS ...``), and so does
        the id that Spark gives the query (``StreamingQuery.id``).

        A plan that fits none of the queries of the directory, and a name that none of them has, is an error.

        Returns:
            The name of the command's file. If a query refuses the command, its metrics say why (``refused``, and
            later ``latest_refused``), under this name.

        """
        given = new_command(command, **arguments)
        return self._commands.send(checked(given, [*self._receivers, *known_receivers(self._commands)]))

    def metrics(
        self, query: StreamingQuery | None = None, *, progress: StreamingQueryProgress | None = None
    ) -> dict[str, Any]:
        """What a batch did: totals, and the same for each bucket.

        Of the last batch of ``query``, or of the one query of this app that runs; or of the batch that
        ``progress`` tells of. Before the first batch all numbers are zero, and ``batch`` is None.
        """
        return metrics_of(self._last_batch(query) if progress is None else progress)

    def _last_batch(self, query: StreamingQuery | None) -> StreamingQueryProgress | None:
        """What Spark reported of the last batch of a query; None: there was none in this run."""
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

    def _most_buckets(self, options: Options) -> int:
        """Into how many buckets a query that begins is divided at most."""
        return options.buckets or default_buckets(self.spark.sparkContext.defaultParallelism)

    def _shared_directory(self) -> Path:
        """Where workers put rows that were kept out."""
        if "://" in str(self.directory):
            raise OptionError(
                'late_rows="table" writes rows to the directory of the app. That must be a path that all workers can '
                f"write to, and it is the address {self.directory}. Give thalweg.App(directory=...) such a path."
            )
        return Path(self.directory)

    def _only_query(self) -> StreamingQuery:
        running = self.spark.streams.active
        if len(running) != 1:
            raise OptionError(f"{len(running)} queries of this app are running. Say whose metrics you want.")
        return running[0]

    def _run(self, query: Query, options: Options) -> DataFrame:
        plan_for(query, Statistics.default(query), options.plan, options.states)  # what is wrong with it is said now
        warn_of_zones({ref.alias: ref.schema.field(ref.time).type for ref in query.streams if ref.time is not None})
        sessions = [self._streams[ref.stream].session for ref in query.streams if not ref.is_static]
        return Answer(
            query.name, lambda known, is_ending: self._prepared(query, options, known, is_ending=is_ending), sessions
        )

    def _prepared(self, query: Query, options: Options, known: Description | None, *, is_ending: bool) -> Prepared:
        """The query as one stateful operator, to go on from a checkpoint of this description, or to begin.

        ``is_ending``: all that is left to do from there is a batch that ends the input.
        """
        division = self._divide(query)
        most_buckets = int((known or {}).get(BUCKETS) or self._most_buckets(options))
        partitioning = choose_partitioning(query, most_buckets)
        relations = self._relations(division, partitioning)
        described = description(query, partitioning, division.carried, relations, most_buckets)
        keys = bucket_keys(partitioning.buckets)
        sources = sorted(enumerate(query.streams), key=_source_order)
        packed = [
            self._packed(division, stream, ref.time, partitioning, keys, options)
            for stream, ref in sources
            if ref.time is not None
        ]
        packed.append(
            control.commands(
                self.spark,
                self._commands,
                keys,
                query.name,
                described,
                tells_starts=options.idle_timeout is not None,
                is_ending=is_ending,
            )
        )
        spec = Spec(
            identity=uuid.uuid4().hex,
            query=division.inside,
            partitioning=partitioning,
            lateness=tuple(
                None
                if ref.is_static
                else interval_option("lateness", self._streams[ref.stream].lateness or options.lateness or "0 seconds")
                for ref in query.streams
            ),
            relations=Broadcasted.of(self.spark.sparkContext.broadcast(relations)) if relations else None,
            idle_timeout=None
            if options.idle_timeout is None
            else interval_option("idle_timeout", options.idle_timeout),
            plan=options.plan,
            policies=Policies.of(options, written=options.plan is not None, lasting=query.may_hold_forever).shared_by(
                partitioning.buckets
            ),
            late_directory=self._shared_directory() if options.late_rows == "table" else None,
            described=described,
            shown=tuple(self._shown(division, s, options) for s in range(len(query.streams))),
            selections=tuple(ref.selection for ref in query.streams) if division.select else (),
        )
        emitted = (
            reduce(DataFrame.unionAll, packed)
            .groupBy("bucket")
            .transformWithStateInPandas(
                statefulProcessor=BucketOperator(spec), outputStructType=EMITTED, outputMode="append", timeMode="none"
            )
            .observe(_observation(query.name), *_observed(saves=options.feedback is not None and query.kind == "join"))
        )
        return Prepared(self._answer(division, emitted), described)

    def _relations(self, division: Division, partitioning: Partitioning) -> dict[int, bytes]:
        """The static relations of a query, read now, as blobs."""
        collected = {}
        for stream, inside in enumerate(division.inside.streams):
            if inside.is_static:
                known = self._streams[inside.stream]
                selection, names = division.filters[stream], _names(inside, known)
                frame = known.frame if selection is None else known.frame.where(sql.column(selection, names))
                rows = frame.select(*self._columns(division, stream, partitioning)).toArrow()
                collected[stream] = relation_blob(rows, inside.schema, partitioning, stream)
        return collected

    def _packed(
        self,
        division: Division,
        stream: int,
        event_time: str,
        partitioning: Partitioning,
        keys: tuple[int, ...],
        options: Options,
    ) -> DataFrame:
        """The rows of a stream, packed for the buckets."""
        inside = division.inside.streams[stream]
        known = self._streams[inside.stream]
        kind = known.schema.field(event_time).type
        time = time_column(event_time, kind)
        columns = [F.spark_partition_id().alias(PARTITION)]
        if time == T:
            columns.append(_microseconds(sql.quoted(event_time), kind).alias(T))
        if options.idle_timeout is not None:
            columns.append(F.unix_micros(F.current_timestamp()).alias(MOMENT))
        selection = division.filters[stream]
        if selection is not None:
            passes = sql.column(selection, _names(inside, known))
            columns.append(F.coalesce(passes, F.lit(False)).alias(PASSES))
        shown = self._shown(division, stream, options)
        columns += self._columns(division, stream, partitioning, shown)
        packed = {*division.carried[stream].columns.names, *shown}
        schema = pa.schema(
            [
                *([pa.field(T, pa.int64())] if time == T else []),
                *(field for field in known.schema if field.name in packed),
                *(inside.schema.field(name) for name in division.computed[stream]),
            ]
        )
        self._measure_huge(schema)
        packer = Packer(
            stream=stream,
            schema=schema,
            time=time,
            partitioning=partitioning,
            bucket_keys=keys,
            keeps_rejected=options.late_rows == "table",
        )
        # The number of the partition is that below: where the row came from, not where it is packed.
        rows = known.frame.select(*columns).coalesce(_TASKS * self.spark.sparkContext.defaultParallelism)
        return rows.mapInArrow(packer.__call__, PACKED)

    def _shown(self, division: Division, stream: int, options: Options) -> tuple[str, ...]:
        """The columns that travel only because people may look at rows that are kept out."""
        ref = division.query.streams[stream]
        if options.late_rows != "table" or ref.is_static:
            return ()
        source, carried = self._streams[ref.stream].source, division.carried[stream].columns.names
        return tuple(name for name in source.schema.names if name not in carried and name not in source.unusable)

    def _measure_huge(self, schema: pa.Schema) -> None:
        """Have Spark measure the batches that it hands to Python from now on, if rows of this kind may be huge."""
        is_unmeasured = self.spark.conf.get(_BATCH_BYTES) == str(_ANY_BYTES)
        if is_unmeasured and any(map(_may_be_huge, schema.types)):
            self.spark.conf.set(_BATCH_BYTES, str(_FEW_BYTES))

    def _columns(
        self, division: Division, stream: int, partitioning: Partitioning, shown: Sequence[str] = ()
    ) -> list[Column]:
        """What a bucket, and the way to it, need of a row: its hashes, its own columns, and computed ones."""
        inside = division.inside.streams[stream]
        names = _names(inside, self._streams[inside.stream])
        columns = [
            self._hash(division, stream, coordinate, names).alias(hash_column(axis))
            for axis, coordinate in enumerate(partitioning.known(stream))
        ]
        columns += [sql.quoted(name) for name in (*division.carried[stream].columns.names, *shown)]
        for name, expression in division.computed[stream].items():
            computed = sql.column(expression, names).cast(sql.spark_type(inside.schema.field(name).type))
            if is_guarded(name):
                computed = self._of_selected(division, stream, computed, names)
            columns.append(computed.alias(name))
        return columns

    def _of_selected(self, division: Division, stream: int, value: Column, names: dict[Any, str]) -> Column:
        """A value that is computed of selected rows alone: of others it may be an error."""
        selection = division.query.streams[stream].selection
        return value if selection is None else F.when(sql.column(selection, names), value)

    def _hash(self, division: Division, stream: int, coordinate: Coordinate, names: dict[Any, str]) -> Column:
        if coordinate.kind == "row":
            # Rows that differ in nothing that is carried may as well lie together.
            hashable = [f.name for f in division.carried[stream].columns if not pa.types.is_nested(f.type)]
            return F.xxhash64(*(sql.quoted(name) for name in hashable))
        kinds = [_type_of(division.query, stream, expression) for expression in coordinate.expressions]
        hashed = sql.hash_of([sql.column(expression, names) for expression in coordinate.expressions], kinds)
        if all(plain_column(expression) is not None for expression in coordinate.expressions):
            return hashed
        # Rows that are not selected may lie anywhere, but somewhere.
        return F.coalesce(self._of_selected(division, stream, hashed, names), F.lit(0).cast("bigint"))

    def _answer(self, division: Division, emitted: DataFrame) -> DataFrame:
        """Results out of their blobs, through what Spark SQL computes of them."""
        inside = division.inside
        if not division.select:
            schema = StructType([StructField(p.name, sql.spark_type(p.type)) for p in inside.select])
            return emitted.select("body").mapInArrow(unpacker("body"), schema)
        fields = []
        for projection in inside.select:
            alias, name = division.gathered[projection.name]
            if not alias:
                is_time = (alias, name) == TIME
                fields.append(StructField(projection.name, sql.spark_type(projection.type), nullable=not is_time))
            else:
                source = self._streams[next(r.stream for r in inside.streams if r.alias == alias)].frame
                field = source.schema[name]
                fields.append(StructField(projection.name, field.dataType, field.nullable, field.metadata))
        rows = emitted.select("body").mapInArrow(unpacker("body"), StructType(fields))
        rows = rows.select(*_by_stream(division.gathered))
        for predicate in division.where:
            rows = rows.where(sql.column(predicate))
        return rows.select(*(sql.column(p.expression).alias(p.name) for p in division.select))


def _by_stream(gathered: Mapping[str, ColumnKey]) -> list[Column]:
    """The columns of each stream as a struct of its alias, in which they have their own names; others as they are."""
    streams: dict[str, list[Column]] = {}
    others = []
    for name, (alias, column) in gathered.items():
        if alias:
            streams.setdefault(alias, []).append(sql.quoted(name).alias(column))
        else:
            others.append(sql.quoted(name).alias(column))
    return [*(F.struct(*columns).alias(alias) for alias, columns in streams.items()), *others]


def _check_times(name: str, df: DataFrame, time: str | None, lateness: str | None) -> None:
    """A stream has an event time, a static relation has none."""
    if not df.isStreaming and (time is not None or lateness is not None):
        what = f"time='{time}'" if time is not None else f"lateness='{lateness}'"
        raise InputError(
            f"'{name}' is a batch DataFrame, so a static relation, and its rows have no event time. "
            f"Leave out {what}, or read it as a stream with spark.readStream."
        )
    columns = f"Its columns are {', '.join(df.columns)}."
    if df.isStreaming and time is None:
        raise InputError(f"stream '{name}' has no event time. Say in which column it is with time=... {columns}")
    if time is not None and time not in df.columns:
        raise InputError(f"stream '{name}' has no column '{time}' to take its event time from. {columns}")
    if lateness is not None:
        interval_option("lateness", lateness)


def _source_order(numbered: tuple[int, StreamRef]) -> tuple[str, int]:
    """How sources are ordered in Spark's plan: not as in FROM, for a checkpoint knows them by their number alone.

    So a query whose streams have changed places in FROM goes on with the same sources under the same numbers.
    """
    position, ref = numbered
    return ref.stream, position


def _names(inside: StreamRef, known: _Stream) -> dict[ColumnKey, str]:
    """How the columns of a stream are called in Spark, by how a bound query calls them."""
    return {(inside.alias, name): name for name in known.schema.names}


def _type_of(query: Query, stream: int, expression: Any) -> pa.DataType:
    for attribute in query.classes:
        if attribute.members.get(stream) == expression:
            return attribute.type
    return pa.null()


def _microseconds(time: Column, kind: pa.DataType) -> Column:
    if pa.types.is_integer(kind):
        return time.cast("bigint")
    return F.unix_micros(time.cast("timestamp"))


def _observation(query: str) -> str:
    """Under which name Spark reports the metrics of a query."""
    return f"thalweg_{query}"


def _observed(*, saves: bool) -> list[Column]:
    """The totals of a batch, and the metrics of every bucket; ``saves``: also what feedback saved."""
    totals = (F.sum(name).alias(name) for name in (*TOTALS, *(SAVED if saves else ())))
    return [*totals, F.collect_list("metrics").alias(OBSERVED)]


def _temporary_directory() -> str:
    made = tempfile.mkdtemp(prefix="thalweg-app-")
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def _check_session(given: object) -> None:
    """Refuse what is no session that queries can be put together in."""
    kind = f"{type(given).__module__}.{type(given).__qualname__}"
    if ".connect." in kind:
        raise OptionError(
            "thalweg.App runs in the driver of a classic Spark session, and was given a session of Spark Connect "
            f"({kind}). A client of Spark Connect does not reach the driver's JVM, in which thalweg puts queries "
            "together. Run the job in the driver: with spark-submit, or with "
            'SparkSession.builder.config("spark.api.mode", "classic").'
        )
    if not hasattr(given, "_jsparkSession"):
        raise OptionError(
            f"App({given!r}): what an app takes first is a SparkSession. A directory has a name: App(directory=...)."
        )


def _own_session(spark: SparkSession) -> SparkSession:
    """A session of the same Spark with the settings that the operator needs; the caller's stays as it is."""
    clone = SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())
    for name, value in {
        "spark.sql.shuffle.partitions": str(default_partitions(spark.sparkContext.defaultParallelism)),
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        # Every attempt at a batch has state files of its own, and the commit says which of them count.
        "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(BATCH_ROWS),
        # With this, workers that pack and workers that join would be told apart, and each kind started by itself.
        "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
        # Times mean the same as in process. Whether what cannot be computed is an error or NULL, the session says.
        "spark.sql.session.timeZone": "UTC",
    }.items():
        clone.conf.set(name, value)
    if clone.conf.get(_BATCH_BYTES, "1") == "1":  # not set: what the caller set stands
        clone.conf.set(_BATCH_BYTES, str(_ANY_BYTES))
    return clone


def _may_be_huge(kind: pa.DataType) -> bool:
    """Whether values tend to be documents, pictures or long lists, of which a few thousand may not fit a batch."""
    return any(is_such(kind) for is_such in (pa.types.is_nested, pa.types.is_binary, pa.types.is_large_binary))


def _moved(df: DataFrame, session: SparkSession) -> DataFrame:
    """The same DataFrame in another session of the same Spark."""
    jvm: Any = session._jvm
    java = jvm.org.apache.spark.sql.classic.Dataset.ofRows(session._jsparkSession, df._jdf.logicalPlan())
    return DataFrame(java, session)
