"""``thalweg replay``: results, files, summaries, and every way to be refused."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.conftest import RESULTS, Invoke
from thalweg.files import read_table, write_table


def by_time(rows: list[dict[str, int]]) -> list[dict[str, int]]:
    return sorted(rows, key=lambda row: row["z"])


class TestResults:
    def test_are_shown_without_out(self, thalweg: Invoke, shop: Path, sources: list[str]) -> None:
        result = thalweg("replay", shop / "abc.cql", *sources)
        assert result.exit_code == 0, result.output
        lines = [line.rstrip() for line in result.stdout.splitlines()]
        assert lines[0].split() == ["k", "x", "y", "z"]
        assert sorted(line.split() for line in lines[2:4]) == [["1", "10", "100", "7"], ["1", "30", "300", "9"]]
        assert lines[4] == "(2 rows)"
        assert result.stderr == ""

    @pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl"])
    def test_are_written_with_out(self, thalweg: Invoke, shop: Path, sources: list[str], ending: str) -> None:
        out = shop / "new" / f"results.{ending}"
        result = thalweg("replay", shop / "abc.cql", *sources, "--out", out)
        assert result.exit_code == 0, result.output
        assert by_time(read_table(out).to_pylist()) == RESULTS
        assert f"2 results in {out}\n" in result.stdout

    @pytest.mark.parametrize("ending", ["parquet", "jsonl"])
    def test_come_from_other_formats(self, thalweg: Invoke, shop: Path, ending: str) -> None:
        arguments = []
        for name in "abc":
            write_table(read_table(shop / f"{name}.csv"), shop / f"{name}.{ending}")
            arguments += ["--source", f"{name.upper()}={shop}/{name}.{ending}"]
        result = thalweg("replay", shop / "abc.cql", *arguments, "--out", shop / "out.parquet")
        assert result.exit_code == 0, result.output
        assert by_time(pq.read_table(shop / "out.parquet").to_pylist()) == RESULTS

    def test_come_from_directories_and_globs(self, thalweg: Invoke, shop: Path, sources: list[str]) -> None:
        (shop / "parts").mkdir()
        header, *rows = (shop / "a.csv").read_text().splitlines()
        for number, row in enumerate(rows):
            (shop / "parts" / f"{number}.csv").write_text(f"{header}\n{row}\n")
        for path in (f"{shop}/parts", f"{shop}/parts/*.csv"):
            result = thalweg("replay", shop / "abc.cql", f"--source=A={path}", *sources[2:], "--out", shop / "o.csv")
            assert result.exit_code == 0, result.output
            assert by_time(read_table(shop / "o.csv").to_pylist()) == RESULTS

    def test_do_not_depend_on_plan_states_or_batches(self, thalweg: Invoke, shop: Path, sources: list[str]) -> None:
        for options in (
            ["--plan", "(B C) A"],
            ["--plan", "A: B C; B: A C; C: A B"],
            ["--plan", "(A B) C", "--switch", "4:(B C) A", "--switch", "5:(A C) B", "--states", "all"],
            ["--states", "none", "--batch-size", "1"],
            ["--switch", "4:(B C) A", "--states", "all", "--migration", "moving_state"],
            ["--switch", "4:(B C) A", "--states", "all", "--migration", "parallel_track"],
            ["--switch", "4:(B C) A", "--states", "all", "--memory-limit", "64 KB"],
            ["--switch", "4:(B C) A", "--states", "all", "--production", "jit"],
            ["--plan", "(A B) C", "--states", "all", "--production", "auto"],
        ):
            result = thalweg("replay", shop / "abc.cql", *sources, *options, "--out", shop / "o.parquet")
            assert result.exit_code == 0, result.output
            assert by_time(pq.read_table(shop / "o.parquet").to_pylist()) == RESULTS

    def test_of_a_join_with_a_static_relation(self, thalweg: Invoke, shop: Path, sources: list[str]) -> None:
        (shop / "names.csv").write_text("k,name\n1,one\n2,two\n")
        text = "SELECT A.x, names.name FROM A, names WHERE A.k = names.k"
        result = thalweg("replay", "-", *sources, f"--static=names={shop}/names.csv", input=text)
        assert result.exit_code == 0, result.output
        rows = [line.split() for line in result.stdout.splitlines()[2:5]]
        assert rows == [["10", "one"], ["20", "two"], ["30", "one"]]
        assert "3 results from 3 tuples" in result.stdout

    def test_of_a_query_on_stdin(self, thalweg: Invoke, shop: Path, sources: list[str]) -> None:
        result = thalweg("replay", "-", *sources, input=(shop / "abc.cql").read_text())
        assert result.exit_code == 0, result.output
        assert "(2 rows)" in result.stdout

    def test_of_one_query_of_several(self, thalweg: Invoke, shop: Path, sources: list[str]) -> None:
        (shop / "two.cql").write_text(
            "CREATE QUERY ab AS SELECT A.x, B.y FROM A [RANGE 10 SECONDS], B [RANGE 10 SECONDS] WHERE A.k = B.k;\n"
            "CREATE QUERY bc AS SELECT B.y, C.z FROM B [NOW], C [NOW] WHERE B.k = C.k;\n"
        )
        result = thalweg("replay", shop / "two.cql", *sources, "--query", "ab", "--out", shop / "o.csv")
        assert result.exit_code == 0, result.output
        rows = sorted(row["y"] for row in read_table(shop / "o.csv").to_pylist())
        assert rows == [100, 300]
        assert "ab: 2 results" in result.stdout

    def test_with_a_time_column_of_another_name(self, thalweg: Invoke, shop: Path, sources: list[str]) -> None:
        for name in "abc":
            (shop / f"{name}.csv").write_text((shop / f"{name}.csv").read_text().replace("ts", f"at_{name}", 1))
        times = ["--time", "at_a", "--time", "B=at_b", "--time", "C=at_c"]
        result = thalweg("replay", shop / "abc.cql", *sources, *times)
        assert result.exit_code == 0, result.output
        assert "(2 rows)" in result.stdout


class TestSummary:
    def test_counts_everything(self, thalweg: Invoke, shop: Path, sources: list[str]) -> None:
        with (shop / "b.csv").open("a") as file:
            file.write("1,400,\n")  # no time: a bad row
        plans = ["--plan", "(A B) C", "--switch", "4:(B C) A", "--states", "all"]
        result = thalweg("replay", shop / "abc.cql", *sources, *plans)
        assert result.exit_code == 0, result.output
        rows = [line.split() for line in result.stdout.splitlines()]
        assert ["stream", "tuples", "in", "late", "bad"] in rows
        assert next(row for row in rows if row[:1] == ["B"] and len(row) == 4)[2:] == ["0", "1"]
        assert ["0", "(A", "B)", "C"] in rows
        assert ["4", "(B", "C)", "A"] in rows
        assert any(row[:1] == ["B⋈C"] for row in rows)
        assert re.search(r"query1: 2 results from \d+ tuples in [\d.]+ (ms|s), [\d,]+ tuples/s", result.stdout)

    def test_says_what_feedback_saved(self, thalweg: Invoke, shop: Path, sources: list[str]) -> None:
        plan = ["--plan", "(A B) C", "--states", "all"]
        (shop / "c.csv").write_text("k,z,ts\n7,7,2024-05-01 12:00:00\n")  # no partner for anything
        assert "feedback" not in thalweg("replay", shop / "abc.cql", *sources, *plan).stdout
        result = thalweg("replay", shop / "abc.cql", *sources, *plan, "--production", "jit")
        assert result.exit_code == 0, result.output
        rows = [line.split() for line in result.stdout.splitlines()]
        assert ["values", "suspended", "now", "1"] in rows
        assert ["suspensions", "1"] in rows
        assert ["resumptions", "0"] in rows
        assert ["probes", "not", "made,", "at", "least", "2"] in rows  # those of the later tuples

    def test_says_what_a_budget_has_left_out(self, thalweg: Invoke, shop: Path, sources: list[str]) -> None:
        result = thalweg("replay", shop / "abc.cql", *sources, "--budget", "0")
        assert result.exit_code == 0, result.output
        assert "0 results" in result.stdout
        assert "How much of the answer is missing cannot be said" in result.stdout
        rows = [line.split() for line in result.stdout.splitlines()]
        assert any(row[:2] == ["A", "1"] and row[3] == "0" and row[2] == row[4] != "0" for row in rows if len(row) == 5)
        result = thalweg("replay", shop / "abc.cql", *sources, "--budget", "100%", "--allocation", "equal_hj")
        assert "The budget has refused nothing: the answer is complete." in result.stdout
        assert "2 results" in result.stdout

    def test_counts_late_rows_and_writes_them(self, thalweg: Invoke, shop: Path, sources: list[str]) -> None:
        for name in "abc":
            with (shop / f"{name}.csv").open("a") as file:
                file.write("9,0,2024-05-01 12:01:00\n")
        with (shop / "a.csv").open("a") as file:
            file.write("1,40,2024-05-01 12:00:00\n")  # a minute behind its stream, and half of one behind the others
        late = ["--lateness", "5 seconds", "--late-out", shop / "late"]
        result = thalweg("replay", shop / "abc.cql", *sources, *late)
        assert result.exit_code == 0, result.output
        rows = [line.split() for line in result.stdout.splitlines()]
        assert next(row for row in rows if row[:1] == ["A"] and len(row) == 4)[2] == "1"
        assert [file.name for file in (shop / "late").iterdir()] == ["A.parquet"]
        assert pq.read_table(shop / "late" / "A.parquet").column("x").to_pylist() == [40]


class TestRefusals:
    def refused(self, thalweg: Invoke, *arguments: str | Path, code: int = 1) -> str:
        result = thalweg("replay", *arguments)
        assert result.exit_code == code, result.output
        assert result.stdout == ""
        return str(result.stderr)

    def test_a_query_error_shows_its_place(self, thalweg: Invoke, shop: Path, sources: list[str]) -> None:
        text = (shop / "abc.cql").read_text().replace("C.z", "C.zz")
        (shop / "abc.cql").write_text(text)
        message = self.refused(thalweg, shop / "abc.cql", *sources)
        assert message.startswith("error: ")
        assert "'zz'" in message
        lines = message.splitlines()
        column = text.index("zz") + 1
        assert lines[-4] == f" --> {shop}/abc.cql:1:{column}"
        assert lines[-2] == "1 | SELECT A.k, A.x, B.y, C.zz"
        assert lines[-1] == "  | " + " " * (column - 1) + "^"

    def test_text_that_is_no_query(self, thalweg: Invoke, shop: Path, sources: list[str]) -> None:
        (shop / "abc.cql").write_text("SELEKT everything")
        assert self.refused(thalweg, shop / "abc.cql", *sources).startswith("error: ")

    def test_an_empty_text(self, thalweg: Invoke, shop: Path, sources: list[str]) -> None:
        (shop / "abc.cql").write_text("")
        assert self.refused(thalweg, shop / "abc.cql", *sources).startswith("error: ")

    def test_a_stream_without_source(self, thalweg: Invoke, shop: Path, sources: list[str]) -> None:
        message = self.refused(thalweg, shop / "abc.cql", *sources[:4])
        assert "'C'" in message

    def test_no_query_file(self, thalweg: Invoke, shop: Path, sources: list[str]) -> None:
        message = self.refused(thalweg, shop / "no.cql", *sources)
        assert (
            message
            == f"error: there is no file {shop}/no.cql. Give a file with the query, or - to read it from stdin.\n"
        )

    def test_a_directory_as_query_file(self, thalweg: Invoke, shop: Path, sources: list[str]) -> None:
        assert self.refused(thalweg, shop, *sources) == f"error: cannot read {shop}: Is a directory\n"

    def test_a_query_file_that_is_not_text(self, thalweg: Invoke, shop: Path, sources: list[str]) -> None:
        (shop / "abc.cql").write_bytes(b"SELECT \xff")
        assert "is not a query text: byte 8 is not UTF-8" in self.refused(thalweg, shop / "abc.cql", *sources)

    def test_a_missing_source_file(self, thalweg: Invoke, shop: Path, sources: list[str]) -> None:
        (shop / "a.csv").unlink()
        assert f"there is no file {shop}/a.csv" in self.refused(thalweg, shop / "abc.cql", *sources)

    def test_a_file_that_is_not_what_its_ending_says(self, thalweg: Invoke, shop: Path, sources: list[str]) -> None:
        (shop / "a.parquet").write_text("k,ts\n")
        arguments = [f"--source=A={shop}/a.parquet", *sources[2:]]
        assert "is not a parquet file" in self.refused(thalweg, shop / "abc.cql", *arguments)

    def test_a_missing_time_column(self, thalweg: Invoke, shop: Path, sources: list[str]) -> None:
        message = self.refused(thalweg, shop / "abc.cql", *sources, "--time", "B=when")
        assert "'when'" in message

    def test_a_time_column_that_is_none(self, thalweg: Invoke, shop: Path, sources: list[str]) -> None:
        with (shop / "a.csv").open("a") as file:
            file.write("1,40,noon\n")
        message = self.refused(thalweg, shop / "abc.cql", *sources)
        assert "time column 'ts' holds 'noon' in row 4" in message

    def test_a_plan_that_does_not_fit(self, thalweg: Invoke, shop: Path, sources: list[str]) -> None:
        message = self.refused(thalweg, shop / "abc.cql", *sources, "--plan", "(A B) D")
        assert message.startswith("error: plan '(A B) D': 'D' is not a stream of the query")

    def test_a_switch_past_the_end(self, thalweg: Invoke, shop: Path, sources: list[str]) -> None:
        message = self.refused(thalweg, shop / "abc.cql", *sources, "--switch", "1000:(B C) A")
        assert message.startswith("error: ")
        assert "1000" in message.replace(",", "")

    def test_a_lateness_that_is_none(self, thalweg: Invoke, shop: Path, sources: list[str]) -> None:
        message = self.refused(thalweg, shop / "abc.cql", *sources, "--lateness", "soon")
        assert message.startswith("error: ")
        assert "soon" in message

    def test_an_unknown_query_name(self, thalweg: Invoke, shop: Path, sources: list[str]) -> None:
        message = self.refused(thalweg, shop / "abc.cql", *sources, "--query", "nope")
        assert message.startswith("error: ")
        assert "'nope'" in message
        assert "query1" in message

    def test_an_unknown_ending_is_refused_before_any_work(self, thalweg: Invoke, shop: Path) -> None:
        message = self.refused(thalweg, shop / "abc.cql", "--source", "A=no.csv", "--out", shop / "o.xml")
        assert message.startswith(f"error: {shop}/o.xml has unknown ending '.xml'")

    def test_a_place_that_cannot_be_written_is_refused_before_any_work(self, thalweg: Invoke, shop: Path) -> None:
        message = self.refused(thalweg, shop / "abc.cql", "--source", "A=no.csv", "--out", shop / "a.csv" / "o.csv")
        assert message == f"error: cannot write {shop}/a.csv/o.csv: {shop}/a.csv is a file\n"

    def test_debug_shows_the_error_itself(self, thalweg: Invoke, shop: Path, sources: list[str]) -> None:
        result = thalweg("replay", shop / "no.cql", *sources, "--debug")
        assert type(result.exception).__name__ == "InputError"

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ([], "name the streams, as in --source trades=trades.parquet"),
            (["--source", "a.csv"], "'a.csv' is not of the form trades=trades.parquet"),
            (["--source", "A=x.csv", "--source", "A=y.csv"], "'A' is given twice"),
            (["--source", "A=x.csv", "--time", "B=ts"], "'B' is no source"),
            (["--source", "A=x.csv", "--switch", "(B C) A"], "is not of the form"),
            (["--source", "A=x.csv", "--late-out", "late"], "without --lateness no row is late"),
            (["--batch-size", "0"], "Invalid value for '--batch-size'"),
            (["--states", "some"], "'some' is not one of"),
            (["--production", "pull"], "'pull' is not one of"),
            (["--colour"], "No such option"),
        ],
    )
    def test_wrong_usage_exits_with_2(self, thalweg: Invoke, shop: Path, arguments: list[str], message: str) -> None:
        error = self.refused(thalweg, shop / "abc.cql", *arguments, code=2)
        assert message in " ".join(error.replace("│", " ").split())


def test_an_empty_stream_has_no_results(thalweg: Invoke, shop: Path, sources: list[str]) -> None:
    empty = pa.table(
        {"k": pa.array([], pa.int64()), "x": pa.array([], pa.int64()), "ts": pa.array([], pa.timestamp("us"))}
    )
    write_table(empty, shop / "empty.parquet")
    result = thalweg("replay", shop / "abc.cql", f"--source=A={shop}/empty.parquet", *sources[2:])
    assert result.exit_code == 0, result.output
    assert "(0 rows)" in result.stdout


class TestIntegerTimes:
    @pytest.fixture
    def counted(self, shop: Path) -> list[str]:
        """The same streams with times in seconds since 1970."""
        arguments = []
        for name in "abc":
            table = read_table(shop / f"{name}.csv", time="ts")
            seconds = table["ts"].cast(pa.timestamp("s")).cast(pa.int64())
            write_table(table.set_column(2, "ts", seconds), shop / f"{name}.jsonl")
            arguments += ["--source", f"{name.upper()}={shop}/{name}.jsonl"]
        return arguments

    @pytest.mark.parametrize("units", [["s"], ["A=s", "B=s", "C=s"], ["ms", "A=s", "B=s", "C=s"]])
    def test_the_unit_is_said(self, thalweg: Invoke, shop: Path, counted: list[str], units: list[str]) -> None:
        said = [f"--time-unit={unit}" for unit in units]
        result = thalweg("replay", shop / "abc.cql", *counted, *said, "--out", shop / "out.csv")
        assert result.exit_code == 0, result.output
        assert result.stderr == ""
        assert by_time(read_table(shop / "out.csv").to_pylist()) == RESULTS
        explained = thalweg("explain", shop / "abc.cql", *counted, *said)
        assert (explained.exit_code, explained.stderr) == (0, ""), explained.output

    def test_times_that_look_like_another_unit_are_told(self, thalweg: Invoke, shop: Path, counted: list[str]) -> None:
        result = thalweg("replay", shop / "abc.cql", *counted)
        assert result.exit_code == 0, result.output
        told = result.stderr.splitlines()
        assert len(told) == 3
        assert told[0] == (
            "warning: the event times 'ts' of stream 'A' are read as microseconds since 1970: 1714564800 to "
            "1714564830. They look like seconds: say time_unit='s'. If they are microseconds, say time_unit='us'."
        )

    def test_units_that_there_are_not(self, thalweg: Invoke, shop: Path, counted: list[str]) -> None:
        result = thalweg("replay", shop / "abc.cql", *counted, "--time-unit", "hours")
        assert result.exit_code == 2
        said = " ".join(result.stderr.replace("│", " ").split())
        assert "time_unit is one of s, ms, us, ns, not 'hours'" in said
