"""Where compiled kernels are kept on disk, and which of them still fit.

numba keeps a compiled function under a hash of the file that it is in. It does not see that a constant or a helper in
another file has changed. So kernels lie in a directory that is named after the sources of all of them: kernels of
another version of thalweg are never found.

numba refuses to compile a function for its cache if it cannot write to one. Here, a cache is a convenience. The first
of these places is used that can be written to, or that holds the kernels of these sources already (in an image that
was built with them, and is read-only now). If there is none, kernels are compiled by every process.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import Any

from numba.core import config
from numba.core.caching import CompileResultCacheImpl, FunctionCache, _CacheLocator
from numba.core.dispatcher import Dispatcher

_SOURCES = Path(__file__).parent
_NAME = "thalweg-kernels-"
_log = logging.getLogger(__name__)


def keep_on_disk(kernel: Any, function: Callable[..., Any]) -> None:
    """Have a kernel loaded from the cache, and put there when it was compiled; if there is a cache."""
    if isinstance(kernel, Dispatcher) and directory() is not None:  # no dispatcher: numba was told not to compile
        kernel._cache = _KernelCache(function)  # type: ignore[attr-defined] # there is no public way


@functools.cache
def directory() -> Path | None:
    """The directory of these kernels; None if they cannot be kept."""
    name = _NAME + _digest()
    for place in _places():
        kept = place / name
        if _is_writable(kept) or _has_kernels(kept):
            if place == _beside_sources():
                _forget_others(kept)
            return kept
    _log.warning(
        "no directory for compiled kernels can be written to, so every process compiles them: some 20 seconds each. "
        "Set NUMBA_CACHE_DIR to a directory that can."
    )
    return None


def _places() -> Iterator[Path]:
    if given := getattr(config, "CACHE_DIR", None):  # numba's settings are made when it is loaded
        yield Path(given)
    yield _beside_sources()
    with suppress(RuntimeError):  # a user without a home directory
        yield Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "thalweg"
    if executor := os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]:
        yield Path(executor)


def _beside_sources() -> Path:
    return _SOURCES / "__pycache__"


@functools.cache
def _digest() -> str:
    """A short text that other sources would not have, whether they are files or in an archive."""
    sources = sorted((each for each in files(__package__).iterdir() if each.name.endswith(".py")), key=lambda s: s.name)
    digest = hashlib.sha256()
    for source in sources:
        body = source.read_bytes()
        digest.update(f"{source.name} {len(body)}\n".encode() + body)
    return digest.hexdigest()[:16]


def _is_writable(kept: Path) -> bool:
    try:
        kept.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=kept):
            return True
    except OSError:
        return False


def _has_kernels(kept: Path) -> bool:
    try:
        return any(kept.glob("*/*.nbi"))
    except OSError:  # a directory on the way to it cannot be looked into
        return False


def _forget_others(kept: Path) -> None:
    """Remove kernels of other sources from beside the sources; nobody will look for them any more."""
    with suppress(OSError):
        for other in kept.parent.iterdir():
            if other.name.startswith(_NAME) and other != kept:
                shutil.rmtree(other, ignore_errors=True)
            elif other.suffix in (".nbi", ".nbc", ".sources"):
                other.unlink(missing_ok=True)


class _KernelLocator(_CacheLocator):
    """Tells numba where a kernel is kept."""

    def __init__(self, function: Callable[..., Any], file: str, kept: Path) -> None:
        self._line = function.__code__.co_firstlineno
        self._py_file = file  # where numba's warnings point
        self._kept = kept / Path(file).parent.name

    @classmethod
    def from_function(cls, function: Callable[..., Any], file: str) -> _KernelLocator | None:
        kept = directory()
        return None if kept is None else cls(function, file, kept)

    def get_cache_path(self) -> str:
        return str(self._kept)

    def get_source_stamp(self) -> str:
        """The directory stands for all sources of this package; kernels elsewhere have a file of their own."""
        file = Path(self._py_file)
        is_elsewhere = file.parent != _SOURCES and file.exists()
        return hashlib.sha256(file.read_bytes()).hexdigest() if is_elsewhere else _digest()

    def get_disambiguator(self) -> str:
        return str(self._line)


class _KernelCacheImpl(CompileResultCacheImpl):
    _locator_classes = [_KernelLocator]  # type: ignore[list-item] # noqa: RUF012 - as numba declares it


class _KernelCache(FunctionCache):
    """A cache that may be read-only, or on a full disk: then what is compiled is not kept."""

    _impl_class = _KernelCacheImpl

    def save_overload(self, sig: Any, data: Any) -> None:
        with suppress(OSError):
            super().save_overload(sig, data)

    def flush(self) -> None:
        try:
            super().flush()
        except OSError:
            self.disable()
