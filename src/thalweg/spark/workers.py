"""What Spark's Python workers are spared.

After every task, a worker collects garbage: it looks at every object that it holds, which with the modules that we load
takes 50 milliseconds and more, longer than the task itself in a small batch. A micro-batch has a dozen tasks. So what
is loaded is exempted, once, when everything that a task needs is there; garbage that later tasks leave is collected as
before.
"""

from __future__ import annotations

import gc

_LOADED_AFTER = 2
"""Tasks of ours after which a worker has loaded all that it needs: the second one takes over what the first left."""

_tasks = 0


def task_done() -> None:
    """To be called at the end of every task of ours."""
    global _tasks
    _tasks += 1
    if _tasks == _LOADED_AFTER:
        gc.collect()
        gc.freeze()
