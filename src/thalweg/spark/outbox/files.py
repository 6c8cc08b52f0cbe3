"""What an outbox does with files, in one small class, so that other file systems can follow.

Each function is one step that a crash cannot divide: what it does is there as a whole, or not at all. The exception is
a file that is being written for the first time (:meth:`LocalFiles.write`). Nothing reads such a file before something
else names it.

A process may die at any moment. That the machine loses its power is another matter: only what was waited for
(:meth:`LocalFiles.sync`) is there afterwards.
"""

from __future__ import annotations

import errno
import os
import re
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

from thalweg.errors import OutboxError

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
_PATTERN = re.compile(r"[\[\]{}*?\\]")
"""Spark takes a path with one of these for a pattern. Escaped, its stream of files yields every row several times."""
_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS}
"""What file systems say that have no hard links."""


def local(directory: str | Path) -> Path:
    """A directory as an absolute path; an error if it is an address, or Spark would misread it."""
    if _ADDRESS.match(str(directory)):
        raise OutboxError(
            f"an outbox is a directory that driver and workers reach by the same path, and {str(directory)!r} is an "
            "address. Mount it, and give the path."
        )
    path = Path(directory).absolute()
    if found := _PATTERN.search(str(path)):
        raise OutboxError(
            f"an outbox cannot be at {path}: Spark takes a path with {found[0]!r} for a pattern. Choose a path without "
            "any of [ ] { } * ? \\ in it."
        )
    return path


class LocalFiles:
    """Files that all processes reach by path: on one machine, or on a file system that they share."""

    def names(self, directory: Path) -> list[str]:
        """What is in a directory, in order of the names; nothing if there is no directory."""
        try:
            return sorted(os.listdir(directory))  # noqa: PTH208 - names are all that is needed
        except FileNotFoundError:
            return []

    def read(self, path: Path) -> bytes | None:
        """A whole file; None if there is none."""
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None

    def size(self, path: Path) -> int | None:
        """How many bytes a file has; None if there is none."""
        try:
            return path.stat().st_size
        except FileNotFoundError:
            return None

    def make_directory(self, path: Path) -> None:
        """Make a directory, and those above it, unless they are there."""
        path.mkdir(parents=True, exist_ok=True)

    def open(self, path: Path) -> pa.NativeFile:
        """A file to be written piece by piece."""
        return pa.OSFile(str(path), "wb")

    def write(self, path: Path, data: bytes) -> None:
        """Write a file that nothing names yet; a crash may leave a part of it."""
        path.write_bytes(data)

    def sync(self, path: Path) -> None:
        """Wait until a file, or which names a directory has, is on the disk, and would survive a loss of power."""
        try:
            held = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            return  # somebody has taken it away
        try:
            os.fsync(held)
        finally:
            os.close(held)

    def link(self, draft: Path, path: Path) -> bool:
        """Give a file that is whole a second name, unless something has that name; whether it got it."""
        try:
            path.hardlink_to(draft)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            raise OutboxError(
                f"the file system of {path} has no hard links ({error.strerror}), and an outbox needs them: a manifest "
                "appears whole, and only if there is none. Put the outbox on another file system."
            ) from error
        return True

    def move(self, source: Path, target: Path) -> bool:
        """Rename a file in one step; False if there is no such file."""
        try:
            source.replace(target)
        except FileNotFoundError:
            return False
        return True

    def remove(self, path: Path) -> None:
        """Remove a file, unless it is gone."""
        path.unlink(missing_ok=True)

    def remove_directory(self, path: Path) -> None:
        """Remove a directory if it is empty: a task whose attempt is lost may still write to it."""
        with suppress(FileNotFoundError):
            try:
                path.rmdir()
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
