"""A query of ``thalweg run``: prepared, run to its end, summed up."""

from __future__ import annotations

import time as clock
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from thalweg.cli.connectors import Sink, open_relation, open_source
from thalweg.cli.console import diagnostics, grid, output, show
from thalweg.cli.live import write_live
from thalweg.cli.overload import spent_text
from thalweg.cli.progress import Follower, Totals, intake_table, time_text
from thalweg.cli.render import counted, duration, savings_table, size
from thalweg.cli.secrets import redacted
from thalweg.cli.spark_console import spark_failures
from thalweg.cli.watch import Interruption, Show, View, follow, live_view, warnings_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from thalweg.cql import Source
    from thalweg.cql.query import Query
    from thalweg.event_times import TimeUnit
    from thalweg.options import Options
    from thalweg.spark.app import App


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream as the command line names it; a static relation has neither time nor lateness.

    ``unit`` is what event times that are integers count, if that was said.
    """

    source: str
    time: str | None
    lateness: str | None
    unit: TimeUnit | None = None
    keep: Sequence[str] | Literal["all"] | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """A query that is ready to run."""

    app: App
    query: Query
    frame: DataFrame
    sink: Sink
    checkpoint: str
    trigger: Mapping[str, Any]
    directory: Path
    log: Path | None

    def run(self, wish: Interruption, *, once: bool, ends: bool) -> bool:
        """Run until everything is read (``once``), or until someone interrupts it; whether someone did.

        The end of the input (``ends``) is itself an event: it ends what otherwise only later rows would. It is sent
        when all rows have been read, and takes a second run of the same query. A command may have ended it by then.
        """
        totals = Totals()
        started = clock.perf_counter()
        # Spark's console is this terminal.
        in_place = not self.sink.is_console
        with live_view(self.query.name, in_place=in_place) as view, spark_failures(self.log):
            for change in self.app.check(self.frame, self.checkpoint, name=self.query.name):
                diagnostics().print(f"note: {change}", soft_wrap=True)
            wish.say = view.say
            tell = self._telling(view)
            query_id = self._follow(totals, wish, tell)
            has_ended = totals.last is not None and totals.last.ended
            if ends and not wish.asked and not has_ended:
                self.app.command("end", query=query_id)
                self._follow(totals, wish, tell)
        if has_ended and totals.late.total():
            place = redacted(self.checkpoint)
            warning = f"warning: the input of {place} was ended by a command; rows that come after it are late"
            diagnostics().print(warning, soft_wrap=True)
        print_totals(self.query.name, totals, self.query.aliases, self.sink.name, clock.perf_counter() - started)
        if once and not wish.asked:
            output().print()
            output().print(outlook(totals, redacted(self.checkpoint), ended=ends or has_ended), soft_wrap=True)
        return wish.asked

    def _follow(self, totals: Totals, wish: Interruption, tell: Show) -> str:
        """Run until nothing is left to do, or someone interrupts it; Spark's id of the query."""
        writer = self.sink.writer(self.frame).option("checkpointLocation", self.checkpoint)
        query = writer.trigger(**self.trigger).start()
        follow(query, Follower(self.app, query), totals, wish, tell)
        return query.id

    def _telling(self, view: View) -> Show:
        """Shows how the query stands, warns, and leaves word of it all after every batch."""
        number = -1
        told: set[str] = set()

        def show_and_tell(totals: Totals) -> None:
            nonlocal number
            view.show(totals)
            last = totals.last
            if last is not None and last.number != number:
                number = last.number
                for warning in warnings_of(totals, told):
                    view.say(warning)
                write_live(self.directory, self.query.name, totals)

        return show_and_tell


def opened(spark: SparkSession, streams: Mapping[str, Stream], directory: Path) -> tuple[App, dict[str, Source]]:
    """An app that knows the streams, and these as query texts may name them."""
    from thalweg.spark.app import App
    from thalweg.spark.columns import source_of, with_time_unit

    app = App(spark, directory=directory)
    catalog = {}
    for stream, given in streams.items():
        if given.time is None:
            frame, time = open_relation(app.spark, given.source), None
        else:
            frame, time = open_source(app.spark, stream, given.source, given.time)
            frame = with_time_unit(stream, frame, time, given.unit)
        app.stream(stream, frame, time=time, lateness=given.lateness, keep=given.keep)
        catalog[stream] = source_of(frame, time)
    return app, catalog


def prepare(
    spark: SparkSession, text: str, name: str, streams: Mapping[str, Stream], options: Options, directory: Path
) -> tuple[App, Query, DataFrame]:
    """Open the streams and bind the query to them."""
    from dataclasses import replace

    from thalweg.cql import bind

    app, catalog = opened(spark, streams, directory)
    (query,) = bind(text, catalog)
    return app, replace(query, name=name), app.sql(text, options, name=name)


def outlook(totals: Totals, checkpoint: str, *, ended: bool) -> str:
    """What can come after a run that took what there was.

    >>> outlook(Totals(), "c", ended=True)
    'the input has ended: no later run can go on from c'
    """
    if ended:
        return f"the input has ended: no later run can go on from {checkpoint}"
    held = f"with {counted(totals.last.tuples, 'tuple')} in them" if totals.last else "and nothing new was there"
    return f"windows stay open, {held}: run again for new rows, or with --end to finish for good"


def print_totals(name: str, totals: Totals, aliases: tuple[str, ...], sink: str, seconds: float) -> None:
    """What a run read, gave, kept out and holds."""
    console = output()
    text = f"{name}: {counted(totals.results, 'result')} from {counted(totals.rows_in, 'row')}"
    batches = f"{totals.batches:,} batch" + ("" if totals.batches == 1 else "es")
    console.print(f"{text} in {duration(seconds)}, {batches}; sink: {sink}", style="bold", soft_wrap=True)
    if totals.late.total() or totals.bad.total():
        console.print()
        kept_out = grid("stream", "late", "without a time", right={"late", "without a time"})
        for alias in aliases:
            kept_out.add_row(alias, f"{totals.late[alias]:,}", f"{totals.bad[alias]:,}")
        show(console, kept_out)
    so_far = totals.last.so_far if totals.last is not None else {}
    if any(each.late or each.bad for each in so_far.values()):
        console.print()
        show(console, intake_table(so_far))
    if totals.spent.wanted:
        console.print(f"\n{spent_text(totals.spent)}", soft_wrap=True)
    for text in totals.refused:
        console.print(f"\ncommand refused: {text}", soft_wrap=True)
    if totals.last is None:
        return
    console.print()
    last = totals.last
    table = grid("at the end", "")
    table.add_row("watermark", time_text(last.watermark))
    table.add_row("base windows", counted(last.tuples, "tuple"))
    table.add_row("kept states", f"{last.entries:,} entries")
    table.add_row("memory", size(last.bytes))
    show(console, table)
    if totals.plans:
        console.print()
        plans = grid("from batch", "plan", right={"from batch"})
        for number, used in totals.plans:
            for plan in used:
                plans.add_row(f"{number:,}", plan)
        show(console, plans)
    if totals.savings:
        console.print()
        show(console, savings_table(totals.savings))
