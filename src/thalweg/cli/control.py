"""``thalweg control``: commands to a query that runs."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from thalweg.cli.arguments import DebugOption, StatesChoice
from thalweg.cli.console import output
from thalweg.cli.failures import failures


class Command(StrEnum):
    """What a running query can be told."""

    PLAN = "plan"
    ADAPT = "adapt"
    BUDGET = "budget"
    END = "end"
    CANCEL = "cancel"


_EXAMPLES = {Command.PLAN: 'plan "(A B) C"', Command.BUDGET: 'budget "60%"'}
"""Commands with a value."""


def control(
    directory: Annotated[
        str,
        typer.Argument(
            metavar="DIRECTORY",
            help="Of the run: its --directory, or CHECKPOINT/thalweg. Of an app: its directory, a path or an address.",
        ),
    ],
    command: Annotated[
        Command, typer.Argument(metavar="COMMAND", help="plan, with a plan; budget, with one; adapt; end; or cancel.")
    ],
    value: Annotated[
        str | None,
        typer.Argument(
            metavar="[VALUE]",
            help='For plan: a plan such as "(B C) A". For budget: probes per second of event time, "60%", auto, none.',
        ),
    ] = None,
    states: Annotated[
        StatesChoice | None, typer.Option(help="For plan: which intermediate states to keep. Default: as the run does.")
    ] = None,
    query: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The one query that is to obey: its name, or Spark's id. Default: all."),
    ] = None,
    debug: DebugOption = False,
) -> None:
    """Send a command to a query that `thalweg run` or an App runs.

    plan changes the join order with the next batch, without a stall, and the
    answer stays the same. The query keeps that plan until adapt lets it choose
    again. end says that the input is complete: windows that only time would end
    are ended, and whatever comes later is late. That is final: the query does
    not start again from its checkpoint. cancel takes back what was sent
    before it, if the query has not obeyed that yet. budget is for a query that
    was begun with a --budget or a --target-trigger; none refuses nothing.

    \b
    Example:
      thalweg run abc.cql --source A=a/ --source B=b/ --source C=c/ --sink out/ &
      thalweg control out/_checkpoint/thalweg plan "(B C) A"
      thalweg control out/_checkpoint/thalweg adapt
      thalweg control out/_checkpoint/thalweg budget "60%"
      thalweg control out/_checkpoint/thalweg end
      thalweg control out/_checkpoint/thalweg cancel
    """  # noqa: D301 - \b keeps the line breaks of a paragraph
    if (command in _EXAMPLES) != (value is not None):
        wanted = f"no value after '{command}'" if value is not None else f"a {command}, as in: {_EXAMPLES[command]}"
        raise typer.BadParameter(f"there must be {wanted}.", param_hint="VALUE")
    if states is not None and command is not Command.PLAN:
        raise typer.BadParameter(f"has no meaning for '{command}'.", param_hint="--states")
    with failures(debug=debug):
        from thalweg.spark.command_files import files_of
        from thalweg.spark.commands import new_command
        from thalweg.spark.receivers import checked, known_receivers

        _check_directory(directory)
        files = files_of(directory)
        receivers = known_receivers(files)
        wanted_states = states.value if states is not None else None
        given = {} if value is None else {command.value: value}
        message = checked(new_command(command.value, **given, states=wanted_states, query=query), receivers)
        file = files.send(message)
        names = list(dict.fromkeys(each.query for each in receivers))
        receiver = message.get("query") or (", ".join(names) if names else "the query")
        verb = "it obeys with its" if len(names) < 2 or query is not None else "they obey with their"
        output().print(f"sent to {receiver}: {verb} next batch ({file})", soft_wrap=True)


def _check_directory(address: str) -> None:
    from thalweg.errors import InputError

    if "://" not in address and not (Path(address) / "control").is_dir():
        raise InputError(
            f"no query reads commands from {address}. Give the --directory of `thalweg run`; "
            "without that option it is CHECKPOINT/thalweg."
        )
