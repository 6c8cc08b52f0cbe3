"""``thalweg.explain``: in process, of tables or of schemas alone."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

import thalweg
from thalweg.errors import InputError, QueryError

TEXT = """
CREATE QUERY pairs AS SELECT a.k FROM a, b, c WHERE a.k = b.k AND b.j = c.j WINDOW RANGE 1 SECOND;
CREATE QUERY alone AS SELECT k FROM a [NOW] WHERE k < 3
"""
STREAMS = {
    "a": {"ts": [0, 1, 2], "k": [1, 2, 3]},
    "b": {"ts": [0], "k": [1], "j": ["x"]},
    "c": pa.table({"ts": [0], "j": ["x"]}),
}
SCHEMAS = {name: (table if isinstance(table, pa.Table) else pa.table(table)).schema for name, table in STREAMS.items()}


def test_it_prints_as_text_and_has_facts_for_programs() -> None:
    explained = thalweg.explain(TEXT, STREAMS, query="pairs", options={"plan": "(b c) a", "states": "all"})
    assert explained.facts["plan"]["text"] == "(b c) a"
    assert [state["state"] for state in explained.facts["states"] if state["kept"]] == ["b⋈c"]
    assert json.loads(json.dumps(explained.facts)) == explained.facts
    assert "(b c) a" in explained.text
    assert str(explained) == repr(explained) == explained.text
    assert explained._repr_html_() == f"<pre>{explained.text.replace('<', '&lt;').replace('>', '&gt;')}</pre>"


def test_schemas_describe_streams_without_rows() -> None:
    known = thalweg.explain(TEXT, STREAMS, query="alone").facts["streams"][0]
    assumed = thalweg.explain(TEXT, SCHEMAS, query="ALONE").facts["streams"][0]
    assert known["alias"] == assumed["alias"] == "a"
    assert known["rate"] == 2_000_000  # two gaps of a microsecond
    assert assumed["rate"] != known["rate"]


def test_options_of_the_run_count() -> None:
    explained = thalweg.explain(TEXT, SCHEMAS, query="pairs", options={"buckets": 4, "production": "jit"})
    assert explained.facts["buckets"]["number"] <= 4
    assert explained.facts["production"] is not None
    assert thalweg.explain(TEXT, SCHEMAS, query="pairs").facts["buckets"] is None


def test_what_is_wrong_is_said_as_by_replay() -> None:
    with pytest.raises(QueryError, match=r"the text has no query 'none'\. Its queries are pairs, alone\."):
        thalweg.explain(TEXT, STREAMS, query="none")
    with pytest.raises(InputError, match="streams is a list"):
        thalweg.explain(TEXT, [SCHEMAS], query="alone")  # type: ignore[arg-type]


SHARED = """
CREATE QUERY one AS SELECT a.k FROM a, b WHERE a.k = b.k WINDOW RANGE 1 SECOND;
CREATE QUERY two AS SELECT x.k FROM b y, a x WHERE x.k = y.k AND x.k > 1 WINDOW RANGE 1 MINUTE;
CREATE QUERY three AS SELECT a.k FROM a, b, c WHERE a.k = b.k AND b.j = c.j WINDOW RANGE 1 SECOND
"""


def test_of_several_queries_it_is_told_who_shares_a_join() -> None:
    explained = thalweg.explain(SHARED, STREAMS)
    assert json.loads(json.dumps(explained.facts)) == explained.facts
    assert explained.facts["groups"] == [
        {"queries": ["one", "two"], "apart": None},
        {"queries": ["three"], "apart": "no other query joins the same streams"},
    ]
    group, alone = explained.facts["explained"]
    assert [query["query"] for query in group["queries"]] == ["one", "two"]
    assert alone == thalweg.explain(SHARED, STREAMS, query="three").facts
    assert explained.text.splitlines()[:6] == [
        "3 queries, 2 joins",
        "  one, two: share a join",
        "  three: is by itself, since no other query joins the same streams",
        "",
        "one and 1 more: 2 queries over one join of 2 streams, sharing auto",
        "",
    ]
    assert explained.text.endswith(str(thalweg.explain(SHARED, STREAMS, query="three")))


def test_schemas_describe_the_streams_of_several_queries_too() -> None:
    known, assumed = (thalweg.explain(SHARED, given).facts["explained"][0] for given in (STREAMS, SCHEMAS))
    assert known["streams"][0]["rate"] != assumed["streams"][0]["rate"]
    assert known["sharing"] == assumed["sharing"]


@pytest.mark.parametrize(
    ("options", "reason"),
    [({"sharing": "none"}, "sharing is none"), ({"buckets": 2}, "on Spark each query runs by itself")],
)
def test_queries_that_could_share_a_join_may_not(options: dict[str, object], reason: str) -> None:
    explained = thalweg.explain(SHARED, STREAMS, options=options)
    assert explained.facts["groups"] == [{"queries": [name], "apart": reason} for name in ("one", "two", "three")]
    assert explained.facts["explained"][1] == thalweg.explain(SHARED, STREAMS, options=options, query="two").facts


def test_the_strategy_is_that_of_the_run() -> None:
    chains = [
        thalweg.explain(SHARED, STREAMS, options={"sharing": sharing}).facts["explained"][0]["sharing"]["chains"]["a"]
        for sharing in ("memory", "pull_up")
    ]
    assert [len(chain) for chain in chains] == [2, 1]
