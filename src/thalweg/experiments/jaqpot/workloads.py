"""Streams of random values, and windowed equi-joins over them in numbers (JAQPOT, table 3).

Windows are counted in rows, as in the paper. Two streams are joined on a column of their own, whose values are uniform:
so the share of pairs that join is one over their number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thalweg.experiments.workloads import MICROSECONDS

Shape = Literal["linear", "bushy"]
SHAPES: tuple[Shape, ...] = ("linear", "bushy")

RATES = (300.0, 1_200.0)
WINDOWS = (200.0, 5_000.0)
SELECTIVITIES = (0.01, 0.1)
"""From the least to the most, as in table 3."""
_COLUMNS = ("x", "y", "z")
_NAMES = "abcd"
_AT_ONCE = 10_000
"""Settings that are drawn at once: few of them can be produced."""
_PLANS: Mapping[Shape, str] = {"linear": "((a b) c) d", "bushy": "(a b) (c d)"}
_ORDER: Mapping[Shape, tuple[int, ...]] = {"linear": (0, 1, 2), "bushy": (0, 2, 1)}
"""[column] which join of the plan is the one on it, the root last: a with b, b with c, c with d."""


@dataclass(frozen=True)
class Workload:
    """Streams and the query that joins them.

    Attributes:
        tables: the streams, each with a time ``ts`` in microseconds and its row number ``id``.
        windows: per stream, so many rows; or so many microseconds.
        unit: which of them.
        equal: pairs of (stream, column) whose values have to be the same.
        plan: the plan that is run.
        seconds: of event time.

    """

    tables: Mapping[str, pa.Table]
    windows: tuple[int, ...]
    unit: Literal["rows", "microseconds"]
    equal: tuple[tuple[tuple[str, str], tuple[str, str]], ...]
    plan: str
    seconds: float

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.tables)

    @property
    def tuples(self) -> int:
        """Of all streams together."""
        return sum(len(table) for table in self.tables.values())

    @property
    def cql(self) -> str:
        columns = ", ".join(f"{name}.id AS id{i}" for i, name in enumerate(self.names))
        sources = ", ".join(f"{name} {self._window(rows)}" for name, rows in zip(self.names, self.windows, strict=True))
        joined = " AND ".join(f"{a}.{x} = {b}.{y}" for (a, x), (b, y) in self.equal)
        return f"SELECT {columns}\nFROM {sources}\nWHERE {joined}"

    def _window(self, size: int) -> str:
        return f"[ROWS {size}]" if self.unit == "rows" else f"[RANGE {size} MICROSECONDS]"

    @cached_property
    def times(self) -> list[NDArray[np.int64]]:
        return [table["ts"].to_numpy() for table in self.tables.values()]

    @cached_property
    def filled(self) -> float:
        """The seconds after which all windows are full."""
        if self.unit == "microseconds":
            return max(self.windows) / MICROSECONDS
        return max(int(times[rows - 1]) for times, rows in zip(self.times, self.windows, strict=True)) / MICROSECONDS


@dataclass(frozen=True, slots=True)
class Setting:
    """A join of four streams in numbers.

    Attributes:
        rates: tuples per second of each stream.
        windows: rows of each stream's window.
        selectivities: the share of pairs that join: those of the joins of the plan, the root last.

    """

    rates: tuple[float, ...]
    windows: tuple[int, ...]
    selectivities: tuple[float, float, float]

    @property
    def text(self) -> str:
        """The setting in one line."""
        rates = "/".join(f"{rate:.0f}" for rate in self.rates)
        windows = "/".join(map(str, self.windows))
        return f"{rates} tuples/s, {windows} rows, {'/'.join(f'{each:.3g}' for each in self.selectivities)}"


def drawn(rng: np.random.Generator, range_: tuple[float, float]) -> float:
    """A number from a range of table 3: small and large ones are as likely."""
    return float(_many(rng, range_, 1)[0])


def _many(rng: np.random.Generator, range_: tuple[float, float], count: int) -> NDArray[np.float64]:
    low, high = np.log(range_)
    found: NDArray[np.float64] = np.exp(rng.uniform(low, high, count))
    return found


def draw_settings(seed: int, count: int, most_results: float, *, alike: bool = False) -> list[Setting]:
    """Settings from all of table 3, but for those with more results per second than that.

    Most combinations of the table have many millions of results per second, which nobody could produce. ``alike``: all
    joins have the same selectivity.
    """
    rng = np.random.default_rng(seed)
    found: list[Setting] = []
    while len(found) < count:
        rates = np.stack([_many(rng, RATES, _AT_ONCE) for _ in _NAMES])
        windows = np.stack([_many(rng, WINDOWS, _AT_ONCE) for _ in _NAMES]).round()
        selectivities = np.stack([_many(rng, SELECTIVITIES, _AT_ONCE) for _ in _COLUMNS])
        if alike:
            selectivities[1:] = selectivities[0]
        results = selectivities.prod(axis=0) * windows.prod(axis=0) * (rates / windows).sum(axis=0)
        for place in np.flatnonzero(results <= most_results).tolist():
            first, second, third = selectivities[:, place].tolist()
            held = tuple(int(rows) for rows in windows[:, place])
            found.append(Setting(tuple(rates[:, place].tolist()), held, (first, second, third)))
    return found[:count]


def chain(shape: Shape, phases: Sequence[tuple[float, Setting]], seed: int) -> Workload:
    """Four streams joined one to the next; phases of so many seconds, with a setting each."""
    rng = np.random.default_rng(seed)
    parts: dict[str, list[pa.Table]] = {name: [] for name in _NAMES}
    start = 0.0
    for seconds, setting in phases:
        values = [round(1 / setting.selectivities[place]) for place in _ORDER[shape]]
        for i, name in enumerate(_NAMES):
            of_mine = {column: values[j] for j, column in enumerate(_COLUMNS) if i in (j, j + 1)}
            parts[name].append(_arrivals(rng, start, seconds, setting.rates[i], of_mine))
        start += seconds
    tables = {name: numbered(pa.concat_tables(each)) for name, each in parts.items()}
    equal = tuple(((a, column), (b, column)) for (a, b), column in zip(pairwise(_NAMES), _COLUMNS, strict=True))
    return Workload(tables, phases[0][1].windows, "rows", equal, _PLANS[shape], start)


def keyed(shape: Shape, seconds: float, setting: Setting, seed: int) -> Workload:
    """Four streams joined on one key, with the first selectivity of a setting: all that a state holds carries it."""
    rng = np.random.default_rng(seed)
    values = {"k": round(1 / setting.selectivities[0])}
    tables = {
        name: numbered(_arrivals(rng, 0.0, seconds, rate, values))
        for name, rate in zip(_NAMES, setting.rates, strict=True)
    }
    equal = tuple(((a, "k"), (b, "k")) for a, b in pairwise(_NAMES))
    return Workload(tables, setting.windows, "rows", equal, _PLANS[shape], seconds)


def _arrivals(
    rng: np.random.Generator, start: float, seconds: float, rate: float, values: Mapping[str, int]
) -> pa.Table:
    """Poisson arrivals with uniform values."""
    count = rng.poisson(rate * seconds)
    times = np.sort(rng.integers(round(start * MICROSECONDS), round((start + seconds) * MICROSECONDS), count))
    return pa.table({"ts": times, **{name: rng.integers(0, number, count) for name, number in values.items()}})


def numbered(table: pa.Table) -> pa.Table:
    """With a row number."""
    return table.append_column("id", pa.array(np.arange(len(table))))
