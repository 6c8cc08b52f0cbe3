"""Where output goes: results to stdout; progress and errors to stderr.

User texts reach the console as they are: ``[RANGE 10 SECONDS]`` is a window, not markup.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

from rich import box
from rich.console import Console, RenderableType
from rich.table import Table

_FILE_WIDTH = 1000  # lines are never broken or padded for a reader that is not a terminal

Progress = Callable[[int, int], None]


def output() -> Console:
    return Console(markup=False, highlight=False, emoji=False, width=None if sys.stdout.isatty() else _FILE_WIDTH)


def diagnostics() -> Console:
    width = None if sys.stderr.isatty() else _FILE_WIDTH
    return Console(stderr=True, markup=False, highlight=False, emoji=False, width=width)


def printable(text: str) -> str:
    r"""A text without control characters, which could move the cursor or worse.

    >>> printable("a\x1b[31mb\tc")
    'a\\x1b[31mb\\tc'
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def grid(*columns: str, right: Collection[str] = ()) -> Table:
    """An empty table in the style of the command; the columns in ``right`` hold numbers."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    return table


def show(console: Console, table: RenderableType) -> None:
    """Print a table or several; for a reader that is not a terminal, without blanks at the ends of its lines."""
    if console.is_terminal:
        console.print(table)
        return
    with console.capture() as captured:
        console.print(table)
    console.out("\n".join(line.rstrip() for line in captured.get().splitlines()))


@contextmanager
def progress_bar(what: str) -> Iterator[Progress | None]:
    """A progress bar while the block runs, for a person who watches; None for anyone else."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Bar(*columns, console=diagnostics(), transient=True) as bar:
        task = bar.add_task(f"{what}: preparing", total=None)

        def report(done: int, total: int) -> None:
            bar.update(task, description=what, completed=done, total=total)

        yield report


@contextmanager
def activity(*, lines: bool = False) -> Iterator[Callable[[str], None]]:
    """Tells a person who watches what is being done now, beside a spinner; with ``lines`` a log, too."""
    console = diagnostics()
    if not sys.stderr.isatty():
        yield console.print if lines else _say_nothing
        return
    with console.status("starting") as status:
        yield status.update


def _say_nothing(_: str) -> None:
    pass
