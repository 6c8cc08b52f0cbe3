"""``thalweg demo``: a live plan change on generated data, explained as it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from thalweg.cli.arguments import DebugOption
from thalweg.cli.console import output
from thalweg.cli.failures import failures


def demo(
    seconds: Annotated[int, typer.Option(min=20, metavar="N", help="Seconds of generated stream time.")] = 60,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where the picture and the results go. Default: demo-out.")
    ] = None,
    in_process: Annotated[
        bool, typer.Option("--in-process", help="Without Spark: three replays, and what their states hold.")
    ] = False,
    debug: DebugOption = False,
) -> None:
    """Watch a join change its plan while it runs, with the same answer.

    Runs on a Spark on this machine and needs no files: the streams are generated.
    Takes about a minute; --in-process takes seconds. It ends with a picture,
    plan-change.svg, which any browser shows.

    \b
    Example:
      thalweg demo
      thalweg demo --in-process
    """  # noqa: D301 - \b keeps the line breaks of a paragraph
    directory = out or Path("demo-out")
    with failures(debug=debug):
        if in_process:
            from thalweg.cli import demo_replay

            same = demo_replay.tell(output(), seconds, directory)
        else:
            from thalweg.cli import demo_spark

            same = demo_spark.tell(output(), seconds, directory, debug=debug)
    if not same:
        raise typer.Exit(1)
