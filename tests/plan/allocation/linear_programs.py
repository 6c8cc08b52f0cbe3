"""The allocation problems as linear programs, solved by scipy."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy.optimize import linprog

from thalweg.plan.allocation import AllocationModel
from thalweg.plan.tree import Node


def most_results(model: AllocationModel, budget: float) -> float:
    """A variable for every stream and step: no step probes more often than the one before it has matches."""
    places = [(head, step) for head, path in enumerate(model.paths) for step in range(len(path))]
    growth = {(head, step): model.half_ways[model.paths[head][step]].productivity for head, step in places}
    gain = [growth[head, step] if step == len(model.paths[head]) - 1 else 0.0 for head, step in places]
    rows, bounds = [[1.0] * len(places)], [budget]
    for at, (head, step) in enumerate(places):
        row = [0.0] * len(places)
        row[at] = 1.0
        if step:
            row[at - 1] = -growth[head, step - 1]
        rows.append(row)
        bounds.append(0.0 if step else model.streams[head].rate)
    solved = linprog(-np.array(gain), A_ub=np.array(rows), b_ub=bounds)
    assert solved.success, solved.message
    return float(-solved.fun)


def _paths(model: AllocationModel, refresh: Mapping[Node, float]) -> tuple[list[float], list[float], list[list[float]]]:
    """Per tuple that goes all the way: probes, results, and per state the entries."""
    grown = [model.cardinalities(head) for head in range(len(model.streams))]
    entries = []
    for node in refresh:
        steps = [model.entry(head, node) for head in range(len(grown))]
        entries.append([0.0 if at is None else grown[head][at + 1] for head, at in enumerate(steps)])
    return [sum(each[:-1]) for each in grown], [each[-1] for each in grown], entries


def least_cover_cost(model: AllocationModel, refresh: Mapping[Node, float]) -> float:
    costs, _, entries = _paths(model, refresh)
    solved = linprog(
        costs,
        A_ub=-np.array(entries) if entries else None,
        b_ub=[-rate for rate in refresh.values()] if entries else None,
        bounds=[(0, stream.rate) for stream in model.streams],
    )
    assert solved.success, solved.message
    return float(solved.fun)


def most_fresh_results(model: AllocationModel, budget: float, refresh: Mapping[Node, float]) -> float:
    costs, gains, entries = _paths(model, refresh)
    solved = linprog(
        -np.array(gains),
        A_ub=np.vstack([costs, *(-np.array(row) for row in entries)]),
        b_ub=[budget, *(-rate for rate in refresh.values())],
        bounds=[(0, stream.rate) for stream in model.streams],
    )
    assert solved.success, solved.message
    return float(-solved.fun)
