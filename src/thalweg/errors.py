"""Every error that thalweg raises on purpose, under one base class, and its one kind of warning.

An error text says what is wrong, where (line and column for query texts), the
value at fault, and what to do about it.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_PACKAGE = str(Path(__file__).parent)


@dataclass(frozen=True, slots=True)
class Location:
    """A place in a query text; both numbers count from 1."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}"


class ThalwegError(Exception):
    """Base class of all errors raised by thalweg."""


class QueryError(ThalwegError):
    """Something in a query text is wrong; says where and what to do.

    >>> print(QueryError("stream 'bids' has no window", Location(3, 14), "Write bids [RANGE 10 SECONDS]."))
    stream 'bids' has no window (line 3, column 14). Write bids [RANGE 10 SECONDS].
    """

    def __init__(self, what: str, location: Location | None = None, hint: str = "") -> None:
        self.what = what
        self.location = location
        self.hint = hint
        where = f" ({location})" if location else ""
        super().__init__(f"{what}{where}." + (f" {hint}" if hint else ""))


class ParseError(QueryError):
    """The text is not a query."""


class BindError(QueryError):
    """The query names or combines things that do not exist or do not fit."""


class UnsupportedError(QueryError):
    """Valid SQL that has no meaning over windowed streams here."""


class PlanError(ThalwegError):
    """A plan text that does not fit the query, or a transition that cannot happen."""


class AllocationError(ThalwegError):
    """A budget that cannot be divided: the numbers, the policy or the budget itself do not fit."""


class FreshnessError(AllocationError):
    """Freshness that no allocation holds.

    Attributes:
        least: per stream, the least freshness in seconds that can be held instead.

    """

    def __init__(self, text: str, least: tuple[float, ...]) -> None:
        self.least = least
        super().__init__(text)


class OptionError(ThalwegError):
    """An unknown option, or a value that the option cannot take."""


class InputError(ThalwegError):
    """A table, file or row that cannot be read as the stream it is given for."""


class ReaderError(InputError):
    """Queries of a group that cannot be computed for some row; the others can.

    Attributes:
        reasons: by the name of each of them, why.

    """

    def __init__(self, reasons: Mapping[str, str]) -> None:
        self.reasons = dict(reasons)
        super().__init__("; ".join(f"query '{name}': {reason}" for name, reason in self.reasons.items()))


class CheckpointError(ThalwegError):
    """A checkpoint that this query cannot go on from; says what differs and what is possible."""


class OutboxError(ThalwegError):
    """An outbox that cannot be written or read as asked; says where it is and what is possible."""


class JavaError(ThalwegError):
    """No Java that Spark can run on; says which were tried and what was wrong with each."""


class InputWarning(UserWarning):
    """Input that is taken, but may not mean what its owner thinks; silence or raise it with :mod:`warnings`."""


def warn(text: str) -> None:
    """Warn about input, at the line outside of thalweg that passed it."""
    level = 2
    while level < 100 and _is_ours(level):
        level += 1
    warnings.warn(text, InputWarning, stacklevel=level)


def _is_ours(level: int) -> bool:
    """Whether the caller so many frames above :func:`warn` is a function of thalweg."""
    try:
        return sys._getframe(level).f_code.co_filename.startswith(_PACKAGE)
    except ValueError:
        return False
