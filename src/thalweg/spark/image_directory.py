"""Where the live engines of a host's buckets lie, for whichever worker gets the next batch.

One directory per bucket of a checkpoint, among the executor's local files, so it goes when the executor goes, and a
restart finds the place taken by itself. One worker at a time may use it: a second attempt at the same batch (a
speculative task, say) finds it taken, works from the log alone, and leaves no trace.

A bucket's directory is used, and cleared, only under its lock: a file beside it. A lock that was cleared away before
it was taken is none, so whoever takes one looks whether its file is still in place.

Where no directory can be made, or someone else could write to it, there is none: engines are then built from the log.
"""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

_ABANDONED_SECONDS = 3600.0
"""How long engines that nobody has used are left lying; one that is missed after all is built anew."""
_LOCK = ".lock"
_TRIES = 10
"""To take a lock that others clear away. They clear what is old, so the second try finds it in place."""

_log = logging.getLogger(__name__)
_told: set[str] = set()


def local_directory() -> Path:
    """The executor's own directory, as Spark tells its workers; elsewhere, the user's among temporary files."""
    given = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]
    return Path(given) / "thalweg" if given else Path(tempfile.gettempdir()) / f"thalweg-{os.getuid()}"


@contextmanager
def image_directory(checkpoint: str, bucket: int) -> Iterator[Path | None]:
    """The directory of a bucket, for the caller alone; None if another process has it, or there is none.

    ``checkpoint`` is the id of the bucket's query, which Spark keeps in the checkpoint.
    """
    with ExitStack() as held:
        try:
            directory = _take(local_directory(), checkpoint, bucket, held)
        except OSError as error:
            tell_once(f"live engines are not kept on this host: {error.strerror or error}")
            directory = None
        yield directory


def tell_once(text: str) -> None:
    """Warn of something that every batch would meet again; it is said once by each worker."""
    if text not in _told:
        _told.add(text)
        _log.warning("%s", text)


def _take(root: Path, checkpoint: str, bucket: int, held: ExitStack) -> Path | None:
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    _check_owner(root)
    query = root / checkpoint
    if not query.exists():
        _clear_abandoned(root)
    for _ in range(_TRIES):
        query.mkdir(mode=0o700, exist_ok=True)
        try:
            is_free = _locked(query / f"{bucket}{_LOCK}", held)
        except FileNotFoundError:  # an empty directory was cleared away between the two
            continue
        if is_free:
            directory = query / str(bucket)
            directory.mkdir(mode=0o700, exist_ok=True)
            return directory
        if is_free is False:
            return None
    return None


def _check_owner(root: Path) -> None:
    """Among temporary files anyone may have made a directory of any name, or a link to another."""
    found = root.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(f"{root} is not a directory")
    if found.st_uid != os.geteuid():
        raise PermissionError(f"{root} belongs to the user with the number {found.st_uid}")
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(f"others can write to {root}")


def _locked(path: Path, held: ExitStack) -> bool | None:
    """Take a lock until ``held`` ends; whether it was free, and None if it was cleared away by then: try again."""
    with ExitStack() as undo:
        lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        undo.callback(os.close, lock)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        if not _is_in_place(lock, path):
            return None
        os.utime(lock)
        held.push(undo.pop_all())
    return True


def _is_in_place(lock: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(lock), path.stat())
    except FileNotFoundError:
        return False


def _clear_abandoned(root: Path) -> None:
    """Delete the engines that nobody has used for long, each under its lock, and directories that are empty then."""
    for query in root.iterdir():
        for path in query.glob(f"*{_LOCK}"):
            _clear_bucket(path)
        with suppress(OSError):  # some engine of it is in use
            query.rmdir()


def _clear_bucket(path: Path) -> None:
    with ExitStack() as undo:
        try:
            lock = os.open(path, os.O_RDWR)
            undo.callback(os.close, lock)
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (FileNotFoundError, BlockingIOError):  # cleared by another, or in use
            return
        if _is_in_place(lock, path) and os.fstat(lock).st_mtime < time.time() - _ABANDONED_SECONDS:
            shutil.rmtree(path.with_suffix(""), ignore_errors=True)  # it may never have been made
            path.unlink()
