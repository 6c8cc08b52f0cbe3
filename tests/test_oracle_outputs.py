"""The oracle itself: DSTREAM, aggregates, EXCEPT and facts of the papers, by examples worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from math import nan

from tests.cases import Case, Item, Now, Out, Range, Rows, Stream, Window
from tests.expressions import Agg, Arith, Between, Cmp, Col, Expr, Interval, Lit, Pred, ResultTime
from tests.handmade import SAME_KEY, join, rows, stream
from tests.lifetimes import windows

# DSTREAM ----------------------------------------------------------------------------------------

ONE = Lit(1, "int64")
A_TIME, B_TIME = Col("A", "ts"), Col("B", "ts")
TIMED: tuple[Out, ...] = (Out(Col("A", "v")), Out(Col("B", "v")), Out(ResultTime(), "rt"))


def test_result_time_is_that_of_the_newest_component() -> None:
    case = join(stream("A", (3, 1, 1)), stream("B", (7, 1, 2)), Range(9), Range(9), select=TIMED)
    assert rows(case) == [(1, 2, 7)]


def test_a_result_leaves_with_the_first_of_its_components() -> None:
    case = join(stream("A", (3, 1, 1)), stream("B", (7, 1, 2)), Range(9), Range(3), select=TIMED, output="dstream")
    assert rows(case) == [(1, 2, 10)]


def test_a_row_pushed_out_takes_its_results_with_it() -> None:
    a = stream("A", (0, 1, 1), (5, 2, 2))
    case = join(a, stream("B", (1, 1, 3)), Rows(1), Range(None), select=TIMED, output="dstream")
    assert rows(case) == [(1, 3, 5)]


def test_results_may_enter_and_leave_at_one_instant() -> None:
    b, a = stream("B", (5, 1, 3)), stream("A", (5, 1, 1), (5, 1, 2))
    items = (Item("B", "B", Range(9)), Item("A", "A", Rows(1)))
    case = join(a, b, Rows(1), Range(9), items=items, select=TIMED, output="dstream")
    assert rows(case) == [(1, 3, 5), (2, 3, 14)]


def test_what_is_never_pushed_out_or_unbounded_never_leaves() -> None:
    a, b = stream("A", (0, 1, 1)), stream("B", (1, 1, 3))
    assert rows(join(a, b, Rows(1), Range(None), select=TIMED, output="dstream")) == []


def test_derived_windows_end_results_too() -> None:
    between = Between(B_TIME, A_TIME, Arith("+", A_TIME, Interval(4)))
    case = join(stream("A", (0, 1, 1)), stream("B", (3, 1, 2)), Now(), Now(), select=TIMED, output="dstream")
    case = replace(case, items=(Item("A", "A"), Item("B", "B")), where=(SAME_KEY, between))
    assert windows(case) == [5, 1]
    assert rows(case) == [(1, 2, 4)]


# Aggregates -------------------------------------------------------------------------------------


def aggregate(
    a: Stream, window: Window, *calls: Expr, group_by: tuple[Expr, ...] = (), having: Pred | None = None
) -> Case:
    """Aggregates over stream A; the rows are (keys, calls, instant)."""
    outs = tuple(Out(expr, f"c{c}") for c, expr in enumerate((*group_by, *calls, ResultTime())))
    return Case(streams=(a,), items=(Item("A", "A", window),), select=outs, group_by=group_by, having=having)


COUNT = Agg("COUNT")
KEY, VALUE = Col("A", "k"), Col("A", "v")


def test_a_group_has_a_row_while_it_has_results() -> None:
    case = aggregate(stream("A", (0, 1), (3, 1), (3, 2)), Range(5), COUNT, group_by=(KEY,))
    # Key 1: one at 0, two at 3, one again at 5, none at 8. Key 2: one at 3, none at 8.
    assert rows(case) == [(1, 1, 0), (1, 1, 5), (1, 2, 3), (2, 1, 3)]
    leaving = replace(case, output="dstream")
    assert rows(leaving) == [(1, 1, 3), (1, 1, 8), (1, 2, 5), (2, 1, 8)]


def test_all_changes_of_one_instant_count_together() -> None:
    case = aggregate(stream("A", (0, 1), (5, 1), (5, 2), (5, 2)), Range(5), COUNT, group_by=(KEY,))
    # At 5 the first of key 1 leaves as the second comes: its row does not change.
    assert rows(case) == [(1, 1, 0), (2, 2, 5)]


def test_without_groups_there_is_always_one_row() -> None:
    case = aggregate(stream("A", (0, 1, 4), (1, 1, 6)), Range(5), COUNT, Agg("SUM", VALUE), Agg("AVG", VALUE))
    assert rows(case) == [(0, None, None, 6), (1, 4, 4.0, 0), (1, 6, 6.0, 5), (2, 10, 5.0, 1)]
    leaving = replace(case, output="dstream")
    assert rows(leaving) == [(0, None, None, 0), (1, 4, 4.0, 1), (1, 6, 6.0, 6), (2, 10, 5.0, 5)]


def test_having_lets_rows_in_and_out() -> None:
    twice = Cmp(">", COUNT, ONE)
    a = stream("A", (0, 1), (3, 1), (4, 1))
    case = aggregate(a, Range(5), COUNT, group_by=(KEY,), having=twice)
    assert rows(case) == [(1, 2, 3), (1, 2, 5), (1, 3, 4)]
    assert rows(replace(case, output="dstream")) == [(1, 2, 4), (1, 2, 8), (1, 3, 5)]


def test_a_row_changes_when_what_is_selected_does_not_when_a_call_of_having_does() -> None:
    case = aggregate(stream("A", (0, 1, 5), (5, 1, 6), (9, 1, 0)), Range(5), COUNT, group_by=(KEY,))
    assert rows(case) == [(1, 1, 0), (1, 1, 10), (1, 2, 9)]
    # The sum is 5, then 6 at 5 (the count stays 1), 6 of two at 9, and 0 at 10, which HAVING refuses.
    summed = replace(case, having=Cmp(">", Agg("SUM", VALUE), ONE))
    assert rows(summed) == [(1, 1, 0), (1, 2, 9)]
    assert rows(replace(summed, output="dstream")) == [(1, 1, 9), (1, 2, 10)]


def test_a_row_does_not_change_when_a_call_inside_an_expression_does() -> None:
    zero = Arith("-", COUNT, Agg("COUNT", VALUE))
    case = aggregate(stream("A", (0, 1, 5), (1, 1, 5), (2, 1, None)), Range(None), zero, group_by=(KEY,))
    assert rows(case) == [(1, 0, 0), (1, 1, 2)]


def test_aggregates_ignore_null() -> None:
    a = stream("A", (0, 1, None), (0, 1, 3), (0, 2, None))
    calls = (COUNT, Agg("COUNT", VALUE), Agg("SUM", VALUE), Agg("MIN", VALUE), Agg("MAX", VALUE), Agg("AVG", VALUE))
    case = aggregate(a, Range(None), *calls, group_by=(KEY,))
    assert rows(case) == [(1, 2, 1, 3, 3, 3, 3.0, 0), (2, 1, 0, None, None, None, None, 0)]


def test_null_is_a_group() -> None:
    case = aggregate(stream("A", (0, None), (0, None), (0, 1)), Range(None), COUNT, group_by=(KEY,))
    assert rows(case) == [(1, 1, 0), (None, 2, 0)]


def test_sums_of_doubles_are_exact_and_nan_is_the_greatest() -> None:
    types = ("int64", "double")
    calls = (Agg("SUM", VALUE), Agg("AVG", VALUE), Agg("MIN", VALUE), Agg("MAX", VALUE))
    exact = aggregate(stream("A", (0, 1, 1e100), (0, 1, 1.0), (0, 1, -1e100), types=types), Range(None), *calls)
    assert rows(exact) == [(1.0, 1.0 / 3, -1e100, 1e100, 0)]
    special = aggregate(stream("A", (0, 1, nan), (0, 1, 1.0), types=types), Range(None), *calls)
    assert rows(special) == [("NaN", "NaN", 1.0, "NaN", 0)]


def test_sums_of_decimals_are_decimals() -> None:
    a = stream("A", (0, 1, Decimal("1.25")), (0, 1, Decimal("2.50")), types=("int64", "decimal(10,2)"))
    assert rows(aggregate(a, Range(None), Agg("SUM", VALUE), Agg("AVG", VALUE))) == [(Decimal("3.75"), 1.875, 0)]


def test_results_that_are_gone_at_once_are_in_no_aggregate() -> None:
    case = aggregate(stream("A", (0, 1, 1), (0, 1, 2)), Rows(1), Agg("SUM", VALUE))
    assert rows(case) == [(2, 0)]


# EXCEPT -----------------------------------------------------------------------------------------


def difference(a: Stream, b: Stream, window_a: Window, window_b: Window, **settings: object) -> Case:
    """A minus B on k; the rows are (A.k, A.v, instant)."""
    made: dict[str, object] = {
        "select": (Out(KEY), Out(VALUE), Out(ResultTime(), "rt")),
        "where": (),
        "minus": ((Out(Col("B", "k")),),),
        "by": ("k",),
    }
    return join(a, b, window_a, window_b, **{**made, **settings})


def test_a_left_tuple_is_there_while_nothing_blocks_it() -> None:
    a, b = stream("A", (0, 1, 7)), stream("B", (3, 1), (20, 1))
    case = difference(a, b, Range(10), Range(4))
    # Blocked during [3, 7): it enters at 0 and again at 7, and leaves at 3 and 10.
    assert rows(case) == [(1, 7, 0), (1, 7, 7)]
    assert rows(replace(case, output="dstream")) == [(1, 7, 10), (1, 7, 3)]


def test_a_blocker_of_the_same_instant_comes_in_time() -> None:
    a, b = stream("A", (3, 1, 7)), stream("B", (3, 1))
    assert rows(difference(a, b, Range(10), Range(4))) == [(1, 7, 7)]
    assert rows(difference(a, b, Range(4), Range(4))) == []


def test_blockers_that_follow_without_a_gap_are_one() -> None:
    a, b = stream("A", (0, 1, 7)), stream("B", (2, 1), (4, 1), (5, 1))
    assert rows(difference(a, b, Range(10), Range(2))) == [(1, 7, 0), (1, 7, 7)]


def test_null_keys_are_never_blocked_and_never_block() -> None:
    a, b = stream("A", (1, None, 7), (1, 1, 8)), stream("B", (0, None))
    assert rows(difference(a, b, Range(10), Range(10))) == [(1, 8, 1), (None, 7, 1)]


def test_the_left_side_is_a_bag() -> None:
    a, b = stream("A", (1, 1, 7), (1, 1, 7), (1, 2, 7)), stream("B", (0, 2))
    assert rows(difference(a, b, Range(None), Range(None))) == [(1, 7, 1), (1, 7, 1)]


def test_without_by_the_whole_lists_are_the_key() -> None:
    a, b = stream("A", (1, 1, 7), (1, 1, 8)), stream("B", (0, 1, 7))
    whole = ((Out(Col("B", "k")), Out(Col("B", "v"))),)
    case = difference(a, b, Range(9), Range(20), select=(Out(KEY), Out(VALUE)), minus=whole, by=())
    assert rows(case) == [(1, 8)]


def test_selections_apply_before_the_difference() -> None:
    a, b = stream("A", (1, 1, 7), (1, 2, 8)), stream("B", (0, 1, 0), (0, 2, 5))
    only = (Cmp("=", Col("B", "v"), Lit(5, "int64")),)
    assert rows(difference(a, b, Range(9), Range(20), where=only)) == [(1, 7, 1)]


def test_a_blocker_that_is_pushed_out_no_longer_blocks() -> None:
    a, b = stream("A", (1, 1, 7)), stream("B", (0, 1), (4, 2))
    assert rows(difference(a, b, Range(9), Rows(1))) == [(1, 7, 4)]


# Facts of the papers ----------------------------------------------------------------------------


def test_the_eight_results_of_jit_table_1() -> None:
    minutes = 60_000_000
    xy = ("int64", "int64")
    case = Case(
        streams=(
            stream("A", (1, 1, 100), (3, 1, 100), types=xy),
            stream("B", (0, 1, 1), (0, 1, 2), (0, 1, 3), (2, 1, 4), types=xy),
            stream("C", (4, 100, 0), types=xy),
        ),
        items=tuple(Item(name, name, Range(5 * minutes)) for name in "ABC"),
        select=(Out(Col("A", "ts")), Out(Col("B", "v")), Out(ResultTime(), "rt")),
        where=(SAME_KEY, Cmp("=", Col("A", "v"), Col("C", "k"))),
    )
    assert rows(case) == [(a, b, 4) for a in (1, 3) for b in (1, 2, 3, 4)]


def test_state_slice_table_2_without_the_pair_at_the_windows_width() -> None:
    a, b = stream("A", (0, 1, 1)), stream("B", (3, 1, 1), (4, 1, 2))
    assert rows(join(a, b, Range(4), Range(4))) == [(1, 1)]
    assert rows(join(a, b, Range(5), Range(5))) == [(1, 1), (1, 2)], "a hair larger, and the paper's trace is right"
