"""Nothing is lost and nothing doubled, whenever a driver or a worker is killed."""

from __future__ import annotations

import os
import random
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.jobs import (
    JOIN,
    RUNNING_SUM,
    await_batch,
    compare,
    is_worker,
    prepare,
    processes_of,
    read_metrics,
    start,
)

KILLS = int(os.environ.get("THALWEG_KILLS", "2"))  # the first one comes before anything is committed
WORKER_KILLS = int(os.environ.get("THALWEG_KILLS", "1"))
"""Of each kind; with two queries whose drivers are killed, twice as many drivers."""


KEPT: dict[str, Any] = {"plan": "(a b) c", "states": "all"}
"""Options of a join whose state a crash loses, and that goes on before it is complete again."""


@pytest.mark.parametrize(("cql", "options"), [(JOIN, KEPT), (RUNNING_SUM, {})], ids=["join", "running sum"])
def test_a_killed_driver_goes_on_from_its_checkpoint(
    spark: SparkSession, tmp_path: Path, cql: str, options: dict[str, Any]
) -> None:
    rng = random.Random(cql)
    tables = prepare(tmp_path, cql, **options)
    kills = 0
    while True:
        job = start(tmp_path)
        if kills == KILLS:
            assert job.wait(300) == 0
            break
        await_batch(tmp_path, job)
        time.sleep(rng.uniform(0, 1.5))
        if job.poll() is not None:
            assert job.returncode == 0
            break  # done before all kills were spent
        for process in processes_of(job):
            with suppress(ProcessLookupError):  # some of them are brief: Hadoop's chmod, say
                os.kill(process, signal.SIGKILL)
        job.wait()
        kills += 1
    assert kills == KILLS, "the job was over too soon to be killed"
    if options == KEPT:
        first = next((metrics for metrics in read_metrics(tmp_path) if metrics["rebuilds"]), None)
        assert first is not None, "the last run had nothing left to do"
        assert first["results"] > 0
        assert first["completions"] > 0  # a restart is a change of plan: keys are completed when they are asked for
    compare(spark, tmp_path, cql, tables)


def test_a_killed_worker_is_replaced(spark: SparkSession, tmp_path: Path) -> None:
    rng = random.Random(1)
    tables = prepare(tmp_path, JOIN)
    job = start(tmp_path)
    kills = 0
    while kills < WORKER_KILLS and job.poll() is None:
        await_batch(tmp_path, job)
        time.sleep(rng.uniform(0, 0.7))
        workers = [pid for pid in processes_of(job) if is_worker(pid)]
        if workers:
            os.kill(rng.choice(workers), signal.SIGKILL)
            kills += 1
    assert job.wait(300) == 0
    assert kills == WORKER_KILLS, "the job was over too soon to be killed"
    assert "TransformWithStateInPandas Python worker" not in (tmp_path / "job.log").read_text()  # nobody asked for that
    compare(spark, tmp_path, JOIN, tables)
