"""Rows are published exactly once, wherever a process dies or is overtaken."""

from __future__ import annotations

import os
import random
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from tests.spark.outboxes import (
    QUERY,
    Input,
    Killed,
    WatchedFiles,
    killed_at,
    opened,
    run,
    stage,
    table,
    visible,
    wanted,
)
from thalweg.errors import OutboxError
from thalweg.spark.outbox.directory import Outbox
from thalweg.spark.outbox.layout import Failure, Staged, parsed_manifest
from thalweg.spark.outbox.publishing import publish
from thalweg.spark.outbox.sink import OutboxWriter, Written
from thalweg.spark.outbox.staging import Stage
from thalweg.spark.packing import blob

GIVEN: Input = {"a": [[2, 1], [1, 3, 1], [2]], "b": [[1], [], [1, 1]], "never": [[], [], []]}
BATCHES = 3
SEED = int(os.environ.get("THALWEG_SEED", "1"))
RUNS = int(os.environ.get("THALWEG_CASES", "60"))


def live(directory: Path, files: WatchedFiles, batch: int, attempt: int) -> int:
    """A run of the query, from this batch on, until it is killed; the batch that it goes on with.

    The kill may come when everything is published and Spark has not noted it: before the next step of the run.
    """
    outbox = Outbox(directory, files)
    try:
        while batch < BATCHES:
            run(outbox, batch, GIVEN, attempt)
            files._step()  # Spark notes that the batch is committed
            batch += 1
    except Killed:
        pass
    return batch


def manifests(outbox: Outbox) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in outbox.places.root.glob("*/_manifests/*.json")}


def check(outbox: Outbox, batch: int) -> None:
    """While batch ``batch`` has begun: all rows of those before, each once, and none but its own besides."""
    for reader in GIVEN:
        seen = visible(outbox, reader)
        assert len(set(seen)) == len(seen), f"reader {reader} sees rows twice"
        assert seen[: len(wanted(GIVEN, reader, batch))] == wanted(GIVEN, reader, batch)
        assert set(seen) <= set(wanted(GIVEN, reader, min(batch + 1, BATCHES)))
    for path, data in manifests(outbox).items():
        assert parsed_manifest(data, path).rows > 0  # it is whole


def check_end(outbox: Outbox) -> None:
    check(outbox, BATCHES)
    for reader, batches in GIVEN.items():
        assert outbox.totals(reader).rows == sum(map(sum, batches))
    assert outbox.latest() == BATCHES - 1
    publish(outbox, QUERY, BATCHES, [])  # nothing of attempts at earlier batches is left by the next one
    assert outbox.files.names(outbox.places.staged) == []
    assert outbox.done() == [BATCHES]
    check(outbox, BATCHES)


def operations(directory: Path) -> int:
    """How many there are in a run that nothing disturbs."""
    opened(directory, tuple(GIVEN))
    files = WatchedFiles()
    assert live(directory, files, 0, 0) == BATCHES
    assert files.count > 60
    return files.count


def test_a_crash_before_every_single_operation_is_healed(tmp_path: Path) -> None:
    crashes = set()
    for operation in range(operations(tmp_path / "undisturbed")):
        outbox = opened(tmp_path / str(operation), tuple(GIVEN))
        batch = live(outbox.places.root, killed_at(operation), 0, 0)
        check(outbox, batch)
        before = manifests(outbox)
        crashes.add((batch, sum(path.stem == f"{batch:012}" for path in before)))
        assert live(outbox.places.root, WatchedFiles(), batch, 1) == BATCHES
        assert before.items() <= manifests(outbox).items(), "what was published has changed"
        check_end(outbox)
    assert (0, 1) in crashes, "no crash was between the manifests of two readers"


def test_many_crashes_in_a_row_are_healed(tmp_path: Path) -> None:
    rng = random.Random(SEED)
    most = operations(tmp_path / "undisturbed")
    for case in range(RUNS):
        outbox = opened(tmp_path / str(case), tuple(GIVEN))
        kills = [rng.randrange(most) for _ in range(rng.randint(2, 6))]
        batch = 0
        for attempt, operation in enumerate(kills):
            batch = live(outbox.places.root, killed_at(operation), batch, attempt)
            check(outbox, batch)
        live(outbox.places.root, WatchedFiles(), batch, len(kills))
        try:
            check_end(outbox)
        except AssertionError as error:
            error.add_note(f"seed {SEED}, case {case}, kills before operations {kills}")
            raise


def test_a_reader_that_fails_has_nothing_from_its_batch_on_wherever_a_process_dies(tmp_path: Path) -> None:
    """Somebody finds that reader a fails in batch 1, and the tasks go on sending rows of it for ever."""
    operation, killed = 0, True
    while killed:
        outbox = opened(tmp_path / str(operation), tuple(GIVEN))
        files, batch = killed_at(operation), 0
        try:
            for batch in range(BATCHES):
                run(Outbox(outbox.places.root, files), batch, GIVEN, 0, {"a": 1})
            killed = False
        except Killed:
            operation += 1
        told = outbox.failure("a")
        for again in range(batch, BATCHES):
            run(outbox, again, GIVEN, 1, {"a": 1})
        assert visible(outbox, "a") == wanted(GIVEN, "a", 1)
        assert visible(outbox, "b") == wanted(GIVEN, "b", BATCHES)
        assert outbox.failure("b") is None
        failure = outbox.failure("a")
        assert failure is not None
        assert (failure.batch, failure.since) == (1, 0)
        assert told in (None, failure), "what was published has changed"
    assert operation > 60


def test_a_reader_that_comes_again_has_what_is_its_own(tmp_path: Path) -> None:
    outbox = opened(tmp_path, ["a"])
    given = {"a": [[1], [1], [1], [1], [1]]}
    failure = Failure("a", 1, 0, "something is wrong")
    for batch in range(5):
        staged = [replace(file, since=3 if batch >= 3 else 0) for file in stage(outbox, batch, given)]
        publish(outbox, QUERY, batch, staged, [failure] if batch == 1 else ())
    assert [batch for batch, _ in visible(outbox, "a")] == [0, 3, 4]
    again = replace(failure, batch=5, since=3)
    publish(outbox, QUERY, 5, [], [again])
    assert outbox.failure("a") == again


@pytest.mark.parametrize("seed", range(3))
def test_folded_manifests_count_once_wherever_a_process_dies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr("thalweg.spark.outbox.publishing._FOLDED", 2)
    monkeypatch.setattr("thalweg.spark.outbox.publishing._LOOK_EVERY", 1)
    rng = random.Random(seed)
    batches = 7
    given = {name: [[rng.randint(1, 3)] for _ in range(batches)] for name in ("a", "b")}
    operation, killed = seed, True
    while killed:
        outbox = opened(tmp_path / str(operation), tuple(given))
        files, batch = killed_at(operation), 0
        try:
            for batch in range(batches):
                run(Outbox(outbox.places.root, files), batch, given)
            killed = False
        except Killed:
            for name in given:
                done = outbox.totals(name).rows
                assert done in (len(wanted(given, name, batch)), len(wanted(given, name, batch + 1)))
        for again in range(batch, batches):
            run(outbox, again, given, 1)
        for name in given:
            assert visible(outbox, name) == wanted(given, name, batches)
            totals = outbox.totals(name)
            assert (totals.batches, totals.files, totals.rows) == (7, 7, len(wanted(given, name, batches)))
            assert len(outbox.batches(name)) < 4
        operation += 23
    assert operation > 150


def overtaken(directory: Path, operation: int, ahead: int, *, in_commit: bool) -> bool:
    """An attempt at batch 0 is overtaken before one of its operations by another one, and goes on afterwards.

    A query that is stopped while it commits leaves such a commit behind, a speculative task such a task. Spark gives
    the batch up, and the other attempt publishes batches 0 to ``ahead`` (-1: there is none yet). Whether the first one
    got as far as the operation.
    """
    outbox = opened(directory, tuple(GIVEN))
    happened = []
    staged: list[Staged] = []

    def watch(count: int) -> None:
        if count == operation:
            happened.append(count)
            OutboxWriter(str(directory)).abort([Written(QUERY, tuple(staged))], 0)
            for batch in range(ahead + 1):
                run(outbox, batch, GIVEN, attempt=1)

    slow = Outbox(directory, WatchedFiles(watch))
    # Nobody listens to what the slow one has to say.
    with suppress(OutboxError, FileNotFoundError):
        if in_commit:
            staged += stage(Outbox(directory), 0, GIVEN, attempt=0)
            publish(slow, QUERY, 0, staged)
        else:
            stage(slow, 0, GIVEN, attempt=0)
    if not happened:
        return False
    for batch in range(ahead + 1, BATCHES):
        run(outbox, batch, GIVEN)
    check_end(outbox)
    return True


@pytest.mark.parametrize("in_commit", [True, False], ids=["commit", "task"])
@pytest.mark.parametrize("ahead", [-1, 0, 1])
def test_an_attempt_that_is_overtaken_does_no_harm(tmp_path: Path, ahead: int, in_commit: bool) -> None:
    operation = 0
    while overtaken(tmp_path / str(operation), operation, ahead, in_commit=in_commit):
        operation += 1
    assert operation > (15 if in_commit else 5)


def test_what_a_manifest_names_is_shown_even_if_its_batch_is_not_run_again(tmp_path: Path) -> None:
    """Spark goes on with the next batch if that was planned, though the mark of the one before was lost."""
    late = 0
    for operation in range(operations(tmp_path / "undisturbed")):
        outbox = opened(tmp_path / str(operation), tuple(GIVEN))
        if live(outbox.places.root, killed_at(operation), 0, 0) > 0:
            break
        decided = {reader for reader in GIVEN if outbox.batches(reader)}
        late += sum(visible(outbox, reader) != wanted(GIVEN, reader, 1) for reader in decided)
        run(outbox, 1, GIVEN)
        for reader in GIVEN:
            first = [row for row in visible(outbox, reader) if row[0] == 0]
            assert first == (wanted(GIVEN, reader, 1) if reader in decided else [])
    assert late > 0, "no crash was between a manifest and its files"


def test_files_that_a_reader_took_away_do_not_come_back(tmp_path: Path) -> None:
    """Spark's file source can delete what it has read: also before the batch that wrote it is run again."""
    outbox = opened(tmp_path, tuple(GIVEN))
    run(outbox, 0, GIVEN)
    for file in outbox.places.reader("a").glob("*.parquet"):
        file.unlink()
    run(outbox, 0, GIVEN, attempt=1)
    assert visible(outbox, "a") == []
    run(outbox, 1, GIVEN)
    assert [batch for batch, _ in visible(outbox, "a")] == [1] * 5


def test_a_failed_task_leaves_nothing(tmp_path: Path) -> None:
    outbox = opened(tmp_path, ["a"])
    with pytest.raises(OutboxError, match="is no Arrow stream"):
        stage_and_fail(outbox)
    assert [path for path in outbox.places.staged.rglob("*") if path.is_file()] == []


def stage_and_fail(outbox: Outbox) -> None:
    with Stage(outbox, 0, 0, row_group_bytes=1) as files:
        files.add("a", blob(table(0, [1])))
        assert [path for path in outbox.places.staged.rglob("*") if path.is_file()]
        files.add("a", b"no stream")
