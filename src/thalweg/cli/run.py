"""``thalweg run``: a query over streams, on Spark."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from thalweg.cli.arguments import (
    AdaptiveOption,
    AllocationChoice,
    AllocationOption,
    BudgetOption,
    DebugOption,
    MemoryOption,
    MigrationChoice,
    MigrationOption,
    ProductionChoice,
    ProductionOption,
    ScriptArgument,
    StatesChoice,
    TargetOption,
    TimeUnitOption,
    adaptivity,
    budget_of,
    named,
    static_relations,
    time_columns,
    time_units,
)
from thalweg.cli.connectors import SOURCE_FORMS, Sink, parse_sink
from thalweg.cli.console import activity
from thalweg.cli.failures import failures
from thalweg.cli.job import Job, Stream, prepare
from thalweg.cli.several import Several, is_shared, refuse_shared, shared_directory
from thalweg.cli.spark_console import spark_failures, start_spark
from thalweg.cli.watch import Interruption, interruptible

_INTERRUPTED = 130


def run(
    file: ScriptArgument,
    source: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=SOURCE",
            help="A stream: a directory, file or glob of .parquet, .csv or .jsonl; rate:rowsPerSecond=N; "
            "or FORMAT:key=value,key=value for any source of Spark.",
        ),
    ] = None,
    static: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=SOURCE", help="A static relation, read once at the start: files, or FORMAT:..."),
    ] = None,
    sink: Annotated[
        str,
        typer.Option(metavar="SINK", help="A directory for parquet files; console; noop; or FORMAT:DIR, say csv:out/."),
    ] = "console",
    checkpoint: Annotated[
        str | None,
        typer.Option(
            metavar="DIR", help="What a restart goes on from. Default: SINK/_checkpoint; without one, nothing is kept."
        ),
    ] = None,
    once: Annotated[
        bool,
        typer.Option(
            "--once", help="Take what is there, and stop. Windows stay open: the next run goes on with new rows."
        ),
    ] = False,
    end: Annotated[
        bool,
        typer.Option(
            "--end",
            help="With --once: the input is complete, so time runs out for all windows. This is final: "
            "no later run can go on from the checkpoint.",
        ),
    ] = False,
    trigger: Annotated[
        str | None,
        typer.Option(metavar="SPAN", help='Time between batches, as in "5 seconds". Default: as soon as possible.'),
    ] = None,
    query: Annotated[
        str | None, typer.Option(metavar="NAME", help="One query of a file with several. Default: all.")
    ] = None,
    plan: Annotated[
        str | None, typer.Option(metavar="PLAN", help='Initial plan, such as "(A B) C". Default: the planner picks.')
    ] = None,
    states: Annotated[
        StatesChoice, typer.Option(help="Which intermediate states to keep; auto: those that earn their keep.")
    ] = StatesChoice.AUTO,
    migration: MigrationOption = MigrationChoice.JISC,
    memory_limit: MemoryOption = None,
    production: ProductionOption = ProductionChoice.PUSH,
    adaptive: AdaptiveOption = None,
    budget: BudgetOption = None,
    target_trigger: TargetOption = None,
    allocation: AllocationOption = AllocationChoice.JAQPOT,
    buckets: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Parts to divide the join into. Default: one for each core.")
    ] = None,
    time: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN",
            help="Event time column: ts for every stream, trades=ts for one. Default: ts, else timestamp.",
        ),
    ] = None,
    time_unit: TimeUnitOption = None,
    lateness: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SPAN", help='How far rows may lag: "5 seconds" for every stream, trades="5 seconds" for one.'
        ),
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=COLUMNS",
            help="Columns of a stream that stay in the checkpoint for later queries, besides those that this one "
            'reads: trades="venue, px", or trades=all.',
        ),
    ] = None,
    idle_timeout: Annotated[
        str | None,
        typer.Option(metavar="SPAN", help="Do not wait for a stream that says nothing for so long. Default: wait."),
    ] = None,
    directory: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Where `thalweg control` puts commands, and Spark its log. Default: CHECKPOINT/thalweg."
        ),
    ] = None,
    conf: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="A setting of Spark, as in spark.jars.packages=...")
    ] = None,
    debug: DebugOption = False,
) -> None:
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
    sources = named(source or [], "--source", SOURCE_FORMS)
    if not sources:
        raise typer.BadParameter(f"name the streams, as in --source {SOURCE_FORMS}.", param_hint="--source")
    relations = static_relations(static or [], sources)
    times = time_columns(time or [], sources)
    units = time_units(time_unit or [], sources)
    lags = _lateness(lateness or [], sources)
    kept = _kept(keep or [], sources, relations)
    if once and trigger is not None:
        raise typer.BadParameter("--once takes everything there is, without waiting.", param_hint="--trigger")
    if end and not once:
        message = "it goes with --once: take what is there, and then end the input for good."
        raise typer.BadParameter(message, param_hint="--end")
    settings = named(conf or [], "--conf", "spark.executor.memory=2g")
    with failures(debug=debug) as report:
        report.hide([*sources.values(), *relations.values(), sink, checkpoint or "", *(conf or [])])
        from thalweg.options import Options

        script = report.read_script(file)
        into = parse_sink(sink)
        if is_shared(script, query, into):
            given = {"--checkpoint": checkpoint, "--directory": directory, "--plan": plan}
            place = shared_directory(into, [option for option, value in given.items() if value is not None])
        else:
            refuse_shared(query, into)
            place = None
            text, name = choose(script, query)
        options = Options(
            plan=plan,
            states=states.value,
            migration=migration.value,
            memory_limit=memory_limit,
            production=production.value,
            buckets=buckets,
            idle_timeout=idle_timeout,
            adaptive=adaptivity(adaptive),
            budget=budget_of(budget),
            target_trigger=target_trigger,
            allocation=allocation.value,
        )
        pace = _pace(trigger, once=once)
        streams = {
            stream: Stream(given, times[stream], lags[stream], units.get(stream), kept.get(stream))
            for stream, given in sources.items()
        }
        streams |= {relation: Stream(given, None, None) for relation, given in relations.items()}
        if place is not None:
            log = None if debug else place / "spark.log"
            several = Several(script, streams, options, place, pace, log, settings)
            if interruptible(lambda wish: several.run(wish, once=once, ends=once and end)) and once:
                raise typer.Exit(_INTERRUPTED)
            return
        with _places(into, checkpoint, directory) as places:
            log = None if debug else places.commands / "spark.log"
            told = log if places.lasting else None

            def work(wish: Interruption) -> bool:
                from thalweg.engine.compilation import ready_kernels

                # Compiled here if need be; the workers find them on disk.
                ready_kernels(feedback=options.feedback is not None, budget=options.has_budget)
                if wish.asked:
                    return True
                with spark_failures(told):
                    spark = start_spark(log, settings)
                    if wish.asked:
                        return True
                    with activity() as doing:
                        doing("opening the streams")
                        app, bound, answer = prepare(spark, text, name, streams, options, places.commands)
                job = Job(app, bound, answer, into, places.checkpoint, pace, places.commands, told)
                # What a temporary checkpoint holds back is lost: nothing can come after this run.
                ends = once and (end or places.is_temporary)
                return wish.asked or job.run(wish, once=once, ends=ends)

            interrupted = interruptible(work)
        if interrupted and once:
            raise typer.Exit(_INTERRUPTED)


def _lateness(values: Iterable[str], streams: Iterable[str]) -> Mapping[str, str]:
    """The lateness of each stream, from ``5 seconds`` (for all) and ``A=5 seconds`` (for one)."""
    values, streams = list(values), list(streams)
    common = [value for value in values if "=" not in value]
    if len(common) > 1:
        message = f"both '{common[0]}' and '{common[1]}' are for all streams."
        raise typer.BadParameter(message, param_hint="--lateness")
    special = named((v for v in values if "=" in v), "--lateness", '"5 seconds" or trades="5 seconds"')
    for stream in special:
        if stream not in streams:
            known = ", ".join(streams)
            raise typer.BadParameter(f"'{stream}' is no source; the sources are: {known}.", param_hint="--lateness")
    default = common[0] if common else "0 seconds"
    return {stream: special.get(stream, default) for stream in streams}


def _kept(
    values: Iterable[str], streams: Iterable[str], relations: Iterable[str]
) -> dict[str, list[str] | Literal["all"]]:
    """The columns to keep of each stream, from ``A=x, y`` and ``A=all``."""
    kept: dict[str, list[str] | Literal["all"]] = {}
    for stream, columns in named(values, "--keep", 'trades="venue, px" or trades=all').items():
        if stream not in streams:
            reason = "is a static relation, which is in no checkpoint" if stream in relations else "is no source"
            known = ", ".join(streams)
            raise typer.BadParameter(f"'{stream}' {reason}; the sources are: {known}.", param_hint="--keep")
        kept[stream] = "all" if columns == "all" else [column.strip() for column in columns.split(",")]
    return kept


def choose(script: str, name: str | None) -> tuple[str, str]:
    """The one query of a script that is to run: its text, where it was in the script, and its name.

    >>> choose("CREATE QUERY p AS SELECT * FROM a [NOW]; SELECT * FROM b [NOW]", "QUERY2")
    ('                                         SELECT * FROM b [NOW]', 'query2')
    """
    from thalweg.cql.parser import parse
    from thalweg.errors import QueryError

    statements = parse(script)
    names = ", ".join(statement.name for statement in statements)
    if name is None and len(statements) > 1:
        raise QueryError(f"the text has {len(statements)} queries ({names})", None, "Say which one: --query NAME.")
    start = 0
    for statement in statements:
        start = script.index(statement.text, start)
        if name is None or statement.name.lower() == name.lower():
            # Blanks in the place of what comes before: errors still point into the script.
            before = "".join(c if c == "\n" else " " for c in script[:start])
            return before + statement.text, statement.name
        start += len(statement.text)
    raise QueryError(f"the text has no query '{name}'", None, f"Its queries are {names}.")


def _pace(trigger: str | None, *, once: bool) -> dict[str, Any]:
    """When batches run, in Spark's words."""
    from thalweg.cql import parse_interval
    from thalweg.errors import OptionError, ThalwegError

    if once:
        return {"availableNow": True}
    if trigger is None:
        return {"processingTime": "0 seconds"}
    try:
        return {"processingTime": f"{parse_interval(trigger) // 1000} milliseconds"}
    except ThalwegError as error:
        raise OptionError(f"--trigger is '{trigger}': {error}") from error


@dataclass(frozen=True, slots=True)
class _Places:
    """Where a run keeps its checkpoint and finds its commands.

    ``lasting``: the commands outlive the run; ``is_temporary``: the checkpoint does not.
    """

    checkpoint: str
    commands: Path
    lasting: bool = True
    is_temporary: bool = False


@contextmanager
def _places(sink: Sink, checkpoint: str | None, directory: Path | None) -> Iterator[_Places]:
    """The places of a run; temporary ones where its results are not kept either."""
    from thalweg.errors import OptionError

    if checkpoint is not None and "://" in checkpoint:
        if directory is None:
            raise OptionError(f"the checkpoint {checkpoint} is not on this machine. Add a --directory that is.")
        yield _Places(checkpoint, directory.absolute())
        return
    scratch = None
    if checkpoint is not None:
        kept = Path(checkpoint).expanduser().absolute()
    elif sink.directory is not None:
        kept = sink.directory / "_checkpoint"
    else:
        kept = scratch = Path(tempfile.mkdtemp(prefix="thalweg-run-"))
    try:
        commands = directory.absolute() if directory is not None else kept / "thalweg"
        is_temporary = scratch is not None
        yield _Places(str(kept), commands, directory is not None or not is_temporary, is_temporary)
    finally:
        if scratch is not None:
            shutil.rmtree(scratch, ignore_errors=True)  # Spark may still be leaving
