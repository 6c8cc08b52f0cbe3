"""Registered queries on disk, without Spark: who may be registered, and what a person is told."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.spark.registering import CATALOG, JOIN, LONG, SHORT, begin, new_run
from thalweg.errors import InputError, OptionError, OutboxError, QueryError, ThalwegError
from thalweg.spark.outbox.layout import Failure
from thalweg.spark.outbox.publishing import publish
from thalweg.spark.overview import overview
from thalweg.spark.queries_file import Running, is_running
from thalweg.spark.registry import Registry, names_of
from thalweg.spark.run import divided
from thalweg.spark.shared_run import Registered

ROWS = "SELECT {} t.px FROM trades t [PARTITION BY sym ROWS {}], quotes q [RANGE 1 SECOND] WHERE t.sym = q.sym"


def commands(registry: Registry) -> list[dict[str, str]]:
    files = registry.commands
    return [json.loads(read[0]) for name in files.names() if (read := files.read(name)) is not None]


def told(error: pytest.ExceptionInfo[ThalwegError], directory: Path) -> str:
    return str(error.value).replace(str(directory), "DIR")


def test_a_query_is_sent_to_the_run_whose_join_it_shares(tmp_path: Path) -> None:
    registry = begin(
        tmp_path,
        {"short": SHORT, "news": "SELECT n.headline FROM news n, trades t WHERE n.sym = t.sym WINDOW RANGE 1 SECOND"},
    )
    assert [(run.name, [each.name for each in run.registered]) for run in registry.runs] == [
        ("run1", ["short"]),
        ("run2", ["news"]),
    ]
    text = "SELECT y.sym FROM quotes x, trades y WHERE x.sym = y.sym WINDOW RANGE 3 SECONDS"
    assert Registry(tmp_path).register("other words", text) == "run1"
    assert commands(registry) == [{"command": "enter", "query": "run1", "name": "other words", "text": text}]
    assert registry.owner("other words").name == "run1"
    assert registry.outbox("run1").schema("other words").names == ["sym"]
    assert Registry(tmp_path).deregister("short") == "run1"
    assert commands(registry)[1:] == [{"command": "leave", "query": "run1", "name": "short"}]
    assert registry.published("short") == registry.results("run1")  # what was published stays


def test_the_join_keeps_its_words_when_the_query_has_left_that_they_are_of(tmp_path: Path) -> None:
    registry = begin(tmp_path, {"short": SHORT})
    registry.register("other", "SELECT y.sym FROM quotes x, trades y WHERE x.sym = y.sym WINDOW RANGE 3 SECONDS")
    registry.deregister("short")
    assert [ref.alias for ref in registry.owner("other").shared.join.streams] == ["t", "q"]
    assert registry.register("again", SHORT) == "run1"  # its columns are carried still


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        (
            "short",
            LONG,
            "there is a query 'short' in DIR already. Deregister it first, or choose another name.",
        ),
        (
            "wrong",
            SHORT.replace("t.px", "t.prx"),
            "stream 't' has no column 'prx' (line 1, column 17). Did you mean 'px'? Its columns are ts, sym, "
            "px, venue.",
        ),
        ("wrong", "SELECT", None),
        ("two", f"{SHORT}; {LONG}", "query 'two': its text has 2 queries. Register one at a time."),
        (
            "venue",
            SHORT.replace("t.px", "t.venue, t.px"),
            "query 'venue' reads 'venue' of stream 'trades', and 'run1' does not carry it. Leave it out, or begin in a "
            "new directory with app.stream('trades', ..., keep=['venue']) (thalweg run: --keep trades=venue).",
        ),
        (" ", SHORT, "a registered query has a name, as text, not ' '"),
        (
            "a\nb",
            SHORT,
            "a registered query cannot be called 'a\\nb': a name has no blanks at its ends, and no line breaks or "
            "other characters that cannot be shown. Choose another name.",
        ),
        (
            "x" * 201,
            SHORT,
            f"a reader cannot be called '{'x' * 201}': its directory would have a name of 201 bytes, and that must be "
            "1 to 200 (letters that are not ASCII take six or more). Choose another name.",
        ),
    ],
)
def test_what_cannot_be_registered(tmp_path: Path, name: str, text: str, said: str | None) -> None:
    registry = begin(tmp_path, {"short": SHORT, "long": LONG})
    before = (tmp_path / "queries.json").read_bytes()
    with pytest.raises(ThalwegError) as error:
        registry.register(name, text)
    assert said is None or told(error, tmp_path) == said
    assert (tmp_path / "queries.json").read_bytes() == before
    assert commands(registry) == []


@pytest.mark.parametrize("name", ["a b", "../a/b", "_x", "täglich — 日", "x" * 200, "%20", "a=b"])
def test_a_name_may_be_almost_any_text(tmp_path: Path, name: str) -> None:
    registry = begin(tmp_path / "runs", {"short": SHORT})
    assert registry.register(name, LONG) == "run1"
    assert registry.owner(name).registered[-1].name == name
    assert registry.outbox("run1").readers() == sorted(["short", name], key=registry.outbox("run1").places.reader)
    assert Path(registry.sink_checkpoint(name)).resolve().parent == tmp_path / "runs" / "sinks"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["runs"]


def test_another_join_is_sent_to_nobody(tmp_path: Path) -> None:
    registry = begin(tmp_path, {"short": SHORT})
    text = "SELECT t.px FROM trades t, quotes q WHERE t.px = q.bid WINDOW RANGE 1 SECOND"
    assert registry.register("other", text) is None
    assert registry.register("news", "SELECT n.headline FROM news n [NOW]", CATALOG) is None
    assert registry.why_apart("other", text) == ["query 'other' does not join what the queries of 'run1' join"]
    assert commands(registry) == []
    assert names_of(registry.runs) == ["short"]


def test_groups_are_not_torn_apart(tmp_path: Path) -> None:
    """A bucket has the rows of some keys: a count by another column would be one count for each bucket."""
    by_venue = f"SELECT t.venue, COUNT(*) AS n {JOIN} GROUP BY t.venue WINDOW RANGE 9 SECONDS"
    of_all = f"SELECT COUNT(*) AS n {JOIN} WINDOW RANGE 9 SECONDS"
    by_key = f"SELECT q.sym, COUNT(*) AS n {JOIN} GROUP BY q.sym WINDOW RANGE 9 SECONDS"
    registry = begin(tmp_path / "a", {"of all": of_all, "short": SHORT, "by venue": by_venue, "by key": by_key})
    runs = {run.name: [each.name for each in run.registered] for run in registry.runs}
    assert {name: run.partitioning.buckets for name, run in zip(runs, registry.runs, strict=True)} == {
        "run1": 2,
        "run2": 2,
        "run3": 1,
    }
    assert runs == {"run1": ["short", "by key"], "run2": ["by venue"], "run3": ["of all"]}
    assert registry.register("more", of_all) == "run3"
    alone = begin(tmp_path / "b", {"short": SHORT.replace("t.px", "t.px, t.venue")})
    assert alone.register("by venue", by_venue) is None
    assert alone.why_apart("by venue", by_venue) == [
        "query 'by venue' groups by t.venue, and the rows of a group would be in several of the 2 buckets of 'run1'"
    ]
    assert alone.why_apart("of all", of_all)[0].startswith("query 'of all' has one group of all results, and the rows")
    assert begin(tmp_path / "c", {"short": SHORT}, buckets=1).register("of all", of_all) == "run1"


def test_results_that_leave_windows_of_rows_need_the_same_windows(tmp_path: Path) -> None:
    registry = begin(tmp_path, {"three": ROWS.format("DSTREAM", 3)})
    assert registry.register("equal", ROWS.format("", 3)) == "run1"
    assert registry.register("other", ROWS.format("", 4)) is None
    assert registry.why_apart("other", ROWS.format("", 4)) == [
        "query 'other' and the queries of 'run1' count rows in their windows, results leave one of them, and the "
        "windows differ"
    ]


def test_what_cannot_leave(tmp_path: Path) -> None:
    registry = begin(tmp_path, {"short": SHORT, "long": LONG})
    with pytest.raises(QueryError) as error:
        registry.deregister("shrt")
    assert told(error, tmp_path) == "there is no query 'shrt' in DIR. The registered queries are: short, long."
    assert commands(registry) == []
    with pytest.raises(QueryError, match="The registered queries are: short, long"):
        registry.published("never")


def test_a_run_ends_with_its_last_query(tmp_path: Path) -> None:
    """Its name is taken, for its results are there; what comes gets another run."""
    registry = begin(tmp_path, {"short": SHORT, "long": LONG})
    registry.deregister("short")
    assert not registry.has_ended("run1")
    assert registry.deregister("long") == "run1"
    assert registry.has_ended("run1")
    assert len(commands(registry)) == 2
    assert overview(registry) == []
    assert registry.published("long") == registry.results("run1")
    assert registry.register("long", LONG) is None
    assert registry.why_apart("long", LONG) == [f"no run of {tmp_path} has a query"]
    founder, taken = divided([Registered("long", LONG)], 2, CATALOG)[0]
    assert registry.free_name() == "run2"
    registry.add_run(new_run("run2", founder, taken, 2), {"long": registry.outbox("run1").schema("long")})
    assert registry.published("long") == registry.results("run2")
    assert registry.register("short", SHORT) == "run2"


def test_a_name_that_comes_again_has_the_same_columns(tmp_path: Path) -> None:
    """Its results follow those that were published for it before."""
    registry = begin(tmp_path, {"short": SHORT, "long": LONG})
    registry.deregister("short")
    with pytest.raises(OutboxError, match="has the columns sym string, px int64, and cannot get px int64"):
        registry.register("short", LONG)
    assert registry.register("short", SHORT.replace("10 SECONDS", "9 SECONDS")) == "run1"


def test_a_directory_of_somebody_else(tmp_path: Path) -> None:
    for text, said in (('{"version": 0}', "is of another version"), ("{", "is no JSON"), ("\udc80", "cannot be read")):
        (tmp_path / "queries.json").write_bytes(text.encode("utf-8", "surrogateescape"))
        with pytest.raises(InputError, match=said):
            _ = Registry(tmp_path).runs
    with pytest.raises(OptionError, match="is a path that driver and workers share, not s3://b/c"):
        Registry("s3://b/c")


def test_nobody_undoes_what_another_has_registered(tmp_path: Path) -> None:
    """Every change begins with the file as it is then, however many change it."""
    begin(tmp_path, {"short": SHORT})
    failed: list[BaseException] = []

    def register(who: int) -> None:
        mine = Registry(tmp_path)
        try:
            for number in range(5):
                mine.register(f"q{who}.{number}", LONG)
        except BaseException as error:
            failed.append(error)
            raise

    threads = [threading.Thread(target=register, args=[who]) for who in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert len(Registry(tmp_path).owner("short").registered) == 21


def test_one_process_at_a_time_runs_the_queries(tmp_path: Path) -> None:
    first, second = Running(tmp_path), Running(tmp_path)
    assert not is_running(tmp_path)
    assert first.take() is None
    assert is_running(tmp_path)
    assert (second.take() or "").startswith("process ")
    first.release()
    assert not is_running(tmp_path)
    assert second.take() is None
    second.release()


def test_what_is_known_of_queries(tmp_path: Path) -> None:
    registry = begin(tmp_path, {"short": SHORT, "long": LONG})
    rows = {row["query"]: row for row in overview(registry)}
    assert rows["short"]["run"] == "run1"
    assert rows["short"]["slices"] == {"t": "10 s | 30 s", "q": "30 s"}
    assert rows["short"]["results_so_far"] == 0
    assert rows["short"]["cost_share"] + rows["long"]["cost_share"] == pytest.approx(1.0)
    assert rows["long"]["cost_share"] > rows["short"]["cost_share"]
    assert rows["long"]["directory"] == str(tmp_path / "run1" / "results" / "long")
    assert rows["long"]["text"] == LONG


def test_no_spark_is_needed() -> None:
    code = "import sys; sys.modules['pyspark'] = None; import thalweg.spark.overview, thalweg.spark.registry"
    subprocess.run([sys.executable, "-c", code], check=True)


def fail(registry: Registry, name: str, batch: int = 3, since: int = 0) -> None:
    """Let a query have failed in a batch."""
    publish(registry.outbox("run1"), "spark's id", batch, [], [Failure(name, batch, since, "1 / 0 has no value")])


def test_a_query_that_has_failed_is_shown_and_lets_another_one_have_its_name(tmp_path: Path) -> None:
    registry = begin(tmp_path, {"short": SHORT, "long": LONG})
    fail(registry, "short")
    rows = {row["query"]: row for row in overview(registry)}
    assert (rows["long"]["status"], rows["long"]["failure"]) == ("stopped", None)
    assert (rows["short"]["status"], rows["short"]["failure"]) == (
        "failed",
        "failed in batch 3 of run1: 1 / 0 has no value",
    )
    assert (rows["short"]["cost_share"], rows["long"]["cost_share"]) == (0.0, 1.0)
    assert rows["short"]["slices"] == rows["long"]["slices"] == {"t": "30 s", "q": "30 s"}
    sent = len(registry.commands.names())
    assert registry.register("short", SHORT.replace("10 SECONDS", "9 SECONDS")) == "run1"
    assert len(registry.commands.names()) == sent + 1  # its run was told to let the other one go when that failed
    assert [row["status"] for row in overview(registry)] == ["stopped", "stopped"]
    fail(registry, "short")  # of the one before, which has not left all buckets yet
    assert registry.failure_of("short") is None
    with pytest.raises(QueryError, match="there is a query 'short'"):
        registry.register("short", SHORT)
    fail(registry, "short", batch=7, since=5)
    assert registry.failure_of("short") == "failed in batch 7 of run1: 1 / 0 has no value"
    assert registry.deregister("short") == "run1"
    assert len(registry.commands.names()) == sent + 1
    assert [row["query"] for row in overview(registry)] == ["long"]


def test_the_last_query_of_a_run_that_has_failed_can_be_replaced_there_alone(tmp_path: Path) -> None:
    registry = begin(tmp_path, {"short": SHORT})
    fail(registry, "short")
    other = "SELECT t.px FROM trades t, quotes q WHERE t.px = q.bid WINDOW RANGE 10 SECONDS"
    assert registry.register("short", other) is None
    founder, taken = divided([Registered("short", other)], 2, CATALOG)[0]
    with pytest.raises(QueryError, match="is the last one of 'run1', which the new one cannot share"):
        registry.add_run(new_run("run2", founder, taken, 2), {})
    assert registry.register("short", SHORT.replace("10 SECONDS", "9 SECONDS")) == "run1"
    assert registry.failure_of("short") is None


def test_a_failure_of_one_that_was_let_go_is_not_that_of_the_next_one_of_its_name(tmp_path: Path) -> None:
    """The batch is under way in which the first one fails."""
    registry = begin(tmp_path, {"short": SHORT, "long": LONG})
    publish(registry.outbox("run1"), "spark's id", 6, [], [])
    registry.deregister("short")
    registry.register("short", SHORT.replace("10 SECONDS", "9 SECONDS"))
    fail(registry, "short", batch=7, since=0)
    assert registry.failure_of("short") is None
    fail(registry, "short", batch=9, since=8)
    assert registry.failure_of("short") == "failed in batch 9 of run1: 1 / 0 has no value"


def test_a_query_that_nobody_has_opened_does_not_fail(tmp_path: Path) -> None:
    """Somebody wrote a command for it by hand. Its run is told to let it go, and so its name is free again."""
    registry = begin(tmp_path, {"short": SHORT})
    fail(registry, "by hand")
    assert registry.outbox("run1").readers() == ["short"]
    assert registry.outbox("run1").failure("by hand") is None
