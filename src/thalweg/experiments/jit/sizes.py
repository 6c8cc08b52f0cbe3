"""Which joins are measured, for how long, and how often, at each scale (JIT, tables II and III).

The middle values of table III are taken for the defaults.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from thalweg.experiments.experiment import Scale
from thalweg.experiments.jit.workloads import Clique
from thalweg.experiments.workloads import MICROSECONDS

SEED = 20_080_407
_FIVE_HOURS = 5 * 60 * 60 * MICROSECONDS

Parameter = Literal["window_min", "rate", "streams", "dmax"]


@dataclass(frozen=True, slots=True)
class Figure:
    """One parameter is varied; ``amplifies``: the paper's gain grows with it."""

    number: int
    parameter: Parameter
    values: tuple[float, ...]
    amplifies: bool = True


@dataclass(frozen=True, slots=True)
class Family:
    """Plans of one shape: the join with all parameters at their defaults, and figures that go through it."""

    defaults: Clique
    figures: tuple[Figure, ...]

    def points(self, figure: Figure) -> list[Clique]:
        changes = [{figure.parameter: value} for value in figure.values]
        return [replace(self.defaults, **change) for change in changes]  # type: ignore[arg-type] # of its parameter


@dataclass(frozen=True, slots=True)
class Sizes:
    """What is measured.

    Attributes:
        families: the joins.
        turns: a run goes on for so many windows after the first, which fills the stores; None: for five hours of
            application time in all, as in the paper.
        hash_turns: the same for hash joins, which the paper does not have: they need more of them to take any time.
        rounds: how often hash joins, which take milliseconds, are timed: of every piece the best round counts, and
            halves of the rounds show the noise. Nested loops are timed once.

    """

    families: tuple[Family, ...]
    turns: int | None
    hash_turns: int
    rounds: int

    def end(self, clique: Clique, *, by_hash: bool) -> int:
        """When a run ends, in microseconds."""
        turns = self.hash_turns if by_hash else self.turns
        return _FIVE_HOURS if turns is None else (1 + turns) * clique.window


BUSHY = Family(
    Clique("bushy", window_min=20, rate=1.0, streams=6, dmax=200),
    (
        Figure(10, "window_min", (10, 15, 20, 25, 30)),
        Figure(11, "rate", (0.4, 0.7, 1.0, 1.3, 1.6)),
        Figure(12, "streams", (4, 5, 6, 7, 8)),
        Figure(13, "dmax", (100, 150, 200, 250, 300), amplifies=False),
    ),
)
LEFT_DEEP = Family(
    Clique("left-deep", window_min=10, rate=1.0, streams=4, dmax=50, wide=100),
    (
        Figure(14, "window_min", (5, 7.5, 10, 12.5, 15)),
        Figure(15, "rate", (0.4, 0.7, 1.0, 1.3, 1.6)),
        Figure(16, "streams", (3, 4, 5, 6)),
        Figure(17, "dmax", (30, 40, 50, 60, 70), amplifies=False),
    ),
)


def _ends(family: Family) -> Family:
    """The family with the least, the default and the greatest value of each parameter alone."""
    return replace(
        family,
        figures=tuple(
            replace(
                figure,
                values=(figure.values[0], getattr(family.defaults, figure.parameter), figure.values[-1]),
            )
            for figure in family.figures
        ),
    )


SIZES: dict[Scale, Sizes] = {
    "quick": Sizes((_ends(BUSHY), _ends(LEFT_DEEP)), turns=3, hash_turns=40, rounds=8),
    "paper": Sizes((BUSHY, LEFT_DEEP), turns=None, hash_turns=40, rounds=8),
}
