"""What may change in a query between two runs from one checkpoint.

Durable are the rows of the base windows, in their buckets. So a query can go on from a checkpoint if the rows
that it needs are there, where it looks for them, and if it has nothing more to say about what was already said. For
an ISTREAM join, the SELECT list and the residual predicates may change, and windows may shrink. Aggregates, DSTREAM and
EXCEPT speak of results that were emitted before, so what decides those must stay. Static relations are read again
at every start: nothing of them is durable but, for those queries, a digest.

A checkpoint remembers the columns that every row in it has. A query may read any of these. What it does not carry
itself, rows that it adds lack, so from then on the checkpoint does not have it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from thalweg.cql import format_interval, render
from thalweg.cql.query import AttributeClass, Output, Query, RangeWindow, Window
from thalweg.errors import CheckpointError
from thalweg.plan.partitioning import Partitioning
from thalweg.spark.carriage import Carried
from thalweg.spark.relations import digest

Description = dict[str, Any]
"""What a checkpoint remembers of its query; plain data for JSON."""

BUCKETS = "most_buckets"
"""Where a description has the number of buckets that the query was asked to run in at most."""


def description(
    query: Query,
    partitioning: Partitioning,
    carried: Sequence[Carried],
    relations: Mapping[int, bytes] | None = None,
    most_buckets: int | None = None,
) -> Description:
    """What must stay, and what may only shrink.

    ``relations`` are the blobs of static relations by position, ``most_buckets`` what the partitioning was chosen for.
    """
    lasting = query.output is Output.DSTREAM or query.kind == "difference" or query.aggregation is not None
    digests = {position: digest(body) for position, body in (relations or {}).items()} if lasting else {}
    return {
        "streams": [
            {
                "alias": ref.alias,
                "stream": ref.stream,
                "time": ref.time,
                "columns": {field.name: str(field.type) for field in carried[position].columns},
                "required": list(carried[position].required),
                "selection": "" if ref.selection is None else render(ref.selection),
                "window": _window(ref.window),
                "rows": digests.get(position),
            }
            for position, ref in enumerate(query.streams)
        ],
        "kind": query.kind,
        "output": query.output.value,
        "keys": [_key(attribute) for attribute in query.classes],
        "thetas": [theta.text for theta in query.thetas],
        "aggregation": _aggregation(query),
        "lasting": lasting,
        BUCKETS: most_buckets or partitioning.buckets,
        "buckets": partitioning.buckets,
        "shares": [axis.share for axis in partitioning.axes],
    }


def _key(attribute: AttributeClass) -> str:
    equals = " <=> " if attribute.null_safe else " = "
    return f"{equals.join(map(render, attribute.members.values()))} as {attribute.type}"


def _aggregation(query: Query) -> list[str]:
    """All that decides the rows of running aggregates."""
    if query.aggregation is None:
        return []
    keys = [render(key.expression) for key in query.aggregation.keys]
    calls = [f"{c.function}({'*' if c.argument is None else render(c.argument)})" for c in query.aggregation.calls]
    having = [] if query.aggregation.having is None else [render(query.aggregation.having)]
    select = [f"{render(p.expression)} AS {p.name}" for p in query.select]
    return [*keys, *calls, *having, *select, *map(render, query.residual)]


def _window(window: Window) -> dict[str, Any]:
    if isinstance(window, RangeWindow):
        return {"kind": "RANGE", "size": window.width_us}
    return {"kind": "ROWS", "size": window.rows, "by": [render(key) for key in window.partition_by]}


def obstacles(old: Description, new: Description) -> list[str]:
    """Why the query ``new`` cannot go on from a checkpoint of ``old``; empty if it can."""
    if [s["stream"] for s in old["streams"]] != [s["stream"] for s in new["streams"]]:
        return [f"it joined {_listed(old)} and now joins {_listed(new)}"]
    found = []
    for before, now in zip(old["streams"], new["streams"], strict=True):
        found += _stream_obstacles(before, now, lasting=new["lasting"])
    for part, what in _FIXED.items():
        if old[part] != new[part]:
            found.append(f"its {what} were {_text(old[part])} and are now {_text(new[part])}")
    if old["buckets"] != new["buckets"] or old["shares"] != new["shares"]:
        found.append(
            f"it ran in {old['buckets']} buckets and would now run in {new['buckets']}; "
            f"pass the option buckets={old['buckets']}"
        )
    return found


def check(query: str, old: Description, new: Description, checkpoint: str = "this checkpoint") -> None:
    """Refuse to let a query go on from a checkpoint where it cannot."""
    if reasons := obstacles(old, new):
        raise CheckpointError(
            f"query '{query}' cannot go on from {checkpoint}: {'; '.join(reasons)}. The SELECT list and residual "
            "predicates of a join may change, if they read columns that the checkpoint has, and its windows may "
            "shrink. For anything else, start with a new checkpoint directory."
        )


def carried_on(old: Description, new: Description) -> Description:
    """What a checkpoint of ``old`` remembers once ``new`` has gone on from it: the columns that both carry."""
    streams = []
    for before, now in zip(old["streams"], new["streams"], strict=True):
        both = {name: kind for name, kind in now["columns"].items() if before["columns"].get(name) == kind}
        streams.append(now if now["time"] is None else now | {"columns": both})
    return new | {"streams": streams}


_FIXED = {
    "kind": "kind",
    "output": "results",
    "keys": "keys",
    "thetas": "theta predicates",
    "aggregation": "aggregates",
}


def _stream_obstacles(before: Description, now: Description, *, lasting: bool) -> list[str]:
    alias = now["alias"]
    was_static, is_static = before["time"] is None, now["time"] is None
    if was_static != is_static:
        kinds = ("a static relation", "a stream")
        return [f"{alias} was {kinds[not was_static]} and is now {kinds[not is_static]}"]
    if is_static and not lasting:
        return []
    found = []
    if before["rows"] != now["rows"]:
        found.append(f"the rows of {alias} are others, under results that were emitted before")
    for part, what in {"time": "event time", "selection": "selection"}.items():
        if before[part] != now[part]:
            found.append(f"the {what} of {alias} was {_text(before[part])} and is now {_text(now[part])}")
    found += _column_obstacles(before, now)
    old, new = before["window"], now["window"]
    if old["kind"] != new["kind"] or old.get("by") != new.get("by"):
        found.append(f"the window of {alias} is of another kind")
    elif old["size"] is not None and (new["size"] is None or new["size"] > old["size"]):
        found.append(f"the window of {alias} grew from {_size(old)} to {_size(new)}")
    elif lasting and old["size"] != new["size"]:
        found.append(
            f"the window of {alias} shrank from {_size(old)} to {_size(new)}, under results that have yet to leave"
        )
    return found


def _column_obstacles(before: Description, now: Description) -> list[str]:
    """What is to be read of a stream and is not in its rows; of a static relation, what is read anew or no more."""
    alias = now["alias"]
    had: dict[str, str] = before["columns"]
    has: dict[str, str] = now["columns"]
    if now["time"] is None:
        changed = sorted({name for name, _ in had.items() ^ has.items()})
        what = f"the columns that are read of {alias} differ, under results that have yet to leave: "
        return [what + ", ".join(changed)] if changed else []
    found = []
    lacking = [name for name in now["required"] if name not in had]
    if lacking:
        names = ", ".join(f"'{name}'" for name in lacking)
        found.append(
            f"it needs {'the column' if len(lacking) == 1 else 'the columns'} {names} of stream '{now['stream']}' as "
            f"{alias}, which rows in the checkpoint lack, for not every query that ran from it carried "
            f"{'it' if len(lacking) == 1 else 'them'} (with a new checkpoint, App.stream(..., keep=[{names}]) carries "
            "what a later query may need)"
        )
    return found + [
        f"the column {name} of {alias} was {had[name]} and is now {has[name]}"
        for name in now["required"]
        if name in had and had[name] != has[name]
    ]


def _size(window: Description) -> str:
    if window["size"] is None:
        return "UNBOUNDED"
    return format_interval(window["size"]) if window["kind"] == "RANGE" else f"{window['size']} rows"


def _listed(query: Description) -> str:
    return ", ".join(stream["stream"] for stream in query["streams"])


def _text(value: Any) -> str:
    if isinstance(value, list):
        return "; ".join(value) or "none"
    return f"'{value}'" if value else "none"
