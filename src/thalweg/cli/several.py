"""``thalweg run`` of a file with several queries: which options that has, and how it is made ready."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from thalweg.cli.connectors import Sink
from thalweg.cli.console import activity
from thalweg.cli.job import Stream, opened
from thalweg.cli.shared_job import SharedJob
from thalweg.cli.spark_console import spark_failures, start_spark
from thalweg.cli.watch import Interruption

if TYPE_CHECKING:
    from thalweg.options import Options
    from thalweg.spark.app import App

NOT_FOR_SEVERAL = {
    "--checkpoint": "The runs keep theirs in the --sink directory; leave it out",
    "--directory": "Commands go to the --sink directory; leave it out",
    "--plan": 'Send it when they run, with `thalweg control SINK plan "(A B) C" --query run1`',
}
"""For options that have no meaning for several queries: what to do."""


def is_shared(script: str, query: str | None, sink: Sink) -> bool:
    """Whether queries are to share runs: there are several, or there were before, and no one of them is asked for."""
    from thalweg.cql.parser import parse

    return query is None and (len(parse(script)) > 1 or _has_runs(sink))


def shared_directory(sink: Sink, options: Sequence[str]) -> Path:
    """The directory of the runs; an error for a sink, or an option, that several queries cannot have."""
    for option in options:
        message = f"is for one query, and the file has several. {NOT_FOR_SEVERAL[option]}, or run one: --query NAME."
        raise typer.BadParameter(message, param_hint=option)
    if sink.directory is None or sink.connector.format != "parquet":
        message = (
            f"'{sink.name}' takes the results of one query, and the file has several. Give a directory, as in --sink "
            "out/: each query has its results in a directory of its own there. Or run one: --query NAME."
        )
        raise typer.BadParameter(message, param_hint="--sink")
    if (sink.directory / "_checkpoint").exists():
        message = (
            f"{sink.name} has the results of one query already, and the file has several. Give another directory, or "
            "run one: --query NAME."
        )
        raise typer.BadParameter(message, param_hint="--sink")
    return sink.directory


def refuse_shared(query: str | None, sink: Sink) -> None:
    """Refuse to run one query into a directory whose queries share runs."""
    if _has_runs(sink):
        message = f"{sink.name} has queries that share runs. Run '{query}' into another directory, or all: no --query."
        raise typer.BadParameter(message, param_hint="--sink")


def _has_runs(sink: Sink) -> bool:
    return sink.directory is not None and (sink.directory / "queries.json").exists()


@dataclass(frozen=True, slots=True)
class Several:
    """The queries of a file, to be run together; ``settings`` are Spark's."""

    script: str
    streams: Mapping[str, Stream]
    options: Options
    directory: Path
    pace: Mapping[str, Any]
    log: Path | None
    settings: Mapping[str, str]

    def run(self, wish: Interruption, *, once: bool, ends: bool) -> bool:
        """Run them; whether someone interrupted that."""
        from thalweg.cql import bind
        from thalweg.cql.parser import parse
        from thalweg.engine.compilation import ready_kernels

        ready_kernels(feedback=self.options.feedback is not None, budget=self.options.has_budget)
        if wish.asked:
            return True
        with spark_failures(self.log):
            spark = start_spark(self.log, self.settings)
            if wish.asked:
                return True

            def app() -> App:
                with activity() as doing:
                    doing("opening the streams")
                    known, catalog = opened(spark, self.streams, self.directory)
                    bind(self.script, catalog, known.typing)  # errors point into the file
                return known

            first = [app()]
            queries = [(each.name, each.text) for each in parse(self.script)]
            job = SharedJob(
                lambda: first.pop() if first else app(), queries, self.directory, self.options, self.pace, self.log
            )
        return wish.asked or job.run(wish, once=once, ends=ends)
