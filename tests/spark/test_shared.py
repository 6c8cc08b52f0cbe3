"""Queries that share runs, on a real Spark: each has the answer that it has alone, whoever comes and goes."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.shared_runs import NEWEST, SLICES, SharedFiles, sorted_rows
from thalweg.errors import ThalwegError
from thalweg.spark.app import App
from thalweg.spark.commands import new_command
from thalweg.spark.queries_file import is_running
from thalweg.spark.started import Started

PAIR = "FROM a, b WHERE a.k = b.k"
ROWS = "FROM a [PARTITION BY k ROWS 3], b [PARTITION BY k ROWS 2] WHERE a.k = b.k"
SHARED = {
    "short": f"SELECT a.id AS a, b.id AS b {PAIR} WINDOW RANGE 5 SECONDS",
    "long / with sélections": f"SELECT a.id AS a, b.id AS b {PAIR} AND a.id % 3 <> 0 AND b.id % 2 = 0 "
    "WINDOW RANGE 30 SECONDS",
    "other words": "SELECT y.id - x.id AS d FROM b x [RANGE 8 SECONDS], a y [RANGE 3 SECONDS] WHERE y.k = x.k "
    "AND (x.id + y.id) % 5 <> 0",
    "leaves windows": f"SELECT DSTREAM a.id AS a, b.id AS b {PAIR} AND a.id % 2 = 0 WINDOW RANGE 7 SECONDS",
    "running sum": f"SELECT a.k, COUNT(*) AS n, SUM(b.id) AS s {PAIR} GROUP BY a.k WINDOW RANGE 6 SECONDS",
}
APART = {
    "rows": f"SELECT a.id AS a, b.id AS b {ROWS}",
    "rows that leave": f"SELECT DSTREAM a.id AS a, b.id AS b {ROWS} AND a.id % 2 = 0",
    "sectors": "SELECT a.id, s.sector FROM a, s WHERE a.k = s.k",
    "sector s1": "SELECT a.id FROM a, s WHERE a.k = s.k AND s.sector = 's1' AND a.id % 2 = 0",
}
LEAVES = f"SELECT a.id AS a, b.id AS b, {NEWEST} {PAIR} WINDOW RANGE 9 SECONDS"
ENTERS = f"SELECT a.id AS a, b.id AS b, {NEWEST} {PAIR} AND b.id % 3 = 1 WINDOW RANGE 8 SECONDS"


ANOTHER = f"SELECT a.id AS a, b.id AS b {PAIR} AND a.id < b.id WINDOW RANGE 5 SECONDS"


@dataclass
class Story:
    """What happened: the files, and what was seen on the way."""

    files: SharedFiles
    rows: list[dict[str, Any]] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    said: dict[str, str] = field(default_factory=dict)
    batches: dict[str, int] = field(default_factory=dict)
    going: list[list[str]] = field(default_factory=list)
    left: int = 0


@pytest.fixture(scope="module")
def story(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Story:
    """Six slices of time, of which the last two come after a restart. Queries enter and leave between slices."""
    told = Story(SharedFiles(tmp_path_factory.mktemp("shared")))
    files = told.files
    for number in (0, 1):
        files.write(number)
    app = files.app(spark)
    for name, text in {**SHARED, **APART, "leaves": LEAVES}.items():
        app.register(name, text)
    started = app.start(files.directory, sinks={"short": files.root / "sink", "leaves": files.root / "broken"})
    settle(started)
    started.sinks["leaves"].processAllAvailable()
    shutil.rmtree(files.root / "broken")
    (files.root / "broken").write_text("a sink cannot be a file")
    other = files.app(spark)
    told.said["two apps"] = refusal(lambda: other.start(files.directory))
    told.said["twice"] = refusal(lambda: app.start(files.directory))
    told.said["known"] = refusal(lambda: app.register("short", LEAVES))
    told.said["column"] = refusal(lambda: app.register("notes", f"SELECT a.note {PAIR} WINDOW RANGE 5 SECONDS"))
    told.batches["before"] = last_batch(started)
    told.said["command"] = app.command("adapt", query="run1")
    app.register("enters", ENTERS)
    files.registry.register("from a shell", ENTERS.replace("8 SECONDS", "2 SECONDS"))
    step(told, 2, started, app)
    app.deregister("leaves")
    step(told, 3, started, app)
    told.rows = app.queries()
    app.register("another join", ANOTHER)
    settle(started)
    told.going.append(sorted(started.runs))
    app.deregister("another join")
    told.going.append(sorted(started.runs))
    told.left = files.published("another join").num_rows
    told.said["broken"] = type(started.sinks["leaves"].exception()).__name__
    started.stop()
    assert not is_running(files.directory)
    files.registry.register("while down", ENTERS.replace("8 SECONDS", "3 SECONDS"))
    files.registry.deregister("other words")

    other.register("short", LEAVES)
    told.said["text"] = refusal(lambda: other.start(files.directory))
    other.deregister("short")
    told.said["sink"] = refusal(lambda: other.start(files.directory, sinks={"shrt": files.root / "sink"}))
    assert not is_running(files.directory)

    app = files.app(spark)
    for name, text in {**SHARED, **APART}.items():
        if name != "other words":
            app.register(name, text)
    app.register("of the program", ENTERS.replace("8 SECONDS", "4 SECONDS"))
    started = app.start(files.directory, sinks={"short": files.root / "sink"})
    told.going.append(sorted(started.runs))
    step(told, 4, started, app)
    step(told, 5, started, app)
    app.register("another join", ANOTHER)
    told.said["unknown"] = refusal(lambda: app.deregister("shrt"))
    settle(started)
    files.registry.commands.send(new_command("end"))
    settle(started)
    started.sinks["short"].processAllAvailable()
    started.stop()
    return told


def settle(started: Started) -> None:
    for query in started.runs.values():
        query.processAllAvailable()


def step(told: Story, number: int, started: Started, app: App) -> None:
    told.files.write(number)
    settle(started)
    told.refused += [text for query in started.runs.values() for text in app.metrics(query)["refused"]]


def last_batch(started: Started) -> int:
    progress = started.runs["run1"].lastProgress
    assert progress is not None
    return progress.batchId


def refusal(do: Any) -> str:
    with pytest.raises(ThalwegError) as error:
        do()
    return str(error.value)


@pytest.mark.parametrize("name", [name for name in (*SHARED, *APART) if name != "other words"])
def test_each_has_the_answer_that_it_has_alone(story: Story, name: str) -> None:
    want = story.files.alone((SHARED | APART)[name])
    assert sorted_rows(story.files.published(name)) == sorted_rows(want)
    assert want.num_rows > 50


def test_those_that_join_the_same_share_a_run(story: Story) -> None:
    runs = {row["query"]: row["run"] for row in story.rows}
    assert {runs[name] for name in (*SHARED, "enters", "from a shell")} == {"run1"}
    assert runs["rows"] == runs["rows that leave"]
    assert runs["sectors"] == runs["sector s1"]
    assert len({runs[name] for name in ("short", "rows", "sectors")}) == 3
    shares = sum(row["cost_share"] for row in story.rows if row["run"] == "run1")
    assert shares == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("name", "width", "first", "end"),
    [
        ("leaves", 9, 0, 3),
        ("enters", 8, 2, SLICES),
        ("from a shell", 2, 2, SLICES),
        ("while down", 3, 4, SLICES),
        ("of the program", 4, 4, SLICES),
    ],
)
def test_who_comes_and_goes_has_the_results_of_its_time(
    story: Story, name: str, width: int, first: int, end: int
) -> None:
    text = LEAVES if name == "leaves" else ENTERS.replace("8 SECONDS", f"{width} SECONDS")
    want = story.files.alone(text, first, end)
    assert sorted_rows(story.files.published(name)) == sorted_rows(want)
    assert want.num_rows > 5


def test_a_query_enters_within_two_triggers(story: Story) -> None:
    first = story.files.registry.outbox("run1").batches("enters")[0]
    assert story.batches["before"] < first <= story.batches["before"] + 2


def test_rates_are_those_of_the_last_trigger(story: Story) -> None:
    told = [row for row in story.rows if "results" in row]
    assert told
    for row in told:
        assert (row["results_per_s"] > 0) == (row["results"] > 0)
        assert (row["rows_in_per_s"] > 0) == (row["rows_in"] > 0)


def test_nothing_was_refused_that_was_meant(story: Story) -> None:
    assert story.refused == []


def test_a_broken_sink_stops_nobody_else(story: Story) -> None:
    assert story.said["broken"] == "StreamingQueryException"


def test_a_sink_has_what_was_published(story: Story, spark: SparkSession) -> None:
    sink = spark.read.parquet(str(story.files.root / "sink")).toArrow()
    assert sorted_rows(sink) == sorted_rows(story.files.published("short"))


def test_an_app_sends_commands_to_its_runs(story: Story) -> None:
    assert story.said["command"] in story.files.registry.commands.names()


def test_another_join_gets_a_run_of_its_own_beside(story: Story) -> None:
    assert story.files.registry.owner("another join").name == "run5"  # another one than before
    assert sorted_rows(story.files.published("another join")) == sorted_rows(story.files.alone(ANOTHER))


def test_a_run_ends_with_its_last_query_and_is_not_started_again(story: Story) -> None:
    first = ["run1", "run2", "run3"]
    assert story.going == [[*first, "run4"], first, first]
    assert story.files.registry.has_ended("run4")
    assert story.left > 50


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("two apps", "the queries of DIR run already, in process "),
        ("two apps", 'Stop them there first. To add a query meanwhile, use: thalweg register DIR NAME "SELECT ..."'),
        ("twice", "this app was started in DIR before. Stop what app.start returned, and start another App."),
        ("known", "there is a query 'short' in DIR already. Deregister it first, or choose another name."),
        (
            "column",
            "query 'notes' reads 'note' of stream 'a', and 'run1' does not carry it. Leave it out, or begin in a new "
            "directory with app.stream('a', ..., keep=['note']) (thalweg run: --keep a=note).",
        ),
        (
            "text",
            "query 'short' is registered in DIR with another text. Deregister it first (thalweg deregister DIR short), "
            "or choose another name.",
        ),
        ("sink", "/sink is for the query 'shrt'. The registered queries are: short, "),
        ("unknown", "there is no query 'shrt' in DIR. The registered queries are: "),
    ],
)
def test_what_a_person_is_told(story: Story, what: str, said: str) -> None:
    assert said in story.said[what].replace(str(story.files.directory), "DIR")


def test_what_an_app_that_was_not_started_says(spark: SparkSession, story: Story) -> None:
    app = story.files.app(spark)
    app.register("short", SHARED["short"])
    assert app.queries() == [
        {"query": "short", "run": None, "status": "waiting", "failure": None, "text": SHARED["short"]}
    ]
    assert refusal(lambda: app.start(story.files.root / "none", options={"sharing": "none"})) == (
        "option sharing: app.start has queries over one join share a run. For a plan of its own, give each query an "
        "App and a directory of its own; or leave sharing out."
    )
    assert refusal(lambda: app.start(story.files.root / "none", options={"sharing": "push_down"})) == (
        "option sharing: push_down is for comparison, and in process alone: a bucket has one join. Use thalweg.replay; "
        "or leave sharing out."
    )
    assert refusal(lambda: app.register("short", LEAVES)) == (
        "there is a query 'short' already. Deregister it first, or choose another name."
    )
    assert refusal(lambda: app.register("d", "SELECT DISTINCT a.k FROM a [NOW]")).startswith(
        "SELECT DISTINCT is not supported (line 1, column 8)."
    )
    assert refusal(lambda: app.register("d", "SELECT a.q FROM a [NOW], b [NOW] WHERE a.k = b.k")).startswith(
        "stream 'a' has no column 'q' (line 1, column 10)."
    )
    assert refusal(lambda: app.read("short")) == "this app has not been started. Call app.start(directory) first."
    assert refusal(lambda: app.deregister("shrt")) == ("there is no query 'shrt'. The registered queries are: short.")
    app.deregister("short")
    assert refusal(lambda: app.start(story.files.root / "new")) == (
        "no query is registered. Call app.register(name, text) before app.start."
    )
