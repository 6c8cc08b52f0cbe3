"""What a bound query says of each of its streams."""

from __future__ import annotations

from sqlglot import exp

from thalweg.cql.nodes import as_expression
from thalweg.cql.predicates import Split
from thalweg.cql.query import StreamRef
from thalweg.cql.scope import Scope
from thalweg.cql.windows import TimeFrame


def stream_refs(scope: Scope, split: Split, time_frame: TimeFrame, *, is_current: bool) -> tuple[StreamRef, ...]:
    """The streams of a query with all that is known of each."""
    refs = []
    for position, stream in enumerate(scope.streams):
        conditions = list(split.selections.get(position, ()))
        if split.never:
            conditions = [exp.false()]
        refs.append(
            StreamRef(
                alias=stream.alias,
                stream=stream.stream,
                schema=stream.schema,
                time=stream.time,
                window=time_frame.windows[position],
                retention_us=time_frame.retention(position, is_current=is_current),
                selection=as_expression(exp.and_(*conditions)) if conditions else None,
                freshness_us=stream.item.args.get("freshness"),
            )
        )
    return tuple(refs)
