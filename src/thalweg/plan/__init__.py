"""From a bound query to the plan that runs it: pure functions, no execution.

Read in this order: :mod:`~thalweg.plan.tree` (what a plan is), :mod:`~thalweg.plan.join_graph`,
:mod:`~thalweg.plan.program` (what a plan makes a tuple do), :mod:`~thalweg.plan.compiler`,
:mod:`~thalweg.plan.statistics`, :mod:`~thalweg.plan.cost`, :mod:`~thalweg.plan.search`,
:mod:`~thalweg.plan.transition`, :mod:`~thalweg.plan.explain`. :mod:`~thalweg.plan.allocation` divides a budget over a
plan.
"""

from thalweg.plan.compiler import compile_programs
from thalweg.plan.cost import Costs
from thalweg.plan.explain import explain_json, explain_text
from thalweg.plan.join_graph import JoinGraph
from thalweg.plan.plan_cost import PlanCost, plan_cost
from thalweg.plan.program import Programs
from thalweg.plan.sampling import StreamSample
from thalweg.plan.search import choose_plan, choose_states, rank, resolve_plan
from thalweg.plan.statistics import Statistics
from thalweg.plan.transition import Transition, classify
from thalweg.plan.tree import LinearPlan, Node, Plan, TreePlan, format_node, format_plan, parse_plan

__all__ = [
    "Costs",
    "JoinGraph",
    "LinearPlan",
    "Node",
    "Plan",
    "PlanCost",
    "Programs",
    "Statistics",
    "StreamSample",
    "Transition",
    "TreePlan",
    "choose_plan",
    "choose_states",
    "classify",
    "compile_programs",
    "explain_json",
    "explain_text",
    "format_node",
    "format_plan",
    "parse_plan",
    "plan_cost",
    "rank",
    "resolve_plan",
]
