"""What a running query leaves word of for ``thalweg explain --live``.

The plans of its buckets, what feedback saved, the rows that were kept out, and the commands that were refused.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console

from thalweg.cli.console import grid, show
from thalweg.cli.overload import overload_rows, prices_table
from thalweg.cli.progress import Intake, Totals, intake_table, time_text
from thalweg.cli.render import counted, savings_table

_FILE = "plans.json"


def write_live(directory: Path, query: str, totals: Totals) -> None:
    """Say, after a batch, which plans the buckets have run under, and what feedback has saved since the start.

    Also how many rows of the streams were kept out since the checkpoint began, and which commands were refused of late;
    and what the last batch spent of a budget, and how fresh its results were. Times are written as ISO texts.
    """
    last = totals.last
    if last is None:
        return
    known: dict[str, Any] = {"query": query, "batch": last.number, "buckets": list(last.histories)}
    told = {
        "savings": dict(totals.savings),
        "streams": {alias: asdict(intake) for alias, intake in last.so_far.items()},
        "spending": dict(last.spending),
        "overload": list(totals.overload),
        "freshness": dict(last.freshness),
        "refused": list(last.latest_refused),
    }
    known |= {name: value for name, value in told.items() if value}
    new = directory / f"{_FILE}.new"
    new.write_text(json.dumps(known, default=dt.datetime.isoformat) + "\n", encoding="utf-8")
    new.replace(directory / _FILE)


def read_live(directory: Path) -> dict[str, Any]:
    """What was said last."""
    from thalweg.errors import InputError

    file = directory / _FILE
    if not file.exists():
        raise InputError(
            f"no query has left word of its plans in {directory}. Give the --directory of a `thalweg run` that has "
            "finished a batch; without that option it is CHECKPOINT/thalweg."
        )
    known: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return known


def print_live(console: Console, known: Mapping[str, Any]) -> None:
    """The plans as tables: for every bucket its history, how the states of its plan became complete, what it decided.

    And what feedback has saved in all buckets, since the start, the rows that were kept out, and refused commands.
    """
    from thalweg.adapt.decision import Decision

    console.print(f"{known['query']} after batch {known['batch']:,}", style="bold", soft_wrap=True)
    for bucket in known["buckets"]:
        console.print()
        console.print(f"bucket {bucket['bucket']}: {counted(bucket['changes'], 'plan change')}")
        periods = grid("from batch", "from tuple", "event time", "plan", "why", right={"from batch", "from tuple"})
        for period in bucket["periods"]:
            since = time_text(None if period["time"] is None else dt.datetime.fromisoformat(period["time"]))
            periods.add_row(f"{period['batch']:,}", f"{period['position']:,}", since, period["plan"], period["reason"])
        show(console, periods)
        states = bucket["periods"][-1]["states"] if bucket["periods"] else []
        if states:
            console.print()
            table = grid("state", "began", "entries", "live keys", "since it began", right={"entries", "live keys"})
            for state in states:
                live = "all" if state["live_keys"] is None else f"{state['live_keys']:,}"
                began = "complete" if state["complete_at_start"] else "incomplete"
                table.add_row(state["state"], began, f"{state['entries']:,}", live, _course(state))
            show(console, table)
        decisions = [Decision.from_json(each) for each in bucket.get("decisions", ())]
        if decisions:
            console.print()
            gains = "gain predicted", "observed"
            table = grid("tuple", "decision", *gains, "why", right={"tuple", *gains})
            for each in decisions:
                table.add_row(
                    f"{each.position:,}",
                    each.action,
                    _gain(each.predicted_gain),
                    _gain(each.observed_gain),
                    each.reason,
                )
            show(console, table)
    if "savings" in known:
        console.print()
        show(console, savings_table(known["savings"]))
    streams = {alias: Intake(**each) for alias, each in known.get("streams", {}).items()}
    if any(intake.late or intake.bad for intake in streams.values()):
        console.print()
        show(console, intake_table(streams))
    told = list(overload_rows(known.get("spending", {}), known.get("freshness", {})))
    if told:
        console.print()
        table = grid("last batch", "")
        for row in told:
            table.add_row(*row)
        show(console, table)
    for change in known.get("overload", ()):
        console.print()
        console.print(change, soft_wrap=True)
    if "prices" in known.get("spending", {}):
        console.print()
        show(console, prices_table(known["spending"]["prices"]))
    for text in known.get("refused", ()):
        console.print()
        console.print(f"command refused: {text}", soft_wrap=True)


def _course(state: Mapping[str, Any]) -> str:
    """How a state became complete.

    >>> _course({"course": [[100, 0], [150, 7], [900, 7]], "completed_at": 1200})
    '0 keys at tuple 100, 7 at 150, 7 at 900, all at 1,200'
    """
    points = [(position, f"{live:,}") for position, live in state.get("course", ())]
    if state.get("completed_at") is not None:
        points.append((state["completed_at"], "all"))
    told = [
        f"{live}{'' if number else ' keys'} at {'' if number else 'tuple '}{position:,}"
        for number, (position, live) in enumerate(points)
    ]
    return ", ".join(told)


def _gain(share: float | None) -> str:
    return "" if share is None else f"{share:.0%}"
