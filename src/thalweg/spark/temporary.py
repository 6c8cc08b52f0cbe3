"""Directories that go with the process."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from pathlib import Path


def temporary_directory(prefix: str) -> Path:
    """A new one, which is removed at the end."""
    made = tempfile.mkdtemp(prefix=prefix)
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return Path(made)
