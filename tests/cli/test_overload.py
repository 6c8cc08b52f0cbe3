"""What the command line takes and says about budgets on Spark, without a Spark."""

from __future__ import annotations

import io
import json
from collections import Counter
from pathlib import Path
from typing import Any

from rich.console import Console
from typer.testing import CliRunner

from thalweg.cli.app import app
from thalweg.cli.live import print_live, read_live, write_live
from thalweg.cli.progress import BatchReport, Totals
from thalweg.cli.watch import picture

PART: dict[str, Any] = {
    "budget": "auto",
    "needed": 1000.0,
    "granted": 400.0,
    "wanted": 1000,
    "allowed": 400,
    "refused": 600,
    "hopeless": 0,
    "found": 70,
    "full": 100.0,
    "variance": 4.0,
    "share": 0.7,
    "error": 0.014,
    "streams": {"a": {"wanted": 900, "allowed": 300, "refused": 600, "share": 0.6, "error": 0.02}},
    "target": 5.0,
    "prices": {"fixed": 0.5, "row": 1e-6, "tuple": 1e-6, "probe": 1e-6},
    "reason": "a trigger is short",
}
WHOLE = {
    **PART,
    "allowed": 1000,
    "refused": 0,
    "found": 100,
    "share": 1.0,
    "variance": 0.0,
    "error": 0.0,
    "reason": "nothing is refused",
}
FRESH = {"q": {"a": {"asked": 30.0, "results": 5, "stale": 1, "p50": 2.0, "p99": 20.0, "max": 31.0}}}


def report(number: int, spending: dict[str, Any]) -> BatchReport:
    return BatchReport(
        number, 10, 5, Counter(), Counter(), None, ("a b",), 1, 0, 1, 0, 0, 1.0, spending=spending, freshness=FRESH
    )


def totals() -> Totals:
    together = Totals()
    for number, spending in enumerate([WHOLE, PART, PART, WHOLE]):
        together.add(report(number, spending))
    return together


def shown(*drawn: Any) -> str:
    console = Console(file=io.StringIO(), width=160)
    for each in drawn:
        console.print(each)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_what_began_to_be_refused_is_said_once() -> None:
    assert totals().overload == [
        "batch 1: 70.0% ± 1.4% of the answer from now on: a trigger is short",
        "batch 3: the full answer again",
    ]


def test_the_table_says_what_is_missing_and_how_fresh_the_rest_is() -> None:
    together = totals()
    together.add(report(4, PART))
    text = shown(picture("q", together))
    for line in (
        "70.0% ± 1.4%",
        "600 of 1,000",
        "a 67%",
        "a 60.0% ± 2.0%",
        "400 probes (auto)",
        "2.00 s, 99% within 20.00 s, at most 31.00 s; asked: 30.00 s; stale: 1",
    ):
        assert line in text, line
    # 3 * 70 + 2 * 100 of 500
    assert "82.0% ± 0.6%" in text


def test_explain_live_shows_the_same(tmp_path: Path) -> None:
    together = totals()
    together.last = report(3, PART)
    write_live(tmp_path, "q", together)
    console = Console(file=io.StringIO(), width=160)
    print_live(console, read_live(tmp_path))
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert "batch 3: the full answer again" in text
    assert "a trigger is short" in text
    assert "500 ms" in text  # that every trigger takes


def test_a_budget_is_sent_to_a_run(tmp_path: Path) -> None:
    (tmp_path / "control").mkdir()
    sent = CliRunner().invoke(app, ["control", str(tmp_path), "budget", "60%"])
    assert sent.exit_code == 0, sent.output
    (file,) = (tmp_path / "control").glob("*.json")
    assert json.loads(file.read_text()) == {"command": "budget", "budget": "60%"}


def test_a_budget_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "control").mkdir()
    wrong = CliRunner().invoke(app, ["control", str(tmp_path), "budget", "much"])
    assert wrong.exit_code == 1
    missing = CliRunner().invoke(app, ["control", str(tmp_path), "budget"])
    assert missing.exit_code == 2
    assert "there must be a budget" in missing.output
    assert not list((tmp_path / "control").glob("*.json"))
