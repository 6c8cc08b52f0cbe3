"""How much memory a process and those below it take: Python that drives Spark, Spark's JVM, Spark's Python workers.

A thread reads ``/proc`` from time to time. The JVM counts with the memory that it has resident. Python processes
are forks of each other and map the same files, so each counts with its share of what several have in common.
Where there is no ``/proc``, nothing is known.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_INTERVAL_SECONDS = 1.0
"""A look takes some milliseconds of processor time, which those who are watched need themselves. The system keeps the
peaks of single processes, so only the peak of all together may be missed in between."""
_WORKER = b"pyspark.worker"
"""In the command of Spark's Python workers and of the process that they are forks of."""


@dataclass(slots=True)
class Peaks:
    """The most bytes that were seen; None: nothing is known.

    Attributes:
        tree: of all processes at the same time.
        jvm: of the JVM.
        worker: of a single Python worker of Spark's, all that it has in common with others included.

    """

    tree: int | None = None
    jvm: int | None = None
    worker: int | None = None


@contextmanager
def watched() -> Iterator[Peaks]:
    """Watch this process and those below it; the peaks are complete when the block ends."""
    peaks, root = Peaks(), _PROC / str(os.getpid())
    if not (root / "smaps_rollup").exists():
        yield peaks
        return
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(_INTERVAL_SECONDS):
            look(root, peaks)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield peaks
    finally:
        ended.set()
        watcher.join()
        look(root, peaks)


def look(root: Path, peaks: Peaks) -> None:
    """Take into account what a process, given by its directory in ``/proc``, and those below it have now."""
    total = 0
    for process in _tree(root):
        try:
            if _is_jvm(process):
                total += _bytes(process / "status", "VmRSS")
                peaks.jvm = max(peaks.jvm or 0, _bytes(process / "status", "VmHWM"))
                continue
            total += _bytes(process / "smaps_rollup", "Pss")
            if _WORKER in (process / "cmdline").read_bytes():
                peaks.worker = max(peaks.worker or 0, _bytes(process / "status", "VmHWM"))
        except (FileNotFoundError, ProcessLookupError):  # it has ended since it was listed
            continue
    peaks.tree = max(peaks.tree or 0, total)


def _is_jvm(process: Path) -> bool:
    return (process / "cmdline").read_bytes().partition(b"\0")[0].endswith(b"/java")


def _tree(root: Path) -> list[Path]:
    """A process and those below it.

    A program that the JVM is about to start is a JVM below the JVM for a moment, with the same memory, and is left out.
    """
    below: dict[str, list[Path]] = {}
    for entry in root.parent.iterdir():
        if entry.name.isdigit() and (parent := _parent(entry)) is not None:
            below.setdefault(parent, []).append(entry)
    found, waiting = [], [(root, False)]
    while waiting:
        process, in_jvm = waiting.pop()
        try:
            is_jvm = _is_jvm(process)
        except (FileNotFoundError, ProcessLookupError):
            continue
        if not (in_jvm and is_jvm):
            found.append(process)
        waiting += [(child, is_jvm) for child in below.get(process.name, ())]
    return found


def _parent(process: Path) -> str | None:
    try:
        text = (process / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text.rpartition(")")[2].split()[1]  # the name before may hold blanks and brackets


def _bytes(file: Path, field: str) -> int:
    """A field of a file of ``/proc``; 0: a process that has ended and was not waited for has none."""
    for line in file.read_text().splitlines():
        name, _, value = line.partition(":")
        if name == field:
            return int(value.split()[0]) * 1024
    return 0
