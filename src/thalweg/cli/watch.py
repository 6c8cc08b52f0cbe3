"""Watching a query that runs: what a person sees of it meanwhile, and how it is asked to stop."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from thalweg.cli.console import diagnostics, grid
from thalweg.cli.overload import overload_rows, share_text
from thalweg.cli.progress import BatchReport, Follower, Totals, time_text
from thalweg.cli.render import counted, duration, size

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery
    from rich.table import Table

_LOOK_SECONDS = 0.25
_LINE_SECONDS = 5.0
"""Between two lines for a reader that is not a terminal: a log of a day stays readable."""

Show = Callable[[Totals], None]
Result = TypeVar("Result")


class Interruption:
    """Whether someone has asked for the end, and how they are told that it was heard."""

    def __init__(self) -> None:
        self.asked = False
        self.say: Callable[[str], None] = diagnostics().print


def interruptible(work: Callable[[Interruption], Result]) -> Result:
    """Do work in a thread of its own, and take Ctrl-C and SIGTERM meanwhile as the wish that it ends soon.

    Signals interrupt the main thread alone, and that one only waits here. So none of them cuts into a call to Spark,
    which would ruin the connection to it. And Spark, if it is started by another thread, takes no signals itself: its
    own handler would have the batch at hand fail, and the query with it.

    A second signal is an interruption at once.
    """
    wish = Interruption()
    if threading.current_thread() is not threading.main_thread():  # only that one is sent signals
        return work(wish)
    done: Future[Result] = Future()

    def handle(number: int, frame: Any) -> None:  # noqa: ARG001 - as the interpreter calls it
        if wish.asked:
            raise KeyboardInterrupt
        wish.asked = True

    def do() -> None:
        try:
            done.set_result(work(wish))
        except BaseException as error:  # the thread that waits raises it
            done.set_exception(error)

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        worker = threading.Thread(target=do, name="thalweg-run", daemon=True)
        worker.start()
        is_told = False
        while worker.is_alive():
            worker.join(_LOOK_SECONDS)
            if wish.asked and not is_told and worker.is_alive():
                is_told = True
                wish.say("stopping; another Ctrl-C does not wait for that")
        return done.result()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def follow(query: StreamingQuery, follower: Follower, totals: Totals, wish: Interruption, show: Show) -> None:
    """Watch a query until it ends by itself, or someone wishes it to: then it stops after the batch at hand."""
    is_stopped = False
    while query.isActive:
        idle = wish.asked and not (query.status["isTriggerActive"] and query.status["isDataAvailable"])
        time.sleep(_LOOK_SECONDS)
        reports = follower.new_reports()
        for report in reports:
            totals.add(report)
        show(totals)
        if wish.asked and (idle or reports):
            is_stopped = True
            query.stop()
    if not is_stopped:  # one that is stopped while it makes its first preparations may take that for a failure
        query.awaitTermination()  # raises what ended it
    for report in follower.new_reports():
        totals.add(report)
    show(totals)


@dataclass(frozen=True, slots=True)
class View:
    """What a person sees of a query while it runs: how it stands, and what is said once."""

    show: Show
    say: Callable[[str], None]


@contextmanager
def live_view(name: str, *, in_place: bool) -> Iterator[View]:
    """A table that is kept up to date, for a person who watches; a line now and then for anyone else.

    ``in_place``: nothing else writes to the terminal, so a table may stay where it is.
    """
    console = diagnostics()
    if not (in_place and sys.stderr.isatty()):
        yield View(_lines(name), partial(console.print, soft_wrap=True))
        return
    from rich.live import Live

    with Live(console=console, transient=True, auto_refresh=False) as live:

        def show(totals: Totals) -> None:
            live.update(picture(name, totals), refresh=True)

        yield View(show, partial(live.console.print, soft_wrap=True))


def warnings_of(totals: Totals, told: set[str]) -> Iterator[str]:
    """What should not go unnoticed, each once: refused commands, failed queries, and streams with many late rows.

    ``told`` has what was said before; of refused commands, how many.
    """
    from thalweg.spark.intake import is_large, late_causes

    for number, text in enumerate(totals.refused):
        if (mark := f"refused {number}") not in told:
            told.add(mark)
            yield f"warning: command refused: {text}"
    for name, reason in totals.failed.items():
        if (mark := f"failed {name}") not in told:
            told.add(mark)
            yield f"warning: query '{name}' has failed and ends, the others go on: {reason}"
    for change in totals.overload:
        if change not in told:
            told.add(change)
            yield f"note: {change}"
    last = totals.last
    if last is None or last.ended:
        return
    for alias, each in last.so_far.items():
        if (mark := f"late {alias}") not in told and totals.late[alias] and is_large(each.late, each.rows):
            told.add(mark)
            share = f"{each.late:,} of {counted(each.rows, 'row')} so far"
            yield f"warning: stream '{alias}': {share} came late and were kept out. {late_causes(ended=False)}"


def _lines(name: str) -> Show:
    console = diagnostics()
    said: list[float] = []
    shown = [0]

    def show(totals: Totals) -> None:
        now = time.monotonic()
        if totals.batches == shown[0] or totals.last is None or (said and now - said[-1] < _LINE_SECONDS):
            return
        said[:], shown[:] = [now], [totals.batches]
        console.print(f"{name}: {line(totals, totals.last)}")

    return show


def line(totals: Totals, last: BatchReport) -> str:
    """The state of affairs in one line."""
    late, refused = totals.late.total(), len(totals.refused)
    kept_out = (f", {late:,} late" if late else "") + (f", {counted(refused, 'command')} refused" if refused else "")
    return "; ".join(
        [
            f"batch {last.number}: {counted(last.rows_in, 'row')} in {duration(last.seconds)}",
            f"{counted(totals.results, 'result')} so far{kept_out}",
            f"watermark {time_text(last.watermark)}",
            *([f"share {share_text(last.spending['share'], last.spending['error'])}"] if last.spending else []),
            f"state {size(last.bytes)}",
            f"plan {plans_text(last.plans)}",
        ]
    )


def plans_text(plans: Sequence[str]) -> str:
    """The plans that buckets have; each chooses its own.

    >>> plans_text(["(a b) c"]), plans_text([])
    ('(a b) c', 'none yet')
    """
    return " | ".join(plans) if plans else "none yet"


def picture(name: str, totals: Totals) -> Table:
    """The state of affairs as a table."""
    table = grid(name, "last batch", "so far", right={"last batch", "so far"})
    last = totals.last
    if last is None:
        table.add_row("starting", "", "")
        return table
    rate, mean = (
        f"{rows / seconds:,.0f}" if seconds else "-"
        for rows, seconds in ((last.rows_in, last.seconds), (totals.rows_in, totals.seconds))
    )
    table.add_row("batches", f"number {last.number:,}", f"{totals.batches:,}")
    table.add_row("rows in", f"{last.rows_in:,}", f"{totals.rows_in:,}")
    table.add_row("rows/s", rate, mean)
    table.add_row("results", f"{last.results:,}", f"{totals.results:,}")
    table.add_row("late rows", f"{last.late.total():,}", f"{totals.late.total():,}")
    table.add_row("time", duration(last.seconds), duration(totals.seconds))
    table.add_row("state", f"{counted(last.tuples, 'tuple')}, {size(last.bytes)}", "")
    if totals.savings:
        withheld = (f"{savings['withheld']:,}" for savings in (last.savings, totals.savings))
        table.add_row("not produced", *withheld)
    table.add_row("watermark", time_text(last.watermark), "")
    if totals.spent.wanted:
        share = totals.spent.share
        table.add_row("share of the answer so far", "", share_text(*(share or (None, None))))
    for what, words in overload_rows(last.spending, last.freshness):
        table.add_row(what, words, "")
    for plan in last.plans:
        table.add_row("plan", plan, "")
    if totals.refused:
        table.add_row("commands refused", f"{len(last.refused):,}", f"{len(totals.refused):,}")
    table.caption = "Ctrl-C stops after the batch at hand"
    return table
