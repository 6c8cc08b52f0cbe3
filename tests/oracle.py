"""The contract, computed in the most obvious way from a :class:`~tests.cases.Case`.

The oracle shares nothing with thalweg: it never sees the query text. It works in four
steps, each a plain reading of the rules:

1. :func:`tests.lifetimes.tuples`: which rows arrive in time, their total order, and until when each is alive.
2. :func:`results`: the join as one SQL statement over all combinations of tuples, with the
   time at which each result enters and leaves.
3. :func:`changes`: what enters and leaves the relation: single results, rows of running
   aggregates, or the left tuples of an EXCEPT.
4. :func:`expected`: the rows that the query emits, as a multiset.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from itertools import pairwise, permutations
from typing import Any

import duckdb
import pyarrow as pa

from tests.cases import TYPES, Case, Item, Out, Star
from tests.evaluation import Env, evaluate, holds, identity, order, sql
from tests.expressions import Agg, Col, Expr, ResultTime, Value, aliases_of, parts
from tests.lifetimes import NEVER, Tuple, tuples

OutputRow = tuple[tuple[str, Value], ...]


@dataclass(frozen=True)
class Result:
    """One combination of rows, one per item: part of the relation during ``[enter, leave)``."""

    rows: tuple[int, ...]
    enter: int
    leave: int


@dataclass(frozen=True)
class Change:
    """A row that enters the relation at ``enter`` and leaves it at ``leave``; -NEVER: it was always there."""

    enter: int
    leave: int
    env: Env


def expected(case: Case) -> Counter[OutputRow]:
    """The rows that the query emits, as a multiset."""
    return emitted(case, changes(case), NEVER)


def emitted(case: Case, happening: Iterable[Change], end: int) -> Counter[OutputRow]:
    """The rows that the query emits of these changes, at instants before ``end``."""
    columns = output_columns(case)
    rows: Counter[OutputRow] = Counter()
    for change in happening:
        time = change.enter if case.output == "istream" else change.leave
        if -NEVER < time < end:
            env = {**change.env, ResultTime(): time}
            rows[normalised(evaluate(column, env) for column in columns)] += 1
    return rows


def output_columns(case: Case) -> list[Expr]:
    columns: list[Expr] = []
    for out in case.select:
        if isinstance(out, Out):
            columns.append(out.expr)
        else:
            columns += [column for item in case.items if out.alias in (None, item.alias) for column in cols(case, item)]
    return columns


def cols(case: Case, item: Item) -> list[Col]:
    return [Col(item.alias, name) for name, _ in case.source(item).columns]


def normalised(row: Iterable[Value]) -> OutputRow:
    """Values that compare as SQL's do, each with its kind; every NaN is one, and so is every zero."""
    return tuple((type(v).__name__, "NaN" if v != v else 0.0 if v == 0 and isinstance(v, float) else v) for v in row)


def normalised_table(table: pa.Table) -> Counter[OutputRow]:
    """The rows of an output table, made comparable with :func:`expected`."""
    columns = []
    for column in table.columns:
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
        columns.append(column.to_pylist())
    return Counter(normalised(row) for row in zip(*columns, strict=True)) if columns else Counter()


# The join -------------------------------------------------------------------------------

FIELDS = ("row", "time", "position", "expiry", "death", "leave")

_database = duckdb.connect(config={"threads": 1})


def results(case: Case) -> list[Result]:
    """All combinations of tuples, one per item, whose predicates hold and that are alive together.

    They are when no tuple comes after another one has gone: ``max(time) < min(expiry)``, pair by pair.
    """
    for s, (item, mine) in enumerate(zip(case.items, tuples(case), strict=True)):
        _database.register(f"item{s}", alive_table(case, item, mine))
    names = [f'"{item.alias}"' for item in case.items]
    output = [
        *(f"{name}.__row" for name in names),
        f"greatest({', '.join(f'{name}.__time' for name in names)})",
        f"least({', '.join(f'{name}.__leave' for name in names)})",
    ]
    conditions = ["true", *(sql(pred) for pred in case.where)]
    for one, other in permutations(names, 2):
        conditions.append(f"{one}.__time < {other}.__expiry")
        conditions.append(f"{one}.__position < {other}.__death")
    tables = [f"item{s} AS {name}" for s, name in enumerate(names)]
    statement = " ".join(["SELECT", ", ".join(output), "FROM", ", ".join(tables), "WHERE", " AND ".join(conditions)])
    return [Result(row[:-2], row[-2], row[-1]) for row in _database.execute(statement).fetchall()]


def alive_table(case: Case, item: Item, mine: list[Tuple]) -> pa.Table:
    """The tuples of an item with the columns that predicates use; timestamps as integers."""
    source = case.source(item)
    used = {part for pred in case.where for part in parts(pred)}
    columns = {
        name: pa.array([source.rows[t.row][i] for t in mine], type=pa.int64() if type_ == "timestamp" else TYPES[type_])
        for i, (name, type_) in enumerate(source.columns)
        if Col(item.alias, name) in used
    }
    for field in FIELDS:
        columns[f"__{field}"] = pa.array([getattr(t, field) for t in mine], type=pa.int64())
    return pa.table(columns)


# What enters and leaves -----------------------------------------------------------------


def changes(case: Case) -> Iterator[Change]:
    return difference(case) if case.minus else changes_by(case, results(case))


def changes_by(case: Case, found: list[Result]) -> Iterator[Change]:
    """What enters and leaves if these are the results of the join."""
    if case.aggregated:
        return aggregates(case, found)
    columns_of = reader(case, case.items)
    return (Change(r.enter, r.leave, columns_of(r.rows)) for r in found)


def reader(case: Case, items: Sequence[Item]) -> Callable[[Sequence[int]], dict[Expr, Value]]:
    """A function that reads all columns of a combination of rows."""
    sources = [(cols(case, item), case.source(item).rows) for item in items]

    def columns_of(rows: Sequence[int]) -> dict[Expr, Value]:
        env: dict[Expr, Value] = {}
        for (names, table), row in zip(sources, rows, strict=True):
            env.update(zip(names, table[row], strict=True))
        return env

    return columns_of


def aggregates(case: Case, found: list[Result]) -> Iterator[Change]:
    """The relation recomputed at every instant; a group's row stays as long as what is selected of it does.

    That it has another time is no change, nor that an aggregate has one which only HAVING or an expression reads.
    """
    envs = list(map(reader(case, case.items), (r.rows for r in found)))
    keys = [tuple(identity(evaluate(key, env)) for key in case.group_by) for env in envs]
    nodes = [part for out in case.select if not isinstance(out, Star) for part in parts(out.expr)]
    nodes += list(parts(case.having)) if case.having else []
    calls = list(dict.fromkeys(node for node in nodes if isinstance(node, Agg)))
    arguments = [[evaluate(call.argument, env) if call.argument else 1 for call in calls] for env in envs]
    columns = output_columns(case)

    def relation(instant: int) -> dict[Any, Env]:
        """Its rows by their group and what is shown of them."""
        groups: dict[Any, list[int]] = {} if case.group_by else {(): []}
        for i, result in enumerate(found):
            if result.enter <= instant < result.leave:
                groups.setdefault(keys[i], []).append(i)
        rows: dict[Any, Env] = {}
        for key, members in groups.items():
            values = [aggregate(call, [arguments[i][c] for i in members]) for c, call in enumerate(calls)]
            env: dict[Expr, Value] = dict(zip(calls, values, strict=True))
            if members:
                env.update((expr, evaluate(expr, envs[members[0]])) for expr in case.group_by)
            if case.having is None or holds(case.having, env):
                shown = [evaluate(column, {**env, ResultTime(): 0}) for column in columns]
                rows[key, tuple(map(identity, shown))] = env
        return rows

    since: dict[Any, tuple[int, Env]] = {row: (-NEVER, env) for row, env in relation(-NEVER).items()}
    for instant in sorted({r.enter for r in found} | {r.leave for r in found if r.leave < NEVER}):
        now = relation(instant)
        for row in [row for row in since if row not in now]:
            enter, env = since.pop(row)
            yield Change(enter, instant, env)
        for row, env in now.items():
            since.setdefault(row, (instant, env))
    for enter, env in since.values():
        yield Change(enter, NEVER, env)


def aggregate(call: Agg, arguments: list[Value]) -> Value:
    values: list[Any] = [value for value in arguments if value is not None]
    if call.function == "COUNT":
        return len(values)
    if not values:
        return None
    if call.function in ("MIN", "MAX"):
        smallest: Value = (min if call.function == "MIN" else max)(values, key=order)
        return smallest
    total = exact_sum(values)
    if call.function == "SUM":
        return total
    if isinstance(total, float):
        return total / len(values)
    if isinstance(total, Decimal):  # four digits more, half rounded away from zero
        digits = total.as_tuple().exponent
        assert isinstance(digits, int)
        return (total / len(values)).quantize(Decimal(1).scaleb(digits - 4), ROUND_HALF_UP)
    return float(Fraction(total) / len(values))


def exact_sum(values: list[Any]) -> int | float | Decimal:
    if isinstance(values[0], float):
        special = [value for value in values if not math.isfinite(value)]
        return sum(special) if special else math.fsum(values)
    total: int | Decimal = sum(values[1:], values[0])
    return total


def difference(case: Case) -> Iterator[Change]:
    """The left tuples while no other item has a living tuple of the same key."""
    sides: list[list[tuple[Tuple, Env]]] = []
    for item, mine in zip(case.items, tuples(case), strict=True):
        selection = [pred for pred in case.where if aliases_of(pred) == {item.alias}]
        columns_of = reader(case, [item])
        rows = [(t, columns_of([t.row])) for t in mine]
        sides.append([(t, env) for t, env in rows if all(holds(pred, env) for pred in selection)])
    for x, env in sides[0]:
        key = key_of(case, 0, env)
        blocked = [
            (y.time, y.leave)
            for s, side in enumerate(sides[1:], 1)
            for y, other in side
            if None not in key and list(map(identity, key)) == list(map(identity, key_of(case, s, other)))
        ]
        for enter, leave in free_intervals(x.time, x.leave, blocked):
            yield Change(enter, leave, env)


def key_of(case: Case, s: int, env: Env) -> list[Value]:
    """The values that an item's tuple is matched by: its whole list, or the BY columns of it."""
    outs = [out for out in (case.select, *case.minus)[s] if isinstance(out, Out)]
    if not case.by:
        return [evaluate(out.expr, env) for out in outs]
    by_name = {out.name or (out.expr.name if isinstance(out.expr, Col) else None): out.expr for out in outs}
    return [evaluate(by_name[name], env) for name in case.by]


def free_intervals(start: int, end: int, blocked: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The maximal non-empty parts of ``[start, end)`` outside all blocked intervals."""
    edges = sorted({start, end, *(e for interval in blocked for e in interval if start < e < end)})
    free: list[tuple[int, int]] = []
    for a, b in pairwise(edges):
        if not any(low <= a < high for low, high in blocked):
            if free and free[-1][1] == a:
                free[-1] = (free[-1][0], b)
            else:
                free.append((a, b))
    yield from free
