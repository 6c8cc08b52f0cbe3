"""When feedback pays: habits, promises, and producers that sleep."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from tests.deciding import DECIDER, decider_of
from thalweg.adapt.ledger import Ledger
from thalweg.adapt.prices import Prices, Watching, watching_price
from thalweg.adapt.production import Habit, ProductionDecider, Seen, may_change, reconsidered, sleepers, storing
from thalweg.adapt.promise import Promise
from thalweg.engine.feedback.gates import NO_GATES, Gates
from thalweg.engine.join.engine import JoinEngine
from thalweg.engine.join.gate_choice import GateChoice
from thalweg.engine.join.programming import Manner
from thalweg.engine.observations import Glimpse
from thalweg.engine.rows.layout import StreamLayout
from thalweg.errors import ThalwegError
from thalweg.experiments.jit.workloads import Clique
from thalweg.plan.compiler import compile_programs
from thalweg.plan.demand import find_demands, siblings
from thalweg.plan.join_graph import JoinGraph
from thalweg.plan.program import Programs
from thalweg.plan.tree import TreePlan
from thalweg.policies import Policies
from thalweg.settings import Production

BUSHY = Clique("bushy", window_min=2, rate=1.0, streams=6, dmax=60)
LEFT_DEEP = Clique("left-deep", window_min=10, rate=1.0, streams=4, dmax=50, wide=100)


CLIQUE = JoinGraph(4, classes=tuple(frozenset({a, b}) for a in range(4) for b in range(a)))
"""Six pairs of streams can meet."""
NO_PAIRS = JoinGraph(4)
"""A promise costs nothing here."""


def done(tuples: int, probes_each: int) -> Seen:
    return Seen((tuples, tuples * probes_each, 0, 0, 0, 0))


def never(_now: float) -> float:
    raise AssertionError("not asked for")


def test_promises_wait_until_they_are_not_felt() -> None:
    ledger, idle = Ledger(), frozenset({frozenset({0, 1})})
    habit = reconsidered(Habit(), done(1000, 2), ledger, CLIQUE, never)
    spent = round(Prices.standard().total(done(1000, 2).work))
    assert (habit.asks, habit.last.work[0], habit.spent) == (False, 1000, spent)
    assert 0 < ledger.aside("promise") < watching_price("promise", CLIQUE)
    seen = replace(done(10_000_000, 2), idle=idle)
    habit = reconsidered(habit, seen, ledger, CLIQUE, lambda now: 0.9 * now)
    assert (habit.asks, habit.last.idle) == (False, idle)
    assert habit.not_before == pytest.approx(2 * habit.spent)
    assert ledger.aside("promise") == 0  # paid
    assert ledger.held == 0  # by nothing that looks are paid from


def test_joins_ask_when_it_promises_much_and_stop_when_that_was_not_kept() -> None:
    ledger = Ledger()
    asking = reconsidered(Habit(), done(10_000, 100), ledger, NO_PAIRS, lambda now: 0.3 * now)
    assert asking.asks
    begun = reconsidered(asking, done(20_000, 100), ledger, NO_PAIRS, never)
    assert begun.asks  # while states are filled anew, nothing is judged
    assert reconsidered(begun, Seen((30_000, 2_100_000, 0, 0, 0, 0)), ledger, NO_PAIRS, never).asks
    given_up = reconsidered(begun, done(30_000, 100), ledger, NO_PAIRS, never)
    assert not given_up.asks
    assert given_up.not_before == pytest.approx(4 * given_up.spent)


def test_searches_count() -> None:
    asking = Habit(asks=True, last=done(10_000, 100), cost=5000)
    for tests, asks in ((10_000, True), (100_000, False)):
        seen = replace(done(20_000, 60), tests=tests)
        assert reconsidered(asking, seen, Ledger(), NO_PAIRS, never).asks is asks


def test_a_change_pays_by_what_it_would_have_saved() -> None:
    habit = Habit(spent=100_000_000)
    assert may_change(habit, Ledger(), CLIQUE, 0.2)
    assert not may_change(habit, Ledger(), CLIQUE, 0.01)
    assert not may_change(replace(habit, settled=60_000_000), Ledger(), CLIQUE, 0.2)
    ledger = Ledger()
    assert may_change(replace(habit, settled=40_000_000), ledger, CLIQUE, 0.2)
    assert ledger.aside("gates") == watching_price("gates", CLIQUE)


def test_a_promise_waits_until_what_was_paid_in_advance_is_made_up_for() -> None:
    ledger = Ledger()
    ledger.pay(1e12, "promise")
    habit = reconsidered(Habit(), done(10_000_000, 2), ledger, CLIQUE, never)
    assert not habit.asks
    assert -1e12 < ledger.aside("promise") < 0


def test_what_goes_into_states() -> None:
    assert storing((10, 10, 0, 0, 0, 0)) == 0
    assert 0.5 < storing((20, 20, 0, 10, 0, 0), (10, 10, 0, 0, 0, 0)) < 1


def test_a_habit_is_the_same_after_json() -> None:
    habit = Habit(asks=True, last=Seen((1, 2, 3, 4, 5, 6), 7, frozenset({frozenset({0, 2})})), spent=8, settled=9)
    assert Habit.from_json(json.loads(json.dumps(habit.to_json()))) == habit


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
    return decided(clique, production, windows, nested_loops=nested_loops)[0]


def decided(
    clique: Clique, production: Production, windows: int = 6, *, nested_loops: bool = False
) -> tuple[JoinEngine, ProductionDecider]:
    """An engine after so many windows, and who decided about its gates."""
    end = windows * clique.window
    tuples = clique.tuples(np.random.default_rng(3), end)
    engine = JoinEngine(
        clique.query, clique.plan, clique.rank, policies=Policies(production=production, nested_loops=nested_loops)
    )
    decider = decider_of(clique.query)
    for start in range(0, end, clique.window):
        engine.offer(tuples.between(start, start + clique.window))
        for _ in decider.advance(engine):
            pass
    return engine, decider


def free(*things: Watching) -> Callable[[Watching, JoinGraph], float]:
    """Prices of which these are nothing."""
    return lambda what, graph: 0.0 if what in things else watching_price(what, graph)


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{DECIDER}.PERIOD", 100)
    monkeypatch.setattr(f"{DECIDER}.watching_price", free("gates"))


@pytest.mark.usefixtures("eager")
def test_a_producer_sleeps_whose_sibling_has_nothing() -> None:
    """In bushy cliques nearly nothing joins a b with c d, so all that e f produces is in vain."""
    push, auto = (run(BUSHY, production, windows=12) for production in ("push", "auto"))
    e, f = 4, 5
    assert auto.programming.gates.sleepers == (frozenset({e, f}),)
    assert auto.work.stored < 0.8 * push.work.stored
    assert auto.work.results == push.work.results
    whole = {size.node for size in auto.sizes() if len(size.node) > 1 and size.live_keys is None}
    assert whole == {frozenset({0, 1}), frozenset({2, 3}), frozenset({0, 1, 2, 3})}


@pytest.mark.usefixtures("eager")
def test_nested_loops_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{DECIDER}.watching_price", free("gates", "promise"))
    push, auto = (run(LEFT_DEEP, production, nested_loops=True) for production in ("push", "auto"))
    assert auto.programming.gates.everywhere
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


def test_an_engine_that_nobody_decides_for_pushes() -> None:
    end = 6 * LEFT_DEEP.window
    tuples = LEFT_DEEP.tuples(np.random.default_rng(3), end)
    engines = [
        JoinEngine(LEFT_DEEP.query, LEFT_DEEP.plan, LEFT_DEEP.rank, policies=Policies(production=each))
        for each in ("push", "auto")
    ]
    for engine in engines:
        engine.offer(tuples.between(0, end))
        for _ in engine.advance():
            pass
    push, auto = engines
    assert auto.work == push.work
    assert push.gated is None
    assert auto.gated is not None


def test_gates_are_gone_when_the_plan_changes() -> None:
    engine = run(BUSHY, "auto", windows=2)
    assert engine.gated is not None
    for gates in (Gates(everywhere=True), Gates(sleepers=(frozenset({4, 5}),))):
        engine.gated.choose(gates)
        assert engine.gated.gates == gates
        assert engine.feedback.tables is not None
        engine.transition(BUSHY.plan)
        assert engine.gated.gates == NO_GATES
        assert engine.feedback.tables is None


def test_gates_of_a_join_that_pushes_cannot_be_chosen() -> None:
    engine = run(BUSHY, "push", windows=2)
    assert engine.gated is None
    with pytest.raises(ThalwegError, match="its programs can have no others now"):
        GateChoice(engine, Manner()).choose(Gates(everywhere=True))


@pytest.mark.usefixtures("eager")
def test_a_decider_goes_on_from_what_it_remembers() -> None:
    _, decider = decided(BUSHY, "auto", windows=12)
    other = decider_of(BUSHY.query)
    other.restore(json.loads(json.dumps(decider.to_json())))
    assert (other.habit, other.to_json()) == (decider.habit, decider.to_json())
    assert other.habit.settled > 0


class Shown:
    """A join that shows what it is told to, and takes what gates it is given."""

    def __init__(self) -> None:
        self.plan = BUSHY.plan
        self.gates = NO_GATES
        self.may_choose = True
        self.counts: tuple[int, ...] = (0, 0, 0, 0, 0, 0)
        self.tests = 0
        self.idle_states: frozenset[frozenset[int]] = frozenset()
        self.looks = 0

    @property
    def programs(self) -> Programs:
        raise AssertionError("no promise was asked for")

    @property
    def layouts(self) -> Sequence[StreamLayout]:
        raise AssertionError("no promise was asked for")

    def glimpse(self, most: int) -> Glimpse:
        raise AssertionError(f"no promise was asked for, of {most} tuples")

    def all_held(self) -> int:
        return 1

    def idle(self) -> frozenset[frozenset[int]]:
        self.looks += 1
        return self.idle_states

    def share_within(self, nodes: tuple[frozenset[int], ...]) -> float:
        return 0.5 if nodes else 0.0

    def choose(self, gates: Gates) -> None:
        self.gates = gates

    def work(self) -> None:
        """A stretch in which each tuple stores an entry."""
        self.counts = tuple(count + 10_000 for count in self.counts)


def test_who_sleeps_was_in_vain_in_two_looks_in_a_row_and_wakes_after_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{DECIDER}._SHARE", 0.0)  # no promise can be paid
    monkeypatch.setattr(f"{DECIDER}.watching_price", free("gates"))
    joins, decider = Shown(), decider_of(BUSHY.query)
    abcd, ef = frozenset({0, 1, 2, 3}), frozenset({4, 5})
    slept = []
    for is_idle in (True, False, True, True, *[True] * 5, False, True, *[True] * 20, False, False):
        joins.idle_states = frozenset({abcd}) if is_idle else frozenset()
        joins.work()
        decider.consider(joins)
        slept.append(joins.gates.sleepers == (ef,))
    assert slept == [False] * 3 + [True] * 29 + [False]


def test_nobody_looks_at_a_join_whose_gates_cannot_change() -> None:
    joins, decider = Shown(), decider_of(BUSHY.query)
    joins.may_choose = False
    joins.work()
    assert not decider.consider(joins)
    assert joins.looks == 0
    joins.may_choose = True
    decider.consider(joins)
    assert joins.looks == 1


def test_a_change_of_plan_goes_on_with_the_counts_of_the_same_engine() -> None:
    joins, decider = Shown(), decider_of(BUSHY.query)
    joins.work()
    decider.consider(joins)
    looked = decider.habit.last.work
    assert looked == joins.counts
    joins.work()
    decider.plan_changed(joins)
    assert decider.habit.last.work == looked
    joins.counts = (5, 9, 0, 0, 0, 0)  # another engine
    decider.plan_changed(joins)
    assert decider.habit.last.work == joins.counts
    joins.work()
    decider.begin_with(joins)  # built anew
    assert decider.habit.last.work == joins.counts
