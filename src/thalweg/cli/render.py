"""Result rows and summaries as tables for people."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len

from thalweg.cli.console import grid, printable, show

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import Console
    from rich.table import Table

    from thalweg.replayer import StateSize, Summary
    from thalweg.replayer.summary import BudgetUse

PREVIEW_ROWS = 20
_CELL_WIDTH = 60  # a longer text is cut: the preview is to recognise rows, --out to keep them
_GAP = 3  # cells between two columns
_SAVINGS = {
    "suspended": "values suspended now",
    "suspensions": "suspensions",
    "resumptions": "resumptions",
    "tests": "searches for a partner",
    "withheld": "intermediate results not produced, at least",
    "unprobed": "probes not made, at least",
}
"""What feedback did, as a person reads it."""


def print_preview(console: Console, table: pa.Table) -> None:
    """The first rows of a table, and how many there are."""
    from thalweg.files.intervals import with_interval_texts

    head = table.slice(0, PREVIEW_ROWS)
    columns = [[cell(value) for value in column.to_pylist()] for column in with_interval_texts(head).columns]
    shown = _fitting(table.column_names, columns, console.width)
    numbers = {f.name for f in table.schema if _is_number(f.type)}
    preview = grid(*table.column_names[:shown], right=numbers)
    for row in zip(*columns[:shown], strict=True):
        preview.add_row(*row)
    show(console, preview)
    notes = [counted(table.num_rows, "row")]
    if table.num_rows > PREVIEW_ROWS:
        notes.append(f"the first {PREVIEW_ROWS} are shown")
    if shown < table.num_columns:
        notes.append(f"{table.num_columns - shown} of {table.num_columns} columns do not fit")
    console.print(f"({'; '.join(notes)})")


def print_summary(console: Console, summary: Summary) -> None:
    """What a replay of one query read, gave, dropped, kept, and how long it took."""
    total = sum(summary.tuples_in.values())
    text = f"{summary.query}: {counted(summary.results, 'result')} from {counted(total, 'tuple')}"
    console.print(f"{text} in {duration(summary.seconds)}{speed(summary)}", style="bold")
    console.print()
    print_run(console, summary)


def speed(summary: Summary) -> str:
    """How fast a replay was, and what it took to begin; nothing of what cannot be told."""
    total = sum(summary.tuples_in.values())
    rate = f", {total / summary.seconds:,.0f} tuples/s" if summary.seconds > 0 else ""
    compiled = summary.compile_seconds
    return rate + (f"; getting the engine ready took {duration(compiled)}" if compiled > 1 else "")


def print_run(console: Console, summary: Summary) -> None:
    """What a replay read, dropped and kept, and its plans: all that is not a query's own."""
    streams = grid("stream", "tuples in", "late", "bad", right={"tuples in", "late", "bad"})
    for alias, tuples in summary.tuples_in.items():
        streams.add_row(alias, f"{tuples:,}", f"{summary.late.get(alias, 0):,}", f"{summary.bad.get(alias, 0):,}")
    show(console, streams)
    console.print()
    chains = ["slices"] if summary.chains else []
    states = grid("state at the end", "tuples", "live keys", "size", *chains, right={"tuples", "live keys", "size"})
    for state in summary.states:
        chain = [_chain(summary.chains.get(state.name, ()))] if chains else []
        states.add_row(state.name, f"{state.tuples:,}", _live_keys(state, summary), size(state.bytes), *chain)
    show(console, states)
    console.print()
    reasons = {d.position: d.reason for d in summary.decisions if d.action == "change"}
    plans = grid("from tuple", "plan", *(["why"] if reasons else []), right={"from tuple"})
    for use in summary.plans:
        plans.add_row(f"{use.position:,}", use.plan, *([reasons.get(use.position, "")] if reasons else []))
    show(console, plans)
    if summary.savings is not None:
        console.print()
        show(console, savings_table(asdict(summary.savings)))
    if summary.budget is not None:
        console.print()
        show(console, _budget_table(summary.budget))
        console.print(budget_line(summary.budget, None if summary.is_shared else summary.query))


def _budget_table(budget: BudgetUse) -> Table:
    """The probes of each step that were wanted, allowed and refused; and what that means for the stream's results."""
    numbers = ("step", "wanted", "allowed", "refused", "results found")
    table = grid("probes of", *numbers, right=set(numbers))
    for use in budget.steps:
        found = budget.streams.get(use.stream) if use.step == 1 else None
        share = "" if found is None else f"{found.share:.1%} ± {found.error:.1%}"
        table.add_row(use.stream, str(use.step), f"{use.wanted:,}", f"{use.allowed:,}", f"{use.refused:,}", share)
    return table


def budget_line(budget: BudgetUse, query: str | None = None) -> str:
    """How much of the answer of a query a budget has left; without one, of the results of the join."""
    if budget.is_complete:
        return "The budget has refused nothing: the answer is complete."
    if any(budget.shed.values()):
        lost = ", ".join(f"{rows:,} of {alias}" for alias, rows in budget.shed.items() if rows)
        return f"Tuples were dropped at the input ({lost}). What they would have found cannot be said."
    share, error = (budget.share, budget.error) if query is None else (None, None)
    if query is not None and budget.answer is not None:
        share, error = budget.answer.share, budget.answer.error
    if share is None or error is None:
        return "How much of the answer is missing cannot be said: some probes had no chance to be allowed."
    what = "the join's results were found" if query is None else f"the answer of query '{query}' was found"
    return f"About {share:.1%} of {what} (standard error {error:.1%}), with the budget divided by {budget.allocation}."


def savings_table(savings: Mapping[str, int]) -> Table:
    """What feedback did, by the names that :class:`thalweg.engine.feedback.memory.Savings` has for it."""
    table = grid("feedback", "", right={""})
    for name, words in _SAVINGS.items():
        table.add_row(words, f"{savings[name]:,}")
    table.add_row("bytes of entries not stored, at least", size(savings["unstored_bytes"]))
    return table


def _chain(ends: Sequence[int | None]) -> str:
    """For how long the tuples of each slice of a window are kept; of a single one it says nothing new."""
    from thalweg.plan.explain import length_text

    return " | ".join("for ever" if end is None else length_text(end) for end in ends) if len(ends) > 1 else ""


def _live_keys(state: StateSize, summary: Summary) -> str:
    if state.live_keys is not None:
        return f"{state.live_keys:,}"
    is_base = state.name in summary.tuples_in or state.name in summary.static
    return "" if is_base else "all"  # a base window is no cache


def cell(value: Any) -> str:
    """One value as a person reads it, on one line.

    >>> cell(None), cell(1.5), cell(b"ab"), cell(dt.datetime(2024, 5, 1, 9, 30, 0, 250000))
    ('NULL', '1.5', '0x6162', '2024-05-01 09:30:00.25')
    """
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dt.datetime):
        text = value.isoformat(sep=" ", timespec="microseconds" if value.microsecond else "auto")
        return text.rstrip("0") if value.microsecond and value.tzinfo is None else text
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    text = printable(str(value))
    return text if len(text) <= _CELL_WIDTH else f"{text[: _CELL_WIDTH - 1]}…"


def counted(number: int, noun: str) -> str:
    """A number of things.

    >>> counted(1, "row"), counted(1200, "row")
    ('1 row', '1,200 rows')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def duration(seconds: float) -> str:
    """A time span with three digits that matter.

    >>> duration(0.01234), duration(1.5), duration(754)
    ('12.3 ms', '1.50 s', '754 s')
    """
    if seconds < 1:
        return f"{seconds * 1000:.3g} ms"
    return f"{seconds:.2f} s" if seconds < 100 else f"{seconds:,.0f} s"


def size(count: int) -> str:
    """A number of bytes.

    >>> size(512), size(20_480), size(3 << 30)
    ('512 B', '20.0 KiB', '3.0 GiB')
    """
    if count < 1024:
        return f"{count} B"
    amount = float(count)
    for unit in ("KiB", "MiB", "GiB"):
        amount /= 1024
        if amount < 1024:
            return f"{amount:.1f} {unit}"
    return f"{amount / 1024:.1f} TiB"


def _fitting(names: list[str], columns: list[list[str]], width: int) -> int:
    """How many leading columns fit into ``width`` without being squeezed; at least one."""
    used = 0
    for index, (name, cells) in enumerate(zip(names, columns, strict=True)):
        used += max(map(cell_len, [name, *cells])) + (_GAP if index else 0)
        if used > width:
            return max(index, 1)
    return len(columns)


def _is_number(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))
