"""The in-process story of ``thalweg demo``: three runs over the same data, one of which changes its plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from thalweg.cli.console import activity, grid, show
from thalweg.cli.demo_picture import Line, Panel, write_picture
from thalweg.cli.demo_text import checksum, headline, introduce, same_rows
from thalweg.cli.render import counted, duration

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import Console

    from thalweg.replayer import ReplayResult, StateSize

_SECOND_US = 1_000_000
_ROUNDS = 3
"""Each run takes a tenth of a second, so the best of several is shown."""
_KEPT = """
All intermediate results are kept here, as in a classic pipeline of joins, so
that there are states to look at."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """A replay, and its work after each batch: (tuples done, entries stored, keys completed)."""

    result: ReplayResult
    work: tuple[tuple[int, int, int], ...]


def tell(console: Console, seconds: int, out: Path) -> bool:
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
        doing("running the first plan, the second plan, and a live plan change")
        rounds = [
            {
                "first plan": replayed(streams, shop.BEFORE_NOON),
                "second plan": replayed(streams, shop.AFTER_NOON),
                "live change": replayed(streams, shop.BEFORE_NOON, to_second),
            }
            for _ in range(_ROUNDS)
        ]
    runs = {
        name: min((each[name] for each in rounds), key=lambda run: run.result.summary.seconds) for name in rounds[0]
    }
    changing = runs["live change"]
    _show_runs(console, noon, {name: run.result for name, run in runs.items()})
    with activity() as doing:
        doing("looking at the states around noon")
        moments = {
            "just before noon": replayed(shop.until(streams, shop.NOON_US), shop.BEFORE_NOON).result,
            "one second after": replayed(
                shop.until(streams, shop.NOON_US + _SECOND_US), shop.BEFORE_NOON, to_second
            ).result,
            "at the end": changing.result,
        }
    keys = shop.keys_in_windows(streams, shop.NOON_US)
    _show_states(console, moments, changing.result.summary.completions, keys)
    same = _compare(console, {name: run.result for name, run in runs.items()})
    file = draw(out, noon, runs)
    console.print(f"\nA picture of the three runs: {file}")
    return same


def replayed(streams: Mapping[str, pa.Table], plan: str, *changes: tuple[int, str]) -> Replayed:
    from thalweg.cli import demo_data as shop
    from thalweg.replayer import open_replay

    options = {"plan": plan, "states": "all", "batch_size": 2 * shop.RATE}
    replay = open_replay(shop.QUERY, streams, options=options, transitions=changes)
    steps = ((done, replay.driver.bucket.work) for done in replay.steps())
    work = [(0, 0, 0), *((done, total.stored, total.completions) for done, total in steps)]
    return Replayed(replay.result(), tuple(work))


def draw(out: Path, noon: int, runs: Mapping[str, Replayed]) -> Path:
    """Draw what each run stored, second by second, and what the one with a plan change completed."""
    styles = {"first plan": ("#57606a", True), "second plan": ("#bc4c00", True), "live change": ("#0969da", False)}
    stored = [Line(name, color, _rates(runs[name], noon, 1), dashed) for name, (color, dashed) in styles.items()]
    completed = [Line("live change", "#0969da", _rates(runs["live change"], noon, 2))]
    panels = [
        Panel("intermediate results stored per second of the streams", stored),
        Panel("keys completed per second of the streams", completed),
    ]
    return write_picture(out, "A plan change while the join runs: same answer, less work", panels)


def _rates(run: Replayed, noon: int, what: int) -> list[tuple[float, float]]:
    """(Seconds from noon, how much per second) for each batch, but the one that noon is in."""
    from thalweg.cli import demo_data as shop

    second, rates = shop.second, []
    for before, after in pairwise(run.work):
        is_short = after[0] - before[0] < shop.RATE  # what is left at the end, too little to tell a rate
        if not (is_short or before[0] < noon < after[0]):
            begin, end = second(before[0] - noon), second(after[0] - noon)
            rates.append(((begin + end) / 2, (after[what] - before[what]) / (end - begin)))
    return rates


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
time: the best of {_ROUNDS} rounds. stored: intermediate results put into states, the
work that a good plan avoids. Noon comes after {noon:,} tuples."""
    )


def _show_states(console: Console, moments: Mapping[str, ReplayResult], completions: int, keys: int) -> None:
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
is dropped. c⋈o begins young: it stores new results, and lacks those that clicks
and orders from before noon make. At noon it lacked {keys:,} keys. A key is completed
from the windows when an ad first asks for it. That happened {completions:,} times in
this run. Nobody asked for the other keys, and nobody computed them: nothing
waits for the change."""
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
