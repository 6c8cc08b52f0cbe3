"""Spark's Python daemon, with everything loaded that a worker of ours needs.

Spark forks its Python workers from a daemon. Its own daemon has loaded next to nothing, so every worker loads
libraries and kernels by itself: seconds, in the first batch of a query, and again whenever a worker was idle for a
minute and its successor has to start. Workers of this daemon begin with all of it.

Setting ``spark.python.daemon.module`` to this module turns it on, before Spark starts; a session of
:func:`thalweg.spark.session.local_session` has it. Whatever else runs Python in that Spark gets the same workers.

PySpark imports nothing before it forks, because some libraries start threads, and a fork copies no threads. Here, one
thread is there when workers are forked: the one that jemalloc, inside of pyarrow, frees memory in. It is prepared for
forks. :func:`load` sees to it that there is no other.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import traceback
from importlib import import_module
from pathlib import Path

from pyspark import daemon

_NEEDED = ("pyspark.worker", "thalweg.spark.bucket_task", "thalweg.spark.packing")
_KNOWN_THREADS = {"jemalloc_bg_thd"}


def load() -> None:
    """Load libraries and kernels; an error if that has started threads that a fork would not copy."""
    os.environ.setdefault(
        "OPENBLAS_NUM_THREADS", "1"
    )  # numpy would start threads for linear algebra, which we have not
    for module in _NEEDED:
        import_module(module)
    from thalweg.engine.compilation import load_kernels

    load_kernels()
    gc.collect()
    gc.freeze()  # workers share these pages for as long as nobody looks at them
    if others := _other_threads():
        raise RuntimeError(f"loading thalweg has started the threads {', '.join(others)}, which no fork survives")


def _other_threads() -> list[str]:
    """The names of threads besides the main one that are not known to survive a fork; none where nobody can tell."""
    if sys.platform != "linux":
        return []
    threads = [thread for thread in Path("/proc/self/task").iterdir() if thread.name != str(os.getpid())]
    names = [(thread / "comm").read_text().strip() for thread in threads]
    return [name for name in names if name not in _KNOWN_THREADS]


def main() -> None:
    """Load, and fork workers; if loading fails, become Spark's own daemon, whose workers load for themselves."""
    try:
        load()
    except Exception:
        traceback.print_exc()
        print("thalweg: workers could not be loaded in advance and load for themselves", file=sys.stderr, flush=True)
        os.execv(sys.executable, [sys.executable, "-m", daemon.__name__, *sys.argv[1:]])  # noqa: S606 - Spark's own
    # A worker takes SIGINT as Python does, and Ctrl-C in a terminal goes to all processes there. So workers would leave
    # a batch that the driver wants to end well.
    signal.default_int_handler = signal.SIG_IGN  # type: ignore[assignment] # Spark's daemon sets what it finds here
    daemon.manager()


if __name__ == "__main__":
    main()
