"""The queries that read commands from a directory, so that a command can be checked before it is sent.

Who makes a query leaves word of it beside the commands, in ``queries/NAME.json``. Nothing depends on these files: where
there are none, only what no query could obey is refused.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from thalweg.errors import OptionError, PlanError
from thalweg.plan.difference import parse_difference
from thalweg.plan.tree import LinearPlan, parse_plan
from thalweg.spark.command_files import CommandFiles
from thalweg.spark.commands import Command

_NAME = re.compile(r"`[^`]+`|[^\s():;`]+")


@dataclass(frozen=True, slots=True)
class Receiver:
    """A query as those know it who send commands to it.

    Attributes:
        query: its name.
        kind: ``join`` or ``difference``.
        aliases: of its streams.
        states: which states it keeps, unless a command says otherwise.

    """

    query: str
    kind: str
    aliases: tuple[str, ...]
    states: str


def leave_word(files: CommandFiles, receivers: Sequence[Receiver]) -> None:
    """Say which queries of one name there are now."""
    files.write_note(receivers[0].query, json.dumps([asdict(each) for each in receivers]))


def known_receivers(files: CommandFiles) -> list[Receiver]:
    """The queries that word was left of."""
    known = []
    for text in files.notes():
        try:
            each = [Receiver(**{**query, "aliases": tuple(query["aliases"])}) for query in json.loads(text)]
        except (ValueError, TypeError, KeyError):  # a file of somebody else, or of another version
            continue
        known += each
    return known


def checked(command: Command, receivers: Sequence[Receiver]) -> Command:
    """A command that one of these queries can obey, its query spelled as there; an error if none can."""
    wanted = command.get("query")
    if wanted is not None and receivers and not _is_id(wanted):
        named = [each for each in receivers if each.query.lower() == wanted.lower()]
        if not named:
            names = ", ".join(dict.fromkeys(each.query for each in receivers))
            raise OptionError(
                f"command '{command['command']}' is for the query '{wanted}', and there is none of that name. The "
                f"queries of this directory are: {names}. (Spark's id of a query is good, too.)"
            )
        receivers, command = named, {**command, "query": named[0].query}
    if "plan" in command:
        _check_plan(command, receivers)
    return command


def _check_plan(command: Command, receivers: Sequence[Receiver]) -> None:
    problems = []
    for receiver in receivers:
        try:
            check_plan(command["plan"], command.get("states") or receiver.states, receiver)
        except PlanError as error:
            problems.append(error)
        else:
            return
    if problems:
        raise problems[0]
    check_plan(command["plan"], command.get("states"), None)


def check_plan(text: str, states: str | None, receiver: Receiver | None) -> None:
    """Refuse a plan that a query could not take; where the query is unknown, one that no query could."""
    written = dict.fromkeys(name.strip("`") for name in _NAME.findall(text))
    names = receiver.aliases if receiver is not None else [name for name in written if name != "-"]
    if receiver.kind == "difference" if receiver is not None else "-" in written:
        parse_difference(text, names)
        return
    parsed = parse_plan(text, names)
    if isinstance(parsed, LinearPlan) and states == "all":
        raise PlanError(f"plan '{text}': a linear order keeps no states, and this query is to keep all. Write a tree.")


def _is_id(text: str) -> bool:
    """Whether this is Spark's id of a query.

    >>> _is_id("2f8d1b0a-6d3c-4a52-9d0e-1f2a3b4c5d6e"), _is_id("query1")
    (True, False)
    """
    try:
        return str(uuid.UUID(text)) == text.lower()
    except ValueError:
        return False
