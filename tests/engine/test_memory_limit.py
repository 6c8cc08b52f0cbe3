"""A memory limit: cold keys become absent, the answer stays what it is."""

from __future__ import annotations

import mmap
import random
import sys
from pathlib import Path

import pytest

from tests.engine.rstu import Feeder, pipeline, rstu, some_events
from thalweg.engine.join.engine import JoinEngine
from thalweg.engine.kernels.tables import INCOMPLETE, N_COMPLETE
from thalweg.engine.storage.memory import HeapArena, MappedArena, Memory
from thalweg.policies import Policies

PLANS = ["((R S) T) U", "((S T) R) U", "(R U) (S T)"]


def sizes(feeder: Feeder) -> tuple[int, int]:
    """Bytes of windows and of states."""
    stores = feeder.joiner.sizes()
    windows = sum(size.bytes for size in stores if len(size.node) == 1)
    return windows, sum(size.bytes for size in stores) - windows


def test_states_stay_within_the_limit_and_the_answer_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("thalweg.engine.machine.workspace.FIRST_CAPACITY", 16)
    query = rstu(width=400)
    free = Feeder(query, JoinEngine(query, pipeline(PLANS[0])))
    limit = 100_000
    bound = Feeder(query, JoinEngine(query, pipeline(PLANS[0]), policies=Policies(memory_limit=limit)))
    rng = random.Random(1)
    most = 0
    for part in range(40):
        events = some_events(rng, 100, 40, start=100 * part)
        for feeder in (free, bound):
            feeder.feed(events)
            if part % 10 == 9:
                feeder.joiner.transition(pipeline(PLANS[part // 10 % 3]))
        most = max(most, sum(sizes(free)))
        assert sum(sizes(bound)) <= limit
    assert bound.results == free.results
    assert most > 2 * limit, "the limit bound nothing"
    assert bound.joiner.work.completions > free.joiner.work.completions


def test_keys_that_are_asked_for_stay_live(monkeypatch: pytest.MonkeyPatch) -> None:
    """R asks for few keys of ST, over and over: these are not the ones that are made absent."""
    monkeypatch.setattr("thalweg.engine.machine.workspace.FIRST_CAPACITY", 16)
    query = rstu(width=5000, names="RST")
    engine = JoinEngine(query, pipeline("(S T) R", "RST"), policies=Policies(memory_limit=1))
    feeder = Feeder(query, engine)
    rng = random.Random(2)
    for t in range(0, 3000, 3):
        key = rng.randrange(1000)
        feeder.feed([("S", t, key), ("T", t + 1, key), ("R", t + 2, t % 2)])
    assert engine.work.completions < 400  # of 1,000 probes for two keys


def test_without_memory_for_any_state_the_answer_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("thalweg.engine.machine.workspace.FIRST_CAPACITY", 2)
    query = rstu(width=100)
    feeders = [
        Feeder(query, JoinEngine(query, pipeline(PLANS[2]), policies=Policies(memory_limit=limit)))
        for limit in (None, 1)
    ]
    events = some_events(random.Random(3), 1000, 10)
    for feeder in feeders:
        feeder.feed(events)
    assert feeders[0].results == feeders[1].results


def test_a_renewed_window_of_many_keys_is_completed_without_room_for_them() -> None:
    """Completing many keys at once evicts others, time and again; it must come to an end."""
    query = rstu(width=10, names="RST")
    engine = JoinEngine(query, pipeline("(S T) R", "RST"), policies=Policies(memory_limit=1))
    feeder = Feeder(query, engine)
    feeder.feed([("R", 0, key) for key in range(100)] + [("S", 1, key) for key in range(100)] + [("T", 2, 7)])
    engine.transition(pipeline("(R S) T", "RST"))
    feeder.feed([("T", 3, 7)])
    many, crowded = 3000, 100
    feeder.feed([("R", 100, 1000 + key) for key in range(many)])
    feeder.feed([("S", 101, 1000 + crowded)] * 2000 + [("S", 101, 10_000 + key) for key in range(2000)])
    feeder.feed([("T", 102, 1000 + crowded)])
    free = Feeder(query, JoinEngine(query, pipeline("(R S) T", "RST")))
    free.feed([("R", 100, 1000 + crowded)] + [("S", 101, 1000 + crowded)] * 2000 + [("T", 102, 1000 + crowded)])
    assert sum(free.results.values()) == 2000
    assert sum(feeder.results.values()) == 2 + 2000


def test_a_key_that_is_being_completed_when_memory_runs_out_is_stored_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """By then its state has entries of tuples that came after the change, and stores no others from then on."""
    monkeypatch.setattr("thalweg.engine.machine.workspace.FIRST_CAPACITY", 16)
    query = rstu(width=1000)
    evicted = 0
    for limit in range(6_000, 150_000, 4_000):
        engine = JoinEngine(query, pipeline("((R S) T) U"), policies=Policies(memory_limit=limit))
        feeder = Feeder(query, engine)
        feeder.feed([(stream, i, 7) for i in range(12) for stream in "ST"] + [("U", 12, 7)])
        feeder.joiner.transition(pipeline("((S T) R) U"))
        feeder.feed([("T", 13 + i, 7) for i in range(3)])
        feeder.feed([("R", 20, 7), ("R", 21, 7)])
        assert sum(feeder.results.values()) == len(feeder.results) == 2 * 12 * 15, limit
        evicted += bool((engine.workspace.states[:, N_COMPLETE] == INCOMPLETE).any())
    assert 0 < evicted < 36


@pytest.mark.parametrize("mapped", [False, True], ids=["heap", "mapped"])
def test_the_pages_of_what_was_left_are_given_back_and_no_others(mapped: bool, tmp_path: Path) -> None:
    memory = Memory()
    memory.is_frugal = True
    if mapped:
        memory.keep_in(tmp_path)
    size = max(HeapArena.least_returned, MappedArena.least_returned) + 8  # no whole pages: neighbours share some
    page = mmap.PAGESIZE // 8
    before, left, after = (memory.allocate(size, fill) for fill in (1, 2, 3))
    for start, fill in ((before, 1), (left, 2), (after, 3)):
        memory.words[start : start + size] = fill
    memory.free(left, size)
    assert memory.reserved == 2 * size
    assert (memory.words[before : before + size] == 1).all()
    assert (memory.words[after : after + size] == 3).all()
    if sys.platform == "linux" and not mapped:  # not every file system takes pages back
        assert (memory.words[left + page : left + size - page] == 0).all()
    assert memory.allocate(size, 7) == left
    assert (memory.words[left : left + size] == 7).all()
    assert memory.reserved == 3 * size
