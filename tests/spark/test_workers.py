"""Workers begin with everything loaded, and are spared the search for garbage among it."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

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


def test_workers_begin_with_everything_loaded_and_leave_ctrl_c_to_the_driver(spark: SparkSession) -> None:
    def loaded(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import signal
        import sys

        names = ("thalweg.spark.bucket_task", "thalweg.engine.kernels.machine")
        for _ in batches:
            yield pa.record_batch(
                {
                    "loaded": [all(name in sys.modules for name in names)],
                    "deaf": [signal.getsignal(signal.SIGINT) == signal.SIG_IGN],
                }
            )

    rows = spark.range(0, 4, 1, 4).mapInArrow(loaded, "loaded BOOLEAN, deaf BOOLEAN").collect()
    assert [(row.loaded, row.deaf) for row in rows] == [(True, True)] * 4


def test_loading_starts_no_thread_that_a_fork_would_lose() -> None:
    program = "from thalweg.spark.daemon import load; load(); print('loaded')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout == "loaded\n", done.stderr


def test_a_thread_that_a_fork_would_lose_is_named() -> None:
    program = """
import threading, time
from thalweg.spark import daemon
threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
daemon.load()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "loading thalweg has started the threads python" in done.stderr


def test_workers_that_cannot_be_started_early_are_no_error(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, spark: SparkSession
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("the session has ended")

    monkeypatch.setattr(SparkSession, "range", fail)
    with caplog.at_level("INFO", logger="thalweg.spark.workers"):
        workers._start(spark)
    assert "the session has ended" in caplog.text


def test_a_daemon_that_cannot_load_becomes_sparks_own() -> None:
    """Which ends at once, for it is not told where to listen."""
    program = """
from thalweg.spark import daemon
def fail(): raise RuntimeError("no kernels here")
daemon.load = fail
daemon.main()
"""
    environment = {**os.environ, "PYTHON_UNIX_DOMAIN_ENABLED": "true"}
    environment.pop("PYTHON_WORKER_FACTORY_SOCK_DIR", None)
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        stdin=subprocess.DEVNULL,
    )
    assert "no kernels here" in done.stderr
    assert "load for themselves" in done.stderr
    assert 'assert "PYTHON_WORKER_FACTORY_SOCK_DIR" in os.environ' in done.stderr  # Spark's daemon has begun


def test_workers_are_started_early_once(monkeypatch: pytest.MonkeyPatch, spark: SparkSession) -> None:
    started: list[SparkSession] = []
    monkeypatch.setattr(workers, "_start", started.append)
    monkeypatch.setattr(workers, "_started", set())
    before = set(threading.enumerate())
    for _ in range(2):
        workers.start_early(spark)
    for thread in set(threading.enumerate()) - before:
        thread.join(60)
    assert started == [spark]
