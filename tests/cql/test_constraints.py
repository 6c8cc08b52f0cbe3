# ruff: noqa: S608 - these tests put query texts together from their own pieces
"""Bounds on time against brute force: all assignments of small times to a few streams."""

from __future__ import annotations

from functools import cache
from itertools import permutations, product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.cql.catalog import CATALOG
from tests.cql.randomness import cases
from thalweg.cql import bind
from thalweg.cql.constraints import Bound, closure, contradiction, latest_partner
from thalweg.cql.query import RangeWindow
from thalweg.errors import BindError

LIMIT = 3
SPREAD = 24
"""Longer than any chain of bounds below, so that reaching it means that nothing bounds a difference."""


@st.composite
def systems(draw: st.DrawFn) -> tuple[int, list[Bound]]:
    streams = draw(st.integers(2, 3))
    pairs = list(permutations(range(streams), 2))
    bounds = [Bound(x, y, draw(st.integers(-LIMIT, LIMIT)), f"{x}{y}") for x, y in pairs if draw(st.booleans())]
    return streams, bounds


@cache
def all_times(streams: int) -> np.ndarray:
    return np.array([(0, *rest) for rest in product(range(-SPREAD, SPREAD + 1), repeat=streams - 1)])


def assignments(streams: int, bounds: list[Bound]) -> np.ndarray:
    """All times (one row per assignment) that satisfy the bounds; the first stream stands in the middle."""
    times = all_times(streams)
    for bound in bounds:
        times = times[times[:, bound.later] - times[:, bound.earlier] <= bound.limit]
    return times


@cases(200)
@given(systems())
def test_closure_and_contradiction(system: tuple[int, list[Bound]]) -> None:
    streams, bounds = system
    times = assignments(streams, bounds)
    clash = contradiction(streams, bounds)
    assert bool(clash) == (len(times) == 0)
    if clash:
        assert all(bound in bounds for bound in clash)
        assert [bound.later for bound in clash] == [bound.earlier for bound in (*clash[1:], clash[0])]
        assert sum(bound.limit for bound in clash) < 0
        return
    differences = closure(streams, bounds)
    for x, y in product(range(streams), repeat=2):
        largest = int((times[:, y] - times[:, x]).max())
        assert differences[x][y] == (largest if largest <= LIMIT * streams else None)


def test_latest_partner() -> None:
    differences = closure(3, [Bound(0, 1, 5), Bound(0, 2, -4), Bound(1, 2, -9), Bound(1, 0, -1)])
    assert [latest_partner(differences, stream) for stream in range(3)] == [5, 0, None]


OPERATORS = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "=": np.equal}


@cases(60)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([(0, 1), (1, 0), (1, 2), (0, 2)]), st.sampled_from(sorted(OPERATORS)), st.integers(-3, 3)
        ),
        min_size=2,
        max_size=5,
    )
)
def test_derived_windows_are_the_least_that_lose_nothing(
    predicates: list[tuple[tuple[int, int], str, int]],
) -> None:
    names = "abc"
    times = all_times(3)
    for (x, y), op, offset in predicates:
        times = times[OPERATORS[op](times[:, x], times[:, y] + offset)]
    condition = " AND ".join(f"{names[x]}.t {op} {names[y]}.t + {offset}" for (x, y), op, offset in predicates)
    try:
        [query] = bind(f"SELECT a.v FROM ticks a CROSS JOIN ticks b CROSS JOIN ticks c WHERE {condition}", CATALOG)
    except BindError as error:
        impossible = error.what.startswith("no result is possible")
        unbounded = "has no window" in error.what
        assert impossible or unbounded
        assert impossible == (len(times) == 0)
        assert unbounded == (len(times) > 0 and bool(np.abs(times).max() == SPREAD))
        return
    assert len(times) > 0
    newest = times.max(axis=1)
    for position, stream in enumerate(query.streams):
        assert isinstance(stream.window, RangeWindow)
        assert stream.window.derived
        width = stream.window.width_us
        assert width is not None
        assert width == stream.retention_us
        ages = newest - times[:, position]
        assert (ages < width).all(), "a result is lost"
        assert width == 1 or (ages == width - 1).any(), "the window could be smaller"
