"""How much each part of the experiment measures, at each scale."""

from __future__ import annotations

from dataclasses import dataclass

from thalweg.experiments.experiment import Scale
from thalweg.experiments.jisc.workloads import Method

SEED = 20_140_324


@dataclass(frozen=True, slots=True)
class Stage:
    """Figures 7 and 8: the change comes after ``warm_turns`` turns."""

    joins: tuple[int, ...]
    window: int
    warm_turns: int
    rounds: int
    slow_rounds: int


@dataclass(frozen=True, slots=True)
class Normal:
    """Figure 9: ``tuples`` are timed after ``warm_turns`` turns; JISC's change comes after the first of these."""

    method: Method
    joins: int
    window: int
    warm_turns: int
    tuples: int
    rounds: int


@dataclass(frozen=True, slots=True)
class FirstOutput:
    """Figure 10: ``changes`` of plan are timed at each window; of Moving State, which may take minutes, ``slow``."""

    method: Method
    joins: int
    windows: tuple[int, ...]
    changes: int
    slow: int
    bar: float


@dataclass(frozen=True, slots=True)
class Often:
    """Figures 11 and 12: a change every ``period`` tuples; at least ``tuples`` are timed, in so many ``rounds``.

    The quick ones are half of the paper's, windows and periods alike: what a change costs shows against the time in
    which windows turn.
    """

    joins: int
    window: int
    warm_turns: int
    tuples: int
    periods: tuple[int, ...]
    rounds: tuple[int, ...]
    slow_rounds: int

    def timed(self, period: int) -> int:
        """How many tuples are timed with changes every ``period``: whole periods.

        >>> [SIZES["paper"].often.timed(period) for period in SIZES["paper"].often.periods]
        [4000000, 6000000, 10000000]
        """
        return -(-self.tuples // period) * period


@dataclass(frozen=True, slots=True)
class NoStall:
    """``changes`` of plan spread over ``batches``, of which one comes every ``interval`` seconds."""

    joins: int
    window: int
    changes: int
    batches: int
    interval: float


@dataclass(frozen=True, slots=True)
class Limited:
    """Memory limits, as ``shares`` of what a pipeline takes without one; ``tuples`` are timed after ``warm_turns``."""

    joins: int
    window: int
    warm_turns: int
    tuples: int
    shares: tuple[float, ...]
    rounds: int


@dataclass(frozen=True, slots=True)
class Adapting:
    """Joins of so many streams, whose phases last ``phase_seconds`` of event time."""

    streams: tuple[int, ...]
    phases: int
    phase_seconds: float
    steady_seconds: float
    rounds: int
    steady_rounds: int


@dataclass(frozen=True, slots=True)
class OnSpark:
    """Joins of so many streams on Spark: ``phase_triggers`` of ``trigger_tuples`` in each phase."""

    streams: tuple[int, ...]
    combinations: float
    phases: int
    phase_triggers: int
    trigger_tuples: int
    steady_rounds: int


@dataclass(frozen=True, slots=True)
class Sizes:
    """All parts; without ``on_spark``, Spark is not started."""

    stage: Stage
    normal: tuple[Normal, ...]
    first_output: tuple[FirstOutput, ...]
    often: Often
    no_stall: NoStall
    limited: Limited
    adapting: Adapting
    on_spark: OnSpark | None = None


SIZES: dict[Scale, Sizes] = {
    "quick": Sizes(
        stage=Stage(joins=(4, 12, 20), window=5_000, warm_turns=2, rounds=12, slow_rounds=1),
        normal=(
            Normal("hash", joins=20, window=2_000, warm_turns=4, tuples=100_000, rounds=3),
            Normal("nested loops", joins=4, window=300, warm_turns=4, tuples=20_000, rounds=3),
        ),
        first_output=(
            FirstOutput("hash", joins=20, windows=(1_000, 10_000, 100_000), changes=7, slow=3, bar=1 / 100),
            FirstOutput("nested loops", joins=20, windows=(300, 1_000, 8_000), changes=7, slow=1, bar=1 / 1000),
        ),
        often=Often(
            joins=20,
            window=5_000,
            warm_turns=2,
            tuples=1_000_000,
            periods=(500_000, 1_500_000, 5_000_000),
            rounds=(6, 4, 4),
            slow_rounds=1,
        ),
        no_stall=NoStall(joins=8, window=4_000, changes=100, batches=1_400, interval=0.01),
        limited=Limited(joins=8, window=4_000, warm_turns=2, tuples=72_000, shares=(0.9, 0.8, 0.7, 0.6), rounds=3),
        adapting=Adapting(
            streams=(4, 6, 8), phases=3, phase_seconds=40.0, steady_seconds=60.0, rounds=1, steady_rounds=12
        ),
        on_spark=OnSpark(
            (4,), combinations=1_500.0, phases=3, phase_triggers=8, trigger_tuples=150_000, steady_rounds=4
        ),
    ),
    "paper": Sizes(
        stage=Stage(joins=(4, 8, 12, 16, 20), window=10_000, warm_turns=4, rounds=9, slow_rounds=1),
        normal=(
            Normal("hash", joins=20, window=10_000, warm_turns=4, tuples=10_000_000, rounds=2),
            Normal("nested loops", joins=4, window=1_000, warm_turns=4, tuples=100_000, rounds=3),
        ),
        first_output=(
            FirstOutput("hash", joins=20, windows=(1_000, 10_000, 100_000), changes=7, slow=5, bar=1 / 100),
            FirstOutput("nested loops", joins=20, windows=(100, 1_000, 10_000), changes=7, slow=1, bar=1 / 1000),
        ),
        often=Often(
            joins=20,
            window=10_000,
            warm_turns=2,
            tuples=4_000_000,
            periods=(1_000_000, 3_000_000, 10_000_000),
            rounds=(9, 7, 6),
            slow_rounds=1,
        ),
        no_stall=NoStall(joins=8, window=10_000, changes=100, batches=4_000, interval=0.01),
        limited=Limited(joins=8, window=10_000, warm_turns=4, tuples=900_000, shares=(0.9, 0.8, 0.7, 0.6), rounds=3),
        adapting=Adapting(
            streams=(4, 6, 8), phases=6, phase_seconds=60.0, steady_seconds=240.0, rounds=1, steady_rounds=15
        ),
        on_spark=OnSpark(
            (4, 6, 8), combinations=1_500.0, phases=3, phase_triggers=8, trigger_tuples=200_000, steady_rounds=4
        ),
    ),
}
