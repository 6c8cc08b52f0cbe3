"""What the joins of a plan ask of each other, as facts for an explanation (:mod:`thalweg.plan.demand`)."""

from __future__ import annotations

from typing import Any

from thalweg.cql.query import Query
from thalweg.plan.compiler import compile_programs
from thalweg.plan.demand import find_demands
from thalweg.plan.join_graph import JoinGraph
from thalweg.plan.names import class_names
from thalweg.plan.program import Gate
from thalweg.plan.tree import Plan, format_node
from thalweg.settings import Feedback

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
    places: dict[tuple[tuple[int, ...], int], list[tuple[int, Gate]]] = {}
    for stream, gates in enumerate(found.gates):
        for gate in gates:
            if not query.streams[stream].is_static:
                places.setdefault((tuple(sorted(gate.producer)), gate.demand), []).append((stream, gate))
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
                        format_node(probe.target, query.aliases)
                        for probe in programs.heads[stream].probes[: gate.depth + 1]
                    ]
                    for stream, gate in stops
                },
            }
        )
    return facts
