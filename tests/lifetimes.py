"""First step of the oracle: which rows arrive in time, in what order, and how long each is alive.

Plain readings of the rules on bad and late rows, on the total order, on RANGE and ROWS windows,
on static relations and on the windows that interval predicates imply.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from tests.cases import TIME, Case, Item, Now, Range, Rows, Window
from tests.evaluation import identity
from tests.expressions import Abs, Arith, Between, Cmp, Col, Expr, Interval, Pred

NEVER = 2**62
"""Later than every time and position."""


@dataclass(frozen=True)
class Tuple:
    """A row that arrived in time, as one item of the FROM list sees it.

    ``position`` counts in the total order (time, item, row). The tuple is alive from ``time``
    until ``leave`` (an event time) and, with a ROWS window, until the ``death`` position.
    """

    row: int
    time: int
    position: int
    expiry: int
    death: int
    leave: int


def tuples(case: Case) -> list[list[Tuple]]:
    """The tuples of every item that are in time, with their total order and their ends."""
    times = [dict(in_time) for in_time in arrivals(case)]
    order_of_all = sorted((time, s, row) for s, rows in enumerate(times) for row, time in rows.items())
    position = {(s, row): p for p, (_, s, row) in enumerate(order_of_all)}
    all_tuples = []
    for s, (item, window) in enumerate(zip(case.items, windows(case), strict=True)):
        mine = [row for _, owner, row in order_of_all if owner == s]
        pushed_out_by = successors(case, item, window, mine) if isinstance(window, Rows) else {}
        made = []
        for row in mine:
            time, expiry, death, leave = times[s][row], NEVER, NEVER, NEVER
            if row in pushed_out_by:
                death = position[s, pushed_out_by[row]]
                leave = times[s][pushed_out_by[row]]
            elif isinstance(window, int):
                expiry = leave = time + window
            made.append(Tuple(row, time, position[s, row], expiry, death, leave))
        all_tuples.append(made)
    return all_tuples


def successors(case: Case, item: Item, window: Rows, ordered: list[int]) -> dict[int, int]:
    """For each row of a ROWS n window the n-th newer one of its partition, which pushes it out."""
    source = case.source(item)
    places = [source.position(key) for key in window.partition_by]
    partitions: dict[object, list[int]] = {}
    for row in ordered:
        partitions.setdefault(tuple(identity(source.rows[row][i]) for i in places), []).append(row)
    return {
        old: new
        for partition in partitions.values()
        for old, new in zip(partition, partition[window.count :], strict=False)
    }


def arrivals(case: Case) -> list[list[tuple[int, int]]]:
    """Per item the (row, time) pairs that are neither bad (no time) nor late.

    Lateness is a matter of the source: a row is late for all items that read it, or for none. The rows of a static
    relation were there before all others.
    """
    names = list(dict.fromkeys(item.stream for item in case.items if not case.source(item).static))
    sources = [next(stream for stream in case.streams if stream.name == name) for name in names]
    timed = [[(i, row[s.position(TIME)]) for i, row in enumerate(s.rows)] for s in sources]
    good = [[(row, time) for row, time in rows if isinstance(time, int)] for rows in timed]
    kept = good if case.lateness is None else in_time(good, case.lateness)
    return [
        [(row, -NEVER) for row in range(len(case.source(item).rows))]
        if case.source(item).static
        else kept[names.index(item.stream)]
        for item in case.items
    ]


def in_time(streams: list[list[tuple[int, int]]], lateness: int) -> list[list[tuple[int, int]]]:
    """The (row, time) pairs that the watermark has not passed when they arrive."""
    queue = []
    for s, rows in enumerate(streams):
        moments = accumulate((time for _, time in rows), max)
        queue += [(moment, s, n, *row) for n, (moment, row) in enumerate(zip(moments, rows, strict=True))]
    newest = [-NEVER] * len(streams)
    left = [len(rows) for rows in streams]
    kept: list[list[tuple[int, int]]] = [[] for _ in streams]
    for moment, s, _, row, time in sorted(queue):
        watermark = min(mark - lateness if more else NEVER for mark, more in zip(newest, left, strict=True))
        if time >= watermark:
            kept[s].append((row, time))
        newest[s] = moment
        left[s] -= 1
    return kept


def windows(case: Case) -> list[int | Rows | None]:
    """Per item a ROWS window, or the width of its RANGE window (None: unbounded)."""
    written = written_windows(case)
    if all(written):
        return [width(window) for window in written if window is not None]
    bound = time_bounds(case, written)
    resolved: list[int | Rows | None] = []
    for item, window in zip(case.items, written, strict=True):
        if window is not None:
            resolved.append(width(window))
        else:
            reach = max(bound[item.alias, other.alias] for other in case.items)
            assert reach < NEVER, f"{item.alias} has no window"
            resolved.append(max(1, reach + 1))
    return resolved


def written_windows(case: Case) -> list[Window | None]:
    """Per item the window that the query gives it; a static relation has no end."""
    return [Range(None) if case.source(item).static else item.window or case.window for item in case.items]


def width(window: Window) -> int | Rows | None:
    if isinstance(window, Now):
        return 1
    return window.width if isinstance(window, Range) else window


def time_bounds(case: Case, written: Sequence[Window | None]) -> dict[tuple[str, str], int]:
    """The largest ``t_y - t_x`` that a result can have, for all pairs: shortest paths over the constraints."""
    names = [item.alias for item in case.items]
    bound = {(x, y): 0 if x == y else NEVER for x in names for y in names}
    for x, window in zip(names, written, strict=True):
        for y in names:
            if isinstance(window, Range | Now) and x != y:
                span = width(window)
                bound[x, y] = span - 1 if isinstance(span, int) else NEVER
    static = {item.alias for item in case.items if case.source(item).static}
    for x in names:
        for y in static:
            bound[x, y] = 0
    for predicate in case.where:
        for x, y, most in constraints(predicate):
            if not static & {x, y}:
                bound[x, y] = min(bound[x, y], most)
    for via in names:
        for x in names:
            for y in names:
                if NEVER not in (bound[x, via], bound[via, y]):
                    bound[x, y] = min(bound[x, y], bound[x, via] + bound[via, y])
    return bound


def contradictory(case: Case) -> bool:
    """Whether windows and interval predicates exclude each other, so that no result can exist."""
    bound = time_bounds(case, written_windows(case))
    return any(bound[item.alias, item.alias] < 0 for item in case.items)


def constraints(pred: Pred) -> Iterator[tuple[str, str, int]]:
    """``(x, y, most)`` for each bound ``t_y - t_x <= most`` that a predicate on event times gives."""
    if isinstance(pred, Between):
        yield from constraints(Cmp("<=", pred.low, pred.inner))
        yield from constraints(Cmp("<=", pred.inner, pred.high))
    elif isinstance(pred, Cmp) and pred.op == "=":
        yield from constraints(Cmp("<=", pred.left, pred.right))
        yield from constraints(Cmp("<=", pred.right, pred.left))
    elif isinstance(pred, Cmp) and pred.op in (">", ">="):
        yield from constraints(Cmp({">": "<", ">=": "<="}[pred.op], pred.right, pred.left))
    elif isinstance(pred, Cmp) and pred.op in ("<", "<="):
        strict = 1 if pred.op == "<" else 0
        if isinstance(pred.left, Abs) and isinstance(pred.left.inner, Arith):
            yield from constraints(Cmp(pred.op, pred.left.inner, pred.right))
            flipped = Arith("-", pred.left.inner.right, pred.left.inner.left)
            yield from constraints(Cmp(pred.op, flipped, pred.right))
            return
        early, late = linear(pred.left), linear(pred.right)
        if early is None or late is None:
            return
        coefficient = {name: late[0].get(name, 0) - early[0].get(name, 0) for name in {*early[0], *late[0]}}
        plus = [name for name, c in coefficient.items() if c == 1]
        minus = [name for name, c in coefficient.items() if c == -1]
        if len(plus) == 1 and len(minus) == 1:
            yield plus[0], minus[0], late[1] - early[1] - strict


def linear(expr: Expr) -> tuple[dict[str, int], int] | None:
    """An expression over event times and intervals as (alias -> coefficient, constant)."""
    if isinstance(expr, Col) and expr.name == TIME:
        return {expr.alias: 1}, 0
    if isinstance(expr, Interval):
        return {}, expr.us
    if isinstance(expr, Arith):
        left, right = linear(expr.left), linear(expr.right)
        if left is not None and right is not None:
            sign = -1 if expr.op == "-" else 1
            names = {*left[0], *right[0]}
            return {n: left[0].get(n, 0) + sign * right[0].get(n, 0) for n in names}, left[1] + sign * right[1]
    return None
