"""A bucket takes the plans of its kind of query, and a change of plan leaves a set difference what it is."""

from __future__ import annotations

import pyarrow as pa
import pytest

from thalweg.cql import Source, bind
from thalweg.cql.group import Group
from thalweg.cql.query import Query
from thalweg.engine.bucket import open_bucket
from thalweg.errors import PlanError
from thalweg.plan.difference import DifferencePlan
from thalweg.plan.tree import TreePlan, left_deep
from thalweg.replayer import PlanUse, run

SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.int64())])
EXCEPT = (
    "SELECT k FROM a [RANGE 9 US] EXCEPT SELECT k FROM b [RANGE 2 US] "
    "EXCEPT SELECT k FROM c [RANGE 2 US] EXCEPT SELECT k FROM d [RANGE 2 US]"
)
JOIN = "SELECT a.k FROM a [RANGE 9 US], b [RANGE 9 US] WHERE a.k = b.k"
NEW_ORDER = DifferencePlan((3, 1, 2))
TREE = TreePlan(left_deep([0, 1]))


def bound(text: str) -> Query:
    return bind(text, {name: Source(SCHEMA, "ts") for name in "abcd"})[0]


def test_the_first_plan_is_the_order_of_the_query() -> None:
    bucket = open_bucket(Group.of(bound(EXCEPT)), None)
    assert bucket.plan == DifferencePlan((1, 2, 3))  # type: ignore[attr-defined] # only some buckets say it
    bucket.transition(NEW_ORDER)
    assert bucket.plan == NEW_ORDER  # type: ignore[attr-defined]


@pytest.mark.parametrize("text", [EXCEPT, JOIN])
def test_a_plan_of_the_other_kind_is_refused(text: str) -> None:
    query = bound(text)
    fitting, other = (NEW_ORDER, TREE) if query.kind == "difference" else (TREE, NEW_ORDER)
    with pytest.raises(PlanError, match=r"query 'query1' is a .* and needs the plan of one"):
        open_bucket(Group.of(query), other)
    with pytest.raises(PlanError, match=r"query 'query1' is a .* and needs the plan of one"):
        open_bucket(Group.of(query), fitting).transition(other)


def test_a_replay_says_which_plans_it_used() -> None:
    streams = {
        "a": {"ts": [1, 2], "k": [7, 8]},
        "b": {"ts": [1], "k": [7]},
        "c": {"ts": [2], "k": [9]},
        "d": {"ts": [4], "k": [8]},
    }
    same = run(EXCEPT, streams)
    changed = run(EXCEPT, streams, options={"plan": "a - d - c - b"}, transitions=[(2, "((a - c) - b) - d")])
    assert changed.table == same.table
    assert changed.table.num_rows == 3  # 8 at once and again after d has gone, 7 when b has
    assert changed.summary.plans == (PlanUse(0, "a - d - c - b"), PlanUse(2, "a - c - b - d"))
    assert same.summary.plans == (PlanUse(0, "a - b - c - d"),)
