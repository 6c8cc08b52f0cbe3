"""Getting the kernels ready, whatever an older version left on disk."""

from __future__ import annotations

import io
import os
import pickle
import subprocess
import sys
from pathlib import Path

READY = "from thalweg.engine.compilation import ready_kernels; ready_kernels(); print('ready')"


def ready(cache: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    return subprocess.run([sys.executable, "-c", READY], env=environment, capture_output=True, text=True, check=False)


def test_a_cache_of_types_that_are_gone_is_replaced(tmp_path: Path) -> None:
    first = ready(tmp_path)
    assert first.stdout == "ready\n", first.stderr
    index = next(tmp_path.rglob("machine.run-*.nbi"))
    stale = numba_version(index.read_bytes()) + b"cthalweg.engine.kernels.machine\nGone\n."
    index.write_bytes(stale)
    again = ready(tmp_path)
    assert again.stdout == "ready\n", again.stderr
    assert index.read_bytes() != stale


def numba_version(index: bytes) -> bytes:
    """The pickled version of numba at the head of a cache's index."""
    stream = io.BytesIO(index)
    pickle.load(stream)  # noqa: S301 - numba's own file, written by this test
    return index[: stream.tell()]
