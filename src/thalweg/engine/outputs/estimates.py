"""How much of a reader's answer was found under a budget.

Every result comes with its *score*: how many results of the full answer it stands for (Horvitz and Thompson). Scores of
what a reader gets, after all its predicates, add up to an unbiased estimate of its full answer.

The results of one new tuple may all hang on the same probe. So they are taken together for the variance, as if they
did. That errs on the safe side.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from thalweg.engine.kernels.compiled import Float64s, Int64s

_NOBODY = -1.0


class AnswerEstimate:
    """Adds up the scores of one reader's results."""

    __image__: ClassVar = ("_sums",)

    def __init__(self) -> None:
        # Results found; their scores; the variance of these. Then the same of the newest tuple, which may go on: its
        # number, its results, their scores.
        self._sums = np.array([0.0, 0.0, 0.0, _NOBODY, 0.0, 0.0])

    def add(self, tuples: Int64s, scores: Float64s) -> None:
        """Results: the number of the tuple that found each, and its score."""
        if not len(tuples):
            return
        numbers, places, counts = np.unique(tuples, return_inverse=True, return_counts=True)
        totals = np.bincount(places, scores)
        sums = self._sums
        sums[0] += len(tuples)
        sums[1] += totals.sum()
        if numbers[0] == sums[3]:
            totals[0] += sums[5]
            counts[0] += int(sums[4])
        elif sums[3] != _NOBODY:
            sums[2] += sums[5] * (sums[5] - sums[4])
        sums[2] += float((totals[:-1] * (totals[:-1] - counts[:-1])).sum())  # (1 - chance) * total ** 2
        sums[3:] = numbers[-1], counts[-1], totals[-1]

    @property
    def found(self) -> int:
        """Results."""
        return int(self._sums[0])

    @property
    def full(self) -> float:
        """The estimated results of the full answer."""
        return float(self._sums[1])

    @property
    def variance(self) -> float:
        """Of the estimate, rather too great than too small."""
        return float(self._sums[2] + self._sums[5] * (self._sums[5] - self._sums[4]))

    @property
    def share(self) -> float | None:
        """The estimated share that was found; None: nothing was."""
        return self.found / self.full if self.full else None

    @property
    def error(self) -> float | None:
        """The standard error of the share."""
        share = self.share
        return None if share is None else share * math.sqrt(self.variance) / self.full

    def __add__(self, other: AnswerEstimate) -> AnswerEstimate:
        both = AnswerEstimate()
        both._sums[0] = self.found + other.found
        both._sums[1] = self.full + other.full
        both._sums[2] = self.variance + other.variance
        return both


def added(some: Mapping[str, AnswerEstimate], others: Mapping[str, AnswerEstimate | None]) -> dict[str, AnswerEstimate]:
    """The estimates of readers by name, those of one name together."""
    both = dict(some)
    for name, estimate in others.items():
        if estimate is not None:
            both[name] = both[name] + estimate if name in both else estimate
    return both
