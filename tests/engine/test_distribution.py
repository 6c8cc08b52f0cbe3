"""Results given to readers, without a join: rows by number, readers that stay, go and begin anew."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from thalweg.cql import Source, bind
from thalweg.cql.group import Group, grouped
from thalweg.engine.kernels.compiled import Int64s
from thalweg.engine.outputs.distribution import Distribution
from thalweg.engine.outputs.results import engine_columns
from thalweg.engine.rows.expressions import Expressions, physical_names
from thalweg.engine.rows.payload import TablePayload
from thalweg.errors import ReaderError
from thalweg.plan.slices import share

SCHEMA = pa.schema({"ts": pa.int64(), "k": pa.int64(), "v": pa.int64()})
JOIN = "FROM a, b WHERE a.k = b.k WINDOW RANGE"
CATALOG = {name: Source(SCHEMA, "ts") for name in "ab"}
ROWS = pa.table([np.arange(4), np.ones(4, np.int64), np.array([10, 11, 12, 0])], schema=SCHEMA)
PAYLOADS = [TablePayload(ROWS), TablePayload(ROWS)]


def group(column: str = "a.v") -> Group:
    text = f"CREATE QUERY short AS SELECT {column} AS v {JOIN} 2 MICROSECONDS; "
    (found,) = grouped(bind(text + f"CREATE QUERY long AS SELECT a.v {JOIN} 9 MICROSECONDS", CATALOG))
    return found


def distribution(group: Group, former: Distribution | None = None, *, anew: tuple[str, ...] = ()) -> Distribution:
    names = physical_names(group.whole)
    for query in group.queries:
        names |= engine_columns(query)
    return Distribution(group, share(group), Expressions(names), PAYLOADS, former=former, anew=anew)


def block(*ages: int) -> Int64s:
    """Results of the first rows of both streams, whose tuples of stream a have these ages."""
    found = [(5, 9, row, row, 1, age, 0) for row, age in enumerate(ages)]
    return np.array(found, np.int64).T.copy().T


def given(readers: Distribution, results: Int64s) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for part in readers.route(results):
        for name, table in readers.give(part):
            found[name] = found.get(name, []) + table.column("v").to_pylist()
    return found


def test_a_result_goes_to_each_reader_whose_windows_it_is_in() -> None:
    assert given(distribution(group()), block(0, 5, 1)) == {"short": [10, 12], "long": [10, 11, 12]}


def test_who_is_left_out_gets_nothing_and_others_the_results_of_late_rows_alone() -> None:
    readers = distribution(group())
    readers.only({"long": np.array([1, 1])})
    assert given(readers, block(0, 0)) == {"long": [11]}
    readers.only(None)
    assert given(readers, block(0)) == {"short": [10], "long": [10]}


def test_who_stays_goes_on_and_who_comes_again_begins_anew() -> None:
    first = distribution(group())
    given(first, block(0, 0))
    both = distribution(group(), first, anew=("short",))
    assert both.results == {"short": 0, "long": 2}
    alone = distribution(Group.of(group().queries[1]), both)
    assert alone.results == {"long": 2}
    assert alone.comparisons == both.comparisons == first.comparisons > 0


def test_a_reader_that_cannot_be_computed_is_named_when_time_passes() -> None:
    readers = distribution(group("1 / a.v"))
    assert given(readers, block(0, 0, 0, 0))["long"] == [10, 11, 12, 0]
    with pytest.raises(ReaderError) as raised:
        list(readers.settle(9, np.empty((0, 3), np.int64)))
    assert list(raised.value.reasons) == ["short"]
