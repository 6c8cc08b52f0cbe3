"""``thalweg bench``: the list, a run, its JSON. The experiments themselves are tested with their own."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.cli.conftest import Invoke
from thalweg.errors import InputError
from thalweg.experiments import EXPERIMENTS, Document, Experiment, Keep, Report, Scale


def measured(scale: Scale, report: Report, keep: Keep) -> Document:
    report("counting sheep")
    return {
        "bench": "sheep",
        "scale": scale,
        "machine": {"cores": 2},
        "rows": [{"part": "sheep", "kind": "black", "per second": 12.5}],
        "claims": [{"claim": "sheep are fast", "measured": 12.5, "bar": ">= 100", "holds": False}],
    }


def drawn(document: Document, directory: Path) -> list[Path]:
    (directory / "sheep.png").write_text(document["bench"])
    return [directory / "sheep.png"]


def failing(scale: Scale, report: Report, keep: Keep) -> Document:
    raise InputError("no sheep")


def shorn(scale: Scale, report: Report, keep: Keep, data: Path) -> Document:
    document = measured(scale, report, keep)
    return {**document, "rows": [{"part": "sheep", "kind": data.name}]}


def interrupted(scale: Scale, report: Report, keep: Keep) -> Document:
    keep(measured(scale, report, keep))
    raise InputError("the second sheep ran away")


@pytest.fixture(autouse=True)
def sheep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(EXPERIMENTS, "sheep", Experiment("sheep", "how fast sheep are", measured, drawn, shorn))
    monkeypatch.setitem(EXPERIMENTS, "wolf", Experiment("wolf", "where the sheep went", failing))


def test_alone_it_lists_the_experiments(thalweg: Invoke) -> None:
    result = thalweg("bench")
    assert result.exit_code == 0, result.output
    assert {line.split()[0] for line in result.stdout.splitlines()[2:]} == set(EXPERIMENTS)
    assert "how fast sheep are" in result.stdout


def test_a_run_shows_rows_and_claims_and_writes_json(thalweg: Invoke, tmp_path: Path) -> None:
    file = tmp_path / "new" / "sheep.json"
    result = thalweg("bench", "sheep", "--scale", "paper", "--json", file)
    assert result.exit_code == 0, result.output
    assert result.stderr == "counting sheep\n"
    assert "sheep (paper)" in result.stdout
    assert re.search(r"^ *black +12.5$", result.stdout, re.MULTILINE)
    assert re.search(r"^ *sheep are fast +12.5 +>= 100 +no$", result.stdout, re.MULTILINE)
    assert json.loads(file.read_text()) == measured("paper", lambda _: None, lambda _: None)
    assert [path.name for path in file.parent.iterdir()] == ["sheep.json"]


def test_quick_is_the_default(thalweg: Invoke) -> None:
    assert "sheep (quick)" in thalweg("bench", "sheep").stdout


def test_an_experiment_that_fails(thalweg: Invoke) -> None:
    result = thalweg("bench", "wolf")
    assert (result.exit_code, result.stdout, result.stderr) == (1, "", "error: no sheep\n")


def test_what_was_measured_before_a_failure_is_kept(
    thalweg: Invoke, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(EXPERIMENTS, "lamb", Experiment("lamb", "how fast lambs are", interrupted))
    result = thalweg("bench", "lamb", "--json", tmp_path / "lamb.json")
    assert result.exit_code == 1
    assert json.loads((tmp_path / "lamb.json").read_text())["rows"] != []


def test_a_file_that_cannot_be_written(thalweg: Invoke, tmp_path: Path) -> None:
    result = thalweg("bench", "sheep", "--json", tmp_path)
    assert result.exit_code == 1
    assert f"error: cannot write {tmp_path}: it is a directory" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_figures_are_drawn_where_they_are_wanted(thalweg: Invoke, tmp_path: Path) -> None:
    result = thalweg("bench", "sheep", "--plots", tmp_path / "new")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "new" / "sheep.png").read_text() == "sheep"


def test_data_of_the_user(thalweg: Invoke, tmp_path: Path) -> None:
    result = thalweg("bench", "sheep", "--data", tmp_path / "wool.parquet", "--json", tmp_path / "sheep.json")
    assert result.exit_code == 0, result.output
    assert json.loads((tmp_path / "sheep.json").read_text())["rows"] == [{"part": "sheep", "kind": "wool.parquet"}]


def test_a_place_where_figures_cannot_be(thalweg: Invoke, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = thalweg("bench", "sheep", "--plots", tmp_path / "file")
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"cannot draw figures into {tmp_path / 'file'}" in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["shep"], "there is no experiment 'shep'. Did you mean sheep?"),
        (["xxxxxxx"], "there is no experiment 'xxxxxxx'. They are: engine"),
        (["sheep", "--scale", "huge"], "'huge' is not one of"),
        (
            ["wolf", "--plots", "here"],
            "experiment 'wolf' draws no figures. Those that do: jisc, jit, slices, jaqpot, sheep.",
        ),
        (["wolf", "--data", "here"], "experiment 'wolf' takes no data. Those that do: jaqpot, sheep."),
    ],
)
def test_wrong_usage_exits_with_2(thalweg: Invoke, arguments: list[str], message: str) -> None:
    result = thalweg("bench", *arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.replace("│", " ").split())
