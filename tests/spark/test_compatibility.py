"""Which queries can go on from which checkpoints, and what is said of the others."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pytest
from sqlglot import exp

from thalweg.cql import Source, bind
from thalweg.plan.partitioning import choose_partitioning
from thalweg.spark.below import can_be_computed
from thalweg.spark.carriage import Kept, carriage
from thalweg.spark.compatibility import carried_on, compare, obstacles
from thalweg.spark.description import FORMAT, Description, description
from thalweg.spark.division import divide
from thalweg.spark.log_change import _passing
from thalweg.spark.packing import blob

SCHEMA = pa.schema([("ts", pa.timestamp("us")), ("k", pa.int64()), ("x", pa.int64())])
CATALOG = {name: Source(SCHEMA, "ts") for name in "abc"}
BASE = "SELECT a.x FROM a [RANGE 10 SECONDS], b [ROWS 5] WHERE a.k = b.k AND a.x > 3"


ALL = dict.fromkeys("abc", Kept(tuple(SCHEMA.names), required=False))
STATIC = {**CATALOG, "c": Source(SCHEMA, None)}


def described(
    cql: str, buckets: int = 1, catalog: Mapping[str, Source] = CATALOG, keep: Mapping[str, Kept] = ALL
) -> Description:
    query = bind(cql, catalog)[0]
    return description(query, choose_partitioning(query, buckets), divide(query, keep).carried)


@pytest.mark.parametrize(
    "cql",
    [
        BASE,
        BASE.replace("a.x FROM", "b.x, a.k + 1 AS y FROM"),
        BASE + " AND a.x + b.x > 3",
        BASE.replace("10 SECONDS", "9 SECONDS"),
        BASE.replace("ROWS 5", "ROWS 4"),
        "SELECT t.x FROM a AS t [RANGE 10 SECONDS], b AS u [ROWS 5] WHERE u.k = t.k AND t.x > 3",
    ],
)
def test_what_may_change(cql: str) -> None:
    compared = compare(described(BASE), described(cql))
    assert compared.obstacles == []
    assert not compared.rewrites


@pytest.mark.parametrize(
    ("cql", "note"),
    [
        (
            BASE.replace("10 SECONDS", "11 SECONDS"),
            "the window of a grew from 10 seconds to 11 seconds: from now on. Rows that had left it by then "
            "do not come back",
        ),
        (
            BASE.replace("RANGE 10 SECONDS", "RANGE UNBOUNDED"),
            "the window of a grew from 10 seconds to UNBOUNDED: from now on. Rows that had left it by then do not come "
            "back",
        ),
        (
            BASE.replace("ROWS 5", "ROWS 6"),
            "the window of b grew from 5 rows to 6 rows: from now on. Rows that had left it by then do not come back",
        ),
        (
            BASE + " AND a.k + 1 < 9 AND a.x > 3",
            "a.k + 1 < 9 is new: rows in the window of a that fail it no longer join",
        ),
        (
            "SELECT a.x FROM b [ROWS 5], a [RANGE 10 SECONDS] WHERE a.k = b.k AND a.x > 3",
            "FROM has another order: rows of one time count in this order from now on",
        ),
    ],
)
def test_what_is_carried_over_and_what_it_means(cql: str, note: str) -> None:
    compared = compare(described(BASE), described(cql))
    assert (compared.obstacles, compared.notes) == ([], [note])
    assert compared.rewrites


MANY = (
    "SELECT a.x FROM a [RANGE 9 SECONDS], b [RANGE 8 SECONDS], c [RANGE 7 SECONDS] "
    "WHERE a.k = b.k AND b.k = c.k AND a.x + 1 = c.x AND a.x < b.x AND ABS(b.x - c.x) < 3 AND b.x - a.x < 7 AND c.x > 3"
)


@pytest.mark.parametrize("buckets", [1, 2, 8])
@pytest.mark.parametrize("order", ["bca", "cab", "acb", "cba"])
def test_streams_may_change_places(order: str, buckets: int) -> None:
    sizes = {"a": 9, "b": 8, "c": 7}
    text = ", ".join(f"{name} [RANGE {sizes[name]} SECONDS]" for name in order)
    moved = f"SELECT a.x FROM {text} {MANY[MANY.index('WHERE') :]}"  # noqa: S608 - a query of ours
    compared = compare(described(MANY, buckets), described(moved, buckets))
    assert compared.obstacles == []
    assert compared.places == [order.index(name) for name in "abc"]
    assert compared.notes == ["FROM has another order, which changes no result"]
    back = compare(described(moved, buckets), described(MANY, buckets))
    assert (back.obstacles, back.places) == ([], ["abc".index(name) for name in order])


TWICE = "SELECT p.x FROM a p [RANGE 9 SECONDS], a q [RANGE 5 SECONDS] WHERE p.k = q.k AND p.x < q.x"


def test_a_stream_that_is_joined_with_itself() -> None:
    """Its two parts are told apart by alias, or by place, whichever means less of a change."""
    swapped = "SELECT p.x FROM a q [RANGE 5 SECONDS], a p [RANGE 9 SECONDS] WHERE p.k = q.k AND p.x < q.x"
    renamed = "SELECT q.x FROM a q [RANGE 9 SECONDS], a p [RANGE 5 SECONDS] WHERE p.k = q.k AND q.x < p.x"
    others = "SELECT q.x FROM a v [RANGE 9 SECONDS], a q [RANGE 5 SECONDS] WHERE v.k = q.k AND v.x < q.x"
    for cql, places in ((TWICE, [0, 1]), (swapped, [1, 0]), (renamed, [0, 1]), (others, [0, 1])):
        compared = compare(described(TWICE), described(cql))
        assert (compared.obstacles, compared.places, compared.grown) == ([], places, {})
    turned = compare(described(TWICE), described(TWICE.replace("p.x < q.x", "q.x < p.x")))
    assert turned.notes == ["its comparisons were p.x < q.x and are now q.x < p.x, for all results from now on"]


INTERVAL = (
    "SELECT a.k FROM a, b WHERE a.k = b.k AND b.ts BETWEEN a.ts - INTERVAL 5 SECONDS AND a.ts + INTERVAL 1 SECOND"
)


def test_an_interval_that_grows_is_a_window_that_grows() -> None:
    compared = compare(described(INTERVAL), described(INTERVAL.replace("5 SECONDS", "9 SECONDS")))
    assert compared.obstacles == []
    assert compared.grown == {1: 5_000_001}
    assert any("b.ts >= a.ts - INTERVAL '9' SECOND" in note for note in compared.notes)


def test_what_was_compared_before_may_be_compared_otherwise() -> None:
    old = BASE + " AND a.x + 1 < b.x"
    assert obstacles(described(old), described(old.replace("<", ">="))) == []
    assert obstacles(described(old), described(BASE)) == []
    for cql in (LEAVING, COUNTS):
        [said] = obstacles(described(cql), described(cql.replace("WHERE", "WHERE a.x < b.x AND")))
        assert said == "its comparisons were none and are now a.x < b.x, under results that have yet to leave"


def test_a_condition_that_is_new_needs_its_columns() -> None:
    narrowly = narrow("SELECT a.k FROM a [RANGE 9 SECONDS], b [RANGE 9 SECONDS] WHERE a.k = b.k")
    new = narrow("SELECT a.k FROM a [RANGE 9 SECONDS], b [RANGE 9 SECONDS] WHERE a.k = b.k AND a.x > 3")
    [said] = obstacles(narrowly, new)
    assert said.startswith("it needs the column 'x' of stream 'a' as a, which rows in the checkpoint lack")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("SELECT DSTREAM a.x FROM a [ROWS 5], b [ROWS 5] WHERE a.k = b.k", "b [ROWS 5], a [ROWS 5]"),
        ("SELECT COUNT(*) AS n FROM a [ROWS 5], b [ROWS 5] WHERE a.k = b.k", "b [ROWS 5], a [ROWS 5]"),
    ],
)
def test_an_order_on_which_earlier_results_depend_stays(old: str, new: str) -> None:
    [said] = obstacles(described(old), described(old.replace("a [ROWS 5], b [ROWS 5]", new)))
    assert said == "its streams are in another order, on which results depend that were emitted before"


def test_the_order_of_a_difference_stays() -> None:
    part = "SELECT k FROM {} [RANGE 9 SECONDS]"
    texts = [" EXCEPT ".join(map(part.format, order)) for order in ("abc", "acb")]
    [said] = obstacles(*map(described, texts))
    assert said == "its streams are in another order, on which results depend that were emitted before"


def test_a_checkpoint_of_another_format_is_refused() -> None:
    old = {name: value for name, value in described(BASE).items() if name != "format"}
    assert obstacles(old, described(BASE)) == [f"it has format unknown, and this version reads format {FORMAT}"]


@pytest.mark.parametrize(
    ("cql", "said"),
    [
        (BASE.replace("ROWS 5", "RANGE 1 SECOND"), "the window of b is of another kind"),
        (
            BASE.replace("a.x > 3", "a.x > 4"),
            "the selection of a was 'a.x > 3' and is now 'a.x > 4' (conditions may be added, not taken away: rows that "
            "failed are not in the checkpoint)",
        ),
        (
            BASE.replace(" AND a.x > 3", ""),
            "the selection of a was 'a.x > 3' and is now none (conditions may be added, not taken away: rows that "
            "failed are not in the checkpoint)",
        ),
        (BASE.replace("a.k = b.k", "a.k = b.x"), "its keys were a.k = b.k as int64 and are now a.k = b.x as int64"),
        (BASE.replace("b [ROWS 5]", "c b [ROWS 5]"), "it joined a, b and now joins a, c"),
        (BASE.replace("SELECT", "SELECT DSTREAM"), "its results were 'ISTREAM' and are now 'DSTREAM'"),
        (BASE.replace("a.k = b.k", "a.k <=> b.k"), "its keys were a.k = b.k as int64 and are now a.k <=> b.k as int64"),
        (
            BASE + " AND a.x + 1 < b.x",
            "its comparisons were none and are now a.x + 1 < b.x, and rows in the checkpoint have no a.x + 1 to "
            "compare",
        ),
    ],
)
def test_what_may_not(cql: str, said: str) -> None:
    assert obstacles(described(BASE), described(cql)) == [said]


COUNTS = "SELECT a.k, COUNT(*) AS n FROM a [RANGE 9 SECONDS], b [ROWS 5] WHERE a.k = b.k GROUP BY a.k"
LEAVING = "SELECT DSTREAM a.k FROM a [RANGE 9 SECONDS], b [ROWS 5] WHERE a.k = b.k"


@pytest.mark.parametrize("cql", [COUNTS, LEAVING])
def test_windows_of_results_that_have_yet_to_leave_stay(cql: str) -> None:
    [said] = obstacles(described(cql), described(cql.replace("9 SECONDS", "8 SECONDS")))
    assert said == "the window of a shrank from 9 seconds to 8 seconds, under results that have yet to leave"
    [said] = obstacles(described(cql), described(cql.replace("9 SECONDS", "10 SECONDS")))
    assert said == "the window of a grew from 9 seconds to 10 seconds, under results that have yet to leave"
    [said] = obstacles(described(cql), described(cql.replace("WHERE", "WHERE a.x > 3 AND")))
    assert "under results that have yet to leave: what it decides was emitted" in said
    assert obstacles(described(LEAVING), described(LEAVING.replace("a.k FROM", "b.x FROM"))) == []


@pytest.mark.parametrize(
    "cql",
    [
        COUNTS.replace("COUNT(*)", "SUM(b.x)"),
        COUNTS.replace("WHERE", "WHERE a.x + b.x > 3 AND"),
        COUNTS + " HAVING COUNT(*) > 1",
        COUNTS.replace(", COUNT(*) AS n", "").replace(" GROUP BY a.k", ""),
    ],
)
def test_aggregates_stay(cql: str) -> None:
    assert any(said.startswith("its aggregates were") for said in obstacles(described(COUNTS), described(cql)))


def test_the_number_of_buckets_stays() -> None:
    ranges = BASE.replace("ROWS 5", "RANGE 1 SECOND")
    [said] = obstacles(described(ranges, 4), described(ranges, 8))
    assert said == "it ran in 4 buckets and would now run in 8; pass the option buckets=4"


def test_a_stream_stays_one_and_so_does_a_static_relation() -> None:
    streams = described("SELECT a.x FROM a [RANGE 9 SECONDS], c [RANGE UNBOUNDED] WHERE a.k = c.k")
    static = described("SELECT a.x FROM a [RANGE 9 SECONDS], c WHERE a.k = c.k", catalog=STATIC)
    assert obstacles(streams, static) == ["c was a stream and is now a static relation"]
    assert obstacles(static, streams) == ["c was a static relation and is now a stream"]


def test_a_static_relation_may_change_unless_results_have_yet_to_leave() -> None:
    for output, count in (("", 0), ("DSTREAM", 2)):
        cql = f"SELECT {output} a.x FROM a [RANGE 9 SECONDS], c WHERE a.k = c.k"  # noqa: S608 - a query of ours
        old, new = described(cql, catalog=STATIC), described(f"{cql} AND c.x > 3", catalog=STATIC)
        new["streams"][1]["columns"] = {"k": "int64", "x": "int64"}
        assert len(obstacles(old, new)) == count


PLAIN = "SELECT a.k FROM a [RANGE 10 SECONDS], b [ROWS 5] WHERE a.k = b.k"
READING_X = PLAIN.replace("a.k FROM", "a.x FROM")


def narrow(cql: str, kept: Kept | None = None, catalog: Mapping[str, Source] = CATALOG) -> Description:
    """A query that carries what it reads, and of stream ``a`` what is kept."""
    return described(cql, catalog=catalog, keep={} if kept is None else {"a": kept})


def test_a_column_that_no_query_read_is_not_there_later() -> None:
    [said] = obstacles(narrow(PLAIN), narrow(READING_X))
    assert said.startswith("it needs the column 'x' of stream 'a' as a, which rows in the checkpoint lack")
    assert "App.stream(..., keep=['x'])" in said
    assert obstacles(narrow(READING_X), narrow(PLAIN)) == []


@pytest.mark.parametrize("kept", [Kept(("x",)), ALL["a"]])
def test_a_column_that_was_kept_is_there_later(kept: Kept) -> None:
    assert obstacles(narrow(PLAIN, kept), narrow(READING_X)) == []
    assert len(obstacles(narrow(PLAIN, kept), narrow(READING_X.replace("a.x", "b.x")))) == 1


def test_a_column_that_one_run_did_not_carry_is_lost() -> None:
    after = carried_on(narrow(READING_X), narrow(PLAIN))
    assert list(after["streams"][0]["columns"]) == ["ts", "k"]
    assert len(obstacles(after, narrow(READING_X))) == 1
    again = carried_on(narrow(PLAIN), narrow(PLAIN, ALL["a"]))
    assert len(obstacles(again, narrow(READING_X))) == 1


def test_what_is_kept_by_name_must_be_there_and_what_is_kept_with_all_the_rest_need_not() -> None:
    [said] = obstacles(narrow(PLAIN), narrow(PLAIN, Kept(("x",))))
    assert "the column 'x' of stream 'a'" in said
    assert obstacles(narrow(PLAIN), narrow(PLAIN, ALL["a"])) == []


def test_columns_of_another_type_may_not_be_read() -> None:
    texts = {**CATALOG, "a": Source(SCHEMA.set(2, pa.field("x", pa.string())), "ts")}
    [said] = obstacles(narrow(READING_X), narrow(READING_X, catalog=texts))
    assert said == "the column x of a was int64 and is now string"
    kept = narrow(PLAIN, ALL["a"], texts)
    assert obstacles(narrow(READING_X), kept) == []
    assert "x" not in carried_on(narrow(READING_X), kept)["streams"][0]["columns"]


def test_rows_of_a_static_relation_stay_where_results_have_yet_to_leave() -> None:
    rows = pa.table([[None], [1], [2]], schema=SCHEMA)
    said = []
    for cql in (
        "SELECT a.x FROM a [RANGE 9 SECONDS], c WHERE a.k = c.k",
        "SELECT COUNT(*) AS n FROM a [RANGE 9 SECONDS], c WHERE a.k = c.k",
    ):
        query = bind(cql, STATIC)[0]
        partitioning = choose_partitioning(query, 1)
        carried = carriage(query)
        tables = (rows, pa.concat_tables([rows, rows]))
        before, now = (description(query, partitioning, carried, {1: blob(table)}) for table in tables)
        assert obstacles(before, before) == []
        said.append(obstacles(before, now))
    assert said == [[], ["the rows of c are others, under results that were emitted before"]]


def test_a_condition_that_only_spark_computes_cannot_be_added() -> None:
    """Rows of the log are asked without Spark, so the batch that does it would fail, for ever."""
    (query,) = bind(BASE, CATALOG)
    condition = exp.GT(
        this=exp.Anonymous(this="soundex_of", expressions=[exp.column("x", "a")]), expression=exp.Literal.number(3)
    )
    assert can_be_computed(query, query.streams[0].selection)
    assert not can_be_computed(query, condition)
    new = described(BASE + " AND a.x > 5")
    assert compare(described(BASE), new).obstacles == []
    new["streams"][0]["asks_log"] = False
    (obstacle,) = compare(described(BASE), new).obstacles
    assert "the selection of a is now 'a.x > 3 AND a.x > 5'" in obstacle
    assert "computed without Spark" in obstacle


def test_rows_of_the_log_that_a_condition_is_an_error_of_do_not_pass_it() -> None:
    times = pa.array(range(6), pa.timestamp("us"))
    rows = pa.table({"ts": times, "s": ["1", "x", "3", None, "", "2"]})
    (query,) = bind("SELECT s FROM a [NOW] WHERE CAST(s AS INT) > 1", {"a": Source(rows.schema, "ts")})
    selection = query.streams[0].selection
    assert selection is not None
    passing = _passing(selection, "a", rows)
    assert [each is True for each in passing.to_pylist()] == [False, False, True, False, False, True]
