"""Lengths of time, as people write them, in microseconds.

Windows, ``FRESHNESS``, ``INTERVAL`` literals and the lateness option all read lengths
with the one table below. Units longer than a week have no fixed length, so
they are no measure of a window.
"""

from __future__ import annotations

import re
from fractions import Fraction

from thalweg.errors import OptionError

MICROSECONDS: dict[str, int] = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}
_SHORT = {
    "us": "microsecond",
    "\N{MICRO SIGN}s": "microsecond",
    "\N{GREEK SMALL LETTER MU}s": "microsecond",
    "ms": "millisecond",
    "s": "second",
    "sec": "second",
    "secs": "second",
    "min": "minute",
    "mins": "minute",
    "h": "hour",
    "hr": "hour",
    "hrs": "hour",
    "d": "day",
}
UNITS: dict[str, int] = {
    **MICROSECONDS,
    **{f"{unit}s": microseconds for unit, microseconds in MICROSECONDS.items()},
    **{short: MICROSECONDS[unit] for short, unit in _SHORT.items()},
}
_UNFIXED = frozenset(
    {"month", "months", "mon", "mons", "quarter", "quarters", "year", "years", "yr", "yrs", "decade", "century"}
)

LONGEST_US = 2**62
"""Longer lengths could overflow when they are added to a time."""

_PART = re.compile(r"\s*([+-]?\s*(?:\d{1,30}(?:\.\d{0,30})?|\.\d{1,30}))\s*([^\W\d_]+)\s*")
_SHOWN = ("week", "day", "hour", "minute", "second", "millisecond", "microsecond")


def measure(text: str) -> int:
    """The microseconds of a length of time; may be zero or negative.

    >>> measure("1 hour 30 minutes"), measure("1.5s"), measure("INTERVAL '20' MILLISECONDS")
    (5400000000, 1500000, 20000)
    """
    bare = re.sub(r"\A\s*interval\b", "", text, flags=re.IGNORECASE).replace("'", " ").replace('"', " ")
    total = Fraction(0)
    position = 0
    while position < len(bare.rstrip()):
        part = _PART.match(bare, position)
        if part is None:
            raise OptionError(f"'{_shorten(text)}' is not a length of time; write a number and a unit, as in 5 seconds")
        number, unit = part.groups()
        total += Fraction("".join(number.split())) * unit_us(unit)
        position = part.end()
    if position == 0:
        raise OptionError("a length of time is missing; write a number and a unit, as in 5 seconds")
    if total.denominator != 1:
        raise OptionError(f"'{_shorten(text)}' is not a whole number of microseconds")
    if abs(total) > LONGEST_US:
        raise OptionError(f"'{_shorten(text)}' is longer than any stream; the longest is {LONGEST_US} microseconds")
    return int(total)


def unit_us(unit: str) -> int:
    """The microseconds of a unit, long or short, in any case."""
    microseconds = UNITS.get(unit.lower())
    if microseconds is not None:
        return microseconds
    if unit.lower() in _UNFIXED:
        raise OptionError(f"a {unit.lower().rstrip('s')} has no fixed length; write days instead")
    raise OptionError(f"unknown unit of time '{_shorten(unit)}'; the units are {', '.join(MICROSECONDS)}")


def parse_interval(text: str) -> int:
    """The microseconds of an option's length of time, zero or more.

    >>> parse_interval("5 seconds")
    5000000
    >>> parse_interval("500 ms")
    500000
    """
    if not isinstance(text, str):
        raise OptionError(f"a length of time is a text such as '5 seconds', not {text!r}")
    microseconds = measure(text)
    if microseconds < 0:
        raise OptionError(f"'{_shorten(text)}' is negative; a length of time is zero or more")
    return microseconds


def interval_option(option: str, text: str) -> int:
    """The same, of an option of this name: errors speak of it."""
    try:
        return parse_interval(text)
    except OptionError as error:
        raise OptionError(f"option {option} is '{text}': {error}") from error


def whole_units(microseconds: int) -> tuple[int, str]:
    """A length in the largest unit that measures it in whole numbers.

    >>> whole_units(90_000_000)
    (90, 'second')
    """
    for unit in _SHOWN:
        if microseconds and microseconds % MICROSECONDS[unit] == 0:
            return microseconds // MICROSECONDS[unit], unit
    return 0, "microsecond"


def format_interval(microseconds: int) -> str:
    """A length as a person would write it.

    >>> format_interval(300_000_000), format_interval(1_000_000), format_interval(1_500_000)
    ('5 minutes', '1 second', '1500 milliseconds')
    """
    number, unit = whole_units(microseconds)
    return f"{number} {unit}" if abs(number) == 1 else f"{number} {unit}s"


def _shorten(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= 40 else flat[:37] + "..."
