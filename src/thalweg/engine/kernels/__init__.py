"""Compiled kernels, one module for each concern.

What is compiled is cached beside the sources. numba compiles a kernel anew when its own source has changed, but does
not see that another module's constants or helpers have; so when any of the sources is another than when they were
last used, the whole cache goes.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

_SOURCES = Path(__file__).parent


def _forget_outdated(sources: Path) -> None:
    """Remove the cache of other sources; where nothing can be written, there is none."""
    stats = [(path.name, path.stat()) for path in sorted(sources.glob("*.py"))]
    known = "\n".join(f"{name} {stat.st_mtime_ns} {stat.st_size}" for name, stat in stats)
    cache = sources / "__pycache__"
    record = cache / "kernels.sources"
    with contextlib.suppress(OSError):
        if record.exists() and record.read_text() == known:
            return
        for path in cache.glob("*.nb[ci]"):
            path.unlink(missing_ok=True)
        cache.mkdir(exist_ok=True)
        record.write_text(known)


_forget_outdated(_SOURCES)
