"""What triggers take: the prices by which a bucket knows how many probes a batch has time for.

Design
    What a batch writes is a function of what was committed and of its input. A clock is neither. So the driver gathers
    what triggers took (:mod:`thalweg.spark.pricing`), and tells the buckets with the commands of a batch: prices are
    input, and are committed before the batch runs. Each bucket then computes by itself what its rows leave time for. It
    knows that before its first probe, so the first batch of a burst keeps its target, too. Prices that come a batch
    later do no harm.

    A trigger takes a fixed time, a time for every row wherever it goes, a time for every row of the partition that
    takes longest, and a time for every probe there. Buckets of one partition are run one after the other by one task.
    They share its time as they have shared its work before.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

HEADROOM = 0.9
"""The share of its target that a trigger is planned to take: times vary."""
_MOST_BUCKETS = 256
"""Of so many buckets each has shares of its own; more would make offsets large."""
_LEAST_SHARE = 0.25
"""Of an even share, that a bucket has in any case: one that was quiet may wake."""


@dataclass(frozen=True, slots=True)
class Shares:
    """What one bucket had of the whole.

    Attributes:
        work: of the wanted probes of its partition.
        rows: of all rows.
        rows_here: of the rows of its partition.

    """

    work: float
    rows: float
    rows_here: float


@dataclass(frozen=True, slots=True)
class Prices:
    """Seconds.

    Attributes:
        fixed: that a trigger takes in any case.
        row: for every row of a batch: read, packed, shuffled.
        tuple: for every row of one partition: unpacked, put into windows, logged.
        probe: for every probe of one partition, with the results that it leads to.
        partitions: which do their work side by side.
        buckets: the shares of each.

    >>> prices = Prices(fixed=0.5, row=1e-6, tuple=1e-6, probe=1e-6)
    >>> round(prices.probes(target=2.0, number=0, buckets=1, rows=100_000))
    1100000
    >>> prices.probes(target=2.0, number=0, buckets=1, rows=10_000_000)
    0.0

    """

    fixed: float
    row: float
    tuple: float
    probe: float
    partitions: int = 0
    buckets: Mapping[int, Shares] = field(default_factory=dict)

    def probes(self, target: float, number: int, buckets: int, rows: int) -> float:
        """How many probes one of so many buckets has time for, if it has so many rows."""
        here = max(1.0, buckets / self.partitions) if self.partitions else 1.0
        mine = self.buckets.get(number, Shares(1 / here, 1 / buckets, 1 / here))
        of_all = max(mine.rows, _LEAST_SHARE / buckets)
        of_partition = max(mine.rows_here, _LEAST_SHARE / here)
        left = HEADROOM * target - self.fixed - self.row * rows / of_all - self.tuple * rows / of_partition
        return max(0.0, left) * max(mine.work, _LEAST_SHARE / here) / self.probe

    def differs(self, other: Prices, by: float) -> bool:
        """Whether anything differs by more than such a share."""
        mine, others = (
            [each.fixed, each.row, each.tuple, each.probe, float(each.partitions)] for each in (self, other)
        )
        numbers = list(zip(mine, others, strict=True))
        if self.buckets.keys() != other.buckets.keys():
            return True
        for bucket, shares in self.buckets.items():
            numbers += zip(asdict(shares).values(), asdict(other.buckets[bucket]).values(), strict=True)
        return any(abs(a - b) > by * max(a, b) for a, b in numbers)

    def to_json(self) -> dict[str, Any]:
        known = asdict(self)
        if len(self.buckets) > _MOST_BUCKETS:
            known["buckets"] = {}
        known["buckets"] = {str(bucket): list(shares.values()) for bucket, shares in known["buckets"].items()}
        return known

    @staticmethod
    def from_json(known: Mapping[str, Any]) -> Prices:
        """What :meth:`to_json` was.

        >>> prices = Prices(0.1, 1e-6, 1e-6, 1e-7, 2, {1: Shares(1.0, 0.5, 1.0)})
        >>> Prices.from_json(json.loads(json.dumps(prices.to_json()))) == prices
        True
        """
        buckets = {int(bucket): Shares(*shares) for bucket, shares in known["buckets"].items()}
        return Prices(**{**known, "buckets": buckets})

    def text(self) -> str:
        """As the stream of commands carries it."""
        return json.dumps(self.to_json(), sort_keys=True)

    @staticmethod
    def of_text(text: str) -> Prices | None:
        """What :meth:`text` was; None for that of nothing."""
        known = json.loads(text)
        return None if known is None else Prices.from_json(known)


DEFAULT_PRICES = Prices(fixed=0.5, row=1e-6, tuple=1e-6, probe=5e-7)
"""Before anything was measured: about what a join of four streams took on two cores, so that a first batch that
finds a backlog does not take it all at any price."""
