"""What the joins of a plan ask of each other, as facts for an explanation (:mod:`thalweg.plan.demand`)."""

from __future__ import annotations

from typing import Any

from thalweg.cql.query import Query
from thalweg.options import Feedback
from thalweg.plan.demand import Site, find_demands
from thalweg.plan.join_graph import JoinGraph
from thalweg.plan.names import class_names
from thalweg.plan.program import compile_programs
from thalweg.plan.tree import Plan, format_node

Facts = dict[str, Any]


def explain_production(query: Query, plan: Plan, feedback: Feedback | None) -> Facts:
    """The policy of production, and the demands by which it goes: what waits, for what, and where it stops."""
    if feedback is None:
        return {"policy": "push", "lattice": None, "filter_bits": None, "demands": []}
    return {
        "policy": "auto" if feedback.when == "auto" else "jit",
        "lattice": feedback.lattice,
        "filter_bits": feedback.filter_bits,
        "demands": _demands(query, plan, feedback.lattice),
    }


def _demands(query: Query, plan: Plan, lattice: int) -> list[Facts]:
    graph = JoinGraph.of(query)
    programs = compile_programs(plan, graph)
    found = find_demands(plan, graph, programs, lattice)
    places: dict[tuple[tuple[int, ...], int], list[tuple[int, Site]]] = {}
    for stream, sites in enumerate(found.sites):
        for site in sites:
            if not query.streams[stream].is_static:
                places.setdefault((tuple(sorted(site.producer)), site.demand), []).append((stream, site))
    names = class_names(query)
    facts = []
    for (producer, number), stops in sorted(places.items(), key=lambda place: (len(place[0][0]), place[0])):
        demand = found.demands[number]
        facts.append(
            {
                "of": format_node(frozenset(producer), query.aliases),
                "from": [query.aliases[s] for s in demand.others],
                "by": [names[c] for c in demand.key],
                "static": all(query.streams[s].is_static for s in demand.others),
                "stops": {
                    query.aliases[stream]: [
                        format_node(step.target, query.aliases)
                        for step in programs.heads[stream].steps[: site.depth + 1]
                    ]
                    for stream, site in stops
                },
            }
        )
    return facts
