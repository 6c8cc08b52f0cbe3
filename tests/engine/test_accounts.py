"""Accounts: what a budget refuses, whatever the plan, and what they say about what was left out."""

from __future__ import annotations

import math
import random
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.deciding import decider_of
from tests.engine.test_join import (
    Setting,
    Tuple,
    make_eager,
    naive,
    random_plan,
    random_production,
    random_setting,
    words,
)
from thalweg.cql.query import AttributeClass, Output, Query, RangeWindow, StreamRef
from thalweg.engine.join.engine import JoinEngine
from thalweg.engine.kernels import accounts as kernel
from thalweg.engine.kernels import tables
from thalweg.engine.machine.accounts import Accounts, Spent
from thalweg.engine.rows.layout import layouts
from thalweg.errors import PlanError
from thalweg.plan.allocation import Division, Way
from thalweg.plan.allocation.harvest import SEGMENTS
from thalweg.plan.compiler import compile_programs
from thalweg.plan.join_graph import JoinGraph
from thalweg.plan.passes import Setting as PassSetting
from thalweg.plan.passes import apply_passes
from thalweg.plan.program import Pay, Probe
from thalweg.plan.tree import Plan, TreePlan, parse_plan
from thalweg.policies import Policies
from thalweg.settings import Budget, Feedback, Production

Answer = Counter[tuple[int, ...]]
Feeds = tuple[tuple[float, ...], ...]
UNLIMITED = math.inf


def random_feeds(rng: random.Random, n: int) -> Feeds:
    """Some accounts get nothing, some all that they ask for."""
    common = rng.choice([0.0, 0.1, 0.5, 1.0, 5.0])
    return tuple(tuple(rng.choice([common, common, 0.0, 0.3, UNLIMITED]) for _ in range(n - 1)) for _ in range(n))


def everything(n: int) -> Feeds:
    return ((UNLIMITED,) * (n - 1),) * n


def paying(feeds: Feeds) -> Division:
    return Division(1.0, 1.0, feeds)


def random_parts(rng: random.Random) -> tuple[int, ...] | None:
    """Those of a window that a way looks at; None: all."""
    return rng.choice([None, (), (0,), (3, 4), tuple(sorted(rng.sample(range(SEGMENTS), rng.randint(1, SEGMENTS))))])


def random_division(rng: random.Random, n: int) -> Division:
    """Tuples pay; some are shed, or look at parts of windows."""
    feeds = rng.choice([everything(n), random_feeds(rng, n)])
    what = rng.choice(["pay", "shed", "part", "part"])
    if what == "shed":
        return Division(1.0, 1.0, feeds, admitted=tuple(rng.choice([0.0, 0.2, 0.7, 1.0]) for _ in range(n)))
    count = rng.randint(1, 3) if what == "part" else 0
    shares = [rng.random() + 0.01 for _ in range(count)]
    paths = [tuple(tuple(random_parts(rng) for _ in range(n - 1)) for _ in range(n)) for _ in range(count)]
    return Division(
        1.0, 1.0, feeds, ways=tuple(Way(s / sum(shares), path) for s, path in zip(shares, paths, strict=True))
    )


def accounts_of(engine: JoinEngine) -> Accounts:
    assert engine.accounts is not None
    return engine.accounts


def run_paid(
    setting: Setting,
    rng: random.Random,
    feeds: dict[int, Division],
    production: Production | Feedback = "push",
    *,
    cuts: int = 20,
    plans: int | None = None,
) -> tuple[Answer, JoinEngine]:
    """Batches cut anywhere; ``feeds`` from a position on; plans change anywhere, or where ``plans`` seeds it."""
    n = len(setting.query.streams)
    choice = rng if plans is None else random.Random(plans)
    looks_at_parts = any(division.ways for division in feeds.values())

    def plan() -> Plan:
        chosen = random_plan(choice, n)
        return chosen.keeping_none() if looks_at_parts and isinstance(chosen, TreePlan) else chosen

    engine = JoinEngine(setting.query, plan(), policies=Policies(production=production, budget=Budget()))
    changes = {choice.randrange(len(setting.tuples)): plan() for _ in range(choice.choice([0, 1, 5]))}
    decider = decider_of(setting.query)
    answer: Answer = Counter()
    position = 0
    while position < len(setting.tuples):
        if position in changes:
            engine.transition(changes[position])
            decider.plan_changed(engine.gated)
        if position in feeds:
            accounts_of(engine).follow(feeds[position])
        marks = [mark for mark in (*changes, *feeds) if mark > position]
        end = min([len(setting.tuples), position + rng.randint(1, cuts), *marks])
        engine.offer(words(setting.query, setting.tuples[position:end]))
        for block in decider.advance(engine, end - position):
            answer.update(tuple(int(x) for x in row[2 : 2 + n]) for row in block)
        position = end
    return answer, engine


def since(setting: Setting, answer: Answer, position: int) -> Answer:
    """The results whose newest tuple stands at a position or later."""
    places = {(event.stream, event.row): i for i, event in enumerate(setting.tuples)}
    return Counter(
        {rows: count for rows, count in answer.items() if max(places[s, row] for s, row in enumerate(rows)) >= position}
    )


def check_any_budget(seed: int) -> None:
    """Under any budget nothing is added; from where it is lifted, nothing is missing."""
    rng = random.Random(seed)
    setting = random_setting(rng)
    n, lifted = len(setting.query.streams), rng.randrange(len(setting.tuples))
    divisions = {0: random_division(rng, n), rng.randrange(lifted + 1): random_division(rng, n)}
    production = random_production(rng)
    answer, engine = run_paid(setting, rng, divisions | {lifted: paying(everything(n))}, production)
    complete = naive(setting)
    assert answer <= complete, answer - complete
    spent = accounts_of(engine).spent
    if not spent.shed.any():
        assert since(setting, answer, lifted) == since(setting, complete, lifted)
    if spent.is_complete:
        assert answer == complete
        assert spent.share == 1.0
    check_counts(setting, engine, spent, is_pushed=production == "push")
    assert spent.results.sum() == answer.total() or n == 1


def check_counts(setting: Setting, engine: JoinEngine, spent: Spent, *, is_pushed: bool) -> None:
    joining = np.bincount([e.stream for e in setting.tuples if e.joins], minlength=len(setting.query.streams))
    if len(setting.query.streams) > 1:
        assert (spent.fed + spent.shed).tolist() == joining.tolist()
        assert (spent.wanted[:, 0] <= spent.fed).all()
    assert (spent.hopeless <= spent.refused).all()
    assert (spent.paid - spent.completing <= spent.allowed).all()
    if is_pushed:
        assert spent.allowed.sum() + spent.completing.sum() == engine.work.probes
        if len(setting.query.streams) > 1:
            assert spent.wanted[:, 0].tolist() == spent.fed.tolist()


@settings(max_examples=300, deadline=None, print_blob=True)
@given(seed=st.integers(0, 2**32))
def test_under_any_budget_nothing_is_added_and_from_where_it_is_lifted_nothing_is_missing(seed: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        rng = random.Random(seed)
        if rng.random() < 0.5:
            patch.setattr("thalweg.engine.machine.workspace.FIRST_CAPACITY", 2)
            patch.setattr("thalweg.engine.machine.machine._OUTPUT_BLOCK", rng.choice([1, 3, 50]))
            make_eager(patch, rng)
        check_any_budget(seed)


@settings(max_examples=100, deadline=None, print_blob=True)
@given(seed=st.integers(0, 2**32))
def test_accounts_without_a_limit_refuse_nothing_and_empty_ones_everything(seed: int) -> None:
    rng = random.Random(seed)
    setting = random_setting(rng)
    n = len(setting.query.streams)
    for divisions in ({}, {0: paying(everything(n))}):
        answer, engine = run_paid(setting, rng, divisions, random_production(rng))
        assert answer == naive(setting)
        assert not accounts_of(engine).spent.refused.any()
        assert accounts_of(engine).spent.share == 1.0
    if n > 1:
        answer, engine = run_paid(setting, rng, {0: paying(((0.0,) * (n - 1),) * n)})
        assert not answer
        spent = accounts_of(engine).spent
        assert not spent.allowed.any()
        assert (spent.hopeless == spent.refused).all()
        assert spent.share is (None if spent.refused.any() else 1.0) or spent.share == 1.0


@settings(max_examples=100, deadline=None, print_blob=True)
@given(seed=st.integers(0, 2**32))
def test_the_same_probes_are_refused_however_tuples_are_cut_into_batches(seed: int) -> None:
    rng = random.Random(seed)
    setting = random_setting(rng)
    n = len(setting.query.streams)
    divisions = {0: random_division(rng, n), rng.randrange(len(setting.tuples)): random_division(rng, n)}
    runs = [run_paid(setting, rng, divisions, cuts=cuts, plans=seed) for cuts in (1, 20, 20, 10**6)]
    first, *others = [(answer, *map(np.ndarray.tolist, counted(engine))) for answer, engine in runs]
    for other in others:
        assert other == first


def counted(engine: JoinEngine) -> tuple[np.ndarray, ...]:
    spent = accounts_of(engine).spent
    return spent.fed, spent.shed, spent.allowed, spent.refused, spent.paid, spent.results


# What is fed ------------------------------------------------------------------------------------


PAIR = layouts(
    Query(
        "pair",
        "",
        "join",
        Output.ISTREAM,
        tuple(StreamRef(name, name, pa.schema([]), "t", RangeWindow(10), 10) for name in "ab"),
        (),
        (AttributeClass(dict.fromkeys(range(2)), pa.int64()),),
    )
)


def paid(feed: float, arrivals: list[int]) -> tuple[list[int], Accounts]:
    """Probes allowed to one account, tuple by tuple, of so many wanted by each."""
    tables = Accounts.new_tables(PAIR)
    graph = JoinGraph(2, classes=(frozenset({0, 1}),))
    accounts = Accounts(tables, compile_programs(parse_plan("A B", "AB"), graph))
    accounts.set_feeds(((feed,), (UNLIMITED,)))
    allowed = []
    for wanted in arrivals:
        kernel.feed.py_func(tables, 0)  # type: ignore[attr-defined] # compiled functions have it
        allowed.append(sum(kernel.pay.py_func(tables, 0, 0, -1, -1) for _ in range(wanted)))  # type: ignore[attr-defined]
    return allowed, accounts


@pytest.mark.parametrize("feed", [0.05, 0.5, 1.7, 20.0])
@pytest.mark.parametrize("wanted", [1, 3, 40])
def test_an_account_allows_what_is_fed_and_no_more(feed: float, wanted: int) -> None:
    count = 4_000 // wanted
    allowed, accounts = paid(feed, [wanted] * count)
    saved = 1 + max(16, round(feed * 64))
    assert sum(allowed) <= feed * count + saved + wanted * count / 1024
    assert sum(allowed) >= min(feed, wanted) * (count - 200) * 0.9
    spent = accounts.spent
    assert spent.allowed[0, 0] == sum(allowed)
    assert spent.wanted[0, 0] == wanted * count
    assert not spent.hopeless.any()


def test_a_burst_after_a_quiet_time_is_paid_for_by_what_was_saved_and_no_more() -> None:
    allowed, accounts = paid(1.0, [0] * 10_000 + [10_000])
    assert 120 <= allowed[-1] <= 2 * 64 + 2 + 10_000 / 1024
    assert not accounts.spent.hopeless[0, 0]


def test_every_probe_is_allowed_with_its_chance_and_one_of_every_whole_chance() -> None:
    """Deville's systematic sampling: exact chances, and counts that are never off by more than one."""
    rng = random.Random(3)
    chances = [rng.choice([0.05, 0.3, 0.5, 0.77, 0.99]) for _ in range(40)]
    words_of = [round(chance * kernel.ONE) for chance in chances]
    runs = 4_000
    hits = np.zeros(len(chances))
    for seed in range(runs):
        tables = Accounts.new_tables(PAIR)
        tables.tally[kernel.A_SEED] = random.Random(seed).getrandbits(31)
        tables.table[0, 0, kernel.P_POINT] = random.Random(-seed - 1).getrandbits(kernel.CHANCE_BITS)
        total = 0.0
        lucky = 0
        for i, chance in enumerate(words_of):
            drawn = kernel._is_drawn.py_func(tables.table, tables.tally, 0, 0, chance)  # type: ignore[attr-defined]
            hits[i] += drawn
            lucky += drawn
            total += chances[i]
            assert abs(lucky - total) < 1 + 1e-6
    deviation = np.sqrt(np.array(chances) * (1 - np.array(chances)) / runs)
    assert (np.abs(hits / runs - chances) < 4.5 * deviation).all(), (hits / runs, chances)


# What is estimated ------------------------------------------------------------------------------


def skewed_setting() -> Setting:
    """Three streams whose frequent keys are frequent in all of them: bursts go with productive probes."""
    rng = random.Random(11)
    refs = tuple(StreamRef(name, name, pa.schema([]), "t", RangeWindow(60), 60) for name in "abc")
    query = Query("q", "", "join", Output.ISTREAM, refs, (), (AttributeClass(dict.fromkeys(range(3)), pa.int64()),))
    weights = [1 / (1 + key) ** 1.5 for key in range(12)]
    tuples = [Tuple(i % 3, i, i // 3, {0: rng.choices(range(12), weights)[0]}, {}, 0, joins=True) for i in range(450)]
    return Setting(query, tuples)


@pytest.mark.parametrize("feeds", [(0.5, UNLIMITED), (UNLIMITED, 1.5), (0.5, 1.0)])
def test_the_estimate_of_the_full_answer_is_right_on_average_and_its_error_is_what_it_says(
    feeds: tuple[float, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By repetition: the same tuples, with other random points."""
    setting = skewed_setting()
    full = run_paid(setting, random.Random(0), {}, plans=5)[0].total()
    estimates, variances, found = [], [], []
    for seed in range(300):
        monkeypatch.setattr("thalweg.engine.machine.accounts._SEED", 7919 * seed + 1)
        answer, engine = run_paid(setting, random.Random(seed), {0: paying((feeds,) * 3)}, cuts=450, plans=5)
        spent = accounts_of(engine).spent
        assert not spent.hopeless.any()
        assert spent.share is not None
        assert spent.share == answer.total() / spent.full
        estimates.append(spent.full)
        variances.append(spent.variance)
        found.append(answer.total())
    assert np.mean(found) < 0.8 * full, "too little is refused to estimate anything"
    spread = float(np.std(estimates, ddof=1))
    assert abs(np.mean(estimates) - full) < 4 * spread / math.sqrt(len(estimates)), (np.mean(estimates), full, spread)
    assert 0.8 * spread < math.sqrt(np.mean(variances)) < 1.4 * spread, (spread, np.mean(variances))


NEAR: tuple[int, ...] = (0, 1, 2)
WAYS = (
    (Way(0.5, (((0,), (0, 1)),) * 3), Way(0.5, ((None, None),) * 3)),
    (Way(0.6, ((NEAR, NEAR),) * 3), Way(0.2, ((NEAR, ()), (NEAR, NEAR), ((), NEAR))), Way(0.2, ((None, None),) * 3)),
)


@pytest.mark.parametrize("ways", WAYS)
@pytest.mark.parametrize("feeds", [(UNLIMITED, UNLIMITED), (0.4, 0.8)])
def test_the_estimate_is_right_on_average_where_tuples_look_at_parts_of_windows(
    ways: tuple[Way, ...], feeds: tuple[float, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    setting = skewed_setting()
    full = run_paid(setting, random.Random(0), {}, plans=5)[0].total()
    estimates, variances = [], []
    for seed in range(300):
        monkeypatch.setattr("thalweg.engine.machine.accounts._SEED", 7919 * seed + 1)
        division = Division(1.0, 1.0, (feeds,) * 3, ways=ways)
        answer, engine = run_paid(setting, random.Random(seed), {0: division}, cuts=450, plans=5)
        spent = accounts_of(engine).spent
        assert answer.total() < full
        assert spent.paid.sum() < spent.allowed.sum()
        assert not spent.hopeless.any()
        estimates.append(spent.full)
        variances.append(spent.variance)
    spread = float(np.std(estimates, ddof=1))
    assert abs(np.mean(estimates) - full) < 4 * spread / math.sqrt(len(estimates)), (np.mean(estimates), full, spread)
    assert 0.8 * spread < math.sqrt(np.mean(variances)) < 3 * spread, (spread, np.mean(variances))


@pytest.mark.parametrize("feed", [0.3, 1.0])
def test_the_estimate_is_right_on_average_where_states_are_kept(feed: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A probe that is allowed finds all, whatever was refused before."""
    setting = skewed_setting()
    full = naive(setting).total()
    estimates = []
    for seed in range(300):
        monkeypatch.setattr("thalweg.engine.machine.accounts._SEED", 7919 * seed + 1)
        plan = parse_plan("(a b) c", "abc").keeping_all()
        engine = JoinEngine(setting.query, plan, policies=Policies(budget=Budget()))
        accounts_of(engine).follow(paying(((feed, feed), (feed, UNLIMITED), (2 * feed,))))
        engine.offer(words(setting.query, setting.tuples))
        assert sum(len(block) for block in engine.advance()) < full
        spent = accounts_of(engine).spent
        assert not spent.wanted[2, 1]
        assert spent.completing[2, 0] > 0
        assert spent.paid.sum() == engine.work.probes
        estimates.append(spent.full)
    spread = float(np.std(estimates, ddof=1))
    assert abs(np.mean(estimates) - full) < 4 * spread / math.sqrt(len(estimates)), (np.mean(estimates), full, spread)


def test_of_the_tuples_of_a_stream_the_share_is_shed_that_is_not_admitted_and_evenly() -> None:
    setting = skewed_setting()
    division = Division(1.0, 1.0, everything(3), admitted=(0.25, 1.0, 0.6))
    _, engine = run_paid(setting, random.Random(0), {0: division})
    spent = accounts_of(engine).spent
    assert abs(spent.shed - np.array([0.75, 0.0, 0.4]) * 150).max() < 5
    assert spent.share is None


def test_a_chain_in_total_order_is_left_where_no_older_part_is_looked_at() -> None:
    """Fewer candidates are met, and the same found; out of order all of the chain is gone through."""
    setting = skewed_setting()
    division = Division(1.0, 1.0, everything(3), ways=(Way(1.0, (((0, 2), (0, 2)),) * 3),) * 2)
    answers, candidates = [], []
    for is_total in (True, False):
        engine = JoinEngine(setting.query, parse_plan("(a b) c", "abc"), policies=Policies(budget=Budget()))
        accounts_of(engine).follow(division)
        engine.offer(words(setting.query, setting.tuples), None if is_total else 0)
        answers.append(sum(len(block) for block in engine.advance()))
        candidates.append(engine.work.candidates)
    assert answers[0] == answers[1] > 0
    assert candidates[0] < candidates[1]


# Programs ---------------------------------------------------------------------------------------


def test_every_probe_of_a_head_is_paid_for_behind_its_gates() -> None:
    graph = JoinGraph(3, classes=(frozenset({0, 1}), frozenset({0, 2})))
    plan = parse_plan("(A B) C", "ABC")
    setting = PassSetting(plan, graph, budgeted=True)
    programs = apply_passes(compile_programs(plan, graph), setting)
    for head in programs.heads:
        kinds = [each for each in head.instructions if isinstance(each, Pay | Probe)]
        assert [type(each) for each in kinds] == [Pay, Probe, Pay, Probe]
        assert [each.account for each in kinds if isinstance(each, Pay)] == [0, 1]


def test_a_refused_probe_leaves_gaps_in_all_states_that_would_have_stored_what_it_finds() -> None:
    graph = JoinGraph(4, classes=(frozenset({0, 1, 2, 3}),))
    plan = parse_plan("((A B) C) D", "ABCD").keeping_all()
    programs = apply_passes(compile_programs(plan, graph), PassSetting(plan, graph, budgeted=True))
    pays = [[each.gaps for each in head.instructions if isinstance(each, Pay)] for head in programs.heads]
    ab, abc = (frozenset({0, 1}), (0,)), (frozenset({0, 1, 2}), (0,))
    assert pays == [[(ab, abc), (abc,), ()], [(ab, abc), (abc,), ()], [(abc,), ()], [()]]


@pytest.mark.parametrize("feed", [0.05, 0.5])
def test_an_entry_leaves_with_its_oldest_component_whatever_is_refused(feed: float) -> None:
    """So results are stale by lag alone: in a state that is refreshed seldom, nothing grows older than its windows."""
    setting = skewed_setting()
    engine = JoinEngine(setting.query, parse_plan("(a b) c", "abc").keeping_all(), policies=Policies(budget=Budget()))
    accounts_of(engine).follow(paying(((feed, feed), (feed, feed), (UNLIMITED,))))
    times = {(event.stream, event.row): event.time for event in setting.tuples}
    entries = 0
    for start in range(0, len(setting.tuples), 30):
        engine.offer(words(setting.query, setting.tuples[start : start + 30]))
        for block in engine.advance():
            for time, _, *rows in block[:, :5].tolist():
                assert all(time - times[stream, row] < 60 for stream, row in enumerate(rows))
        (state,) = engine.workspace.states
        stride, count = int(state[tables.N_STRIDE]), int(state[tables.N_COUNT])
        held = engine.workspace.region(int(state[tables.N_REGION]), count, stride)
        alive = held[held[:, tables.ENTRY_EXPIRY] > engine.watermark]
        parts = [engine.windows.words_of(s, alive[:, tables.COMPONENTS + s], tables.T) for s in (0, 1)]
        assert (alive[:, tables.ENTRY_EXPIRY] == np.minimum(*parts) + 60).all()
        entries += len(alive)
    assert entries > 0
    assert accounts_of(engine).spent.refused.any()


def test_readers_weigh_what_they_weighed_when_accounts_begin_anew() -> None:
    """As they do with every batch on Spark."""
    accounts = Accounts(made := Accounts.new_tables(PAIR), compile_programs(parse_plan("A B", "AB"), JoinGraph(2)))
    accounts.weigh([3.0, 1.5])
    accounts.begin(PAIR, 7)
    assert made.weights[:3].tolist() == [2.0, 1.0, 1.0]
    assert made.tally[kernel.A_WEIGHED]
    accounts.weigh([4.0, 4.0])
    assert not made.tally[kernel.A_WEIGHED]


def test_who_looks_at_parts_of_windows_keeps_no_states() -> None:
    setting = skewed_setting()
    engine = JoinEngine(setting.query, parse_plan("(a b) c", "abc").keeping_all(), policies=Policies(budget=Budget()))
    with pytest.raises(PlanError, match="leave no gaps in states"):
        accounts_of(engine).follow(Division(1.0, 1.0, everything(3), ways=WAYS[0]))


def test_only_the_programs_of_a_plan_can_be_paid_for() -> None:
    from thalweg.engine.migration.joiner import open_joiner

    setting = random_setting(random.Random(1))
    plan = random_plan(random.Random(1), len(setting.query.streams))
    with pytest.raises(PlanError, match="a budget does not go with migration cacq"):
        open_joiner(setting.query, plan, policies=Policies("cacq", budget=Budget.of(10)))


def test_what_is_one_part_is_looked_at_as_a_whole() -> None:
    """Whatever a division says of parts: a window that time does not end has none, and a probe of it costs one."""
    refs = tuple(StreamRef(name, name, pa.schema([]), "t", RangeWindow(None), None) for name in "ab")
    wide = Query("wide", "", "join", Output.ISTREAM, refs, (), (AttributeClass(dict.fromkeys(range(2)), pa.int64()),))
    engine = JoinEngine(wide, parse_plan("a b", "ab"), policies=Policies(budget=Budget()))
    accounts_of(engine).follow(Division(1.0, 1.0, everything(2), ways=(Way(1.0, (((3, 4),), ((),))),)))
    accounts = engine.machine.accounts
    assert accounts is not None
    assert accounts.parts[0, 0].tolist() == [1] * SEGMENTS
    assert accounts.costs[0, 0, 0] == kernel.ONE
    assert accounts.parts[1, 0].tolist() == [0] * SEGMENTS  # a way that looks at nothing
