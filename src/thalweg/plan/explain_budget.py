"""How a budget would be divided, as facts for an explanation (:mod:`thalweg.plan.allocation`)."""

from __future__ import annotations

from typing import Any

from thalweg.cql.query import Query
from thalweg.plan.allocation import allocate, divide, model_of_plan
from thalweg.plan.join_graph import JoinGraph
from thalweg.plan.statistics import Statistics
from thalweg.plan.tree import Plan, format_node
from thalweg.settings import AllocationPolicy, Budget

Facts = dict[str, Any]


def explain_budget(
    query: Query, plan: Plan, statistics: Statistics, budget: Budget | None, policy: AllocationPolicy
) -> Facts | None:
    """Probes per second that each step would want and get, and the share of the results that is expected."""
    if budget is None or len(query.streams) < 2:
        return None
    model = model_of_plan(plan, JoinGraph.of(query), statistics, names=query.aliases)
    unpaid = frozenset(s for s, ref in enumerate(query.streams) if ref.is_static)
    division = divide(model, budget, policy, unpaid)
    programs: dict[str, list[Facts]] = {}
    found = full = 0.0
    for head, (stream, path, feeds) in enumerate(zip(model.streams, model.paths, division.feeds, strict=True)):
        if head in unpaid:
            continue
        flow, steps = stream.rate, []
        for index, feed in zip(path, feeds, strict=True):
            half_way = model.half_ways[index]
            allowed = min(flow, feed * stream.rate)
            steps.append({"probe": format_node(half_way.target, query.aliases), "wanted": flow, "allowed": allowed})
            flow = allowed * half_way.productivity
        if division.admitted or division.ways:  # what is let in, and looked at, decides more than what tuples pay
            flows = allocate(model, division.granted, policy).flows
            steps = [dict(each, allowed=probes) for each, probes in zip(steps, flows.probes[head], strict=True)]
            flow = flows.matches[head][-1]
        programs[query.aliases[head]] = steps
        found += flow
        full += stream.rate * model.cardinalities(head)[-1]
    return {
        "allocation": policy,
        "needed": division.needed,
        "granted": min(division.granted, division.needed),
        "refuses": division.refuses,
        "share": found / full if full else 1.0,
        "programs": programs,
    }
