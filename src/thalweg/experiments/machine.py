"""What a measurement was made on: enough to compare, nothing that names the place."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path

from thalweg.experiments.experiment import Value

_GIBIBYTE = 2**30
_LIBRARIES = ("numba", "duckdb", "pyarrow", "numpy")


def describe() -> dict[str, Value]:
    """Cores, processor, memory and the versions of what does the work.

    >>> describe()["cores"] >= 1
    True
    """
    return {
        "cores": cores(),
        "cpu": _processor(),
        "memory_gib": round(memory() / _GIBIBYTE, 1),
        "python": platform.python_version(),
        **{library: version(library) for library in _LIBRARIES},
    }


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def memory() -> int:
    """The bytes of memory that this machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text().splitlines():
            field, _, value = line.partition(":")
            if field.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine()


def peak_memory() -> int:
    """The most memory that this process has held so far, in bytes.

    Linux' high-water mark belongs to the program, whereas ``ru_maxrss`` of a child starts
    at what its parent held when it was started.
    """
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    from resource import RUSAGE_SELF, getrusage

    peak = getrusage(RUSAGE_SELF).ru_maxrss
    return peak if platform.system() == "Darwin" else peak * 1024
