"""Every class of bad input to ``replay``, with the words that a person sees; nothing is dropped uncounted."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import thalweg
from thalweg.errors import BindError, InputError, OptionError, PlanError, QueryError
from thalweg.replayer import run

TEXT = "SELECT a.v AS x, b.v AS y FROM a [RANGE 10 SECONDS], b [RANGE 10 SECONDS] WHERE a.k = b.k"
SECOND = 1_000_000


def stream(times: list[Any], keys: list[Any] | None = None) -> pa.Table:
    return pa.table(
        {
            "ts": pa.array(times, pa.int64()),
            "k": pa.array(keys or [1] * len(times), pa.int64()),
            "v": pa.array(range(len(times)), pa.int64()),
        }
    )


STREAMS = {"a": stream([0, SECOND, 2 * SECOND]), "b": stream([SECOND, 30 * SECOND])}


def test_rows_without_a_time_are_counted_and_kept_out() -> None:
    result = run(TEXT, {"a": stream([0, None, 2]), "b": stream([None, 1])})
    assert result.summary.bad == {"a": 1, "b": 1}
    assert result.summary.tuples_in == {"a": 2, "b": 1}
    assert result.table.to_pylist() == [{"x": 0, "y": 1}, {"x": 2, "y": 1}]


def test_unsorted_rows_are_sorted() -> None:
    shuffled = {"a": STREAMS["a"].take([2, 0, 1]), "b": STREAMS["b"].take([1, 0])}
    assert thalweg.replay(TEXT, shuffled).equals(thalweg.replay(TEXT, STREAMS))


def test_late_rows_are_counted_and_can_be_had() -> None:
    disordered = {"a": stream([0, 20 * SECOND, 5 * SECOND, 19 * SECOND]), "b": stream([0, 10 * SECOND, 30 * SECOND])}
    result = run(TEXT, disordered, options={"lateness": "2 seconds", "late_rows": "table"})
    assert result.summary.late == {"a": 1, "b": 0}
    assert result.late["a"].to_pylist() == [{"ts": 5 * SECOND, "k": 1, "v": 2}]
    assert run(TEXT, disordered).summary.late == {"a": 0, "b": 0}


@pytest.mark.parametrize("empty", ["a", "b"])
def test_an_empty_table_joins_nothing(empty: str) -> None:
    answer = thalweg.replay(TEXT, {**STREAMS, empty: stream([])})
    assert answer.num_rows == 0
    assert answer.schema.names == ["x", "y"]


def fails(error: type[Exception], says: str, text: str = TEXT, streams: Any = None, **arguments: Any) -> None:
    with pytest.raises(error) as caught:
        run(text, STREAMS if streams is None else streams, **arguments)
    assert str(caught.value) == says


def test_a_missing_time_column() -> None:
    fails(
        InputError,
        "stream 'a' has no column 'when' to take its event time from. Its columns are ts, k, v. "
        "Say which one it is with time=..., or that it is a static relation with time={'a': None}.",
        time={"a": "when"},
    )


def test_times_of_streams_that_are_not_there() -> None:
    fails(InputError, "time names a stream 'aa', which is not there. Did you mean 'a'?", time={"aa": "ts"})
    fails(InputError, "time names a stream 'xyz', which is not there. The streams are a, b.", time={"xyz": "ts"})
    fails(InputError, "time of stream 'a' is 7, not the name of a column", time={"a": 7})
    fails(
        InputError,
        "time=None is neither the name of a column nor a mapping from streams to theirs. "
        "A static relation is named as one: time={'a': None}.",
        time=None,
    )


def test_streams_that_are_no_mapping() -> None:
    needs = 'and should name the table of each stream, as in {"trades": trades, "quotes": quotes}'
    fails(InputError, f"streams is a int, {needs}", streams=5)
    fails(InputError, f"streams is a list, {needs}", streams=[STREAMS["a"]])
    fails(InputError, "the name of a stream is a text, not 1", streams={1: STREAMS["a"]})
    with pytest.raises(InputError, match=r"stream 'a' is a str that .* `thalweg replay` reads files\."):
        run(TEXT, {**STREAMS, "a": "trades.csv"})


class TestIntegerTimes:
    """They are microseconds, unless a unit is said; what looks like another one is told."""

    SECONDS = 1_700_000_000

    def streams(self, factor: int) -> dict[str, pa.Table]:
        return {"a": stream([self.SECONDS * factor]), "b": stream([(self.SECONDS + 3) * factor])}

    @pytest.mark.parametrize(("unit", "factor"), [("s", 1), ("ms", 1_000), ("us", 1_000_000), ("ns", 10**9)])
    def test_the_unit_is_said(self, unit: Any, factor: int) -> None:
        text = TEXT.replace("a.v AS x", "a.ts AS x, RESULT_TIME() AS t").replace("10 SECONDS", "3 SECONDS")
        assert thalweg.replay(text, self.streams(factor), time_unit=unit).num_rows == 0
        text = text.replace("3 SECONDS", "4 SECONDS")
        answer = thalweg.replay(text, self.streams(factor), time_unit={"a": unit, "b": unit})
        assert answer.schema.field("x").type == pa.timestamp("us", "UTC")
        assert answer["x"].cast(pa.int64()).to_pylist() == [self.SECONDS * SECOND]
        assert answer["t"].cast(pa.int64()).to_pylist() == [(self.SECONDS + 3) * SECOND]

    @pytest.mark.parametrize(("likely", "named", "factor"), [("s", "seconds", 1), ("ms", "milliseconds", 1_000)])
    def test_what_looks_like_another_unit_is_told(self, likely: str, named: str, factor: int) -> None:
        with pytest.warns(thalweg.InputWarning) as told:
            thalweg.replay(TEXT, self.streams(factor))
        assert [str(each.message) for each in told] == [
            f"the event times 'ts' of stream '{name}' are read as microseconds since 1970: {time} to {time}. They look "
            f"like {named}: say time_unit='{likely}'. If they are microseconds, say time_unit='us'."
            for name, time in (("a", self.SECONDS * factor), ("b", (self.SECONDS + 3) * factor))
        ]
        assert {each.filename for each in told} == {__file__}
        assert thalweg.replay(TEXT, self.streams(factor), time_unit="us").num_rows == 1

    def test_units_that_cannot_be(self) -> None:
        fails(InputError, "time_unit is one of s, ms, us, ns, not 'minutes'", time_unit="minutes")
        fails(
            InputError, "time_unit names a stream 'c', which is not there. The streams are a, b.", time_unit={"c": "s"}
        )
        stamped = pa.table({"ts": pa.array([0], pa.timestamp("s")), "k": [1], "v": [1]})
        fails(
            InputError,
            "time_unit of stream 'a' is 's', but its event time 'ts' is timestamp[s], no integer. "
            "Name the streams alone whose times are integers, as in time_unit={'trades': 'ms'}.",
            streams={**STREAMS, "a": stamped},
            time_unit={"a": "s"},
        )
        fails(
            InputError,
            "column 'ts' of stream 'a' has times outside the years that microseconds can count: 1700000000000000 to "
            "1700000000000000, read as seconds. They look like microseconds: say time_unit='us'",
            streams={**STREAMS, "a": stream([self.SECONDS * SECOND])},
            time_unit={"a": "s"},
        )
        fails(
            InputError,
            "column 'ts' of stream 'a' has times outside the years that microseconds can count: 5000000000000000000 to "
            "5000000000000000000, read as microseconds",
            streams={**STREAMS, "a": stream([5 * 10**18])},
        )

    def test_every_width_of_integers(self) -> None:
        for kind in (pa.int8(), pa.uint16(), pa.uint64()):
            table = pa.table({"ts": pa.array([100], kind), "k": [1], "v": [1]})
            for unit in ("s", "ns"):
                answer = thalweg.replay("SELECT ts FROM a [NOW]", {"a": table}, time_unit=unit)
                assert answer["ts"].cast(pa.int64()).to_pylist() == [100 * SECOND if unit == "s" else 0]
        table = pa.table({"ts": pa.array([2**63], pa.uint64()), "k": [1], "v": [1]})
        with pytest.raises(InputError, match="has times outside the years that microseconds can count"):
            thalweg.replay("SELECT ts FROM a [NOW]", {"a": table}, time_unit="ns")

    def test_no_times_at_all(self) -> None:
        assert thalweg.replay(TEXT, {"a": stream([]), "b": stream([])}, time_unit="ms").num_rows == 0


def test_times_with_and_without_a_zone_side_by_side_are_told() -> None:
    def zoned(zone: str | None) -> pa.Table:
        return pa.table({"ts": pa.array([0], pa.timestamp("us", zone)), "k": [1], "v": [1]})

    with pytest.warns(thalweg.InputWarning) as told:
        thalweg.replay(TEXT, {"a": zoned("Europe/Berlin"), "b": zoned(None)})
    assert [str(each.message) for each in told] == [
        "the event times of 'a' have a time zone, and those of 'b' have none: these are taken as UTC. "
        "Give them a zone if they are local times."
    ]
    for one in ("UTC", None):
        assert thalweg.replay(TEXT, {"a": zoned(one), "b": zoned(one)}).num_rows == 1


def test_replay_tells_of_rows_that_took_no_part() -> None:
    streams = {"a": stream([0, 20 * SECOND, 5 * SECOND, None, None]), "b": stream([0, 10 * SECOND, 30 * SECOND])}
    with pytest.warns(thalweg.InputWarning) as told:
        thalweg.replay(TEXT, streams, options={"lateness": "2 seconds"})
    assert [str(each.message) for each in told] == [
        "2 rows of stream 'a' had no event time and took no part",
        "1 row of stream 'a' came too late and took no part",
    ]


class TestColumnsOfRareTypes:
    """Each is of use, or refused by name where a query reads it, and in nobody's way where none does."""

    def answer(self, left: pa.Array, right: pa.Array, op: str = "=") -> list[tuple[int, int]]:
        streams = {
            name: pa.table({"ts": [0] * len(keys), "k": keys, "v": list(range(len(keys)))})
            for name, keys in (("a", left), ("b", right))
        }
        rows = run(TEXT.replace("a.k = b.k", f"a.k {op} b.k"), streams).table.to_pylist()
        return sorted((row["x"], row["y"]) for row in rows)

    @pytest.mark.parametrize("other", [[1, None], [1.5, None], ["x", None], [True, None], [None, None]])
    def test_keys_that_are_all_null(self, other: list[Any]) -> None:
        nulls = pa.nulls(1)
        equal = [(0, 1)] if other[0] is not None else [(0, 0), (0, 1)]
        for op, expected in (("=", []), ("<", []), ("<=>", equal)):
            assert self.answer(nulls, pa.array(other), op) == expected

    def test_small_floats_short_decimals_and_durations_are_keys(self) -> None:
        halves = pa.array(np.array([0.5, 1.5], np.float16))
        assert self.answer(halves, halves) == [(0, 0), (1, 1)]
        assert self.answer(halves, halves, "<") == [(0, 1)]
        wide = pa.array([Decimal(1), Decimal(2)], pa.decimal256(38, 0))
        assert self.answer(wide, pa.array([2, 1])) == [(0, 1), (1, 0)]
        seconds, millis = pa.array([1, 2], pa.duration("s")), pa.array([2_000, None], pa.duration("ms"))
        assert self.answer(seconds, millis) == [(1, 0)]
        kept = thalweg.replay("SELECT d FROM a [NOW]", {"a": {"ts": [0, 0], "d": seconds}})
        assert [value.total_seconds() for value in kept["d"].to_pylist()] == [1, 2]

    def test_a_decimal_of_too_many_digits(self) -> None:
        table = pa.table(
            {"ts": [0, None], "k": [1, 1], "v": [1, 2], "w": pa.array([Decimal(1)] * 2, pa.decimal256(50, 0))}
        )
        result = run(TEXT, {**STREAMS, "a": table}, options={"late_rows": "table", "lateness": "1 second"})
        assert result.table.to_pylist() == [{"x": 1, "y": 0}]
        assert result.late["a"].column_names == ["ts", "k", "v", "w"]
        fails(
            BindError,
            "column 'w' of stream 'a' has the type decimal256(50, 0), which nothing can be computed from "
            "(line 1, column 81). Cast it in the DataFrame, to STRING say, or leave it out of the query.",
            TEXT.replace("a.k = b.k", "a.w = b.k"),
            {**STREAMS, "a": table},
        )


def test_two_columns_of_one_name() -> None:
    twice = pa.table([[0], [1], [2]], names=["ts", "k", "k"])
    fails(InputError, "stream 'a' has 2 columns named 'k'; names must differ", streams={**STREAMS, "a": twice})


def test_a_time_column_of_another_type() -> None:
    texts = pa.table({"ts": ["noon"], "k": [1], "v": [1]})
    with pytest.raises(BindError, match=r"'ts'.*string"):
        run(TEXT, {**STREAMS, "a": texts})


def test_a_missing_column() -> None:
    fails(
        BindError,
        "stream 'b' has no column 'key' (line 1, column 89). Its columns are ts, k, v.",
        TEXT.replace("b.k", "b.key"),
    )


def test_keys_of_types_that_cannot_be_equal() -> None:
    with pytest.raises(BindError, match=r"line 1, column \d+"):
        run(TEXT, {**STREAMS, "a": pa.table({"ts": [0], "k": ["x"], "v": [0]})})


def test_a_missing_stream() -> None:
    with pytest.raises(BindError, match="'b'"):
        run(TEXT, {"a": STREAMS["a"]})


def test_something_that_is_no_table() -> None:
    with pytest.raises(InputError, match="stream 'a' is a int that cannot be read as a table"):
        run(TEXT, {**STREAMS, "a": 7})


def test_plans_that_do_not_fit() -> None:
    fails(PlanError, "plan 'a c': 'c' is not a stream of the query. Its streams are a, b.", options={"plan": "a c"})
    fails(
        PlanError,
        "plan 'a': stream 'b' is missing; every stream of the query stands exactly once, as in 'a b'",
        options={"plan": "a"},
    )


def test_transitions_that_cannot_happen() -> None:
    fails(
        PlanError,
        "the transition to 'b a' at position 6 is past the end: the input has 5 tuples",
        transitions=[(6, "b a")],
    )
    fails(PlanError, "a transition happens at a position counted from 0, not -1", transitions=[(-1, "b a")])
    fails(PlanError, "a transition happens at a position counted from 0, not 1.5", transitions=[(1.5, "b a")])
    fails(
        PlanError, "a transition is a pair of a position and a plan, as in (1000, 'b a'), not (1,)", transitions=[(1,)]
    )
    fails(PlanError, "a transition leads to the text of a plan, not to 7", transitions=[(1, 7)])
    assert run(TEXT, STREAMS, transitions=[(5, "b a")]).summary.results == 3


def test_budgets_that_no_run_can_have() -> None:
    pair = "a change of budget is a position and a budget, as in (1000, '60%'), not"
    fails(OptionError, f"{pair} (1,)", budgets=[(1,)])
    fails(OptionError, f"{pair} '5%'", budgets=["5%"])
    where = "the budget is to change to 10 at position 6. Positions count the 5 tuples of the input from 0."
    fails(OptionError, where, budgets=[(6, 10)])
    unlike = "option budget is a number of probes per second of event time, at least 0, or a text such as '60%'"
    fails(OptionError, f"{unlike} of what is needed, or 'auto', or None, not 'all'", budgets=[(1, "all")])
    counting = "SELECT COUNT(*) AS n FROM a [RANGE 5 SECONDS]"
    wrong = "option budget leaves results of joins out, and query 'query1' is an aggregation, which would be wrong"
    with pytest.raises(OptionError, match=wrong):
        run(counting, STREAMS, options={"budget": "50%"})
    without = "SELECT k FROM a [RANGE 5 SECONDS] EXCEPT SELECT k FROM b [RANGE 5 SECONDS]"
    with pytest.raises(OptionError, match="is a set difference, which would be wrong without them"):
        run(without, STREAMS, budgets=[(1, 10)])


def test_options_that_do_not_exist_or_fit() -> None:
    fails(OptionError, "unknown option 'plann'. Did you mean 'plan'?", options={"plann": "a b"})
    fails(OptionError, "option states is one of auto, all, none, not 'some'", options={"states": "some"})
    known = "jisc, moving_state, parallel_track, cacq, stairs, stairs_jisc, parallel_track_printed"
    fails(OptionError, f"option migration is one of {known}, not 'lazy'", options={"migration": "lazy"})
    fails(OptionError, f"option migration is one of {known}, not 'jisc_printed'", options={"migration": "jisc_printed"})
    unlike = "option memory_limit is a number of bytes or a text such as '64 MB', at most 8 EB, not"
    fails(OptionError, f"{unlike} '64 loaves'", options={"memory_limit": "64 loaves"})
    fails(OptionError, f"{unlike} '{'9' * 59}...", options={"memory_limit": "9" * 400})
    fails(OptionError, f"{unlike} 0", options={"memory_limit": 0})
    fails(OptionError, "option plan is a plan such as '(A B) C', or None, not 0", options={"plan": 0})
    fails(OptionError, "option lateness is an interval such as '5 seconds', or None, not 5", options={"lateness": 5})
    fails(OptionError, "options are thalweg.Options(...) or a mapping of their names, not 'jit'", options="jit")
    alone = "option memory_limit makes keys absent, which goes with migration jisc, not moving_state"
    fails(OptionError, alone, options={"memory_limit": "64 MB", "migration": "moving_state"})
    unlike = "option budget is a number of probes per second of event time, at least 0, or a text such as '60%'"
    for value in (-1, "60", "many", 1.5, True):
        fails(OptionError, f"{unlike} of what is needed, or 'auto', or None, not {value!r}", options={"budget": value})
    eddy = "option budget goes with migration jisc or moving_state, not cacq"
    fails(OptionError, eddy, options={"budget": 5, "migration": "cacq"})
    parts = {"budget": 5, "states": "all", "allocation": "harvest"}
    none = "option allocation harvest looks at parts of windows, and states have none: it goes with states auto or none"
    fails(OptionError, f"{none}, not all", options=parts)
    for weight in (0, -1, "much", True, {"q": 0}):
        what = next(iter(weight.values())) if isinstance(weight, dict) else weight
        fails(
            OptionError,
            f"option weight is a number greater than 0, or one for each name of a query, not {what!r}",
            options={"weight": weight},
        )
    known = "jaqpot, grepp, best_hj, equal_hj, global_hjpr, ebest_hj, sbest_hj, random_shedding, harvest"
    fails(OptionError, f"option allocation is one of {known}, not 'fair'", options={"allocation": "fair"})
    fails(OptionError, "option batch_size is a number of tuples, at least 1, not 0", options={"batch_size": 0})
    fails(
        OptionError,
        "option adaptive is True, False or thalweg.Adaptivity(...), not 'yes'",
        options={"adaptive": "yes"},
    )
    fails(
        OptionError,
        "unknown setting of adaptive 'perod'. Did you mean 'period'?",
        options={"adaptive": {"perod": 1}},
    )
    fails(
        OptionError,
        "setting period of adaptive is a number, at least 1, not 0",
        options={"adaptive": {"period": 0}},
    )
    fails(
        OptionError,
        "setting gain of adaptive is a share, at least 0 and less than 1, not 1.5",
        options={"adaptive": {"gain": 1.5}},
    )
    fails(
        OptionError,
        "option production is push, jit, auto or thalweg.Feedback(...), not 'pull'",
        options={"production": "pull"},
    )
    fails(
        OptionError,
        "unknown setting of production 'latice'. Did you mean 'lattice'?",
        options={"production": {"latice": 2}},
    )
    fails(
        OptionError,
        "option production: when is one of always, auto, not 'never'",
        options={"production": {"when": "never"}},
    )
    for lattice in (0, 1.5, True):
        fails(
            OptionError,
            f"setting lattice of production is a number of components, at least 1, not {lattice}",
            options={"production": {"lattice": lattice}},
        )
    for bits in (0, 100, 2.0, True, 1 << 31):
        fails(
            OptionError,
            f"setting filter_bits of production is a power of two up to 1,073,741,824, or None, not {bits}",
            options={"production": {"filter_bits": bits}},
        )
    with pytest.raises(OptionError, match="option lateness is '2 fortnights': unknown unit of time 'fortnights'"):
        run(TEXT, STREAMS, options={"lateness": "2 fortnights"})


def test_several_queries_and_none_picked() -> None:
    two = f"CREATE QUERY p AS {TEXT}; CREATE QUERY q AS {TEXT}"
    fails(QueryError, "the text has 2 queries (p, q). Say which one: query='p'.", two)
    fails(QueryError, "the text has no query 'r'. Its queries are p, q.", two, query="r")
    assert run(two, STREAMS, query="Q").summary.query == "q"
    assert thalweg.replay(two, STREAMS, query="q").equals(thalweg.replay(TEXT, STREAMS))
