"""A partitioning in words: why it is so, and where the tuples of each stream go."""

from __future__ import annotations

from collections.abc import Sequence

from thalweg.cql.query import Query
from thalweg.cql.rendering import render
from thalweg.plan.names import class_names
from thalweg.plan.partitioning.axes import Candidate
from thalweg.plan.partitioning.grid import Axis, Kind, Partitioning


def describe(query: Query, partitioning: Partitioning) -> tuple[str, ...]:
    """The partitioning in lines for a person: the grid and why, then where the tuples of each stream go."""
    grid = " × ".join(str(axis.share) for axis in partitioning.axes)
    shape = f" ({grid})" if len(partitioning.axes) > 1 else ""
    plural = "" if partitioning.buckets == 1 else "s"
    lines = [f"{partitioning.buckets} bucket{plural}{shape}, {partitioning.kind}: {partitioning.reason}"]
    for stream, alias in enumerate(query.aliases if partitioning.axes else ()):
        by = [", ".join(map(render, coordinate.expressions)) or "row" for coordinate in partitioning.known(stream)]
        copies = partitioning.copies(stream)
        place = "to one bucket" if copies == 1 else f"to {copies} buckets" if by else "to every bucket"
        lines.append(f"{alias}: each tuple {place}" + (f", by {' × '.join(by)}" if by else ""))
    return tuple(lines)


def reason(query: Query, kind: Kind, axes: Sequence[Axis], candidates: Sequence[Candidate]) -> str:
    labels = [_label(query, candidate) for candidate in candidates]
    if kind == "key":
        together = " hashed together" if len(axes[0].classes) > 1 else ""
        copied = [stream.alias for s, stream in enumerate(query.streams) if s not in candidates[0].known]
        static = f"; every bucket has all of {' and '.join(copied)}, static" if copied else ""
        return f"all tuples that must meet agree on {labels[0]}{together}, so none is copied{static}"
    if len(query.streams) == 1:
        return "one stream, whose tuples need not meet"
    shares = ", ".join(f"{axis.share} by {label}" for axis, label in zip(axes, labels, strict=True))
    why = "no join key that may split tuples reaches every stream"
    if kind == "grid":
        why = "no join key may split tuples" if query.classes else "no equality connects the streams"
    return f"{why}, so each is split by what it has and copied along the rest: {shares}"


def _label(query: Query, candidate: Candidate) -> str:
    if candidate.classes:
        names = class_names(query)
        return ", ".join(names[c] for c in candidate.classes)
    ((stream, coordinate),) = candidate.known.items()
    if coordinate.expressions:
        return ", ".join(map(render, coordinate.expressions))
    return f"rows of {query.streams[stream].alias}"
