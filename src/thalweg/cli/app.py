"""The ``thalweg`` command and what all its subcommands share."""

from __future__ import annotations

import io
import signal
import sys
from typing import Annotated

import typer

from thalweg import __version__
from thalweg.cli.bench import bench
from thalweg.cli.check import check
from thalweg.cli.control import control
from thalweg.cli.demo import demo
from thalweg.cli.explain import explain
from thalweg.cli.queries import deregister, queries, register
from thalweg.cli.replay import replay
from thalweg.cli.run import run

app = typer.Typer(
    name="thalweg",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (run, control, check, register, deregister, queries, replay, explain, demo, bench):
    app.command()(command)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"thalweg {__version__}")
        raise typer.Exit


@app.callback()
def thalweg(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Windowed joins of many streams, under a plan that can change at any moment while they run.

    New here? `thalweg demo` shows a live plan change on generated data, in less than a minute.
    """


def main() -> None:
    """Entry point of the ``thalweg`` command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without ⋈ gets a '?', not a traceback
    try:
        app()
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the end is near, and clearing up is part of it
