"""Which freshness a target can keep, and how old results are."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from thalweg.cql import Source, bind
from thalweg.cql.group import Group
from thalweg.errors import FreshnessError
from thalweg.spark.freshness import check_freshness, freshness_report, freshness_total

SECOND = 1_000_000
ROW = pa.schema([("ts", pa.timestamp("us")), ("k", pa.int64())])
PAIR = "SELECT a.k FROM a {}, b {} WHERE a.k = b.k {}"


def group(text: str) -> Group:
    (query,) = bind(text, {name: Source(ROW, "ts") for name in "ab"})
    return Group.of(query)


def test_the_least_that_can_be_kept_is_said_of_all_streams() -> None:
    asking = group(PAIR.format("[RANGE 10 SECONDS]", "[RANGE 4 SECONDS FRESHNESS 20 SECONDS]", "FRESHNESS 30 SECONDS"))
    check_freshness(asking, [None, 6 * SECOND], 5 * SECOND)
    with pytest.raises(FreshnessError) as error:
        check_freshness(asking, [9 * SECOND, 7 * SECOND], 6 * SECOND)
    assert "31 seconds for stream 'a' (it is 30 seconds), 23 seconds for stream 'b' (it is 20 seconds)" in str(
        error.value
    )
    assert error.value.least == (31.0, 23.0)


@pytest.mark.parametrize("window", ["[RANGE 1 HOUR]", "[RANGE UNBOUNDED]", ""])
def test_what_counts_is_how_long_a_tuple_can_find_partners(window: str) -> None:
    """Predicates may end that long before its window does, or although its window never ends."""
    near = "AND a.ts >= b.ts - INTERVAL 3 SECONDS AND a.ts <= b.ts + INTERVAL 3 SECONDS FRESHNESS 10 SECONDS"
    asking = group(PAIR.format(window, window, near))
    check_freshness(asking, [None, None], 3 * SECOND)
    with pytest.raises(FreshnessError, match="The least that can be kept: 11000001 microseconds for stream 'a'"):
        check_freshness(asking, [None, None], 4 * SECOND)


def test_results_are_stale_that_hold_what_is_too_old() -> None:
    asking = group(PAIR.format("[RANGE 1 SECOND]", "[RANGE 1 SECOND]", "FRESHNESS 2 SECONDS"))
    now = 100 * SECOND
    times = {("query1", "a"): now - np.array([1, 2, 3]) * SECOND, ("query1", "b"): now - np.array([1, 1, 1]) * SECOND}
    report = freshness_report(asking, times, now)
    told = freshness_total([report, report])["query1"]
    assert (told["a"]["results"], told["a"]["stale"], told["a"]["max"]) == (6, 2, 3.0)
    assert (told["b"]["stale"], told["b"]["asked"]) == (0, 2.0)
