"""Queries over one join, explained: who selects alike, the slices of windows, whom they serve, and why."""

from __future__ import annotations

import json

import pyarrow as pa

from tests.plan.test_explain import lines_of
from thalweg.cql import Source, bind
from thalweg.cql.group import Group, grouped
from thalweg.plan.explain import Facts
from thalweg.plan.explain_group import explain_group, why_apart
from thalweg.plan.explain_group_text import lay_out_group, names_text
from thalweg.plan.join_graph import JoinGraph
from thalweg.plan.search import choose_plan
from thalweg.plan.statistics import Statistics
from thalweg.policies import Policies
from thalweg.settings import Sharing

SCHEMA = pa.schema([("ts", pa.timestamp("us")), ("k", pa.int64()), ("x", pa.int64())])
CATALOG = {name: Source(SCHEMA, "ts") for name in "ABC"} | {
    "S": Source(pa.schema([("k", pa.int64()), ("name", pa.string())]), None)
}


def groups(*selects: str) -> list[Group]:
    text = ";\n".join(f"CREATE QUERY q{number} AS SELECT {rest}" for number, rest in enumerate(selects, start=1))
    return grouped(bind(text, CATALOG))


def facts_of(group: Group, sharing: Sharing = "auto") -> Facts:
    whole = group.whole
    known = Statistics.default(whole)
    return explain_group(group, choose_plan(JoinGraph.of(whole), known), known, Policies(sharing=sharing))


def one(*selects: str, sharing: Sharing = "auto") -> Facts:
    (group,) = groups(*selects)
    return facts_of(group, sharing)


THREE = (
    "A.x FROM A [RANGE 1 SECOND], B [RANGE 5 SECONDS] WHERE A.k = B.k AND A.x > 3",
    "COUNT(*) AS n FROM A [RANGE 1 MINUTE], B [RANGE 5 SECONDS] WHERE A.k = B.k AND A.x < 0",
    "DSTREAM b.x FROM B b [RANGE 5 SECONDS], A a [RANGE 10 SECONDS] WHERE a.k = b.k AND a.x > 3 AND a.x + b.x = 7",
)


def chain(facts: Facts, alias: str) -> list[tuple[str, list[str]]]:
    return [(each["keeps"], each["queries"]) for each in facts["sharing"]["chains"][alias]]


def test_it_is_json_and_what_queries_have_of_their_own_is_theirs() -> None:
    facts = one(*THREE)
    assert json.loads(json.dumps(facts)) == facts
    assert facts["kind"] == "group"
    assert [query["query"] for query in facts["queries"]] == ["q1", "q2", "q3"]
    assert {"output", "columns", "aggregation"} & facts.keys() == set()
    third = facts["queries"][2]
    assert third["selections"] == {"A": "A.x > 3"}  # in the words of the first query
    assert third["residual"] == ["A.x + B.x = 7"]
    assert third["windows"]["A"]["window"] == "RANGE 10 seconds"
    assert [query["output"] for query in facts["queries"]] == ["ISTREAM", "ISTREAM", "DSTREAM"]
    assert facts["queries"][1]["aggregation"]["calls"] == ["COUNT(*)"]
    assert facts["plan"]["text"] == "A B"
    assert [stream["window"] for stream in facts["streams"]] == ["RANGE 1 minute", "RANGE 5 seconds"]


def test_signatures_are_queries_that_select_alike() -> None:
    signatures = one(*THREE)["sharing"]["signatures"]
    assert [(each["selections"], each["queries"]) for each in signatures] == [
        ({"A": "A.x < 0"}, ["q2"]),
        ({"A": "A.x > 3"}, ["q1", "q3"]),
    ]
    assert [query["signature"] for query in one(*THREE)["queries"]] == [1, 0, 1]


def test_a_slice_serves_those_that_may_find_tuples_in_it() -> None:
    facts = one(*THREE, sharing="memory")
    everyone = ["q1", "q2", "q3"]
    # What passes A.x > 3 is of use for 10 seconds. Some of it may pass A.x < 0, too, as far as is known here.
    assert chain(facts, "A") == [("10 seconds", ["q1", "q3"]), ("1 minute", everyone)]
    assert chain(facts, "B") == [("5 seconds", everyone)]
    why = facts["sharing"]["why"]
    assert why == [
        "A: its tuples are of use for 2 lengths of time: a slice for each, so that no tuple stays longer",
        "B: all of its tuples are of use for the same time",
    ]


def test_slices_that_no_tuple_comes_into_are_told() -> None:
    """The long window is for all tuples, so none is over sooner."""
    facts = one(
        "A.x FROM A, B WHERE A.k = B.k AND A.x > 3 WINDOW RANGE 1 SECOND",
        "A.x FROM A, B WHERE A.k = B.k WINDOW RANGE 1 MINUTE",
        sharing="memory",
    )
    for alias in "AB":
        served = [queries for _, queries in chain(facts, alias)]
        assert served[-1] == ["q1", "q2"]
        assert not any(served[:-1])
    assert facts["sharing"]["why"][0].startswith("A: all of its tuples are of use for the same time")


def test_there_is_no_slice_for_a_length_that_no_tuple_has() -> None:
    """What passes ``A.x > 3`` is of use for 60 seconds, whichever of two queries it is for; nothing is for 30."""
    facts = one(
        "A.x FROM A [RANGE 30 SECONDS], B [NOW] WHERE A.k = B.k AND A.x > 3 AND B.x > 1",
        "A.x FROM A [RANGE 60 SECONDS], B [NOW] WHERE A.k = B.k AND A.x > 3 AND B.x < 1",
        "A.x FROM A [RANGE 10 SECONDS], B [NOW] WHERE A.k = B.k AND A.x < 0",
        sharing="memory",
    )
    assert chain(facts, "A") == [("10 seconds", ["q3"]), ("1 minute", ["q1", "q2", "q3"])]


def test_lengths_that_hardly_differ_share_a_slice() -> None:
    facts = one(
        "A.x FROM A [RANGE 59 SECONDS], B [NOW] WHERE A.k = B.k AND A.x > 3",
        "A.x FROM A [RANGE 60 SECONDS], B [NOW] WHERE A.k = B.k AND A.x < 0",
    )
    assert chain(facts, "A") == [("1 minute", ["q1", "q2"])]
    why = "A: its tuples are of use for 2 lengths of time: to have them in 1 slice costs a probe least"
    assert facts["sharing"]["why"][0] == why


def test_the_strategy_that_tells_nothing_apart_has_one_slice() -> None:
    facts = one(*THREE, sharing="pull_up")
    assert chain(facts, "A") == [("1 minute", ["q1", "q2", "q3"])]
    assert "asks selections of results" in facts["sharing"]["why"][0]


def test_push_down_has_no_slices() -> None:
    facts = one(*THREE, sharing="push_down")
    assert facts["sharing"]["why"][0].startswith("A: no slices: sharing push_down keeps and joins each part")
    alike = [select.split(" AND ")[0] for select in THREE[:2]]
    assert "push_down" not in "".join(one(*alike, sharing="push_down")["sharing"]["why"])  # there is one part


def test_rows_are_kept_for_the_greatest_number() -> None:
    facts = one(
        "A.x FROM A [ROWS 10], B [PARTITION BY k ROWS 3] WHERE A.k = B.k",
        "A.x FROM A [ROWS 99], B [PARTITION BY k ROWS 2] WHERE A.k = B.k AND A.x > 3",
    )
    assert chain(facts, "A") == [("ROWS 99", ["q1", "q2"])]
    assert chain(facts, "B") == [("PARTITION BY B.k ROWS 3", ["q1", "q2"])]


def test_static_relations_have_no_slices() -> None:
    facts = one(
        "A.x FROM A [NOW], S WHERE A.k = S.k AND S.name = 'a'", "A.x FROM A [RANGE 1 SECOND], S WHERE A.k = S.k"
    )
    assert list(facts["sharing"]["chains"]) == ["A"]
    assert [each["selections"] for each in facts["sharing"]["signatures"]] == [{"S": "S.name = 'a'"}, {}]


def test_more_signatures_than_masks_have_bits() -> None:
    selects = [f"A.x FROM A [NOW], B [NOW] WHERE A.k = B.k AND A.x = {number}" for number in range(70)]
    facts = one(*selects)
    signatures = facts["sharing"]["signatures"]
    assert (len(signatures), len({each["bit"] for each in signatures})) == (70, 62)
    assert sum(not each["exact"] for each in signatures) == 16  # eight bits have two
    text = lay_out_group(facts)
    assert "(asked again of results)" in text
    assert "Masks tell 62 signatures apart, and there are 70" in text


def test_the_text_goes_from_what_is_joined_to_what_it_costs() -> None:
    text = lay_out_group(one(*THREE))
    assert text.splitlines()[0] == "q1 and 2 more: 3 queries over one join of 2 streams, sharing auto"
    assert lines_of(text, "queries")[1:] == [
        "  q1  A RANGE 1 second, B RANGE 5 seconds    x",
        "  q2  A RANGE 1 minute, B RANGE 5 seconds    COUNT(*)",
        "  q3  A RANGE 10 seconds, B RANGE 5 seconds  x, as they leave; if A.x + B.x = 7",
    ]
    assert lines_of(text, "signatures")[1:] == ["  A: A.x < 0  q2", "  A: A.x > 3  q1, q3"]
    assert lines_of(text, "slices")[1:] == [
        "  A  tuples kept for 10 seconds  q1, q3",
        "     tuples kept for 1 minute    all",
        "  B  tuples kept for 5 seconds   all",
    ]
    titles = [line.split("  ")[0] for line in text.splitlines()[2:] if not line.startswith(" ")]
    assert titles[:6] == [
        "streams, with the widest window of each",
        "predicates",
        "queries",
        "signatures: who selects alike",
        "slices of windows, and the queries that they serve",
        "why these slices",
    ]
    assert titles[6:9] == ["plan", "what a new tuple does", "production"]


def test_many_names_are_counted() -> None:
    assert names_text([f"q{number}" for number in range(200)], 200) == "all"
    assert names_text(["q0"], 1) == "q0"


def test_why_queries_do_not_share() -> None:
    found = groups(
        "A.x FROM A, B WHERE A.k = B.k WINDOW RANGE 1 SECOND",
        "A.x FROM A, B WHERE A.x = B.k WINDOW RANGE 1 SECOND",
        "A.x FROM A, C WHERE A.k = C.k WINDOW RANGE 1 SECOND",
        "k FROM A [NOW] EXCEPT SELECT k FROM B [NOW]",
        "A.x FROM C [NOW], A [ROWS 6] WHERE A.k = C.k",
        "DSTREAM A.x FROM A [ROWS 5], C [NOW] WHERE A.k = C.k",
        "DSTREAM A.x FROM A [ROWS 6], C [NOW] WHERE A.k = C.k",
    )
    assert [len(group.readers) for group in found] == [1] * 7
    reasons = [why_apart(group.whole, [other for other in found if other is not group]) for group in found]
    assert reasons == [
        "q2 joins the same streams by other predicates",
        "q1 joins the same streams by other predicates",
        "q5 counts rows where this one does not, or the other way round",
        "a set difference is no join",
        "q6 names its streams in another order, by which rows are counted",
        "its ROWS windows differ in size from those of q7, and results that leave depend on that",
        "its ROWS windows differ in size from those of q6, and results that leave depend on that",
    ]
    assert why_apart(found[0].whole, found[2:]) == "no other query joins the same streams"
