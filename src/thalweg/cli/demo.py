"""``thalweg demo``: a live plan change on generated data, explained as it runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from thalweg.cli.arguments import DebugOption
from thalweg.cli.console import activity, grid, output, show
from thalweg.cli.explain import statistics_of
from thalweg.cli.failures import failures
from thalweg.cli.render import counted, duration

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import Console

    from thalweg.replayer import ReplayResult, StateSize

_SECOND_US = 1_000_000


def demo(
    seconds: Annotated[int, typer.Option(min=20, metavar="N", help="Seconds of generated stream time.")] = 60,
    debug: DebugOption = False,
) -> None:
    """Watch a join change its plan while it runs, with the same answer.

    Needs no files: the streams are generated. Takes well under a minute.

    \b
    Example:
      thalweg demo
    """  # noqa: D301 - \b keeps the line breaks of a paragraph
    with failures(debug=debug):
        same = _tell(output(), seconds)
    if not same:
        raise typer.Exit(1)


def _tell(console: Console, seconds: int) -> bool:
    """Run everything and tell about it; whether all answers were the same."""
    from thalweg.cli import demo_data as shop
    from thalweg.engine.compilation import ready_kernels

    streams = shop.streams(seconds)
    noon = shop.position(streams, shop.NOON_US)
    to_second = (noon, shop.AFTER_NOON)
    _introduce(console, streams, seconds)
    ready_kernels()
    _explain(console, streams)
    with activity() as doing:
        doing("running the first plan all the way")
        first = replayed(streams, shop.BEFORE_NOON)
        doing("running the second plan all the way")
        second = replayed(streams, shop.AFTER_NOON)
        doing("running with a live plan change")
        changing = replayed(streams, shop.BEFORE_NOON, to_second)
    _show_runs(console, noon, {"first plan": first, "second plan": second, "live change": changing})
    with activity() as doing:
        doing("looking at the states around noon")
        moments = {
            "just before noon": replayed(shop.until(streams, shop.NOON_US), shop.BEFORE_NOON),
            "one second after": replayed(shop.until(streams, shop.NOON_US + _SECOND_US), shop.BEFORE_NOON, to_second),
            "at the end": changing,
        }
    _show_states(console, moments, changing.summary.completions)
    return _compare(console, {"first plan": first, "second plan": second, "live change": changing})


def replayed(streams: Mapping[str, pa.Table], plan: str, *changes: tuple[int, str]) -> ReplayResult:
    from thalweg.cli import demo_data as shop
    from thalweg.replayer import run

    return run(shop.QUERY, streams, options={"plan": plan, "states": "all"}, transitions=changes)


def _introduce(console: Console, streams: Mapping[str, pa.Table], seconds: int) -> None:
    from thalweg.cli import demo_data as shop

    total = sum(table.num_rows for table in streams.values())
    console.print("A join that changes its plan while it runs", style="bold")
    console.print(
        f"""
An online shop: {seconds} seconds of ads, clicks and orders around noon, {total:,} tuples.
Which ads and clicks led to which orders?
"""
    )
    console.print(_indented(shop.QUERY))
    console.print(
        """\
In the morning a small crowd of regulars clicks and orders, and ads reach other
people. At noon a campaign begins: now ads and clicks are about a curious crowd
that rarely orders. So first ads ⋈ clicks is small and clicks ⋈ orders is large,
and after noon it is the other way round: no single plan is good all day.

All intermediate results are kept here, as in a classic pipeline of joins, so
that there are states to look at."""
    )


def _explain(console: Console, streams: Mapping[str, pa.Table]) -> None:
    from thalweg.cli import demo_data as shop
    from thalweg.cql import Source, bind
    from thalweg.plan.explain import explain_text
    from thalweg.plan.join_graph import JoinGraph
    from thalweg.plan.search import resolve_plan

    (query,) = bind(shop.QUERY, {name: Source(table.schema, "ts") for name, table in streams.items()})
    statistics = statistics_of(query, streams)
    plan = resolve_plan(shop.BEFORE_NOON, JoinGraph.of(query), query.aliases, statistics, "all")
    _headline(console, "The plan for the morning")
    console.print(explain_text(query, plan, statistics).rstrip(), soft_wrap=True)


def _show_runs(console: Console, noon: int, runs: Mapping[str, ReplayResult]) -> None:
    _headline(console, "Three runs over the same data")
    table = grid("run", "plan", "time", "tuples/s", "stored", right={"time", "tuples/s", "stored"})
    for name, result in runs.items():
        summary = result.summary
        plans = ", at noon ".join(use.plan for use in summary.plans)
        rate = sum(summary.tuples_in.values()) / summary.seconds
        table.add_row(name, plans, duration(summary.seconds), f"{rate:,.0f}", f"{summary.stored:,}")
    show(console, table)
    console.print(
        f"""
stored: intermediate results put into states, the work that a good plan avoids.
Noon comes after {noon:,} tuples."""
    )


def _show_states(console: Console, moments: Mapping[str, ReplayResult], completions: int) -> None:
    _headline(console, "What the states hold around the change")
    names = list(dict.fromkeys(state.name for result in moments.values() for state in result.summary.states))
    table = grid("state", *moments, right=moments)
    for name in names:
        held = ({s.name: s for s in result.summary.states}.get(name) for result in moments.values())
        table.add_row(name, *(_contents(state) for state in held))
    show(console, table)
    console.print(
        f"""
The base windows a, c and o stay as they are. The first plan's state is dropped;
the second plan's starts empty, and each of its keys is completed from the base
windows when a tuple first asks for it ({completions:,} times in this run). So nothing
waits for the change, and nobody pays for keys that nobody asks for."""
    )


def _contents(state: StateSize | None) -> str:
    if state is None:
        return "-"
    keys = "" if state.live_keys is None else f", {counted(state.live_keys, 'key')} live"
    return counted(state.tuples, "tuple") + keys


def _compare(console: Console, runs: Mapping[str, ReplayResult]) -> bool:
    _headline(console, "The answers")
    table = grid("run", "rows", "checksum (of any order)", right={"rows"})
    for name, result in runs.items():
        table.add_row(name, f"{result.table.num_rows:,}", f"{checksum(result.table):016x}")
    show(console, table)
    reference, *others = (
        result.table.sort_by([(c, "ascending") for c in result.table.column_names]) for result in runs.values()
    )
    same = all(other.equals(reference) for other in others)
    if same:
        console.print("\nThe same rows every time: a plan changes what an answer costs, not what it is.")
    else:
        console.print("\nThe answers differ. That is a defect.", style="bold red")
    return same


def checksum(table: pa.Table) -> int:
    """A 64-bit sum over the rows of a table of integers; their order leaves no trace.

    >>> import pyarrow as pa
    >>> one, other = pa.table({"x": [1, 2], "y": [3, 4]}), pa.table({"x": [2, 1], "y": [4, 3]})
    >>> checksum(one) == checksum(other), checksum(one) == checksum(one.slice(1))
    (True, False)
    """
    import numpy as np

    mixed = np.zeros(table.num_rows, np.uint64)
    for column in table.columns:
        mixed = (mixed ^ column.to_numpy().astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(32)
    return int(mixed.sum(dtype=np.uint64))


def _headline(console: Console, text: str) -> None:
    console.print(f"\n{text}", style="bold")
    console.print("─" * len(text))


def _indented(text: str) -> str:
    return "".join(f"    {line}\n" for line in text.splitlines())
