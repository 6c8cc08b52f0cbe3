"""What an experiment is, and the document it hands back."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypedDict

Scale = Literal["quick", "paper"]
"""How much to measure: ``quick`` is minutes, ``paper`` is the size that the figures are quoted at."""

Report = Callable[[str], None]
"""Told, in a few words, what is being done now."""

Value = str | int | float | bool | None

Row = dict[str, Value]
"""One measurement. ``part`` names the table it belongs to, the other fields are that table's columns."""


class Claim(TypedDict):
    """A bar that the experiment was asked to reach, and whether it did."""

    claim: str
    measured: float
    bar: str
    holds: bool


class Document(TypedDict):
    """What an experiment found, ready to be written as JSON."""

    bench: str
    scale: Scale
    machine: dict[str, Value]
    rows: list[Row]
    claims: list[Claim]


Keep = Callable[[Document], None]
"""Handed what was found so far, whenever a part of a long experiment ends: who stops it loses the last part alone."""


Part = tuple[str, Callable[[], tuple[list[Row], list[Claim]]]]
"""Of a long experiment: its name, and what measures it."""


def go_through(parts: Sequence[Part], document: Document, report: Report, keep: Keep) -> Document:
    """Measure one part after the other, and say after each what its claims have come to."""
    for name, part in parts:
        started = time.perf_counter()
        found, wanted = part()
        report(f"{name}: done in {time.perf_counter() - started:.0f} seconds")
        for each in wanted:
            report(f"{each['claim']}: {each['measured']:g} ({each['bar']}{'' if each['holds'] else ', does not hold'})")
        document["rows"] += found
        document["claims"] += wanted
        keep(document)
    return document


@dataclass(frozen=True, slots=True)
class Experiment:
    """A named experiment; ``run`` measures at a scale, tells its progress, and may hand over what it has so far.

    ``plot`` draws a document into a directory and returns the files, if the experiment has anything to draw. ``run_on``
    measures with the data of a file, if the experiment can do that; ``run`` makes its own.
    """

    name: str
    summary: str
    run: Callable[[Scale, Report, Keep], Document]
    plot: Callable[[Document, Path], list[Path]] | None = None
    run_on: Callable[[Scale, Report, Keep, Path], Document] | None = None


def at_least(claim: str, measured: float, bar: float) -> Claim:
    """A claim that wants a figure to reach its bar.

    >>> at_least("twice as fast", 1.96, 2.0)
    {'claim': 'twice as fast', 'measured': 1.96, 'bar': '>= 2', 'holds': False}
    """
    return Claim(claim=claim, measured=rounded(measured), bar=f">= {bar:g}", holds=measured >= bar)


def at_most(claim: str, measured: float, bar: float) -> Claim:
    """A claim that wants a figure to stay within its bar.

    >>> at_most("no more memory", 1.0, 1.1)
    {'claim': 'no more memory', 'measured': 1.0, 'bar': '<= 1.1', 'holds': True}
    """
    return Claim(claim=claim, measured=rounded(measured), bar=f"<= {bar:g}", holds=measured <= bar)


def below(claim: str, measured: float, bar: float) -> Claim:
    """A claim that wants a figure to stay under its bar.

    >>> below("starts at once", 0.5, 0.5)["holds"]
    False
    """
    return Claim(claim=claim, measured=rounded(measured), bar=f"< {bar:g}", holds=measured < bar)


def rounded(measured: float) -> float:
    """Four significant digits: more than a timing can carry.

    >>> rounded(0.000123456)
    0.0001235
    """
    return float(f"{measured:.4g}")
