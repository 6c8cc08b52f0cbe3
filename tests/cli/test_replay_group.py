"""``thalweg replay`` of a file with several queries: what is shared, who comes and goes, where results go."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.cli.conftest import Invoke
from thalweg.files import read_table

TEXT = """
CREATE QUERY short AS SELECT A.x, B.y FROM A, B WHERE A.k = B.k WINDOW RANGE 1 SECOND;
CREATE QUERY bc AS SELECT B.y, C.z FROM B, C WHERE B.k = C.k WINDOW RANGE 10 SECONDS;
CREATE QUERY `long one` AS SELECT A.x, B.y FROM A, B WHERE A.k = B.k AND A.x > 10 WINDOW RANGE 1 MINUTE;
"""
ANSWERS = {
    "short": [],  # partners come two seconds later, or one second: not less than one
    "bc": [{"y": 100, "z": 7}, {"y": 300, "z": 9}],
    "long one": [{"x": 30, "y": 100}, {"x": 30, "y": 300}],
}


@pytest.fixture
def file(shop: Path) -> Path:
    (shop / "several.cql").write_text(TEXT)
    return shop / "several.cql"


def rows_of(output: str) -> list[list[str]]:
    return [line.split() for line in output.splitlines()]


def said(text: str) -> str:
    """What stands in a box, on one line."""
    return " ".join(text.replace("│", " ").split())


class TestResults:
    def test_a_directory_gets_a_file_of_each(self, thalweg: Invoke, shop: Path, file: Path, sources: list[str]) -> None:
        result = thalweg("replay", file, *sources, "--out", shop / "out")
        assert result.exit_code == 0, result.output
        written = {path.name: pq.read_table(path).to_pylist() for path in (shop / "out").iterdir()}
        assert written == {f"{name.replace(' ', '%20')}.parquet": rows for name, rows in ANSWERS.items()}
        assert f"2 results of long one in {shop}/out/long%20one.parquet\n" in result.stdout

    @pytest.mark.parametrize("sharing", ["auto", "memory", "cpu", "none", "pull_up", "push_down"])
    def test_are_the_same_however_a_join_is_shared(
        self, thalweg: Invoke, shop: Path, file: Path, sources: list[str], sharing: str
    ) -> None:
        out = shop / "all" / "{query}.jsonl"
        result = thalweg("replay", file, *sources, "--sharing", sharing, "--out", out)
        assert result.exit_code == 0, result.output
        for name, rows in ANSWERS.items():
            written = shop / "all" / f"{name.replace(' ', '%20')}.jsonl"
            assert (read_table(written).to_pylist() if written.stat().st_size else []) == rows
        assert ("2 queries over one join" in result.stdout) == (sharing != "none")

    def test_are_shown_in_the_order_of_the_text(self, thalweg: Invoke, file: Path, sources: list[str]) -> None:
        result = thalweg("replay", file, *sources)
        assert result.exit_code == 0, result.output
        lines = result.stdout.splitlines()
        titles = [number for number, line in enumerate(lines) if line in ANSWERS]
        assert [lines[number] for number in titles] == list(ANSWERS)
        counts = [line for line in lines if line.startswith("(")]
        assert counts == ["(0 rows)", "(2 rows)", "(2 rows)"]

    def test_of_one_of_them_alone(self, thalweg: Invoke, shop: Path, file: Path, sources: list[str]) -> None:
        result = thalweg("replay", file, *sources, "--query", "BC", "--out", shop / "bc-{query}.csv")
        assert result.exit_code == 0, result.output
        assert read_table(shop / "bc-bc.csv").to_pylist() == ANSWERS["bc"]
        assert result.stdout.splitlines()[2].startswith("bc: 2 results from 6 tuples")
        assert "short" not in result.stdout


class TestComingAndGoing:
    """The tuples of A and B in total order have x or y 10, 20, 100, 200, 30, 300."""

    def written(self, thalweg: Invoke, shop: Path, file: Path, *arguments: str) -> tuple[list[dict[str, int]], str]:
        result = thalweg("replay", file, *arguments, "--out", shop / "{query}.csv")
        assert result.exit_code == 0, result.output
        return read_table(shop / "long%20one.csv").to_pylist(), result.stdout

    @pytest.mark.parametrize(
        ("position", "rows"), [(3, [{"x": 30, "y": 100}, {"x": 30, "y": 300}]), (4, [{"x": 30, "y": 300}])]
    )
    def test_who_enters_sees_what_is_of_use_to_others(
        self, thalweg: Invoke, shop: Path, file: Path, sources: list[str], position: int, rows: list[dict[str, int]]
    ) -> None:
        """After 3 tuples the newest is B's 100 itself. After 4 it is a second old, and over for ``short``."""
        found, output = self.written(thalweg, shop, file, *sources, "--enter", f"{position}:long one")
        assert found == rows
        assert ["long", "one", str(len(rows)), "from", "tuple", str(position)] in rows_of(output)
        assert ["short", "0", "always"] in rows_of(output)

    def test_what_happens_at_one_position_happens_at_once(
        self, thalweg: Invoke, shop: Path, file: Path, sources: list[str]
    ) -> None:
        """Else there would be nobody for whom B's 100 is kept."""
        rows, _ = self.written(thalweg, shop, file, *sources, "--leave", "3:short", "--enter", "3:long one")
        assert rows == ANSWERS["long one"]

    def test_who_leaves_gets_no_more(self, thalweg: Invoke, shop: Path, file: Path, sources: list[str]) -> None:
        rows, output = self.written(thalweg, shop, file, *sources, "--leave", "5:LONG one")
        assert rows == [{"x": 30, "y": 100}]
        assert ["long", "one", "1", "up", "to", "tuple", "5"] in rows_of(output)

    def test_the_slices_are_those_of_who_is_there(self, thalweg: Invoke, file: Path, sources: list[str]) -> None:
        slices = "1 second | 1 minute"
        options = ["--sharing", "memory"]
        both = thalweg("replay", file, *sources, *options)
        alone = thalweg("replay", file, *sources, *options, "--leave", "5:short")
        assert (slices in both.stdout, slices in alone.stdout) == (True, False), both.stdout


class TestSummary:
    def test_tells_the_joins_from_the_queries(self, thalweg: Invoke, file: Path, sources: list[str]) -> None:
        with (file.parent / "b.csv").open("a") as rows:
            rows.write("1,400,\n")  # no time: a bad row
        output = thalweg("replay", file, *sources).stdout
        assert "short, long one: 2 queries over one join, 2 results from 6 tuples in " in output
        assert "\nbc: 2 results from 6 tuples in " in output
        told = [row for row in rows_of(output) if row[:1] == ["B"] and row[-1].isdigit()]
        assert told == [["B", "3", "0", "1"]] * 2  # once per join, not once per query

    def test_late_rows_are_written_once_per_join(
        self, thalweg: Invoke, shop: Path, file: Path, sources: list[str]
    ) -> None:
        for name in "abc":
            with (shop / f"{name}.csv").open("a") as rows:
                rows.write("9,0,2024-05-01 12:01:00\n")
        with (shop / "b.csv").open("a") as rows:
            rows.write("1,500,2024-05-01 12:00:00\n")
        late = ["--lateness", "5 seconds", "--late-out", shop / "late"]
        result = thalweg("replay", file, *sources, *late)
        assert result.exit_code == 0, result.output
        written = sorted(str(path.relative_to(shop / "late")) for path in (shop / "late").rglob("*.parquet"))
        assert written == ["bc/B.parquet", "short/B.parquet"]
        assert pq.read_table(shop / "late" / "short" / "B.parquet").column("y").to_pylist() == [500]
        one = thalweg("replay", file, *sources, "--query", "bc", "--lateness", "5 seconds", "--late-out", shop / "one")
        assert one.exit_code == 0, one.output
        assert [path.name for path in (shop / "one").iterdir()] == ["B.parquet"]


class TestRefusals:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (
                ["--out", "all.csv"],
                "error: all.csv is one file, and there are 3 queries (short, bc, long one). For a file of each, write "
                "--out 'all-{query}.csv' or --out all. Or pick one with --query.\n",
            ),
            (["--out", "all.xml"], "error: all.xml has unknown ending '.xml'"),
            (["--out", "{query}"], "error: short has no ending"),
            (["--query", "none", "--out", "all"], "error: the text has no query 'none'. Its queries are short, bc, "),
            (
                ["--enter", "1:other"],
                "error: entries name the query 'other', and the text has none. It has short, long one, bc.\n",
            ),
            (
                ["--leave", "7:bc"],
                "error: query 'bc' is to leave at position 7. Positions count the 6 tuples of its streams from 0.\n",
            ),
            (
                ["--leave", "2:bc", "--leave", "3:bc"],
                "error: query 'bc' is to leave twice in a row.\n",
            ),
            (["--switch", "1:B A"], "error: the queries of the text have 2 joins (short and 1 more, bc), and a plan "),
        ],
    )
    def test_errors_say_what_to_do(
        self, thalweg: Invoke, file: Path, sources: list[str], arguments: list[str], message: str
    ) -> None:
        result = thalweg("replay", file, *sources, *arguments)
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr.startswith(message)

    def test_one_file_for_several_is_refused_before_any_work(self, thalweg: Invoke, file: Path) -> None:
        result = thalweg("replay", file, "--source", "A=no.csv", "--out", "all.csv")
        assert result.stderr.startswith("error: all.csv is one file")

    @pytest.mark.parametrize("option", ["--enter", "--leave"])
    def test_positions_come_first(self, thalweg: Invoke, file: Path, sources: list[str], option: str) -> None:
        result = thalweg("replay", file, *sources, option, "bc@5")
        assert (result.exit_code, result.stdout) == (2, "")
        assert "'bc@5' is not of the form 100000:NAME: a number of tuples, a colon, the name" in said(result.stderr)
