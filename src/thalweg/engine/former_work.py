"""What was done for a bucket by joiners that were replaced by others."""

from __future__ import annotations

from dataclasses import astuple, fields, replace
from typing import ClassVar

import numpy as np

from thalweg.engine.feedback.savings import Savings
from thalweg.engine.migration.joiner import Joiner
from thalweg.engine.observations import Counts, Work


class FormerWork:
    """Adds to what a joiner says of itself what those before it did."""

    __image__: ClassVar = ("_work", "_saved")

    def __init__(self) -> None:
        self._work = np.zeros(len(Work._fields), np.int64)
        self._saved = np.zeros(len(fields(Savings)), np.int64)
        self._seconds = 0.0

    def and_of(self, joiner: Joiner) -> FormerWork:
        """What there is when a joiner is replaced, too. This one stays as it is."""
        both = FormerWork()
        both._work = self._work + joiner.work
        both._saved = self._saved + astuple(replace(joiner.savings, suspended=0))
        both._seconds = self._seconds + joiner.seconds
        return both

    def work(self, joiner: Joiner) -> Work:
        return Work(*map(int, self._work + joiner.work))

    def counts(self, joiner: Joiner) -> Counts:
        counts = joiner.counts
        return tuple(map(int, self._work[: len(counts)] + counts))

    def seconds(self, joiner: Joiner) -> float:
        """How long kernels have run, in this process."""
        return self._seconds + joiner.seconds

    def savings(self, joiner: Joiner) -> Savings:
        return Savings(*map(int, self._saved)) + joiner.savings
