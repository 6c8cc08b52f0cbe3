# ruff: noqa: S608 - these tests put query texts together from their own pieces
"""Where tuples go: golden grids, and the two promises (met exactly once, nothing torn apart) by brute force."""

import math
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from itertools import pairwise, product

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

from thalweg.cql import Query, Source, bind
from thalweg.cql.query import RowsWindow
from thalweg.errors import OptionError, PlanError
from thalweg.plan.partitioning import (
    LOAD_OVER_WORK,
    Axis,
    Coordinate,
    Int64s,
    Partitioning,
    choose_partitioning,
    describe,
)

COLUMNS = {
    "k": pa.int32(),
    "x": pa.int64(),
    "y": pa.int64(),
    "z": pa.int64(),
    "f": pa.float64(),
    "s": pa.string(),
    "ts": pa.timestamp("us"),
}
CATALOG = {name: Source(pa.schema(list(COLUMNS.items())), "ts") for name in "abcde"}
RANGE = "[RANGE 10 SECONDS]"


def bound(text: str) -> Query:
    """A query in which ``@`` stands for a window of ten seconds."""
    (query,) = bind(text.replace("@", RANGE), CATALOG)
    return query


def chosen(text: str, buckets: int = 64, rates: Sequence[float] | None = None) -> Partitioning:
    return choose_partitioning(bound(text), buckets, rates)


def shape(partitioning: Partitioning) -> tuple[str, tuple[int, ...]]:
    return partitioning.kind, tuple(axis.share for axis in partitioning.axes)


def ways(partitioning: Partitioning) -> list[str]:
    """Per stream, its coordinates: the hashed expressions, ``row`` or ``all``."""
    return [
        " | ".join(",".join(e.sql().replace('"', "") for e in c.expressions) or c.kind for c in stream)
        for stream in partitioning.coordinates
    ]


# Golden grids


def test_a_key_that_every_stream_has_takes_all_buckets() -> None:
    partitioning = chosen("SELECT a.x FROM a @, b @, c @ WHERE a.x = b.x AND b.x = c.y", buckets=61)
    assert shape(partitioning) == ("key", (61,))
    assert partitioning.axes == (Axis(61, (0,)),)
    assert ways(partitioning) == ["a.x", "b.x", "c.y"]
    assert [partitioning.copies(s) for s in range(3)] == [1, 1, 1]


def test_keys_of_the_same_streams_are_hashed_together() -> None:
    partitioning = chosen("SELECT a.x FROM a @, b @ WHERE a.x = b.x AND a.y <=> b.z")
    assert partitioning.axes == (Axis(64, (0, 1)),)
    assert ways(partitioning) == ["a.x,a.y", "b.x,b.z"]
    assert "hashed together" in partitioning.reason


def test_a_smaller_class_adds_nothing_to_one_that_reaches_every_stream() -> None:
    partitioning = chosen("SELECT a.x FROM a @, b @, c @ WHERE a.x = b.x AND b.x = c.x AND a.y = b.y AND b.z < c.z")
    assert shape(partitioning) == ("key", (64,))
    assert ways(partitioning) == ["a.x", "b.x", "c.x"]


def test_a_triangle_is_a_cube() -> None:
    partitioning = chosen("SELECT a.x FROM a @, b @, c @ WHERE a.x = b.x AND b.y = c.y AND c.z = a.z")
    assert shape(partitioning) == ("hypercube", (4, 4, 4))
    assert ways(partitioning) == ["a.x | all | a.z", "b.x | b.y | all", "all | c.y | c.z"]
    assert [partitioning.copies(s) for s in range(3)] == [4, 4, 4]


def test_a_chain_is_split_at_its_ends() -> None:
    three = chosen("SELECT a.x FROM a @, b @, c @ WHERE a.x = b.x AND b.y = c.y")
    assert shape(three) == ("hypercube", (8, 8))
    assert ways(three) == ["a.x | all", "b.x | b.y", "all | c.y"]
    four = chosen("SELECT a.x FROM a @, b @, c @, d @ WHERE a.x = b.x AND b.y = c.y AND c.z = d.z")
    assert shape(four) == ("hypercube", (8, 8))
    assert ways(four) == ["a.x | all", "b.x | all", "all | c.z", "all | d.z"]


def test_a_star_copies_its_points_but_not_its_centre() -> None:
    partitioning = chosen("SELECT a.x FROM a @, b @, c @, d @ WHERE a.x = b.x AND a.y = c.y AND a.z = d.z")
    assert shape(partitioning) == ("hypercube", (4, 4, 4))
    assert [partitioning.copies(s) for s in range(4)] == [1, 16, 16, 16]


def test_the_rates_decide_what_is_copied() -> None:
    chain = "SELECT a.x FROM a @, b @, c @ WHERE a.x = b.x AND b.y = c.y"
    assert shape(chosen(chain, rates=(100, 100, 1))) == ("hypercube", (64,))
    assert ways(chosen(chain, rates=(1, 100, 100))) == ["all", "b.y", "c.y"]
    assert shape(chosen(chain, rates=(4, 0, 1))) == ("hypercube", (16, 4))
    assert shape(chosen(chain, rates=(0, 0, 0))) == shape(chosen(chain))


def test_buckets_that_no_grid_can_use_stay_idle() -> None:
    assert shape(chosen("SELECT a.x FROM a @, b @, c @ WHERE a.x = b.x AND b.y = c.y", buckets=7)) == (
        "hypercube",
        (2, 3),
    )


def test_a_theta_join_is_a_grid_of_rows() -> None:
    partitioning = chosen("SELECT a.x FROM a @, b @ WHERE a.x < b.x")
    assert shape(partitioning) == ("grid", (8, 8))
    assert partitioning.axes == (Axis(8, stream=0), Axis(8, stream=1))
    assert ways(partitioning) == ["row | all", "all | row"]
    assert shape(chosen("SELECT a.x FROM a @, b @ WHERE a.x < b.x", rates=(4, 1))) == ("grid", (16, 4))
    assert shape(chosen("SELECT a.x FROM a @ CROSS JOIN b @ CROSS JOIN c @")) == ("grid", (4, 4, 4))


def test_a_last_little_gain_is_not_worth_much_copying() -> None:
    partitioning = chosen("SELECT a.x FROM a @, b @ WHERE a.x < b.x", rates=(1000, 1))
    assert shape(partitioning) == ("grid", (64,))
    one_sided = chosen("SELECT a.x FROM a [PARTITION BY k % 3 ROWS 3], b @ WHERE a.x = b.x", 64)
    assert ways(one_sided) == ["all", "row"]
    assert one_sided.buckets == LOAD_OVER_WORK


def test_equalities_and_thetas_share_one_grid() -> None:
    partitioning = chosen("SELECT a.x FROM a @, b @, c @ WHERE a.x = b.x AND b.y < c.y", rates=(1, 1, 2))
    assert shape(partitioning) == ("hypercube", (8, 8))
    assert partitioning.axes == (Axis(8, (0,)), Axis(8, stream=2))
    assert ways(partitioning) == ["a.x | all", "b.x | all", "all | row"]


def test_a_stream_under_two_names_is_two_streams() -> None:
    assert ways(chosen("SELECT p.x FROM a @ AS p, a @ AS q WHERE p.x = q.y")) == ["p.x", "q.y"]


def test_one_stream_is_split_anyhow() -> None:
    assert ways(chosen("SELECT x FROM a @")) == ["row"]
    assert shape(chosen("SELECT x FROM a @", buckets=7)) == ("grid", (7,))


# What must not be torn apart


def test_one_bucket_if_one_was_asked_for() -> None:
    partitioning = chosen("SELECT a.x FROM a @, b @ WHERE a.x = b.x", buckets=1)
    assert shape(partitioning) == ("single", ())
    assert partitioning.reason == "one bucket was asked for"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SELECT a.x FROM a [ROWS 5], b @ WHERE a.x = b.x", "[ROWS 5] of a"),
        ("SELECT COUNT(*) FROM a @, b @ WHERE a.x = b.x", "without GROUP BY"),
        ("SELECT a.x + b.x, COUNT(*) FROM a @, b @ WHERE a.y = b.y GROUP BY a.x + b.x", "GROUP BY a.x + b.x"),
        ("SELECT x FROM a [PARTITION BY k % 2 ROWS 5]", "partitions of its ROWS window"),
    ],
)
def test_one_bucket_if_nothing_may_be_split(text: str, reason: str) -> None:
    partitioning = chosen(text)
    assert (shape(partitioning), partitioning.buckets) == (("single", ()), 1)
    assert reason in partitioning.reason


@pytest.mark.parametrize(
    ("partition_by", "expected"),
    [
        ("x", ["a.x", "b.x"]),
        ("k, (x)", ["a.x", "b.x"]),
        ("y", ["a.y | all", "all | row"]),  # a is split by its partitions, where the join key would tear them apart
        ("x + 1", ["all", "row"]),
    ],
)
def test_a_rows_window_is_split_by_its_partitions_only(partition_by: str, expected: list[str]) -> None:
    text = f"SELECT a.x FROM a [PARTITION BY {partition_by} ROWS 5], b @ WHERE a.x = b.x"
    assert ways(chosen(text)) == expected


def test_only_the_classes_among_the_partition_keys_are_hashed() -> None:
    text = "SELECT a.x FROM a [PARTITION BY y ROWS 5], b @ WHERE a.x = b.x AND a.y = b.y"
    assert ways(chosen(text)) == ["a.y", "b.y"]


def test_a_cast_of_a_partition_key_follows_from_it() -> None:
    text = "SELECT a.x FROM a [PARTITION BY k ROWS 5], b @ WHERE a.k = b.x"
    assert ways(chosen(text)) == ["CAST(a.k AS BIGINT)", "b.x"]


@pytest.mark.parametrize(
    ("key", "condition", "expected"),
    [
        ("a.x", "a.x = b.y", ["a.x", "b.y"]),
        ("(b.y)", "a.x = b.y", ["a.x", "b.y"]),  # equal to a.x in every result
        ("a.k", "a.k = b.y", ["CAST(a.k AS BIGINT)", "b.y"]),
        ("a.f", "a.f = b.f", ["a.f", "b.f"]),
        ("a.f", "CAST(a.f AS STRING) = b.s", ["a.f", "all"]),  # 0.0 and -0.0 are one group, but not one string
        ("CAST(a.x AS DOUBLE)", "a.x = b.x", ["CAST(a.x AS DOUBLE)", "all"]),  # large integers meet in one double
        ("a.y", "a.x = b.x", ["a.y", "all"]),
        ("a.y, b.y", "a.x = b.x", ["a.y | all", "all | b.y"]),
    ],
)
def test_groups_stay_in_one_bucket(key: str, condition: str, expected: list[str]) -> None:
    assert ways(chosen(f"SELECT COUNT(*) FROM a @, b @ WHERE {condition} GROUP BY {key}")) == expected


def test_one_stream_is_split_by_its_groups_and_partitions() -> None:
    assert shape(chosen("SELECT x, COUNT(*) FROM a @ GROUP BY x")) == ("key", (64,))
    assert ways(chosen("SELECT x, COUNT(*) FROM a @ GROUP BY x, f")) == ["a.x,a.f"]
    assert ways(chosen("SELECT x, COUNT(*) FROM a [PARTITION BY x, y ROWS 3] GROUP BY x, f")) == ["a.x"]


def test_a_difference_goes_by_key() -> None:
    assert ways(chosen("SELECT x, y FROM a @ EXCEPT SELECT x, y FROM b @ EXCEPT SELECT y, z FROM c @")) == [
        "a.x,a.y",
        "b.x,b.y",
        "c.y,c.z",
    ]
    rows = "SELECT x, y FROM a @ EXCEPT SELECT x, y FROM b [PARTITION BY y ROWS 3]"
    assert ways(chosen(rows)) == ["a.y", "b.y"]


def test_only_the_first_stream_of_a_difference_is_split_by_rows() -> None:
    assert ways(chosen("SELECT x FROM a @ EXCEPT SELECT x FROM b [PARTITION BY y ROWS 3]")) == ["row", "all"]


# Words and errors


def test_what_a_person_reads() -> None:
    query = bound("SELECT a.x FROM a @, b @, c @ WHERE a.x = b.x AND b.y < c.y")
    assert describe(query, choose_partitioning(query, 64, (1, 1, 2))) == (
        "64 buckets (8 × 8), hypercube: no join key that may split tuples reaches every stream, so each is split by"
        " what it has and copied along the rest: 8 by x, 8 by rows of c",
        "a: each tuple to 8 buckets, by a.x",
        "b: each tuple to 8 buckets, by b.x",
        "c: each tuple to 8 buckets, by row",
    )
    assert describe(query, choose_partitioning(query, 1)) == ("1 bucket, single: one bucket was asked for",)


@pytest.mark.parametrize("buckets", [0, -1, 5000])
def test_a_number_of_buckets_out_of_range(buckets: int) -> None:
    with pytest.raises(OptionError, match=rf"buckets is {buckets}\. Use a whole number from 1 to 4096"):
        chosen("SELECT x FROM a @", buckets)


@pytest.mark.parametrize("rates", [(1,), (1, -1), (1, math.nan), (math.inf, 1)])
def test_rates_that_are_none(rates: tuple[float, ...]) -> None:
    with pytest.raises(PlanError, match="one number from 0 for each of a, b"):
        chosen("SELECT a.x FROM a @, b @ WHERE a.x = b.x", rates=rates)


def test_hashes_that_do_not_fit() -> None:
    partitioning = chosen("SELECT a.x FROM a @, b @ WHERE a.x = b.x")
    for hashes in ([], [np.zeros(2, np.int64)], [np.zeros(3, np.int64)] * 2):
        with pytest.raises(PlanError, match="stream 1 is routed by 1 arrays of 3 64-bit hashes"):
            partitioning.route(1, hashes, 3)


# Shares


def price(partitioning: Partitioning, rates: Sequence[float], shares: Sequence[int]) -> float:
    loads = []
    for rate, coordinates in zip(rates, partitioning.coordinates, strict=True):
        known = (share for share, c in zip(shares, coordinates, strict=True) if c.kind != "all")
        loads.append(rate / math.prod(known))
    return math.log(sum(loads)) + math.log(sum(loads) * math.prod(shares)) / LOAD_OVER_WORK


JOINS = [
    "SELECT a.x FROM a @, b @, c @ WHERE a.x = b.x AND b.y = c.y AND c.z = a.z",
    "SELECT a.x FROM a @, b @, c @, d @ WHERE a.x = b.x AND a.y = c.y AND a.z = d.z",
    "SELECT a.x FROM a @ CROSS JOIN b @ CROSS JOIN c @",
    "SELECT a.x FROM a @, b @, c @, d @ WHERE a.x = b.x AND b.y = c.y AND c.z < d.z",
]


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(JOINS), st.integers(2, 40), st.lists(st.integers(1, 50), min_size=4, max_size=4))
def test_no_other_shares_are_better(text: str, buckets: int, weights: list[int]) -> None:
    query = bound(text)
    rates = weights[: len(query.streams)]
    whole = choose_partitioning(query, 64)  # with equal rates, all axes are used
    used = choose_partitioning(query, buckets, rates)
    by_axis = {(axis.classes, axis.stream): axis.share for axis in used.axes}
    shares = [by_axis.get((axis.classes, axis.stream), 1) for axis in whole.axes]
    assert math.prod(shares) == used.buckets <= buckets
    every = (s for s in product(range(1, buckets + 1), repeat=len(shares)) if math.prod(s) <= buckets)
    assert price(whole, rates, shares) <= min(price(whole, rates, other) for other in every) + 1e-6


def test_many_streams_are_within_reach() -> None:
    names = [f"s{i}" for i in range(20)]
    conditions = [f"{one}.x = {other}.y" for one, other in pairwise(names)]
    streams = ", ".join(f"{name} {RANGE}" for name in names)
    text = f"SELECT s0.x FROM {streams} WHERE {' AND '.join(conditions)}"
    (query,) = bind(text, dict.fromkeys(names, CATALOG["a"]))
    partitioning = choose_partitioning(query, 4_096)
    evenly = [2 if axis % 2 == 0 else 1 for axis in range(19)]
    load = sum(1 / math.prod(evenly[max(0, s - 1) : s + 1]) for s in range(20))
    chosen_load = sum(partitioning.copies(s) / partitioning.buckets for s in range(20))
    assert chosen_load <= load


# Routing

Row = dict[str, int | float | str | None]


def value(expression: exp.Expr, row: Row) -> int | float | str | None:
    """What a column is in a row; casts here change no value that the tests hold."""
    column = expression.find(exp.Column)
    assert column is not None
    return row[column.name]


def hashed(values: Sequence[object], salt: int) -> int:
    """A well mixed hash of the values, the same in every run."""
    digest = blake2b(repr((salt, *values)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, signed=True)


def buckets_of(partitioning: Partitioning, stream: int, rows: Sequence[Row], salt: int = 0) -> list[set[int]]:
    """The buckets of each row, each of them once."""
    hashes: list[Int64s] = []
    for coordinate in partitioning.known(stream):
        expressions = coordinate.expressions
        hashes.append(
            np.array(
                [
                    hashed([value(e, row) for e in expressions] if expressions else [n], salt)
                    for n, row in enumerate(rows)
                ],
                np.int64,
            )
        )
    numbers, buckets = partitioning.route(stream, hashes, len(rows))
    pairs = list(zip(numbers.tolist(), buckets.tolist(), strict=True))
    assert len(set(pairs)) == len(pairs)
    assert all(0 <= bucket < partitioning.buckets for _, bucket in pairs)
    return [{b for n, b in pairs if n == row} for row in range(len(rows))]


def test_a_bucket_is_the_number_of_its_coordinates() -> None:
    by_hash, everywhere = Coordinate("hash"), Coordinate("all")
    axes = (Axis(2, (0,)), Axis(3, (1,)), Axis(4, stream=2))
    partitioning = Partitioning("hypercube", 24, "", axes, ((by_hash, everywhere, by_hash), (by_hash,) * 3))
    low, high = -1 << 63, (1 << 63) - 1
    first, last = np.array([0, -1], np.int64), np.array([low, high], np.int64)
    rows, buckets = partitioning.route(0, [first, last], 2)
    assert rows.tolist() == [0, 1, 0, 1, 0, 1]
    assert buckets.tolist() == [2, 13, 6, 17, 10, 21]
    rows, buckets = partitioning.route(1, [first, first, first], 2)
    assert (rows.tolist(), buckets.tolist()) == ([0, 1], [0, 23])
    assert (rows.dtype, buckets.dtype) == (np.int64, np.int32)


def test_hashes_are_spread_evenly_over_any_share() -> None:
    hashes = np.random.default_rng(1).integers(-(2**63), 2**63 - 1, 200_000)
    for buckets in (7, 61, 64):
        _, found = chosen("SELECT a.x FROM a @, b @ WHERE a.x = b.x", buckets).route(0, [hashes], len(hashes))
        counts = np.bincount(found, minlength=buckets) * buckets / len(hashes)
        assert counts.shape == (buckets,)
        assert 0.9 < counts.min() <= counts.max() < 1.1


def test_no_rows() -> None:
    rows, buckets = chosen("SELECT a.x FROM a @, b @ WHERE a.x < b.x").route(0, [np.zeros(0, np.int64)], 0)
    assert len(rows) == len(buckets) == 0


# The promises, by brute force

ALIASES = "abcd"
KEYS = ["x", "y", "k"]


@st.composite
def joins(draw: st.DrawFn, grouped: bool) -> str:
    """A join of up to four streams, with every kind of window."""
    count = draw(st.integers(1, 4))
    windows = st.sampled_from([RANGE, RANGE, "[PARTITION BY x ROWS 2]", "[PARTITION BY y, k ROWS 3]"])
    streams = [f"{alias} {draw(windows)}" for alias in ALIASES[:count]]
    conditions = []
    for right in range(1, count):
        for _ in range(draw(st.sampled_from([1, 1, 2, 0]))):
            left = draw(st.integers(0, right - 1))
            sides = [f"{ALIASES[s]}.{draw(st.sampled_from(KEYS))}" for s in (left, right)]
            conditions.append(draw(st.sampled_from(["{} = {}", "{} = {}", "{} <=> {}", "{} < {}"])).format(*sides))
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    keys = draw(st.lists(st.sampled_from([f"{a}.{k}" for a in ALIASES[:count] for k in KEYS]), min_size=1, max_size=2))
    select, group = (f"COUNT(*) AS n, {keys[0]} AS g", f" GROUP BY {', '.join(keys)}") if grouped else ("a.x AS g", "")
    return f"SELECT {select} FROM {' CROSS JOIN '.join(streams)}{where}{group}"


ROWS = st.lists(st.fixed_dictionaries({key: st.sampled_from([None, 0, 1, 2]) for key in KEYS}), min_size=3, max_size=6)
TABLES = st.lists(ROWS, min_size=4, max_size=4)
RATES = st.lists(st.integers(1, 20), min_size=4, max_size=4)


def agreeing(query: Query, tables: Sequence[Sequence[Row]]) -> Iterator[tuple[int, ...]]:
    """Every combination of row numbers, one per stream, that satisfies the equalities."""
    for combination in product(*(range(len(table)) for table in tables)):
        for cls in query.classes:
            values = {value(e, tables[s][combination[s]]) for s, e in cls.members.items()}
            if len(values) > 1 or (None in values and not cls.null_safe):
                break
        else:
            yield combination


def check_partitions(query: Query, tables: Sequence[Sequence[Row]], found: Sequence[Sequence[set[int]]]) -> None:
    """The rows of a partition of a ROWS window are in the same buckets."""
    for stream, ref in enumerate(query.streams):
        if not isinstance(ref.window, RowsWindow):
            continue
        places: dict[tuple[object, ...], set[int]] = {}
        for row, buckets in zip(tables[stream], found[stream], strict=True):
            partition = tuple(value(e, row) for e in ref.window.partition_by)
            assert places.setdefault(partition, buckets) == buckets


@settings(max_examples=200, deadline=None)
@given(
    st.booleans().flatmap(lambda grouped: joins(grouped=grouped)),
    TABLES,
    RATES,
    st.sampled_from([2, 5, 12, 64]),
    st.integers(0, 5),
)
def test_every_combination_meets_in_exactly_one_bucket(
    text: str, rows: list[list[Row]], weights: list[int], buckets: int, salt: int
) -> None:
    query = bound(text)
    count = len(query.streams)
    tables = rows[:count]
    partitioning = choose_partitioning(query, buckets, weights[:count])
    assert math.prod(axis.share for axis in partitioning.axes) == partitioning.buckets <= buckets
    found = [buckets_of(partitioning, s, table, salt) for s, table in enumerate(tables)]
    groups: dict[tuple[object, ...], set[int]] = {}
    for combination in agreeing(query, tables):
        meeting = set.intersection(*(found[s][row] for s, row in enumerate(combination)))
        assert len(meeting) == 1
        if query.aggregation is not None:
            group = tuple(group_value(query, key.expression, tables, combination) for key in query.aggregation.keys)
            assert groups.setdefault(group, meeting) == meeting
    check_partitions(query, tables, found)


def group_value(
    query: Query, expression: exp.Expr, tables: Sequence[Sequence[Row]], combination: tuple[int, ...]
) -> object:
    column = expression.find(exp.Column)
    assert column is not None
    stream = query.aliases.index(column.table)
    return value(expression, tables[stream][combination[stream]])


@st.composite
def differences(draw: st.DrawFn) -> str:
    windows = st.sampled_from([RANGE, "[PARTITION BY x ROWS 2]", "[PARTITION BY k ROWS 3]"])
    columns = draw(st.sampled_from(["x", "x, y", "k, y"]))
    sides = [f"SELECT {columns} FROM {alias} {draw(windows)}" for alias in ALIASES[: draw(st.integers(2, 3))]]
    return " EXCEPT ".join(sides)


@settings(max_examples=100, deadline=None)
@given(differences(), TABLES, st.sampled_from([2, 5, 12, 64]), st.integers(0, 5))
def test_a_tuple_of_a_difference_has_all_that_can_exclude_it_beside_it(
    text: str, rows: list[list[Row]], buckets: int, salt: int
) -> None:
    query = bound(text)
    tables = rows[: len(query.streams)]
    partitioning = choose_partitioning(query, buckets)
    found = [buckets_of(partitioning, s, table, salt) for s, table in enumerate(tables)]
    for row, place in zip(tables[0], found[0], strict=True):
        assert len(place) == 1
        for stream in range(1, len(tables)):
            for other, others_places in zip(tables[stream], found[stream], strict=True):
                if all(value(c.members[0], row) == value(c.members[stream], other) for c in query.classes):
                    assert place <= others_places
    check_partitions(query, tables, found)


# Static relations ---------------------------------------------------------------------------------


def test_a_static_relation_is_copied_rather_than_a_stream() -> None:
    catalog = {**CATALOG, "c": Source(CATALOG["c"].schema, None)}
    text = f"SELECT a.k FROM a {RANGE}, c, b {RANGE} WHERE a.k = b.k AND a.x = c.x"
    (query,) = bind(text, catalog)
    found = choose_partitioning(query, 8)
    assert shape(found) == ("key", (8,))
    assert [found.copies(stream) for stream in range(3)] == [1, 8, 1]
    assert describe(query, found)[0].endswith("so none is copied; every bucket has all of c, static")
    assert describe(query, found)[2] == "c: each tuple to every bucket"
    split = choose_partitioning(bind(text.replace("a.x = c.x", "a.k = c.k"), catalog)[0], 8)
    assert [split.copies(stream) for stream in range(3)] == [1, 1, 1]
