"""A Spark standalone cluster, a master and two workers as processes of their own, and an executor that is killed."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from tests.spark.jobs import (
    JOIN,
    RUNNING_SUM,
    await_batch,
    command,
    compare,
    prepare,
    processes_of,
    read_metrics,
    start,
)
from thalweg.spark.java import java_home

HOST = "127.0.0.1"
MASTER, WORKER = "org.apache.spark.deploy.master.Master", "org.apache.spark.deploy.worker.Worker"
EXECUTOR = "CoarseGrainedExecutorBackend"

Processes = list[subprocess.Popen[bytes]]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Processes]]:
    """The address of a cluster with two workers of one core each, and the workers' processes."""
    root = tmp_path_factory.mktemp("cluster")
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port = probe.getsockname()[1]
    url = f"spark://{HOST}:{port}"
    master = launch(root, MASTER, "--host", HOST, "--port", str(port), "--webui-port", "0")
    workers: Processes = []
    try:
        await_port(port)
        for number in range(2):
            place = ["--work-dir", str(root / f"work{number}"), "--host", HOST, "--webui-port", "0"]
            workers.append(launch(root, WORKER, *place, "--cores", "1", "--memory", "1g", url))
        yield url, workers
    finally:
        for process in (*workers, master):
            for pid in processes_of(process):
                os.kill(pid, signal.SIGKILL)
            process.wait()


def launch(root: Path, main: str, *arguments: str) -> subprocess.Popen[bytes]:
    home = Path(pyspark.__file__).parent
    settings = {"SPARK_HOME": str(home), "JAVA_HOME": str(java_home()), "SPARK_LOCAL_IP": HOST}
    with (root / "log.txt").open("ab") as log:
        return subprocess.Popen(
            [str(home / "bin" / "spark-class"), main, *arguments],
            env={**os.environ, **settings},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def await_port(port: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex((HOST, port)) == 0:
                return
        time.sleep(0.1)
    pytest.fail("the master did not come up")


def on(root: Path, url: str) -> None:
    given = json.loads((root / "job.json").read_text())
    settings = {
        "spark.master": url,
        "spark.executor.memory": "512m",
        "spark.executor.cores": "1",
        # What a dead executor had to offer is given up soon.
        "spark.shuffle.io.maxRetries": "1",
        "spark.shuffle.io.retryWait": "1s",
    }
    (root / "job.json").write_text(json.dumps({**given, "settings": settings}))


def test_a_cluster_gives_the_same_answer(spark: SparkSession, tmp_path: Path, cluster: tuple[str, Processes]) -> None:
    tables = prepare(tmp_path, RUNNING_SUM, batches=4)
    on(tmp_path, cluster[0])
    assert start(tmp_path).wait(300) == 0
    assert all(batch["rebuilds"] == 0 for batch in read_metrics(tmp_path))
    compare(spark, tmp_path, RUNNING_SUM, tables)


def test_buckets_of_a_killed_executor_are_rebuilt_elsewhere(
    spark: SparkSession, tmp_path: Path, cluster: tuple[str, Processes]
) -> None:
    url, workers = cluster
    tables = prepare(tmp_path, JOIN, batches=9)
    on(tmp_path, url)
    job = start(tmp_path)
    for _ in range(3):
        await_batch(tmp_path, job)
    executors = [pid for worker in workers for pid in processes_of(worker) if EXECUTOR in command(pid)]
    assert len(executors) == 2
    for executor in executors:  # all buckets may have been with one of them
        os.kill(executor, signal.SIGKILL)
        await_batch(tmp_path, job)
    assert job.wait(300) == 0
    assert sum(int(str(batch["rebuilds"])) for batch in read_metrics(tmp_path)) > 0
    compare(spark, tmp_path, JOIN, tables)
