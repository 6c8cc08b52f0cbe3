"""What a checkpoint remembers of its query: enough to say whether another query can go on from it.

A description is plain data for JSON. Streams stand in the order of FROM. Texts in it name a stream by its position,
``__s0`` for the first, and not by its alias: so a query whose aliases have changed has the same texts, and one whose
streams have changed places has them once positions are exchanged (:mod:`thalweg.spark.compatibility`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from sqlglot import exp

from thalweg.cql import render
from thalweg.cql.conjuncts import conjuncts
from thalweg.cql.query import AttributeClass, Output, Query, RangeWindow, StreamRef, Theta, Window
from thalweg.engine.rows.expressions import columns_of, plain_column
from thalweg.plan.partitioning import Partitioning
from thalweg.spark.below import can_be_computed
from thalweg.spark.carriage import Carried
from thalweg.spark.relations import digest

Description = dict[str, Any]
"""What a checkpoint remembers of its query; plain data for JSON."""

FORMAT = 9
"""Of descriptions, records, chunks, names of computed columns and the order of sources; another one is refused."""

BUCKETS = "most_buckets"
"""Where a description has the number of buckets that the query was asked to run in at most."""

_PLACE = re.compile(r"__s(\d+)\b")


def description(
    query: Query,
    partitioning: Partitioning,
    carried: Sequence[Carried],
    relations: Mapping[int, bytes] | None = None,
    most_buckets: int | None = None,
) -> Description:
    """What must stay, and what may change in some ways only.

    ``relations`` are the blobs of static relations by position, ``most_buckets`` what the partitioning was chosen for.
    """
    lasting = query.output is Output.DSTREAM or query.kind == "difference" or query.aggregation is not None
    digests = {position: digest(body) for position, body in (relations or {}).items()} if lasting else {}
    text = _Texts(query)
    return {
        "format": FORMAT,
        "streams": [
            {
                "alias": ref.alias,
                "stream": ref.stream,
                "time": ref.time,
                "columns": {field.name: str(field.type) for field in carried[position].columns},
                "required": list(carried[position].required),
                "selection": [] if ref.selection is None else sorted({text(c) for c in conjuncts(ref.selection)}),
                "selects": _selects(ref),
                "asks_log": can_be_computed(query, ref.selection),
                "window": _window(ref.window, text),
                "rows": digests.get(position),
            }
            for position, ref in enumerate(query.streams)
        ],
        "kind": query.kind,
        "output": query.output.value,
        "keys": [_key(attribute, text) for attribute in query.classes],
        "thetas": [_theta(theta, text) for theta in query.thetas],
        "aggregation": _aggregation(query, text),
        "lasting": lasting,
        BUCKETS: most_buckets or partitioning.buckets,
        "buckets": partitioning.buckets,
        "axes": _axes(partitioning, text),
    }


def moved(text: str, places: Sequence[int]) -> str:
    """A text of a description for streams that have other positions now.

    >>> moved("__s0.k = __s1.k", [1, 0])
    '__s1.k = __s0.k'
    """
    return _PLACE.sub(lambda place: f"__s{places[int(place[1])]}", text)


def shown(text: str, described: Description) -> str:
    """A text of a description with the aliases that its author knows."""
    names = [render(exp.to_identifier(stream["alias"])) for stream in described["streams"]]
    return _PLACE.sub(lambda place: names[int(place[1])], text)


class _Texts:
    """Renders expressions of a query with positions in the place of aliases."""

    def __init__(self, query: Query) -> None:
        self._places = {ref.alias: f"__s{position}" for position, ref in enumerate(query.streams)}

    def __call__(self, expression: exp.Expr) -> str:
        tree = expression.copy()
        for column in tree.find_all(exp.Column):
            if column.table in self._places:
                column.set("table", exp.to_identifier(self._places[column.table]))
        return render(tree)


def _selects(ref: StreamRef) -> dict[str, str]:
    """The columns that a selection reads, with their types."""
    names = [] if ref.selection is None else [name for _, name in columns_of([ref.selection])]
    return {name: str(ref.schema.field(name).type) for name in names if name in ref.schema.names}


def _window(window: Window, text: _Texts) -> dict[str, Any]:
    if isinstance(window, RangeWindow):
        return {"kind": "RANGE", "size": window.width_us}
    return {"kind": "ROWS", "size": window.rows, "by": [text(key) for key in window.partition_by]}


def _key(attribute: AttributeClass, text: _Texts) -> Description:
    members = [text(member) for member in attribute.members.values()]
    return {"members": members, "type": str(attribute.type), "null_safe": attribute.null_safe}


def _theta(theta: Theta, text: _Texts) -> Description:
    """A comparison; ``computed`` are the operands that are no columns, ``text`` is for people."""
    operands = (theta.left, theta.right)
    return {
        "left": text(theta.left.expression),
        "op": theta.op,
        "right": text(theta.right.expression),
        "type": str(theta.type),
        "offset": theta.offset,
        "absolute": theta.absolute,
        "computed": [text(each.expression) for each in operands if plain_column(each.expression) is None],
        "text": theta.text,
    }


def _aggregation(query: Query, text: _Texts) -> list[str]:
    """All that decides the rows of running aggregates."""
    if query.aggregation is None:
        return []
    keys = [text(key.expression) for key in query.aggregation.keys]
    calls = [f"{c.function}({'*' if c.argument is None else text(c.argument)})" for c in query.aggregation.calls]
    having = [] if query.aggregation.having is None else [text(query.aggregation.having)]
    select = [f"{text(p.expression)} AS {p.name}" for p in query.select]
    return [*keys, *calls, *having, *select, *map(text, query.residual)]


def _axes(partitioning: Partitioning, text: _Texts) -> list[Description]:
    """How rows find their buckets: for each axis of the grid, how each stream knows its coordinate."""
    return [
        {
            "share": axis.share,
            "by": [
                [coordinates[number].kind, [text(each) for each in coordinates[number].expressions]]
                for coordinates in partitioning.coordinates
            ],
        }
        for number, axis in enumerate(partitioning.axes)
    ]
