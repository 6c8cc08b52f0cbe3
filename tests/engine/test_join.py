"""The join engine against brute force, below the level of queries: words in, row numbers out."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import get_args

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.deciding import decide_often, decider_of
from thalweg.cql.query import (
    AttributeClass,
    Operand,
    Output,
    Query,
    RangeWindow,
    RowsWindow,
    StreamRef,
    Theta,
)
from thalweg.engine.join.engine import JoinEngine
from thalweg.engine.migration.joiner import Joiner, open_joiner
from thalweg.engine.migration.parallel_track import ParallelTrack
from thalweg.engine.migration.printed_parallel_track import PrintedParallelTrack
from thalweg.engine.rows.encoding import mix
from thalweg.engine.rows.layout import layouts
from thalweg.engine.states.completion import Completion
from thalweg.engine.storage.memory import Memory
from thalweg.plan.tree import Join, Leaf, LinearPlan, Plan, Tree, TreePlan, state_nodes
from thalweg.policies import Policies
from thalweg.settings import Feedback, Migration, Production

OPERATORS = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "<>": lambda a, b: a != b,
}


MIGRATIONS: tuple[Migration, ...] = ("jisc", *get_args(Migration))
"""The policies under which the answer stays what it is."""


@dataclass
class Tuple:
    stream: int
    time: int
    row: int
    keys: dict[int, int]
    numbers: dict[tuple[int, int], int]
    partition: int
    joins: bool


@dataclass
class Setting:
    query: Query
    tuples: list[Tuple]  # in total order


def random_tree(rng: random.Random, streams: list[int]) -> Tree:
    if len(streams) == 1:
        return Leaf(streams[0])
    shuffled = rng.sample(streams, len(streams))
    cut = rng.randint(1, len(streams) - 1)
    return Join(random_tree(rng, shuffled[:cut]), random_tree(rng, shuffled[cut:]))


def random_plan(rng: random.Random, n: int) -> Plan:
    if rng.random() < 0.2:
        return LinearPlan(tuple(tuple(rng.sample([s for s in range(n) if s != h], n - 1)) for h in range(n)))
    tree = random_tree(rng, list(range(n)))
    kept = rng.choice(["all", "none", "some"])
    nodes = state_nodes(tree)
    if kept != "all":
        nodes = tuple(node for node in nodes if kept == "some" and rng.random() < 0.5)
    return TreePlan(tree, frozenset(nodes))


def random_setting(rng: random.Random) -> Setting:
    n = rng.choice([1, 2, 3, 3, 4, 4, 5])
    classes = []
    for _ in range(rng.choice([0, 1, 1, 1, 2, 3]) if n > 1 else 0):
        members = rng.sample(range(n), rng.randint(2, n))
        classes.append(AttributeClass(dict.fromkeys(members), pa.int64()))
    thetas = []
    for _ in range(rng.choice([0, 0, 0, 1, 2]) if n > 1 else 0):
        left, right = rng.sample(range(n), 2)
        offset = rng.choice([None, rng.randint(-3, 3)])
        absolute = offset is not None and rng.random() < 0.5
        thetas.append(
            Theta(Operand(left, None), rng.choice(list(OPERATORS)), Operand(right, None), pa.int64(), offset, absolute)
        )
    refs = []
    rows_allowed = rng.random() < 0.4
    for s in range(n):
        if rows_allowed and rng.random() < 0.6:
            refs.append(StreamRef(f"s{s}", f"s{s}", pa.schema([]), "t", RowsWindow(rng.randint(1, 4)), None))
        else:
            width = rng.choice([1, 3, 10, 40, None])
            refs.append(StreamRef(f"s{s}", f"s{s}", pa.schema([]), "t", RangeWindow(width), width))
    query = Query("q", "", "join", Output.ISTREAM, tuple(refs), (), tuple(classes), tuple(thetas))
    count = rng.choice([5, 20, 40, 60]) if n < 5 else rng.choice([5, 20, 30])
    domain = rng.choice([1, 2, 5, 20])
    span = rng.choice([1, 20, 100])
    events = []
    for _ in range(count):
        s = rng.randrange(n)
        events.append(
            Tuple(
                stream=s,
                time=rng.randrange(span),
                row=0,
                keys={c: rng.randrange(domain) for c, cls in enumerate(classes) if s in cls.members},
                numbers={
                    (i, side): rng.randrange(6)
                    for i, t in enumerate(thetas)
                    for side, operand in enumerate((t.left, t.right))
                    if operand.stream == s
                },
                partition=rng.randrange(rng.choice([1, 3])),
                joins=rng.random() < 0.95,
            )
        )
    events.sort(key=lambda e: (e.time, e.stream))
    seen: Counter[int] = Counter()
    for event in events:
        event.row = seen[event.stream]
        seen[event.stream] += 1
    return Setting(query, events)


def naive(setting: Setting) -> Counter[tuple[int, ...]]:
    """Every combination of one tuple per stream that is alive at the arrival of its newest."""
    query = setting.query
    n = len(query.streams)
    by_stream: list[list[tuple[int, Tuple]]] = [[] for _ in range(n)]
    for position, event in enumerate(setting.tuples):
        by_stream[event.stream].append((position, event))
    death: dict[int, int] = {}
    for s, ref in enumerate(query.streams):
        if isinstance(ref.window, RowsWindow):
            for i, (position, event) in enumerate(by_stream[s]):
                newer = [p for p, other in by_stream[s][i + 1 :] if other.partition == event.partition]
                if len(newer) >= ref.window.rows:
                    death[position] = newer[ref.window.rows - 1]
    answer: Counter[tuple[int, ...]] = Counter()
    for combination in itertools.product(*by_stream):
        events = [event for _, event in combination]
        newest_time = max(e.time for e in events)
        newest_position = max(position for position, _ in combination)
        expiry = [
            e.time + ref.window.width_us
            for e, ref in zip(events, query.streams, strict=True)
            if isinstance(ref.window, RangeWindow) and ref.window.width_us is not None
        ]
        if (
            all(e.joins for e in events)
            and all(newest_time < x for x in expiry)
            and all(newest_position < death.get(position, 10**9) for position, _ in combination)
            and all(len({events[s].keys[c] for s in cls.members}) == 1 for c, cls in enumerate(query.classes))
            and all(_theta(t, i, events) for i, t in enumerate(query.thetas))
        ):
            answer[tuple(e.row for e in events)] += 1
    return answer


def _theta(theta: Theta, index: int, events: list[Tuple]) -> bool:
    left = events[theta.left.stream].numbers[index, 0]
    right = events[theta.right.stream].numbers[index, 1]
    if theta.offset is None:
        return OPERATORS[theta.op](left, right)
    difference = abs(left - right) if theta.absolute else left - right
    return OPERATORS[theta.op](difference, theta.offset)


def words(query: Query, events: list[Tuple]) -> list[np.ndarray]:
    matrices = []
    for s, layout in enumerate(layouts(query)):
        mine = [e for e in events if e.stream == s]
        matrix = np.zeros((len(mine), layout.offered), np.int64)
        for row, event in zip(matrix, mine, strict=True):
            row[:2] = event.time, event.row
            row[layout.offered_mask] = event.joins
            for c, field in layout.codes.items():
                row[field] = mix(np.array([event.keys[c]]))[0]
            for operand, field in layout.operands.items():
                row[field] = event.numbers[operand]
            if layout.partition is not None:
                row[layout.partition] = event.partition
        matrices.append(matrix)
    return matrices


def random_production(rng: random.Random) -> Production | Feedback:
    """Half of them push; of the others, some tell apart parts of several components, some by tiny Bloom filters."""
    return rng.choice(
        [
            "push",
            "push",
            "push",
            "jit",
            "auto",
            Feedback(lattice=rng.choice([2, 3, 5])),
            Feedback(lattice=rng.choice([1, 2]), filter_bits=rng.choice([1, 2, 64, 1024])),
        ]
    )


def poison_what_is_freed(patch: pytest.MonkeyPatch) -> None:
    """Whoever reads a region that was given up finds nonsense."""
    free = Memory.free

    def freed(memory: Memory, start: int, size: int) -> None:
        memory.words[start : start + size] = 0x5A5A5A5A
        free(memory, start, size)

    patch.setattr(Memory, "free", freed)


def make_curious(patch: pytest.MonkeyPatch, rng: random.Random) -> None:
    """Let the engine look often whether states have become complete, or between any two stretches."""
    patch.setattr("thalweg.engine.states.completion._PAUSE", 3)
    if rng.random() < 0.5:
        patch.setattr(Completion, "_wait_a_turn", lambda _: None)
        patch.setattr(Completion, "_wait_half_a_turn", lambda _: None)


def make_eager(patch: pytest.MonkeyPatch, rng: random.Random) -> None:
    """Let ``auto`` change its mind all the time, and what is remembered have room for a few values only."""
    patch.setattr("thalweg.engine.feedback.memory._FIRST_SLOTS", rng.choice([2, 8]))
    decide_often(patch, rng.choice([1, 3, 10]), rng.choice([0.0, 1.0, 100.0]), rng.choice([0.5, 1.0, 100.0]))


def run(
    setting: Setting,
    rng: random.Random,
    migration: Migration = "jisc",
    memory_limit: int | None = None,
    production: Production | Feedback = "push",
) -> tuple[Counter[tuple[int, ...]], Joiner]:
    """Batches cut anywhere, the plan changed anywhere, partners looked up or compared one after the other."""
    n = len(setting.query.streams)
    plan = random_plan(rng, n)
    engine: Joiner
    if (migration == "jisc" or migration == "moving_state") and rng.random() < 0.25:
        engine = JoinEngine(
            setting.query,
            plan,
            policies=Policies(migration=migration, memory_limit=memory_limit, nested_loops=True, production=production),
        )
    else:
        engine = open_joiner(setting.query, plan, policies=Policies(migration, production, memory_limit))
    decider = decider_of(setting.query)
    answer: Counter[tuple[int, ...]] = Counter()
    position = 0
    changes = rng.choice([0.0, 0.1, 0.6])
    while position < len(setting.tuples):
        end = min(len(setting.tuples), position + rng.randint(1, 20))
        engine.offer(words(setting.query, setting.tuples[position:end]))
        while position < end:
            step = rng.randint(1, end - position)
            for block in decider.advance(engine, step):
                answer.update(tuple(int(x) for x in row[2:]) for row in block)
                assert (np.diff(block[:, 0]) >= 0).all()
            position += step
            while rng.random() < changes:
                engine.transition(random_plan(rng, n))
                decider.plan_changed(engine.gated)
            if rng.random() < 0.1:
                engine.take_deaths()
                engine.sizes()
    return answer, engine


@pytest.mark.parametrize("small", [False, True], ids=["roomy", "tight"])
@settings(max_examples=400, deadline=None, print_blob=True)
@given(seed=st.integers(0, 2**32))
def test_any_plan_and_any_changes_give_the_naive_answer(small: bool, seed: int) -> None:
    """``tight``: stores start with room for two, and the output for one, so that all of them run full.

    And what is otherwise done from time to time is done all the time.
    """
    rng = random.Random(seed)
    setting = random_setting(rng)
    with pytest.MonkeyPatch.context() as patch:
        if small:
            patch.setattr("thalweg.engine.machine.workspace.FIRST_CAPACITY", 2)
            patch.setattr("thalweg.engine.states.kept_states._SPARE_SLOTS", 1)
            make_curious(patch, rng)
            poison_what_is_freed(patch)
            patch.setattr("thalweg.engine.machine.machine._OUTPUT_BLOCK", rng.choice([1, 3, 50]))
            patch.setattr("thalweg.engine.join.engine._STRETCH", rng.choice([1, 3, 10]))
            patch.setattr("thalweg.engine.states.completion._FEW_KEYS", rng.choice([0, 1, 16]))
            make_eager(patch, rng)
            patch.setattr("thalweg.engine.migration.printed_parallel_track._FIRST_SLOTS", 2)
            patch.setattr(ParallelTrack, "_stretch", rng.choice([1, 5]))
            patch.setattr(PrintedParallelTrack, "_stretch", rng.choice([1, 5]))
        migration = rng.choice(MIGRATIONS)
        limit = rng.choice([None, 1, 2000]) if migration == "jisc" else None
        answer, _ = run(setting, rng, migration, limit, random_production(rng))
    assert answer == naive(setting)


def run_out_of_order(
    rng: random.Random, migration: Migration, random_setting: Callable[[random.Random], Setting] = random_setting
) -> None:
    setting = random_setting(rng)
    while any(isinstance(ref.window, RowsWindow) for ref in setting.query.streams):
        setting = random_setting(rng)
    lateness = rng.choice([0, 5, 200])
    arriving = sorted(setting.tuples, key=lambda e: e.time + rng.uniform(0, lateness))
    plan = random_plan(rng, len(setting.query.streams))
    engine = open_joiner(setting.query, plan, policies=Policies(migration, random_production(rng)))
    decider = decider_of(setting.query)
    answer: Counter[tuple[int, ...]] = Counter()
    position = 0
    while position < len(arriving):
        end = min(len(arriving), position + rng.randint(1, 15))
        watermark = min((e.time for e in arriving[end:]), default=2**62) - rng.choice([0, 0, 3])
        batch = sorted(arriving[position:end], key=lambda e: e.time)
        engine.offer(words(setting.query, batch), watermark)
        for block in decider.advance(engine):
            answer.update(tuple(int(x) for x in row[2:]) for row in block)
        position = end
        if rng.random() < 0.2:
            engine.transition(random_plan(rng, len(setting.query.streams)))
            decider.plan_changed(engine.gated)
    assert answer == naive(setting)


@settings(max_examples=200, deadline=None, print_blob=True)
@given(seed=st.integers(0, 2**32))
def test_arrival_order_does_not_matter_within_the_watermark(seed: int) -> None:
    rng = random.Random(seed)
    run_out_of_order(rng, rng.choice(MIGRATIONS))
