"""How much of everything is measured at each scale, and the bars."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from thalweg.experiments.experiment import Scale
from thalweg.experiments.spark.contenders import DEFAULT_STORE, EVERYONE, FLOOR, ROCKSDB_2, THALWEG
from thalweg.experiments.workloads import MICROSECONDS, Workload

SEED = 20_030_909
_MEBIBYTE = 1 << 20


@dataclass(frozen=True, slots=True)
class Counts:
    """Triggers of a query: those that come before, and those that are compared."""

    warm_up: int
    steady: int

    @property
    def triggers(self) -> int:
        return self.warm_up + self.steady


@dataclass(frozen=True, slots=True)
class Load:
    """Triggers of one size.

    Attributes:
        rows: of all streams, in a trigger.
        counts: how many triggers there are, the same for everybody.
        names: who takes part.
        fewer: who takes part in fewer triggers, because one of them takes so long.

    """

    rows: int
    counts: Counts
    names: tuple[str, ...] = tuple(EVERYONE)
    fewer: Mapping[str, Counts] = field(default_factory=dict)

    def of(self, name: str) -> Counts:
        """The triggers of a contender."""
        return self.fewer.get(name, self.counts)


@dataclass(frozen=True, slots=True)
class Payload:
    """Windows of wide rows: how many bytes the rows have in all, in a trigger that fills the windows, and each."""

    window_bytes: int = 4_096 * _MEBIBYTE
    trigger_bytes: int = 256 * _MEBIBYTE
    row_bytes: int = 4_096

    @property
    def fill_triggers(self) -> int:
        """Triggers that fill the windows.

        >>> Payload().fill_triggers, Payload(window_bytes=100, trigger_bytes=40, row_bytes=4).fill_triggers
        (16, 3)
        """
        return -(-self.window_bytes // self.trigger_bytes)


@dataclass(frozen=True, slots=True)
class Bars:
    """What the claims ask for. Seconds are those of the machine that the bench runs on.

    Attributes:
        best_of_spark: Thalweg's rows/s, as a multiple of those of the best of Spark's joins.
        floor: Thalweg's rows/s, as a part of the floor's.
        tiny_seconds: a trigger that brings next to nothing.
        first_seconds: the first trigger of a new query.
        wide: the time of a join of wide streams, as a multiple of that of narrow ones.
        restart_seconds: the first trigger after a restart with full windows.

    """

    best_of_spark: float = 20
    floor: float = 0.8
    tiny_seconds: float = 0.25
    first_seconds: float = 3
    wide: float = 1.3
    restart_seconds: float = 5


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much each part of the experiment measures.

    Attributes:
        workload: the join; its number of tuples follows from the triggers.
        check: the smaller join whose answers are compared, ``check_rows`` per trigger in ``check_triggers``.
        loads: the sizes of triggers of the workload; Thalweg takes part in each. The claims are about the first.
        tiny: triggers that bring next to nothing.
        wide_columns: columns of the wide streams; the rows and triggers are those of the first load.
        window_of_restart_s: the window of the restart part; the key domain grows in proportion.
        payload: the windows of the restart with wide rows.
        growth_rows, growth_counts: the triggers of the growth parts.
        window_seconds: the windows; the key domain grows in proportion.
        stream_counts: the numbers of streams; the rows of a trigger are dealt out to them.
        key_counts: the key domains.
        bucket_counts: into how many buckets the join is divided.
        bars: what the claims ask for.

    """

    workload: Workload
    check: Workload
    check_rows: int
    check_triggers: int
    loads: tuple[Load, ...]
    tiny: Load
    wide_columns: int
    window_of_restart_s: int
    payload: Payload
    growth_rows: int
    growth_counts: Counts
    window_seconds: tuple[int, ...]
    stream_counts: tuple[int, ...]
    key_counts: tuple[int, ...]
    bucket_counts: tuple[int, ...]
    bars: Bars = Bars()


_CHECK = Workload(keys=2_000, window_us=2 * MICROSECONDS)
"""As many matches per probe as in the workload, and many windows in few tuples."""

SIZES: dict[Scale, Sizes] = {
    "quick": Sizes(
        workload=Workload(),
        check=_CHECK,
        check_rows=4_000,
        check_triggers=10,
        loads=(
            Load(400_000, Counts(4, 8), fewer={ROCKSDB_2: Counts(4, 3)}),
            Load(2_000_000, Counts(4, 6), (FLOOR, THALWEG, DEFAULT_STORE), {DEFAULT_STORE: Counts(2, 2)}),
        ),
        tiny=Load(400, Counts(20, 10)),
        wide_columns=40,
        window_of_restart_s=2_500,
        payload=Payload(),
        growth_rows=200_000,
        growth_counts=Counts(2, 3),
        window_seconds=(1, 10, 100),
        stream_counts=(2, 4, 8),
        key_counts=(5_000, 10_000, 100_000),
        bucket_counts=(1, 2, 8),
    ),
    "paper": Sizes(
        workload=Workload(),
        check=_CHECK,
        check_rows=8_000,
        check_triggers=50,
        loads=(
            Load(400_000, Counts(20, 20)),
            Load(2_000_000, Counts(6, 10), (FLOOR, THALWEG, DEFAULT_STORE), {DEFAULT_STORE: Counts(2, 4)}),
        ),
        tiny=Load(400, Counts(50, 20)),
        wide_columns=40,
        window_of_restart_s=2_500,
        payload=Payload(),
        growth_rows=400_000,
        growth_counts=Counts(2, 5),
        window_seconds=(1, 10, 100),
        stream_counts=(2, 4, 6, 8, 12),
        key_counts=(5_000, 10_000, 20_000, 100_000),
        bucket_counts=(1, 2, 4, 8, 16),
    ),
}
