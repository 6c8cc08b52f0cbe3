"""Where a run of one query keeps its checkpoint, and finds its commands."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from thalweg.cli.connectors import Sink


@dataclass(frozen=True, slots=True)
class RunPlaces:
    """Where a run keeps its checkpoint and finds its commands.

    ``lasting``: the commands outlive the run; ``is_temporary``: the checkpoint does not.
    """

    checkpoint: str
    commands: Path
    lasting: bool = True
    is_temporary: bool = False


@contextmanager
def run_places(sink: Sink, checkpoint: str | None, directory: Path | None) -> Iterator[RunPlaces]:
    """The places of a run; temporary ones where its results are not kept either."""
    from thalweg.errors import OptionError

    if checkpoint is not None and "://" in checkpoint:
        if directory is None:
            raise OptionError(f"the checkpoint {checkpoint} is not on this machine. Add a --directory that is.")
        yield RunPlaces(checkpoint, directory.absolute())
        return
    scratch = None
    if checkpoint is not None:
        kept = Path(checkpoint).expanduser().absolute()
    elif sink.directory is not None:
        kept = sink.directory / "_checkpoint"
    else:
        kept = scratch = Path(tempfile.mkdtemp(prefix="thalweg-run-"))
    try:
        commands = directory.absolute() if directory is not None else kept / "thalweg"
        is_temporary = scratch is not None
        yield RunPlaces(str(kept), commands, directory is not None or not is_temporary, is_temporary)
    finally:
        if scratch is not None:
            shutil.rmtree(scratch, ignore_errors=True)  # Spark may still be leaving
