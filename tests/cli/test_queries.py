"""``thalweg register``, ``deregister`` and ``queries``, without Spark: what a person sees."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Invoke
from tests.spark.registering import JOIN, LONG, SHORT, begin
from thalweg.spark.queries_file import Running


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A directory in which two queries share a run that does not go on."""
    begin(tmp_path / "runs", {"short": SHORT, "long": LONG})
    return tmp_path / "runs"


def test_a_query_comes_and_goes(thalweg: Invoke, runs: Path) -> None:
    result = thalweg("register", runs, "more one", SHORT)
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == [
        "'more one' was sent to run1: it obeys when it is started again",
        f"its results: {runs}/run1/results/more%20one",
    ]
    right = Running(runs)
    assert right.take() is None
    (runs.parent / "q.cql").write_text(f"\n{LONG}\n")
    result = thalweg("register", runs, "filed", "--file", runs.parent / "q.cql")
    assert "'filed' was sent to run1: it obeys with its next batch but one at the latest" in result.stdout
    result = thalweg("register", runs, "piped", "--file", "-", input=LONG)
    assert result.exit_code == 0, result.output
    result = thalweg("deregister", runs, "short")
    assert result.stdout == "run1 was told to let 'short' go: it obeys with its next batch but one at the latest\n"
    rows = json.loads(thalweg("queries", runs, "--json").stdout)
    assert [(row["query"], row["text"]) for row in rows] == [
        ("long", LONG),
        ("more one", SHORT),
        ("filed", LONG),
        ("piped", LONG),
    ]
    shown = thalweg("queries", runs).stdout.splitlines()
    right.release()
    assert shown[0] == f"{runs}: running"
    assert shown[2].split() == [
        "query",
        "run",
        "status",
        "slices",
        "results",
        "so",
        "far",
        "cost",
        "share",
        "directory",
    ]
    assert len(shown) == 8
    assert shown[5].startswith("more one   run1   running   t: 10 s | 30 s; q: 30 s ")
    assert shown[5].endswith(f"{runs}/run1/results/more%20one")
    assert thalweg("queries", runs).stdout.startswith(f"{runs}: not running\n")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (
            ["short", LONG],
            1,
            "error: there is a query 'short' in DIR already. Deregister it first, or choose another name.",
        ),
        (
            ["wrong", SHORT.replace("t.px", "t.prx")],
            1,
            "error: stream 't' has no column 'prx' (line 1, column 17). Did you mean 'px'? Its columns are ts, sym, "
            "px, venue.\n"
            " --> QUERY:1:17\n"
            "  |\n"
            f"1 | {SHORT.replace('t.px', 't.prx')}\n"
            "  |                 ^",
        ),
        (
            ["venue", SHORT.replace("t.px", "t.venue")],
            1,
            "error: query 'venue' reads 'venue' of stream 'trades', and 'run1' does not carry it. Leave it out, or "
            "begin in a new directory with app.stream('trades', ..., keep=['venue']) (thalweg run: --keep "
            "trades=venue).",
        ),
        (
            ["other", "SELECT t.px FROM trades t, quotes q WHERE t.px = q.bid WINDOW RANGE 1 SECOND"],
            1,
            "error: query 'other' does not join what the queries of 'run1' join. So it needs a run of its own, which "
            "only the program can start that has the streams: add the query to the file of `thalweg run`, or call "
            "app.register, and start that again.",
        ),
        (
            ["by venue", f"SELECT t.px, COUNT(*) AS n {JOIN} GROUP BY t.px WINDOW RANGE 1 SECOND"],
            1,
            "error: query 'by venue' groups by t.px, and the rows of a group would be in several of the 2 buckets of "
            "'run1'. So it needs a run of its own, which only the program can start that has the streams: add the "
            "query to the file of `thalweg run`, or call app.register, and start that again.",
        ),
        (
            ["news", "SELECT n.headline FROM news n [NOW]"],
            1,
            "error: there is no stream 'news'",
        ),
        (["one"], 2, "give the query as one argument in quotes, or a --file with it, and not both."),
    ],
)
def test_what_cannot_be_registered(thalweg: Invoke, runs: Path, arguments: list[str], code: int, said: str) -> None:
    result = thalweg("register", runs, *arguments)
    assert result.exit_code == code
    told = result.stderr.replace(str(runs), "DIR")
    assert said in (told if code == 1 else " ".join(told.replace("│", " ").split()))
    assert result.stdout == ""


def test_what_cannot_leave(thalweg: Invoke, runs: Path) -> None:
    result = thalweg("deregister", runs, "shrt")
    assert result.exit_code == 1
    assert result.stderr == f"error: there is no query 'shrt' in {runs}. The registered queries are: short, long.\n"


def test_a_run_ends_with_its_last_query(thalweg: Invoke, runs: Path) -> None:
    thalweg("deregister", runs, "long")
    result = thalweg("deregister", runs, "short")
    assert (result.exit_code, result.stdout) == (0, "'short' was the last query of run1, which ends with it\n")
    result = thalweg("register", runs, "short", SHORT)
    assert result.exit_code == 1
    assert result.stderr.startswith(f"error: no run of {runs} has a query. So it needs a run of its own, which only")


@pytest.mark.parametrize("command", [["queries"], ["deregister", "x"], ["register", "x", SHORT]])
def test_a_directory_without_runs(thalweg: Invoke, tmp_path: Path, command: list[str]) -> None:
    result = thalweg(command[0], tmp_path / "none", *command[1:])
    assert result.exit_code == 1
    assert result.stderr == (
        f"error: no queries share runs in {tmp_path}/none. Give the --sink of a `thalweg run` with several queries, or "
        "the directory of app.start.\n"
    )
    assert not (tmp_path / "none").exists()
