"""``thalweg bench``: run an experiment, show what it measured and which bars it reached."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from thalweg.cli.arguments import DebugOption, ScaleChoice
from thalweg.cli.console import activity, grid, output, show
from thalweg.cli.failures import failures

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from thalweg.experiments import Document
    from thalweg.experiments.experiment import Row, Value


def bench(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="The experiment; without it, list them.")] = None,
    scale: Annotated[
        ScaleChoice, typer.Option(help="quick: minutes; paper: the sizes that figures are quoted at.")
    ] = ScaleChoice.QUICK,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Also write what was measured as JSON.")
    ] = None,
    debug: DebugOption = False,
) -> None:
    """Run an experiment; show what it measured and which bars it reached.

    Every experiment checks its answers before it reports a time.

    \b
    Example:
      thalweg bench
      thalweg bench engine --scale quick --json engine.json
    """  # noqa: D301 - \b keeps the line breaks of a paragraph
    from thalweg.experiments import EXPERIMENTS

    if name is None:
        _list(output(), {known: experiment.summary for known, experiment in EXPERIMENTS.items()})
        return
    if name not in EXPERIMENTS:
        close = difflib.get_close_matches(name, EXPERIMENTS, n=1)
        hint = f"Did you mean {close[0]}?" if close else f"They are: {', '.join(EXPERIMENTS)}."
        raise typer.BadParameter(f"there is no experiment '{name}'. {hint}", param_hint="NAME")
    with failures(debug=debug):
        with activity(lines=True) as report:
            document = EXPERIMENTS[name].run(scale.value, report)
        if json_file is not None:
            from thalweg.files import atomically

            with atomically(json_file) as partial:
                partial.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
        print_document(output(), document)


def _list(console: Console, summaries: Mapping[str, str]) -> None:
    table = grid("experiment", "what it shows")
    for name, summary in summaries.items():
        table.add_row(name, summary)
    show(console, table)


def print_document(console: Console, document: Document) -> None:
    """What was measured, a table per part, then the claims."""
    machine = ", ".join(f"{name} {figure(value)}" for name, value in document["machine"].items())
    console.print(f"{document['bench']} ({document['scale']})", style="bold")
    console.print(machine)
    for (part, *columns), rows in groupby(document["rows"], key=lambda row: (row.get("part"), *row)):
        console.print()
        if part is not None:
            console.print(str(part), style="bold")
        show(console, _measurements([name for name in columns if name != "part"], list(rows)))
    console.print()
    claims = grid("holds", "claim", "measured", "bar", right={"measured", "bar"})
    for claim in document["claims"]:
        cells = ("yes" if claim["holds"] else "NO", claim["claim"], figure(claim["measured"]), figure(claim["bar"]))
        claims.add_row(*cells, style="" if claim["holds"] else "red")
    show(console, claims)


def _measurements(columns: list[str], rows: list[Row]) -> Table:
    table = grid(*columns, right=[name for name in columns if not any(isinstance(row[name], str) for row in rows)])
    for row in rows:
        table.add_row(*(figure(row[name]) for name in columns))
    return table


def figure(value: Value) -> str:
    """A measured value with the digits that matter.

    >>> figure(1234567), figure(2.34567), figure(1234.5), figure(0.00012), figure("M-Join"), figure(None)
    ('1,234,567', '2.35', '1,234', '0.00012', 'M-Join', '')
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return str(value)
