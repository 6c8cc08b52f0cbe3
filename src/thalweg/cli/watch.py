"""Watching a query that runs: what a person sees of it meanwhile, and how it is asked to stop."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from thalweg.cli.console import diagnostics, grid
from thalweg.cli.progress import BatchReport, Follower, Totals, time_text
from thalweg.cli.render import counted, duration, size

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery
    from rich.table import Table

_LOOK_SECONDS = 0.25
_LINE_SECONDS = 5.0
"""Between two lines for a reader that is not a terminal: a log of a day stays readable."""

Show = Callable[[Totals], None]


class Interruption:
    """Whether someone has asked for the end."""

    def __init__(self) -> None:
        self.asked = False


@contextmanager
def interruptions() -> Iterator[Interruption]:
    """Take Ctrl-C, and SIGTERM, as the wish to stop soon; the second one is an interruption at once.

    (Spark's own handler would have the batch at hand fail, and the query with it.)
    """
    wish = Interruption()

    def handle(number: int, frame: Any) -> None:  # noqa: ARG001 - as the interpreter calls it
        if wish.asked:
            raise KeyboardInterrupt
        wish.asked = True

    if threading.current_thread() is not threading.main_thread():  # only that one is sent signals
        yield wish
        return
    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield wish
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def follow(query: StreamingQuery, follower: Follower, totals: Totals, wish: Interruption, show: Show) -> None:
    """Watch a query until it ends by itself, or someone wishes it to: then it stops after the batch at hand."""
    while query.isActive:
        idle = wish.asked and not (query.status["isTriggerActive"] and query.status["isDataAvailable"])
        time.sleep(_LOOK_SECONDS)
        reports = follower.new_reports()
        for report in reports:
            totals.add(report)
        show(totals)
        if wish.asked and (idle or reports):
            query.stop()
    query.awaitTermination()  # raises what ended it
    for report in follower.new_reports():
        totals.add(report)
    show(totals)


@contextmanager
def live_view(name: str) -> Iterator[Show]:
    """A table that is kept up to date, for a person who watches; a line now and then for anyone else."""
    if not sys.stderr.isatty():
        yield _lines(name)
        return
    from rich.live import Live

    with Live(console=diagnostics(), transient=True, auto_refresh=False) as live:

        def show(totals: Totals) -> None:
            live.update(picture(name, totals), refresh=True)

        yield show


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
    late = totals.late.total()
    return "; ".join(
        [
            f"batch {last.number}: {counted(last.rows_in, 'row')} in {duration(last.seconds)}",
            f"{counted(totals.results, 'result')} so far" + (f", {late:,} late" if late else ""),
            f"watermark {time_text(last.watermark)}",
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
    for plan in last.plans:
        table.add_row("plan", plan, "")
    table.caption = "Ctrl-C stops after the batch at hand"
    return table
