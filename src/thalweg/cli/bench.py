"""``thalweg bench``: run an experiment, show what it measured and which bars it reached."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from thalweg.cli.arguments import DebugOption, ScaleChoice
from thalweg.cli.console import activity, grid, output, show
from thalweg.cli.failures import failures

if TYPE_CHECKING:
    from rich.console import Console

    from thalweg.experiments import Document


def bench(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="The experiment; without it, list them.")] = None,
    scale: Annotated[
        ScaleChoice,
        typer.Option(help="quick: minutes; paper: the sizes of the papers, which may take hours."),
    ] = ScaleChoice.QUICK,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Also write what was measured as JSON, part by part.")
    ] = None,
    plots: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Also draw figures into this directory, if the experiment has any."),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Measure with this file's data, if the experiment can; else it makes its own."
        ),
    ] = None,
    debug: DebugOption = False,
) -> None:
    """Run an experiment; show what it measured and which bars it reached.

    Every experiment checks its answers before it reports a time.

    \b
    Example:
      thalweg bench
      thalweg bench engine --scale quick --json engine.json
      thalweg bench jisc --json jisc.json --plots figures/
      thalweg bench jaqpot --data intel_lab.parquet
    """  # noqa: D301 - \b keeps the line breaks of a paragraph
    from thalweg.experiments import EXPERIMENTS

    if name is None:
        _list(output(), {known: experiment.summary for known, experiment in EXPERIMENTS.items()})
        return
    if name not in EXPERIMENTS:
        close = difflib.get_close_matches(name, EXPERIMENTS, n=1)
        hint = f"Did you mean {close[0]}?" if close else f"They are: {', '.join(EXPERIMENTS)}."
        raise typer.BadParameter(f"there is no experiment '{name}'. {hint}", param_hint="NAME")
    experiment = EXPERIMENTS[name]
    if plots is not None and experiment.plot is None:
        drawn = ", ".join(known for known, each in EXPERIMENTS.items() if each.plot is not None)
        raise typer.BadParameter(f"experiment '{name}' draws no figures. Those that do: {drawn}.", param_hint="--plots")
    if data is not None and experiment.run_on is None:
        taking = ", ".join(known for known, each in EXPERIMENTS.items() if each.run_on is not None)
        raise typer.BadParameter(f"experiment '{name}' takes no data. Those that do: {taking}.", param_hint="--data")
    with failures(debug=debug):
        from thalweg.experiments.report import render
        from thalweg.files import atomically, check_place

        if json_file is not None:
            check_place(json_file)  # minutes of measuring should not end at a typing error
        if plots is not None:
            _check_plots(plots)

        def keep(document: Document) -> None:
            if json_file is not None:
                with atomically(json_file) as partial:
                    partial.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")

        with activity(lines=True) as report:
            if data is not None and experiment.run_on is not None:
                document = experiment.run_on(scale.value, report, keep, data)
            else:
                document = experiment.run(scale.value, report, keep)
        keep(document)
        show(output(), render(document))
        if plots is not None and experiment.plot is not None:
            experiment.plot(document, plots)


def _check_plots(directory: Path) -> None:
    """That figures can be drawn there."""
    from importlib.util import find_spec

    from thalweg.errors import InputError

    if find_spec("matplotlib") is None:
        raise InputError("figures are drawn by matplotlib, which is not installed. Try: pip install 'thalweg[plots]'")
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot draw figures into {directory}: {error.strerror or error}") from error


def _list(console: Console, summaries: Mapping[str, str]) -> None:
    table = grid("experiment", "what it shows")
    for name, summary in summaries.items():
        table.add_row(name, summary)
    show(console, table)
