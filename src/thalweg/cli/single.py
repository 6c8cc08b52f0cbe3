"""``thalweg run`` of one query: how it is made ready."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thalweg.cli.connectors import Sink
from thalweg.cli.console import activity
from thalweg.cli.job import Job, Stream, prepare
from thalweg.cli.run_places import RunPlaces
from thalweg.cli.spark_console import spark_failures, start_spark
from thalweg.cli.watch import Interruption

if TYPE_CHECKING:
    from thalweg.options import Options


@dataclass(frozen=True, slots=True)
class Single:
    """A query that is to run; ``settings`` are Spark's."""

    text: str
    name: str
    streams: Mapping[str, Stream]
    options: Options
    sink: Sink
    places: RunPlaces
    pace: Mapping[str, Any]
    log: Path | None
    settings: Mapping[str, str]

    def run(self, wish: Interruption, *, once: bool, ends: bool) -> bool:
        """Run it; whether someone interrupted that.

        What a temporary checkpoint holds back is lost, for nothing can come after this run. So there the input ends.
        """
        from thalweg.engine.compilation import ready_kernels

        # Compiled here if need be; the workers find them on disk.
        ready_kernels(feedback=self.options.feedback is not None, budget=self.options.has_budget)
        if wish.asked:
            return True
        places, told = self.places, self.log if self.places.lasting else None
        with spark_failures(told):
            spark = start_spark(self.log, self.settings)
            if wish.asked:
                return True
            with activity() as doing:
                doing("opening the streams")
                app, query, answer = prepare(spark, self.text, self.name, self.streams, self.options, places.commands)
        job = Job(app, query, answer, self.sink, places.checkpoint, self.pace, places.commands, told)
        return wish.asked or job.run(wish, once=once, ends=ends or (once and places.is_temporary))
