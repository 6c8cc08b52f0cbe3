"""Queries that share a run lose nothing and double nothing, whenever the driver is killed, whoever enters meanwhile."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from contextlib import suppress
from pathlib import Path

from tests.spark import jobs
from tests.spark.shared_job import FIRST, SLICES, WIDTH
from tests.spark.shared_runs import SharedFiles, sorted_rows

KILLS = int(os.environ.get("THALWEG_KILLS", "1"))


def prepared(root: Path) -> SharedFiles:
    files = SharedFiles(root, width=WIDTH)
    for number in range(SLICES):
        files.write(number)
    return files


def compare(files: SharedFiles, texts: dict[str, str], first: set[str]) -> None:
    """What was published, against the answer of each alone; of those that entered, from then on."""
    for name, text in texts.items():
        want = files.alone(text, 0 if name in first else entered(files, name), SLICES)
        assert sorted_rows(files.published(name)) == sorted_rows(want), name
        assert want.num_rows > 10


def entered(files: SharedFiles, name: str) -> int:
    """The first slice that a query has seen the rows of: that of the batch whose offsets have the command."""
    before = -1
    offsets = files.directory / "run1" / "checkpoint" / "offsets"
    for path in sorted(offsets.glob("[0-9]*"), key=lambda path: int(path.name)):
        known = [json.loads(line) for line in path.read_text().splitlines()[2:] if line.startswith("{")]
        sent = [text for each in known for _, text, _ in json.loads(each.get("commands", "[]"))]
        if any(json.loads(text).get("name") == name for text in sent if text):
            return before + 1
        before = max(each["logOffset"] for each in known if "logOffset" in each)
    raise AssertionError(f"no batch has the command that {name} enters")


def test_a_driver_that_dies_between_the_manifests_of_two_queries(tmp_path: Path) -> None:
    files = prepared(tmp_path)
    died = jobs.start(tmp_path, "tests.spark.shared_job", "manifests")
    assert died.wait(300) == -signal.SIGKILL
    outbox = files.registry.outbox("run1")
    assert sorted(1 in outbox.batches(name) for name in FIRST) == [False, True]
    late = FIRST["short"].replace("9 SECONDS", "8 SECONDS")
    files.registry.register("late", late)
    assert jobs.start(tmp_path, "tests.spark.shared_job").wait(300) == 0
    assert entered(files, "late") == 2
    compare(files, {**FIRST, "late": late}, {*FIRST})


def test_a_driver_that_is_killed_while_queries_enter(tmp_path: Path) -> None:
    files = prepared(tmp_path)
    rng = random.Random(7)
    texts, first = dict(FIRST), set(FIRST)
    kills = 0
    while True:
        job = jobs.start(tmp_path, "tests.spark.shared_job")
        if kills == KILLS:
            assert job.wait(400) == 0
            break
        jobs.await_batch(tmp_path, job, files.directory / "run1" / "checkpoint")
        name, text = f"new {kills}", FIRST["short"].replace("9 SECONDS", f"{3 + kills} SECONDS")
        files.registry.register(name, text)
        texts[name] = text
        time.sleep(rng.uniform(0, 1.5))
        assert job.poll() is None, "the job was over too soon to be killed"
        for process in jobs.processes_of(job):
            with suppress(ProcessLookupError):  # some of them are brief
                os.kill(process, signal.SIGKILL)
        job.wait()
        kills += 1
        if not (files.directory / "run1" / "checkpoint" / "commits" / "0").exists():
            first.add(name)  # nothing was committed without it, and the next run begins with it
    compare(files, texts, first)
