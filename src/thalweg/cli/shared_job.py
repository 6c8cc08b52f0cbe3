"""Several queries of ``thalweg run``, which share runs: started, watched to their end, summed up."""

from __future__ import annotations

import time as clock
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from thalweg.cli.console import diagnostics, grid, output, show
from thalweg.cli.job import outlook
from thalweg.cli.live import write_live
from thalweg.cli.overload import spent_text
from thalweg.cli.progress import Follower, Totals, intake_table, time_text
from thalweg.cli.queries import print_queries
from thalweg.cli.render import counted, duration, size
from thalweg.cli.spark_console import spark_failures
from thalweg.cli.watch import Interruption, line, warnings_of

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery
    from rich.table import Table

    from thalweg.options import Options
    from thalweg.spark.app import App
    from thalweg.spark.started import Started

_LOOK_SECONDS = 0.25
_LINE_SECONDS = 5.0
"""Between two lines for a reader that is not a terminal, and between two looks at which queries are registered."""

ByRun = dict[str, Totals]


@dataclass(frozen=True, slots=True)
class SharedJob:
    """Queries that are ready to run.

    Attributes:
        opened: makes an app that knows the streams.
        queries: their names and texts.
        directory: of the runs.
        options: for all of them.
        trigger: when batches run, in Spark's words.
        log: what Spark has to say.

    """

    opened: Callable[[], App]
    queries: Sequence[tuple[str, str]]
    directory: Path
    options: Options
    trigger: Mapping[str, Any]
    log: Path | None

    def run(self, wish: Interruption, *, once: bool, ends: bool) -> bool:
        """Run until everything is read (``once``), or until someone interrupts it; whether someone did.

        ``ends``: then the input has ended, for good.
        """
        from thalweg.spark.commands import new_command
        from thalweg.spark.registry import Registry

        totals: ByRun = {}
        begun = clock.perf_counter()
        registry = Registry(self.directory)
        with _watching() as (see, say), spark_failures(self.log):
            wish.say = say
            self._follow(totals, wish, see, say)
            if ends and not wish.asked:
                registry.commands.send(new_command("end"))
                self._follow(totals, wish, see, say)
        has_failed = self._sum_up(registry, totals, clock.perf_counter() - begun)
        if once and not wish.asked:
            ended = ends or any(each.last is not None and each.last.ended for each in totals.values())
            for name, each in totals.items():
                output().print(f"\n{name}: {outlook(each, str(self.directory), ended=ended)}", soft_wrap=True)
        if has_failed:
            raise typer.Exit(1)
        return wish.asked

    def _follow(self, totals: ByRun, wish: Interruption, see: Callable[[ByRun], None], say: Say) -> None:
        """Run until nothing is left to do, or someone interrupts it."""
        app = self.opened()
        for name, text in self.queries:
            app.register(name, text)
        started = app.start(self.directory, options=self.options, trigger=self.trigger)
        try:
            self._watch(app, started, totals, wish, see, say)
        finally:
            started.stop()

    def _watch(
        self, app: App, started: Started, totals: ByRun, wish: Interruption, see: Callable[[ByRun], None], say: Say
    ) -> None:
        """Look at the runs until all have ended. If one fails the others are stopped, and go on with it later."""
        from thalweg.spark.registry import Registry

        watched = [
            _Watched(name, query, Follower(app, query), totals.setdefault(name, Totals()), self.directory / name)
            for name, query in started.runs.items()
        ]
        registry, asked = Registry(self.directory), clock.monotonic()
        while any(each.query.isActive for each in watched):
            if clock.monotonic() - asked >= _LINE_SECONDS:
                asked = clock.monotonic()
                for each in watched:
                    if each.query.isActive and registry.has_ended(each.name):
                        each.query.stop()
                        each.is_stopped = True
                        say(f"{each.name}: stopped, since its last query was deregistered")
            idle = [wish.asked and each.is_idle for each in watched]
            clock.sleep(_LOOK_SECONDS)
            for each, is_idle in zip(watched, idle, strict=True):
                has_news = each.look(say)
                if wish.asked and (is_idle or has_news) and each.query.isActive:
                    each.query.stop()
                    each.is_stopped = True
            see(totals)
            if any(each.has_failed for each in watched):
                break
        for each in watched:
            if each.has_failed:
                each.query.awaitTermination()  # raises what ended it
            each.look(say)
        see(totals)

    def _sum_up(self, registry: Any, totals: ByRun, seconds: float) -> bool:
        """What the runs read, gave, kept out and hold; whether a query has failed."""
        from thalweg.spark.overview import overview

        console = output()
        rows = overview(registry, sharing=self.options.sharing)
        results = {name: count for each in totals.values() for name, count in each.queries.items()}
        # A run that has no slices has one query, and counts its results by its own name.
        results = {row["query"]: results.get(row["query"] if row["slices"] else row["run"], 0) for row in rows}
        runs = counted(len(totals), "run")
        console.print(
            f"{counted(len(rows), 'query').replace('querys', 'queries')} in {runs}: "
            f"{counted(sum(results.values()), 'result')} in {duration(seconds)}; directory: {self.directory}",
            style="bold",
            soft_wrap=True,
        )
        console.print()
        print_queries(rows, results)
        console.print()
        table = grid("run", "batches", "rows", "watermark", "windows", "memory", right={"batches", "rows", "windows"})
        for name, each in totals.items():
            last = each.last
            held = ("-", "-", "-")
            if last is not None:
                held = time_text(last.watermark), f"{last.tuples:,}", size(last.bytes)
            table.add_row(name, f"{each.batches:,}", f"{each.rows_in:,}", *held)
        show(console, table)
        for name, each in totals.items():
            so_far = each.last.so_far if each.last is not None else {}
            if any(stream.late or stream.bad for stream in so_far.values()):
                console.print(f"\n{name}:", soft_wrap=True)
                show(console, intake_table(so_far))
            if each.spent.wanted:
                console.print(f"\n{name}: {spent_text(each.spent)}", soft_wrap=True)
            for text in each.refused:
                console.print(f"\n{name}: command refused: {text}", soft_wrap=True)
        return any(row["status"] == "failed" for row in rows)


Say = Callable[[str], None]


@dataclass(slots=True)
class _Watched:
    """A run, what it has done, and where it leaves word of its plans."""

    name: str
    query: StreamingQuery
    follower: Follower
    totals: Totals
    directory: Path
    is_stopped: bool = False
    told: set[str] = field(default_factory=set)

    @property
    def is_idle(self) -> bool:
        return not (self.query.status["isTriggerActive"] and self.query.status["isDataAvailable"])

    @property
    def has_failed(self) -> bool:
        """Whether it ended by an error; one that is stopped while it prepares may take that for a failure."""
        return not self.query.isActive and not self.is_stopped and self.query.exception() is not None

    def look(self, say: Say) -> bool:
        """Take in what is new; whether anything is."""
        reports = self.follower.new_reports()
        for report in reports:
            self.totals.add(report)
        if reports:
            for warning in warnings_of(self.totals, self.told):
                say(f"{self.name}: {warning}")
            write_live(self.directory, self.name, self.totals)
        return bool(reports)


@contextmanager
def _watching() -> Iterator[tuple[Callable[[ByRun], None], Say]]:
    """Shows how the runs stand: a table that stays in place in a terminal, else a line for each now and then."""
    console = diagnostics()
    if not console.is_terminal:
        yield _lines(), partial(console.print, soft_wrap=True)
        return
    from rich.live import Live

    with Live(console=console, transient=True, auto_refresh=False) as live:

        def see(totals: ByRun) -> None:
            live.update(picture(totals), refresh=True)

        yield see, partial(live.console.print, soft_wrap=True)


def _lines() -> Callable[[ByRun], None]:
    console = diagnostics()
    said: dict[str, tuple[float, int]] = {}

    def see(totals: ByRun) -> None:
        now = clock.monotonic()
        for name, each in totals.items():
            when, batches = said.get(name, (-_LINE_SECONDS, 0))
            if each.last is not None and each.batches != batches and now - when >= _LINE_SECONDS:
                said[name] = now, each.batches
                console.print(f"{name}: {line(each, each.last)}", soft_wrap=True)

    return see


def picture(totals: Mapping[str, Totals]) -> Table:
    """The state of affairs as a table: a line for each run, and below it one for each of its queries."""
    table = grid("run", "query", "batch", "rows in", "results", "so far", "watermark", right=_NUMBERS)
    for name, each in totals.items():
        last = each.last
        if last is None:
            table.add_row(name, "starting", "", "", "", "", "")
            continue
        results = f"{last.results:,}", f"{each.results:,}"
        table.add_row(name, "", f"{last.number:,}", f"{each.rows_in:,}", *results, time_text(last.watermark))
        for query, count in each.queries.items():
            table.add_row("", query, "", "", f"{last.queries.get(query, 0):,}", f"{count:,}", "")
    table.caption = "Ctrl-C stops after the batches at hand"
    return table


_NUMBERS = {"batch", "rows in", "results", "so far"}
