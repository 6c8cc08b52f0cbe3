"""The registry, the document and how it is shown; timing and child processes."""

from __future__ import annotations

import importlib
import io
import json
import os
import subprocess
import sys

import pytest
from rich.console import Console

from thalweg.errors import ThalwegError
from thalweg.experiments import EXPERIMENTS, child, machine
from thalweg.experiments.experiment import Document, Part, at_least, at_most, below, go_through
from thalweg.experiments.report import render
from thalweg.experiments.timing import Contender, Timing, one_core, take_turns


def test_every_experiment_has_a_module_that_runs_it() -> None:
    for name, experiment in EXPERIMENTS.items():
        assert experiment.name == name
        assert experiment.summary
        assert callable(importlib.import_module(f"thalweg.experiments.{name}").run)


def test_the_registry_runs_the_module_of_that_name(monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module("thalweg.experiments.engine")
    monkeypatch.setattr(module, "run", lambda scale, report: (scale, report("now")))
    told: list[str] = []
    assert EXPERIMENTS["engine"].run("quick", told.append, lambda _: None) == ("quick", None)
    assert told == ["now"]


def test_listing_experiments_loads_none() -> None:
    code = "import sys, thalweg.experiments; print([m for m in ('numba', 'duckdb', 'pyarrow') if m in sys.modules])"
    command = [sys.executable, "-c", code]
    listing = subprocess.run(command, capture_output=True, text=True, check=True)
    assert listing.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("make", "measured", "bar", "holds"),
    [
        (at_least, 3.0, ">= 3", True),
        (at_least, 2.9999, ">= 3", False),
        (at_most, 3.0, "<= 3", True),
        (at_most, 3.0001, "<= 3", False),
        (below, 2.9999, "< 3", True),
        (below, 3.0, "< 3", False),
    ],
)
def test_claims_compare_what_was_measured_with_their_bar(make, measured, bar, holds) -> None:
    claim = make("so it is", measured, 3)
    assert claim == {"claim": "so it is", "measured": pytest.approx(measured, rel=1e-3), "bar": bar, "holds": holds}


def test_a_claim_is_judged_before_it_is_rounded() -> None:
    assert not at_least("close", 2.99999, 3)["holds"]
    assert at_least("close", 2.99999, 3)["measured"] == 3.0


def test_the_machine_is_described_without_naming_it() -> None:
    described = machine.describe()
    assert {"cores", "cpu", "memory_gib", "python", "numba", "duckdb"} <= described.keys()
    assert machine.peak_memory() > 2**20
    text = json.dumps(described)
    assert os.uname().nodename not in text
    assert os.getcwd() not in text  # noqa: PTH109 - as text


def test_a_document_is_shown_as_a_table_per_part_and_the_claims() -> None:
    document = Document(
        bench="engine",
        scale="quick",
        machine={"cores": 2, "cpu": "Z80"},
        rows=[
            {"part": "speed", "contender": "one", "tuples_per_s": 1_234_567, "cores": 0.98765},
            {"part": "speed", "contender": "two", "tuples_per_s": 7, "note": "slow"},
            {"part": "memory", "bytes": 4096},
        ],
        claims=[at_least("one is fast", 2.0, 1.0), at_most("two is small", 2.0, 1.0)],
    )
    screen = io.StringIO()
    Console(file=screen, width=120).print(render(document))
    lines = [line.strip() for line in screen.getvalue().splitlines() if line.strip()]
    assert lines[0] == "engine (quick)"
    assert lines[1] == "cores 2, cpu Z80"
    assert [line for line in lines if line in ("speed", "memory", "claims")] == ["speed", "memory", "claims"]
    one = next(line for line in lines if line.startswith("one  "))
    assert one.split() == ["one", "1,234,567", "0.9877"]
    assert next(line for line in lines if line.startswith("one is")).split()[-2:] == ["1", "yes"]
    assert next(line for line in lines if line.startswith("two is")).split()[-2:] == ["1", "no"]


def test_contenders_are_timed_in_turns() -> None:
    turns: list[str] = []
    told: list[str] = []
    contenders = [Contender("a", lambda: turns.append("a")), Contender("b", lambda: turns.append("b"), threads=2)]
    times = take_turns(contenders, 3, told.append)
    assert "".join(turns) == "ababab"
    assert told[:3] == ["timing a, 1 of 3", "timing b, 1 of 3", "timing a, 2 of 3"]
    assert [len(times[name].seconds) for name in "ab"] == [3, 3]


def test_a_timing_shows_median_spread_and_cores() -> None:
    timing = Timing(seconds=(4.0, 1.0, 2.0), cpu_seconds=(8.0, 2.0, 4.0))
    assert (timing.median, timing.fastest, timing.slowest, timing.cores) == (2.0, 1.0, 4.0, 2.0)


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system cannot hold a process on a core")
def test_one_core_holds_and_lets_go() -> None:
    before = os.sched_getaffinity(0)
    with one_core():
        assert len(os.sched_getaffinity(0)) == 1
    assert os.sched_getaffinity(0) == before


def test_a_child_that_fails_says_why() -> None:
    with pytest.raises(ThalwegError, match="no such task"):
        child.ask("no such task", {})


def test_parts_are_handed_over_one_by_one_with_what_they_claim() -> None:
    kept, said = [], []
    document = Document(bench="b", scale="quick", machine={}, rows=[], claims=[])
    parts: list[Part] = [
        ("one", lambda: ([{"part": "one", "rows": 1}], [at_least("enough", 2.0, 1.0)])),
        ("two", lambda: ([{"part": "two", "rows": 2}], [at_most("little", 2.0, 1.0)])),
    ]
    assert go_through(parts, document, said.append, lambda found: kept.append(len(found["rows"]))) is document
    assert kept == [1, 2]
    assert [row["part"] for row in document["rows"]] == ["one", "two"]
    assert said == [
        "one: done in 0 seconds",
        "enough: 2 (>= 1)",
        "two: done in 0 seconds",
        "little: 2 (<= 1, does not hold)",
    ]
