"""A bound query as one stateful operator of Spark."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from thalweg import cql as language
from thalweg.cql.binder import Typing
from thalweg.cql.durations import interval_option
from thalweg.cql.group import Group
from thalweg.cql.query import Query, StreamRef
from thalweg.driver.planning import check_by_batch, plan_for
from thalweg.errors import OptionError, QueryError
from thalweg.event_times import warn_of_zones
from thalweg.options import Options
from thalweg.plan.partitioning import choose_partitioning
from thalweg.plan.statistics import Statistics
from thalweg.policies import Policies
from thalweg.spark import control, side_output
from thalweg.spark.analysis import spark_typing
from thalweg.spark.answer import Answer, Prepared
from thalweg.spark.bounds import warn_of_unbounded
from thalweg.spark.bucket_input import BucketInput
from thalweg.spark.bucket_output import observation, observed, results
from thalweg.spark.bucket_spec import Spec
from thalweg.spark.buckets import bucket_keys, default_buckets
from thalweg.spark.command_files import CommandFiles
from thalweg.spark.description import BUCKETS, Description, description
from thalweg.spark.division import Division, divide, divide_shared
from thalweg.spark.freshness import check_freshness
from thalweg.spark.operator import EMITTED, BucketOperator
from thalweg.spark.outbox.delivering import DELIVERY, delivered_schema, delivering
from thalweg.spark.outbox.sink import DELIVERED
from thalweg.spark.relations import Broadcasted
from thalweg.spark.run import Run, joined
from thalweg.spark.shared_run import SharedRun, base_query, bind_one
from thalweg.spark.streams import Stream
from thalweg.spark.temporary import temporary_directory
from thalweg.spark.trigger_listener import TriggerListener


class QueryBuilder:
    """Puts the queries of one app together.

    Args:
        spark: the session of the operator.
        streams: those that the app has been told of, by name; more may come.
        commands: where commands to queries lie.
        directory: that of the app.

    """

    def __init__(
        self, spark: SparkSession, streams: Mapping[str, Stream], commands: CommandFiles, directory: str | Path
    ) -> None:
        self.spark = spark
        self._streams = streams
        self._commands = commands
        self._directory = directory
        self._listener: TriggerListener | None = None

    def answer(self, query: Query, options: Options) -> DataFrame:
        """The answer of a query, as a DataFrame that looks at its checkpoint when it is started."""
        plan_for(query, Statistics.default(query), options.plan, options.states)  # what is wrong with it is said now
        warn_of_zones({ref.alias: ref.schema.field(ref.time).type for ref in query.streams if ref.time is not None})
        sessions = [self._streams[ref.stream].session for ref in query.streams if not ref.is_static]
        return Answer(
            query.name, lambda known, is_ending: self._prepared(query, options, known, is_ending=is_ending), sessions
        )

    @property
    def typing(self) -> Typing:
        """How Spark finds the types of expressions: all that its SQL has may be used."""
        return spark_typing(self.spark, lambda name: self._streams[name].frame.schema)

    def bind(self, text: str) -> tuple[Query, ...]:
        """The queries of a text, as Spark understands them."""
        return language.bind(text, self.catalog, self.typing)

    def needs_spark(self, text: str, name: str) -> bool:
        """Whether a query can share a run with nobody, since buckets cannot compute it; an error if Spark cannot, too.

        Set differences share their state with nobody either.
        """
        try:
            return bind_one(text, name, self.catalog).kind != "join"
        except QueryError:
            if len(self.bind(text)) != 1:
                raise
            return True

    def alone(self, run: Run, options: Options, commands: CommandFiles) -> Answer:
        """What the outbox of a run takes that has a single query, whose expressions Spark computes."""
        [registered] = run.registered
        [bound] = self.bind(registered.text)
        query = replace(bound, name=run.name)
        plan_for(query, Statistics.default(query), options.plan, options.states)
        sessions = [self._streams[ref.stream].session for ref in query.streams if not ref.is_static]

        def prepare(known: Description | None, is_ending: bool) -> Prepared:
            division = self.divide(query)
            prepared = self._operator(query, division, options, commands, known, None, is_ending=is_ending)
            schema = delivered_schema(prepared.frame)
            packed = prepared.frame.mapInArrow(delivering(registered.name, schema), DELIVERY)
            return replace(prepared, frame=packed)

        return Answer(run.name, prepare, sessions)

    def schema(self, text: str, options: Options) -> pa.Schema:
        """The columns of the results of a query that has a run of its own."""
        [query] = self.bind(text)
        return delivered_schema(self.answer(query, options))

    @property
    def catalog(self) -> dict[str, language.Source]:
        """The streams as texts may name them."""
        return {known: stream.source for known, stream in self._streams.items()}

    def shared(self, run: Run, options: Options, commands: CommandFiles) -> Answer:
        """What the outbox of a run takes that some queries share; commands to it come from these files."""
        catalog, partitioning = self.catalog, run.partitioning
        group = joined(run.founder, run.registered, catalog, partitioning)
        whole = replace(group.whole, name=run.name)
        plan_for(whole, Statistics.default(whole), options.plan, options.states)
        sessions = [self._streams[ref.stream].session for ref in whole.streams if not ref.is_static]
        division = self.divide_shared(group, run.carried)
        inside = replace(division.inside, name=run.name)
        division = replace(division, inside=inside)
        query = base_query(group.join, run.name)

        def prepare(known: Description | None, is_ending: bool) -> Prepared:
            identity = uuid.uuid4().hex
            shared = SharedRun(
                identity,
                run.name,
                group.join,
                inside.join,
                catalog,
                run.registered,
                partitioning,
                options.weight,
            )
            shared.group(run.registered)  # what is wrong with a query is said now
            return self._operator(query, division, options, commands, known, shared, is_ending=is_ending)

        return Answer(run.name, prepare, sessions)

    def _prepared(self, query: Query, options: Options, known: Description | None, *, is_ending: bool) -> Prepared:
        """The query as one stateful operator, to go on from a checkpoint of this description, or to begin.

        ``is_ending``: all that is left to do from there is a batch that ends the input.
        """
        division = self.divide(query)
        return self._operator(query, division, options, self._commands, known, None, is_ending=is_ending)

    def _operator(
        self,
        query: Query,
        division: Division,
        options: Options,
        commands: CommandFiles,
        known: Description | None,
        shared: SharedRun | None,
        *,
        is_ending: bool,
    ) -> Prepared:
        """The operator of a query; ``shared``: of those that share a run, for which ``query`` stands."""
        most_buckets = int((known or {}).get(BUCKETS) or self.most_buckets(options))
        partitioning = choose_partitioning(query, most_buckets) if shared is None else shared.partitioning
        bucket_input = BucketInput(self.spark, self._streams, division, partitioning, options)
        relations = bucket_input.relations()
        described = description(query, partitioning, division.carried, relations, most_buckets)
        keys = bucket_keys(partitioning.buckets)
        sources = sorted(enumerate(query.streams), key=_source_order)
        packed = [bucket_input.packed(stream, ref.time, keys) for stream, ref in sources if ref.time is not None]
        identity = uuid.uuid4().hex
        is_lasting = division.query.may_hold_forever
        policies = Policies.of(options, written=options.plan is not None, lasting=is_lasting)
        policies = policies.on_spark(partitioning.buckets, _target(options))
        lateness = tuple(None if ref.is_static else self._lateness(ref, options) for ref in query.streams)
        if policies.by_batch:
            asking = Group.of(query) if shared is None else shared.group(shared.registered)
            self._check_by_batch(asking, policies, lateness)
        packed.append(
            control.commands(
                self.spark,
                commands,
                keys,
                query.name,
                described,
                tells_starts=options.idle_timeout is not None,
                is_ending=is_ending,
                prices=self._prices_of(identity) if policies.target_us is not None else "",
            )
        )
        spec = Spec(
            identity=identity,
            query=division.inside,
            partitioning=partitioning,
            lateness=lateness,
            relations=Broadcasted.of(self.spark.sparkContext.broadcast(relations)) if relations else None,
            idle_timeout=None
            if options.idle_timeout is None
            else interval_option("idle_timeout", options.idle_timeout),
            plan=options.plan,
            policies=policies,
            late_directory=side_output.shared(self._directory) if options.late_rows == "table" else None,
            described=described,
            shown=tuple(bucket_input.shown(s) for s in range(len(query.streams))),
            selections=tuple(ref.selection for ref in query.streams) if division.select else (),
            shared=shared,
        )
        emitted = (
            reduce(DataFrame.unionAll, packed)
            .groupBy("bucket")
            .transformWithStateInPandas(
                statefulProcessor=BucketOperator(spec), outputStructType=EMITTED, outputMode="append", timeMode="none"
            )
            .observe(observation(query.name), *observed(saves=options.feedback is not None and query.kind == "join"))
        )
        if shared is not None:
            return Prepared(emitted.select(*DELIVERED), described)
        return Prepared(results(division, self._streams, emitted), described)

    def _check_by_batch(self, asking: Group, policies: Policies, lateness: Sequence[int | None]) -> None:
        """An error if these queries cannot run under a budget, or not as fresh as is asked; warns of what may grow."""
        check_by_batch(asking)
        if policies.target_us is not None:
            check_freshness(asking, lateness, policies.target_us)
            moving = [ref.stream for ref in asking.whole.streams if ref.time is not None]
            warn_of_unbounded({stream: self._streams[stream].frame for stream in moving})

    def _lateness(self, ref: StreamRef, options: Options) -> int:
        """How far the rows of a stream may lag, in microseconds."""
        return interval_option("lateness", self._streams[ref.stream].lateness or options.lateness or "0 seconds")

    def _prices_of(self, identity: str) -> str:
        """The file with what the triggers of a query take; from the first one on, somebody listens to Spark."""
        if self._listener is None:
            self._listener = TriggerListener(temporary_directory("thalweg-prices-"))
            self.spark.streams.addListener(self._listener)
        return self._listener.place(identity)

    def divide(self, query: Query) -> Division:
        """Which part of a query Spark SQL computes, and which part its buckets."""
        return divide(query, {name: known.kept for name, known in self._streams.items()})

    def divide_shared(self, group: Group, carried: Mapping[str, Sequence[str]] | None = None) -> Division:
        """The same of queries that share a run; ``carried``: the columns that it has carried from the beginning.

        Those stay, though the query that read them may have left: rows in windows have them.
        """
        kept = {name: known.kept for name, known in self._streams.items()}
        for name, columns in (carried or {}).items():
            if name in kept:
                kept[name] = replace(kept[name], columns=tuple(dict.fromkeys((*kept[name].columns, *columns))))
        return divide_shared(group, kept)

    def most_buckets(self, options: Options) -> int:
        """Into how many buckets a query that begins is divided at most."""
        return options.buckets or default_buckets(self.spark.sparkContext.defaultParallelism)


def _target(options: Options) -> int | None:
    """The microseconds that a trigger may take."""
    if options.target_trigger is None:
        return None
    target = interval_option("target_trigger", options.target_trigger)
    if target <= 0:
        raise OptionError(f"option target_trigger is longer than nothing, not '{options.target_trigger}'")
    return target


def _source_order(numbered: tuple[int, StreamRef]) -> tuple[str, int]:
    """How sources are ordered in Spark's plan: not as in FROM, for a checkpoint knows them by their number alone.

    So a query whose streams have changed places in FROM goes on with the same sources under the same numbers.
    """
    position, ref = numbered
    return ref.stream, position
