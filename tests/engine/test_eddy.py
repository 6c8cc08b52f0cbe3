"""Eddies against brute force, and what they promise: CACQ keeps nothing, STAIRs what the plan says, and all learn."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.test_join import make_curious, naive, random_setting, run, run_out_of_order
from thalweg.cql.query import AttributeClass, Output, Query, RangeWindow, StreamRef
from thalweg.engine.join.engine import JoinEngine
from thalweg.engine.kernels import eddy as kernels
from thalweg.errors import PlanError
from thalweg.plan.tree import LinearPlan, TreePlan, parse_plan
from thalweg.policies import EDDIES, Policies
from thalweg.settings import Migration


@pytest.mark.parametrize("policy", EDDIES)
@pytest.mark.parametrize("small", [False, True], ids=["roomy", "tight"])
@settings(max_examples=300, deadline=None, print_blob=True)
@given(seed=st.integers(0, 2**32))
def test_any_plan_and_any_changes_give_the_naive_answer(policy: Migration, small: bool, seed: int) -> None:
    """``tight``: every store starts too small, and the eddy judges its modules after every few tuples."""
    rng = random.Random(seed)
    setting = random_setting(rng)
    with pytest.MonkeyPatch.context() as patch:
        if small:
            patch.setattr("thalweg.engine.machine.workspace.FIRST_CAPACITY", 2)
            patch.setattr("thalweg.engine.states.kept_states._SPARE_SLOTS", 1)
            make_curious(patch, rng)
            patch.setattr("thalweg.engine.machine.machine._OUTPUT_BLOCK", rng.choice([1, 3, 50]))
            patch.setattr("thalweg.engine.machine.eddy._PATIENCE", rng.choice([1, 5]))
            patch.setattr("thalweg.engine.machine.eddy._ENOUGH", 1)
            patch.setattr("thalweg.engine.machine.eddy._ADVENTURE", rng.choice([1, 4]))
        answer, _ = run(setting, rng, policy)
    assert answer == naive(setting)


@pytest.mark.parametrize("policy", EDDIES)
@settings(max_examples=150, deadline=None, print_blob=True)
@given(seed=st.integers(0, 2**32))
def test_arrival_order_does_not_matter_within_the_watermark(policy: Migration, seed: int) -> None:
    run_out_of_order(random.Random(seed), policy)


def keyed(streams: int, width: int = 1000) -> Query:
    """All streams joined on one key."""
    refs = tuple(
        StreamRef(f"s{s}", "abcdefgh"[s], pa.schema([]), "t", RangeWindow(width), width) for s in range(streams)
    )
    attribute = AttributeClass(dict.fromkeys(range(streams)), pa.int64())  # type: ignore[arg-type]
    return Query("q", "", "join", Output.ISTREAM, refs, (), (attribute,))


def a_plan(text: str, *, keep: bool = True) -> TreePlan:
    plan = parse_plan(text, "abcdefgh"[: len(text.replace("(", "").replace(")", "").split())])
    assert isinstance(plan, TreePlan)
    return plan.keeping_all() if keep else plan


def feed(engine: JoinEngine, tuples: list[tuple[int, int, int]], row: int = 0) -> int:
    """Tuples (stream, time, key) in time order; the number of results."""
    batches = []
    for stream, layout in enumerate(engine.layouts):
        partition = () if layout.partition is None else (0,)
        mine = [(time, row + i, key, *partition, 1) for i, (s, time, key) in enumerate(tuples) if s == stream]
        batches.append(np.array(mine, np.int64).reshape(-1, layout.offered))
    engine.offer(batches)
    return sum(len(block) for block in engine.advance())


def uniform(streams: int, count: int, keys: int, seed: int = 5) -> list[tuple[int, int, int]]:
    rng = random.Random(seed)
    return [(rng.randrange(streams), time, rng.randrange(keys)) for time in range(count)]


def test_cacq_stores_no_intermediate_result_whatever_the_plan_keeps() -> None:
    engine = JoinEngine(keyed(4), a_plan("((a b) c) d"), policies=Policies("cacq"))
    assert feed(engine, uniform(4, 800, 40)) > 0
    engine.transition(a_plan("(a d) (b c)"))
    feed(engine, [(s, 800 + t, k) for s, t, k in uniform(4, 800, 40)])
    assert engine.work.stored == engine.work.completions == 0
    assert [len(size.node) for size in engine.sizes()] == [1] * 4
    assert isinstance(engine.plan, TreePlan)
    assert not engine.plan.kept


def test_stairs_do_what_the_pipeline_does_where_the_plan_leaves_no_choice() -> None:
    tuples = uniform(4, 2000, 60)
    engines = [
        JoinEngine(keyed(4), a_plan("((a b) c) d"), policies=Policies("stairs_jisc")),
        JoinEngine(keyed(4), a_plan("((a b) c) d")),
    ]
    assert feed(engines[0], tuples) == feed(engines[1], tuples)
    assert engines[0].work == engines[1].work
    assert engines[0].sizes() == engines[1].sizes()
    for engine in engines:
        engine.transition(a_plan("((b c) a) d"))
    later = [(s, 2000 + t, k) for s, t, k in tuples]
    assert feed(engines[0], later) == feed(engines[1], later)
    assert engines[0].work == engines[1].work
    assert engines[0].work.completions > 0


def test_stairs_with_jisc_promote_a_key_when_it_is_probed() -> None:
    engine = JoinEngine(keyed(3), a_plan("(a b) c"), policies=Policies("stairs_jisc"))
    feed(engine, [(stream, stream, key) for stream in range(3) for key in range(100)])
    engine.transition(a_plan("(b c) a"))
    state = engine.sizes()[-1]
    assert (state.node, state.tuples, state.live_keys) == (frozenset({1, 2}), 0, 0)
    assert feed(engine, [(0, 7, 7)], row=300) == 1
    state = engine.sizes()[-1]
    assert (state.tuples, state.live_keys, engine.work.completions) == (1, 1, 1)


def test_the_plan_is_what_an_eddy_begins_with() -> None:
    """One tuple of each partner, and a window that has none: the probes tell which was asked first."""
    for order, probes in (((3, 1, 2), 1), ((1, 3, 2), 2), ((1, 2, 3), 3)):
        plan = LinearPlan((order, (0, 2, 3), (0, 1, 3), (0, 1, 2)))
        engine = JoinEngine(keyed(4), plan, policies=Policies("cacq"))
        feed(engine, [(1, 1, 7), (2, 2, 7)])
        before = engine.work.probes
        feed(engine, [(0, 3, 7)], row=5)
        assert engine.work.probes - before == probes


def selective(count: int, seed: int = 3) -> list[tuple[int, int, int]]:
    """Three streams with many partners for every key, and one (d) with hardly any."""
    rng = random.Random(seed)
    return [(s, t, rng.randrange(20) if s < 3 else 1000) for t in range(count) for s in [rng.randrange(4)]]


def test_an_eddy_learns_which_module_to_ask_first(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = LinearPlan(tuple(tuple(s for s in range(4) if s != head) for head in range(4)))
    eddy = JoinEngine(keyed(4, 500), plan, policies=Policies("cacq"))
    monkeypatch.setattr("thalweg.engine.machine.eddy._PATIENCE", 10**9)
    stubborn = JoinEngine(keyed(4, 500), plan, policies=Policies("cacq"))
    tuples = selective(20_000)
    assert feed(stubborn, tuples) == feed(eddy, tuples) == 0
    assert eddy.work.candidates < stubborn.work.candidates / 5


def test_an_eddy_notices_what_has_changed() -> None:
    plan = LinearPlan(tuple(tuple(s for s in range(4) if s != head) for head in range(4)))
    eddy = JoinEngine(keyed(4, 500), plan, policies=Policies("cacq"))
    feed(eddy, selective(20_000))
    learnt = eddy.work.candidates
    # Now c is the one without partners, and d has many.
    swapped = [({2: 3, 3: 2}.get(s, s), 20_000 + t, k) for s, t, k in selective(40_000)]
    feed(eddy, swapped[:20_000], row=20_000)
    changed = eddy.work.candidates
    feed(eddy, swapped[20_000:], row=40_000)
    assert eddy.work.candidates - changed < 2 * learnt


def test_runs_repeat() -> None:
    setting = random_setting(random.Random(11))
    works = {run(setting, random.Random(7), "cacq")[1].work for _ in range(2)}
    assert len(works) == 1


def test_more_streams_than_bits_are_refused() -> None:
    query = keyed(2)
    wide = replace(query, classes=query.classes * (kernels.BITS + 1))
    with pytest.raises(PlanError, match="query 'q' has 63 different join keys; an eddy routes at most 62"):
        JoinEngine(wide, a_plan("a b"), policies=Policies("cacq"))
