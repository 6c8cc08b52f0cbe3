"""The oracle itself: every rule on windows, values and late rows, pinned by an example worked out by hand.

Times are single microseconds.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from math import inf, nan

import pytest

from tests import oracle
from tests.cases import Case, Item, Now, Out, Range, Rows, Star
from tests.evaluation import holds
from tests.expressions import (
    Abs,
    Arith,
    Between,
    Cmp,
    Col,
    Either,
    In,
    Interval,
    IsNull,
    Lit,
    Not,
    Pred,
    ResultTime,
    StartsWith,
    Value,
)
from tests.handmade import SAME_KEY, join, rows, stream
from tests.lifetimes import arrivals, contradictory, windows

# RANGE ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("distance", "found"), [(0, 1), (9, 1), (10, 0), (11, 0)])
def test_two_tuples_match_when_they_are_less_than_the_window_apart(distance: int, found: int) -> None:
    case = join(stream("A", (100, 1)), stream("B", (100 + distance, 1)), Range(10), Range(10))
    assert len(rows(case)) == found
    case = join(stream("A", (100 + distance, 1)), stream("B", (100, 1)), Range(10), Range(10))
    assert len(rows(case)) == found


def test_the_older_tuples_window_decides() -> None:
    wide, narrow = Range(10), Range(2)
    older_wide = join(stream("A", (0, 1)), stream("B", (5, 1)), wide, narrow)
    older_narrow = join(stream("A", (5, 1)), stream("B", (0, 1)), wide, narrow)
    assert (len(rows(older_wide)), len(rows(older_narrow))) == (1, 0)


def test_all_pairs_of_a_combination_must_be_alive_together() -> None:
    def three(last: int) -> Case:
        return Case(
            streams=(stream("A", (0, 1)), stream("B", (9, 1)), stream("C", (last, 1))),
            items=tuple(Item(name, name, Range(10)) for name in "ABC"),
            select=(Star(),),
            where=(SAME_KEY, Cmp("=", Col("B", "k"), Col("C", "k"))),
        )

    assert len(rows(three(9))) == 1
    assert len(rows(three(10))) == 0


def test_now_matches_only_the_same_instant() -> None:
    a = stream("A", (5, 1, 10), (6, 1, 11))
    assert rows(join(a, stream("B", (5, 1, 20)), Now(), Now())) == [(10, 20)]


def test_now_still_meets_what_arrived_before() -> None:
    a = stream("A", (5, 1, 10), (6, 1, 11), (7, 1, 12))
    assert rows(join(a, stream("B", (6, 1, 20)), Now(), Range(None))) == [(11, 20), (12, 20)]


def test_unbounded_never_forgets() -> None:
    case = join(stream("A", (0, 1)), stream("B", (10**15, 1)), Range(None), Now())
    assert len(rows(case)) == 1


def test_a_window_clause_serves_the_items_without_a_window() -> None:
    case = join(stream("A", (0, 1)), stream("B", (5, 1)), Range(5), Range(5), window=Range(6))
    assert len(rows(case)) == 0
    without = tuple(replace(item, window=None) for item in case.items)
    assert len(rows(replace(case, items=without))) == 1


def test_duplicate_rows_are_distinct_tuples() -> None:
    case = join(stream("A", (1, 1, 7), (1, 1, 7)), stream("B", (1, 1, 8), (1, 1, 8), (1, 1, 8)), Range(1), Range(1))
    assert rows(case) == [(7, 8)] * 6


def test_unsorted_tables_are_sorted_without_lateness() -> None:
    case = join(stream("A", (9, 1, 1), (0, 1, 2)), stream("B", (4, 1, 3)), Range(5), Range(5))
    assert rows(case) == [(2, 3)]


def test_rows_without_a_time_count_nowhere() -> None:
    a = stream("A", (1, 1, 10), (None, 1, 11))
    assert rows(join(a, stream("B", (2, 1, 20)), Rows(1), Range(5))) == [(10, 20)]


def test_one_stream_twice_under_two_aliases() -> None:
    case = Case(
        streams=(stream("A", (0, 1, 1), (3, 1, 2)),),
        items=(Item("A", "x", Range(5)), Item("A", "y", Range(5))),
        select=(Out(Col("x", "v")), Out(Col("y", "v"))),
        where=(Cmp("=", Col("x", "k"), Col("y", "k")), Cmp("<>", Col("x", "v"), Col("y", "v"))),
    )
    assert rows(case) == [(1, 2), (2, 1)]


# ROWS -------------------------------------------------------------------------------------------


def test_rows_keeps_the_newest_of_the_stream() -> None:
    a = stream("A", (0, 1, 10), (1, 1, 11), (2, 2, 12))
    assert rows(join(a, stream("B", (3, 1, 20)), Rows(2), Range(9))) == [(11, 20)]


def test_ties_are_processed_in_the_order_of_the_from_list() -> None:
    a, b = stream("A", (5, 1, 10), (5, 1, 11)), stream("B", (5, 1, 20))
    assert rows(join(a, b, Rows(1), Range(9))) == [(11, 20)]
    turned = join(a, b, Rows(1), Range(9), items=(Item("B", "B", Range(9)), Item("A", "A", Rows(1))))
    assert rows(turned) == [(10, 20), (11, 20)]


def test_a_row_that_fails_the_selection_still_counts() -> None:
    a = stream("A", (0, 1, 10), (1, 1, 11))
    not_the_newer = Cmp("<>", Col("A", "v"), Lit(11, "int64"))
    case = join(a, stream("B", (2, 1, 20)), Rows(1), Range(9), where=(SAME_KEY, not_the_newer))
    assert rows(case) == []


def test_a_null_key_counts_though_it_never_matches() -> None:
    a = stream("A", (0, 1, 10), (1, None, 11))
    assert rows(join(a, stream("B", (2, 1, 20)), Rows(1), Range(9))) == []


def test_partitions_are_counted_apart_and_null_is_one_of_them() -> None:
    a = stream("A", (0, 1, 1), (1, 2, 2), (2, 1, 3), (3, None, 4), (4, None, 5))
    everything = stream("B", (9, 1, 20))
    case = join(a, everything, Rows(1, ("k",)), Range(None), where=())
    assert rows(case) == [(2, 20), (3, 20), (5, 20)]


def test_range_and_rows_mix() -> None:
    a = stream("A", (0, 1, 10), (6, 1, 11))
    b = stream("B", (4, 1, 20), (5, 1, 21), (7, 1, 22))
    # 10 is alive to 4: too short for any b. At 6, only b 21 is left; at 7, 11 is still there for 22.
    assert rows(join(a, b, Range(4), Rows(1))) == [(11, 21), (11, 22)]


# Values -----------------------------------------------------------------------------------------


def test_null_never_equals_but_is_not_distinct_from_null() -> None:
    a, b = stream("A", (0, None), (0, 1)), stream("B", (0, None), (0, 1))
    null_safe = Cmp("<=>", Col("A", "k"), Col("B", "k"))
    assert len(rows(join(a, b, Range(9), Range(9)))) == 1
    assert len(rows(join(a, b, Range(9), Range(9), where=(null_safe,)))) == 2
    assert len(rows(join(a, b, Range(9), Range(9), where=(null_safe, SAME_KEY)))) == 1


def test_nan_equals_itself_and_the_zeros_are_equal() -> None:
    types = ("double", "int64")
    a = stream("A", (0, nan, 1), (0, 0.0, 2), types=types)
    b = stream("B", (0, nan, 3), (0, -0.0, 4), types=types)
    assert rows(join(a, b, Range(9), Range(9))) == [(1, 3), (2, 4)]


def test_nan_is_greater_than_every_number() -> None:
    types = ("double", "int64")
    a, b = stream("A", (0, nan, 1), types=types), stream("B", (0, nan, 2), (0, inf, 3), types=types)

    def found(op: str) -> list[tuple[Value, ...]]:
        return rows(join(a, b, Range(9), Range(9), where=(Cmp(op, Col("A", "k"), Col("B", "k")),)))

    assert found(">") == [(1, 3)]
    assert found(">=") == [(1, 2), (1, 3)]
    assert found("<") == []


def test_decimals_of_different_scale_compare_by_value() -> None:
    a = stream("A", (0, Decimal("1.50"), 1), types=("decimal(10,2)", "int64"))
    b = stream("B", (0, Decimal("1.5000"), 2), (0, Decimal("1.5050"), 3), types=("decimal(12,4)", "int64"))
    assert rows(join(a, b, Range(9), Range(9))) == [(1, 2)]


NULL_INT = Lit(None, "int64")
ONE = Lit(1, "int64")


@pytest.mark.parametrize(
    ("pred", "true"),
    [
        (Cmp("=", NULL_INT, NULL_INT), False),
        (Not(Cmp("=", NULL_INT, ONE)), False),
        (Cmp("<=>", NULL_INT, NULL_INT), True),
        (Cmp("<=>", NULL_INT, ONE), False),
        (Either(Cmp("=", NULL_INT, ONE), IsNull(NULL_INT)), True),
        (Not(Either(Cmp("=", NULL_INT, ONE), IsNull(NULL_INT))), False),
        (In(NULL_INT, (ONE,)), False),
        (Not(In(ONE, (Lit(2, "int64"), NULL_INT))), False),
        (Not(In(ONE, (Lit(2, "int64"),))), True),
        (Between(ONE, ONE, Lit(3, "int64")), True),
        (Not(Between(ONE, Lit(2, "int64"), NULL_INT)), True),
        (Not(Between(ONE, ONE, NULL_INT)), False),
        (StartsWith(Lit("abc", "string"), "a"), True),
        (StartsWith(Lit(None, "string"), "a"), False),
        (Cmp("<", Abs(Arith("-", ONE, Lit(4, "int64"))), Lit(3, "int64")), False),
    ],
)
def test_predicates_know_true_false_and_unknown(pred: Pred, true: bool) -> None:
    assert holds(pred, {}) is true
    one_row = Case(streams=(stream("A", (0, 1)),), items=(Item("A", "A", Now()),), select=(Star(),), where=(pred,))
    assert len(oracle.results(one_row)) == (1 if true else 0), "DuckDB agrees"


# Interval predicates ----------------------------------------------------------------------------

A_TIME, B_TIME, C_TIME = Col("A", "ts"), Col("B", "ts"), Col("C", "ts")


def test_interval_predicates_imply_windows() -> None:
    between = Between(B_TIME, Arith("-", A_TIME, Interval(5)), Arith("+", A_TIME, Interval(1)))
    b = stream("B", *((t, 1, t) for t in range(3, 14)))
    case = join(stream("A", (10, 1, 0)), b, Range(1), Range(1), where=(SAME_KEY, between))
    case = replace(case, items=(Item("A", "A"), Item("B", "B")))
    assert windows(case) == [2, 6], "an a waits 1 longer for its last b, a b waits 5 for its last a"
    assert rows(case) == [(0, t) for t in (10, 11)] + [(0, t) for t in (5, 6, 7, 8, 9)]


def test_windows_follow_from_a_chain_of_predicates() -> None:
    case = Case(
        streams=(stream("A"), stream("B"), stream("C")),
        items=(Item("A", "A"), Item("B", "B"), Item("C", "C", Range(4))),
        select=(Star(),),
        where=(
            Cmp("<", B_TIME, Arith("+", A_TIME, Interval(10))),  # b - a <= 9
            Cmp(">=", Arith("-", B_TIME, C_TIME), Interval(-20)),  # c - b <= 20
        ),
    )
    # c - a <= 9 + 20; a - b <= 20 + 3 through C's window, so B waits max(20, 23).
    assert windows(case) == [30, 24, 4]


def test_a_stream_that_always_comes_last_waits_for_nobody() -> None:
    case = Case(
        streams=(stream("A"), stream("B")),
        items=(Item("A", "A"), Item("B", "B")),
        select=(Star(),),
        where=(Between(B_TIME, Arith("+", A_TIME, Interval(2)), Arith("+", A_TIME, Interval(3))),),
    )
    assert windows(case) == [4, 1]


def test_bounds_that_exclude_each_other_are_seen() -> None:
    later = Cmp(">=", B_TIME, Arith("+", A_TIME, Interval(10)))
    a, b = stream("A", (0, 1)), stream("B", (12, 1))
    assert contradictory(join(a, b, Range(10), Range(1), where=(later,)))
    assert not contradictory(join(a, b, Range(11), Range(1), where=(later,)))
    both = join(a, b, Range(None), Range(None), where=(later, Cmp("=", A_TIME, B_TIME)))
    assert contradictory(both)
    assert rows(both) == []


# Late rows --------------------------------------------------------------------------------------


def kept(case: Case) -> list[list[int]]:
    """The times that are in time, per item."""
    return [[time for _, time in rows] for rows in arrivals(case)]


def test_a_row_behind_every_streams_newest_is_late() -> None:
    a = stream("A", (10, 1), (20, 1), (5, 1), (6, 1), (30, 1))
    b = stream("B", (11, 1), (40, 1))
    # 5 and 6 arrive with 20; B has come to 11 by then, so the watermark is min(20, 11) - 5 = 6.
    assert kept(join(a, b, Range(9), Range(9), lateness=5)) == [[10, 20, 6, 30], [11, 40]]


def test_a_stream_that_has_not_begun_holds_the_watermark_back() -> None:
    a, b = stream("A", (10, 1), (20, 1), (5, 1)), stream("B", (21, 1))
    assert kept(join(a, b, Range(9), Range(9), lateness=0)) == [[10, 20, 5], [21]]


def test_a_stream_that_has_ended_or_is_empty_does_not() -> None:
    a = stream("A", (10, 1), (20, 1), (5, 1), (21, 1))
    assert kept(join(a, stream("B"), Range(9), Range(9), lateness=5)) == [[10, 20, 21], []]
    assert kept(join(a, stream("B", (11, 1)), Range(9), Range(9), lateness=5)) == [[10, 20, 21], [11]]


def test_the_watermark_itself_is_in_time_and_the_own_row_does_not_count_yet() -> None:
    a = stream("A", (10, 1), (5, 1), (4, 1))
    assert kept(join(a, stream("B"), Range(9), Range(9), lateness=5)) == [[10, 5], []]


def test_a_row_is_late_for_its_stream_whatever_the_alias() -> None:
    a = stream("A", (10, 1), (20, 1), (20, 1), (9, 1), (30, 1))
    case = join(a, stream("B"), Range(9), Range(9), lateness=5)
    twice = replace(case, items=(Item("A", "A", Range(9)), Item("A", "B", Range(9))))
    assert kept(twice) == [[10, 20, 20, 30], [10, 20, 20, 30]]


def test_late_rows_count_in_no_window() -> None:
    a = stream("A", (1, 1, 1), (20, 1, 2), (3, 1, 3))
    b = stream("B", (19, 2, 8), (30, 1, 9))
    case = join(a, b, Rows(2), Now())
    assert rows(case) == [(2, 9), (3, 9)], "sorted, 3 stands before 20 and pushes 1 out"
    assert rows(replace(case, lateness=5)) == [(1, 9), (2, 9)], "late, it pushes nothing out"


# Static relations ---------------------------------------------------------------------------------


def test_a_static_relation_was_always_there_and_stays() -> None:
    relation = replace(stream("B", (900, 1, 7), (None, 1, 8), (0, 2, 9)), static=True)
    case = join(stream("A", (5, 1, 3), (800, 2, 4)), relation, Range(10), Range(10))
    case = replace(case, items=(case.items[0], Item("B", "B")), select=(*case.select, Out(ResultTime())))
    assert rows(case) == [(3, 7, 5), (3, 8, 5), (4, 9, 800)]
    assert rows(replace(case, output="dstream")) == [(3, 7, 15), (3, 8, 15), (4, 9, 810)]


def test_a_static_relation_holds_no_watermark_back_and_bounds_no_window() -> None:
    relation = replace(stream("B", (0, 1)), static=True)
    late = join(stream("A", (50, 1), (0, 1)), relation, Range(10), Range(10), lateness=5)
    assert arrivals(late) == [[(0, 50)], [(0, -(2**62))]]
    bounded = replace(late, items=(Item("A", "A"), Item("B", "B")), where=(Cmp("<", Col("A", "ts"), Col("B", "ts")),))
    assert windows(bounded) == [1, None]
    assert not contradictory(replace(bounded, where=(*bounded.where, Cmp(">", Col("A", "ts"), Col("B", "ts")))))


def test_a_static_relation_blocks_for_ever() -> None:
    relation = replace(stream("B", (900, 1)), static=True)
    case = join(stream("A", (5, 1, 3), (6, 2, 4)), relation, Range(10), Range(10))
    case = replace(case, items=(case.items[0], Item("B", "B")), where=(), by=("k",))
    case = replace(case, select=(Out(Col("A", "k")), Out(Col("A", "v"))), minus=((Out(Col("B", "k")),),))
    assert rows(case) == [(2, 4)]
