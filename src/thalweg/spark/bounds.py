"""Whether sources limit what a trigger may bring: a target cannot refuse rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame

from thalweg.errors import warn

_BOUNDS = frozenset(
    {
        "maxfilespertrigger",
        "maxbytespertrigger",
        "maxoffsetspertrigger",
        "maxrecordspertrigger",
        "maxeventspertrigger",
        "rowspersecond",
        "rowsperbatch",
    }
)
"""Options of sources, which have no case."""
_BOUNDED = ("rate", "rate-micro-batch", "ratestreamprovider", "socket")
"""Sources that make their rows up by the clock, or hand over what was typed."""


def warn_of_unbounded(streams: Mapping[str, DataFrame]) -> None:
    """Warn of streams with a source that hands over all that there is, however much has come."""
    for name, frame in streams.items():
        found = list(dict.fromkeys(source for source, options in _sources(frame) if _is_unbounded(source, options)))
        if found:
            warn(
                f"stream '{name}' reads from {' and '.join(found)} without a bound, so a trigger may bring any number "
                "of rows, and take longer than its target_trigger: rows are never refused. Bound it, with an option "
                "such as maxFilesPerTrigger or maxOffsetsPerTrigger."
            )


def _is_unbounded(source: str, options: Mapping[str, str]) -> bool:
    return source.lower() not in _BOUNDED and not any(name.lower() in _BOUNDS for name in options)


def _sources(frame: DataFrame) -> list[tuple[str, dict[str, str]]]:
    """The streaming sources of a DataFrame, with their options; those of kinds that say nothing of themselves not."""
    leaves: Any = frame._jdf.queryExecution().analyzed().collectLeaves()
    found = []
    for place in range(leaves.size()):
        leaf = leaves.apply(place)
        kind = leaf.getClass().getSimpleName()
        if kind == "StreamingRelationV2":
            found.append((str(leaf.sourceName()), dict(leaf.extraOptions().asCaseSensitiveMap())))
        elif kind == "StreamingRelation":
            options = leaf.dataSource().options()
            names = options.keys().mkString("\n")
            found.append((str(leaf.sourceName()), dict.fromkeys(names.split("\n"), "")))
    return found
