"""Plans and statistics as JSON, for what outlives a process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from thalweg.cql.query import Query
from thalweg.plan.difference import AnyPlan, format_any, parse_difference
from thalweg.plan.statistics import Statistics
from thalweg.plan.tree import Plan, TreePlan, parse_plan


def plan_to_json(plan: AnyPlan, aliases: Sequence[str]) -> dict[str, Any]:
    kept = [sorted(node) for node in plan.kept] if isinstance(plan, TreePlan) else []
    return {"text": format_any(plan, aliases), "kept": sorted(kept)}


def any_plan_from_json(known: Mapping[str, Any], query: Query, aliases: Sequence[str] | None = None) -> AnyPlan:
    """The plan of a query; ``aliases`` are those that its streams had, if they were others."""
    names = query.aliases if aliases is None else aliases
    if query.kind == "difference":
        return parse_difference(known["text"], names)
    return plan_from_json(known, names)


def plan_from_json(known: Mapping[str, Any], aliases: Sequence[str]) -> Plan:
    plan = parse_plan(known["text"], aliases)
    return TreePlan(plan.tree, frozenset(map(frozenset, known["kept"]))) if isinstance(plan, TreePlan) else plan


def statistics_to_json(statistics: Statistics) -> dict[str, Any]:
    return {
        "rates": list(statistics.rates),
        "windows": list(statistics.windows),
        "distinct": [[[s, count] for s, count in counts.items()] for counts in statistics.distinct],
        "thetas": list(statistics.thetas),
        "common": [[[sorted(pair), count] for pair, count in shared.items()] for shared in statistics.common],
    }


def statistics_from_json(known: Mapping[str, Any]) -> Statistics:
    return Statistics(
        rates=tuple(known["rates"]),
        windows=tuple(known["windows"]),
        distinct=tuple(dict(map(tuple, counts)) for counts in known["distinct"]),
        thetas=tuple(known["thetas"]),
        common=tuple({frozenset(pair): count for pair, count in shared} for shared in known["common"]),
    )
