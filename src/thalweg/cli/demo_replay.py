"""The in-process story of ``thalweg demo``: three runs over the same data, one of which changes its plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from thalweg.cli.console import activity, grid, show
from thalweg.cli.demo_text import checksum, headline, introduce, same_rows
from thalweg.cli.render import counted, duration

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import Console

    from thalweg.replayer import ReplayResult, StateSize

_SECOND_US = 1_000_000
_KEPT = """
All intermediate results are kept here, as in a classic pipeline of joins, so
that there are states to look at."""


def tell(console: Console, seconds: int) -> bool:
    """Run everything and tell about it; whether all answers were the same."""
    from thalweg.cli import demo_data as shop
    from thalweg.engine.compilation import ready_kernels

    streams = shop.streams(seconds)
    noon = shop.position(streams, shop.NOON_US)
    to_second = (noon, shop.AFTER_NOON)
    introduce(console, streams, seconds)
    ready_kernels()
    console.print(_KEPT)
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


def _explain(console: Console, streams: Mapping[str, pa.Table]) -> None:
    from thalweg.cli import demo_data as shop
    from thalweg.cql import Source, bind
    from thalweg.explainer import statistics_of
    from thalweg.plan.explain import explain_text
    from thalweg.plan.join_graph import JoinGraph
    from thalweg.plan.search import resolve_plan

    (query,) = bind(shop.QUERY, {name: Source(table.schema, "ts") for name, table in streams.items()})
    statistics = statistics_of(query, streams)
    plan = resolve_plan(shop.BEFORE_NOON, JoinGraph.of(query), query.aliases, statistics, "all")
    headline(console, "The plan for the morning")
    console.print(explain_text(query, plan, statistics).rstrip(), soft_wrap=True)


def _show_runs(console: Console, noon: int, runs: Mapping[str, ReplayResult]) -> None:
    headline(console, "Three runs over the same data")
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
    headline(console, "What the states hold around the change")
    names = list(dict.fromkeys(state.name for result in moments.values() for state in result.summary.states))
    table = grid("state", *moments, right=moments)
    for name in names:
        held = ({s.name: s for s in result.summary.states}.get(name) for result in moments.values())
        table.add_row(name, *(_contents(state) for state in held))
    show(console, table)
    console.print(
        f"""
The base windows stay as they are, and so does a⋈c⋈o, which both plans keep. a⋈c
is dropped; c⋈o starts empty, and each of its keys is completed from the base
windows when a tuple first asks for it ({completions:,} times in this run). So nothing
waits for the change, and nobody pays for keys that nobody asks for."""
    )


def _contents(state: StateSize | None) -> str:
    if state is None:
        return "-"
    keys = "" if state.live_keys is None else f", {counted(state.live_keys, 'key')} live"
    return counted(state.tuples, "tuple") + keys


def _compare(console: Console, runs: Mapping[str, ReplayResult]) -> bool:
    headline(console, "The answers")
    table = grid("run", "rows", "checksum (of any order)", right={"rows"})
    for name, result in runs.items():
        table.add_row(name, f"{result.table.num_rows:,}", f"{checksum(result.table):016x}")
    show(console, table)
    reference, *others = (result.table for result in runs.values())
    same = all(same_rows(other, reference) for other in others)
    if same:
        console.print("\nThe same rows every time: a plan changes what an answer costs, not what it is.")
    else:
        console.print("\nThe answers differ. That is a defect.", style="bold red")
    return same
