"""``thalweg run``: queries over streams, on Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from thalweg.cli.connectors import parse_sink
from thalweg.cli.failures import failures
from thalweg.cli.parameters import takes
from thalweg.cli.run_arguments import RunArguments
from thalweg.cli.run_places import run_places
from thalweg.cli.script import choose
from thalweg.cli.several import NOT_FOR_SEVERAL, Several, is_shared, refuse_shared, shared_directory
from thalweg.cli.single import Single
from thalweg.cli.watch import interruptible

if TYPE_CHECKING:
    from collections.abc import Mapping

    from thalweg.cli.job import Stream

_INTERRUPTED = 130


@takes(RunArguments)
def run(given: RunArguments) -> None:
    """Run a query, or several, over streams, on a Spark on this machine.

    Ctrl-C stops it after the batch at hand (exit code 0; with --once 130, for
    not everything was read), a second one at once (130). Run it again with the
    same checkpoint, and it goes on where it was: no result is lost or doubled in
    a directory of files. `thalweg control` changes the plan meanwhile,
    `thalweg explain --live` shows it.
    A run without a checkpoint keeps nothing for later: with --once it ends its input.

    \b
    Example:
      thalweg run spread.cql --source trades=trades/ \\
              --source "quotes=quotes/*.csv" --lateness "5 seconds" --sink out/

    \b
    What is there by now, every night from a scheduler; and for good:
      thalweg run ab.cql --once --source A=a/ --source B=b/ --sink out/
      thalweg run ab.cql --once --end --source A=a/ --source B=b/ --sink out/

    \b
    A file with several queries (CREATE QUERY name AS ...; ...): all of them run, and
    those over one join share its windows. Each has its results in a directory of its
    own, as `thalweg queries out/` shows. Others may come and go meanwhile:
      thalweg run spreads.cql --source trades=trades/ --source quotes=quotes/ --sink out/ &
      thalweg register out/ more --file more.cql
      thalweg deregister out/ more

    \b
    Streams made up by Spark:
      thalweg run ab.cql --source A=rate:rowsPerSecond=1000 --source B=rate

    \b
    A stream joined with a table, which is read again at every start:
      thalweg run sectors.cql --source trades=trades/ --static sectors=sectors.csv

    \b
    When input outruns the job, triggers keep their length, and it is said what
    share of the results was left out for it:
      thalweg run ab.cql --target-trigger "5 seconds" --sink out/ \\
              --source "A=parquet:path=a/,maxFilesPerTrigger=50" --source B=b/

    \b
    Any source of Spark, with its options and, where it needs them, columns:
      --source "A=kafka:kafka.bootstrap.servers=host:9092,subscribe=trades"
      --source "A=json:path=in/,maxFilesPerTrigger=9,schema=k BIGINT, ts TIMESTAMP"

    Errors do not show the values of options that are named like a password,
    token or key, nor passwords in URLs; --debug and Spark's log may. The log,
    spark.log, is for its owner alone.
    """  # noqa: D301 - \b keeps the line breaks of a paragraph
    streams = given.streams()
    given.check_end()
    settings = given.settings()
    with failures(debug=given.debug) as report:
        report.hide(given.texts(streams.values()))
        with _prepared(given, report.read_script(given.file), streams, settings) as work:
            ends = given.once and given.end
            interrupted = interruptible(lambda wish: work.run(wish, once=given.once, ends=ends))
        if interrupted and given.once:
            raise typer.Exit(_INTERRUPTED)


@contextmanager
def _prepared(
    given: RunArguments, script: str, streams: Mapping[str, Stream], settings: Mapping[str, str]
) -> Iterator[Single | Several]:
    """The query of a text, or all of them; nothing is running yet."""
    sink = parse_sink(given.sink)
    if is_shared(script, given.query, sink):
        place = shared_directory(sink, given.given(*NOT_FOR_SEVERAL))
        options, pace = given.options(), given.pace()
        log = None if given.debug else place / "spark.log"
        yield Several(script, streams, options, place, pace, log, settings)
        return
    refuse_shared(given.query, sink)
    text, name = choose(script, given.query)
    options, pace = given.options(), given.pace()
    with run_places(sink, given.checkpoint, given.directory) as places:
        log = None if given.debug else places.commands / "spark.log"
        yield Single(text, name, streams, options, sink, places, pace, log, settings)
