"""What Spark's Python workers are spared.

After every task a worker collects garbage. It looks at every object that it holds, which, with the modules that we
load, takes 50 milliseconds and more: longer than a task of a small batch, of which there are eight in a join of four
streams. So what is loaded is exempted, once, when all that a task needs is there. Garbage that later tasks leave is
collected as before.
"""

from __future__ import annotations

import gc

_LOADED_AFTER = 2
"""Tasks of ours after which a worker has loaded what it needs: the second one takes over what the first has left."""

_tasks = 0


def task_done() -> None:
    """To be called at the end of every task of ours."""
    global _tasks
    _tasks += 1
    if _tasks == _LOADED_AFTER:
        gc.collect()
        gc.freeze()
