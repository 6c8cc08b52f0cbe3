from dataclasses import replace
from itertools import combinations, permutations

import numpy as np
import pyarrow as pa
import pytest

from tests.plan.queries import SECOND, equality, query, sql, stream, theta
from tests.plan.random_worlds import random_graph, random_statistics, seeded
from thalweg.cql.query import Query, RangeWindow, RowsWindow
from thalweg.engine.time_bounds import NEVER
from thalweg.errors import PlanError
from thalweg.plan.join_graph import JoinGraph
from thalweg.plan.sampling import CONTENTS, INSTANTS, StreamSample
from thalweg.plan.statistics import DEFAULT_RATE, STATIC_RATE, STATIC_TUPLES, UNBOUNDED_TUPLES, Statistics
from thalweg.plan.tree import Node


def node(*streams: int) -> Node:
    return frozenset(streams)


STAR = JoinGraph(3, (node(0, 1, 2),))
KNOWN = Statistics((100.0, 100.0, 10.0), (10_000.0, 5_000.0, 20.0), ({0: 1000.0, 1: 500.0, 2: 20.0},))


# What follows from given numbers.


def test_two_streams_agree_once_in_the_larger_number_of_values() -> None:
    assert KNOWN.agreement(0, node(0, 1)) == pytest.approx(1 / 1000)
    assert KNOWN.agreement(0, node(1, 2)) == pytest.approx(1 / 500)
    assert KNOWN.selectivity(STAR, node(0), node(1)) == pytest.approx(1 / 1000)


def test_a_third_stream_on_the_same_class_is_one_factor_more() -> None:
    assert KNOWN.agreement(0, node(0, 1, 2)) == pytest.approx(1 / (1000 * 500))
    assert KNOWN.matches(STAR, node(0, 1), node(2)) == pytest.approx(20 / 500)
    assert KNOWN.matches(STAR, node(0, 2), node(1)) == pytest.approx(5000 / 500)


def test_values_in_common_may_be_fewer() -> None:
    apart = Statistics(KNOWN.rates, KNOWN.windows, KNOWN.distinct, (), ({node(0, 1): 5.0},))
    assert apart.agreement(0, node(0, 1)) == pytest.approx(5 / (1000 * 500))
    assert apart.agreement(0, node(0, 2)) == KNOWN.agreement(0, node(0, 2))
    assert apart.agreement(0, node(0, 1, 2)) == pytest.approx(5 / (1000 * 500 * 20))


def test_classes_multiply_and_thetas_count_once_decided() -> None:
    graph = JoinGraph(3, (node(0, 1), node(0, 1)), (node(0, 2), node(1, 2)))
    known = Statistics((1.0,) * 3, (100.0,) * 3, ({0: 10.0, 1: 10.0}, {0: 4.0, 1: 5.0}), (0.5, 0.1))
    assert known.matches(graph, node(0), node(1)) == pytest.approx(100 / 10 / 5)
    assert known.matches(graph, node(0), node(2)) == pytest.approx(50)
    assert known.matches(graph, node(0, 1), node(2)) == pytest.approx(5)
    assert known.size(graph, node(0, 1, 2)) == pytest.approx(100**3 / 50 * 0.05)


def test_candidates_are_those_that_agree_on_the_key_alone() -> None:
    graph = JoinGraph(2, (node(0, 1), node(0, 1)), (node(0, 1),))
    known = Statistics((1.0,) * 2, (100.0,) * 2, ({0: 10.0, 1: 10.0}, {0: 4.0, 1: 5.0}), (0.5,))
    assert known.candidates(graph, node(0), node(1), ()) == pytest.approx(100)
    assert known.candidates(graph, node(0), node(1), (1,)) == pytest.approx(20)
    assert known.candidates(graph, node(0), node(1), (0, 1)) == pytest.approx(2)
    assert known.matches(graph, node(0), node(1)) == pytest.approx(1)


def test_arrivals_follow_from_sizes_and_lifetimes() -> None:
    assert KNOWN.lifetimes == (100.0, 50.0, 2.0)
    per_a_tuple = KNOWN.matches(STAR, node(0), node(1))
    per_b_tuple = KNOWN.matches(STAR, node(1), node(0))
    assert KNOWN.arrivals(STAR, node(0, 1)) == pytest.approx(100 * per_a_tuple + 100 * per_b_tuple)
    assert KNOWN.arrivals(STAR, node(2)) == pytest.approx(10)


@pytest.mark.parametrize("seed", range(20))
def test_a_size_does_not_depend_on_the_order_of_joins(seed: int) -> None:
    rng = seeded(seed)
    graph = random_graph(rng, 4)
    known = random_statistics(rng, graph)
    for order in permutations(range(4)):
        size, bound = known.windows[order[0]], node(order[0])
        for stream_ in order[1:]:
            size *= known.matches(graph, bound, node(stream_))
            bound |= {stream_}
        assert size == pytest.approx(known.size(graph, bound))


@pytest.mark.parametrize("seed", range(20))
def test_agreement_never_grows_with_more_streams(seed: int) -> None:
    rng = seeded(seed)
    graph = random_graph(rng, 5, theta_share=0)
    known = random_statistics(rng, graph)
    for cls in range(len(graph.classes)):
        for size in range(1, 5):
            for fewer in map(frozenset, combinations(range(5), size)):
                for more in range(5):
                    assert known.agreement(cls, fewer | {more}) <= known.agreement(cls, fewer) * (1 + 1e-9)


def test_many_streams_neither_overflow_nor_vanish() -> None:
    graph = JoinGraph(80, (frozenset(range(40)),))
    known = Statistics((1.0,) * 80, (1e9,) * 80, (dict.fromkeys(range(40), 1e9),))
    assert known.matches(graph, frozenset(range(20)), frozenset(range(20, 39))) == pytest.approx(1.0)
    assert known.size(graph, frozenset(range(80))) > 1e300


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (((1.0,), (1.0, 2.0)), "statistics give 1 rates but 2 window sizes"),
        (((0.0,), (1.0,)), "a rate is a positive number, not 0.0"),
        (((1.0,), (float("nan"),)), "a window size is a positive number, not nan"),
        (((1.0,), (float("inf"),)), "a window size is a positive number, not inf"),
        (((1.0,), (1.0,), ({0: -3.0},)), "a number of distinct values is a positive number, not -3.0"),
        (((1.0,), (1.0,), (), (0.0,)), "a selectivity of a theta predicate is a positive number, not 0.0"),
        (((1.0,), (1.0,), (), (), ({frozenset({0, 1}): 0.0},)), "a number of common values is a positive number"),
    ],
)
def test_impossible_numbers_are_refused(arguments: tuple[object, ...], says: str) -> None:
    with pytest.raises(PlanError, match=says):
        Statistics(*arguments)  # type: ignore[arg-type]


# What is assumed.


def test_default_windows() -> None:
    known = Statistics.default(
        query(
            [
                stream("A", RangeWindow(5 * SECOND)),
                stream("B", RangeWindow(None)),
                stream("C", RowsWindow(70)),
                stream("D", RowsWindow(7, (sql("D.k"),))),
                stream("E", RangeWindow(5 * SECOND), selection="E.x > 1"),
                stream("F", RangeWindow(None), retention_us=2 * SECOND),
                stream("G", RangeWindow(1)),
                stream("H", RowsWindow(10**6), retention_us=SECOND),
            ]
        )
    )
    assert known.windows[:4] == pytest.approx((5 * DEFAULT_RATE, UNBOUNDED_TUPLES, 70, 700))
    assert known.windows[4] == pytest.approx(5 * DEFAULT_RATE / 3)
    assert known.rates[4] == pytest.approx(DEFAULT_RATE / 3)
    assert known.windows[5] == pytest.approx(2 * DEFAULT_RATE)
    assert 0 < known.windows[6] < 1
    assert known.windows[7] == pytest.approx(DEFAULT_RATE)


def test_by_default_a_probe_finds_about_one_partner() -> None:
    single = query([stream(a) for a in "ABC"], [equality("A.k", "B.k", "C.k")])
    composite = query([stream(a) for a in "AB"], [equality("A.k", "B.k"), equality("A.x", "B.x")])
    for bound in (single, composite):
        assert Statistics.default(bound).matches(JoinGraph.of(bound), node(0), node(1)) == pytest.approx(1.0)


def test_by_default_a_class_that_also_stands_alone_is_a_key_by_itself() -> None:
    bound = query([stream(a) for a in "ABC"], [equality("A.k", "B.k", "C.k"), equality("B.x", "C.x")])
    known = Statistics.default(bound)
    assert known.matches(JoinGraph.of(bound), node(0), node(1)) == pytest.approx(1.0)
    assert known.matches(JoinGraph.of(bound), node(1), node(2)) == pytest.approx(0.01)


def test_a_boolean_key_has_two_values() -> None:
    bound = query([stream(a) for a in "AB"], [equality("A.k", "B.k", kind=pa.bool_())])
    assert Statistics.default(bound).distinct == ({0: 2.0, 1: 2.0},)


def test_default_thetas() -> None:
    bound = query([stream(a) for a in "AB"], [], [theta("A.x", "<", "B.x"), theta("A.ts", "<", "B.ts", 20e6)])
    assert Statistics.default(bound).thetas == pytest.approx((1 / 3, 1.0))


# What is measured.


def steady(rows: int, per_second: float) -> np.ndarray:
    return (np.arange(rows) * (1e6 / per_second)).astype(np.int64)


def pair(width_s: float = 10) -> Query:
    window = RangeWindow(int(width_s * SECOND))
    return query([stream("A", window), stream("B", window)], [equality("A.k", "B.k")])


def keyed(times: np.ndarray, codes: np.ndarray) -> StreamSample:
    return StreamSample(times, {0: codes.astype(np.int64)})


def test_rates_and_windows() -> None:
    bound = query(
        [
            stream("A", RangeWindow(2 * SECOND)),
            stream("B", RangeWindow(None)),
            stream("C", RowsWindow(50)),
            stream("D", RowsWindow(3, (sql("D.k"),))),
            stream("E", RangeWindow(8 * SECOND), retention_us=SECOND),
            stream("F", RowsWindow(50)),
        ]
    )
    hundred = steady(10_000, 100)
    samples = [StreamSample(hundred) for _ in range(6)]
    samples[3] = StreamSample(hundred, partitions=np.arange(10_000) % 7)
    samples[5] = StreamSample(hundred, share=0.5)
    known = Statistics.measure(bound, samples)
    assert known.rates == pytest.approx((100,) * 6, rel=0.01)
    assert known.windows == pytest.approx((200, 5_000, 50, 21, 100, 25), rel=0.01)


def test_the_beginnings_of_streams_stand_for_what_follows() -> None:
    """Windows that are not full yet, streams of different speed, and one that the end of another cuts short."""
    bound = query(
        [
            stream("A", RangeWindow(100 * SECOND)),
            stream("B", RangeWindow(100 * SECOND)),
            stream("C", RangeWindow(None)),
            stream("D", RowsWindow(5_000)),
            stream("E", RangeWindow(3600 * SECOND)),
            stream("F", RowsWindow(5, (sql("F.k"),))),
        ],
        [equality("A.k", "B.k")],
    )
    fast, slow = steady(2_000, 1_000), steady(2_000, 10)
    keys = {0: np.arange(2_000) % 7}
    samples = [
        StreamSample(fast, keys, total=1e6),
        StreamSample(slow, keys, total=1e6),
        StreamSample(slow, total=10_000),
        StreamSample(slow, share=0.5, total=10_000),
        StreamSample(slow, total=3_000),
        StreamSample(slow, partitions=np.arange(2_000) % 300, total=10_000),
    ]
    known = Statistics.measure(bound, samples)
    assert known.rates == pytest.approx((1_000, 10, 10, 10, 10, 10), rel=0.01)
    assert known.windows == pytest.approx((100_000, 1_000, 5_000, 2_500, 3_000, 1_500), rel=0.01)
    assert known.distinct[0] == pytest.approx({0: 7, 1: 7}, rel=0.2)


def test_a_sparse_key_domain_is_not_mistaken_for_the_values_seen() -> None:
    # 1,000 tuples per window out of 100,000 values: about 995 distinct ones are seen.
    rng = np.random.default_rng(5)
    known = Statistics.measure(pair(), [keyed(steady(50_000, 100), rng.integers(0, 100_000, 50_000)) for _ in "AB"])
    graph = JoinGraph(2, (node(0, 1),))
    assert known.matches(graph, node(0), node(1)) == pytest.approx(1_000 / 100_000, rel=0.3)


def test_skewed_keys_match_as_often_as_they_do() -> None:
    rng = np.random.default_rng(6)
    columns = [np.minimum(rng.zipf(1.5, 100_000), 1_000) for _ in "AB"]
    known = Statistics.measure(pair(), [keyed(steady(100_000, 100), c) for c in columns])
    frequency = np.bincount(columns[0], minlength=1001) / 100_000
    true = 1_000 * float((frequency * np.bincount(columns[1], minlength=1001) / 100_000).sum())
    assert known.matches(JoinGraph(2, (node(0, 1),)), node(0), node(1)) == pytest.approx(true, rel=0.1)


def test_keys_that_drift_are_seen_as_selective_as_within_a_window() -> None:
    # Order numbers: each occurs once in either stream, ten seconds see 1,000 of them.
    known = Statistics.measure(pair(), [keyed(steady(100_000, 100), np.arange(100_000)) for _ in "AB"])
    assert known.matches(JoinGraph(2, (node(0, 1),)), node(0), node(1)) == pytest.approx(1.0, rel=0.1)


def test_unique_keys_find_one_partner_in_every_further_stream() -> None:
    window = RangeWindow(10 * SECOND)
    bound = query([stream(a, window) for a in "ABC"], [equality("A.k", "B.k", "C.k")])
    known = Statistics.measure(bound, [keyed(steady(20_000, 100), np.arange(20_000)) for _ in "ABC"])
    assert known.matches(STAR, node(0, 1), node(2)) == pytest.approx(1.0, rel=0.2)


def test_a_periodic_key_is_not_in_step_with_the_sample() -> None:
    window = RowsWindow(16 * CONTENTS)  # every 16th row would see 4 of 64 values
    bound = query([stream("A", window), stream("B", window)], [equality("A.k", "B.k")])
    known = Statistics.measure(bound, [keyed(steady(400_000, 500), np.arange(400_000) % 64) for _ in "AB"])
    assert known.distinct[0] == pytest.approx({0: 64, 1: 64}, rel=0.05)


def test_disjoint_keys_hardly_match() -> None:
    times, codes = steady(20_000, 100), np.arange(20_000) % 100
    known = Statistics.measure(pair(), [keyed(times, codes), keyed(times, codes + 1_000)])
    assert 0 < known.matches(JoinGraph(2, (node(0, 1),)), node(0), node(1)) < 0.01


def test_measured_thetas() -> None:
    window = RangeWindow(10 * SECOND)
    bound = query(
        [stream(a, window) for a in "AB"],
        [],
        [
            theta("A.x", "<", "B.x"),
            theta("A.x", "<=", "B.x", 1.0, absolute=True),
            theta("A.ts", "<", "B.ts"),
            theta("A.k", "<>", "B.k"),
            theta("A.x", ">", "B.k"),
        ],
    )
    rng = np.random.default_rng(8)
    left, right = rng.uniform(0, 10, 20_000), rng.uniform(5, 15, 20_000)
    left[::2] = np.nan
    same = np.full(20_000, 7.0)
    known = Statistics.measure(
        bound,
        [
            StreamSample(steady(20_000, 100), {}, {0: left, 1: left, 3: same}),
            StreamSample(steady(20_000, 100), {}, {0: right, 1: right, 3: same}),
        ],
    )
    assert known.thetas[:3] == pytest.approx((0.5 * 0.875, 0.5 * 0.095, 0.5), abs=0.03)
    assert 0 < known.thetas[3] < 0.001
    assert known.thetas[4] == pytest.approx(1 / 3)  # no operands were given


def test_one_empty_stream_and_all_empty() -> None:
    nothing = keyed(np.empty(0, np.int64), np.empty(0, np.int64))
    known = Statistics.measure(pair(), [keyed(steady(100, 10), np.arange(100)), nothing])
    assert known.windows[1] < 1
    assert Statistics.measure(pair(), [nothing, nothing]) == Statistics.default(pair())


def test_all_at_one_instant() -> None:
    together = np.full(500, 1_700_000_000_000_000)
    known = Statistics.measure(pair(), [keyed(together, np.arange(500) % 5) for _ in "AB"])
    assert known.windows == pytest.approx((500, 500))
    assert known.rates == (500.0, 500.0)


def test_measuring_is_bounded_and_deterministic() -> None:
    class Counted(dict[int, np.ndarray]):
        """Codes that count how many of them are looked at."""

        seen = 0

        def __getitem__(self, cls: int) -> np.ndarray:
            return _Watching(super().__getitem__(cls), self)

    class _Watching:
        def __init__(self, codes: np.ndarray, owner: Counted) -> None:
            self.codes, self.owner = codes, owner

        def __getitem__(self, rows: np.ndarray) -> np.ndarray:
            self.owner.seen += len(rows)
            return self.codes[rows]

    codes = np.random.default_rng(9).integers(0, 1_000, 300_000)
    samples = [StreamSample(steady(300_000, 1_000), Counted({0: codes})) for _ in "AB"]
    first = Statistics.measure(pair(100), samples)
    assert all(0 < sample.codes.seen <= INSTANTS * CONTENTS for sample in samples)  # type: ignore[attr-defined]
    assert Statistics.measure(pair(100), samples) == first


def test_a_sample_per_stream() -> None:
    with pytest.raises(PlanError, match="query 'query1' joins 2 streams, not the 1 sampled"):
        Statistics.measure(pair(), [StreamSample(steady(10, 1))])


# Static relations.


def with_a_relation() -> Query:
    relation = replace(stream("B", RangeWindow(None)), time=None)
    return query([stream("A"), relation], [equality("A.k", "B.k")])


def test_a_static_relation_is_assumed_to_be_small_and_still() -> None:
    known = Statistics.default(with_a_relation())
    assert known.rates == (DEFAULT_RATE, STATIC_RATE)
    assert known.windows == (10 * DEFAULT_RATE, STATIC_TUPLES)


def test_the_rows_of_a_static_relation_say_nothing_about_time() -> None:
    times = np.arange(100, dtype=np.int64) * (SECOND // 10)
    keys = np.arange(100, dtype=np.int64)
    relation = StreamSample(np.full(100, NEVER), {0: keys}, total=5_000.0)
    alone = Statistics.measure(query([stream("A")]), [StreamSample(times, total=100.0)])
    known = Statistics.measure(with_a_relation(), [StreamSample(times, {0: keys}, total=100.0), relation])
    assert known.rates == (alone.rates[0], STATIC_RATE)
    assert known.windows == (alone.windows[0], 5_000.0)
    assert known.distinct[0][1] == pytest.approx(100, rel=0.05)
