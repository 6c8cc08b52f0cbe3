"""Ctrl-C ends ``thalweg run`` well at any moment: processes of their own, interrupted as a terminal does it."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.spark.jobs import processes_of
from tests.spark.runs import BRIEF

PATIENCE_SECONDS = 100.0
QUERY = "SELECT A.value FROM A, B WHERE A.value = B.value WINDOW RANGE 5 SECONDS"
SOAK = int(os.environ.get("THALWEG_SOAK", "0"))
MOMENTS = ("thalweg/control", "metadata", "offsets/0")
"""Files of the checkpoint that tell what goes on: the query is put together; it has begun; so has its first batch."""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts ``thalweg run`` of a text over endless streams."""
    started: list[subprocess.Popen[str]] = []

    def begin(text: str, *places: str) -> subprocess.Popen[str]:
        (tmp_path / "ab.cql").write_text(text)
        sources = ["--source=A=rate:rowsPerSecond=50", "--source=B=rate:rowsPerSecond=50"]
        brief = [f"--conf={name}={value}" for name, value in BRIEF.items()]
        process = subprocess.Popen(
            [sys.executable, "-m", "thalweg", "run", str(tmp_path / "ab.cql"), *sources, *places, *brief],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        for left in processes_of(process):  # type: ignore[arg-type] # of any kind of text
            os.kill(left, signal.SIGKILL)
        process.wait()


@pytest.fixture
def run(start: Callable[..., subprocess.Popen[str]], tmp_path: Path) -> subprocess.Popen[str]:
    """A query that has just been started."""
    return start(QUERY, "--sink=noop", f"--checkpoint={tmp_path}/c")


def wait_for(event: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not event() and time.monotonic() < deadline:
        time.sleep(0.01)


def interrupt(run: subprocess.Popen[str]) -> tuple[str, str]:
    """Send SIGINT to all processes of the terminal; what the command has printed until it ended."""
    os.killpg(run.pid, signal.SIGINT)
    return run.communicate(timeout=PATIENCE_SECONDS)


def check(code: int | None, stdout: str, stderr: str) -> None:
    assert code == 0, stderr
    assert all(
        line.startswith(("stopping; ", "query1: batch ", "thalweg: compiling ")) for line in stderr.splitlines()
    ), stderr
    assert not stdout or stdout.startswith("query1: "), stdout


@pytest.mark.parametrize("moment", MOMENTS)
def test_it_ends_well_without_a_word_of_python_or_java(run: subprocess.Popen[str], tmp_path: Path, moment: str) -> None:
    wait_for((tmp_path / "c" / moment).exists)
    stdout, stderr = interrupt(run)
    check(run.returncode, stdout, stderr)
    assert "stopping; another Ctrl-C does not wait for that" in stderr
    assert bool(stdout) == (moment != "thalweg/control")


def test_so_do_several_queries(start: Callable[..., subprocess.Popen[str]], tmp_path: Path) -> None:
    several = start(f"CREATE QUERY p AS {QUERY}; CREATE QUERY q AS {QUERY}", f"--sink={tmp_path}/out")
    wait_for((tmp_path / "out" / "run1" / "checkpoint" / "offsets" / "0").exists)
    stdout, stderr = interrupt(several)
    assert several.returncode == 0, stderr
    told = [line for line in stderr.splitlines() if not line.startswith(("run1: batch ", "thalweg: compiling "))]
    assert told == ["stopping; another Ctrl-C does not wait for that"]
    assert stdout.startswith("2 queries in 1 run: ")


@pytest.mark.skipif(not SOAK, reason="takes minutes; set THALWEG_SOAK")
@pytest.mark.parametrize("seed", range(10 * SOAK))
def test_so_it_does_at_any_moment(run: subprocess.Popen[str], seed: int) -> None:
    time.sleep(random.Random(seed).uniform(2, 20))
    stdout, stderr = interrupt(run)
    check(run.returncode, stdout, stderr)
