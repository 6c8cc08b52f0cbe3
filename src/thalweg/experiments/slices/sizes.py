"""What is measured, for how long, and how often, at each scale (State-Slice, tables 3 and 4)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from thalweg.experiments.experiment import Scale
from thalweg.experiments.slices.workloads import Distribution

SEED = 20_060_912
ON_SPARK = "registered queries on Spark"
"""The part of a document; here, so that to draw it needs no Spark."""


@dataclass(frozen=True, slots=True)
class Formulas:
    """Figure 11: for all of these, on regular streams.

    Attributes:
        rate: tuples per second and stream.
        long: the long window in seconds.
        shorts: the short ones.
        selected: shares that the selection lets pass, in tenths.
        keys: numbers of keys, of which one in so many pairs joins.
        seconds: how long it is driven once the long window is full: in whole rounds of keys and values.

    """

    rate: int
    long: int
    shorts: tuple[int, ...]
    selected: tuple[float, ...]
    keys: tuple[int, ...]
    seconds: int


@dataclass(frozen=True, slots=True)
class Setting:
    """A cell of table 3."""

    windows: Distribution
    selected: float
    joined: float


@dataclass(frozen=True, slots=True)
class Strategies:
    """Figures 17 and 18. ``rounds``: how often each contender is timed; four tell how much that differs."""

    settings: tuple[Setting, ...]
    rates: tuple[int, ...]
    seconds: int
    rounds: int


@dataclass(frozen=True, slots=True)
class Chains:
    """Figure 19."""

    queries: tuple[int, ...]
    rates: tuple[int, ...]
    seconds: int
    rounds: int
    joined: float = 0.025


@dataclass(frozen=True, slots=True)
class Many:
    """Very many queries over one join.

    Attributes:
        streams: joins of so many streams.
        queries: so many queries over each.
        plans: so many of the same queries, each with a plan of its own.
        rate: tuples per second and stream.
        longest: the longest window in seconds, which is also how long windows fill up.
        seconds: how long is measured then, in pieces.
        pieces: how many.
        keys: how many keys there are; a probe meets rate * longest / keys partners.
        rounds: how often each is timed; the best of each piece counts.

    """

    streams: tuple[int, ...]
    queries: tuple[int, ...]
    plans: tuple[int, ...]
    rate: int
    longest: int
    seconds: int
    pieces: int
    keys: int
    rounds: int


@dataclass(frozen=True, slots=True)
class OnSpark:
    """Registered queries on Spark.

    Attributes:
        streams: joins of so many streams.
        queries: so many over each; one of these is 1.
        rate: tuples per second and stream.
        keys: how many keys there are.
        window_s: the window in seconds, which the first trigger fills.
        rows: of all streams together, in every other trigger.
        triggers: how many there are.
        warm_up: triggers that are not compared.
        rounds: how often each is run.

    """

    streams: tuple[int, ...]
    queries: tuple[int, ...]
    rate: float
    keys: int
    window_s: int
    rows: int
    triggers: int
    warm_up: int
    rounds: int


@dataclass(frozen=True, slots=True)
class Sizes:
    """All parts."""

    formulas: Formulas
    strategies: Strategies
    chains: Chains
    many: Many
    on_spark: OnSpark


_WINDOWS: tuple[Distribution, ...] = ("mostly-small", "uniform", "mostly-large")
_SELECTED = (0.2, 0.5, 0.8)
_JOINED = (0.025, 0.1, 0.4)
_MIDDLE = Setting("uniform", 0.5, 0.1)


def _around_the_middle() -> tuple[Setting, ...]:
    """One parameter is varied at a time."""
    return (
        _MIDDLE,
        *(Setting(windows, 0.5, 0.1) for windows in _WINDOWS if windows != "uniform"),
        *(Setting("uniform", selected, 0.1) for selected in _SELECTED if selected != _MIDDLE.selected),
        *(Setting("uniform", 0.5, joined) for joined in _JOINED if joined != _MIDDLE.joined),
    )


SIZES: dict[Scale, Sizes] = {
    "quick": Sizes(
        Formulas(40, 30, (5, 15, 25), (0.2, 0.8), (40, 2), 30),
        Strategies(_around_the_middle(), (20, 80), 90, 4),
        Chains((12, 36), (80,), 90, 4),
        Many((2, 4), (1, 10, 100, 1_000), (1, 10, 30), 1_000, 30, 60, 3, 30_000, 4),
        OnSpark((2, 4), (1, 10, 100), 10_000.0, 100_000, 10, 200_000, 10, 4, 2),
    ),
    "paper": Sizes(
        Formulas(40, 30, (3, 6, 9, 12, 15, 18, 21, 24, 27), (0.1, 0.2, 0.4, 0.5, 0.6, 0.8, 0.9), (40, 10, 2), 30),
        Strategies(tuple(Setting(*each) for each in product(_WINDOWS, _SELECTED, _JOINED)), (20, 40, 60, 80), 90, 4),
        Chains((12, 24, 36), (20, 40, 60, 80), 90, 4),
        Many((2, 4), (1, 10, 100, 1_000), (1, 10, 30), 1_000, 30, 120, 6, 30_000, 8),
        OnSpark((2, 4), (1, 10, 100, 1_000), 10_000.0, 100_000, 10, 400_000, 14, 4, 3),
    ),
}
