"""Dividing a budget of probes over a plan (JAQPOT): pure functions, no execution.

A budget is too small for everything that tuples could probe for. An allocation says how many probes per second each
step of each stream's program may make. Read in this order:

- :mod:`~thalweg.plan.allocation.model`: half-way joins, and the paths of streams through them.
- :mod:`~thalweg.plan.allocation.derivation`: the model of a plan.
- :mod:`~thalweg.plan.allocation.path_table`: what a path costs and yields.
- :mod:`~thalweg.plan.allocation.flows`: what flows if probes are refused.
- :mod:`~thalweg.plan.allocation.allowances`: what a policy decides.

The most results:

- :mod:`~thalweg.plan.allocation.grepp`: fractions of paths, greedily, which is the best.
- :mod:`~thalweg.plan.allocation.knapsack`: whole units of paths, by dynamic programming and greedily.

Freshness:

- :mod:`~thalweg.plan.allocation.freshness`: how often states have to be refreshed.
- :mod:`~thalweg.plan.allocation.set_cover`: which paths do that.
- :mod:`~thalweg.plan.allocation.jaqpot`: freshness first, then results.

Rivals:

- :mod:`~thalweg.plan.allocation.heuristics`: half-way joins one by one.
- :mod:`~thalweg.plan.allocation.shedding`: fewer tuples.
- :mod:`~thalweg.plan.allocation.harvest`: parts of windows.

:mod:`~thalweg.plan.allocation.registry` has all policies by name; :mod:`~thalweg.plan.allocation.division` makes of
an allocation what a running join needs.
"""

from thalweg.plan.allocation.allowances import Allocation, Harvest
from thalweg.plan.allocation.derivation import model_of_plan, model_of_programs, model_of_tree
from thalweg.plan.allocation.division import Division, Way, divide
from thalweg.plan.allocation.flows import Flows, saturation
from thalweg.plan.allocation.model import AllocationModel, HalfWayJoin, StateLoad, StreamLoad
from thalweg.plan.allocation.path_table import PathRow, path_table
from thalweg.plan.allocation.registry import POLICIES, allocate
from thalweg.settings import AllocationPolicy

__all__ = [
    "POLICIES",
    "Allocation",
    "AllocationModel",
    "AllocationPolicy",
    "Division",
    "Flows",
    "HalfWayJoin",
    "Harvest",
    "PathRow",
    "StateLoad",
    "StreamLoad",
    "Way",
    "allocate",
    "divide",
    "model_of_plan",
    "model_of_programs",
    "model_of_tree",
    "path_table",
    "saturation",
]
