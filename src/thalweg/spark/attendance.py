"""A batch of a bucket: which resident takes it, and what happens if a query cannot be computed for one of its rows."""

from __future__ import annotations

from pathlib import Path

from thalweg.engine.image.image import mark_dirty
from thalweg.errors import ReaderError
from thalweg.spark.bucket_spec import Arriving, Outcome, Spec
from thalweg.spark.chunks import Log
from thalweg.spark.resident import Resident, tell_of_image


def attend(
    spec: Spec,
    number: int,
    record: str | None,
    arriving: Arriving,
    log: Log,
    directory: Path | None,
    kept: Resident | None = None,
) -> tuple[Resident, Outcome]:
    """Run a batch of a bucket: on the engine as it was committed, or on one built anew.

    A query that cannot be computed for some row of the batch is put out, as if it had left before. Then the batch is
    taken again, by an engine that is built anew: what the first one has done with the rows is gone. Which queries these
    are follows from what was committed and from the batch, and so does all that is done for the others.

    An image is a cache. Whatever happens to its files (a full disk, say), the batch goes on without one.

    Args:
        spec: what the bucket runs.
        number: the bucket's own.
        record: what was committed last; None before the first batch.
        arriving: the batch.
        log: the chunks, as they were committed.
        directory: the caller's alone, for the bucket's image; None: there is no place for one.
        kept: the resident that the caller used last, which may be behind, ahead, or ruined.

    """
    taken = None
    if directory is not None:
        try:
            taken = None if record is None else Resident.take_over(spec, number, record, directory, kept)
            mark_dirty(directory)
        except OSError as error:
            taken = directory = None
            tell_of_image(spec, error)
    if record is None:
        resident = Resident(spec, number)
    else:
        resident = taken or Resident.rebuild(spec, number, record, log, directory)
    failing: dict[str, str] = {}
    while True:
        try:
            outcome = resident.process(arriving, log, failing)
            break
        except ReaderError as error:
            if spec.shared is None or not error.reasons.keys() - failing.keys():
                raise
            failing |= error.reasons
            resident = Resident(spec, number) if record is None else Resident.rebuild(spec, number, record, log)
    if directory is not None:
        try:
            resident.leave_image(directory)
        except OSError as error:
            tell_of_image(spec, error)
    return resident, outcome
