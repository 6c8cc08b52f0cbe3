"""Laps: the same stretch of tuples driven by several contenders, one after the other or side by side."""

from __future__ import annotations

import gc
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thalweg.experiments import answers
from thalweg.experiments.answers import Fingerprint
from thalweg.experiments.experiment import Report, Row, rounded
from thalweg.experiments.timing import one_core


@dataclass(frozen=True, slots=True)
class Lap:
    """A stretch of a drive: seconds of processor time, counted work, and the answer."""

    seconds: float
    work: dict[str, int]
    found: Fingerprint

    def joined(self, other: Lap) -> Lap:
        """The lap that begins with this one and ends with the next.

        >>> Lap(1.0, {"probes": 2}, answers.NOTHING).joined(Lap(0.5, {"probes": 3}, answers.NOTHING)).work
        {'probes': 5}
        """
        work = {name: self.work.get(name, 0) + count for name, count in other.work.items()}
        return Lap(self.seconds + other.seconds, work, self.found.joined(other.found))


_ROUNDS_TO_TELL = 4
"""So many rounds show how much they differ."""
_WAYS_TO_HALVE = 200

NO_LAP = Lap(0.0, {}, answers.NOTHING)


@dataclass(frozen=True, slots=True)
class Laps:
    """The same lap, driven several times.

    ``pieces``: side by side, the seconds of every piece in every round. ``alike``: the pieces in which contenders that
    have the same ones do the same. What tells them apart there is where their memory lies, and noise.
    """

    seconds: tuple[float, ...]
    work: dict[str, int]
    results: int
    pieces: tuple[tuple[float, ...], ...] = ()
    alike: tuple[int, ...] = ()

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    def times_as_fast_as(self, other: Laps) -> float:
        """Side by side, by the rounds in which both took part: the best of more rounds is better.

        >>> few, many = Laps((3.0,), {}, 0, ((4.0,), (3.0,))), Laps((1.0,), {}, 0, ((2.0,), (1.5,), (1.0,)))
        >>> many.times_as_fast_as(few)
        2.0

        Pieces in which both do the same take both the same time, the better of theirs:

        >>> one, other = Laps((9.0,), {}, 0, ((1.0, 8.0),), (1,)), Laps((8.0,), {}, 0, ((2.0, 6.0),), (1,))
        >>> round(one.times_as_fast_as(other), 3)
        1.143
        """
        mine, others = self._shared(other)
        return _best(others) / _best(mine) if len(mine) else other.median / self.median

    def noise_beside(self, other: Laps) -> float | None:
        """How far :meth:`times_as_fast_as` can be trusted, as a standard error; None: too few rounds to tell.

        Half of what one half of the rounds says differs from what the other half says, over many ways to halve them.
        (Were the figure a mean, that would be its standard error. What befell all rounds alike does not show.)

        >>> steady, other = Laps((2.0,), {}, 0, ((2.0,),) * 4), Laps((1.0,), {}, 0, ((1.0,), (1.0,), (1.2,), (1.2,)))
        >>> steady.noise_beside(steady), 0 < other.noise_beside(steady) < 0.2
        (0.0, True)
        """
        mine, others = self._shared(other)
        half = len(mine) // 2
        if half < _ROUNDS_TO_TELL // 2:
            return None
        rng = np.random.default_rng(len(mine))
        drawn = [rng.permutation(len(mine)) for _ in range(_WAYS_TO_HALVE)]
        halves = [(each[:half], each[half : 2 * half]) for each in drawn]
        said = [[_best(others[rounds]) / _best(mine[rounds]) for rounds in pair] for pair in halves]
        return float(np.sqrt(np.mean(np.diff(said) ** 2)) / 2)

    def _shared(self, other: Laps) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        rounds = min(len(self.pieces), len(other.pieces))
        mine, others = np.array(self.pieces[:rounds]), np.array(other.pieces[:rounds])
        if rounds and self.alike == other.alike:
            same = list(self.alike)
            mine[:, same] = others[:, same] = np.minimum(mine[:, same], others[:, same])
        return mine, others

    def columns(self, tuples: int) -> Row:
        """What a row says about them."""
        return {
            "results": self.results,
            "tuples_per_s": round(tuples / self.median),
            "cpu_seconds": rounded(self.median),
            "fastest": rounded(min(self.seconds)),
            "slowest": rounded(max(self.seconds)),
            **self.work,
        }


def race(
    drive: Callable[[str], Lap], names: Sequence[str], rounds: int, report: Report, *, warm_up: bool = True
) -> dict[str, Laps]:
    """Let everyone drive in turns, and see that all answers are the same.

    A first round that nobody's clock counts warms up; laps of many seconds can do without. The order changes each time:
    whoever comes after one that held little memory has to ask the system for more of it.
    """
    laps: dict[str, list[Lap]] = {name: [] for name in names}
    expected: Fingerprint | None = None
    rng = np.random.default_rng(rounds)
    with one_core():
        for turn in range(0 if warm_up else 1, rounds + 1):
            for name in rng.permutation(names).tolist() if turn else names:
                report(f"{name}, {f'{turn} of {rounds}' if turn else 'checking'}")
                gc.collect()
                lap = drive(name)
                expected = lap.found if expected is None else expected
                answers.check_fingerprints(expected, lap.found, (names[0], name))
                if turn:
                    laps[name].append(lap)
    return {
        name: Laps(tuple(lap.seconds for lap in each), each[-1].work, each[-1].found.rows)
        for name, each in laps.items()
    }


def side_by_side(
    start: Callable[[str], Callable[[int], Lap]],
    cuts: Sequence[int],
    rounds: Mapping[str, int],
    report: Report,
    alike: Mapping[str, Sequence[int]] | None = None,
) -> dict[str, Laps]:
    """Drive several through at the same time, taking turns piece by piece; of every piece, the best round counts.

    Whatever slows the machine down for a moment then slows all of them down, or a round that does not count. They start
    and take turns in random order: where one's memory lies, and who ran before it, makes some per cent. ``start``
    brings a contender to the first of the ``cuts``; what it returns drives on to the others, a piece at a time.
    ``rounds``: how often each takes part. ``alike``: for some of them, the pieces in which these do the same.
    All answers must be the same.
    """
    pieces: dict[str, list[list[float]]] = {name: [] for name in rounds}
    rng = np.random.default_rng(len(cuts))
    whole: dict[str, Lap] = {}
    with one_core():
        for turn in range(max(rounds.values())):
            names = [name for name in rounds if turn < rounds[name]]
            report(f"{', '.join(names)}: {turn + 1} of {rounds[names[0]]}")
            drives = {name: start(name) for name in rng.permutation(names).tolist()}
            for name in names:
                whole[name] = NO_LAP
                pieces[name].append([])
            gc.collect()
            for cut in cuts[1:]:
                for name in rng.permutation(names).tolist():
                    lap = drives[name](cut)
                    pieces[name][-1].append(lap.seconds)
                    whole[name] = whole[name].joined(lap)
            for name in names:
                answers.check_fingerprints(whole[names[0]].found, whole[name].found, (names[0], name))
    timed = {name: tuple(map(tuple, each)) for name, each in pieces.items()}
    return {
        name: Laps(
            (_best(np.array(timed[name])),), lap.work, lap.found.rows, timed[name], tuple((alike or {}).get(name, ()))
        )
        for name, lap in whole.items()
    }


def _best(pieces: NDArray[np.float64]) -> float:
    """What the best round of every piece adds up to."""
    return float(pieces.min(axis=0).sum())
