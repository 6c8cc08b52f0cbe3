"""What the analysis takes, and how far covers are from the best one (JAQPOT 5.4)."""

from __future__ import annotations

import itertools
import math
import statistics
import time
from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from thalweg.errors import FreshnessError, ThalwegError
from thalweg.experiments.experiment import Claim, Report, Row, at_most, below, rounded
from thalweg.experiments.jaqpot.sizes import SEED, Analysis
from thalweg.experiments.jaqpot.staleness import COVERS, Modelled, draw_tree
from thalweg.plan.allocation import AllocationModel, saturation
from thalweg.plan.allocation.flows import unlimited
from thalweg.plan.allocation.freshness import refresh_rates
from thalweg.plan.allocation.jaqpot import jaqpot
from thalweg.plan.allocation.path_table import path_table
from thalweg.plan.allocation.set_cover import cost_of, entries_per_tuple
from thalweg.plan.tree import Join, Leaf, Node, Tree, left_deep

OVERHEAD = "overhead: the analysis"
COVER = "overhead: set cover against the optimum"

_STREAMS = (4, 5, 6)
"""Of the plans whose covers are compared: with more, the optimum takes too long to find."""
_CLOSE = 1e-7


def time_of_analysis(sizes: Analysis, report: Report) -> tuple[list[Row], list[Claim]]:
    """Dividing a budget by JAQPOT, freshness included: by the number of streams."""
    rows: list[Row] = []
    medians: dict[int, float] = {}
    for streams in sizes.streams:
        report(f"{OVERHEAD}: {streams} streams")
        row: Row = {"part": OVERHEAD, "streams": streams}
        for shape, tree in (("linear", left_deep(range(streams))), ("bushy", _balanced(range(streams)))):
            rng = np.random.default_rng(SEED + streams)
            settings = _fresh(tree, rng, sizes.models)
            for name, cover in COVERS.items():
                took = []
                for setting in settings:
                    budget = saturation(setting)
                    spent = []
                    for _ in range(sizes.repeats):
                        started = time.perf_counter()
                        jaqpot(setting, budget, cover)
                        spent.append(time.perf_counter() - started)
                    took.append(1e3 * min(spent))
                row[f"ms_{shape}_{name.replace(' ', '_')}"] = rounded(statistics.median(took))
                medians[streams] = max(medians.get(streams, 0.0), statistics.median(took))
        rows.append(row)
    asked = 10 if 10 in medians else max(medians)
    return rows, [below(f"the analysis for {asked} streams, ms", medians[asked], 10)]


def covers(sizes: Analysis, report: Report) -> tuple[list[Row], list[Claim]]:
    """What each way to choose a cover costs, as a multiple of the least; in fractions of a unit.

    States are asked to be refreshed as freshness needs it, or at any rates: each at a share of what there is.
    """
    rows: list[Row] = []
    behind: dict[str, list[float]] = {name: [] for name in COVERS}
    for streams in _STREAMS:
        for shape, tree in (("linear", left_deep(range(streams))), ("bushy", _balanced(range(streams)))):
            report(f"{COVER}: {streams} streams, {shape}")
            rng = np.random.default_rng(SEED + streams)
            models = _fresh(tree, rng, sizes.covers)
            asked: dict[str, list[tuple[AllocationModel, Mapping[Node, float]]]] = {
                "freshness": [(model, refresh_rates(model)) for model in models],
                "any rates": [(model, _any_rates(model, rng)) for model in models],
            }
            for what, pairs in asked.items():
                mine: dict[str, list[float]] = {name: [] for name in COVERS}
                for model, refresh in pairs:
                    least = optimum(model, refresh)
                    for name, cover in COVERS.items():
                        mine[name].append(cost_of(model, cover(model, refresh)) / least)
                row: Row = {"part": COVER, "plan": shape, "streams": streams, "asked_for": what, "models": len(pairs)}
                for name, ratios in mine.items():
                    row[f"{name.replace(' ', '_')}_mean"] = rounded(statistics.mean(ratios))
                    row[f"{name.replace(' ', '_')}_worst"] = rounded(max(ratios))
                    behind[name] += ratios
                rows.append(row)
    return rows, [
        at_most(f"set cover, {name}: probes to those of the optimum, the mean", statistics.mean(ratios), 1.11)
        for name, ratios in behind.items()
    ]


def _any_rates(model: AllocationModel, rng: np.random.Generator) -> dict[Node, float]:
    return {node: rate * rng.uniform(0.05, 0.95) for node, rate in unlimited(model).entries(model).items()}


def _fresh(tree: Tree, rng: np.random.Generator, count: int) -> list[AllocationModel]:
    """Plans with parameters of table 3, whose freshness can be held if nothing is refused."""
    found: list[AllocationModel] = []
    while len(found) < count:
        setting: Modelled = draw_tree(tree, rng)
        model = setting.with_freshness(float(rng.uniform(1.5, 5)))
        try:
            refresh_rates(model)
        except FreshnessError:
            continue
        found.append(model)
    return found


def _balanced(streams: range) -> Tree:
    """The bushy tree with as many streams on the left as on the right."""
    if len(streams) == 1:
        return Leaf(streams[0])
    middle = (len(streams) + 1) // 2
    return Join(_balanced(streams[:middle]), _balanced(streams[middle:]))


def optimum(model: AllocationModel, refresh: Mapping[Node, float]) -> float:
    """The fewest probes per second of any cover, by looking at all corners of what is allowed.

    Each stream brings nothing, all that it has, or something in between. There are as many of the latter as states that
    get just what they need, which makes a system of linear equations. So this shares nothing with what it checks.
    """
    entries = entries_per_tuple(model)
    nodes = [node for node, rate in refresh.items() if rate > 0]
    rates = np.array([stream.rate for stream in model.streams])
    makes = np.array([[entries.get((head, node), 0.0) for head in range(len(rates))] for node in nodes])
    if not nodes:
        return 0.0
    # Shares of streams' rates bring shares of what states need: so numbers are of one size.
    makes = makes * rates / np.array([refresh[node] for node in nodes])[:, None]
    costs = np.array([row.probes_per_tuple for row in path_table(model)]) * rates
    least = min((float(costs @ corner) for corner in _corners(makes)), default=math.inf)
    if math.isinf(least):
        raise ThalwegError("the states cannot be covered, though freshness can be held")
    return least


def _corners(makes: NDArray[np.float64]) -> Iterator[NDArray[np.float64]]:
    """All corners of the shares with ``makes @ shares >= 1`` and ``0 <= shares <= 1``."""
    states, streams = makes.shape
    for kinds in itertools.product((0, 1, 2), repeat=streams):
        free = [i for i, kind in enumerate(kinds) if kind == 2]
        shares = np.array([float(kind == 1) for kind in kinds])
        for tight in itertools.combinations(range(states), len(free)):
            if free:
                system = makes[np.ix_(tight, free)]
                if abs(np.linalg.det(system / np.abs(system).max(axis=1, keepdims=True).clip(1e-300))) < _CLOSE:
                    continue
                shares[free] = np.linalg.solve(system, 1 - makes[list(tight)] @ _without(shares, free))
            if (shares >= -_CLOSE).all() and (shares <= 1 + _CLOSE).all() and (makes @ shares >= 1 - _CLOSE).all():
                yield shares


def _without(shares: NDArray[np.float64], free: list[int]) -> NDArray[np.float64]:
    fixed = shares.copy()
    fixed[free] = 0.0
    return fixed
