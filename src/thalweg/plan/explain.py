"""What a query means and how a plan runs it: as JSON here, as text from the same facts.

The keys of the JSON are stable. Costs are in nanoseconds of work per second of stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from thalweg.cql.durations import format_interval
from thalweg.cql.query import Query, RangeWindow, StreamRef, Window
from thalweg.cql.rendering import render
from thalweg.cql.types import describe
from thalweg.plan.cost import DEFAULT_COSTS
from thalweg.plan.difference import AnyPlan, DifferencePlan, format_any
from thalweg.plan.estimator import Estimator, TreeEstimator, splits_of, streams_of
from thalweg.plan.explain_budget import explain_budget
from thalweg.plan.explain_production import explain_production
from thalweg.plan.explain_text import lay_out
from thalweg.plan.join_graph import JoinGraph
from thalweg.plan.names import aggregate_text, class_names, class_text, output_text, theta_text
from thalweg.plan.partitioning import Partitioning
from thalweg.plan.partitioning import describe as describe_partitioning
from thalweg.plan.plan_cost import PlanCost, StepCost, plan_cost
from thalweg.plan.search import choose_plan
from thalweg.plan.statistics import Statistics
from thalweg.plan.tree import Leaf, Node, Plan, Tree, TreePlan, format_node, format_plan
from thalweg.policies import DEFAULT_POLICIES, Policies

Facts = dict[str, Any]


def explain_text(
    query: Query,
    plan: AnyPlan | None,
    statistics: Statistics,
    policies: Policies = DEFAULT_POLICIES,
    *,
    partitioning: Partitioning | None = None,
    carried: Sequence[Facts] | None = None,
    basis: Sequence[str] | None = None,
) -> str:
    """The query and its plan, for a person."""
    facts = explain_json(query, plan, statistics, policies, partitioning=partitioning, carried=carried, basis=basis)
    return lay_out(facts)


def explain_json(
    query: Query,
    plan: AnyPlan | None,
    statistics: Statistics,
    policies: Policies = DEFAULT_POLICIES,
    *,
    partitioning: Partitioning | None = None,
    carried: Sequence[Facts] | None = None,
    basis: Sequence[str] | None = None,
) -> Facts:
    """The query and its plan, for a program: nothing but what JSON knows.

    The ``policies`` say whether its joins ask anything of each other, and whether a budget is divided. With a
    ``partitioning`` also how its tuples are spread over buckets; with ``carried``, in the order of the streams, also
    which of their columns travel to the buckets. ``basis`` says what of the numbers is assumed, and what was measured.
    """
    facts: Facts = {
        "query": query.name,
        "kind": query.kind,
        "output": query.output.value,
        "freshness_us": query.freshness_us,
        "columns": column_facts(query),
        "aggregation": aggregation_facts(query),
        "streams": [_stream(stream, s, statistics) for s, stream in enumerate(query.streams)],
        "predicates": _predicates(query, statistics),
        "plan": None,
        "states": [],
        "programs": {},
        "production": None,
        "budget": None,
        "cost": None,
        "why": [],
        "buckets": None if partitioning is None else _buckets(query, partitioning),
        "carried": None if carried is None else dict(zip(query.aliases, carried, strict=True)),
        "basis": None if basis is None else list(basis),
    }
    if isinstance(plan, DifferencePlan):
        facts |= _difference(query, plan)
    elif plan is not None:
        facts |= _Explainer(query, plan, statistics).facts()
        facts["production"] = explain_production(query, plan, policies.feedback)
        facts["budget"] = explain_budget(query, plan, statistics, policies.budget, policies.allocation)
    return {key: _rounded(value) for key, value in facts.items()}


def _difference(query: Query, plan: DifferencePlan) -> Facts:
    prefixes = [DifferencePlan(plan.order[:count]) for count in range(1, len(plan.order))]
    return {
        "plan": {"text": format_any(plan, query.aliases), "kind": "difference", "tree": None},
        "states": [{"state": format_any(prefix, query.aliases), "kept": False} for prefix in prefixes],
    }


def _buckets(query: Query, partitioning: Partitioning) -> Facts:
    return {
        "kind": partitioning.kind,
        "number": partitioning.buckets,
        "shares": [axis.share for axis in partitioning.axes],
        "copies": {alias: partitioning.copies(s) for s, alias in enumerate(query.aliases)},
        "reason": partitioning.reason,
        "text": list(describe_partitioning(query, partitioning)),
    }


def _rounded(value: Any) -> Any:
    """Estimates to six digits: more would be noise."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, list) else value


def column_facts(query: Query) -> list[Facts]:
    """What a query's rows consist of."""
    return [{"name": p.name, "expression": output_text(p, query), "type": describe(p.type)} for p in query.select]


def aggregation_facts(query: Query) -> Facts | None:
    """What a query groups by and computes of groups; None: nothing."""
    aggregation = query.aggregation
    if aggregation is None:
        return None
    return {
        "keys": [render(key.expression) for key in aggregation.keys],
        "calls": [aggregate_text(call) for call in aggregation.calls],
        "having": None if aggregation.having is None else output_text(aggregation.having, query),
    }


def _stream(stream: StreamRef, position: int, statistics: Statistics) -> Facts:
    window, retention = stream.window, stream.retention_us
    is_range = isinstance(window, RangeWindow)
    return {
        "alias": stream.alias,
        "stream": stream.stream,
        "static": stream.is_static,
        "time": stream.time,
        "window": "static relation, read once" if stream.is_static else window_text(window),
        "window_kind": "static" if stream.is_static else "range" if is_range else "rows",
        "width_us": window.width_us if isinstance(window, RangeWindow) else None,
        "rows": None if isinstance(window, RangeWindow) else window.rows,
        "derived": isinstance(window, RangeWindow) and window.derived,
        "grows_for_ever": is_range and _width(stream) is None and not stream.is_static,
        "retention_us": retention,
        "retention": None if retention is None else length_text(retention),
        "freshness_us": stream.freshness_us,
        "rate": 0.0 if stream.is_static else statistics.rates[position],
        "tuples": statistics.windows[position],
    }


def _width(stream: StreamRef) -> int | None:
    """How long a tuple is kept at most."""
    width = stream.window.width_us if isinstance(stream.window, RangeWindow) else None
    return min((w for w in (width, stream.retention_us) if w is not None), default=None)


def window_text(window: Window) -> str:
    """A window as it is written, without its brackets."""
    if not isinstance(window, RangeWindow):
        keys = ", ".join(render(key) for key in window.partition_by)
        return f"PARTITION BY {keys} ROWS {window.rows:,}" if keys else f"ROWS {window.rows:,}"
    if window.width_us is None:
        return "RANGE UNBOUNDED"
    return "NOW" if window.width_us == 1 and not window.derived else f"RANGE {length_text(window.width_us)}"


def length_text(microseconds: int) -> str:
    """A length of time; derived ones are a microsecond longer than written, so that their end is included."""
    if microseconds > 1 and microseconds % 1000 == 1:
        return f"{format_interval(microseconds - 1)} inclusive"
    return format_interval(microseconds)


def _predicates(query: Query, statistics: Statistics) -> Facts:
    selections = {s.alias: render(s.selection) for s in query.streams if s.selection is not None}
    return {
        "equalities": [
            {
                "name": name,
                "text": class_text(cls),
                "type": describe(cls.type),
                "null_safe": cls.null_safe,
                "distinct": {query.streams[s].alias: count for s, count in sorted(distinct.items())},
            }
            for name, cls, distinct in zip(class_names(query), query.classes, statistics.distinct, strict=True)
        ],
        "thetas": [
            {"text": theta_text(theta), "selectivity": share}
            for theta, share in zip(query.thetas, statistics.thetas, strict=True)
        ],
        "selections": selections,
        "residual": [render(predicate) for predicate in query.residual],
    }


class _Explainer:
    """The facts about a plan, with the names of its query."""

    def __init__(self, query: Query, plan: Plan, statistics: Statistics) -> None:
        self.query = query
        self.plan = plan
        self.statistics = statistics
        self.graph = JoinGraph.of(query)
        self.names = class_names(query)

    def facts(self) -> Facts:
        cost = plan_cost(self.plan, self.graph, self.statistics)
        states = self._states(self.plan) if isinstance(self.plan, TreePlan) else []
        return {
            "plan": {
                "text": format_plan(self.plan, self.query.aliases),
                "kind": "tree" if isinstance(self.plan, TreePlan) else "linear",
                "tree": self._tree(self.plan.tree, self.plan) if isinstance(self.plan, TreePlan) else None,
            },
            "states": states,
            "programs": {
                self.query.aliases[head.stream]: [self._step(step) for step in head.steps] for head in cost.heads
            },
            "cost": self._cost(cost),
            "why": self._why(cost),
        }

    def _node(self, node: Node) -> str:
        return format_node(node, self.query.aliases)

    def _predicate(self, key: tuple[int, ...], thetas: tuple[int, ...]) -> Facts:
        return {
            "method": "hash" if key else "nested loop",
            "key": [self.names[cls] for cls in key],
            "thetas": [theta_text(self.query.thetas[theta]) for theta in thetas],
        }

    def _tree(self, tree: Tree, plan: TreePlan) -> Facts:
        node, is_leaf = tree.node, isinstance(tree, Leaf)
        facts: Facts = {
            "node": self._node(node),
            "streams": [self.query.aliases[s] for s in sorted(node)],
            "kept": is_leaf or node in plan.kept,
            "size": self.statistics.size(self.graph, node),
            "arrivals": self.statistics.arrivals(self.graph, node),
        }
        if isinstance(tree, Leaf):
            return facts
        left, right = tree.left.node, tree.right.node
        facts |= self._predicate(self.graph.connecting(left, right), self.graph.thetas_completed(left, right))
        return facts | {"children": [self._tree(tree.left, plan), self._tree(tree.right, plan)]}

    def _step(self, cost: StepCost) -> Facts:
        probe = cost.probe
        return {
            "probe": self._node(probe.target),
            **self._predicate(probe.key, probe.thetas),
            "checks": [self.names[cls] for cls in probe.checks if cls not in probe.key],
            "stores": None if cost.stores is None else self._node(cost.stores),
            "probes": cost.probes,
            "candidates": cost.candidates,
            "matches": cost.matches,
            "probing": cost.probing,
            "storing": cost.storing,
        }

    def _cost(self, cost: PlanCost) -> Facts:
        heads = {
            self.query.aliases[head.stream]: {
                "rate": head.rate,
                "base": head.base,
                "probing": sum(step.probing for step in head.steps),
                "storing": sum(step.storing for step in head.steps),
                "results": head.results,
                "total": head.total,
            }
            for head in cost.heads
        }
        return {
            "total": cost.total,
            "per_tuple": cost.per_tuple,
            "storing": cost.storing,
            "rate": sum(self.statistics.rates),
            "results": self.statistics.arrivals(self.graph, frozenset(range(self.graph.streams))),
            "heads": heads,
        }

    def _states(self, plan: TreePlan) -> list[Facts]:
        """For every state of a tree, what storing it costs and what recomputing it would."""
        trees = TreeEstimator(Estimator(self.graph, self.statistics, DEFAULT_COSTS), splits_of(plan.tree))
        nodes = [frozenset(streams_of(mask)) for mask in trees.states]
        kept = sum(1 << i for i, node in enumerate(nodes) if node in plan.kept)
        facts = []
        for i, node in enumerate(nodes):
            storing = trees.estimator.upkeep(trees.states[i])
            saved = trees.total(kept & ~(1 << i)) - trees.total(kept | 1 << i)
            facts.append(
                {
                    "state": self._node(node),
                    "kept": node in plan.kept,
                    "entries": self.statistics.size(self.graph, node),
                    "storing": storing,
                    "recomputing": max(saved + storing, 0.0),
                }
            )
        return facts

    def _why(self, cost: PlanCost) -> list[str]:
        """Why no state is kept, if the shape of the plan has none."""
        streams = len(self.query.streams)
        if streams == 1:
            return ["One stream: there is nothing to join."]
        if streams == 2:
            return ["Two streams: they join window against window, there is no intermediate state."]
        if isinstance(self.plan, TreePlan):
            return []
        pipeline = choose_plan(self.graph, self.statistics, "all")
        ratio = plan_cost(pipeline, self.graph, self.statistics).total / cost.total
        text = format_plan(pipeline, self.query.aliases)
        verdict = "about as much" if 0.95 < ratio < 1.05 else f"{ratio:.2g} times as much"
        return [
            "Every stream has its own order, and no intermediate result is stored: probes are recomputed each time.",
            f"The best tree that keeps all its states, {text}, is expected to cost {verdict}.",
        ]
