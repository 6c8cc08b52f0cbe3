"""What is measured, and how much of it, at each scale (JAQPOT, table 3)."""

from __future__ import annotations

from dataclasses import dataclass

from thalweg.experiments.experiment import Scale

SEED = 20_130_422
OVERLOAD = "overload on Spark"
TRIGGERS = "overload on Spark: each trigger"
"""Parts of a document; here, so that to draw them needs no Spark."""


@dataclass(frozen=True, slots=True)
class Fluctuating:
    """Figure 6.

    Attributes:
        seconds: per minute of the paper's: it shows 10 minutes, and parameters change after 3 and after 7.
        rate: tuples per second of each stream.
        window: rows of each window.
        share: the budget, as a share of saturation.

    """

    seconds: float
    rate: float = 300.0
    window: int = 200
    share: float = 0.3


@dataclass(frozen=True, slots=True)
class Budgets:
    """Figure 7.

    Attributes:
        settings: so many are drawn from table 3.
        seconds: how long each runs once its windows are full.
        shares: the budgets, as percentages of saturation.
        most_results: settings with more results per second are not drawn.

    """

    settings: int
    seconds: float
    shares: tuple[int, ...]
    most_results: float


@dataclass(frozen=True, slots=True)
class Sensors:
    """Figure 8.

    Attributes:
        days: so many are generated, if no data are given.
        compressed: by which factor time is.
        window: rows of each window.
        budgets: probes per second of that time.

    """

    days: float
    compressed: int = 1_000
    window: int = 1_000
    budgets: tuple[int, ...] = (300, 600, 900)


@dataclass(frozen=True, slots=True)
class Staleness:
    """Figure 9.

    Attributes:
        settings: so many are drawn from table 3 for each plan.
        seconds: how long each runs once its states are full.
        budget: probes per second.
        factors: freshness, as multiples of windows.
        throughput: settings for the throughput by the model of the paper's states, and seconds of each.

    """

    settings: int
    seconds: float
    throughput: Budgets
    budget: int = 300
    factors: tuple[float, ...] = (1.5, 3.0, 5.0)


@dataclass(frozen=True, slots=True)
class Analysis:
    """The overhead of the analysis, and of covers against the optimum.

    Attributes:
        streams: plans of so many streams are analysed.
        models: of each number of streams.
        covers: models of each plan of 4 to 6 streams whose cover is compared with the optimum.
        repeats: how often each is timed.

    """

    streams: tuple[int, ...]
    models: int
    covers: int
    repeats: int


@dataclass(frozen=True, slots=True)
class Correlated:
    """Streams that lag behind each other.

    Attributes:
        seconds: how long they run.
        rate: tuples per second of each stream.
        window_s: the window of each in seconds.
        shares: the budgets, as percentages of saturation.

    """

    seconds: float
    rate: float
    window_s: float
    shares: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Unlimited:
    """What it costs that there could be a budget.

    Attributes:
        tuples: of each stream.
        rounds: how often each contender is timed.

    """

    tuples: int
    rounds: int


@dataclass(frozen=True, slots=True)
class Sizes:
    """All parts."""

    fluctuating: Fluctuating
    budgets: Budgets
    sensors: Sensors
    staleness: Staleness
    analysis: Analysis
    correlated: Correlated
    unlimited: Unlimited


_TENTHS = tuple(range(0, 101, 10))

SIZES: dict[Scale, Sizes] = {
    "quick": Sizes(
        Fluctuating(3.0),
        Budgets(3, 8.0, (0, 10, 20, 40, 60, 80, 100), 200_000),
        Sensors(5.0),
        Staleness(12, 60.0, Budgets(3, 3.0, (0, 10, 20, 40, 60, 80, 100), 1_000_000)),
        Analysis((3, 4, 5, 6, 8, 10, 12), 10, 10, 5),
        Correlated(20.0, 200.0, 5.0, (10, 20, 40, 60, 80)),
        Unlimited(500_000, 6),
    ),
    "paper": Sizes(
        Fluctuating(60.0),
        Budgets(10, 60.0, _TENTHS, 500_000),
        Sensors(5.0),
        Staleness(100, 600.0, Budgets(20, 10.0, _TENTHS, 1_000_000)),
        Analysis(tuple(range(3, 17)), 50, 200, 20),
        Correlated(120.0, 500.0, 10.0, _TENTHS[1:-1]),
        Unlimited(2_000_000, 20),
    ),
}
