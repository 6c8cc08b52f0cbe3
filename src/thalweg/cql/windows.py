"""Windows: written, given once for all, or derived from interval predicates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from thalweg.cql.constraints import (
    Bound,
    Differences,
    closure,
    contradiction,
    latest_partner,
    static_bounds,
    window_bounds,
)
from thalweg.cql.durations import format_interval
from thalweg.cql.expressions import Expressions
from thalweg.cql.nodes import StreamWindow
from thalweg.cql.query import RangeWindow, RowsWindow, Window
from thalweg.cql.scope import NamedStream
from thalweg.cql.types import canonical
from thalweg.errors import BindError, Location


@dataclass(frozen=True, slots=True)
class TimeFrame:
    """The windows of a query's streams, and what follows from them and the interval predicates."""

    windows: tuple[Window, ...]
    differences: Differences

    def retention(self, stream: int, *, is_current: bool) -> int | None:
        """How long a tuple can still find partners; see :attr:`StreamRef.retention_us`.

        ``is_current``: the query needs tuples until their windows end, not only until
        their last partner has come, because it speaks of results that leave.
        """
        window = self.windows[stream]
        if is_current:
            return None if isinstance(window, RowsWindow) else window.width_us
        latest = latest_partner(self.differences, stream)
        return None if latest is None else latest + 1


def written_windows(
    expressions: Expressions, defaults: Sequence[StreamWindow | None], *, required: bool
) -> list[Window | None]:
    """The windows that the text gives; ``defaults`` are those of WINDOW clauses. Static relations are unbounded."""
    scope = expressions.scope
    windows: list[Window | None] = []
    for position, stream in enumerate(scope.streams):
        if stream.is_static:
            windows.append(RangeWindow(None))
            continue
        node: StreamWindow | None = stream.item.args.get("window") or defaults[position]
        if node is None and required:
            raise missing_window(expressions, position)
        windows.append(None if node is None else _window(node, position, expressions))
    return windows


def _window(node: StreamWindow, position: int, expressions: Expressions) -> Window:
    size: int | None = node.args.get("size")
    if node.args["kind"] == "RANGE" or size is None:
        return RangeWindow(size)
    keys = [expressions.bind(key, "PARTITION BY", visible=[position]) for key in node.expressions]
    checked = [expressions.checked(key) for key in keys]
    for key in checked:
        expressions.types.of(key)
    return RowsWindow(size, tuple(checked))


def frame(
    expressions: Expressions,
    written: Sequence[Window | None],
    predicates: Sequence[Bound],
    start: Location | None,
    *,
    derives: bool = True,
) -> TimeFrame:
    """Derive the missing windows, as the least ones that lose no result."""
    streams = expressions.scope.streams
    bounds = list(predicates)
    for position, window in enumerate(written):
        if streams[position].is_static:
            bounds += static_bounds(len(streams), position)
        elif isinstance(window, RangeWindow) and window.width_us is not None:
            why = f"[RANGE {format_interval(window.width_us).upper()}] of {streams[position].alias}"
            bounds += window_bounds(len(streams), position, window.width_us, why)
    clash = contradiction(len(streams), bounds)
    if clash:
        reasons = list(dict.fromkeys(bound.why for bound in clash))
        what = f"no result is possible: {' and '.join(reasons)} exclude each other"
        raise BindError(what, start, "Widen a window or change a condition.")
    differences = closure(len(streams), bounds)
    windows: list[Window] = []
    for position, window in enumerate(written):
        latest = latest_partner(differences, position)
        if window is None and (latest is None or not derives):
            raise missing_window(expressions, position, differences)
        windows.append(window if window is not None else RangeWindow((latest or 0) + 1, derived=True))
    return TimeFrame(tuple(windows), differences)


def missing_window(expressions: Expressions, position: int, differences: Differences | None = None) -> BindError:
    """The error for a stream that nothing bounds."""
    streams = expressions.scope.streams
    stream = streams[position]
    location = expressions.scope.source.of(stream.item)
    hint = f"Write {stream.alias} [RANGE 10 SECONDS]"
    unbounded = differences is not None and _bounds_anything(differences, streams) and None in differences[position]
    if differences is not None and unbounded and stream.time is not None:
        other = streams[differences[position].index(None)]
        what = f"stream '{stream.alias}' has no window, and nothing bounds how long after it '{other.alias}' may come"
        is_number = pa.types.is_integer(canonical(stream.schema.field(stream.time).type))
        length = "10000000" if is_number else "INTERVAL 10 SECONDS"
        condition = f"{other.alias}.{other.time} <= {stream.alias}.{stream.time} + {length}"
        return BindError(what, location, f"{hint}, or add a condition such as {condition}.")
    return BindError(
        f"stream '{stream.alias}' has no window", location, f"{hint}, or WINDOW RANGE 10 SECONDS at the end."
    )


def _bounds_anything(differences: Differences, streams: Sequence[NamedStream]) -> bool:
    moving = [position for position, stream in enumerate(streams) if not stream.is_static]
    return any(differences[x][y] is not None for x in moving for y in moving if x != y)
