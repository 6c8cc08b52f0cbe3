"""A command runner, and small streams on disk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from thalweg.cli.app import app
from thalweg.engine.compilation import ready_kernels

Invoke = Callable[..., Any]


@pytest.fixture(scope="session", autouse=True)
def _compiled() -> None:
    """Kernels are compiled before the first test, so that no test sees the notice about it."""
    ready_kernels()


@pytest.fixture
def thalweg() -> Invoke:
    """Run the command in process: ``thalweg("replay", ...)``."""

    def invoke(*arguments: str | Path, input: str | None = None) -> Any:  # noqa: A002 - as the runner calls it
        return CliRunner().invoke(app, [str(argument) for argument in arguments], input=input)

    return invoke


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """Three streams of three rows each and a query over them that has two results."""
    (tmp_path / "a.csv").write_text(
        "k,x,ts\n1,10,2024-05-01 12:00:00\n2,20,2024-05-01 12:00:01\n1,30,2024-05-01 12:00:30\n"
    )
    (tmp_path / "b.csv").write_text(
        "k,y,ts\n1,100,2024-05-01 12:00:02\n3,200,2024-05-01 12:00:03\n1,300,2024-05-01 12:00:31\n"
    )
    (tmp_path / "c.csv").write_text(
        "k,z,ts\n1,7,2024-05-01 12:00:04\n2,8,2024-05-01 12:00:05\n1,9,2024-05-01 12:00:32\n"
    )
    (tmp_path / "abc.cql").write_text(
        "SELECT A.k, A.x, B.y, C.z\n"
        "FROM A [RANGE 10 SECONDS], B [RANGE 10 SECONDS], C [RANGE 10 SECONDS]\n"
        "WHERE A.k = B.k AND B.k = C.k\n"
    )
    return tmp_path


RESULTS = [{"k": 1, "x": 10, "y": 100, "z": 7}, {"k": 1, "x": 30, "y": 300, "z": 9}]
"""The answer of abc.cql."""


@pytest.fixture
def sources(shop: Path) -> list[str]:
    """The arguments that name the three streams."""
    return [argument for name in "abc" for argument in ("--source", f"{name.upper()}={shop}/{name}.csv")]
