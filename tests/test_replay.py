"""Counterexamples found once, and the summary of a replay."""

from __future__ import annotations

import datetime
from dataclasses import replace

import thalweg
from thalweg.engine.feedback.savings import Savings
from thalweg.replayer import open_replay, run, run_all

EPOCH = datetime.datetime(1970, 1, 1)


def test_a_tuple_pushed_out_at_the_very_end_leaves_then() -> None:
    """The deaths of the last batch were once forgotten when the input ended."""
    streams = {"a": {"ts": [0], "k": [0]}, "c": {"ts": [0, 0, 0, 0], "k": [0, 0, 0, 0], "id": [0, 1, 2, 3]}}
    text = "SELECT DSTREAM c.id, RESULT_TIME() AS t FROM a [RANGE 8 SECONDS], c [ROWS 3] WHERE a.k = c.k"
    rows = thalweg.replay(text, streams).to_pylist()
    assert [(row["id"], row["t"] - EPOCH) for row in rows] == [
        (0, datetime.timedelta()),
        *((i, datetime.timedelta(seconds=8)) for i in (1, 2, 3)),
    ]


def test_results_keep_their_times_when_the_output_fills_up() -> None:
    """Arrow once shared the kernel's output memory, which the next block overwrote."""
    count = 300
    stream = {"ts": list(range(count)), "k": [0] * count}
    text = "SELECT a.ts AS x, b.ts AS y, RESULT_TIME() AS t FROM a, b WHERE a.k = b.k WINDOW RANGE 1 SECOND"
    table = thalweg.replay(text, {"a": stream, "b": stream})
    assert table.num_rows == count**2
    for row in table.to_pylist():
        assert row["t"] - EPOCH == datetime.timedelta(microseconds=max(row["x"], row["y"]))


def test_the_summary_says_what_happened() -> None:
    streams = {name: {"ts": list(range(100)), "k": [i % 5 for i in range(100)]} for name in "abc"}
    text = "SELECT a.k FROM a, b, c WHERE a.k = b.k AND b.k = c.k WINDOW RANGE 10 MICROSECONDS"
    summary = run(text, streams, options={"plan": "(a b) c", "states": "all"}, transitions=[(150, "(b c) a")]).summary
    assert summary.tuples_in == {"a": 100, "b": 100, "c": 100}
    assert [(use.position, use.plan) for use in summary.plans] == [(0, "(a b) c"), (150, "(b c) a")]
    assert [size.name for size in summary.states] == ["a", "b", "c", "b⋈c"]
    assert summary.completions > 0
    assert summary.states[0].tuples <= 11


FIGURE_1 = {
    "a": {"ts": [1, 3], "x": [1, 1], "y": [100, 100]},
    "b": {"ts": [0, 0, 0, 2, 5], "x": [1, 1, 1, 1, 1]},
    "c": {"ts": [0, 4], "y": [7, 100]},
}
"""The tuples of JIT's table I; one of c before them, so that c is not empty, and one of b after them."""
FIGURE_1_QUERY = "SELECT a.ts AS a, b.ts AS b FROM a, b, c WHERE a.x = b.x AND a.y = c.y WINDOW RANGE 5 MINUTES"


def test_the_summary_says_what_feedback_saved() -> None:
    def savings(**options: object) -> Savings | None:
        result = run(FIGURE_1_QUERY, FIGURE_1, options={"plan": "(a b) c", "states": "all", **options})
        assert result.summary.results == 10
        return result.summary.savings

    assert savings() is None
    saved = savings(production="jit")
    assert saved is not None
    assert (saved.suspensions, saved.resumptions, saved.suspended) == (1, 1, 0)
    assert saved.withheld == 1  # a1 b4; a2 is not even looked at, so what it would have been is not known
    assert saved.unprobed == 2
    assert saved.unstored_bytes == 8 * (4 + 2)
    for migration in ("stairs", "stairs_jisc"):
        assert savings(production="jit", migration=migration) is None


def test_savings_outlast_a_change_of_plan() -> None:
    options = {"plan": "(a b) c", "states": "all", "production": "jit"}
    for migration in ("jisc", "moving_state", "parallel_track"):
        changing = run(
            FIGURE_1_QUERY, FIGURE_1, options={**options, "migration": migration}, transitions=[(8, "(a c) b")]
        ).summary
        assert changing.results == 10
        assert changing.savings is not None
        assert (changing.savings.withheld, changing.savings.unstored_bytes) == (1, 48)


def test_set_differences_give_no_feedback() -> None:
    text = "SELECT x FROM a [NOW] EXCEPT SELECT x FROM b [NOW]"
    assert run(text, FIGURE_1, options={"production": "jit"}).summary.savings is None


def test_composite_keys_of_doubles_do_not_share_a_hash() -> None:
    """Codes that were badly mixed once made two such keys one, and a change of plan then lost results."""
    first, second = (240.0, 1.0, 1.0, 136.0), (1088.0, 1.0, 1.0, 1387.0)

    def stream(*times: int) -> dict[str, list[float]]:
        return {"ts": list(times), **{f"k{i}": [first[i], second[i]] for i in range(4)}}

    equal = " AND ".join(f"a.k{i} = b.k{i} AND b.k{i} = c.k{i}" for i in range(4))
    text = f"SELECT a.k0 FROM a, b, c WHERE {equal} WINDOW RANGE 1 SECOND"  # noqa: S608 - a query of ours
    streams = {"a": stream(1, 2), "b": stream(3, 4), "c": stream(5, 6)}
    for transitions in ([], [(4, "(a b) c")]):
        answer = run(text, streams, options={"plan": "(b c) a", "states": "all"}, transitions=transitions)
        assert answer.summary.results == 2


def test_a_plan_change_after_a_crowd_happens_where_it_was_asked_for() -> None:
    crowd = {"ts": list(range(300)), "k": [1] * 300}
    few = {"ts": [300] * 5, "k": [1] * 5}
    text = "SELECT a.k FROM a, b, c WHERE a.k = b.k AND b.k = c.k WINDOW RANGE 1 SECOND"
    result = run(text, {"a": crowd, "b": crowd, "c": few}, options={"states": "none"}, transitions=[(601, "(a b) c")])
    assert result.summary.results == 300 * 300 * 5
    assert result.summary.plans[1].position == 601


def test_times_in_different_units_are_equal() -> None:
    import pyarrow as pa

    seconds = pa.table({"ts": [0], "x": pa.array([1], pa.time32("s"))})
    micros = pa.table({"ts": [0], "y": pa.array([1_000_000], pa.time64("us"))})
    text = "SELECT a.x FROM a [NOW], b [NOW] WHERE a.x = b.y"
    assert thalweg.replay(text, {"a": seconds, "b": micros}).num_rows == 1


def test_what_is_finer_than_microseconds_is_cut() -> None:
    import pyarrow as pa

    left = pa.table({"ts": [0, 0], "x": pa.array([1500, 2000], pa.timestamp("ns"))})
    right = pa.table({"ts": [0], "y": pa.array([2999], pa.timestamp("ns"))})
    for text in (
        "SELECT a.x FROM a [NOW], b [NOW] WHERE a.x = b.y",
        "SELECT a.x FROM a [NOW], b [NOW] WHERE a.x >= b.y",
    ):
        assert thalweg.replay(text, {"a": left, "b": right})["x"].cast("int64").to_pylist() == [2]


def test_strings_laid_out_as_views_are_strings() -> None:
    import pyarrow as pa

    views = pa.table({"ts": [0], "k": pa.array(["x"], pa.string_view()), "v": pa.array([b"y"], pa.binary_view())})
    text = "SELECT a.k, b.v FROM a [NOW], b [NOW] WHERE a.k = b.k AND a.v = b.v"
    assert thalweg.replay(text, {"a": views, "b": views}).to_pylist() == [{"k": "x", "v": b"y"}]


SECTORS = {"sym": ["x", "y", "y", None], "sector": ["gas", "metal", "rare earth", "?"]}
TRADES = {"ts": [5, 1, 9], "sym": ["y", "x", "x"], "px": [1, 2, 3]}
ENRICHED = "SELECT px, sector, RESULT_TIME() AS t FROM trades t, sectors s WHERE t.sym = s.sym"
TIMES = {"trades": "ts", "sectors": None}


def test_a_static_relation_is_there_before_the_first_tuple() -> None:
    result = run(ENRICHED, {"trades": TRADES, "sectors": SECTORS}, time=TIMES, options={"batch_size": 1})
    found = [(row["px"], row["sector"], row["t"] - EPOCH) for row in result.table.to_pylist()]
    one, five, nine = (datetime.timedelta(microseconds=t) for t in (1, 5, 9))
    assert sorted(found) == [(1, "metal", five), (1, "rare earth", five), (2, "gas", one), (3, "gas", nine)]
    assert [t for _, _, t in found] == [one, five, five, nine]
    assert result.summary.tuples_in == {"t": 3}
    assert result.summary.static == {"s": 4}


def test_positions_of_plan_changes_count_tuples_of_streams() -> None:
    streams = {"trades": TRADES, "sectors": SECTORS}
    summary = run(ENRICHED, streams, time=TIMES, options={"plan": "t s"}, transitions=[(2, "s t"), (3, "t s")]).summary
    assert [(use.position, use.plan) for use in summary.plans] == [(0, "t s"), (2, "s t"), (3, "t s")]
    assert summary.results == 4


def test_no_row_of_a_static_relation_is_late_nor_makes_any() -> None:
    options = {"lateness": "2 microseconds", "late_rows": "table"}
    result = run(ENRICHED, {"trades": TRADES, "sectors": SECTORS}, time=TIMES, options=options)
    assert result.summary.late == {"t": 1}
    assert list(result.late) == ["t"]
    assert sorted(result.table["px"].to_pylist()) == [1, 1, 3]


def test_a_stream_that_only_meets_static_relations_is_not_kept() -> None:
    many = {"ts": list(range(5_000)), "sym": ["x"] * 5_000, "px": list(range(5_000))}
    for window in ("", "[RANGE UNBOUNDED]"):
        text = ENRICHED.replace("trades t", f"trades t {window}")
        summary = run(text, {"trades": many, "sectors": SECTORS}, time=TIMES, options={"batch_size": 100}).summary
        assert summary.results == 5_000
        assert {size.name: size.tuples for size in summary.states}["t"] < 10


def test_what_a_static_relation_has_is_subtracted() -> None:
    text = "SELECT sym, px FROM trades [RANGE 3 MICROSECONDS] EXCEPT CORRESPONDING BY (sym) SELECT sym FROM sectors"
    streams = {"trades": {**TRADES, "sym": ["z", "x", None]}, "sectors": SECTORS}
    assert thalweg.replay(text, streams, time=TIMES).to_pylist() == [{"sym": "z", "px": 1}, {"sym": None, "px": 3}]
    assert thalweg.replay(text.replace("SELECT", "SELECT DSTREAM", 1), streams, time=TIMES).num_rows == 2


PRICES = {"ts": [0, 1, 2, 3], "k": [1, 1, 1, 1], "px": [5, 4, 3, 9]}


def aggregated(select: str, having: str = "") -> list[dict[str, object]]:
    text = f"SELECT {select} FROM p [RANGE 10 MICROSECONDS] GROUP BY k {having}"  # noqa: S608 - a query of ours
    answers = [thalweg.replay(text, {"p": PRICES}, options={"batch_size": size}).to_pylist() for size in (1, 3, 100)]
    assert len(set(map(repr, answers))) == 1
    return answers[0]


def test_an_aggregate_that_only_having_reads_changes_no_row() -> None:
    """MAX stays 5 while COUNT goes from 2 to 3, and 9 while it goes down to 2."""
    assert aggregated("MAX(px) AS m", "HAVING COUNT(*) >= 2") == [{"m": 5}, {"m": 9}]
    assert aggregated("DSTREAM MAX(px) AS m", "HAVING COUNT(*) >= 2") == [{"m": 5}, {"m": 9}]
    shown = aggregated("MAX(px) AS m, RESULT_TIME() AS t", "HAVING COUNT(*) >= 2")
    assert [(row["m"], row["t"]) for row in shown] == [
        (5, EPOCH + datetime.timedelta(microseconds=1)),
        (9, EPOCH + datetime.timedelta(microseconds=3)),
    ]


def test_an_aggregate_inside_an_expression_changes_a_row_when_the_expression_does() -> None:
    assert aggregated("COUNT(*) >= 2 AS many, k") == [{"many": many, "k": 1} for many in (False, True, False)]
    # NULL, NaN and zeros of either sign are values like any other.
    assert aggregated("NULLIF(COUNT(*) >= 1, true) AS nothing") == [{"nothing": None}]
    assert repr(aggregated("SUM(px) * CAST('NaN' AS DOUBLE) AS x")) == "[{'x': nan}]"
    assert len(aggregated("(4 - SUM(px)) * 0.0 AS zero")) == 1


def test_what_having_refuses_is_not_computed() -> None:
    text = "SELECT CAST(CASE WHEN COUNT(*) < 2 THEN 'x' ELSE '7' END AS INT) AS n FROM p [RANGE UNBOUNDED] GROUP BY k"
    assert thalweg.replay(f"{text} HAVING COUNT(*) >= 2", {"p": PRICES}).to_pylist() == [{"n": 7}]


SEVERAL = """
CREATE QUERY short AS SELECT a.k FROM a, b WHERE a.k = b.k WINDOW RANGE 5 MICROSECONDS;
CREATE QUERY other AS SELECT c.k FROM c, b WHERE c.k = b.k WINDOW RANGE 5 MICROSECONDS;
CREATE QUERY long AS SELECT y.k FROM b x, a y WHERE x.k = y.k AND y.k > 1 WINDOW RANGE 20 MICROSECONDS
"""


def test_summaries_of_a_shared_run_tell_what_is_whose() -> None:
    streams = {name: {"ts": list(range(100)), "k": [i % 5 for i in range(100)]} for name in "abc"}
    entries = [(50, "long", "enter"), (150, "short", "leave"), (160, "short", "enter")]
    found = run_all(SEVERAL, streams, options={"sharing": "memory"}, entries=entries)
    short, long, other = (found[name].summary for name in ("short", "long", "other"))
    assert (short.present, long.present, other.present) == (((0, 150), (160, 200)), ((50, 200),), ((0, 200),))
    assert short.group == long.group == ("short", "long")
    assert (other.group, other.chains, other.routings) == (("other",), {}, 0)
    assert short.results == found["short"].table.num_rows != long.results == found["long"].table.num_rows
    own = [replace(each, query="", results=0, present=()) for each in (short, long)]
    assert own[0] == own[1]  # all else is of the run that served both
    assert short.chains == {"a": (5, 20), "b": (20,)}  # of b, no query takes less than all
    assert short.routings > 0
    assert short.tuples_in == {"a": 100, "b": 100}
    assert short.is_shared
    assert not other.is_shared


def test_a_summary_of_one_query_is_that_of_its_run() -> None:
    stream = {"ts": [0, 1], "k": [1, 1]}
    summary = run("SELECT a.k FROM a, b WHERE a.k = b.k WINDOW RANGE 1 SECOND", {"a": stream, "b": stream}).summary
    assert (summary.group, summary.present, summary.is_shared) == (("query1",), ((0, 4),), False)


def test_who_ran_the_bucket_is_told_after_the_end() -> None:
    """Those who follow a replay step by step ask after the last one, too."""
    stream = {"ts": [0, 1], "k": [1, 1]}
    opened = open_replay("SELECT a.k FROM a, b WHERE a.k = b.k WINDOW RANGE 1 SECOND", {"a": stream, "b": stream})
    tuples = [opened.driver.bucket.work.tuples for _ in opened.steps()]
    assert tuples[-1] == 4


def test_progress_is_that_of_all_queries() -> None:
    streams = {name: {"ts": list(range(100)), "k": [i % 5 for i in range(100)]} for name in "abc"}
    told: list[tuple[int, int]] = []
    run_all(SEVERAL, streams, options={"batch_size": 50}, progress=lambda done, total: told.append((done, total)))
    assert {total for _, total in told} == {400}  # two joins of two streams
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert told[-1] == (400, 400)
    assert len(told) > 4
