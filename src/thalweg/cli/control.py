"""``thalweg control``: commands to a query that runs."""

from __future__ import annotations

import json
import re
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from thalweg.cli.arguments import DebugOption, StatesChoice
from thalweg.cli.console import output
from thalweg.cli.failures import failures

if TYPE_CHECKING:
    from thalweg.cql.query import Query

_ABOUT = "query.json"
_NAME = re.compile(r"`[^`]+`|[^\s():;`]+")


class Command(StrEnum):
    """What a running query can be told."""

    PLAN = "plan"
    ADAPT = "adapt"
    END = "end"
    CANCEL = "cancel"


def control(
    directory: Annotated[
        str,
        typer.Argument(
            metavar="DIRECTORY",
            help="Of the run: its --directory, or CHECKPOINT/thalweg. Of an app: its directory, a path or an address.",
        ),
    ],
    command: Annotated[Command, typer.Argument(metavar="COMMAND", help="plan, with a plan; adapt; end; or cancel.")],
    plan: Annotated[str | None, typer.Argument(metavar="[PLAN]", help='For plan: a plan such as "(B C) A".')] = None,
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
    before it, if the query has not obeyed that yet.

    \b
    Example:
      thalweg run abc.cql --source A=a/ --source B=b/ --source C=c/ --sink out/ &
      thalweg control out/_checkpoint/thalweg plan "(B C) A"
      thalweg control out/_checkpoint/thalweg adapt
      thalweg control out/_checkpoint/thalweg end
      thalweg control out/_checkpoint/thalweg cancel
    """  # noqa: D301 - \b keeps the line breaks of a paragraph
    if (command is Command.PLAN) != (plan is not None):
        wanted = 'a plan, as in: plan "(A B) C"' if plan is None else f"no plan after '{command}'"
        raise typer.BadParameter(f"there must be {wanted}.", param_hint="PLAN")
    if states is not None and command is not Command.PLAN:
        raise typer.BadParameter(f"has no meaning for '{command}'.", param_hint="--states")
    with failures(debug=debug):
        from thalweg.spark.command_files import files_of
        from thalweg.spark.commands import new_command

        about = _about(directory)
        wanted_states = states.value if states is not None else None
        if plan is not None:
            check_plan(plan, wanted_states or about.get("states"), about)
        file = files_of(directory).send(new_command(command.value, plan=plan, states=wanted_states, query=query))
        receiver = query or about.get("query", "the query")
        output().print(f"sent to {receiver}: it obeys with its next batch ({file})", soft_wrap=True)


def write_about(directory: Path, query: Query, states: str) -> None:
    """Leave word of what runs, so that commands can be checked before they are sent."""
    directory.mkdir(parents=True, exist_ok=True)
    about = {"query": query.name, "kind": query.kind, "aliases": list(query.aliases), "states": states}
    (directory / _ABOUT).write_text(json.dumps(about) + "\n", encoding="utf-8")


def _about(address: str) -> dict[str, Any]:
    """What is known of the query of a directory; nothing, if an App made it."""
    from thalweg.errors import InputError

    if "://" in address:
        return {}
    directory = Path(address)
    if not (directory / "control").is_dir():
        raise InputError(
            f"no query reads commands from {directory}. Give the --directory of `thalweg run`; "
            "without that option it is CHECKPOINT/thalweg."
        )
    file = directory / _ABOUT
    about: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    return about


def check_plan(text: str, states: str | None, about: dict[str, Any]) -> None:
    """Refuse a plan that the query could not take; where its streams are unknown, one that no query could."""
    from thalweg.errors import PlanError
    from thalweg.plan.difference import parse_difference
    from thalweg.plan.tree import LinearPlan, parse_plan

    written = dict.fromkeys(name.strip("`") for name in _NAME.findall(text))
    names = about.get("aliases") or [name for name in written if name != "-"]
    if about.get("kind") == "difference" or ("kind" not in about and "-" in written):
        parse_difference(text, names)
        return
    parsed = parse_plan(text, names)
    if isinstance(parsed, LinearPlan) and states == "all":
        raise PlanError(f"plan '{text}': a linear order keeps no states, and this query is to keep all. Write a tree.")
