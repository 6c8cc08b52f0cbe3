"""What is wrong with a value that a user gave, in words that name the option."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from thalweg.errors import OptionError

_LONGEST_TEXT = 60


def check_names(given: Mapping[str, Any], settings: type[Any], what: str) -> None:
    """An error for a name that there is not, with the nearest one that there is."""
    known = [field.name for field in fields(settings)]
    for name in given:
        if name not in known:
            close = difflib.get_close_matches(str(name), known, n=1)
            hint = f"Did you mean '{close[0]}'?" if close else f"Known are {', '.join(known)}."
            raise OptionError(f"unknown {what} '{name}'. {hint}")


def shown(value: object) -> str:
    """A value for an error text, which may be longer than anybody wants to read."""
    text = repr(value)
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}..."


def check_weight(weight: object) -> None:
    """An error unless this can be the weight of a query."""
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 < weight < float("inf"):
        raise OptionError(
            f"option weight is a number greater than 0, or one for each name of a query, not {shown(weight)}"
        )


def check_text(name: str, value: object, what: str) -> None:
    """An error unless it is a text, or None."""
    if value is not None and not isinstance(value, str):
        raise OptionError(f"option {name} is {what}, or None, not {shown(value)}")


def check_least(name: str, value: object, least: int) -> None:
    """An error unless a setting of adaptive is a number of at least so much."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise OptionError(f"setting {name} of adaptive is a number, at least {least}, not {value!r}")


def check_share(name: str, value: object, below: float) -> None:
    """An error unless a setting of adaptive is a share below so much."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < below:
        most = "" if below == float("inf") else f" and less than {below:g}"
        raise OptionError(f"setting {name} of adaptive is a share, at least 0{most}, not {value!r}")


def check_one_of(name: str, value: object, allowed: tuple[str, ...]) -> None:
    """An error unless it is one of these words."""
    if value not in allowed:
        raise OptionError(f"option {name} is one of {', '.join(allowed)}, not {value!r}")
