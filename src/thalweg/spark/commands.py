"""What a command to a running query may say, and which commands of a batch a query obeys.

Everything here is total: whatever a file holds, it is a command, or there is one short text that says why it is none.
A command is part of its batch for ever, so one that raised an error would stop every restart too.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import astuple, dataclass
from typing import Any, get_args

from thalweg.errors import OptionError
from thalweg.settings import Budget, States

Command = dict[str, Any]
Decisive = tuple[str, str | None]
"""An ``end`` or a ``cancel``, and the query that it is for."""

STARTED = "started"
"""What stands among the commands of a batch if it is the first one after a start."""

PRICES = "prices "
"""What stands before the prices that come with the commands of a batch (:mod:`thalweg.spark.prices`)."""

_ARGUMENTS = {
    "plan": {"plan", "states"},
    "adapt": set[str](),
    "budget": {"budget"},
    "enter": {"name", "text"},
    "leave": {"name", "since"},
    "end": set[str](),
    "cancel": set[str](),
}
"""Each command with its own arguments; ``query`` says for which query it is.

``since`` is sent by an outbox: the query of this name that entered with this batch has failed. One that came later
under the name stays."""
_OF_ALL = {"command", "query", "at"}
"""``at`` is the time that former versions wrote into a command. It has no meaning any more."""

_LONGEST_NAME, _LONGEST_REASON = 80, 300
"""Characters of a refusal: it goes into the metrics of every bucket."""
_LONGEST_EXCERPT = 60

_JSON_NAMES = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "null"}


@dataclass(frozen=True, order=True, slots=True)
class Sent:
    """A command file as a batch holds it.

    Attributes:
        position: its place among the commands of the batch.
        file: its name.
        text: what it says.
        problem: why it could not be read; None: it could.

    """

    position: int
    file: str
    text: str
    problem: str | None = None

    def to_json(self) -> str:
        return json.dumps(astuple(self))

    @staticmethod
    def from_json(text: str) -> Sent:
        return Sent(*json.loads(text))


def new_command(command: str, **arguments: Any) -> Command:
    """A command to be sent now."""
    return check({"command": command, **{name: value for name, value in arguments.items() if value is not None}})


def parse_command(text: str) -> Command:
    """The command of a text; an :class:`OptionError` if it is none."""
    if not text.strip():
        raise OptionError("a command is a JSON object, and the file is empty")
    try:
        command = json.loads(text, object_pairs_hook=_distinct)
    except RecursionError as error:
        raise OptionError("a command is a JSON object, and this one is nested too deeply") from error
    except ValueError as error:
        raise OptionError(f"a command is a JSON object, not {_excerpt(text)} ({error})") from error
    return check(command)


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object each of whose names stands once."""
    named = dict(pairs)
    if len(named) < len(pairs):
        names = [name for name, _ in pairs]
        double = next(name for name in names if names.count(name) > 1)
        raise OptionError(f"{_excerpt(double)} stands there more than once")
    return named


def check(command: Any) -> Command:
    """The command itself, if there is one like this."""
    if not isinstance(command, dict):
        raise OptionError(f"a command is a JSON object, not {_kind(command)}")
    name = command.get("command")
    if not isinstance(name, str) or name not in _ARGUMENTS:
        given = "the object names none" if "command" not in command else f"there is no command {_shown(name)}"
        raise OptionError(f"{given}. The commands are: {', '.join(_ARGUMENTS)}.")
    unknown = set(command) - _ARGUMENTS[name] - _OF_ALL
    if unknown:
        raise OptionError(f"command '{name}' has no argument {_excerpt(min(unknown))}")
    if name == "plan" and not isinstance(command.get("plan"), str):
        raise OptionError("command 'plan' needs a plan, as text: plan=\"(A B) C\"")
    if name == "budget":
        _check_budget(command.get("budget"))
    for argument in sorted(_ARGUMENTS[name] & {"name", "text"}):
        if not isinstance(command.get(argument), str) or not command[argument].strip():
            raise OptionError(f"command '{name}' needs a {argument}, as text")
    since = command.get("since", 0)
    if not isinstance(since, int) or isinstance(since, bool):
        raise OptionError(f"command 'leave' has the number of a batch as since, not {_kind(since)}")
    if command.get("states", "auto") not in get_args(States):
        raise OptionError(f"states is one of {', '.join(get_args(States))}, not {_shown(command['states'])}")
    if not isinstance(command.get("query", ""), str):
        raise OptionError(f"query is the name or the id of a query, as text, not {_kind(command['query'])}")
    return command


def _check_budget(budget: Any) -> None:
    """An error if this is no budget: a number, "60%", "auto", or "none", which lifts it."""
    known = isinstance(budget, int) and not isinstance(budget, bool)
    try:
        if not known and not isinstance(budget, str):
            raise OptionError("")
        Budget.parse(str(budget))
    except (OptionError, ValueError) as error:
        raise OptionError(
            "command 'budget' needs a budget: a number of probes per second of event time, or a text such as '60%', "
            f"'auto' or 'none', not {_excerpt(str(budget)) if known or isinstance(budget, str) else _kind(budget)}"
        ) from error


def for_query(sent: Iterable[Sent], names: Collection[str]) -> tuple[list[tuple[str, Command]], list[str]]:
    """The commands of a batch that a query of these names is to obey, in order, each with its file; and refusals.

    What was sent before the last ``cancel`` is taken back by it.
    """
    mine: list[tuple[str, Command]] = []
    refused: list[str] = []
    for each in sorted(sent):
        try:
            if each.problem is not None:
                raise OptionError(each.problem)
            command = parse_command(each.text)
        except OptionError as error:
            refused.append(refusal(each.file, str(error)))
            continue
        if command.get("query") is None or command["query"] in names:
            mine.append((each.file, command))
    cancels = [place for place, (_, command) in enumerate(mine) if command["command"] == "cancel"]
    if not cancels:
        return mine, refused
    last = cancels[-1]
    if last == 0:
        reason = "there is nothing to cancel. Commands that were sent before have been obeyed, or there were none."
        refused.append(refusal(mine[0][0], reason))
    return mine[last + 1 :], refused


def decisive(sent: Iterable[Sent], name: str) -> list[Decisive]:
    """Of the commands of a batch those that decide whether the input ends: each with the query that it is for.

    None: for every query, or for the one of this ``name``. It may be called otherwise later.
    """
    found: list[Decisive] = []
    for each in sorted(sent):
        try:
            command = {} if each.problem is not None else parse_command(each.text)
        except OptionError:
            continue
        if command.get("command") in ("end", "cancel"):
            query = command.get("query")
            found.append((command["command"], None if query == name else query))
    return found


def ends_input(commands: Iterable[Sequence[str | None]], query_id: str | None = None) -> bool:
    """Whether the decisive commands of a batch end the input of a query; ``query_id`` is Spark's own.

    If that is not known, any query that a ``cancel`` names may be this one: then the input may not have ended.
    """
    is_unknown = query_id is None
    mine = [
        command
        for command, query in commands
        if query is None or query == query_id or (is_unknown and command == "cancel")
    ]
    return "end" in mine[len(mine) - mine[::-1].index("cancel") :] if "cancel" in mine else "end" in mine


def refusal(file: str, reason: str) -> str:
    """The text by which a command is refused: printable, in one line, and short."""
    return f"{_printable(file, _LONGEST_NAME)}: {_printable(reason, _LONGEST_REASON)}"


def _kind(value: Any) -> str:
    """What a value is. The value itself may be nested too deeply to be shown."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return "a number"
    return _JSON_NAMES.get(type(value), f"a {type(value).__name__}")


def _shown(value: Any) -> str:
    return _excerpt(value) if isinstance(value, str) else f"that is {_kind(value)}"


def _excerpt(text: str) -> str:
    return f"'{_printable(text, _LONGEST_EXCERPT)}'"


def _printable(text: str, most: int) -> str:
    r"""A text of at most so many characters that any terminal can show.

    >>> _printable("a\nb\udc80", 20), _printable("abcdef", 5)
    ('a\\nb\\udc80', 'ab...')
    """
    # What does not fit is not looked at: a text may have 64 KiB.
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text[: most + 1])
    return shown if len(shown) <= most else f"{shown[: most - 3]}..."
