"""The set difference against every tuple's free intervals, computed one by one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

from tests.engine.uncompiled import uncompiled
from thalweg.cql.query import Output, RangeWindow, RowsWindow, Window
from thalweg.engine.difference import END_OF_INPUT, SetDifference
from thalweg.engine.kernels import difference as kernels
from thalweg.engine.kernels import difference_records
from thalweg.engine.kernels.difference import Arrivals
from thalweg.errors import ThalwegError

PARTITIONED = (exp.column("p"),)
WINDOWS = st.one_of(
    st.builds(RangeWindow, st.integers(1, 6)),
    st.just(RangeWindow(None)),
    st.builds(RowsWindow, st.integers(1, 3)),
    st.builds(RowsWindow, st.integers(1, 2), st.just(PARTITIONED)),
)


@dataclass(frozen=True)
class Tuple:
    time: int
    stream: int
    key: int = 0
    passes: bool = True
    blockable: bool = True
    partition: int = 0


def arrivals(tuples: list[Tuple], first_row: int = 0) -> Arrivals:
    return Arrivals(
        stream=np.array([x.stream for x in tuples], np.int32),
        time=np.array([x.time for x in tuples], np.int64),
        key=np.array([x.key for x in tuples], np.int64),
        row=np.arange(first_row, first_row + len(tuples)),
        passes=np.array([x.passes for x in tuples], np.bool_),
        blockable=np.array([x.blockable for x in tuples], np.bool_),
        partition=np.array([x.partition for x in tuples], np.int64),
    )


def leave(tuples: list[Tuple], i: int, windows: tuple[Window, ...]) -> int:
    """When a tuple leaves its window."""
    x = tuples[i]
    window = windows[x.stream]
    if isinstance(window, RangeWindow):
        return END_OF_INPUT if window.width_us is None else x.time + window.width_us
    newer = [
        y.time
        for y in tuples[i + 1 :]
        if y.stream == x.stream and (not window.partition_by or y.partition == x.partition)
    ]
    return newer[window.rows - 1] if len(newer) >= window.rows else END_OF_INPUT


def naive(tuples: list[Tuple], windows: tuple[Window, ...], output: Output) -> list[tuple[int, int]]:
    """(instant, tuple) of everything emitted: the ends of the intervals in which nothing blocks the tuple."""
    lives = [(x.time, leave(tuples, i, windows)) for i, x in enumerate(tuples)]
    instants = sorted({end for life in lives for end in life})
    emitted = []
    for i, x in enumerate(tuples):
        if x.stream != 0 or not x.passes:
            continue
        blocking = [
            lives[j] for j, y in enumerate(tuples) if y.stream != 0 and y.passes and x.blockable and x.key == y.key
        ]
        free = [
            lives[i][0] <= instant < lives[i][1] and not any(start <= instant < end for start, end in blocking)
            for instant in instants
        ]
        for k, instant in enumerate(instants):
            was = k > 0 and free[k - 1]
            now = free[k] and instant < END_OF_INPUT
            if output is Output.ISTREAM and now and not was:
                emitted.append((instant, i))
            if output is Output.DSTREAM and was and not free[k] and instant < END_OF_INPUT:
                emitted.append((instant, i))
    return sorted(emitted)


def waits(x: Tuple, windows: tuple[Window, ...]) -> bool:
    """Whether a tuple must be remembered while it lives, rather than only counted."""
    window = windows[x.stream]
    if isinstance(window, RowsWindow):
        return True
    return x.passes and (x.stream == 0 or window.width_us is not None)


def run(
    tuples: list[Tuple], windows: tuple[Window, ...], output: Output, watermarks: list[int]
) -> list[tuple[int, int]]:
    difference = SetDifference(windows, output)
    emitted: list[tuple[int, int]] = []
    done = 0
    for watermark in [*sorted(watermarks), END_OF_INPUT]:
        end = sum(x.time < watermark for x in tuples)
        times, rows = difference.advance(arrivals(tuples[done:end], done), watermark)
        done = end
        emitted += zip(times.tolist(), rows.tolist(), strict=True)
        alive = [i for i in range(done) if leave(tuples[:done], i, windows) >= watermark]
        held = [tuples[i] for i in alive]
        assert sorted(difference.keys.tolist()) == sorted(
            {x.key for x in held if x.passes and (x.stream != 0 or x.blockable)}
        )
        for s in range(len(windows)):
            assert sorted(difference.rows(s).tolist()) == [
                i for i in alive if tuples[i].stream == s and waits(tuples[i], windows)
            ]
        assert len(difference) == sum(waits(x, windows) for x in held)
    assert [time for time, _ in emitted] == sorted(time for time, _ in emitted)
    return emitted


@st.composite
def inputs(draw: st.DrawFn) -> tuple[list[Tuple], tuple[Window, ...], Output, list[int]]:
    windows = tuple(draw(st.lists(WINDOWS, min_size=2, max_size=4)))
    one = st.builds(
        Tuple,
        time=st.integers(-3, 12),
        stream=st.integers(0, len(windows) - 1),
        key=st.integers(0, 2),
        passes=st.integers(0, 4).map(bool),
        blockable=st.integers(0, 4).map(bool),
        partition=st.integers(0, 2),
    )
    tuples = sorted(draw(st.lists(one, max_size=25)), key=lambda x: (x.time, x.stream))
    return tuples, windows, draw(st.sampled_from(Output)), draw(st.lists(st.integers(-3, 20), max_size=4))


def check(case: tuple[list[Tuple], tuple[Window, ...], Output, list[int]]) -> None:
    tuples, windows, output, watermarks = case
    found = run(tuples, windows, output, watermarks)
    assert sorted(found) == naive(tuples, windows, output)
    assert found == run(tuples, windows, output, [])  # in the same order, however the input is cut


@settings(max_examples=500, deadline=None)  # the first call compiles
@given(inputs())
def test_any_difference_matches_the_free_intervals(
    case: tuple[list[Tuple], tuple[Window, ...], Output, list[int]],
) -> None:
    check(case)


@settings(max_examples=30, deadline=None)
@given(inputs())
def test_the_kernel_is_right_uncompiled_too(case: tuple[list[Tuple], tuple[Window, ...], Output, list[int]]) -> None:
    with uncompiled(kernels, difference_records):
        check(case)


@pytest.mark.parametrize("seed", range(6))
def test_many_keys_come_and_go(seed: int) -> None:
    rng = np.random.default_rng(seed)
    windows = (RangeWindow(20), RowsWindow(15), RangeWindow(10), RowsWindow(2, PARTITIONED))
    tuples = [
        Tuple(int(t), int(rng.integers(0, 4)), key=int(rng.integers(0, 80)) << 20, partition=int(rng.integers(0, 9)))
        for t in rng.integers(0, 200, 600)
    ]
    tuples.sort(key=lambda x: (x.time, x.stream))
    output = Output.ISTREAM if seed % 2 else Output.DSTREAM
    check((tuples, windows, output, rng.integers(0, 200, 10).tolist()))


RANGES = (RangeWindow(10), RangeWindow(4))


@pytest.mark.parametrize(
    ("output", "expected"), [(Output.ISTREAM, [(0, 0), (6, 0)]), (Output.DSTREAM, [(2, 0), (10, 0)])]
)
def test_a_tuple_is_blocked_while_a_match_lives(output: Output, expected: list[tuple[int, int]]) -> None:
    assert run([Tuple(0, 0), Tuple(2, 1)], RANGES, output, []) == expected


def test_a_match_of_the_same_instant_blocks_from_the_start() -> None:
    assert run([Tuple(0, 0), Tuple(0, 1)], RANGES, Output.ISTREAM, []) == [(4, 0)]


def test_a_blocker_replaced_at_the_same_instant_keeps_blocking() -> None:
    tuples = [Tuple(0, 1), Tuple(1, 0), Tuple(4, 1)]
    assert run(tuples, RANGES, Output.ISTREAM, [4]) == [(8, 1)]


def test_nothing_is_said_of_an_instant_before_the_watermark_has_passed_it() -> None:
    difference = SetDifference(RANGES, Output.ISTREAM)
    times, _ = difference.advance(arrivals([Tuple(0, 1), Tuple(0, 0)]), 4)
    assert times.tolist() == []
    times, rows = difference.advance(arrivals([]), 5)
    assert (times.tolist(), rows.tolist()) == ([4], [1])


def test_duplicates_on_the_left_are_each_a_result() -> None:
    tuples = [Tuple(0, 0), Tuple(0, 0), Tuple(1, 0, key=1)]
    assert run(tuples, RANGES, Output.ISTREAM, []) == [(0, 0), (0, 1), (1, 2)]


def test_a_null_key_is_never_blocked() -> None:
    tuples = [Tuple(0, 0, blockable=False), Tuple(1, 1)]
    assert run(tuples, RANGES, Output.DSTREAM, []) == [(10, 0)]


def test_a_row_that_fails_the_selection_still_counts_in_rows() -> None:
    tuples = [Tuple(0, 0), Tuple(1, 0, passes=False)]
    assert run(tuples, (RowsWindow(1), RangeWindow(4)), Output.DSTREAM, []) == [(1, 0)]


def test_a_tuple_pushed_out_at_its_own_instant_never_was_there() -> None:
    windows = (RowsWindow(1), RangeWindow(4))
    tuples = [Tuple(0, 0), Tuple(0, 0), Tuple(3, 0)]
    assert run(tuples, windows, Output.ISTREAM, []) == [(0, 1), (3, 2)]
    assert run(tuples, windows, Output.DSTREAM, []) == [(3, 1)]


def test_what_never_leaves_is_never_emitted_as_leaving() -> None:
    windows = (RangeWindow(None), RowsWindow(2))
    tuples = [Tuple(0, 0), Tuple(1, 1, key=1), Tuple(2, 0, key=1)]
    assert run(tuples, windows, Output.DSTREAM, []) == []


def test_unblocking_many_at_once_outgrows_the_batch() -> None:
    windows = (RangeWindow(100), RangeWindow(10))
    tuples = [Tuple(0, 1), *[Tuple(1, 0) for _ in range(50)]]
    difference = SetDifference(windows, Output.ISTREAM)
    times, _ = difference.advance(arrivals(tuples), 5)
    assert len(times) == 0
    times, rows = difference.advance(arrivals([]), 20)
    assert times.tolist() == [10] * 50
    assert rows.tolist() == list(range(1, 51))


def test_what_is_emitted_may_be_much_more_than_what_came() -> None:
    tuples = [*[Tuple(0, 0) for _ in range(10)], *[Tuple(t, 1) for t in range(2, 200, 2)]]
    windows = (RangeWindow(1000), RangeWindow(1))
    found = run(tuples, windows, Output.ISTREAM, [])
    assert len(found) == 10 * 100
    assert found == naive(tuples, windows, Output.ISTREAM)


def test_state_follows_the_windows_not_the_length_of_the_stream() -> None:
    rng = np.random.default_rng(5)
    difference = SetDifference((RangeWindow(100), RangeWindow(50), RowsWindow(20)), Output.ISTREAM)
    size = 300
    for step in range(30):
        times = np.sort(rng.integers(100 * step, 100 * step + 100, size))
        stream = rng.integers(0, 3, size).astype(np.int32)
        order = np.lexsort((stream, times))
        batch = Arrivals(
            stream=stream[order],
            time=times,
            key=rng.integers(0, 10**6, size) + 10**6 * step,
            row=np.arange(size),
            passes=np.ones(size, np.bool_),
            blockable=np.ones(size, np.bool_),
            partition=np.zeros(size, np.int64),
        )
        difference.advance(batch, 100 * step + 100)
        assert len(difference) <= size
        assert len(difference.keys) <= size
    assert len(difference._records) <= 8 * size  # if nothing were freed: 18,000
    difference.advance(arrivals([]), END_OF_INPUT)
    assert len(difference) == 20
    assert not len(difference.rows(0))


@pytest.mark.parametrize(
    ("tuples", "watermark", "message"),
    [
        ([Tuple(3, 0)], 3, "tuples of times 3 to 3 between the watermarks 2 and 3"),
        ([Tuple(1, 0)], 9, "tuples of times 1 to 1 between the watermarks 2 and 9"),
        ([Tuple(3, 0), Tuple(5, 0), Tuple(4, 0)], 9, "out of time order"),
    ],
)
def test_tuples_where_none_can_come_are_refused(tuples: list[Tuple], watermark: int, message: str) -> None:
    difference = SetDifference(RANGES, Output.ISTREAM)
    difference.advance(arrivals([]), 2)
    with pytest.raises(ThalwegError, match=message):
        difference.advance(arrivals(tuples), watermark)
