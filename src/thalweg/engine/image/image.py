"""A bucket's live state as an image in a directory, which any process of the host can take over.

On a cluster, whichever worker process of a host is free gets a bucket's next batch. It must go on where
the last one stopped, without building anything anew.

Design
    What is large lies in files that are mapped: the join's memory, and the payload in chunks. A batch changes them in
    place, and writing an image does not touch them. What is small is written as one file, a new one every
    time. Processes of one host share the page cache, so nothing is ever flushed to disk.

Invariant
    The stamp file names what the directory is an image of. It is there only while everything else is complete and
    at rest: :func:`mark_dirty` takes it away before a batch changes anything, and :func:`write_image` puts it
    back as its last act. A process that dies between the two leaves a directory that nobody trusts; the bucket is then
    rebuilt from the input. One process at a time works on a bucket: its owner sees to that.

Cost
    For a join of RANGE windows with ISTREAM, what is small depends on the query alone, so handing over takes the same
    short time however much the windows hold; besides, each new row of payload is written once, and a few times
    more when chunks are merged. Aggregates, DSTREAM, partitioned ROWS windows and set differences write what
    they hold beside the windows.
"""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from thalweg.cql.query import Query
from thalweg.engine.image.snapshot import Mismatch, Restoration, Snapshot
from thalweg.engine.storage.image_files import is_part, new_part
from thalweg.policies import DEFAULT_POLICIES, Policies

FORMAT = 14
"""The version of everything in a directory; raised whenever a class changes what its ``__image__`` means."""
_STAMP = "stamp"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class ImageTag:
    """What a bucket knows of its image: whose it is, and which one the bucket was last equal to.

    ``served``: what else an image must have in common with a bucket that takes it over.
    """

    def __init__(self, query: Query, policies: Policies = DEFAULT_POLICIES, served: object = ()) -> None:
        self._query = query
        self._served = served
        # The others change nothing that lasts.
        is_budgeted = policies.budget is not None
        self._policies = (policies.migration, policies.production, policies.sharing, is_budgeted)
        self.name: str | None = None

    @cached_property
    def query(self) -> str:
        """A digest of the bound query: its text, the types and windows that it was bound to, and its policies."""
        return hashlib.sha256(repr((self._query, self._policies, self._served)).encode()).hexdigest()


class Imaged(Protocol):
    """A bucket, as far as its images are concerned. Its class declares what lasts."""

    image: ImageTag


def mark_dirty(directory: Path) -> None:
    """Say that the directory is no image, before anything changes what is mapped from it."""
    (directory / _STAMP).unlink(missing_ok=True)


def live_in(directory: Path, bucket: Imaged) -> None:
    """Let a new bucket have its memory in files of the directory from the beginning. That is no image yet."""
    directory = directory.absolute()
    directory.mkdir(parents=True, exist_ok=True)
    Snapshot(directory, bucket)


def write_image(directory: Path, bucket: Imaged, stamp: str) -> None:
    """Make the directory an image of the bucket, known by ``stamp``.

    Everything that :meth:`~thalweg.engine.bucket.AnyBucket.advance` yields must have been taken. The first time, the
    bucket's memory moves into the directory, to be changed in place from then on; so :func:`mark_dirty` before every
    change. (Even :meth:`~thalweg.engine.bucket.AnyBucket.sizes` is one: it sweeps out what has expired. Ask for sizes
    before writing.)

    OSError: there is no room, or no such place any more. Then there is no image, and what it would have taken up is
    free again once the bucket is gone. The bucket itself is unharmed.
    """
    bucket.image.name = None
    try:
        _write(directory.absolute(), bucket, stamp)
    except OSError:
        _clear(directory, set())
        raise


def _write(directory: Path, bucket: Imaged, stamp: str) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    snapshot = Snapshot(directory, bucket)
    part = new_part(directory)
    size, checksum = 0, 0
    with part.open("wb") as file:
        for piece in snapshot.pieces():
            file.write(piece)
            size += len(piece)
            checksum = zlib.crc32(piece, checksum)
    content = {
        **_identity(bucket, stamp),
        "image": part.name,
        "size": size,
        "checksum": checksum,
    }
    new = directory / f"{_STAMP}.new"
    new.write_text(json.dumps(content))
    new.replace(directory / _STAMP)
    bucket.image.name = part.name
    _clear(directory, {part.name, *snapshot.files})


def read_image(directory: Path, bucket: Imaged, stamp: str) -> bool:
    """Make the bucket what the directory is an image of; says whether it could.

    ``bucket`` may be new or have any past, under any plan, as long as it is one of the same query. If the directory is
    no image with this stamp (marked dirty, of another query or version, damaged, or not there), the
    bucket stays as it is.

    OSError: a file went away meanwhile. Then the bucket is half changed, and of no use but to read another image.
    """
    directory = directory.absolute()
    try:
        content = json.loads((directory / _STAMP).read_bytes())
        if not isinstance(content, dict) or not _identity(bucket, stamp).items() <= content.items():
            return False
        if content["image"] == bucket.image.name:
            return True
        data = (directory / content["image"]).read_bytes()
        if len(data) != content["size"] or zlib.crc32(data) != content["checksum"]:
            return False
        restoration = Restoration(directory, data, bucket)
    except (OSError, ValueError, KeyError, TypeError, RecursionError, Mismatch):
        # Whatever is wrong with the files, they are not the image that was asked for. Nothing has been changed.
        return False
    bucket.image.name = None  # until all of it is there, in case memory or a file is lost half way
    restoration.apply()
    bucket.image.name = content["image"]
    return True


def _identity(bucket: Imaged, stamp: str) -> dict[str, Any]:
    """What must be the same when an image is written and when it is read."""
    return {"format": FORMAT, "boot": _boot(), "query": bucket.image.query, "stamp": stamp}


def _boot() -> str:
    """Which run of the machine this is: after a crash of the machine, mapped files may be of any age."""
    return _BOOT_ID.read_text().strip() if _BOOT_ID.exists() else ""


def _clear(directory: Path, keep: set[str]) -> None:
    """Delete the files of earlier images; whoever still maps one is not disturbed."""
    if not directory.exists():
        return
    with os.scandir(directory) as entries:
        for entry in entries:
            if is_part(entry.name) and entry.name not in keep:
                Path(entry.path).unlink(missing_ok=True)
