"""A batch succeeds whatever happens to the files of its engine."""

from __future__ import annotations

import errno
import os
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from tests.spark.simulated import DictLog, simulated_spec
from tests.spark.test_phases import SCHEMA, batch
from thalweg.cql import Source, bind
from thalweg.engine.image.snapshot import Restoration
from thalweg.plan.partitioning import choose_partitioning
from thalweg.policies import Policies
from thalweg.spark import image_directory as images
from thalweg.spark.attendance import attend
from thalweg.spark.bucket_spec import Arriving, Outcome, Spec
from thalweg.spark.packing import unblob
from thalweg.spark.resident import Resident

BATCHES = 30


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("thalweg.engine.machine.workspace.FIRST_CAPACITY", 16)
    monkeypatch.setattr(images, "_told", set())


@pytest.fixture
def spec() -> Spec:
    text = "SELECT a.k, b.ts AS t FROM a, b, c WHERE a.k = b.k AND b.k = c.k WINDOW RANGE 8 MICROSECONDS"
    query = bind(text, dict.fromkeys("abc", Source(SCHEMA, "ts")))[0]
    return simulated_spec(query, choose_partitioning(query, 1), [0, 0, 0], "(a b) c", Policies(states="all"))


def batches() -> list[Arriving]:
    return [batch(n, "abc" if n % 3 else "ab") for n in range(BATCHES)]


class Run:
    """A bucket, batch by batch, with whatever is left of its engine."""

    def __init__(self, spec: Spec, directory: Path | None) -> None:
        self.spec, self.directory = spec, directory
        self.log = DictLog()
        self.record: str | None = None
        self.kept: Resident | None = None
        self.rebuilds = 0

    def take(self, arriving: Arriving) -> list[pa.Table]:
        resident, outcome = attend(self.spec, 0, self.record, arriving, self.log, self.directory, self.kept)
        self.kept = resident if resident.is_imaged else None
        self.record = outcome.record
        self.rebuilds += outcome.metrics["rebuilds"]
        return [unblob(each.body or b"") for each in outcome.results]


def rows(tables: list[pa.Table]) -> Counter[str]:
    return Counter(str(row) for table in tables for row in table.to_pylist())


def full(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("what", ["growing", "an image", "notes", "a directory", "payload"])
def test_a_disk_that_is_full_for_some_batches(
    spec: Spec, tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    calm, troubled = Run(spec, None), Run(spec, tmp_path / "image")
    place = {
        "growing": (os, "posix_fallocate"),
        "an image": (Path, "replace"),
        "notes": (Path, "write_text"),
        "a directory": (Path, "mkdir"),
        "payload": (pa, "OSFile"),
    }[what]
    for n, arriving in enumerate(batches()):
        want = rows(calm.take(arriving))
        with monkeypatch.context() as patch:
            if 1 <= n < 20:
                patch.setattr(*place, full)
            assert rows(troubled.take(arriving)) == want
        assert (troubled.record, troubled.log) == (calm.record, calm.log)
    assert 0 < troubled.rebuilds < 20
    assert "without an image of its engine, from the log: No space left on device" in caplog.text
    assert sum("without an image" in message for message in caplog.messages) == 1


def test_files_that_vanish(spec: Spec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between batches, while an image is taken over, and in the midst of a batch."""
    rng = random.Random(5)
    directory = tmp_path / "image"
    calm, troubled = Run(spec, None), Run(spec, directory)
    vanished = Counter[str]()

    def lose(moment: str) -> None:
        if rng.random() < 0.3:
            vanished[moment] += 1
            for path in directory.glob("*"):
                if rng.random() < 0.5:
                    path.unlink()

    restore, process = Restoration.apply, Resident.process

    def losing_apply(restoration: Restoration) -> None:
        lose("while it is taken over")
        restore(restoration)

    def losing_process(resident: Resident, arriving: Arriving, log: DictLog, failing: dict[str, str]) -> Outcome:
        lose("in a batch")
        return process(resident, arriving, log, failing)

    for arriving in batches():
        want = rows(calm.take(arriving))
        lose("between batches")
        with monkeypatch.context() as patch:
            patch.setattr(Restoration, "apply", losing_apply)
            patch.setattr(Resident, "process", losing_process)
            if rng.random() < 0.5:
                troubled.kept = None  # another worker
            assert rows(troubled.take(arriving)) == want
    assert len(vanished) == 3


def test_a_directory_that_cannot_be_marked_dirty_is_left_alone(
    spec: Spec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its image stays one of the batch before; a retry after all goes on from there."""
    calm, troubled = Run(spec, None), Run(spec, tmp_path)
    for n, arriving in enumerate(batches()):
        want = rows(calm.take(arriving))
        with monkeypatch.context() as patch:
            if n == 20:
                before = troubled.record, DictLog(dict(troubled.log.held)), troubled.kept
                patch.setattr("thalweg.spark.attendance.mark_dirty", full)
            assert rows(troubled.take(arriving)) == want
        if n == 20:
            assert troubled.kept is None
            assert troubled.rebuilds == 1
            troubled.record, troubled.log, troubled.kept = before
            assert rows(troubled.take(arriving)) == want
            assert troubled.rebuilds == 1


@pytest.mark.parametrize("is_kept", [True, False])
def test_the_image_of_another_run_is_not_taken_over(spec: Spec, tmp_path: Path, is_kept: bool) -> None:
    """It was made under other options, or with other rows of static relations, perhaps."""
    first = Run(spec, tmp_path)
    calm = Run(spec, None)
    for arriving in batches()[:20]:
        first.take(arriving)
        calm.take(arriving)
    again = Run(replace(spec, identity="another run"), tmp_path)
    again.record, again.log = first.record, first.log
    again.kept = first.kept if is_kept else None
    for arriving in batches()[20:]:
        assert rows(again.take(arriving)) == rows(calm.take(arriving))
    assert again.rebuilds == 1
    assert again.kept is not None
