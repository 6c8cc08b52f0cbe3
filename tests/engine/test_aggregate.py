"""Running aggregates against a recomputation of every instant from the results alive."""

from __future__ import annotations

import math
from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

from tests.engine.uncompiled import uncompiled
from thalweg.cql.query import AggregateCall, Aggregation, Output, Projection
from thalweg.engine.kernels import aggregate, extrema, sums
from thalweg.engine.outputs.aggregate import RunningAggregation
from thalweg.errors import InputError, ThalwegError, UnsupportedError

INT, DOUBLE = pa.int64(), pa.float64()
NAN = float("nan")
NEVER = 10**9


def call(function: str, argument: pa.DataType | None, result: pa.DataType) -> AggregateCall:
    return AggregateCall(function, exp.column("x", "t") if argument is not None else None, argument, result)  # type: ignore[arg-type]


def aggregation(calls: list[AggregateCall], keys: list[pa.DataType]) -> Aggregation:
    return Aggregation(tuple(Projection(f"k{i}", exp.column("k"), kind) for i, kind in enumerate(keys)), tuple(calls))


# Values of each argument type, chosen to collide, cancel and round.
DOUBLES = st.sampled_from(
    [0.0, -0.0, 1.0, -1.0, 0.1, 0.2, 1e16, -1e16, 5e-324, -5e-324, 2.3e-308, 1.7e308, -1.7e308, 1e-30, 3.0]
) | st.floats(allow_nan=False, allow_infinity=False)
WILD = DOUBLES | st.sampled_from([NAN, math.inf, -math.inf])
INTS = st.integers(-5, 5) | st.integers(-(2**62) // 10, 2**62 // 10)
SHORT = st.integers(-(10**18) + 1, 10**18 - 1).map(lambda n: Decimal(n).scaleb(-3))
LONG = st.integers(-(10**30), 10**30).map(lambda n: Decimal((int(n < 0), tuple(map(int, str(abs(n)))), -2)))
SHORT_TYPE, LONG_TYPE = pa.decimal128(18, 3), pa.decimal128(33, 2)

CALLS: list[tuple[AggregateCall, st.SearchStrategy[Any] | None]] = [
    (call("COUNT", None, INT), None),
    (call("COUNT", pa.string(), INT), st.sampled_from(["a", "b"])),
    (call("SUM", DOUBLE, DOUBLE), WILD),
    (call("AVG", DOUBLE, DOUBLE), WILD),
    (call("SUM", pa.float32(), DOUBLE), st.floats(width=32)),
    (call("SUM", INT, INT), INTS),
    (call("AVG", INT, DOUBLE), st.integers(-(2**63), 2**63 - 1)),
    (call("SUM", pa.int16(), INT), st.integers(-5, 5)),
    (call("SUM", SHORT_TYPE, pa.decimal128(28, 3)), SHORT),
    (call("AVG", SHORT_TYPE, pa.decimal128(22, 7)), SHORT),
    (call("SUM", LONG_TYPE, pa.decimal128(38, 2)), LONG),
    (call("AVG", LONG_TYPE, pa.decimal128(37, 6)), LONG),
]
ORDERED: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (INT, st.sampled_from([-(2**63), 2**63 - 1, 0, 1])),
    (pa.int8(), st.integers(-128, 127)),
    (pa.uint64(), st.sampled_from([0, 1, 2**63, 2**64 - 1])),
    (DOUBLE, WILD),
    (pa.float32(), st.floats(width=32)),
    (pa.bool_(), st.booleans()),
    (pa.date32(), st.dates(date(1960, 1, 1), date(1980, 1, 1))),
    (pa.time64("us"), st.times()),
    (pa.timestamp("us"), st.datetimes(datetime(1960, 1, 1), datetime(1980, 1, 1))),
    (pa.timestamp("us", "UTC"), st.datetimes(datetime(1960, 1, 1), timezones=st.just(UTC))),
    (pa.duration("us"), st.timedeltas(timedelta(-1), timedelta(1))),
    (SHORT_TYPE, SHORT),
    (LONG_TYPE, LONG),
    (pa.string(), st.sampled_from(["", "a", "b", "ab", "Z", "ä", "\U0001f600", "\uffff"]) | st.text(max_size=2)),
    (pa.binary(), st.binary(max_size=2)),
]
CALLS += [(call(function, kind, kind), values) for kind, values in ORDERED for function in ("MIN", "MAX")]

KEYS: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (INT, st.integers(0, 3)),
    (pa.string(), st.sampled_from(["a", "b"])),
    (DOUBLE, st.sampled_from([0.0, -0.0, NAN, 1.0])),
]


@dataclass(frozen=True)
class Result:
    enter: int
    leave: int
    keys: tuple[Any, ...]
    arguments: tuple[Any, ...]


@dataclass(frozen=True)
class Event:
    time: int
    sign: int
    slot: int
    result: Result


@st.composite
def events_of(draw: st.DrawFn, keys: list[Any], arguments: list[Any]) -> list[Event]:
    """Events in time order, entering before leaving, in slots that are reused as soon as they are free."""
    result = st.builds(
        Result,
        st.integers(0, 8),
        st.integers(0, 8) | st.just(NEVER),
        st.tuples(*(st.none() | key for key in keys)),
        st.tuples(*(st.none() if argument is None else st.none() | argument for argument in arguments)),
    )
    results = draw(st.lists(result, max_size=12))
    moments = []
    for number, r in enumerate(results):
        luck = sorted((draw(st.integers(0, 5)), draw(st.integers(0, 5))))
        moments.append((r.enter, luck[0], number, 1))
        if r.enter + r.leave < NEVER:
            moments.append((r.enter + r.leave, luck[1] if r.leave == 0 else draw(st.integers(0, 5)), number + 0.5, -1))
    slots: dict[int, int] = {}
    free = list(range(len(results)))
    events = []
    for moment, _, number, sign in sorted(moments):
        number = int(number)
        if sign > 0:
            slots[number] = free.pop(0)
        else:
            free.insert(0, slots[number])
        events.append(Event(moment, sign, slots[number], results[number]))
    return events


def naive_sum(values: list[Any]) -> Any:
    if isinstance(values[0], float):
        special = [value for value in values if not math.isfinite(value)]
        if special:
            return sum(special)
        total = sum(map(Fraction, values))
        try:
            return float(total)
        except OverflowError:
            return math.inf if total > 0 else -math.inf
    return sum(values[1:], values[0])


def naive_value(c: AggregateCall, arguments: list[Any]) -> Any:
    if c.argument is None:
        return len(arguments)
    values = [value for value in arguments if value is not None]
    if c.function == "COUNT":
        return len(values)
    if not values:
        return None
    if c.function in ("MIN", "MAX"):
        return (min if c.function == "MIN" else max)(values, key=lambda v: (v != v, 0 if v != v else v))
    total = naive_sum([Fraction(v) if isinstance(v, Decimal) else v for v in values])
    if c.function == "AVG" and pa.types.is_decimal(c.type):
        return half_up(Fraction(total) / len(values), c.type.scale)
    if c.function == "AVG":
        return total / len(values) if isinstance(total, float) else float(Fraction(total) / len(values))
    return total


def half_up(number: Fraction, scale: int) -> Fraction:
    whole = math.floor(abs(number) * 10**scale + Fraction(1, 2))
    return Fraction(whole if number >= 0 else -whole, 10**scale)


def plain(value: Any) -> Any:
    """Equal for equal values, whatever they are written as."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return Fraction(value) if isinstance(value, Decimal) else value


def naive(events: list[Event], calls: list[AggregateCall], grouped: bool, output: Output) -> list[tuple[Any, ...]]:
    def relation(alive: list[Result]) -> dict[Any, tuple[Any, ...]]:
        groups: dict[Any, list[Result]] = {} if grouped else {(): []}
        for result in alive:
            groups.setdefault(tuple(map(plain, result.keys)), []).append(result)
        return {
            key: tuple(plain(naive_value(c, [r.arguments[i] for r in members])) for i, c in enumerate(calls))
            for key, members in groups.items()
        }

    alive: dict[int, Result] = {}
    before = relation([])
    rows = []
    for instant in sorted({event.time for event in events}):
        for event in events:
            if event.time == instant and event.sign > 0:
                alive[event.slot] = event.result
            elif event.time == instant:
                del alive[event.slot]
        after = relation(list(alive.values()))
        old, new = (before, after) if output is Output.ISTREAM else (after, before)
        rows += [(instant, *key, *values) for key, values in new.items() if old.get(key) != values]
        before = after
    return rows


def run(
    events: list[Event],
    calls: list[AggregateCall],
    keys: list[pa.DataType],
    output: Output,
    cuts: set[int],
) -> list[tuple[Any, ...]]:
    running = RunningAggregation(aggregation(calls, keys), output)
    instants = sorted({event.time for event in events})
    batches: list[list[Event]] = [[]]
    for instant in instants:
        if instant in cuts:
            batches.append([])
        batches[-1] += [event for event in events if event.time == instant]
    rows: list[tuple[Any, ...]] = []
    for batch in batches:
        entering = [event.result for event in batch if event.sign > 0]
        columns = {f"__k{i}": pa.array([r.keys[i] for r in entering], kind) for i, kind in enumerate(keys)}
        for i, c in enumerate(calls):
            if c.argument_type is not None:
                columns[f"__x{i}"] = pa.array([r.arguments[i] for r in entering], c.argument_type)
        times, table = running.apply(
            np.array([event.time for event in batch], np.int64),
            np.array([event.sign for event in batch], np.int8),
            np.array([event.slot for event in batch], np.int64),
            pa.table(columns),
        )
        assert table.schema == running.schema
        assert len(times) == table.num_rows
        values = [map(plain, column.to_pylist()) for column in table.columns]
        rows += zip(times.tolist(), *values, strict=True)
    assert [row[0] for row in rows] == sorted(row[0] for row in rows)
    alive = {event.slot: event for event in events}
    remaining = [event.result for event in alive.values() if event.sign > 0]
    assert running.results == len(remaining)
    assert running.groups == len({tuple(map(plain, result.keys)) for result in remaining})
    return rows


def check(data: st.DataObject, chosen: list[tuple[AggregateCall, Any]]) -> None:
    keys = data.draw(st.lists(st.sampled_from(KEYS), max_size=2))
    events = data.draw(events_of([key[1] for key in keys], [values for _, values in chosen]))
    output = data.draw(st.sampled_from(Output))
    cuts = data.draw(st.sets(st.integers(0, 16)))
    calls = [c for c, _ in chosen]
    found = run(events, calls, [key[0] for key in keys], output, cuts)
    assert Counter(found) == Counter(naive(events, calls, bool(keys), output))


@settings(max_examples=300, deadline=None)  # the first call compiles
@given(st.data())
def test_any_aggregates_match_recomputation(data: st.DataObject) -> None:
    check(data, data.draw(st.lists(st.sampled_from(CALLS), max_size=3)))


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("chosen", CALLS, ids=lambda c: f"{c[0].function}-{c[0].argument_type}")
def test_each_aggregate_matches_recomputation(chosen: tuple[AggregateCall, Any], compiled: bool) -> None:
    @settings(max_examples=25 if compiled else 5, deadline=None)
    @given(st.data())
    def matches(data: st.DataObject) -> None:
        with nullcontext() if compiled else uncompiled(aggregate, extrema, sums):
            check(data, [chosen])

    matches()


@pytest.mark.parametrize("seed", range(4))
def test_long_lives_in_few_groups(seed: int) -> None:
    rng = np.random.default_rng(seed)
    calls = [call("MIN", INT, INT), call("MAX", pa.string(), pa.string()), call("SUM", DOUBLE, DOUBLE)]
    moments = []
    for number in range(500):
        enter, life = int(rng.integers(0, 300)), int(rng.integers(0, 100))
        arguments = (int(rng.integers(0, 50)), f"text {rng.integers(0, 2000)}", float(rng.normal()))
        result = Result(enter, life, (int(rng.integers(0, 3)),), arguments)
        moments += [(enter, 1, number, result), (enter + life, -1, number, result)]
    moments.sort(key=lambda moment: (moment[0], -moment[1], moment[2]))
    events = [Event(*moment) for moment in moments]
    output = Output.ISTREAM if seed % 2 else Output.DSTREAM
    found = run(events, calls, [INT], output, set(range(0, 400, 37)))
    assert Counter(found) == Counter(naive(events, calls, True, output))


def sums_of(values: list[float], function: str = "SUM") -> list[float]:
    """The sum after each of these values, then after each left again, oldest first."""
    running = RunningAggregation(aggregation([call(function, DOUBLE, DOUBLE)], []), Output.ISTREAM)
    n = len(values)
    shown: list[float] = []  # a sum that stays the same is not emitted
    for i in range(2 * n):
        rows = pa.table({"__x0": pa.array(values[i : i + 1], DOUBLE)})
        sign = 1 if i < n else -1
        _, table = running.apply(np.array([i]), np.array([sign], np.int8), np.array([i % n]), rows)
        shown.append(table.column("__a0")[0].as_py() if table.num_rows else shown[-1])
    return shown


@settings(deadline=None)
@given(st.lists(DOUBLES.filter(lambda x: abs(x) < 1e300), min_size=1, max_size=20))
def test_sum_of_doubles_is_fsum_of_the_window(values: list[float]) -> None:
    n = len(values)
    windows = [values[: i + 1] for i in range(n)] + [values[i + 1 :] for i in range(n - 1)]
    shown = sums_of(values)
    assert shown[:-1] == [math.fsum(window) for window in windows]
    assert shown[-1] is None


@pytest.mark.parametrize(
    "values",
    [
        [1.0, 2.0**-53],  # half way, to even: stays
        [1.0, 2.0**-53, 5e-324],  # a little more than half way
        [1.0, -(2.0**-54), -5e-324],
        [1.7976931348623157e308, 9.979201547673598e291],  # less than half way to infinity
        [1e308, 1e308, -1e308, -1e308, 5e-324],
        [2.0**53, 1.0, 1.0, -0.5],
        [2.2250738585072014e-308, -5e-324],
        [5e-324] * 5,
    ],
)
def test_sums_of_doubles_at_the_edges(values: list[float]) -> None:
    expected = [naive_sum(values[: i + 1]) for i in range(len(values))]
    assert sums_of(values)[: len(values)] == expected


def test_a_sum_out_of_range_is_an_infinity_until_values_leave() -> None:
    assert sums_of([1.7e308, 1.7e308, -1.0]) == [1.7e308, math.inf, math.inf, 1.7e308, -1.0, None]


def apply(running: RunningAggregation, events: list[tuple[int, int, int]], **columns: pa.Array) -> list[Any]:
    times, signs, slots = zip(*events, strict=True)
    found, rows = running.apply(np.array(times), np.array(signs, np.int8), np.array(slots), pa.table(columns))
    return [(t, *row.values()) for t, row in zip(found.tolist(), rows.to_pylist(), strict=True)]


def test_without_group_by_there_is_always_one_row_and_the_first_is_not_emitted() -> None:
    calls = [call("COUNT", None, INT), call("SUM", INT, INT)]
    entering = RunningAggregation(aggregation(calls, []), Output.ISTREAM)
    leaving = RunningAggregation(aggregation(calls, []), Output.DSTREAM)
    events = [(3, 1, 0), (5, -1, 0)]
    assert apply(entering, events, __x1=pa.array([7])) == [(3, 1, 7), (5, 0, None)]
    assert apply(leaving, events, __x1=pa.array([7])) == [(3, 0, None), (5, 1, 7)]


def test_a_group_without_results_has_no_row() -> None:
    calls = [call("COUNT", None, INT)]
    entering = RunningAggregation(aggregation(calls, [INT]), Output.ISTREAM)
    leaving = RunningAggregation(aggregation(calls, [INT]), Output.DSTREAM)
    events = [(3, 1, 0), (5, -1, 0)]
    assert apply(entering, events, __k0=pa.array([4])) == [(3, 4, 1)]
    assert apply(leaving, events, __k0=pa.array([4])) == [(5, 4, 1)]
    assert (entering.results, entering.groups) == (0, 0)


def test_rows_of_an_instant_come_in_the_order_their_groups_were_touched() -> None:
    running = RunningAggregation(aggregation([call("COUNT", None, INT)], [pa.string()]), Output.ISTREAM)
    events = [(1, 1, 0), (1, 1, 1), (1, 1, 2), (2, -1, 2), (2, 1, 2)]
    rows = apply(running, events, __k0=pa.array(["z", "a", "z", "b"]))
    assert rows == [(1, "z", 2), (1, "a", 1), (2, "z", 1), (2, "b", 1)]


def test_what_does_not_change_is_not_emitted() -> None:
    running = RunningAggregation(aggregation([call("MAX", INT, INT)], []), Output.ISTREAM)
    events = [(1, 1, 0), (2, 1, 1), (3, -1, 1), (4, 1, 1), (4, -1, 0)]
    assert apply(running, events, __x0=pa.array([5, 3, 5])) == [(1, 5)]


def test_zeros_of_either_sign_are_one_group_and_one_extremum() -> None:
    running = RunningAggregation(aggregation([call("MIN", DOUBLE, DOUBLE)], [DOUBLE]), Output.ISTREAM)
    columns = {"__k0": pa.array([-0.0, 0.0]), "__x0": pa.array([0.0, -0.0])}
    rows = apply(running, [(1, 1, 0), (2, 1, 1)], **columns)
    assert [str(row) for row in rows] == ["(1, 0.0, 0.0)"]


def test_memory_follows_what_is_alive_not_what_has_been() -> None:
    calls = [call("SUM", DOUBLE, DOUBLE), call("MIN", pa.string(), pa.string()), call("COUNT", None, INT)]
    running = RunningAggregation(aggregation(calls, [INT]), Output.ISTREAM)
    rng = np.random.default_rng(3)
    size = 500
    for step in range(40):  # each batch of results replaces the one before, in other groups
        times = np.sort(np.concatenate([np.full(size if step else 0, step), np.full(size, step)]))
        signs = np.concatenate([-np.ones(size if step else 0), np.ones(size)]).astype(np.int8)
        slots = np.concatenate([rng.permutation(size)[: size if step else 0], rng.permutation(size)])
        keys = np.arange(size) + size * step
        rows = pa.table({"__k0": keys, "__x0": rng.normal(size=size), "__x1": pa.array([f"text {k}" for k in keys])})
        _, table = running.apply(times, signs, slots, rows)
        assert sorted(table.column("__k0").to_pylist()) == keys.tolist()
        assert dict(zip(*table.select(["__k0", "__a1"]).to_pydict().values(), strict=True)) == {
            k: f"text {k}" for k in keys.tolist()
        }
    assert running.groups == running.results == size
    assert running._keys is not None
    assert running._keys.capacity < 8 * size
    assert len(running._alive) < 16 * size
    assert len(running._slot_group) == size


@pytest.mark.parametrize(
    ("kind", "result", "values", "message"),
    [
        (
            INT,
            INT,
            [2**63 - 1, 1],
            r"SUM\(t\.x\) overflows: 9223372036854775808 does not fit in a 64-bit integer\. Cast its argument",
        ),
        (INT, INT, [-(2**63), -1], r"-9223372036854775809 does not fit"),
        (
            pa.decimal128(38, 2),
            pa.decimal128(38, 2),
            [Decimal("9" * 36 + ".99"), Decimal("0.01")],
            r"SUM\(t\.x\) overflows: 1000000000000000000000000000000000000\.00 does not fit in a decimal of 38 digits",
        ),
        (
            pa.decimal128(38, 0),
            pa.decimal128(38, 0),
            [Decimal("-" + "9" * 38)] * 4,
            r"-399999999999999999999999999999999999996 does not fit",
        ),
    ],
)
def test_a_sum_that_does_not_fit_is_an_error(
    kind: pa.DataType, result: pa.DataType, values: list[Any], message: str
) -> None:
    running = RunningAggregation(aggregation([call("SUM", kind, result)], []), Output.ISTREAM)
    with pytest.raises(ThalwegError, match=message):
        apply(running, [(1, 1, i) for i in range(len(values))], __x0=pa.array(values, kind))


def test_a_sum_may_pass_the_limits_within_an_instant() -> None:
    running = RunningAggregation(aggregation([call("SUM", INT, INT)], []), Output.ISTREAM)
    events = [(1, 1, 0), (2, 1, 1), (2, -1, 0)]
    assert apply(running, events, __x0=pa.array([2**63 - 1, 5])) == [(1, 2**63 - 1), (2, 5)]


def test_sums_of_18_digits_do_not_overflow() -> None:
    kind = pa.decimal128(18, 0)
    running = RunningAggregation(aggregation([call("SUM", kind, pa.decimal128(38, 0))], []), Output.ISTREAM)
    events = [(1, 1, i) for i in range(1000)]
    [(_, total)] = apply(running, events, __x0=pa.array([Decimal(10**18 - 1)] * 1000, kind))
    assert total == 1000 * (10**18 - 1)


@pytest.mark.parametrize(
    ("kind", "unscaled"),
    [
        (INT, [15919133098387265, 11335551745772264, 12708892244256300]),  # the sum is no double
        (INT, [-(2**63)] * 3),
        (pa.decimal128(38, 30), [903269621787359]),  # the power of ten is no double
        (pa.decimal128(18, 0), [10**18 - 1] * 30),
    ],
)
def test_averages_are_rounded_once(kind: pa.DataType, unscaled: list[int]) -> None:
    scale = kind.scale if pa.types.is_decimal(kind) else 0
    values = [Decimal((int(n < 0), tuple(map(int, str(abs(n)))), -scale)) if scale else n for n in unscaled]
    result = pa.decimal128(38, scale + 4) if pa.types.is_decimal(kind) else DOUBLE
    running = RunningAggregation(aggregation([call("AVG", kind, result)], []), Output.ISTREAM)
    [(_, average)] = apply(running, [(1, 1, i) for i in range(len(values))], __x0=pa.array(values, kind))
    if pa.types.is_decimal(kind):
        assert average == half_up(Fraction(sum(unscaled), len(unscaled) * 10**scale), scale + 4)
    else:
        assert average == sum(unscaled) / len(unscaled)


def test_an_unsigned_value_that_is_no_int64_is_an_error() -> None:
    running = RunningAggregation(aggregation([call("SUM", pa.uint64(), INT)], []), Output.ISTREAM)
    with pytest.raises(InputError, match=r"SUM\(t\.x\): a value of type uint64 does not fit in int64"):
        apply(running, [(1, 1, 0)], __x0=pa.array([2**63], pa.uint64()))


@pytest.mark.parametrize(
    ("function", "kind"),
    [("SUM", pa.string()), ("AVG", pa.bool_()), ("MIN", pa.list_(INT)), ("MAX", pa.month_day_nano_interval())],
)
def test_aggregates_without_meaning_are_refused(function: str, kind: pa.DataType) -> None:
    with pytest.raises(UnsupportedError, match=f"{function} of a value of type .*SUM and AVG take numbers"):
        RunningAggregation(aggregation([call(function, kind, kind)], []), Output.ISTREAM)


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ([(1, 1, 0), (1, 1, 0)], "result 0 of a running aggregation enters, but its slot is held"),
        ([(1, 1, 0), (2, -1, 0), (3, -1, 0)], r"result 0 of a running aggregation leaves, but is not there \(at 3\)"),
        ([(2, 1, 0), (1, 1, 1)], "out of time order"),
    ],
)
def test_events_that_contradict_each_other_are_refused(events: list[tuple[int, int, int]], message: str) -> None:
    running = RunningAggregation(aggregation([call("COUNT", None, INT)], []), Output.ISTREAM)
    with pytest.raises(ThalwegError, match=message):
        apply(running, events)


def test_an_instant_cannot_come_twice() -> None:
    running = RunningAggregation(aggregation([call("COUNT", None, INT)], []), Output.ISTREAM)
    apply(running, [(1, 1, 0)])
    with pytest.raises(ThalwegError, match="out of time order"):
        apply(running, [(1, 1, 1)])


def test_results_need_their_values() -> None:
    running = RunningAggregation(aggregation([call("SUM", INT, INT)], []), Output.ISTREAM)
    with pytest.raises(ThalwegError, match="2 results enter a running aggregation, with 1 rows"):
        apply(running, [(1, 1, 0), (1, 1, 1)], __x0=pa.array([1]))
