"""Whole units of paths: the knapsack of JAQPOT's problem 1, solved exactly and greedily.

Each path comes in units of so many probes and so many results. A cycle stands for itself: a unit is bought whole or not
at all. The greedy choice is not the best one then (the paper's table 2 shows it). GrePP (:mod:`.grepp`) lifts that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from thalweg.plan.allocation.allowances import Allocation, of_leaves
from thalweg.plan.allocation.model import AllocationModel, check_budget
from thalweg.plan.allocation.path_table import PathRow, by_productivity, path_table

Choice = Callable[[Sequence[PathRow], float], tuple[int, ...]]
"""The units of each path, for a budget."""

ROUNDING = 1e-9
"""A unit of 14.9999999999 probes is one of 15."""


def optimal_units(rows: Sequence[PathRow], budget: float) -> tuple[int, ...]:
    """The units of each path that yield most, by dynamic programming: O(paths x budget x log units).

    >>> rows = [PathRow(0, (1.0, 0.5), 4.0, 9.0), PathRow(1, (1.0, 0.45), 3.0, 9.0)]
    >>> optimal_units(rows, 9)
    (0, 3)
    """
    whole = math.floor(budget + ROUNDING)
    packs = [pack for place, row in enumerate(rows) for pack in _packs(place, row, whole)]
    best = [0.0] * (whole + 1)
    takes: list[bytearray] = []
    for place, count in packs:
        weight, gain = count * _weight(rows[place]), count * rows[place].output
        taken = bytearray(whole + 1)
        for room in range(whole, weight - 1, -1):
            if best[room - weight] + gain > best[room]:
                best[room] = best[room - weight] + gain
                taken[room] = 1
        takes.append(taken)
    units = [0] * len(rows)
    room = whole
    for (place, count), taken in zip(reversed(packs), reversed(takes), strict=True):
        if taken[room]:
            units[place] += count
            room -= count * _weight(rows[place])
    return tuple(units)


def greedy_units(rows: Sequence[PathRow], budget: float) -> tuple[int, ...]:
    """The units of each path when the most productive path that still fits goes first.

    >>> rows = [PathRow(0, (1.0, 0.5), 4.0, 9.0), PathRow(1, (1.0, 0.45), 3.0, 9.0)]
    >>> greedy_units(rows, 9)
    (2, 0)
    """
    units = dict.fromkeys((row.head for row in rows), 0)
    room = math.floor(budget + ROUNDING)
    for row in by_productivity(rows):
        units[row.head] = min(room // _weight(row), _most(row))
        room -= units[row.head] * _weight(row)
    return tuple(units[row.head] for row in rows)


def discrete_optimum(model: AllocationModel, budget: float, leaves: Sequence[float]) -> Allocation:
    """The best whole units; ``leaves``: the tuples per second in a unit of each path."""
    return _of_units("discrete optimum", model, budget, leaves, optimal_units)


def discrete_greedy(model: AllocationModel, budget: float, leaves: Sequence[float]) -> Allocation:
    """Whole units, the most productive path first."""
    return _of_units("discrete greedy", model, budget, leaves, greedy_units)


def _of_units(name: str, model: AllocationModel, budget: float, leaves: Sequence[float], choose: Choice) -> Allocation:
    check_budget(budget)
    rows = path_table(model, leaves)
    spendable = min(budget, math.fsum(_most(row) * _weight(row) for row in rows))
    units = choose(rows, spendable)
    return of_leaves(name, model, budget, [count * leaf for count, leaf in zip(units, leaves, strict=True)])


def _weight(row: PathRow) -> int:
    """The whole probes that a unit is charged."""
    return math.ceil(row.resources - ROUNDING)


def _most(row: PathRow) -> int:
    return math.floor(row.most + ROUNDING)


def _packs(place: int, row: PathRow, budget: int) -> list[tuple[int, int]]:
    """Packs of 1, 2, 4, ... units that make up every number of them which rate and budget allow."""
    left = min(_most(row), budget // _weight(row))
    packs = []
    size = 1
    while left > 0:
        packs.append((place, min(size, left)))
        left -= size
        size *= 2
    return packs
