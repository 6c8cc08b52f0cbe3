"""What is asked before a query runs: its plan, what the first rows say, and whether it may have a budget."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from thalweg.cql.group import Group
from thalweg.cql.query import Output, Query
from thalweg.engine.kernels.compiled import Int64s
from thalweg.engine.rows.batch import Batch
from thalweg.engine.windows.sampling import SAMPLE_ROWS, sample
from thalweg.errors import OptionError
from thalweg.plan.difference import AnyPlan, as_written, parse_difference
from thalweg.plan.join_graph import JoinGraph
from thalweg.plan.search import choose_plan, resolve_plan
from thalweg.plan.statistics import Statistics
from thalweg.settings import States


def plan_for(query: Query, statistics: Statistics, text: str | None, states: States) -> AnyPlan:
    """The plan that a user wrote, or the planner's choice."""
    if query.kind == "difference":
        return as_written(len(query.streams)) if text is None else parse_difference(text, query.aliases)
    graph = JoinGraph.of(query)
    if text is None:
        return choose_plan(graph, statistics, states)
    return resolve_plan(text, graph, query.aliases, statistics, states)


def check_budget(group: Group) -> None:
    """An error if queries that run under a budget would have wrong rows, and not just fewer of them."""
    for query in group.queries:
        if query.kind == "difference" or query.aggregation is not None:
            what = "a set difference" if query.kind == "difference" else "an aggregation"
            raise OptionError(
                f"option budget leaves results of joins out, and query '{query.name}' is {what}, which would be wrong "
                "without them. Run it without a budget."
            )


def check_by_batch(group: Group) -> None:
    """An error if queries cannot run under a budget on Spark."""
    check_budget(group)
    for query in group.queries:
        if query.output is Output.DSTREAM:
            raise OptionError(
                f"option budget: query '{query.name}' is a DSTREAM. Which of its results were found is known to "
                "engines alone, and these may be lost. Run it without a budget, or as an ISTREAM."
            )


def first_statistics(query: Query, rows: Mapping[int, Batch]) -> Statistics:
    """What the first rows say about the streams; they come in any order."""
    beginnings = [_beginning(ref.schema, rows.get(stream)) for stream, ref in enumerate(query.streams)]
    return Statistics.measure(query, sample(query, beginnings))


def _beginning(schema: pa.Schema, batch: Batch | None) -> tuple[pa.Table, Int64s, int]:
    """The first rows of a stream in time order, their times, and how many rows there are."""
    if batch is None:
        return schema.empty_table(), np.zeros(0, np.int64), 0
    order = np.argsort(batch.times, kind="stable")[:SAMPLE_ROWS]
    return batch.table.take(pa.array(order)), batch.times[order], batch.table.num_rows
