"""Waiting for runs that are queries of Spark: here, without it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from thalweg.spark.queries_file import Running, is_running
from thalweg.spark.started import Started


class FakeRun:
    """A query that goes on for so many looks, and may fail then. Whoever waits for one that goes on, waits for ever."""

    def __init__(self, looks: float, error: str | None = None) -> None:
        self.looks, self._error, self.is_stopped = looks, error, False

    @property
    def isActive(self) -> bool:  # noqa: N802 - as Spark's own
        self.looks -= 1
        return self.looks >= 0 and not self.is_stopped

    def awaitTermination(self) -> None:  # noqa: N802 - as Spark's own
        assert self.looks < 0, "this would not return"
        if self._error is not None:
            raise ValueError(self._error)

    def stop(self) -> None:
        self.is_stopped = True


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("thalweg.spark.started._LOOK_SECONDS", 0.001)


def started(directory: Path, *runs: FakeRun) -> Started:
    right = Running(directory)
    assert right.take() is None
    return Started(right, cast("Any", {f"run{n}": run for n, run in enumerate(runs, 1)}))


def test_the_error_of_a_run_is_told_though_another_goes_on(tmp_path: Path) -> None:
    lasting = FakeRun(float("inf"))
    with pytest.raises(ValueError, match="no room"):
        started(tmp_path, lasting, FakeRun(3, "no room")).awaitTermination()
    assert lasting.isActive


def test_whoever_waits_so_long_is_told_that_a_run_goes_on(tmp_path: Path) -> None:
    assert not started(tmp_path, FakeRun(2), FakeRun(float("inf"))).awaitTermination(0.02)
    assert is_running(tmp_path)


def test_when_all_have_ended_the_directory_is_free(tmp_path: Path) -> None:
    assert started(tmp_path, FakeRun(5), FakeRun(2)).awaitTermination()
    assert not is_running(tmp_path)
