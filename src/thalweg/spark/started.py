"""The runs of an app that have been started, as queries of Spark."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from pyspark.sql.streaming.query import StreamingQuery

from thalweg.spark.queries_file import Running

_LOOK_SECONDS = 0.2
"""Between two looks at runs that somebody waits for: a call of the JVM for each."""


@dataclass(slots=True)
class Started:
    """What :meth:`thalweg.App.start` returns: the runs, by their names, as queries of Spark.

    Attributes:
        runs: each serves the registered queries over one join.
        sinks: those that write to a directory of the user's, by the names of registered queries.
        right: to run the queries of the directory. It is given back when all runs have been stopped, or waited for.

    """

    right: Running
    runs: dict[str, StreamingQuery] = field(default_factory=dict)
    sinks: dict[str, StreamingQuery] = field(default_factory=dict)

    @property
    def is_active(self) -> bool:
        """Whether one of the runs goes on."""
        return any(query.isActive for query in self.runs.values())

    def processAllAvailable(self) -> None:  # noqa: N802 - as Spark's own
        """Wait until everything that is there now has been taken. The error of a run, or of a sink, that failed."""
        for query in (*self.runs.values(), *self.sinks.values()):
            query.processAllAvailable()

    def awaitTermination(self, timeout: float | None = None) -> bool:  # noqa: N802 - as Spark's own
        """Wait until all runs have ended, or so many seconds; whether they have. The error of one that failed.

        Runs end by themselves under the trigger ``availableNow``. Then the sinks deliver what is left, and end too.
        """
        end = None if timeout is None else time.monotonic() + timeout
        while not self._have_ended():
            left = _LOOK_SECONDS if end is None else end - time.monotonic()
            if left <= 0:
                return False
            time.sleep(min(left, _LOOK_SECONDS))
        try:
            for query in self.sinks.values():
                query.processAllAvailable()
        finally:
            self.stop()
        return True

    def _have_ended(self) -> bool:
        """Whether no run goes on any more. The error of one that failed, though others go on."""
        runs = list(self.runs.values())  # a query that comes meanwhile may bring another
        ended = [query for query in runs if not query.isActive]
        for query in ended:
            query.awaitTermination()  # at once
        return len(ended) == len(runs)

    def stop(self) -> None:
        """Stop all runs and sinks. They go on from here when they are started again."""
        for query in (*self.runs.values(), *self.sinks.values()):
            query.stop()
        self.right.release()
