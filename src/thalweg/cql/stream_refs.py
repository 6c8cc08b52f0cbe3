"""What a bound query says of each of its streams."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from thalweg.cql.durations import format_interval
from thalweg.cql.nodes import as_expression
from thalweg.cql.predicates import Split
from thalweg.cql.query import StreamRef
from thalweg.cql.scope import Scope
from thalweg.cql.windows import TimeFrame
from thalweg.errors import BindError, Location


def stream_refs(
    scope: Scope, split: Split, time_frame: TimeFrame, tree: exp.Expression, *, is_current: bool
) -> tuple[StreamRef, ...]:
    """The streams of a query with all that is known of each; ``tree`` is the query."""
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
    _check_freshness(scope, refs, tree)
    return tuple(refs)


def _check_freshness(scope: Scope, refs: Sequence[StreamRef], tree: exp.Expression) -> None:
    """A result may hold a tuple for as long as its window does, so no freshness below that can be held."""
    for stream, ref in zip(scope.streams, refs, strict=True):
        if ref.freshness_us is not None:
            what = f"FRESHNESS of stream '{ref.alias}'"
            _check_least(what, ref.freshness_us, [ref], scope.source.of(stream.item))
    if tree.args.get("freshness") is not None:
        _check_least("FRESHNESS of the query", tree.args["freshness"], refs, scope.source.of(tree))


def _check_least(what: str, freshness_us: int, refs: Sequence[StreamRef], location: Location | None) -> None:
    """An error, with the least that can be held, if a tuple of some of these streams stays longer."""
    for ref in refs:
        if not ref.is_static and ref.retention_us is None:
            raise BindError(
                f"{what} is {format_interval(freshness_us)}, and time does not end the window of '{ref.alias}'",
                location,
                "Give it a RANGE window that is no longer.",
            )
    least = max((ref.retention_us for ref in refs if ref.retention_us is not None), default=0)
    if freshness_us < least:
        raise BindError(
            f"{what} is {format_interval(freshness_us)}, and results hold tuples that are almost "
            f"{format_interval(least)} old",
            location,
            f"It can be {format_interval(least)} at least.",
        )
