"""``thalweg demo``: what it promises to show, and its exit code when the promise breaks."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from tests.cli.conftest import Invoke
from thalweg.cli import demo_data as shop
from thalweg.cli import demo_picture, demo_replay, demo_spark
from thalweg.cli.app import app

ROOT = Path(__file__).parents[2]
RUNS = ("first plan", "second plan", "live change")


@pytest.fixture(scope="module")
def streams() -> dict[str, pa.Table]:
    return shop.streams(20)


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo") / "out"


@pytest.fixture(scope="module")
def shown(out: Path) -> str:
    """What the demo in process prints."""
    result = CliRunner().invoke(app, ["demo", "--in-process", "--out", str(out)])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_answer_is_the_same_in_every_run(shown: str) -> None:
    answers = re.findall(rf"^({'|'.join(RUNS)}) +([\d,]+) +([0-9a-f]{{16}})$", shown, re.MULTILINE)
    assert [run for run, _, _ in answers] == list(RUNS)
    assert len({(rows, checksum) for _, rows, checksum in answers}) == 1
    assert answers[0][1] != "0"
    assert "The same rows every time" in shown


def test_it_shows_query_plan_rates_and_states(shown: str) -> None:
    assert "FROM   ads     a [RANGE 20 SECONDS]" in shown
    assert "plan  ((a c) o) k" in shown
    assert re.search(
        r"^live change +\(\(a c\) o\) k, at noon \(\(c o\) a\) k +[\d.]+ m?s +[\d,]+ +[\d,]+$", shown, re.M
    )
    assert re.search(r"^a⋈c +[\d,]+ tuples +- +-$", shown, re.M)
    assert re.search(r"^c⋈o +- +[\d,]+ tuples, [\d,]+ keys? live +[\d,]+ tuples", shown, re.M)


def test_it_completes_the_keys_that_are_asked_for_and_no_others(shown: str) -> None:
    ((lacked, completed),) = re.findall(r"it lacked ([\d,]+) keys.*?happened ([\d,]+) times", shown, re.DOTALL)
    assert 1_000 < number(completed) < number(lacked) / 5


def test_the_change_stores_less_than_either_plan(shown: str) -> None:
    stored = dict(re.findall(rf"^({'|'.join(RUNS)}) .*s +[\d,]+ +([\d,]+)$", shown, re.MULTILINE))
    first, second, live = (number(stored[run]) for run in RUNS)
    assert live < min(first, second) / 2


def test_it_ends_with_the_picture_of_the_readme(shown: str, out: Path) -> None:
    """``thalweg demo --in-process --out docs/pictures`` draws it anew."""
    assert shown.rstrip().endswith(f"A picture of the three runs: {out / demo_picture.NAME}")
    drawn = (out / demo_picture.NAME).read_text()
    lines = ElementTree.fromstring(drawn).findall("{http://www.w3.org/2000/svg}polyline")  # noqa: S314 - our own
    assert len(lines) == 4
    assert drawn == (ROOT / "docs" / "pictures" / demo_picture.NAME).read_text()


def test_the_readme_has_its_numbers(shown: str) -> None:
    readme = (ROOT / "README.md").read_text()
    ((lacked, completed),) = re.findall(r"it lacked ([\d,]+) keys.*?happened ([\d,]+) times", shown, re.DOTALL)
    rows = re.findall(r"^live change +([\d,]+) +[0-9a-f]{16}$", shown, re.MULTILINE)
    assert [each for each in (lacked, completed, *rows) if f" {each} " not in readme.replace("\n", " ")] == []


def number(text: str) -> int:
    return int(text.replace(",", ""))


def test_an_answer_that_differs_is_an_error(thalweg: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = demo_replay.replayed

    def forgetful(streams: dict[str, pa.Table], plan: str, *changes: tuple[int, str]) -> object:
        if plan == shop.AFTER_NOON:
            streams = {**streams, "ads": streams["ads"].slice(0, streams["ads"].num_rows // 2)}
        return honest(streams, plan, *changes)

    monkeypatch.setattr(demo_replay, "replayed", forgetful)
    result = thalweg("demo", "--in-process", "--seconds", "20", "--out", tmp_path)
    assert result.exit_code == 1
    assert "The answers differ." in result.stdout


def test_selectivities_swap_at_noon(streams: dict[str, pa.Table]) -> None:
    """The larger of the two joins of the morning is the smaller one of the afternoon, by far."""
    for half, larger, smaller in ((morning, "orders", "ads"), (afternoon, "ads", "orders")):
        users = {name: set(table.filter(half(table)).column("user").to_pylist()) for name, table in streams.items()}
        assert len(users["clicks"] & users[larger]) > 10 * len(users["clicks"] & users[smaller])


def morning(table: pa.Table) -> pa.Array:
    return pa.array([time < shop.NOON_US for time in table.column("ts").cast(pa.int64()).to_pylist()])


def afternoon(table: pa.Table) -> pa.Array:
    return pa.array([time >= shop.NOON_US for time in table.column("ts").cast(pa.int64()).to_pylist()])


def test_positions_and_prefixes_agree(streams: dict[str, pa.Table]) -> None:
    early = shop.until(streams, shop.NOON_US)
    assert sum(table.num_rows for table in early.values()) == shop.position(streams, shop.NOON_US)
    assert all(sum(morning(table).to_pylist()) == early[name].num_rows for name, table in streams.items())


def test_cuts_make_up_the_streams(streams: dict[str, pa.Table]) -> None:
    cuts = shop.cut(streams, 20, 4)
    assert len(cuts) == 4
    for name, table in streams.items():
        assert pa.concat_tables([part[name] for part in cuts]).equals(table)
    early = {name: pa.concat_tables([part[name] for part in cuts[:2]]) for name in streams}
    assert early == shop.until(streams, shop.NOON_US)


def test_on_spark_the_plan_changes_and_the_answer_does_not(
    thalweg: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo_spark, "_CUTS", 4)
    result = thalweg("demo", "--seconds", "20", "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    plans = re.findall(r"^(morning|new plan|afternoon) .*   (\(.*)$", result.stdout, re.M)
    before, after = shop.BEFORE_NOON, shop.AFTER_NOON
    assert plans == [*2 * [("morning", before)], ("new plan", after), *2 * [("afternoon", after)]]
    completed = re.findall(r"^(?:morning|new plan|afternoon) +[\d,]+ +[\d,]+ +[\d,]+ +([\d,]+) ", result.stdout, re.M)
    assert [number(each) > 0 for each in completed[:4]] == [False, False, False, True]
    assert re.search(r"^The same [1-9][\d,]* rows: ", result.stdout, re.M)
    assert {entry.name for entry in (tmp_path / "out").iterdir()} == {"results", demo_picture.NAME}
    assert result.stdout.rstrip().endswith(f"A picture of the run: {tmp_path / 'out' / demo_picture.NAME}")


@pytest.mark.parametrize("name", ["thesis.txt", "results/thesis.txt"])
def test_files_of_others_are_not_overwritten(thalweg: Invoke, tmp_path: Path, name: str) -> None:
    (tmp_path / "results").mkdir()
    (tmp_path / name).touch()
    result = thalweg("demo", "--out", tmp_path)
    assert result.exit_code == 1
    assert "Choose another place" in result.stderr
    assert (tmp_path / name).exists()
