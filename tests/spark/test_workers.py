"""Workers are spared the search for garbage among what they have loaded, and nothing else."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from thalweg.spark import workers


@pytest.fixture
def _new_worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(workers, "_tasks", 0)
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("_new_worker")
def test_what_is_loaded_after_the_second_task_is_exempted_once() -> None:
    gc.unfreeze()
    workers.task_done()
    assert gc.get_freeze_count() == 0
    workers.task_done()
    exempted = gc.get_freeze_count()
    assert exempted > 0
    later: list[list[object]] = [[] for _ in range(1000)]
    for _ in range(10):
        workers.task_done()
    assert gc.get_freeze_count() <= exempted
    assert len(later) == 1000
