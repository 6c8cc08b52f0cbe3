"""``thalweg run`` of a file with several queries."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from rich.console import Console

import thalweg as library
from tests.cli.conftest import Invoke
from tests.spark.runs import BRIEF
from thalweg.cli.progress import BatchReport, Totals
from thalweg.cli.shared_job import picture
from thalweg.files import read_table
from thalweg.spark.session import local_session

PAIR = "FROM A, B WHERE A.k = B.k"
SHORT = f"SELECT A.k, A.x, B.y {PAIR} WINDOW RANGE 10 SECONDS"
LEAVES = f"SELECT DSTREAM A.x {PAIR} AND B.y > 100 WINDOW RANGE 5 SECONDS"
OTHER = "SELECT A.x, C.z FROM A, C WHERE A.k = C.k WINDOW RANGE 10 SECONDS"


@pytest.fixture(scope="module")
def _spark() -> None:
    """A small Spark, which the command then finds running."""
    local_session(cores=2, **BRIEF)


@pytest.fixture
def script(shop: Path) -> Path:
    """Two queries that share a join, and one that does not."""
    text = f"CREATE QUERY short AS {SHORT};\nCREATE QUERY leaves AS {LEAVES};\nCREATE QUERY other AS {OTHER}"
    (shop / "three.cql").write_text(text)
    return shop / "three.cql"


def results(thalweg: Invoke, directory: Path) -> dict[str, list[dict[str, Any]]]:
    rows = json.loads(thalweg("queries", directory, "--json").stdout)
    return {
        row["query"]: sorted(
            (each for f in sorted(Path(row["directory"]).glob("*.parquet")) for each in pq.read_table(f).to_pylist()),
            key=str,
        )
        for row in rows
    }


def told(stderr: str) -> str:
    """An error of the command line, without its frame and line breaks."""
    return " ".join(stderr.replace("│", " ").split())


@pytest.mark.usefixtures("_spark")
def test_all_queries_run_and_go_on_when_they_are_started_again(
    thalweg: Invoke, shop: Path, script: Path, sources: list[str]
) -> None:
    tables = {name: read_table(shop / f"{name.lower()}.csv", time="ts") for name in "ABC"}
    command = ["run", script, *sources, "--sink", shop / "out", "--once", "--buckets", "1"]
    first = thalweg(*command)
    assert first.exit_code == 0, first.output
    assert "3 queries in 2 runs: " in first.stdout
    assert "run1: windows stay open, with " in first.stdout
    registered = thalweg("register", shop / "out", "late", SHORT.replace("10 SECONDS", "9 SECONDS"))
    assert "sent to run1: it obeys when it is started again" in registered.stdout
    again = thalweg(*command, "--end")
    assert again.exit_code == 0, again.output
    assert "4 queries in 2 runs: " in again.stdout
    assert "the input has ended" in again.stdout
    got = results(thalweg, shop / "out")
    for name, text in {"short": SHORT, "leaves": LEAVES, "other": OTHER}.items():
        given = {stream: tables[stream] for stream in "ABC" if f"{stream}." in text}
        assert got[name] == sorted(library.replay(text, given).to_pylist(), key=str), name
        assert got[name]
    assert got["late"] == []  # nothing came after it
    live = thalweg("explain", "--live", shop / "out" / "run1")
    assert live.exit_code == 0, live.output
    (shop / "three.cql").write_text(script.read_text().replace("10 SECONDS", "11 SECONDS"))
    other = thalweg(*command)
    assert other.exit_code == 1
    assert f"query 'short' is registered in {shop}/out with another text. Deregister it first" in other.stderr
    one = thalweg(*command, "--query", "short")
    assert one.exit_code == 2
    assert "has queries that share runs" in told(one.stderr)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "'console' takes the results of one query, and the file has several. Give a directory, as in --sink out/"),
        (["--sink", "noop"], "'noop' takes the results of one query"),
        (["--sink", "csv:out/"], "takes the results of one query"),
        (["--sink", "out/", "--checkpoint", "c"], "The runs keep theirs in the --sink directory; leave it out, or run"),
        (["--sink", "out/", "--directory", "d"], "Commands go to the --sink directory; leave it out, or run one"),
        (["--sink", "out/", "--plan", "A B"], "Send it when they run, with `thalweg control SINK plan"),
    ],
)
def test_options_that_have_no_meaning_for_several(
    thalweg: Invoke, script: Path, sources: list[str], options: list[str], said: str
) -> None:
    result = thalweg("run", script, *sources, *options)
    assert result.exit_code == 2
    assert said in told(result.stderr)
    assert "--query NAME" in told(result.stderr)


def test_a_directory_with_results_of_one_query(thalweg: Invoke, shop: Path, script: Path, sources: list[str]) -> None:
    (shop / "out" / "_checkpoint").mkdir(parents=True)
    result = thalweg("run", script, *sources, "--sink", shop / "out")
    assert result.exit_code == 2
    assert "has the results of one query already" in told(result.stderr)


def test_the_picture_has_a_line_for_each_run_and_query() -> None:
    totals = Totals()
    for number in (0, 1):
        totals.add(_batch(number))
    console = Console(width=100, record=True)
    console.print(picture({"run1": totals, "run2": Totals()}))
    lines = [line.split() for line in console.export_text().splitlines()[2:]]
    assert lines[:4] == [
        ["run1", "1", "20", "5", "10", "-"],
        ["short", "4", "8"],
        ["long", "1", "2"],
        ["run2", "starting"],
    ]


def _batch(number: int) -> BatchReport:
    return BatchReport(
        number=number,
        rows_in=10,
        results=5,
        late=Totals().late,
        bad=Totals().bad,
        watermark=None,
        plans=("A B",),
        tuples=3,
        entries=0,
        bytes=100,
        completions=0,
        rebuilds=0,
        seconds=0.5,
        queries={"short": 4, "long": 1},
    )
