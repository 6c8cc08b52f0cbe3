"""Finding a good plan under the cost model.

========================== ============================= ===========================
what                       small joins                   beyond
========================== ============================= ===========================
tree keeping all states    dynamic programming, exact    greedy, then rotations
order of each head stream  dynamic programming, exact    greedy with a look ahead
states of a tree to keep   all subsets, exact            one flip at a time
tree and states together   all trees for a few streams;  the states to keep of the
                           then dynamic programming      tree keeping all states
                           and moving subtrees about
========================== ============================= ===========================

Trees may be bushy. Cross products appear only where no predicate connects the streams.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from thalweg.errors import PlanError
from thalweg.plan.cost import DEFAULT_COSTS, Costs
from thalweg.plan.estimator import Estimator, clearly_less, splits_of, streams_of, tree_of
from thalweg.plan.join_graph import JoinGraph
from thalweg.plan.orders import best_linear
from thalweg.plan.plan_cost import growth_rank
from thalweg.plan.program import Rank
from thalweg.plan.state_search import best_kept_tree, best_states
from thalweg.plan.statistics import Statistics
from thalweg.plan.tree import Leaf, LinearPlan, Plan, Tree, TreePlan, parse_plan
from thalweg.plan.tree_search import best_tree
from thalweg.settings import States


def choose_plan(
    graph: JoinGraph, statistics: Statistics, states: States = "auto", costs: Costs = DEFAULT_COSTS
) -> Plan:
    """The cheapest plan found: ``"all"`` is a pipeline, ``"none"`` a linear plan, ``"auto"`` the best of any kind.

    >>> graph = JoinGraph(3, classes=(frozenset({0, 1}), frozenset({1, 2})))
    >>> known = Statistics((1.0,) * 3, (100.0,) * 3, ({0: 100.0, 1: 100.0}, {1: 10.0, 2: 10.0}))
    >>> choose_plan(graph, known, "none")
    LinearPlan(orders=((1, 2), (0, 2), (1, 0)))
    """
    if graph.streams == 1:
        return TreePlan(Leaf(0))
    estimator = Estimator(graph, statistics, costs)
    if states == "none" or (states == "auto" and graph.straight and graph.streams > 2):
        # A straight join looks into every window once per tuple, not per partial result: no state could save it work.
        return best_linear(estimator)[1]
    pipeline = best_tree(estimator)
    if states == "all":
        return TreePlan(tree_of(estimator.all, pipeline)).keeping_all()
    linear_cost, linear = best_linear(estimator)
    found = best_kept_tree(estimator, pipeline)
    if clearly_less(found.cost, linear_cost) or graph.streams == 2:
        return _tree_plan(tree_of(estimator.all, found.splits), found.kept)
    return linear


def choose_states(tree: Tree, graph: JoinGraph, statistics: Statistics, costs: Costs = DEFAULT_COSTS) -> TreePlan:
    """The tree with those of its states kept that earn their keep."""
    return _tree_plan(tree, best_states(Estimator(graph, statistics, costs), splits_of(tree)).kept)


def resolve_plan(
    text: str,
    graph: JoinGraph,
    aliases: Sequence[str],
    statistics: Statistics,
    states: States = "auto",
    costs: Costs = DEFAULT_COSTS,
) -> Plan:
    """The plan that a user wrote, with its kept states decided as ``states`` says."""
    plan = parse_plan(text, aliases)
    if isinstance(plan, LinearPlan):
        if states == "all":
            raise PlanError(
                f"plan '{text}': a linear order keeps no states, so states='all' cannot hold. "
                "Write a tree such as '(A B) C', or use states='auto' or 'none'."
            )
        return plan
    if states == "auto":
        return choose_states(plan.tree, graph, statistics, costs)
    return plan.keeping_all() if states == "all" else plan.keeping_none()


def rank(graph: JoinGraph, statistics: Statistics, costs: Costs = DEFAULT_COSTS) -> Rank:
    """The order of probes that the costs here assume: pass it to ``compile_programs``."""
    return growth_rank(graph, statistics, costs)


def _tree_plan(tree: Tree, kept: Iterable[int]) -> TreePlan:
    return TreePlan(tree, frozenset(frozenset(streams_of(mask)) for mask in kept))
