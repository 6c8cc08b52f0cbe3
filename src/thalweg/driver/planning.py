"""What is asked before a query runs: its plan, and what interval an option means."""

from __future__ import annotations

from thalweg.cql import parse_interval
from thalweg.cql.query import Query
from thalweg.errors import OptionError, ThalwegError
from thalweg.options import States
from thalweg.plan.difference import AnyPlan, as_written, parse_difference
from thalweg.plan.join_graph import JoinGraph
from thalweg.plan.search import choose_plan, resolve_plan
from thalweg.plan.statistics import Statistics


def plan_for(query: Query, statistics: Statistics, text: str | None, states: States) -> AnyPlan:
    """The plan that a user wrote, or the planner's choice."""
    if query.kind == "difference":
        return as_written(len(query.streams)) if text is None else parse_difference(text, query.aliases)
    graph = JoinGraph.of(query)
    if text is None:
        return choose_plan(graph, statistics, states)
    return resolve_plan(text, graph, query.aliases, statistics, states)


def interval_option(option: str, text: str) -> int:
    """The microseconds that the text of an option stands for."""
    try:
        return parse_interval(text)
    except ThalwegError as error:
        raise OptionError(f"option {option} is '{text}': {error}") from error
