"""Streams long enough that windows slide, states are purged and every structure has to grow.

The other properties use few rows and many features; these use many rows and few features. A
case is built from a seed, which is what a failure prints.
"""

from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.cases import TIME, Case, Item, Out, Range, Rows, Stream, Window
from tests.expressions import Abs, Agg, Arith, Cmp, Col, Interval, Lit, Pred, ResultTime
from tests.oracle import results
from tests.properties.conformity import check
from tests.properties.pick import Dice
from tests.properties.plans import a_plan
from tests.properties.settings import randomized
from tests.properties.strategies import MEMORY_LIMITS, PRODUCTIONS

SEEDS = st.integers(0, 2**32 - 1)


def long_case(seed: int, *, rows_windows: bool = False) -> Case:
    """A join on one or two keys, of 2 to 5 streams with hundreds or thousands of tuples each."""
    rng = random.Random(seed)
    size = rng.choice((2, 3, 3, 4, 5))
    length = rng.choice((300, 1_000, 2_500)) // (size - 1)
    per_window = rng.choice((5, 20, 60))
    keys = max(2, round(per_window * rng.choice((0.5, 1, 3))))
    several = rng.random() < 0.3
    aliases = "ABCDE"[:size]
    streams = tuple(_stream(rng, name, length, keys) for name in aliases)
    items = tuple(Item(name, name, _window(rng, per_window, rows_windows)) for name in aliases)
    where: list[Pred] = []
    for s in range(1, size):
        key = rng.choice(("k", "j")) if several else "k"
        where.append(Cmp("=", Col(rng.choice(aliases[:s]), key), Col(aliases[s], key)))
    case = Case(
        streams=streams,
        items=items,
        select=(*(Out(Col(name, "n"), name.lower()) for name in aliases), Out(ResultTime(), "rt")),
        where=tuple(where),
        states=rng.choice(("all", "all", "none", "auto")),
        batch_size=rng.choice((1, 10, 100, 1_000, 65_536)),
    )
    pick = Dice(rng)
    linear = case.states != "all"
    times = rng.choice((0, 1, 5))
    changes = [(rng.randrange(size * length), a_plan(pick, aliases, linear=linear)) for _ in range(times)]
    eager = rng.random() < 0.4
    return replace(
        case,
        plan=a_plan(pick, aliases, linear=linear),
        transitions=tuple(sorted(changes)),
        eager=eager,
        production=rng.choice(PRODUCTIONS),
        memory_limit=rng.choice(MEMORY_LIMITS),
    )


def _stream(rng: random.Random, name: str, length: int, keys: int) -> Stream:
    """Tuples about 100 microseconds apart, with bursts; (time, key, other key, number)."""
    columns = ((TIME, "timestamp"), ("k", "int64"), ("j", "int64"), ("n", "int64"))
    skew = rng.choice((1, 1, 3))
    time = 0
    rows = []
    for n in range(length):
        time += 0 if rng.random() < 0.2 else rng.randrange(250)
        k, j = (int(keys * rng.random() ** skew) for _ in range(2))
        rows.append((time, k, j, n))
    return Stream(name, columns, tuple(rows))


def _window(rng: random.Random, tuples: int, rows_windows: bool) -> Window:
    if rows_windows and rng.random() < 0.6:
        return Rows(tuples, ()) if rng.random() < 0.5 else Rows(max(1, tuples // 10), ("k",))
    return Range(tuples * 100)


def run(case: Case, most_results: int = 30_000) -> None:
    """Check the case, unless it has so many results that comparing them takes long."""
    if len(results(case)) <= most_results:
        check(case)


@randomized(share=10)
@given(SEEDS)
def test_long_range_windows(seed: int) -> None:
    run(long_case(seed))


@randomized(share=8)
@given(SEEDS)
def test_long_rows_windows(seed: int) -> None:
    run(long_case(seed, rows_windows=True))


@randomized(share=5)
@given(SEEDS)
def test_long_departures(seed: int) -> None:
    run(replace(long_case(seed, rows_windows=True), output="dstream"))


@randomized(share=5)
@given(SEEDS)
def test_long_aggregates(seed: int) -> None:
    case = long_case(seed, rows_windows=True)
    key, number = Col("A", "k"), Col("B", "n")
    outs = (Out(key), *(Out(Agg(function, number), function.lower()) for function in ("COUNT", "SUM", "MIN", "AVG")))
    short = tuple(replace(stream, rows=stream.rows[:120]) for stream in case.streams)
    few = tuple(change for change in case.transitions if change[0] <= 120)
    case = replace(case, streams=short, select=(*outs, Out(ResultTime(), "rt")), group_by=(key,), transitions=few)
    run(case, most_results=3_000)


@randomized(share=4)
@given(SEEDS)
def test_long_nested_loops(seed: int) -> None:
    case = long_case(seed)
    close = Cmp("<", Abs(Arith("-", Col("A", "k"), Col("B", "k"))), Lit(2, "int64"))
    near = Cmp("<", Col("B", TIME), Arith("+", Col("A", TIME), Interval(300)))
    run(replace(case, where=(close, near, *case.where[1:])))
