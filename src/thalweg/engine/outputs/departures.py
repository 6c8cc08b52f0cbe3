"""Results that are in the window now, waiting to leave it.

ISTREAM needs only the moment a result enters. Whatever follows from results *leaving*,
DSTREAM and running aggregates, asks this pool, which knows every result's lifetime:
from its newest component's time to the first expiry among its components, or to the
moment one of them is pushed out of a ROWS window.

Nothing is said of an instant before the watermark has passed it: until then a tuple may
still come that changes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from thalweg.engine.kernels.compiled import Int64s
from thalweg.engine.time_bounds import FOREVER


@dataclass(frozen=True, slots=True)
class Events:
    """Results entering (+1) and leaving (-1), in time order; entering first within an instant.

    ``rows`` has a row number per stream for each event, ``slots`` a number by which a
    leaving result is known as the one that entered.
    """

    times: Int64s
    signs: np.ndarray[tuple[int], np.dtype[np.int8]]
    slots: Int64s
    rows: Int64s


class Departures:
    """The pool of results that have entered, or will, and have not left."""

    __image__: ClassVar = ("_enter", "_leave", "_slot", "_entered", "_rows", "_free", "_slots", "_new")

    def __init__(self, streams: int) -> None:
        self._enter = np.zeros(0, np.int64)
        self._leave = np.zeros(0, np.int64)
        self._slot = np.zeros(0, np.int64)
        self._entered = np.zeros(0, bool)
        self._rows = np.zeros((0, streams), np.int64)
        self._free = np.zeros(0, np.int64)
        self._slots = 0
        self._new: list[tuple[Int64s, Int64s, Int64s]] = []

    def add(self, times: Int64s, expiries: Int64s, rows: Int64s) -> None:
        """Results with their lifetime, as far as time alone decides it."""
        self._new.append((times.copy(), expiries.copy(), rows.copy()))

    def _take_in(self) -> None:
        """Pool the new results, all at once."""
        if not self._new:
            return
        times, expiries, rows = (np.concatenate(parts) for parts in zip(*self._new, strict=True))
        self._new = []
        missing = len(times) - len(self._free)
        if missing > 0:
            self._free = np.concatenate([self._free, np.arange(self._slots, self._slots + missing)])
            self._slots += missing
        slots, self._free = self._free[: len(times)], self._free[len(times) :]
        self._enter = np.concatenate([self._enter, times])
        self._leave = np.concatenate([self._leave, expiries])
        self._slot = np.concatenate([self._slot, slots])
        self._entered = np.concatenate([self._entered, np.zeros(len(times), bool)])
        self._rows = np.concatenate([self._rows, rows])

    def bury(self, deaths: Int64s) -> None:
        """Tuples left ROWS windows: (stream, row, time); results that hold one leave with it."""
        self._take_in()
        for stream in np.unique(deaths[:, 0]):
            mine = deaths[deaths[:, 0] == stream]
            mine = mine[np.argsort(mine[:, 1])]
            place = np.searchsorted(mine[:, 1], self._rows[:, stream])
            place[place == len(mine)] = 0
            dead = mine[place, 1] == self._rows[:, stream]
            self._leave[dead] = np.minimum(self._leave[dead], mine[place[dead], 2])

    def before(self, watermark: int) -> Events:
        """All events of instants before the watermark; those results that left are gone."""
        self._take_in()
        entering = ~self._entered & (self._enter < watermark)
        leaving = (self._leave < watermark) & (self._leave < FOREVER)
        times = np.concatenate([self._enter[entering], self._leave[leaving]])
        signs = np.concatenate([np.ones(entering.sum(), np.int8), -np.ones(leaving.sum(), np.int8)])
        slots = np.concatenate([self._slot[entering], self._slot[leaving]])
        rows = np.concatenate([self._rows[entering], self._rows[leaving]])
        order = np.lexsort((-signs, times))
        self._entered |= entering
        self._free = np.concatenate([self._free, self._slot[leaving]])
        stay = ~leaving
        self._enter, self._leave, self._slot = self._enter[stay], self._leave[stay], self._slot[stay]
        self._entered, self._rows = self._entered[stay], self._rows[stay]
        return Events(times[order], signs[order], slots[order], rows[order])

    def rows(self, stream: int) -> Int64s:
        """The row numbers of a stream in the results that wait."""
        self._take_in()
        return self._rows[:, stream]
