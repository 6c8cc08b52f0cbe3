"""Several queries in one text: worked out by hand, the papers' example and formula, and bad input."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest

import thalweg
from thalweg.errors import QueryError
from thalweg.replayer.api import run_all

SHARINGS = ["auto", "memory", "cpu", "none", "pull_up"]
SECOND = 1_000_000
JOIN = "SELECT a.v AS x, b.v AS y FROM a, b WHERE a.k = b.k"


def stream(times: list[int], keys: list[Any] | None = None) -> pa.Table:
    """Rows at these seconds; v counts them."""
    return pa.table(
        {
            "ts": pa.array([SECOND * time for time in times], pa.int64()),
            "k": pa.array(keys or [1] * len(times), pa.int64()),
            "v": pa.array(range(len(times)), pa.int64()),
        }
    )


STREAMS = {"a": stream([0, 2, 4, 6]), "b": stream([1, 3, 5, 7])}
"""Tuples come in turn, one a second: a0 b0 a1 b1 a2 b2 a3 b3."""


def answers(text: str, streams: Mapping[str, pa.Table] = STREAMS, **arguments: Any) -> dict[str, list[tuple[Any, ...]]]:
    found = thalweg.replay(text, streams, **arguments)
    assert isinstance(found, dict)
    return {name: [tuple(row.values()) for row in table.to_pylist()] for name, table in found.items()}


def named(**queries: str) -> str:
    return ";\n".join(f"CREATE QUERY {name} AS {text}" for name, text in queries.items())


class TestStateSlice:
    """The example and the formula of *State-Slice*."""

    A = stream([1, 2, 3, 8])
    B = stream([4, 5])

    def _found(self, first: str, second: str, sharing: str) -> dict[str, list[str]]:
        text = "SELECT a.v AS i, b.v AS j FROM a [RANGE {}] CROSS JOIN b [NOW]"
        found = answers(
            named(q1=text.format(first), q2=text.format(second)),
            {"a": self.A, "b": self.B},
            options={"sharing": sharing},
        )
        return {name: sorted(f"a{i + 1} b{j + 1}" for i, j in rows) for name, rows in found.items()}

    @pytest.mark.parametrize("sharing", SHARINGS)
    def test_table_2(self, sharing: str) -> None:
        # The paper keeps pairs whose distance is the window, against its definition 1; so windows are a hair larger.
        found = self._found("2000001 MICROSECONDS", "4000001 MICROSECONDS", sharing)
        first = ["a2 b1", "a3 b1", "a3 b2"]
        assert found == {"q1": first, "q2": sorted([*first, "a1 b1", "a1 b2", "a2 b2"])}

    @pytest.mark.parametrize("sharing", SHARINGS)
    def test_table_2_with_windows_as_defined(self, sharing: str) -> None:
        assert self._found("2 SECONDS", "4 SECONDS", sharing) == {
            "q1": ["a3 b1"],
            "q2": sorted(["a3 b1", "a1 b1", "a2 b1", "a2 b2", "a3 b2"]),
        }

    @pytest.mark.parametrize(("short", "long", "one_in"), [(10, 40, 4), (8, 12, 2), (4, 60, 10), (20, 20, 5)])
    def test_memory_is_that_of_the_formula(self, short: int, long: int, one_in: int) -> None:
        # Section 4: a selected stream holds rate * W1 + rate * S * (W2 - W1), any other rate * W2.
        rate, seconds = 10, 200
        times = [SECOND * i // rate for i in range(rate * seconds + 1)]
        table = pa.table({"ts": times, "k": list(range(len(times))), "v": [i % one_in for i in range(len(times))]})
        text = "SELECT a.v AS x FROM a [RANGE {0} SECONDS], b [RANGE {0} SECONDS] WHERE a.k = b.k"
        both = named(q1=text.format(short), q2=text.format(long) + " AND a.v = 0")
        result = run_all(both, {"a": table, "b": table}, options={"sharing": "memory"})["q1"]
        held = {state.name: state.tuples for state in result.summary.states}
        selected, all_of_it = rate * short + rate * (long - short) // one_in, rate * long
        assert {name: held[name] for name in "ab"} == {"a": selected, "b": all_of_it}
        pulled = run_all(both, {"a": table, "b": table}, options={"sharing": "pull_up"})["q1"].summary.states
        assert {state.name: state.tuples for state in pulled if state.name in "ab"} == dict.fromkeys("ab", all_of_it)

    def test_answers_are_in_the_order_of_the_text(self) -> None:
        """Also if queries that share a join do not stand together."""
        streams = {"A": {"ts": [0], "k": [0]}, "B": {"ts": [1], "k": [0]}}
        other = "SELECT A.k FROM A [RANGE 1 SECOND], B [RANGE 1 SECOND] WHERE A.k < B.k"
        same = "SELECT A.k FROM A [RANGE 1 SECOND], B [RANGE 1 SECOND] WHERE A.k = B.k"
        assert list(thalweg.replay(named(z=same, y=other, x=same), streams)) == ["z", "y", "x"]

    @pytest.mark.parametrize("most", [1, 2, 62])
    def test_selections_with_one_bit_have_one_lineage(self, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
        """A window without masks is one slice: there nothing tells which slice a tuple is in."""
        monkeypatch.setattr("thalweg.plan.slices.MOST_SELECTIONS", most)
        streams = {"A": {"ts": [0], "k": [0]}, "B": {"ts": [8_000_000], "k": [0]}}
        windows = {"q0": (8, "A.ts > 5"), "q1": (9, "A.ts < 5"), "q2": (10, "A.ts < 5")}
        text = "SELECT A.k FROM A [RANGE {} SECONDS], B [RANGE 8 SECONDS] WHERE A.k = B.k AND {}"
        queries = {name: text.format(*each) for name, each in windows.items()}
        found = thalweg.replay(named(**queries), streams, options={"sharing": "memory"})
        assert {name: table.num_rows for name, table in found.items()} == {"q0": 0, "q1": 1, "q2": 1}

    @pytest.mark.parametrize("seed", range(5))
    def test_memory_is_what_somebody_needs(self, seed: int) -> None:
        rng = random.Random(seed)
        table = pa.table(
            {"ts": sorted(rng.choices(range(1000), k=400)), "k": [1] * 400, "v": rng.choices(range(4), k=400)}
        )
        other = pa.table({"ts": [999], "k": [2], "v": [0]})
        readers = [(rng.randint(1, 500), rng.randint(0, 3)) for _ in range(6)]
        text = "SELECT a.v AS x FROM a [RANGE {} MICROSECONDS], b [RANGE 1 SECOND] WHERE a.k = b.k AND a.v >= {}"
        both = named(**{f"q{n}": text.format(*reader) for n, reader in enumerate(readers)})
        (size,) = (
            state.tuples
            for state in run_all(both, {"a": table, "b": other}, options={"sharing": "memory"})["q0"].summary.states
            if state.name == "a"
        )
        rows = table.to_pylist()
        assert size == sum(
            any(row["v"] >= least and row["ts"] + width > 999 for width, least in readers) for row in rows
        )


@pytest.mark.parametrize("sharing", SHARINGS)
class TestAnswers:
    def test_each_by_its_name(self, sharing: str) -> None:
        text = named(
            long=f"{JOIN} WINDOW RANGE 4 SECONDS",
            short=f"{JOIN} WINDOW RANGE 2 SECONDS",
            other="SELECT a.v AS x FROM a [NOW] WHERE a.v > 1",
            few=f"{JOIN} AND b.v = 2 WINDOW RANGE 2 SECONDS",
        )
        found = answers(text, options={"sharing": sharing})
        assert sorted(found) == ["few", "long", "other", "short"]
        assert found["short"] == [(0, 0), (1, 0), (1, 1), (2, 1), (2, 2), (3, 2), (3, 3)]
        assert sorted(found["long"]) == sorted([*found["short"], (0, 1), (2, 0), (1, 2), (3, 1), (2, 3)])
        assert found["other"] == [(2,), (3,)]
        assert found["few"] == [(2, 2), (3, 2)]

    def test_queries_of_one_stream(self, sharing: str) -> None:
        text = named(
            some="SELECT v FROM a [RANGE 1 SECOND] WHERE v <> 2",
            all="SELECT v FROM a z [RANGE 9 SECONDS]",
            sums="SELECT SUM(v) AS s FROM a [RANGE 3 SECONDS] WHERE v > 0",
        )
        found = answers(text, options={"sharing": sharing})
        assert found["some"] == [(0,), (1,), (3,)]
        assert found["all"] == [(0,), (1,), (2,), (3,)]
        assert found["sums"] == [(1,), (3,), (2,), (5,), (3,), (None,)]

    def test_a_condition_that_never_holds(self, sharing: str) -> None:
        text = named(none=f"{JOIN} AND 1 = 0 WINDOW RANGE 9 SECONDS", all=f"{JOIN} WINDOW RANGE 2 SECONDS")
        found = answers(text, options={"sharing": sharing})
        assert found["none"] == []
        assert len(found["all"]) == 7

    def test_null_keys_join_nothing(self, sharing: str) -> None:
        streams = {"a": stream([0, 2, 4, 6], [None, 1, None, 1]), "b": stream([1, 3, 5, 7], [None, None, 1, 1])}
        text = named(
            all=f"{JOIN} WINDOW RANGE 9 SECONDS",
            some=f"{JOIN} AND a.v > 1 WINDOW RANGE 5 SECONDS",
            safe="SELECT a.v AS x, b.v AS y FROM a, b WHERE a.k <=> b.k WINDOW RANGE 2 SECONDS",
        )
        found = answers(text, streams, options={"sharing": sharing})
        assert sorted(found["all"]) == [(1, 2), (1, 3), (3, 2), (3, 3)]
        assert sorted(found["some"]) == [(3, 2), (3, 3)]
        assert sorted(found["safe"]) == [(0, 0), (2, 1), (3, 2), (3, 3)]

    def test_static_relations(self, sharing: str) -> None:
        streams = {"a": stream([0, 2, 4, 6]), "s": pa.table({"k": [1, 1, 2], "w": [10, 20, 30]})}
        text = "SELECT a.v AS x, s.w AS y FROM a [RANGE {}], s WHERE a.k = s.k {}"
        found = answers(
            named(
                one=text.format("1 SECOND", "AND s.w = 10"), two=text.format("9 SECONDS", "AND s.w > 10 AND a.v > 1")
            ),
            streams,
            time={"a": "ts", "s": None},
            options={"sharing": sharing},
        )
        assert found == {"one": [(v, 10) for v in range(4)], "two": [(2, 20), (3, 20)]}

    def test_seventy_selections(self, sharing: str) -> None:
        values = [n % 75 for n in range(150)]
        table = pa.table({"ts": [SECOND * n for n in range(150)], "k": values, "v": values})
        text = "SELECT a.ts AS x FROM a, b WHERE a.k = b.k AND a.v = {} WINDOW RANGE {} SECONDS"
        queries = {f"q{n}": text.format(n, 80 if n % 2 else 10) for n in range(70)}
        found = answers(named(**queries), {"a": table, "b": table}, options={"sharing": sharing})
        for n in range(70):
            # Each value comes twice, 75 seconds apart: two pairs at once, and across them two more in a wide window.
            assert len(found[f"q{n}"]) == (4 if n % 2 else 2)


class TestEntries:
    SHORT, LONG = f"{JOIN} WINDOW RANGE 2 SECONDS", f"{JOIN} WINDOW RANGE 100 SECONDS"

    def test_who_comes_sees_what_the_others_hold(self) -> None:
        found = answers(named(short=self.SHORT, long=self.LONG), entries=[(4, "long", "enter")])
        # At position 4 (a2, second 4) the last tuple was b1, at second 3: tuples from second 2 on are of use to it.
        assert sorted(found["long"]) == [(1, 2), (1, 3), (2, 1), (2, 2), (2, 3), (3, 1), (3, 2), (3, 3)]

    @pytest.mark.parametrize("width", [5, 4])
    def test_what_is_of_use_to_nobody_is_gone_though_it_lies_there(self, width: int) -> None:
        # a0 is in its ring until a1 comes. At position 3, its window is over: the last tuple is of second 5.
        streams = {"a": stream([0, 1, 10]), "b": stream([5, 11])}
        short = self.SHORT.replace("2 SECONDS", f"{width} SECONDS")
        found = answers(named(short=short, long=self.LONG), streams, entries=[(3, "long", "enter")])
        older = [(1, 1)] if width == 5 else []
        assert sorted(found["long"]) == sorted([*older, (2, 0), (2, 1)])

    def test_what_is_of_use_to_nobody_is_gone_though_its_slice_stays(self) -> None:
        # With selections pulled up, all tuples stay for 100 seconds; a0 was of use to nobody after 2.
        table = pa.table({"ts": [0, 5 * SECOND, 6 * SECOND], "k": [1, 1, 1], "v": [0, 1, 2]})
        narrow = self.LONG.replace("WINDOW", "AND a.v = 1 WINDOW")
        text = named(short=self.SHORT, narrow=narrow, long=self.LONG)
        for sharing in SHARINGS[:3] + SHARINGS[4:]:
            options = {"sharing": sharing}
            found = answers(text, {"a": table, "b": stream([6])}, entries=[(2, "long", "enter")], options=options)
            assert sorted(found["long"]) == [(1, 0), (2, 0)]

    def test_a_query_that_masks_do_not_tell_apart_holds_what_it_selects(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("thalweg.plan.slices.MOST_SELECTIONS", 1)
        some = "SELECT a.v AS x, b.v AS y FROM a, b WHERE a.k = b.k AND a.v {} WINDOW RANGE 100 SECONDS"
        text = named(first=some.format("= 0"), second=some.format("= 1"), long=self.LONG)
        found = answers(text, entries=[(5, "long", "enter")])
        assert sorted(found["long"]) == [(0, 2), (0, 3), (1, 2), (1, 3), (3, 0), (3, 1), (3, 2), (3, 3)]

    def test_alone_it_sees_nothing_older(self) -> None:
        found = thalweg.replay(
            self.LONG.replace("SELECT", "CREATE QUERY q AS SELECT"), STREAMS, entries=[(5, "q", "enter")]
        )
        assert isinstance(found, pa.Table)
        assert sorted(map(tuple, (row.values() for row in found.to_pylist()))) == [(3, 2), (3, 3)]

    def test_who_goes_emits_nothing_more(self) -> None:
        found = answers(named(short=self.SHORT, long=self.LONG), entries=[(4, "long", "leave"), (6, "long", "enter")])
        assert sorted(found["long"]) == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 3), (3, 2), (3, 3)]

    def test_one_that_takes_the_place_of_another_sees_what_it_held(self) -> None:
        for order in (1, -1):
            entries = [(4, "short", "leave"), (4, "long", "enter")][::order]
            found = answers(named(short=self.SHORT, long=self.LONG), entries=entries)
            assert found["short"] == [(0, 0), (1, 0), (1, 1)]
            assert sorted(found["long"]) == [(1, 2), (1, 3), (2, 1), (2, 2), (2, 3), (3, 1), (3, 2), (3, 3)]

    @pytest.mark.parametrize("batch_size", [1, 3, 100])
    def test_what_waits_to_leave_is_dropped(self, batch_size: int) -> None:
        text = self.SHORT.replace("SELECT", "SELECT DSTREAM")
        found = answers(
            named(gone=text, stays=text), entries=[(5, "gone", "leave")], options={"batch_size": batch_size}
        )
        # Position 5 is b2, at second 5: what left before has been said, and a1 b1 left at second 4.
        assert found["gone"] == [(0, 0), (1, 0), (1, 1)]
        assert len(found["stays"]) == 7

    @pytest.mark.parametrize("batch_size", [1, 3, 100])
    def test_an_aggregate_begins_anew(self, batch_size: int) -> None:
        text = "SELECT COUNT(*) AS n FROM a, b WHERE a.k = b.k WINDOW RANGE 100 SECONDS"
        entries = [(4, "left", "leave"), (4, "left", "enter")]
        found = answers(named(left=text, stays=text), entries=entries, options={"batch_size": batch_size})
        assert found["stays"][:4] == [(1,), (2,), (4,), (6,)]
        # Results so far are forgotten, tuples are not: a2 finds b0 and b1.
        assert found["left"][:4] == [(1,), (2,), (4,), (2,)]

    def test_at_the_end_nothing_changes(self) -> None:
        text = self.SHORT.replace("SELECT", "SELECT DSTREAM")
        both = named(one=text, two=text)
        assert answers(both, entries=[(8, "one", "leave")]) == answers(both)
        assert answers(both, entries=[(8, "one", "enter")])["one"] == []

    def test_static_relations_are_seen_whole(self) -> None:
        streams = {"a": stream([0, 2, 4, 6]), "s": pa.table({"k": [1, 1, 2], "w": [10, 20, 30]})}
        text = "SELECT a.v AS x, s.w AS y FROM a [RANGE 1 SECOND], s WHERE a.k = s.k AND s.w {}"
        both = named(one=text.format("= 10"), two=text.format("> 10"))
        for entries in (
            [(1, "two", "enter")],
            [(1, "two", "enter"), (2, "one", "leave")],
            [(0, "one", "leave"), (1, "two", "enter")],
        ):
            found = answers(both, streams, time={"a": "ts", "s": None}, entries=entries)
            assert found["two"] == [(1, 20), (2, 20), (3, 20)]

    def test_no_query_at_all_for_a_while(self) -> None:
        entries = [(2, "short", "leave"), (2, "long", "leave"), (6, "long", "enter")]
        found = answers(named(short=self.SHORT, long=self.LONG), entries=entries)
        assert found == {"short": [(0, 0)], "long": [(0, 0), (3, 3)]}


class TestBadInput:
    BOTH = named(one=f"{JOIN} WINDOW RANGE 2 SECONDS", two=f"{JOIN} WINDOW RANGE 3 SECONDS")

    @pytest.mark.parametrize(
        ("entries", "says"),
        [
            (
                [(1, "three", "enter")],
                "entries name the query 'three', and the text has none. It has one, two.",
            ),
            ([(1, 2, "enter")], "entries name the query 2, and the text has none. It has one, two."),
            (
                [(9, "one", "enter")],
                "query 'one' is to enter at position 9. Positions count the 8 tuples of its streams from 0.",
            ),
            (
                [(-1, "one", "leave")],
                "query 'one' is to leave at position -1. Positions count the 8 tuples of its streams from 0.",
            ),
            (
                [(True, "one", "leave")],
                "query 'one' is to leave at position True. Positions count the 8 tuples of its streams from 0.",
            ),
            (
                [("1", "one", "leave")],
                "query 'one' is to leave at position '1'. Positions count the 8 tuples of its streams from 0.",
            ),
            ([(1, "one", "go")], "query 'one' can 'enter' or 'leave', not 'go'."),
            ([(1, "one", "enter"), (3, "one", "enter")], "query 'one' is to enter twice in a row."),
            (
                [(1, "one", "enter"), (3, "one", "leave"), (4, "ONE", "leave")],
                "query 'one' is to leave twice in a row.",
            ),
            (
                [(1, "one")],
                "an entry is a position, the name of a query and what it does, not (1, 'one'). "
                "For example entries=[(1000, 'q1', 'enter')].",
            ),
            (
                ["abc"],
                "an entry is a position, the name of a query and what it does, not 'abc'. "
                "For example entries=[(1000, 'q1', 'enter')].",
            ),
            (
                [7],
                "an entry is a position, the name of a query and what it does, not 7. "
                "For example entries=[(1000, 'q1', 'enter')].",
            ),
            (5, "entries are a list of them, not 5. For example entries=[(1000, 'q1', 'enter')]."),
            ("abc", "entries are a list of them, not 'abc'. For example entries=[(1000, 'q1', 'enter')]."),
        ],
    )
    def test_entries(self, entries: Any, says: str) -> None:
        with pytest.raises(QueryError) as caught:
            thalweg.replay(self.BOTH, STREAMS, entries=entries)
        assert str(caught.value) == says

    def test_a_set_difference_neither_comes_nor_goes(self) -> None:
        text = named(d="SELECT k FROM a [RANGE 1 SECOND] EXCEPT SELECT k FROM b [RANGE 1 SECOND]")
        with pytest.raises(QueryError) as caught:
            thalweg.replay(text, STREAMS, entries=[(1, "d", "enter")])
        assert (
            str(caught.value)
            == "query 'd' is a set difference, which is there from the beginning to the end. Leave it out of entries."
        )

    def test_transitions_of_several_joins(self) -> None:
        text = ";".join([self.BOTH, named(three="SELECT v FROM a [NOW]")])
        with pytest.raises(QueryError) as caught:
            thalweg.replay(text, STREAMS, transitions=[(1, "b a")])
        assert str(caught.value) == (
            "the queries of the text have 2 joins (one and 1 more, three), and a plan is that of one join. "
            "Pick one with query=..."
        )

    def test_names_in_any_case(self) -> None:
        assert answers(self.BOTH, entries=[(7, "TWO", "enter")])["two"] == [(3, 3)]
