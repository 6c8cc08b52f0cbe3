"""States without a key, which only nested loops could complete: they gather what comes until nothing is missing."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from thalweg.cql import Source, bind
from thalweg.cql.query import Query
from thalweg.engine.join.engine import JoinEngine
from thalweg.engine.kernels.tables import PROBE, S_RENUMBERED, X_IS_STATE, X_OP
from thalweg.engine.outputs.results import engine_columns
from thalweg.engine.rows.encoding import encoders
from thalweg.engine.rows.expressions import Expressions, physical_names
from thalweg.plan.tree import TreePlan, parse_plan
from thalweg.policies import Policies

SCHEMA = pa.schema({"ts": pa.int64(), "x": pa.int64(), "k": pa.int64()})
NAMES = "RSTU"
WIDTH = 100
PLANS = ["((R S) T) U", "((R U) S) T", "(R T) (S U)", "((T U) S) R"]

Event = tuple[int, int, int, int]
"""Stream, time, x and k."""


def compared(where: str, window: str = f"RANGE {WIDTH} MICROSECONDS") -> Query:
    text = f"SELECT R.ts FROM {', '.join(f'{name} [{window}]' for name in NAMES)} WHERE {where}"  # noqa: S608
    return bind(text, {name: Source(SCHEMA, "ts") for name in NAMES})[0]


LOOPS = compared("R.x < S.x AND S.x < T.x AND T.x < U.x")
KEYED_BELOW = compared("R.k = S.k AND S.x < T.x AND T.x < U.x")
ROWS = compared("R.x < S.x AND S.x < T.x AND T.x < U.x", "ROWS 20")


def pipeline(text: str) -> TreePlan:
    plan = parse_plan(text, NAMES)
    assert isinstance(plan, TreePlan)
    return plan.keeping_all()


def some_events(rng: random.Random, count: int, start: int = 0) -> list[Event]:
    return [(rng.randrange(4), start + i, rng.randrange(12), rng.randrange(3)) for i in range(count)]


class Feeder:
    """Gives events to an engine in total order and collects its results."""

    def __init__(self, query: Query, plan: str, memory_limit: int | None = None) -> None:
        self.engine = JoinEngine(query, pipeline(plan), policies=Policies(memory_limit=memory_limit))
        self.results: Counter[tuple[int, ...]] = Counter()
        self._encode = encoders(query, Expressions(physical_names(query) | engine_columns(query)))
        self._rows = [0] * 4

    def words(self, events: list[Event]) -> list[np.ndarray]:
        found = []
        for stream, encoder in enumerate(self._encode):
            mine = [event for event in events if event[0] == stream]
            columns = [np.array([event[field] for event in mine], np.int64) for field in (1, 2, 3)]
            rows = np.arange(self._rows[stream], self._rows[stream] + len(mine))
            self._rows[stream] += len(mine)
            found.append(encoder.encode(pa.table(columns, schema=SCHEMA), columns[0], rows))
        return found

    def feed(self, events: list[Event], watermark: int | None = None) -> None:
        self.engine.offer(self.words(events), watermark)
        for block in self.engine.advance():
            self.results.update(tuple(map(int, row[2:])) for row in block)

    def live(self) -> dict[str, int | None]:
        return {
            "".join(NAMES[s] for s in sorted(size.node)): size.live_keys
            for size in self.engine.sizes()
            if len(size.node) > 1
        }


@pytest.mark.parametrize("new", PLANS[1:])
def test_a_change_completes_nothing_and_loses_nothing(new: str) -> None:
    rng = random.Random(1)
    moved, still = Feeder(LOOPS, PLANS[0]), Feeder(LOOPS, PLANS[0])
    for feeder in (moved, still):
        feeder.feed(some_events(random.Random(1), 150))
    moved.engine.transition(pipeline(new))
    assert set(moved.live().values()) == {0}
    before = moved.engine.work
    for part in range(3, 12):
        events = some_events(rng, 50, 50 * part)
        for feeder in (moved, still):
            feeder.feed(events)
    assert moved.results == still.results
    assert moved.engine.work.completions == before.completions
    assert moved.engine.work.states_completed == before.states_completed + 2
    assert set(moved.live().values()) == {None}


def test_a_state_that_gathers_is_probed_when_the_last_old_tuple_has_left() -> None:
    feeder = Feeder(LOOPS, PLANS[0])
    feeder.feed(some_events(random.Random(2), 150))
    feeder.engine.transition(pipeline(PLANS[1]))
    passing_over = feeder.engine.workspace.assembly
    feeder.feed([(0, 240, 1, 0)])  # what came at 149 lives until 248
    assert set(feeder.live().values()) == {0}
    assert feeder.engine.workspace.assembly is passing_over
    feeder.feed([(0, 290, 1, 0)])  # half a window after the last look
    assert set(feeder.live().values()) == {None}
    assert not passing_over.steps[passing_over.steps[:, X_OP] == PROBE, X_IS_STATE].any()
    probing = feeder.engine.workspace.assembly.steps
    assert probing[probing[:, X_OP] == PROBE, X_IS_STATE].any()


def test_what_a_lookup_can_compute_is_completed_when_it_is_asked_for() -> None:
    """R and S meet by a key: to compute all of RS costs a lookup per tuple, to do without it one in every probe."""
    feeder = Feeder(KEYED_BELOW, PLANS[3])
    feeder.feed(some_events(random.Random(3), 150))
    feeder.engine.transition(pipeline(PLANS[0]))
    assert feeder.live() == {"RS": 0, "RST": 0}
    feeder.feed([(2, 151, 11, 0)])
    assert feeder.engine.work.completions == 1


def test_a_state_in_which_time_ends_nothing_is_completed_when_it_is_asked_for() -> None:
    moved, still = Feeder(ROWS, PLANS[0]), Feeder(ROWS, PLANS[0])
    for feeder in (moved, still):
        feeder.feed(some_events(random.Random(4), 150))
    moved.engine.transition(pipeline(PLANS[1]))
    events = some_events(random.Random(5), 200, 150)
    for feeder in (moved, still):
        feeder.feed(events)
    assert moved.results == still.results
    assert moved.engine.work.completions > 0


@pytest.mark.parametrize("limit", [None, 1])
@pytest.mark.parametrize("query", [LOOPS, KEYED_BELOW], ids=["loops", "a key below"])
def test_overlapping_changes_and_tuples_out_of_order(
    query: Query, limit: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("thalweg.engine.machine.workspace.FIRST_CAPACITY", 16)
    for seed in range(8):
        rng = random.Random(seed)
        moved, still = Feeder(query, PLANS[0], limit), Feeder(query, PLANS[0])
        for part in range(12):
            events = [(s, t + rng.randrange(40), x, k) for s, t, x, k in some_events(rng, 40, 40 * part)]
            events.sort(key=lambda event: (event[1], event[0]))
            for feeder in (moved, still):
                feeder.feed(events, 40 * part + 40)
            if rng.random() < 0.5:
                moved.engine.transition(pipeline(rng.choice(PLANS)))
        assert moved.results == still.results, seed


def test_states_that_memory_kept_from_gathering_are_probed_all_the_same() -> None:
    feeder = Feeder(LOOPS, PLANS[0], memory_limit=1)
    feeder.feed(some_events(random.Random(2), 150))
    feeder.engine.transition(pipeline(PLANS[1]))
    passing_over = feeder.engine.workspace.assembly
    for start in range(150, 750, 150):
        feeder.feed(some_events(random.Random(start), 150, start))
    assert feeder.engine.workspace.assembly is not passing_over


def test_old_tuples_stay_old_when_a_partition_is_renumbered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A silent partition holds on to its tuple while others come and go; closing the gap gives it a new number."""
    monkeypatch.setattr("thalweg.engine.machine.workspace.FIRST_CAPACITY", 16)
    feeder = Feeder(compared("R.k = S.k AND S.k = T.k AND T.k = U.k", "PARTITION BY x ROWS 1"), PLANS[0])
    feeder.feed([(1, 0, 0, 7), (2, 1, 0, 7), (3, 2, 0, 7)])
    feeder.engine.transition(pipeline("((S T) R) U"))
    feeder.feed([(1 + i % 2, 10 + i, 1, i) for i in range(100)])
    assert feeder.engine.workspace.streams[1, S_RENUMBERED] > 0
    feeder.feed([(0, 200, 0, 7)])
    assert sum(feeder.results.values()) == 1


def test_after_a_restart_states_gather() -> None:
    events = some_events(random.Random(6), 400)
    whole, restarted = Feeder(LOOPS, PLANS[0]), Feeder(LOOPS, PLANS[0])
    whole.feed(events[:200])
    before = whole.results.copy()
    whole.feed(events[200:])
    restarted.engine.load(restarted.words(events[:200]), 199)
    assert set(restarted.live().values()) == {0}
    restarted.feed(events[200:])
    assert restarted.results == whole.results - before
    assert set(restarted.live().values()) == {None}
