"""The files that make up an image (:mod:`thalweg.engine.image.image`).

Every file has a name of its own for ever: what a process still maps is never written over by another.
"""

from __future__ import annotations

import secrets
from pathlib import Path

_SUFFIX = ".part"


def new_part(directory: Path) -> Path:
    """A file name that nobody has used before."""
    return directory / f"{secrets.token_hex(12)}{_SUFFIX}"


def is_part(name: str) -> bool:
    """Whether a file of this name was made here, and may be deleted."""
    return name.endswith(_SUFFIX)


def is_kept_in(directory: Path, part: Path | None) -> bool:
    """Whether a part is a file of this directory, and nobody has deleted it."""
    return part is not None and part.parent == directory and part.exists()
