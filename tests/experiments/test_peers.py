"""The peers answer alike, and as the definition of the join says."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thalweg.errors import ThalwegError
from thalweg.experiments import answers
from thalweg.experiments.peers import duckdb_join, mjoin
from thalweg.experiments.workloads import Workload

workloads = st.builds(
    Workload,
    streams=st.integers(2, 4),
    tuples=st.integers(0, 12),
    keys=st.integers(1, 4),
    rate=st.sampled_from([1_000.0, 300_000.0]),  # far apart, and with ties
    window_us=st.sampled_from([1, 2, 7, 1_000, 5_000]),
)


def by_definition(workload: Workload, arrivals: dict[str, pa.Table]) -> list[tuple[int, ...]]:
    rows = [table.cast(pa.schema({"ts": pa.int64(), "k": pa.int64(), "id": pa.int64()})) for table in arrivals.values()]
    results = []
    for combination in itertools.product(*(table.to_pylist() for table in rows)):
        times = [row["ts"] for row in combination]
        if len({row["k"] for row in combination}) == 1 and max(times) < min(times) + workload.window_us:
            results.append(tuple(row["id"] for row in combination))
    return sorted(results)


def rows_of(ids: answers.Ids) -> list[tuple[int, ...]]:
    return sorted(map(tuple, ids.T.tolist()))


@settings(max_examples=60, deadline=None)
@given(workload=workloads, seed=st.integers(0, 2**32 - 1))
def test_the_mjoin_kernel_answers_by_the_definition(workload: Workload, seed: int) -> None:
    arrivals = workload.arrivals(np.random.default_rng(seed))
    merged = mjoin.merge(arrivals, workload.window_us)
    assert rows_of(mjoin.join(merged, workload.window_us)) == by_definition(workload, arrivals)


@pytest.mark.parametrize("sql", [duckdb_join.plain_sql, duckdb_join.bucket_sql])
@pytest.mark.parametrize(
    "workload",
    [
        Workload(streams=2, tuples=30, keys=3, window_us=4_000),
        Workload(streams=3, tuples=16, keys=2, rate=300_000.0, window_us=7),
        Workload(streams=4, tuples=9, keys=2, window_us=1),
        Workload(streams=2, tuples=0),
    ],
)
def test_duckdb_answers_by_the_definition(sql, workload: Workload) -> None:
    arrivals = workload.arrivals(np.random.default_rng(5))
    with duckdb_join.connected(arrivals, threads=1) as connection:
        found = duckdb_join.answer(connection, sql(workload))
    assert found.column_names == list(workload.outputs)
    assert rows_of(answers.ids_of(found)) == by_definition(workload, arrivals)


@pytest.mark.parametrize("streams", [2, 4, 7])
def test_peers_agree_on_a_workload_with_many_windows(streams: int) -> None:
    workload = Workload(streams=streams, tuples=3_000, keys=100, window_us=100_000)
    arrivals = workload.arrivals(np.random.default_rng(11))
    kernel = mjoin.join(mjoin.merge(arrivals, workload.window_us), workload.window_us)
    assert kernel.shape[1] > workload.tuples  # about one result per tuple
    with duckdb_join.connected(arrivals, threads=2) as connection:
        for sql in (duckdb_join.plain_sql, duckdb_join.bucket_sql):
            found = answers.ids_of(duckdb_join.answer(connection, sql(workload)))
            answers.check_same(kernel, found, ("kernel", sql.__name__))
            assert answers.fingerprint(kernel) == answers.fingerprint(found)


def test_the_kernel_uses_an_output_that_fits_and_replaces_one_that_does_not() -> None:
    workload = Workload(streams=2, tuples=500, keys=10, window_us=20_000)
    merged = mjoin.merge(workload.arrivals(np.random.default_rng(3)), workload.window_us)
    expected = mjoin.join(merged, workload.window_us)
    large = np.zeros((2, expected.shape[1] + 1), dtype=np.int32)
    assert np.shares_memory(mjoin.join(merged, workload.window_us, large), large)
    small = np.zeros((2, 1), dtype=np.int32)
    assert np.array_equal(mjoin.join(merged, workload.window_us, small), expected)


def test_the_ring_holds_the_fullest_window() -> None:
    times = pa.array([0, 1, 2, 50, 51, 52, 53, 54, 100], pa.timestamp("us"))
    table = pa.table({"ts": times, "k": pa.array([1] * 9), "id": pa.array(range(9))})
    assert mjoin.merge({"a": table, "b": table.slice(0, 1)}, window_us=5).ring == 8


def test_workloads_repeat_with_the_seed_and_keep_their_parameters() -> None:
    workload = Workload(streams=3, tuples=20_000, keys=50, rate=1_000.0)
    once, again = (workload.arrivals(np.random.default_rng(1)) for _ in range(2))
    assert once == again
    assert once != workload.arrivals(np.random.default_rng(2))
    for table in once.values():
        times = table["ts"].cast(pa.int64()).to_numpy()
        assert (np.diff(times) >= 0).all()
        assert times[-1] == pytest.approx(20e6, rel=0.05)  # a thousand a second
        assert set(table["k"].to_pylist()) == set(range(50))


def test_slices_cover_the_time_of_the_tuples_one_after_the_other() -> None:
    workload = Workload(streams=2, tuples=10_000, keys=50, rate=1_000.0)
    slices = list(workload.slices(np.random.default_rng(1), span_us=3_000_000))
    assert len(slices) == 4  # ten seconds
    for name in workload.names:
        for number, each in enumerate(slices):
            times = each[name]["ts"].cast(pa.int64()).to_numpy()
            assert (np.diff(times) >= 0).all()
            assert number * 3_000_000 <= times[0] <= times[-1] < (number + 1) * 3_000_000
            assert len(times) == pytest.approx(3_000, rel=0.1)
        stream = pa.concat_tables([each[name] for each in slices])
        assert stream["id"].to_pylist() == list(range(len(stream)))


def test_a_window_of_a_fraction_of_a_second_is_written_in_microseconds() -> None:
    assert Workload(window_us=1_500_000).cql.endswith("WINDOW RANGE 1500000 MICROSECONDS")


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ([[0, 1], [5, 6]], "a has 3 results, b has 2"),
        ([[0, 1, 1], [5, 6, 5]], r"differ in 1 of 3 results, first in row 1 .*\[0, 6\] against \[1, 5\]"),
    ],
)
def test_a_different_answer_is_an_error_that_shows_it(found: list[list[int]], message: str) -> None:
    expected = np.array([[1, 0, 0], [6, 6, 5]])
    answers.check_same(expected, expected[:, ::-1], ("a", "b"))
    with pytest.raises(ThalwegError, match=message):
        answers.check_same(expected, np.array(found), ("a", "b"))
    with pytest.raises(ThalwegError, match="a and b answer differently"):
        answers.check_fingerprints(answers.fingerprint(expected), answers.fingerprint(np.array(found)), ("a", "b"))


def test_a_fingerprint_tells_columns_and_repetitions_apart() -> None:
    rows = np.array([[1, 1, 2], [3, 3, 4]])
    assert answers.fingerprint(rows) != answers.fingerprint(rows[::-1])
    assert answers.fingerprint(rows) != answers.fingerprint(np.array([[1, 2, 2], [3, 4, 4]]))


def test_fingerprints_of_parts_add_up() -> None:
    rows = np.arange(3_000).reshape(3, 1_000)
    parts = [answers.fingerprint(rows[:, :400]), answers.fingerprint(rows[:, 400:]), answers.NOTHING]
    assert parts[0].joined(parts[1]).joined(parts[2]) == answers.fingerprint(rows)
