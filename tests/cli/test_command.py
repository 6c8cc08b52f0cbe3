"""The installed command as a process: entry point, start-up, pipes and signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.conftest import Invoke

COMMAND = Path(sys.executable).with_name("thalweg")


def run(*arguments: str | Path, **options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([COMMAND, *arguments], capture_output=True, text=True, timeout=120, **options)  # type: ignore[call-overload,no-any-return]


def test_version() -> None:
    result = run("--version")
    assert (result.returncode, result.stdout) == (0, "thalweg 0.2.0\n")


def test_the_package_runs_as_a_module() -> None:
    result = subprocess.run([sys.executable, "-m", "thalweg", "--version"], capture_output=True, text=True, timeout=120)
    assert result.stdout == run("--version").stdout


def test_help_teaches_each_command(thalweg: Invoke) -> None:
    overview = thalweg("--help")
    assert overview.exit_code == 0
    for command in ("replay", "explain", "bench", "demo", "register", "deregister", "queries"):
        assert command in overview.stdout
        result = thalweg(command, "--help")
        assert result.exit_code == 0
        assert "Example:" in result.stdout
        assert f"thalweg {command}" in result.stdout


def test_nothing_heavy_is_loaded_to_show_help() -> None:
    heavy = "{'pyarrow', 'duckdb', 'numba', 'numpy', 'sqlglot'}"
    code = f"import sys, thalweg.cli; print(sorted({heavy} & sys.modules.keys()))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"


def test_output_to_a_file_is_plain_text(shop: Path, sources: list[str]) -> None:
    result = run("replay", shop / "abc.cql", *sources, "--states", "all")
    assert result.returncode == 0, result.stderr
    assert "\x1b" not in result.stdout
    assert "\x1b" not in result.stderr
    assert not any(line != line.rstrip() for line in result.stdout.splitlines())
    assert "(2 rows)" in result.stdout


def test_an_output_that_cannot_show_a_character_gets_a_question_mark(shop: Path, sources: list[str]) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    plan = ["--plan", "(A B) C", "--states", "all"]
    result = run("replay", shop / "abc.cql", *sources, *plan, env=environment)  # type: ignore[arg-type]
    assert result.returncode == 0, result.stderr
    assert "A?B" in result.stdout


def test_errors_go_to_stderr(shop: Path) -> None:
    result = run("replay", shop / "abc.cql", "--source", f"A={shop}/no.csv")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith("error: there is no file")


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_an_interruption_ends_cleanly(shop: Path) -> None:
    """Interrupted while it waits for its query, so that it is surely inside the command."""
    os.mkfifo(shop / "fifo.cql")
    process = subprocess.Popen(
        [COMMAND, "replay", shop / "fifo.cql", "--source", f"A={shop}/a.csv"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        with (shop / "fifo.cql").open("wb", buffering=0):  # returns when the command has opened it to read
            time.sleep(0.5)  # between opening and reading, a signal would go unnoticed until the next one
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=30)
    finally:
        process.kill()
    assert (process.returncode, out, err) == (130, "", "interrupted\n")
