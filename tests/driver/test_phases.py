"""Seconds of phases, by a clock that says what it is told to."""

from __future__ import annotations

import pytest

from thalweg.driver.phases import Phases


def test_a_block_within_another_counts_for_its_own_phase_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    moments = iter([0.0, 1.0, 3.0, 10.0])
    monkeypatch.setattr("thalweg.driver.phases.time.perf_counter", lambda: next(moments))
    phases = Phases(["probe", "adapt", "complete"])
    with phases("probe"), phases("adapt"):
        pass
    phases.move(0.5, "probe", "complete")
    assert phases.take() == {"probe": 7.5, "adapt": 2.0, "complete": 0.5}
    assert phases.take() == {"probe": 0.0, "adapt": 0.0, "complete": 0.0}
