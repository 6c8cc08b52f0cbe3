"""The oracle's join against a simulation that is simpler still: no SQL, no positions, only windows that change."""

from __future__ import annotations

from collections import Counter

from hypothesis import given

from tests import oracle
from tests.cases import Case, Rows
from tests.evaluation import holds, identity
from tests.expressions import Expr, Value, aliases_of
from tests.lifetimes import NEVER, arrivals, windows
from tests.oracle import Result
from tests.properties.settings import randomized
from tests.properties.strategies import ALL_WINDOWS, Profile, cases


def simulated(case: Case) -> list[Result]:
    """The join as the stream would see it: tuple by tuple, with windows that drop what is old."""
    sources = [case.source(item) for item in case.items]
    queue = sorted((time, s, row) for s, rows in enumerate(arrivals(case)) for row, time in rows)
    contents: list[list[tuple[int, int]]] = [[] for _ in case.items]
    living: list[tuple[tuple[int, ...], int]] = []
    finished: list[Result] = []

    def drop(s: int, row: int, moment: int) -> None:
        contents[s] = [(t, r) for t, r in contents[s] if r != row]
        for result in [result for result in living if result[0][s] == row]:
            living.remove(result)
            finished.append(Result(*result, moment))

    def expire(until: float) -> None:
        ends = [
            (t + width, s, row)
            for s, width in enumerate(windows(case))
            if isinstance(width, int)
            for t, row in contents[s]
        ]
        for end, s, row in sorted(ends):
            if end <= until:
                drop(s, row, end)

    def env_of(s: int, row: int) -> dict[Expr, Value]:
        return dict(zip(oracle.cols(case, case.items[s]), sources[s].rows[row], strict=True))

    def combine(s: int, chosen: tuple[int, ...], env: dict[Expr, Value], new: tuple[int, int]) -> None:
        if s == len(case.items):
            living.append((chosen, new_time))
            return
        for _, row in contents[s]:
            if s == new[0] and row != new[1]:
                continue
            wider = {**env, **env_of(s, row)}
            known = {item.alias for item in case.items[: s + 1]}
            alias = case.items[s].alias
            due = [p for p in case.where if alias in aliases_of(p) and aliases_of(p) <= known]
            if all(holds(p, wider) for p in due):
                combine(s + 1, (*chosen, row), wider, new)

    for new_time, s, row in queue:
        expire(new_time)
        window = windows(case)[s]
        contents[s].append((new_time, row))
        if isinstance(window, Rows):
            places = [sources[s].position(key) for key in window.partition_by]
            key = [identity(sources[s].rows[row][i]) for i in places]
            peers = [r for _, r in contents[s] if [identity(sources[s].rows[r][i]) for i in places] == key]
            if len(peers) > window.count:
                drop(s, peers[0], new_time)
        combine(0, (), {}, (s, row))
    expire(float("inf"))
    return finished + [Result(*result, NEVER) for result in living]


ANY_JOIN = Profile(
    sizes=(1, 2, 2, 3, 4),
    edges=("key", "theta", "time", "composite"),
    classes=2,
    windows=ALL_WINDOWS,
    lateness=True,
    static=True,
)


@randomized(share=40)
@given(cases(ANY_JOIN))
def test_sql_and_simulation_agree(case: Case) -> None:
    assert Counter(oracle.results(case)) == Counter(simulated(case))
