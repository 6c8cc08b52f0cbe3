"""Spark's Python workers: started early, and spared what they need not do.

After every task a worker collects garbage. It looks at every object that it holds, which, with the modules that we
load, takes 50 milliseconds and more: longer than a task of a small batch, of which there are eight in a join of four
streams. So what is loaded is exempted, once, when all that a task needs is there. Garbage that later tasks leave is
collected as before.
"""

from __future__ import annotations

import gc
import logging
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import SparkSession

_LOADED_AFTER = 2
"""Tasks of ours after which a worker has loaded what it needs: the second one takes over what the first has left."""

_tasks = 0
_started: set[str] = set()
"""The Sparks whose workers were started early."""


def task_done() -> None:
    """To be called at the end of every task of ours."""
    global _tasks
    _tasks += 1
    if _tasks == _LOADED_AFTER:
        gc.collect()
        gc.freeze()


def start_early(spark: SparkSession) -> None:
    """Have Spark start its Python workers now, while the query is still being put together.

    The job that does it has nothing to compute, and runs once in a Spark. If it fails (the session ends meanwhile,
    say), workers start when they are needed.
    """
    application = str(spark.sparkContext.applicationId)
    if application in _started:
        return
    _started.add(application)
    threading.Thread(target=_start, args=(spark,), name="thalweg-start-workers", daemon=True).start()


def _start(spark: SparkSession) -> None:
    tasks = spark.sparkContext.defaultParallelism
    try:
        spark.range(0, tasks, 1, tasks).mapInArrow(_as_they_are, "id BIGINT").write.format("noop").mode(
            "overwrite"
        ).save()
    except Exception as error:
        logging.getLogger(__name__).info("Python workers were not started early: %s", error)


def _as_they_are(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches
