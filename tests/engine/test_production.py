"""When feedback pays: habits, promises, and producers that sleep."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from thalweg.engine.join import JoinEngine
from thalweg.engine.observations import Glimpse
from thalweg.engine.production import Habit, Promise, price, reconsidered, sleepers, storing
from thalweg.experiments.jit.workloads import Clique
from thalweg.options import Production
from thalweg.plan.demand import find_demands, siblings
from thalweg.plan.program import compile_programs
from thalweg.plan.tree import TreePlan

BUSHY = Clique("bushy", window_min=2, rate=1.0, streams=6, dmax=60)
LEFT_DEEP = Clique("left-deep", window_min=10, rate=1.0, streams=4, dmax=50, wide=100)


def done(tuples: int, probes_each: int) -> tuple[int, ...]:
    return tuples, tuples * probes_each, 0, 0, 0, 0


def never(_now: float) -> float:
    raise AssertionError("not asked for")


def test_promises_wait_until_they_are_not_felt() -> None:
    habit = reconsidered(Habit(), done(1000, 2), 0, 0, 6, never)
    assert (habit.asks, habit.looked, habit.spent) == (False, 1000, round(1000 * price(done(1000, 2), ())))
    habit = reconsidered(habit, done(10_000_000, 2), 0, 5, 6, lambda now: 0.9 * now)
    assert (habit.asks, habit.idle) == (False, 5)
    assert habit.not_before == pytest.approx(2 * habit.spent)


def test_joins_ask_when_it_promises_much_and_stop_when_that_was_not_kept() -> None:
    asking = reconsidered(Habit(), done(10_000, 100), 0, 0, 0, lambda now: 0.3 * now)
    assert asking.asks
    dear = done(20_000, 100)
    begun = reconsidered(asking, dear, 0, 0, 0, never)
    assert begun.asks  # while states are filled anew, nothing is judged
    assert reconsidered(begun, (30_000, 2_100_000, 0, 0, 0, 0), 0, 0, 0, never).asks
    worse = done(30_000, 100)
    given_up = reconsidered(begun, worse, 0, 0, 0, never)
    assert not given_up.asks
    assert given_up.not_before == pytest.approx(4 * given_up.spent)


def test_searches_count() -> None:
    asking = Habit(asks=True, looked=10_000, work=done(10_000, 100), cost=5000)
    assert reconsidered(asking, done(20_000, 60), 10_000, 0, 0, never).asks
    assert not reconsidered(asking, done(20_000, 60), 100_000, 0, 0, never).asks


def test_a_change_pays_by_what_it_would_have_saved() -> None:
    habit = Habit(spent=100_000_000)
    assert habit.may_change(4, 0.2)
    assert not habit.may_change(4, 0.01)
    assert not replace(habit, settled=60_000_000).may_change(4, 0.2)


def test_what_goes_into_states() -> None:
    assert storing((10, 10, 0, 0, 0, 0), ()) == 0
    assert 0.5 < storing((20, 20, 0, 10, 0, 0), (10, 10, 0, 0, 0, 0)) < 1


def test_who_tells_others_to_sleep_stays_awake() -> None:
    ab, cd, ef = (frozenset({i, i + 1}) for i in (0, 2, 4))
    abcd = ab | cd
    pairs = {ab: cd, cd: ab, abcd: ef, ef: abcd}
    assert sleepers(pairs, [abcd]) == (ef,)
    assert sleepers(pairs, [cd]) == (ab,)
    assert sleepers(pairs, [abcd, ef]) == (abcd,)  # one of both
    assert sleepers(pairs, [cd, abcd]) == (ab, ef)  # nothing is missing in a b c d while there is no c d
    assert siblings(BUSHY.plan) == pairs


def run(clique: Clique, production: Production, windows: int = 6, *, nested_loops: bool = False) -> JoinEngine:
    end = windows * clique.window
    tuples = clique.tuples(np.random.default_rng(3), end)
    engine = JoinEngine(clique.query, clique.plan, clique.rank, production=production, nested_loops=nested_loops)
    for start in range(0, end, clique.window):
        engine.offer(tuples.between(start, start + clique.window))
        for _ in engine.advance():
            pass
    return engine


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("thalweg.engine.join.PERIOD", 100)
    monkeypatch.setattr("thalweg.engine.production._CHANGE_PRICE", 0)


@pytest.mark.usefixtures("eager")
def test_a_producer_sleeps_whose_sibling_has_nothing() -> None:
    """In bushy cliques nearly nothing joins a b with c d, so all that e f produces is in vain."""
    push, auto = (run(BUSHY, production, windows=12) for production in ("push", "auto"))
    e, f = 4, 5
    assert auto._sleepers == (frozenset({e, f}),)
    assert auto.work.stored < 0.8 * push.work.stored
    assert auto.work.results == push.work.results
    whole = {size.node for size in auto.sizes() if len(size.node) > 1 and size.live_keys is None}
    assert whole == {frozenset({0, 1}), frozenset({2, 3}), frozenset({0, 1, 2, 3})}


@pytest.mark.usefixtures("eager")
def test_nested_loops_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("thalweg.engine.production._PROMISE_PRICE", 0)
    push, auto = (run(LEFT_DEEP, production, nested_loops=True) for production in ("push", "auto"))
    assert auto._habit.asks
    assert auto.work.candidates < 0.5 * push.work.candidates
    assert auto.work.results == push.work.results


def test_a_promise_counts_partners_and_the_price_of_asking() -> None:
    engine = run(LEFT_DEEP, "push", windows=2)
    assert isinstance(engine.plan, TreePlan)
    programs = compile_programs(engine.plan, engine.workspace.graph)
    demands = find_demands(engine.plan, engine.workspace.graph, programs)
    promise = Promise(engine.glimpse(256), engine.layouts, programs, demands)
    assert promise.cost(1e6) < 0.5e6  # most of what a stream brings has no partner in d
    assert promise.cost(0.0) > 100  # and asking costs something
    assert Promise(Glimpse(0), engine.layouts, programs, demands).cost(1e6) == np.inf
