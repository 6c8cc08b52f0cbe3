"""Where the live engines of a host's buckets lie, for whichever worker gets the next batch.

One directory per bucket of a running query, among the executor's local files, so it goes when the executor goes.
One worker at a time may use it: a second attempt at the same batch (a speculative task, say) finds
it taken, works from the log alone, and leaves no trace.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_ABANDONED_SECONDS = 3600.0
"""How long engines that nobody has used are left lying; one that is missed after all is built anew."""


def local_directory() -> Path:
    """The executor's own directory, as Spark tells its workers; elsewhere, the user's among temporary files."""
    given = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]
    return Path(given) / "thalweg" if given else Path(tempfile.gettempdir()) / f"thalweg-{os.getuid()}"


@contextmanager
def lodge(identity: str, bucket: int) -> Iterator[Path | None]:
    """The directory of a bucket, for the caller alone; None if another process has it."""
    query = local_directory() / identity
    if not query.exists():
        _clear_abandoned(query.parent)
    query.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    directory = query / str(bucket)
    directory.mkdir(parents=True, exist_ok=True)
    with (query / f"{bucket}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
        else:
            yield directory


def _clear_abandoned(root: Path) -> None:
    long_ago = time.time() - _ABANDONED_SECONDS
    for query in root.glob("*"):
        locks = [lock.stat().st_mtime for lock in query.glob("*.lock")]
        if locks and max(locks) < long_ago:
            shutil.rmtree(query, ignore_errors=True)  # another worker may be clearing it too
