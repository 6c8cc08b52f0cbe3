"""The policies by name, and the one function that everybody else calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from thalweg.errors import AllocationError
from thalweg.plan.allocation.allowances import Allocation
from thalweg.plan.allocation.grepp import grepp
from thalweg.plan.allocation.harvest import harvest
from thalweg.plan.allocation.heuristics import best_hj, ebest_hj, equal_hj, global_hjpr, sbest_hj
from thalweg.plan.allocation.jaqpot import jaqpot
from thalweg.plan.allocation.model import AllocationModel
from thalweg.plan.allocation.shedding import random_shedding
from thalweg.settings import AllocationPolicy

POLICIES: Mapping[AllocationPolicy, Callable[[AllocationModel, float], Allocation]] = {
    "jaqpot": jaqpot,
    "grepp": grepp,
    "best_hj": best_hj,
    "equal_hj": equal_hj,
    "global_hjpr": global_hjpr,
    "ebest_hj": ebest_hj,
    "sbest_hj": sbest_hj,
    "random_shedding": random_shedding,
    "harvest": harvest,
}
"""Only ``jaqpot`` knows of freshness; the others spend everything on results."""


def allocate(model: AllocationModel, budget: float, policy: AllocationPolicy = "jaqpot") -> Allocation:
    """Divide a budget of so many probes per second.

    >>> from thalweg.plan.allocation.derivation import model_of_plan
    >>> from thalweg.plan import JoinGraph, Statistics, parse_plan
    >>> graph = JoinGraph(2, classes=(frozenset({0, 1}),))
    >>> known = Statistics((100.0, 100.0), (5000.0, 500.0), ({0: 1000.0, 1: 1000.0},))
    >>> allocation = allocate(model_of_plan(parse_plan("A B", "AB"), graph, known), budget=120, policy="grepp")
    >>> [[round(each, 6) for each in path] for path in allocation.allowances], round(allocation.results, 6)
    ([[20.0], [100.0]], 510.0)
    """
    if policy not in POLICIES:
        raise AllocationError(f"allocation policy '{policy}' does not exist. There are {', '.join(POLICIES)}.")
    return POLICIES[policy](model, budget)
