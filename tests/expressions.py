"""Expressions and predicates of a test case, as data, and the text a user would write for them.

They carry no meaning here: :mod:`tests.oracle` says what they evaluate to. Every ``repr``
is Python that builds the same object again.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from decimal import Decimal
from typing import Any, Literal

Value = None | bool | int | float | str | bytes | Decimal | datetime.date
"""A plain value; timestamps are integers, microseconds since 1970."""


class Spec:
    """A repr that can be pasted and leaves out what has its default."""

    def __repr__(self) -> str:
        shown = []
        for field in fields(self):  # type: ignore[arg-type]  # every subclass is a dataclass
            value = getattr(self, field.name)
            if value != field.default:
                shown.append(f"{field.name}={value!r}")
        return f"{type(self).__name__}({', '.join(shown)})"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """What Hypothesis prints for a failing test: the same."""
        printer.text(repr(self))


@dataclass(frozen=True, repr=False)
class Col(Spec):
    alias: str
    name: str

    def __repr__(self) -> str:
        return f"Col({self.alias!r}, {self.name!r})"

    def cql(self) -> str:
        return f"{identifier(self.alias)}.{identifier(self.name)}"


@dataclass(frozen=True, repr=False)
class Lit(Spec):
    """A literal; the type tells a timestamp from a number."""

    value: Value
    type: str

    def __repr__(self) -> str:
        return f"Lit({self.value!r}, {self.type!r})"

    def cql(self) -> str:
        if self.value is None:
            return "NULL"
        if self.type == "timestamp":
            assert isinstance(self.value, int)
            return f"TIMESTAMP '{timestamp_text(self.value)}'"
        if isinstance(self.value, bytes):
            return f"X'{self.value.hex()}'"
        if self.type == "date":
            return f"DATE '{self.value}'"
        if self.type == "string":
            return f"'{self.value}'"
        if self.value != self.value or self.value in (float("inf"), float("-inf")):
            return f"CAST('{self.value}' AS DOUBLE)"
        return str(self.value).upper()


@dataclass(frozen=True, repr=False)
class Interval(Spec):
    """A span of microseconds."""

    us: int

    def __repr__(self) -> str:
        return f"Interval({self.us})"

    def cql(self) -> str:
        return f"INTERVAL {duration(self.us)}"


@dataclass(frozen=True, repr=False)
class Arith(Spec):
    """``left op right``, where ``op`` is ``+``, ``-`` or ``||``."""

    op: str
    left: Expr
    right: Expr

    def __repr__(self) -> str:
        return f"Arith({self.op!r}, {self.left!r}, {self.right!r})"

    def cql(self) -> str:
        right = f"({self.right.cql()})" if isinstance(self.right, Arith) else self.right.cql()
        return f"{self.left.cql()} {self.op} {right}"


@dataclass(frozen=True, repr=False)
class Abs(Spec):
    inner: Expr

    def __repr__(self) -> str:
        return f"Abs({self.inner!r})"

    def cql(self) -> str:
        return f"ABS({self.inner.cql()})"


@dataclass(frozen=True, repr=False)
class Agg(Spec):
    """``function(argument)``; without an argument, ``COUNT(*)``."""

    function: Literal["COUNT", "SUM", "MIN", "MAX", "AVG"]
    argument: Expr | None = None

    def cql(self) -> str:
        return f"{self.function}({self.argument.cql() if self.argument else '*'})"


@dataclass(frozen=True, repr=False)
class ResultTime(Spec):
    def cql(self) -> str:
        return "RESULT_TIME()"


Expr = Col | Lit | Interval | Arith | Abs | Agg | ResultTime


@dataclass(frozen=True, repr=False)
class Cmp(Spec):
    """``left op right``; the operators are ``= <> < <= > >=`` and the null-safe ``<=>``."""

    op: str
    left: Expr
    right: Expr

    def __repr__(self) -> str:
        return f"Cmp({self.op!r}, {self.left!r}, {self.right!r})"

    def cql(self) -> str:
        return f"{self.left.cql()} {self.op} {self.right.cql()}"


@dataclass(frozen=True, repr=False)
class Between(Spec):
    inner: Expr
    low: Expr
    high: Expr

    def cql(self) -> str:
        return f"{self.inner.cql()} BETWEEN {self.low.cql()} AND {self.high.cql()}"


@dataclass(frozen=True, repr=False)
class IsNull(Spec):
    inner: Expr

    def cql(self) -> str:
        return f"{self.inner.cql()} IS NULL"


@dataclass(frozen=True, repr=False)
class In(Spec):
    inner: Expr
    choices: tuple[Lit, ...]

    def cql(self) -> str:
        return f"{self.inner.cql()} IN ({', '.join(lit.cql() for lit in self.choices)})"


@dataclass(frozen=True, repr=False)
class StartsWith(Spec):
    """``inner LIKE 'prefix%'``."""

    inner: Expr
    prefix: str

    def cql(self) -> str:
        return f"{self.inner.cql()} LIKE '{self.prefix}%'"


@dataclass(frozen=True, repr=False)
class Not(Spec):
    inner: Pred

    def cql(self) -> str:
        return f"NOT ({self.inner.cql()})"


@dataclass(frozen=True, repr=False)
class Either(Spec):
    """``left OR right``."""

    left: Pred
    right: Pred

    def cql(self) -> str:
        return f"({self.left.cql()} OR {self.right.cql()})"


Pred = Cmp | Between | IsNull | In | StartsWith | Not | Either


def parts(node: Expr | Pred) -> Iterator[Expr | Pred]:
    """The node and everything inside it."""
    yield node
    for field in fields(node):
        value = getattr(node, field.name)
        for inner in value if isinstance(value, tuple) else (value,):
            if isinstance(inner, Spec):
                yield from parts(inner)  # type: ignore[arg-type]


def aliases_of(node: Expr | Pred) -> frozenset[str]:
    return frozenset(part.alias for part in parts(node) if isinstance(part, Col))


# Text --------------------------------------------------------------------------------

_UNITS = (
    ("DAY", 86_400_000_000),
    ("HOUR", 3_600_000_000),
    ("MINUTE", 60_000_000),
    ("SECOND", 1_000_000),
    ("MILLISECOND", 1_000),
    ("MICROSECOND", 1),
)
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_RESERVED = {"order", "select", "group", "from"}


def duration(us: int) -> str:
    """A span in the largest unit that divides it.

    >>> duration(90_000_000), duration(60_000_000), duration(1)
    ('90 SECONDS', '1 MINUTE', '1 MICROSECOND')
    """
    name, size = next((name, size) for name, size in _UNITS if (us % size == 0 and us != 0) or size == 1)
    return f"{us // size} {name}" + ("" if us == size else "S")


def timestamp_text(us: int) -> str:
    moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=us)
    return moment.isoformat(sep=" ")


def identifier(name: str) -> str:
    """A name, in backticks where it needs them."""
    return name if _PLAIN.match(name) and name.lower() not in _RESERVED else f"`{name}`"
