"""``thalweg run`` and ``thalweg control``: what reaches the sink, what a person sees, and how a run ends."""

from __future__ import annotations

import datetime as dt
import io
import json
import os
import re
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from rich.console import Console
from rich.table import Table

import thalweg as library
from tests.cli.conftest import RESULTS, Invoke
from tests.spark.runs import BRIEF
from thalweg.cli.connectors import parse_connector, parse_sink
from thalweg.cli.progress import BatchReport, Intake, Totals
from thalweg.cli.script import choose
from thalweg.cli.spark_console import cause
from thalweg.cli.watch import live_view, picture, warnings_of
from thalweg.errors import InputError, PlanError, QueryError
from thalweg.files import read_table
from thalweg.spark.command_files import files_of
from thalweg.spark.receivers import Receiver, check_plan, known_receivers, leave_word
from thalweg.spark.session import local_session

PATIENCE_SECONDS = 100.0


@pytest.fixture(scope="module")
def _spark() -> None:
    """A small Spark, which the command then finds running."""
    local_session(cores=2, **BRIEF)


def written(sink: Path) -> list[dict[str, Any]]:
    rows = pq.read_table(sink).to_pylist()
    return sorted(rows, key=str)


def contents(directory: Path) -> dict[str, bytes]:
    """What a run has written there, but for the log of Spark and what it was told."""
    files = (file for file in directory.rglob("*") if file.is_file() and file.parent.name != "thalweg")
    return {str(file): file.read_bytes() for file in files}


def wait_for(event: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not event() and time.monotonic() < deadline:
        time.sleep(0.05)


@pytest.mark.usefixtures("_spark")
class TestOnSpark:
    def test_the_end_of_a_finite_input_ends_all_windows(self, thalweg: Invoke, shop: Path) -> None:
        """Results that leave do so only at the end; sources are a file, a directory of JSON, and parquet."""
        cql = (shop / "abc.cql").read_text().replace("SELECT", "SELECT DSTREAM")
        (shop / "d.cql").write_text(cql)
        tables = {name: read_table(shop / f"{name.lower()}.csv", time="ts") for name in "ABC"}
        (shop / "b").mkdir()
        lines = [json.dumps({**row, "ts": f"{row['ts'].isoformat()}Z"}) for row in tables["B"].to_pylist()]
        (shop / "b" / "b.jsonl").write_text("\n".join(lines))
        pq.write_table(tables["C"], shop / "c.parquet")
        sources = [f"--source=A={shop}/a.csv", f"--source=B={shop}/b", f"--source=C={shop}/*.parquet"]
        result = thalweg("run", shop / "d.cql", *sources, "--once", "--end", "--sink", shop / "out")
        assert result.exit_code == 0, result.output
        assert written(shop / "out") == sorted(library.replay(cql, tables).to_pylist(), key=str)
        assert written(shop / "out") == sorted(RESULTS, key=str)
        assert f"the input has ended: no later run can go on from {shop}/out/_checkpoint" in result.stdout
        assert "query1: 2 results from 9 rows" in result.stdout
        assert "query1: batch 0: 9 rows in" in result.stderr

    def test_an_old_directory_of_commands_does_not_keep_a_new_run_from_its_end(
        self, thalweg: Invoke, shop: Path, sources: list[str]
    ) -> None:
        """Nor does the end of one run end another that has the same directory; what has ended does not start again."""
        (shop / "d.cql").write_text((shop / "abc.cql").read_text().replace("SELECT", "SELECT DSTREAM"))
        (shop / "a").mkdir()
        (shop / "a.csv").rename(shop / "a" / "0.csv")
        given = [f"--source=A={shop}/a", *sources[2:]]
        command = ["run", shop / "d.cql", *given, "--once", "--end", "--directory", shop / "told"]
        for sink in ("first", "second"):
            result = thalweg(*command, "--sink", shop / sink)
            assert result.exit_code == 0, result.output
            assert written(shop / sink) == sorted(RESULTS, key=str)
            warnings = [line for line in result.stderr.splitlines() if line.startswith("warning")]
            assert len(warnings) == (sink == "second")
            assert all("was there before this query, so it is not obeyed" in warning for warning in warnings)
        assert len(list((shop / "told" / "control").glob("*.json"))) == 2
        (shop / "a" / "1.csv").write_text("k,x,ts\n1,10,2024-05-01 13:00:00\n")
        kept = contents(shop / "second")
        for options in (["--end"], []):
            again = thalweg(*[each for each in command if each != "--end"], *options, "--sink", shop / "second")
            assert again.exit_code == 1
            assert f"error: query 'query1' cannot go on from {shop}/second/_checkpoint: its input has" in again.stderr
            assert "start with a new checkpoint directory" in again.stderr
            assert contents(shop / "second") == kept
        assert len(list((shop / "told" / "control").glob("*.json"))) == 2

    def test_what_is_there_is_taken_day_by_day(self, thalweg: Invoke, shop: Path) -> None:
        """Each run takes what is new and keeps the windows open; what waits for time comes with the end."""
        cql = (shop / "abc.cql").read_text().replace("SELECT", "SELECT DSTREAM").replace("C [RANGE 10", "C [RANGE 50")
        (shop / "d.cql").write_text(cql)
        tables = {name: read_table(shop / f"{name.lower()}.csv", time="ts") for name in "ABC"}
        lines = {name: (shop / f"{name}.csv").read_text().splitlines() for name in "abc"}
        for name in "abc":
            (shop / name).mkdir()
        sources = [f"--source={name.upper()}={shop}/{name}" for name in "abc"]
        command = ["run", shop / "d.cql", *sources, "--once", "--sink", shop / "out"]
        seen = []
        for day in range(3):
            for name, (header, *rows) in lines.items():
                (shop / name / f"{day}.csv").write_text(f"{header}\n{rows[day]}\n")
            result = thalweg(*command)
            assert result.exit_code == 0, result.output
            assert "windows stay open, with " in result.stdout
            seen.append(len(written(shop / "out")))
        idle = thalweg(*command)
        assert "0 results from 0 rows" in idle.stdout
        assert "tuples in them: run again for new rows, or with --end to finish for good" in idle.stdout
        assert seen == [0, 0, 1]
        last = thalweg(*command, "--end")
        assert last.exit_code == 0, last.output
        assert "query1: 2 results from 0 rows" in last.stdout
        assert written(shop / "out") == sorted(library.replay(cql, tables).to_pylist(), key=str)

    def test_without_a_checkpoint_that_is_kept_once_ends_the_input(
        self, thalweg: Invoke, shop: Path, sources: list[str]
    ) -> None:
        (shop / "d.cql").write_text((shop / "abc.cql").read_text().replace("SELECT", "SELECT DSTREAM"))
        result = thalweg("run", shop / "d.cql", *sources, "--once", "--sink=noop")
        assert result.exit_code == 0, result.output
        assert "query1: 2 results from 9 rows" in result.stdout

    def test_a_finite_input_without_a_row_ends_too(self, thalweg: Invoke, shop: Path) -> None:
        (shop / "empty").mkdir()
        (shop / "n.cql").write_text("SELECT DSTREAM A.k FROM A [RANGE 1 SECOND]")
        given = f"--source=A=json:path={shop}/empty,schema=k BIGINT, ts TIMESTAMP"
        result = thalweg("run", shop / "n.cql", given, "--once", "--end", "--sink", shop / "out")
        assert result.exit_code == 0, result.output
        assert "query1: 0 results from 0 rows" in result.stdout
        assert "warning" not in result.stderr

    def test_a_stream_is_joined_with_a_static_relation(self, thalweg: Invoke, shop: Path) -> None:
        (shop / "names.csv").write_text("k,name\n1,one\n2,two\n")
        (shop / "n.cql").write_text("SELECT A.x, names.name FROM A, names WHERE A.k = names.k")
        given = [f"--source=A={shop}/a.csv", f"--static=names={shop}/names.csv"]
        result = thalweg("run", shop / "n.cql", *given, "--once", "--sink", shop / "out")
        assert result.exit_code == 0, result.output
        assert written(shop / "out") == [{"x": 10, "name": "one"}, {"x": 20, "name": "two"}, {"x": 30, "name": "one"}]
        assert "query1: 3 results from 3 rows" in result.stdout

    def test_a_run_goes_on_from_its_checkpoint(self, thalweg: Invoke, shop: Path) -> None:
        query = (shop / "abc.cql").read_text()
        (shop / "two.cql").write_text("".join(["CREATE QUERY abc AS ", query, "; SELECT * FROM A [NOW]"]))
        later = {}
        for name in "abc":
            (shop / name).mkdir()
            *first, last = (shop / f"{name}.csv").read_text().splitlines()
            (shop / name / "0.csv").write_text("\n".join(first) + "\n")
            later[shop / name / "1.csv"] = f"{first[0]}\n{last}\n"
        sources = [f"--source={name.upper()}={shop}/{name}" for name in "abc"]
        command = ["run", shop / "two.cql", "--query", "ABC", *sources, "--once", "--sink", shop / "out"]
        first = thalweg(*command, "--plan", "(A B) C", "--states", "all", "--production", "jit")
        assert first.exit_code == 0, first.output
        assert "intermediate results not produced, at least" in first.stdout
        told = thalweg("explain", "--live", shop / "out" / "_checkpoint" / "thalweg")
        assert "values suspended now" in told.stdout
        assert written(shop / "out") == RESULTS[:1]
        for file, text in later.items():
            file.write_text(text)
        result = thalweg(*command)
        assert result.exit_code == 0, result.output
        assert "abc: 1 result from 3 rows" in result.stdout
        assert "feedback" not in result.stdout
        assert written(shop / "out") == RESULTS
        live = thalweg("explain", "--live", shop / "out" / "_checkpoint" / "thalweg")
        assert live.exit_code == 0, live.output
        assert live.stdout.startswith("abc after batch 1\n")
        assert "(A B) C keeping A⋈B  as the user wrote it" in re.sub(" {2,}", "  ", live.stdout)
        (shop / "grown.cql").write_text(query.replace("A [RANGE 10", "A [RANGE 20"))
        asked = ["check", shop / "grown.cql", "--checkpoint", shop / "out" / "_checkpoint"]
        for given in ([], sources):
            grown = thalweg(*asked, *given)
            assert grown.exit_code == 0, grown.output
            assert grown.stdout.splitlines()[1:] == [
                "- the window of A grew from 10 seconds to 20 seconds: from now on. Rows that had left it by then do "
                "not come back"
            ]

    def test_commands_and_ctrl_c_while_it_runs(self, thalweg: Invoke, tmp_path: Path) -> None:
        (tmp_path / "ab.cql").write_text(
            "SELECT A.value FROM A [RANGE 5 SECONDS], B [RANGE 5 SECONDS] WHERE A.value = B.value"
        )
        place, commits = tmp_path / "c" / "thalweg", tmp_path / "c" / "commits"
        sent: list[Any] = []

        def meanwhile() -> None:
            wait_for((commits / "0").exists)
            sent.append(thalweg("control", place, "plan", "B A"))
            done = len(list(commits.glob("[0-9]*")))
            wait_for((commits / str(done + 1)).exists)
            os.kill(os.getpid(), signal.SIGINT)

        watcher = threading.Thread(target=meanwhile)
        watcher.start()
        rates = ["--source=A=rate:rowsPerSecond=50", "--source=B=rate"]
        result = thalweg("run", tmp_path / "ab.cql", *rates, "--plan=A B", "--sink=noop", f"--checkpoint={tmp_path}/c")
        watcher.join()
        assert result.exit_code == 0, result.output
        assert sent[0].exit_code == 0, sent[0].output
        assert "sent to query1" in sent[0].stdout
        assert [line.split(maxsplit=1)[1] for line in result.stdout.splitlines() if line.endswith((" A", " B"))] == [
            "A B",
            "B A",
        ]

    def test_the_second_query_without_a_name_keeps_columns_takes_commands_and_tells_of_late_rows(
        self, thalweg: Invoke, shop: Path
    ) -> None:
        (shop / "two.cql").write_text("SELECT * FROM b [NOW]; SELECT A.k FROM A [RANGE 5 SECONDS]")
        (shop / "a").mkdir()
        (shop / "a" / "0.csv").write_text((shop / "a.csv").read_text())
        command = [
            "run",
            shop / "two.cql",
            "--query=query2",
            f"--source=A={shop}/a",
            "--keep=A=x",
            "--once",
        ]
        command += ["--sink", shop / "out"]
        first = thalweg(*command)
        assert first.exit_code == 0, first.output
        place = shop / "out" / "_checkpoint" / "thalweg"
        assert thalweg("control", place, "end", "--query=query1").exit_code == 1
        (place / "control" / "wrong").write_text("no command")
        (shop / "a" / "1.csv").write_text("k,x,ts\n1,10,2024-05-01 11:00:00\n1,10,2024-05-01 12:01:00\n")
        second = thalweg(*command)
        assert second.exit_code == 0, second.output
        assert "warning: command refused: wrong: " in second.stderr
        assert "warning: stream 'A': 1 of 5 rows so far came late" in second.stderr
        assert ["A", "5", "1", "20.0%", "0"] in [line.split() for line in second.stdout.splitlines()]
        assert thalweg("control", place, "end", "--query=query2").exit_code == 0
        (shop / "two.cql").write_text("SELECT * FROM b [NOW]; SELECT A.k, A.x FROM A [RANGE 5 SECONDS]")
        third = thalweg(*command)
        assert third.exit_code == 0, third.output
        assert "query2: 0 results from 0 rows" in third.stdout
        assert ["A", "5", "1", "20.0%", "0"] in [line.split() for line in third.stdout.splitlines()]
        live = thalweg("explain", "--live", place)
        assert "command refused: wrong: " in live.stdout
        metrics = thalweg(*command)  # the command has reached it: rows after the end are late
        assert "Traceback" not in metrics.output

    def test_an_error_of_spark_is_one_line(self, thalweg: Invoke, shop: Path, sources: list[str]) -> None:
        (shop / "bad.csv").write_text("k,x,ts\nseven,1,2024-05-01 12:00:00\n")
        schema = "header=true,mode=FAILFAST,schema=k BIGINT, x BIGINT, ts TIMESTAMP"
        source = f"--source=A=csv:path={shop}/bad*.csv,{schema}"
        log = shop / "out" / "_checkpoint" / "thalweg" / "spark.log"
        log.parent.mkdir(parents=True)
        log.touch(0o644)
        result = thalweg("run", shop / "abc.cql", source, *sources[2:], "--once", "--sink", shop / "out")
        assert result.exit_code == 1
        assert log.stat().st_mode & 0o777 == 0o600
        errors = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
        assert len(errors) == 1
        assert "bad.csv" in errors[0]
        assert "seven" in errors[0]
        assert "spark.log" in errors[0]
        assert "Traceback" not in result.stderr

    def test_an_error_inside_the_query_is_told_in_its_own_words(self, thalweg: Invoke, tmp_path: Path) -> None:
        (tmp_path / "a.csv").write_text(
            "x,ts\n9000000000000000000,2024-05-01 12:00:00\n9000000000000000000,2024-05-01 12:00:01\n"
        )
        (tmp_path / "sum.cql").write_text("SELECT SUM(x) AS total FROM A [RANGE 10 SECONDS]")
        result = thalweg("run", tmp_path / "sum.cql", f"--source=A={tmp_path}/a.csv", "--once", "--sink=noop")
        assert result.exit_code == 1
        assert re.search(r"^error: .*SUM.*64", result.stderr, re.MULTILINE)
        assert "Traceback" not in result.stderr

    @pytest.mark.parametrize(
        ("source", "complaint"),
        [
            ("nosuch:key=value", "nosuch"),
            ("parquet:path=/no/such/place", "Path does not exist"),
            ("a.csv", "has no column 'when' for the event time of stream 'A'"),
        ],
    )
    def test_a_source_that_cannot_be_opened(
        self,
        thalweg: Invoke,
        shop: Path,
        sources: list[str],
        monkeypatch: pytest.MonkeyPatch,
        source: str,
        complaint: str,
    ) -> None:
        monkeypatch.chdir(shop)
        result = thalweg("run", "abc.cql", f"--source=A={source}", *sources[2:], "--time=A=when", "--sink=noop")
        assert result.exit_code == 1
        assert result.stderr.startswith("error: ")
        assert complaint in result.stderr

    @pytest.mark.parametrize(
        ("source", "complaint"),
        [
            ("parquet:path=/no/hunter22,fs.secret.key=hunter22", "Path does not exist: file:/no/*********(redacted)."),
            ("rate:rowsPerSecond=1,token=hunter22", "A has no column 'when'"),
        ],
    )
    def test_secrets_of_a_source_are_not_told(
        self, thalweg: Invoke, shop: Path, sources: list[str], source: str, complaint: str
    ) -> None:
        given = [f"--source=A={source}", *sources[2:], "--time=A=when"]
        result = thalweg("run", shop / "abc.cql", *given, "--sink=noop")
        assert result.exit_code == 1
        assert complaint.removeprefix("A ") in result.stderr
        assert "*********(redacted)" in result.stderr
        assert "hunter22" not in result.output


class TestRefusals:
    """Before anything is started."""

    @pytest.mark.parametrize(
        ("arguments", "complaint"),
        [
            ([], "name the streams"),
            (["--source=A=a.csv", "--once", "--trigger=5 seconds"], "without waiting"),
            (["--source=A=a.csv", "--end"], "it goes with --once"),
            (["--source=A=a.csv", "--lateness=B=5 seconds"], "'B' is no source"),
            (["--source=A=a.csv", "--lateness=1 second", "--lateness=2 seconds"], "for all streams"),
            (["--source=A=a.csv", "--time=B=ts"], "'B' is no source"),
            (["--source=A=a.csv", "--keep=B=x"], "'B' is no source"),
            (["--source=A=a.csv", "--static=B=b.csv", "--keep=B=all"], "'B' is a static relation"),
        ],
    )
    def test_a_wrong_command_line(self, thalweg: Invoke, shop: Path, arguments: list[str], complaint: str) -> None:
        result = thalweg("run", shop / "abc.cql", *arguments)
        assert result.exit_code == 2
        assert complaint in " ".join(result.stderr.replace("│", " ").split())

    @pytest.mark.parametrize(
        ("arguments", "complaint"),
        [
            (["--query=no"], "the text has no query 'no'. Its queries are query1."),
            (["--trigger=soon"], "--trigger is 'soon'"),
            (["--sink=abc.cql"], "it is a file"),
            (["--checkpoint=s3://x/y"], "Add a --directory"),
            (["--buckets=100000"], "option buckets"),
        ],
    )
    def test_an_option_that_cannot_be(
        self, thalweg: Invoke, shop: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], complaint: str
    ) -> None:
        monkeypatch.chdir(shop)
        result = thalweg("run", "abc.cql", "--source=A=a.csv", *arguments)
        assert result.exit_code == 1
        assert result.stderr.startswith("error: ")
        assert complaint in result.stderr

    def test_several_queries_need_a_name(self) -> None:
        with pytest.raises(QueryError, match=r"2 queries \(p, query2\).*--query NAME"):
            choose("CREATE QUERY p AS SELECT * FROM a [NOW]; SELECT * FROM b [NOW]", None)

    def test_a_chosen_query_stays_in_its_place(self) -> None:
        script = "SELECT * FROM a [NOW];\n\nSELECT *\nFROM b [NOW];"
        text, name = choose(script, "query2")
        assert name == "query2"
        assert text.split() == ["SELECT", "*", "FROM", "b", "[NOW]"]
        assert text.index("FROM b") == script.index("FROM b")
        assert text.count("\n") == 3


class TestControl:
    @pytest.fixture
    def place(self, tmp_path: Path) -> Path:
        (tmp_path / "control").mkdir()
        leave_word(files_of(tmp_path), [Receiver("q", "join", ("A", "B", "C"), "auto")])
        (tmp_path / "queries" / "somebody's.json").write_text("{}")
        return tmp_path

    def sent(self, place: Path) -> list[dict[str, Any]]:
        files = sorted((place / "control").glob("*.json"))
        return [json.loads(file.read_text()) for file in files]

    def test_commands_are_sent(self, thalweg: Invoke, place: Path) -> None:
        assert thalweg("control", place, "plan", "(B C) A").exit_code == 0
        assert thalweg("control", place, "plan", "(A C) B", "--states", "all").exit_code == 0
        assert thalweg("control", place, "end").exit_code == 0
        assert thalweg("control", place, "cancel", "--query", "Q").exit_code == 0
        assert self.sent(place) == [
            {"command": "plan", "plan": "(B C) A"},
            {"command": "plan", "plan": "(A C) B", "states": "all"},
            {"command": "end"},
            {"command": "cancel", "query": "q"},
        ]

    @pytest.mark.parametrize(
        ("arguments", "code", "complaint"),
        [
            (["plan", "(A B"], 1, "a '(' without its ')'"),
            (["plan", "(A B) D"], 1, "'D' is not a stream of the query"),
            (["plan", "A B"], 1, "stream 'C' is missing"),
            (["plan", "A: B C; B: A C; C: A B", "--states", "all"], 1, "a linear order keeps no states"),
            (["end", "--query", "p"], 1, "is for the query 'p', and there is none of that name"),
            (["plan"], 2, "there must be a plan"),
            (["end", "A B"], 2, "there must be no value after 'end'"),
            (["end", "--states", "all"], 2, "has no meaning for 'end'"),
            (["stop"], 2, "stop"),
        ],
    )
    def test_what_the_query_could_not_obey_is_not_sent(
        self, thalweg: Invoke, place: Path, arguments: list[str], code: int, complaint: str
    ) -> None:
        result = thalweg("control", place, *arguments)
        assert result.exit_code == code
        assert complaint in " ".join(result.stderr.replace("│", " ").split())
        assert self.sent(place) == []

    def test_a_directory_without_a_query(self, thalweg: Invoke, tmp_path: Path) -> None:
        result = thalweg("control", tmp_path, "end")
        assert result.exit_code == 1
        assert "no query reads commands from" in result.stderr

    def test_one_of_several_queries_must_be_able_to_take_a_plan(self, thalweg: Invoke, place: Path) -> None:
        leave_word(files_of(place), [Receiver("r", kind, ("x", "y"), "auto") for kind in ("join", "difference")])
        assert [each.query for each in known_receivers(files_of(place))] == ["q", "r", "r"]
        assert "sent to q, r: they obey with their next batch" in thalweg("control", place, "plan", "x y").stdout
        assert thalweg("control", place, "plan", "x - y", "--query", "r").exit_code == 0
        refused = thalweg("control", place, "plan", "x y", "--query", "q")
        assert refused.exit_code == 1
        assert "'x' is not a stream of the query" in refused.stderr
        by_id = thalweg("control", place, "plan", "x y", "--query", "2f8d1b0a-6d3c-4a52-9d0e-1f2a3b4c5d6e")
        assert by_id.exit_code == 0
        assert len(self.sent(place)) == 3

    def test_without_word_of_the_query_only_the_syntax_is_checked(self) -> None:
        check_plan("(x `y z`) w", None, None)
        with pytest.raises(PlanError, match="stands 2 times"):
            check_plan("(x y) x", None, None)

    def test_a_set_difference_takes_the_plan_of_one(self) -> None:
        known = Receiver("q", "difference", ("a", "b", "c"), "auto")
        check_plan("(a - c) - b", None, known)
        check_plan("(a - c) - b", None, None)
        with pytest.raises(PlanError, match="Write it like 'a - b - c'"):
            check_plan("(a b) c", None, known)


NOON = dt.datetime(2024, 5, 1, 12, tzinfo=dt.UTC)


def test_the_live_view_shows_rates_state_and_plan() -> None:
    totals = Totals()
    assert "starting" in rendered(picture("q", totals))
    late, bad = Counter(A=2), Counter[str]()
    for number, plan in enumerate(("(A B) C", "(B C) A")):
        totals.add(BatchReport(number, 1000, 10, late, bad, NOON, (plan,), 700, 5, 2048, 1, 0, 0.5))
    shown = [line.split() for line in rendered(picture("q", totals)).splitlines()]
    for row in (
        ["rows", "in", "1,000", "2,000"],
        ["rows/s", "2,000", "2,000"],
        ["results", "10", "20"],
        ["late", "rows", "2", "4"],
        ["time", "500", "ms", "1.00", "s"],
        ["state", "700", "tuples,", "2.0", "KiB"],
        ["watermark", "2024-05-01", "12:00:00.000"],
        ["plan", "(B", "C)", "A"],
    ):
        assert row in shown
    assert totals.plans == [(0, ("(A B) C",)), (1, ("(B C) A",))]
    assert not any(row[:2] == ["not", "produced"] for row in shown)


def test_the_live_view_shows_what_was_not_produced() -> None:
    totals, none = Totals(), Counter[str]()
    for number in range(2):
        savings = Counter(withheld=100, suspended=3 - number)
        report = BatchReport(number, 1000, 10, none, none, None, (), 700, 5, 2048, 1, 0, 0.5, savings=savings)
        totals.add(report)
    assert ["not", "produced", "100", "200"] in [line.split() for line in rendered(picture("q", totals)).splitlines()]
    assert totals.savings == {"withheld": 200, "suspended": 2}


def test_what_should_not_go_unnoticed_is_said_once() -> None:
    totals, told = Totals(), set[str]()

    def warnings(late: int, *refused: str, ended: bool = False) -> list[str]:
        so_far = {"A": Intake(1000, late, 0), "B": Intake(10, 0, 0)}
        counts: list[Any] = [Counter(A=late), Counter(), None, (), 0, 0, 0, 0, 0, 0.5]
        totals.add(BatchReport(0, 0, 0, *counts, so_far=so_far, refused=refused, ended=ended))
        return list(warnings_of(totals, told))

    assert warnings(9) == []
    assert warnings(20, ended=True) == []  # which is said at the end of a run
    first, second = warnings(20, "7.json: no such plan")
    assert first == "warning: command refused: 7.json: no such plan"
    assert second.startswith(
        "warning: stream 'A': 20 of 1,000 rows so far came late and were kept out. Likely causes: "
    )
    assert warnings(30) == []
    assert warnings(30, "7.json: no such plan") == [first]  # sent again


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("in_place", [True, False])
def test_a_table_that_stays_in_its_place_needs_a_terminal_of_its_own(
    monkeypatch: pytest.MonkeyPatch, in_place: bool
) -> None:
    """Spark prints what goes to its console between two pictures, which would be painted over."""
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    none = Counter[str]()
    totals = Totals()
    with live_view("q", in_place=in_place) as view:
        for number in range(2):
            totals.add(BatchReport(number, 1000, 10, none, none, NOON, ("A B",), 700, 5, 2048, 1, 0, 0.5))
            view.show(totals)
        view.say("a warning")
    assert ("\x1b[1A" in terminal.getvalue()) == in_place  # the cursor goes up
    assert "a warning" in terminal.getvalue()
    assert parse_sink("console").is_console
    assert not parse_sink("noop").is_console


def rendered(table: Table) -> str:
    console = Console(file=io.StringIO(), width=100)
    with console.capture() as captured:
        console.print(table)
    return captured.get()


def test_paths_are_not_formats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "odd:name").mkdir()
    assert parse_connector("odd:name", "--source") is None
    assert parse_connector("s3://bucket/x.parquet", "--source") is None
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="it is a file"):
        parse_sink("file")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "Spark failed, and did not say why."),
        (
            "Job aborted.\nTraceback (most recent call last):\n  File x\na.b.FirstError: no\nValueError: bad k\n",
            "ValueError: bad k",
        ),
        (
            "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: [X.Y] Option p is bad SQLSTATE: XX1",
            "Option p is bad",
        ),
    ],
)
def test_the_cause_of_a_failure(text: str, expected: str) -> None:
    assert cause(text) == expected


@pytest.mark.parametrize("command", ["run", "control"])
def test_help_teaches(thalweg: Invoke, command: str) -> None:
    result = thalweg(command, "--help")
    assert result.exit_code == 0
    assert "Example:" in result.stdout
    assert f"thalweg {command}" in result.stdout
