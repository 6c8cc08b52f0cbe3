"""What a commit does: rows that tasks have staged become visible, exactly once.

Design
    Tasks of a batch stage files under names that no other attempt chooses. The commit runs in one process, in seven
    steps:

    1. Claim the outbox for the query, and refuse a batch that is older than what was published.
    2. See that the files are there, as the tasks left them.
    3. For each reader that has failed in some task: note that, unless it is noted. Files of a reader that has failed,
       in this batch or before, do not count.
    4. For each reader: create the batch's manifest, which names its files, unless there is one.
    5. For each reader: rename the files that the manifest names to their final names.
    6. Mark the batch as done.
    7. Remove what attempts at earlier batches have left. Now and then, fold the manifests of earlier batches into one
       file with their totals.

Invariant
    The manifest decides. It appears whole, once, and never changes. A file becomes visible only if its manifest names
    it, under a name that the manifest gives. So it does not matter how often, or by how many processes, a batch is
    committed. This holds because the rows of a batch are a function of what Spark has committed before and of its
    input. Attempts may cut and order them differently, but for each reader all of them have the same rows.

    Spark commits batch 13 only after the commit of batch 12 has returned. It runs only its last batch again. A crash
    leaves one of these:

    - before step 4, or in the midst of it: some readers have a manifest and the others do not. The batch is run again
      and stages new files. Readers with a manifest get the files that it names, which are of the first attempt. Readers
      without one get one, which names new files.
    - in the midst of step 5: some files have their final names. The batch is run again. Renaming a file that was
      renamed finds nothing to do.
    - before step 6, or after it: the batch is run again, or Spark had noted it down, and it is not.
    - in the midst of step 7: the commit of the next batch goes on with it.

    Which readers fail in a batch follows from its input, as their rows do. So a batch that is run again finds what was
    noted to be true, and a reader that fails has no manifest of that batch.

    If the machine loses its power, what was published is still there: tasks wait until their files are on the disk, and
    step 4 until the manifests are. A rename that is lost is done again, as after any crash.

    Two commits of a batch may run at the same time. A query that is stopped no longer waits for a commit that it has
    begun; that commit may still be running when the query starts again. Only one of the two creates a manifest. Both
    rename the same files, and the slower one finds nothing to do.

    For the same reason nothing is deleted when Spark gives a batch up (``abort``): it does so when it is interrupted
    while it waits for a commit. The manifest that the commit is about to create may name any file of the batch. Files
    of a batch are deleted from the commit of the next one on. Then all manifests of the batch are there, and files that
    they name are renamed, not deleted.

    A file that a manifest names may be in neither place. Then it was visible, and whoever reads the outbox has taken it
    away. It cannot have been lost before: step 2 has seen it, and nothing deletes it.

Cost
    For each reader with rows: two small files (a draft and its link), and a look and a rename for each of its files.
    The disk is waited for three times, and twice for each file. For a batch: a few looks at small directories. Nothing
    grows with the number of earlier batches.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Iterable

from thalweg.errors import OutboxError
from thalweg.spark.outbox.directory import Outbox
from thalweg.spark.outbox.layout import (
    Failure,
    Manifest,
    PublishedFile,
    Staged,
    batch_number,
    published_name,
    reader_name,
)

_log = logging.getLogger("thalweg")

_FOLDED = 64
"""Manifests of a reader that are folded into one file at a time."""
_LOOK_EVERY = 16
"""Batches after which a reader's manifests are counted; those of different readers not in the same batch."""


def publish(outbox: Outbox, query: str, batch: int, staged: Iterable[Staged], failures: Iterable[Failure] = ()) -> None:
    """Publish the files that an attempt at a batch has staged, unless another attempt was first."""
    # 1. Claim.
    outbox.claim(query)
    outbox.check(query, batch)
    by_reader: dict[str, list[Staged]] = {}
    for file in staged:
        by_reader.setdefault(file.reader, []).append(file)
    # 2. Look, before the first manifest is there: what fails here can be done again.
    known = {reader: outbox.manifest(reader, batch) for reader in sorted(by_reader)}
    for reader, manifest in known.items():
        if manifest is None:
            _look(outbox, batch, by_reader[reader])
    # 3. Put out who has failed.
    for failure in failures:
        _put_out(outbox, failure)
    # 4. Decide.
    decided = [
        manifest or _decide(outbox, _manifest(reader, query, batch, by_reader[reader]))
        for reader, manifest in known.items()
        if not _is_out(outbox, by_reader[reader][0])
    ]
    for manifest in decided:
        outbox.files.sync(outbox.places.manifests(manifest.reader))
    # 5. Show.
    for manifest in decided:
        _show(outbox, manifest)
    # 6. Note.
    if outbox.latest() != batch:
        outbox.mark_done(batch)
    # 7. Clean up.
    clean(outbox, batch)
    for manifest in decided:
        if (batch + zlib.crc32(manifest.reader.encode())) % _LOOK_EVERY == 0:
            outbox.fold(manifest.reader, batch, _FOLDED)


def _put_out(outbox: Outbox, failure: Failure) -> None:
    """Let a reader have nothing from this batch on, unless it has failed before: the first one counts.

    One that nobody has opened was never there.
    """
    if not outbox.has(failure.reader):
        return
    latest = outbox.failure(failure.reader)
    if latest is not None and failure.since <= latest.batch:
        return
    path = outbox.places.failure(failure.reader, failure.batch)
    outbox.files.make_directory(path.parent)
    outbox.create(path, failure.to_json(), path.parent)
    outbox.files.sync(path.parent)
    _log.warning("query '%s' has failed in batch %s and ends: %s", failure.reader, failure.batch, failure.reason)


def _is_out(outbox: Outbox, file: Staged) -> bool:
    """Whether a file is of a reader that has failed. One that began later under its name has not."""
    failure = outbox.failure(file.reader)
    return failure is not None and file.since <= failure.batch


def _look(outbox: Outbox, batch: int, staged: Iterable[Staged]) -> None:
    """See that files are where the tasks have left them."""
    for file in staged:
        path = outbox.places.staged_of(batch, file.reader) / file.name
        size = outbox.files.size(path)
        if size != file.size:
            raise OutboxError(
                f"a task has written {file.size:,} bytes of batch {batch} to {path}, and the driver finds "
                f"{'no such file' if size is None else f'{size:,} bytes'} there. This commit has published nothing. "
                "An outbox must be a directory that driver and workers share."
            )


def _manifest(reader: str, query: str, batch: int, staged: list[Staged]) -> Manifest:
    numbers = [file.number for file in staged]
    if len(set(numbers)) < len(numbers):
        raise OutboxError(
            f"batch {batch} has two files for reader {reader!r} from one task: {sorted(numbers)}. A batch has one "
            "attempt of each task."
        )
    return Manifest(
        reader,
        batch,
        query,
        tuple(
            PublishedFile(published_name(batch, file.number), file.name, file.rows, file.size)
            for file in sorted(staged, key=lambda file: file.number)
        ),
    )


def _decide(outbox: Outbox, manifest: Manifest) -> Manifest:
    """The manifest that counts: this one, if it is the first."""
    path = outbox.places.manifest(manifest.reader, manifest.batch)
    drafts = outbox.places.staged_of(manifest.batch, manifest.reader)
    if outbox.create(path, manifest.to_json(), drafts):
        return manifest
    first = outbox.manifest(manifest.reader, manifest.batch)
    if first is None:
        raise OutboxError(f"{path} was there, and is gone. Nothing but the outbox itself may change its manifests.")
    return first


def _show(outbox: Outbox, manifest: Manifest) -> None:
    """Give files their final names; those that have been given theirs are no longer where they were staged."""
    staged = outbox.places.staged_of(manifest.batch, manifest.reader)
    for file in manifest.files:
        outbox.files.move(staged / file.staged, outbox.places.reader(manifest.reader) / file.name)


def clean(outbox: Outbox, batch: int) -> None:
    """Remove what attempts at batches before this one have left, and the marks of those."""
    files, places = outbox.files, outbox.places
    for name in files.names(places.staged):
        number = batch_number(name)
        if number is not None and number < batch:
            for folder in files.names(places.staged / name):
                _clean_folder(outbox, reader_name(folder), number)
            files.remove_directory(places.staged / name)
    for name in files.names(places.done):
        number = batch_number(name)
        if number is not None and number < batch:
            files.remove(places.done / name)


def _clean_folder(outbox: Outbox, reader: str, batch: int) -> None:
    """Remove what is left of a batch for a reader; what the manifest names is shown, should it still be here."""
    folder = outbox.places.staged_of(batch, reader)
    manifest = outbox.manifest(reader, batch)
    if manifest is not None:
        _show(outbox, manifest)
    for name in outbox.files.names(folder):
        outbox.files.remove(folder / name)
    outbox.files.remove_directory(folder)
