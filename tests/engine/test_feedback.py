"""Feedback: nothing is produced that nobody needs, and nothing that somebody needs is missing (JIT)."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.test_join import (
    MIGRATIONS,
    Setting,
    Tuple,
    make_curious,
    make_eager,
    naive,
    random_production,
    run,
    run_out_of_order,
    words,
)
from thalweg.cql.query import AttributeClass, Output, Query, RangeWindow, RowsWindow, StreamRef
from thalweg.engine.join.engine import JoinEngine
from thalweg.engine.migration.joiner import open_joiner
from thalweg.plan.tree import Plan, TreePlan, parse_plan
from thalweg.policies import Policies
from thalweg.settings import Feedback, Production

MINUTE = 60_000_000


def query(classes: Sequence[Sequence[int]], width: int = 5 * MINUTE, streams: int = 3, static: int = -1) -> Query:
    """Streams A, B, C, ... of one width, joined on attribute classes with these members."""
    refs = [
        StreamRef(name, name, pa.schema([]), None, RangeWindow(None), None)
        if s == static
        else StreamRef(name, name, pa.schema([]), "t", RangeWindow(width), width)
        for s, name in enumerate("ABCDEF"[:streams])
    ]
    attributes = [AttributeClass(dict.fromkeys(members), pa.int64()) for members in classes]  # type: ignore[arg-type]
    return Query("q", "", "join", Output.ISTREAM, tuple(refs), (), tuple(attributes))


def pipeline(text: str, streams: str = "ABC") -> Plan:
    """The plan, with all states kept if it is a tree."""
    plan = parse_plan(text, streams)
    return plan.keeping_all() if isinstance(plan, TreePlan) else plan


class Feeder:
    """Gives tuples to an engine one after the other and counts its results."""

    def __init__(
        self,
        query: Query,
        plan: str,
        production: Production | Feedback = "jit",
        streams: str = "ABC",
        engine: JoinEngine | None = None,
    ) -> None:
        self.query = query
        self.engine = engine or JoinEngine(query, pipeline(plan, streams), policies=Policies(production=production))
        self.rows: Counter[int] = Counter()

    def __call__(self, stream: str, time: int, *keys: int) -> int:
        """Feed a tuple; how many results there are."""
        s = "ABCDEF".index(stream)
        classes = [c for c, attribute in enumerate(self.query.classes) if s in attribute.members]
        event = Tuple(s, time, self.rows[s], dict(zip(classes, keys, strict=True)), {}, 0, joins=True)
        self.rows[s] += 1
        self.engine.offer(words(self.query, [event]))
        return sum(len(block) for block in self.engine.advance())

    @property
    def entries(self) -> int:
        return sum(size.tuples for size in self.engine.sizes() if len(size.node) > 1)

    @property
    def candidates(self) -> int:
        return self.engine.work.candidates


FIGURE_1 = ((0, 1), (0, 2))  # A.x = B.x, A.y = C.y


def test_table_1_event_by_event() -> None:
    feed = Feeder(query(FIGURE_1), "(A B) C")
    for _ in range(3):
        assert feed("B", 0, 1) == 0
    assert feed("C", 0, 7) == 0  # so that C is not empty: another y
    work = feed.engine.work
    assert (work.suspensions, work.withheld) == (0, 0)

    assert feed("A", 1, 1, 100) == 0  # a1 b1 is found, and has no partner in C: a1 b2 and a1 b3 are not
    assert feed.engine.work.suspensions == 1
    assert feed.engine.savings.suspended == 1
    assert feed.engine.work.candidates == work.candidates + 2  # b3, and the c that says that C has some
    work = feed.engine.work

    assert feed("B", 2, 1) == 0  # b4 meets a1, and a1 b4 is withheld
    assert feed.engine.work.withheld == 1
    assert feed.engine.work.probes == work.probes + 1

    work = feed.engine.work
    assert feed("A", 3, 1, 100) == 0  # a2 is like a1: nothing is probed
    assert feed.engine.work.probes == work.probes
    assert feed.engine.work.unprobed == work.unprobed + 1
    assert feed.entries == 0

    assert feed("C", 4, 100) == 8  # {a1, a2} x {b1, ..., b4}
    assert feed.entries == 8
    assert feed("B", 5, 1) == 2  # y = 100 is in demand again
    assert feed.engine.savings.resumptions == 1
    assert feed.engine.savings.suspended == 0


def test_without_feedback_all_eight_are_produced() -> None:
    feed = Feeder(query(FIGURE_1), "(A B) C", "push")
    for event in [("B", 0, 1), ("B", 0, 1), ("B", 0, 1), ("A", 1, 1, 100), ("B", 2, 1), ("A", 3, 1, 100)]:
        assert feed(*event) == 0
    assert feed.entries == 8
    assert feed("C", 4, 100) == 8


def test_what_one_join_got_in_vain_the_joins_above_are_asked_about() -> None:
    """C has partners for a1 and for every b, not for a1 b3; D has none for a1, so that a1 b2 is not found."""
    feed = Feeder(query(((0, 1), (0, 2), (1, 2), (0, 3)), streams=4), "((A B) C) D", streams="ABCD")
    for event in [("C", 0, 1, 0), ("C", 0, 0, 1), ("D", 0, 7), ("B", 0, 1, 1), ("B", 0, 1, 1), ("B", 0, 1, 1)]:
        assert feed(*event) == 0
    work = feed.engine.work
    assert feed("A", 1, 1, 1, 100) == 0
    assert feed.engine.work.suspensions == work.suspensions + 1
    assert feed.engine.savings.suspended == work.suspensions + 1
    work = feed.engine.work
    assert feed("A", 2, 1, 1, 100) == 0  # like it: nothing is probed
    assert feed.engine.work.probes == work.probes
    assert feed("C", 3, 1, 1) == 0
    assert feed("D", 4, 100) == 6


def test_a_producer_sleeps_while_the_other_side_is_empty() -> None:
    """Demand-driven execution: the empty part has no partner."""
    feed = Feeder(query(FIGURE_1), "(A B) C")
    feed("B", 0, 1)
    feed("A", 1, 1, 100)  # finds C empty
    work = feed.engine.work
    for i in range(10):
        feed("A", 2 + i, 1, i)  # other values as well
        feed("B", 2 + i, 1)
    assert feed.engine.work.probes == work.probes
    assert feed.engine.work.unprobed == work.unprobed + 20
    assert feed("C", 20, 100) == 11


def test_what_a_static_relation_lacks_is_deleted() -> None:
    feed = Feeder(query(FIGURE_1, static=2), "(A B) C")
    feed("C", -1, 7)
    feed("B", 0, 1)
    for i in range(5):
        assert feed("A", 1 + i, 1, 100) == 0
    assert feed.engine.held(0) == 1  # the first, which told
    assert feed("A", 9, 1, 7) == 1
    assert feed("B", 10, 1) == 1


def test_a_suspension_goes_upstream_through_any_depth() -> None:
    """((A B) C) D with D on A alone: nothing of a is joined with B, nor with C."""
    classes = ((0, 1), (0, 2), (0, 3))
    feed = Feeder(query(classes, streams=4), "((A B) C) D", streams="ABCD")
    feed("D", 0, 7)
    feed("B", 0, 1)
    feed("C", 0, 1)
    assert feed("A", 1, 1, 1, 100) == 0
    work = feed.engine.work
    assert feed("A", 2, 1, 1, 100) == 0
    assert feed.engine.work.probes == work.probes
    assert feed("B", 3, 1) == 0
    assert feed.engine.work.withheld == work.withheld + 2
    assert feed("D", 4, 100) == 4


def test_parts_of_two_components() -> None:
    """a and b each have a partner in D, but no partner in common: only the lattice tells."""
    classes = ((0, 1), (1, 2), (0, 3), (1, 3))  # A-B, B-C, A-D, B-D
    plan = "((A B) C) D"
    withheld = []
    for lattice in (1, 2):
        feed = Feeder(query(classes, streams=4), plan, Feedback(lattice=lattice), "ABCD")
        feed("D", 0, 5, 1)
        feed("D", 0, 1, 5)
        for _ in range(10):
            feed("C", 0, 1)
        feed("A", 1, 1, 5)
        assert feed("B", 2, 1, 1, 5) == 0  # a b: A-D is 5 and B-D is 5: no d has both
        assert feed("C", 3, 1) == 0
        withheld.append(feed.engine.work.withheld)
        probes = feed.engine.work.probes
        assert feed("B", 4, 1, 1, 5) == 0
        withheld.append(feed.engine.work.probes - probes)
        assert feed("D", 5, 5, 5) == 2 * 11
    assert withheld[2] >= withheld[0]
    assert withheld[3] < withheld[1]


def test_no_partner_is_missed_where_both_sides_wait_for_each_other() -> None:
    """(A B) (C D): a waits for c d, c waits for a b; then the last of the four arrives."""
    classes = ((0, 1), (2, 3), (0, 2), (0, 3), (1, 2), (1, 3))
    for last in "ABCD":
        feed = Feeder(query(classes, streams=4), "(A B) (C D)", streams="ABCD")
        tuples = {"A": (1, 1, 1), "B": (1, 1, 1), "C": (1, 1, 1), "D": (1, 1, 1)}
        for time, name in enumerate("ABCD" * 3):
            if name != last:
                assert feed(name, time, *tuples[name]) == 0
        assert feed(last, 20, *tuples[last]) == 27


def test_an_expired_partner_is_none() -> None:
    feed = Feeder(query(FIGURE_1, width=10), "(A B) C")
    feed("C", 0, 100)
    feed("B", 5, 1)
    assert feed("A", 6, 1, 100) == 1
    feed("C", 11, 7)
    feed("A", 12, 1, 100)  # c has expired
    work = feed.engine.work
    assert work.suspensions == 1
    feed("A", 13, 1, 100)
    assert feed.engine.work.probes == work.probes
    assert feed("C", 14, 100) == 3


def test_filters_tell_without_looking() -> None:
    feed = Feeder(query(FIGURE_1), "(A B) C", Feedback(filter_bits=1024))
    feed("B", 0, 1)
    feed("C", 0, 7)
    work = feed.engine.work
    assert feed("A", 1, 1, 100) == 0
    assert feed.engine.work.probes == work.probes  # not even the first
    assert feed("C", 2, 100) == 1


def test_a_probe_that_failed_is_not_made_again() -> None:
    """Whoever is asked why it failed: all parts are demanded, so nothing stops."""
    looked = []
    for production in ("push", "jit"):
        built = query(((0, 1), (0, 2), (1, 2)))
        engine = JoinEngine(built, pipeline("(A B) C"), policies=Policies(production=production, nested_loops=True))
        feed = Feeder(built, "(A B) C", engine=engine)
        for i in range(100):
            feed("C", i, 1 + i % 2, 1 + (i + 1) % 2)  # a finds c's, and so does b, but no c has both
        feed("A", 100, 1, 1)
        feed("B", 101, 1, 1)
        before = feed.candidates
        feed("B", 102, 1, 1)
        looked.append(feed.candidates - before)
    assert looked[0] <= looked[1] <= looked[0] + 10


def test_gaps_that_do_not_concern_an_entry_leave_it() -> None:
    feed = Feeder(query(FIGURE_1), "(A B) C")
    feed("B", 0, 1)
    for y in range(50):
        feed("A", 1, 1, y)
        feed("C", 1, y)  # y is asked for: live from now on
    live = feed.entries
    assert live == 50
    for y in range(1000, 1400):  # each waits for a partner; their table fills up, and is emptied
        feed("A", 2, 1, y)
        feed("A", 2, 1, y)
    assert feed.entries == live


def test_an_old_track_may_have_deleted_what_a_new_one_has() -> None:
    """What a static relation lacks is deleted by the track that has seen so; the other still has its number."""
    refs = query(FIGURE_1, static=2).streams
    narrow = replace(refs[0], window=RangeWindow(10), retention_us=10)
    built = replace(query(FIGURE_1, static=2), streams=(narrow, replace(refs[1], window=RangeWindow(100)), refs[2]))
    joiner = open_joiner(built, pipeline("(A B) C"), policies=Policies("parallel_track", "jit"))
    rows: Counter[int] = Counter()
    for time in range(0, 300, 2):
        for s, keys in ((0, {0: 1, 1: time % 3}), (1, {0: 1})):
            joiner.offer(words(built, [Tuple(s, time, rows[s], keys, {}, 0, joins=True)]))
            rows[s] += 1
            assert not list(joiner.advance())
        joiner.take_deaths()
        assert len(joiner.rows(0)) <= rows[0]
        if time == 100:
            joiner.transition(pipeline("(B A) C"))


# -- Against brute force -------------------------------------------------------------------


def sparse_setting(rng: random.Random) -> Setting:
    """Joins of several shapes in which most values have a partner only now and then, and streams that fall silent."""
    n = rng.choice([3, 3, 4, 4, 5])
    shape = rng.choice(["clique", "star", "chain", "one", "mixed"])
    if shape == "clique":
        members = [(a, b) for a in range(n) for b in range(a)]
    elif shape == "star":
        members = [(0, s) for s in range(1, n)]
    elif shape == "chain":
        members = [(s - 1, s) for s in range(1, n)]
    elif shape == "one":
        members = [tuple(range(n))]
    else:
        members = [tuple(rng.sample(range(n), rng.randint(2, n))) for _ in range(rng.randint(1, n))]
    width = rng.choice([10, 40, 100])
    refs = [
        StreamRef(f"s{s}", f"s{s}", pa.schema([]), "t", RowsWindow(rng.randint(1, 8)), None)
        if rng.random() < 0.1
        else StreamRef(f"s{s}", f"s{s}", pa.schema([]), "t", RangeWindow(width), width)
        for s in range(n)
    ]
    classes = tuple(AttributeClass(dict.fromkeys(c), pa.int64()) for c in members)  # type: ignore[arg-type]
    built = Query("q", "", "join", Output.ISTREAM, tuple(refs), (), classes)
    count = {3: rng.choice([40, 90]), 4: rng.choice([30, 52]), 5: 32}[n]
    domain = rng.choice([2, 3, 4, 8])
    bursts = [(rng.randrange(count), rng.randrange(count)) for _ in range(n)]  # most of a stream's tuples come then
    events: list[Tuple] = []
    while len(events) < count:
        time, s = len(events), rng.randrange(n)
        first, second = bursts[s]
        if min(first, second) <= time <= max(first, second) or rng.random() < 0.3:
            keys = {c: rng.randrange(domain) for c, cls in enumerate(classes) if s in cls.members}
            events.append(Tuple(s, time, 0, keys, {}, 0, joins=rng.random() < 0.97))
    seen: Counter[int] = Counter()
    for event in events:
        event.row = seen[event.stream]
        seen[event.stream] += 1
    return Setting(built, events)


@pytest.mark.parametrize("small", [False, True], ids=["roomy", "tight"])
@settings(max_examples=300, deadline=None, print_blob=True)
@given(seed=st.integers(0, 2**32))
def test_sparse_and_bursty_partners_give_the_naive_answer(small: bool, seed: int) -> None:
    """``tight``: what is remembered has room for a few values only."""
    rng = random.Random(seed)
    setting = sparse_setting(rng)
    with pytest.MonkeyPatch.context() as patch:
        if small:
            patch.setattr("thalweg.engine.machine.workspace.FIRST_CAPACITY", 2)
            patch.setattr("thalweg.engine.states.kept_states._SPARE_SLOTS", 1)
            make_curious(patch, rng)
            make_eager(patch, rng)
            patch.setattr("thalweg.engine.join.engine._STRETCH", rng.choice([1, 10]))
        migration = rng.choice(MIGRATIONS)
        limit = rng.choice([None, 1, 2000]) if migration == "jisc" else None
        answer, _ = run(setting, rng, migration, limit, random_production(rng))
    assert answer == naive(setting)


@settings(max_examples=200, deadline=None, print_blob=True)
@given(seed=st.integers(0, 2**32))
def test_arrival_order_does_not_matter_within_the_watermark(seed: int) -> None:
    rng = random.Random(seed)
    run_out_of_order(rng, rng.choice(MIGRATIONS), sparse_setting)


def test_the_randomized_tests_reach_what_they_are_for() -> None:
    total = np.zeros(4, np.int64)
    for seed in range(60):
        rng = random.Random(seed)
        _, engine = run(sparse_setting(rng), rng, production="jit")
        work = engine.work
        total += [work.suspensions, work.resumptions, work.withheld, work.unprobed]
    assert (total > 50).all(), total
