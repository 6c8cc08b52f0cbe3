"""What a command to a running query may say."""

from __future__ import annotations

import json
import time
from typing import Any, get_args

from thalweg.errors import OptionError
from thalweg.options import States

Command = dict[str, Any]

_ARGUMENTS = {"plan": {"plan", "states"}, "adapt": set[str](), "end": set[str]()}
"""Each command with its own arguments; ``query`` says for which query it is, ``at`` when it was sent."""


def now() -> str:
    """The time, as commands carry it: texts of equal length, in order."""
    return f"{time.time_ns():020d}"


def new_command(command: str, **arguments: Any) -> Command:
    """A command to be sent now."""
    given = {name: value for name, value in arguments.items() if value is not None}
    return check({"at": now(), "command": command, **given})


def parse_command(text: str) -> Command:
    """The command of a text; an error if it is none."""
    try:
        command = json.loads(text)
    except ValueError as error:
        raise OptionError(f"a command is a JSON object, not {text[:100]!r} ({error})") from error
    return check(command)


def check(command: Any) -> Command:
    """The command itself, if there is one like this."""
    if not isinstance(command, dict) or not isinstance(command.get("at"), str):
        raise OptionError(
            f"a command is a JSON object with the time 'at' which it was sent, not {str(command)[:100]!r}"
        )
    name = command.get("command")
    if name not in _ARGUMENTS:
        raise OptionError(f"there is no command '{name}'. The commands are: {', '.join(_ARGUMENTS)}.")
    unknown = set(command) - _ARGUMENTS[name] - {"at", "command", "query"}
    if unknown:
        raise OptionError(f"command '{name}' has no argument '{min(unknown)}'")
    if name == "plan" and not isinstance(command.get("plan"), str):
        raise OptionError("command 'plan' needs a plan, as text: plan=\"(A B) C\"")
    if command.get("states", "auto") not in get_args(States):
        raise OptionError(f"states is one of {', '.join(get_args(States))}, not {command['states']!r}")
    return command
