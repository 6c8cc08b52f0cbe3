"""The path productivity table: what each stream's tuples cost on their way to a result, and what they yield.

A half-way join alone does not say what a probe is worth. Its matches may find no budget further on. So JAQPOT values a
whole path: results per probe made anywhere on it (4.1, definition 4).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from thalweg.errors import AllocationError
from thalweg.plan.allocation.model import AllocationModel


@dataclass(frozen=True, slots=True)
class PathRow:
    """One path of the table (JAQPOT, table 2).

    Attributes:
        head: its stream.
        cardinalities: combinations per tuple of the stream: 1, then what each half-way join makes of it (equation 5).
        leaf: the stream's tuples per second in a *unit* of this path.
        most: how many units the stream's rate allows.
        costs: what each step costs that follows from one tuple; empty: a probe for each combination.

    """

    head: int
    cardinalities: tuple[float, ...]
    leaf: float
    most: float
    costs: tuple[float, ...] = ()

    @property
    def probes_per_tuple(self) -> float:
        """The probes that follow from one tuple of the stream (equation 6)."""
        return math.fsum(self._costs)

    @property
    def _costs(self) -> tuple[float, ...]:
        return self.costs or self.cardinalities[:-1]

    @property
    def resources(self) -> float:
        """The probes per second of a unit."""
        return self.leaf * self.probes_per_tuple

    @property
    def output(self) -> float:
        """The results per second of a unit."""
        return self.leaf * self.cardinalities[-1]

    @property
    def productivity(self) -> float:
        """Results per probe (equation 8)."""
        return self.cardinalities[-1] / self.probes_per_tuple

    def division(self, resources: float) -> tuple[float, ...]:
        """Probes of each half-way join when so many are made on the path (equation 7).

        Each half-way join may probe exactly as often as those below it produce something to probe with.
        """
        leaf = resources / self.probes_per_tuple
        return tuple(leaf * cost for cost in self._costs)


def path_table(model: AllocationModel, leaves: Sequence[float] | None = None) -> tuple[PathRow, ...]:
    """A row per stream.

    ``leaves``: the tuples per second in a unit of each path. By default a unit takes all that the stream brings.
    """
    rates = [stream.rate for stream in model.streams]
    if leaves is not None and (len(leaves) != len(rates) or not all(leaf > 0 for leaf in leaves)):
        raise AllocationError(
            f"units of paths: {list(leaves)} are not {len(rates)} positive rates, one for each stream"
        )
    return tuple(
        PathRow(head, model.cardinalities(head), leaf, rate / leaf, model.costs(head))
        for head, (rate, leaf) in enumerate(zip(rates, leaves or rates, strict=True))
    )


def by_productivity(rows: Sequence[PathRow]) -> list[PathRow]:
    """The most productive path first; of equal ones, the first stream's."""
    return sorted(rows, key=lambda row: (-row.productivity, row.head))
