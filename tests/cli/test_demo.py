"""``thalweg demo``: what it promises to show, and its exit code when the promise breaks."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from tests.cli.conftest import Invoke
from thalweg.cli import demo_data as shop
from thalweg.cli import demo_replay, demo_spark
from thalweg.cli.app import app

RUNS = ("first plan", "second plan", "live change")


@pytest.fixture(scope="module")
def streams() -> dict[str, pa.Table]:
    return shop.streams(20)


@pytest.fixture(scope="module")
def shown() -> str:
    """What the demo in process prints."""
    result = CliRunner().invoke(app, ["demo", "--in-process", "--seconds", "20"])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_answer_is_the_same_in_every_run(shown: str) -> None:
    answers = re.findall(rf"^({'|'.join(RUNS)}) +([\d,]+) +([0-9a-f]{{16}})$", shown, re.MULTILINE)
    assert [run for run, _, _ in answers] == list(RUNS)
    assert len({(rows, checksum) for _, rows, checksum in answers}) == 1
    assert answers[0][1] != "0"
    assert "The same rows every time" in shown


def test_it_shows_query_plan_rates_and_states(shown: str) -> None:
    assert "FROM   ads     a [RANGE 5 SECONDS]" in shown
    assert "plan  ((a c) o) k" in shown
    assert re.search(
        r"^live change +\(\(a c\) o\) k, at noon \(\(c o\) a\) k +[\d.]+ m?s +[\d,]+ +[\d,]+$", shown, re.M
    )
    assert re.search(r"^a⋈c +[\d,]+ tuples +- +-$", shown, re.M)
    assert re.search(r"^c⋈o +- +[\d,]+ tuples, [\d,]+ keys? live +[\d,]+ tuples", shown, re.M)


def test_an_answer_that_differs_is_an_error(thalweg: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = demo_replay.replayed

    def forgetful(streams: dict[str, pa.Table], plan: str, *changes: tuple[int, str]) -> object:
        if plan == shop.AFTER_NOON:
            streams = {**streams, "ads": streams["ads"].slice(0, streams["ads"].num_rows // 2)}
        return honest(streams, plan, *changes)

    monkeypatch.setattr(demo_replay, "replayed", forgetful)
    result = thalweg("demo", "--in-process", "--seconds", "20")
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


def test_slices_make_up_the_streams(streams: dict[str, pa.Table]) -> None:
    slices = shop.slices(streams, 20, 4)
    assert len(slices) == 4
    for name, table in streams.items():
        assert pa.concat_tables([part[name] for part in slices]).equals(table)
    early = {name: pa.concat_tables([part[name] for part in slices[:2]]) for name in streams}
    assert early == shop.until(streams, shop.NOON_US)


def test_on_spark_the_plan_changes_and_the_answer_does_not(
    thalweg: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo_spark, "_SLICES", 4)
    result = thalweg("demo", "--seconds", "20", "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    plans = re.findall(r"^(morning|new plan|afternoon) .*   (\(.*)$", result.stdout, re.M)
    before, after = shop.BEFORE_NOON, shop.AFTER_NOON
    assert plans == [*2 * [("morning", before)], ("new plan", after), *2 * [("afternoon", after)]]
    assert re.search(r"^The same [1-9][\d,]* rows: ", result.stdout, re.M)


def test_files_of_others_are_not_overwritten(thalweg: Invoke, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").touch()
    result = thalweg("demo", "--out", tmp_path)
    assert result.exit_code == 1
    assert "Choose another place" in result.stderr
    assert (tmp_path / "thesis.txt").exists()


def test_in_process_nothing_is_written(thalweg: Invoke, tmp_path: Path) -> None:
    assert thalweg("demo", "--in-process", "--out", tmp_path).exit_code == 2
