"""Jobs as processes of their own, that can be killed, and what they leave behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from tests.spark.runs import FileRun, cut, write_stream
from thalweg.replayer import replay

BATCHES = 20
"""Enough to outlive the kills."""

JOIN = """
SELECT a.id AS a, b.id AS b, c.id AS c FROM a, b, c
WHERE a.k = b.k AND b.k = c.k AND a.id % 7 <> c.id % 7 WINDOW RANGE 20 SECONDS"""
RUNNING_SUM = """
SELECT a.k, COUNT(*) AS n, SUM(b.id) AS s FROM a [PARTITION BY k ROWS 2], b [RANGE 10 SECONDS], c [RANGE 1 SECOND]
WHERE a.k = b.k AND b.k = c.k GROUP BY a.k"""


_started: list[subprocess.Popen[bytes]] = []


def streams(seed: int, rows: int = 3000, keys: int = 300) -> dict[str, pa.Table]:
    rng = np.random.default_rng(seed)
    made = {}
    for name in "abc":
        times = np.sort(rng.integers(0, 120_000_000, rows))
        made[name] = pa.table(
            {
                "ts": pa.array(times, pa.timestamp("us", "UTC")),
                "k": np.array([f"key {k}" for k in rng.integers(0, keys, rows)]),
                "id": np.arange(rows),
            }
        )
    return made


def prepare(root: Path, cql: str, batches: int = BATCHES, **options: Any) -> dict[str, pa.Table]:
    tables = streams(5)
    for name, table in tables.items():
        write_stream(root / "in" / name, cut(table, batches))
    (root / "job.json").write_text(json.dumps({"cql": cql, "options": {"buckets": 3, **options}}))
    return tables


def start(root: Path, module: str = "tests.spark.job", *arguments: str) -> subprocess.Popen[bytes]:
    with (root / "job.log").open("ab") as log:
        job = subprocess.Popen(
            [sys.executable, "-m", module, str(root), *arguments], stdout=log, stderr=log, start_new_session=True
        )
    _started.append(job)
    return job


def await_batch(root: Path, job: subprocess.Popen[bytes], checkpoint: Path | None = None) -> None:
    """Until one more batch has begun, or the job is over."""
    offsets = (checkpoint or root / "checkpoint") / "offsets"
    begun = len(list(offsets.glob("[0-9]*")))
    while job.poll() is None and len(list(offsets.glob("[0-9]*"))) == begun:
        time.sleep(0.02)


def processes_of(job: subprocess.Popen[bytes]) -> list[int]:
    """Everything that the job has started, and itself."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if os.getsid(int(entry.name)) == job.pid:
                found.append(int(entry.name))
        except ProcessLookupError:
            continue  # gone since
    return found


def is_worker(pid: int) -> bool:
    """Whether a process is a Python worker of Spark: its parent, the daemon, runs the same command."""
    return command(pid) == command(parent(pid)) and "pyspark.worker" in command(pid)


def command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return 0


def compare(spark: SparkSession, root: Path, cql: str, tables: dict[str, pa.Table]) -> None:
    """The sink after the end of the input, against the answer of a replay that nothing disturbed."""
    FileRun(spark, root, cql).end(json.loads((root / "job.json").read_text())["options"])
    want = replay(cql, tables)
    got = spark.read.parquet(str(root / "out")).toArrow().cast(want.schema)
    order = [(name, "ascending") for name in want.column_names]
    assert got.num_rows == want.num_rows
    assert got.sort_by(order).equals(want.sort_by(order))
    assert want.num_rows > 1000


def read_metrics(root: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(root.glob("metrics-*.json")):
        yield from json.loads(path.read_text())


def end_all() -> None:
    """Kill what is left of the jobs that were started."""
    for job in _started:
        for process in processes_of(job):
            os.kill(process, signal.SIGKILL)
        job.wait()
    _started.clear()
