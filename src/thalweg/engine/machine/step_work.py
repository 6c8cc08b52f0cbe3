"""The work of a join, instruction by instruction.

The kernels count as little as they can for every instruction (``Tables.work``): what enters it from outside, and what a
probe finds. The rest follows. A program is a line of *stretches*, each of which ends with a probe, or with the end of
the program. Into a stretch flow the matches of the probe before it, and what enters it; out of it goes what its gates
and accounts let through. So every number that is said of a join's work, by whoever asks, is a sum over these rows.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from thalweg.engine.kernels import tables as k
from thalweg.engine.kernels.compiled import Int64s
from thalweg.engine.programs.assembly import Assembly

PROBES, CANDIDATES, STORED, RESULTS, COMPLETING_PROBES, COMPLETING_CANDIDATES, COMPLETING_STORED = range(7)
_SUMS = 7


class StepWork:
    """What the instructions of the programs that run have done, and the sums of all programs before them.

    Attributes:
        rows: [instruction, (what entered, candidates, matches or what was left out)]; the kernels add to it.

    """

    __image__: ClassVar = ("rows", "_earlier")

    def __init__(self) -> None:
        self.rows = np.zeros((0, k.WORK_FIELDS), np.int64)
        self._earlier = np.zeros(_SUMS, np.int64)
        self._programs: tuple[Assembly, int] | None = None
        self._weights: Int64s | None = None

    def begin(self, assembly: Assembly, streams: int) -> None:
        """Count for these programs from now on."""
        self._earlier = self.sums()
        self.rows = np.zeros((len(assembly.steps), k.WORK_FIELDS), np.int64)
        self.read(assembly, streams)

    def read(self, assembly: Assembly, streams: int) -> None:
        """Know what the instructions behind the rows are."""
        self._programs = assembly, streams
        self._weights = None

    def sums(self) -> Int64s:
        """What was done since the start: probes, candidates, stored, results; and what of it completed keys."""
        if self._programs is None:
            return self._earlier
        if self._weights is None:
            self._weights = _weights(*self._programs)
        done: Int64s = self._earlier + self._weights @ self.rows.reshape(-1)
        return done


def _weights(assembly: Assembly, streams: int) -> Int64s:
    """By what each count has to be multiplied for the sums."""
    operations = assembly.steps[:, k.X_OP]
    probes, stores = operations == k.PROBE, operations == k.STORE
    gates = (operations == k.GATE) | (operations == k.PAY)
    is_end = ~(stores | gates)
    stretch = np.cumsum(is_end) - is_end
    end = operations[is_end][stretch]
    weights = np.zeros((_SUMS, len(operations), k.WORK_FIELDS), np.int64)
    storing = np.isin(stretch, stretch[stores])
    for what, within in ((PROBES, end == k.PROBE), (STORED, storing), (RESULTS, end == k.EMIT)):
        weights[what, within, k.W_ENTERED] = 1
        weights[what, within & gates, k.W_LEFT_OUT] = -1
        weights[what, probes & np.append(within[1:], False), k.W_MATCHES] = 1  # they flow into the next stretch
    weights[STORED, stores, k.W_LEFT_OUT] = -1
    weights[CANDIDATES, probes, k.W_CANDIDATES] = 1
    first = [*assembly.programs[:, k.G_FIRST].tolist(), len(operations)]
    numbers = np.arange(len(operations))
    is_completing = (numbers >= first[min(streams, len(first) - 1)]) & (numbers < first[assembly.searching])
    weights[[COMPLETING_PROBES, COMPLETING_CANDIDATES, COMPLETING_STORED]] = weights[[PROBES, CANDIDATES, STORED]]
    weights[COMPLETING_PROBES:, ~is_completing] = 0
    return weights.reshape(_SUMS, -1)
