"""``thalweg check``: whether a query can go on from a checkpoint."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from thalweg.cli.arguments import DebugOption, ScriptArgument
from thalweg.cli.connectors import SOURCE_FORMS
from thalweg.cli.console import activity, output
from thalweg.cli.failures import failures
from thalweg.cli.job import Stream, prepare
from thalweg.cli.script import choose
from thalweg.cli.secrets import redacted
from thalweg.cli.spark_console import spark_failures, start_spark
from thalweg.cli.values import named, static_relations, time_columns

if TYPE_CHECKING:
    import pyarrow as pa

    from thalweg.spark.description import Description

_ZONED = re.compile(r"timestamp\[us, tz=(.+)\]")
_DECIMAL = re.compile(r"decimal128\((\d+), (\d+)\)")


def check(
    file: ScriptArgument,
    checkpoint: Annotated[
        str,
        typer.Option(metavar="DIR", help="The checkpoint: what `thalweg run --checkpoint` names, or SINK/_checkpoint."),
    ],
    source: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=SOURCE",
            help="The streams, as for `thalweg run`. Without them, they have the columns that the checkpoint has.",
        ),
    ] = None,
    static: Annotated[
        list[str] | None, typer.Option(metavar="NAME=SOURCE", help="A static relation, as for `thalweg run`.")
    ] = None,
    query: Annotated[str | None, typer.Option(metavar="NAME", help="Which query, if the file has several.")] = None,
    time: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Event time column, as for `thalweg run`. Default: ts, else timestamp."),
    ] = None,
    conf: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="A setting of Spark.")] = None,
    debug: DebugOption = False,
) -> None:
    """Say whether a query can go on from a checkpoint, without starting it.

    Prints what has changed since the query that the checkpoint is of, and what
    each change means for the results. If it cannot go on, the exit code is 1,
    and the error says why and what to do. Nothing is read from the streams, and
    nothing is written. With --source Spark opens the streams to see their columns.

    \b
    Example:
      thalweg check spread.cql --checkpoint out/_checkpoint
      thalweg check spread.cql --checkpoint out/_checkpoint \\
              --source trades=trades/ --source "quotes=quotes/*.csv"
    """  # noqa: D301 - \b keeps the line breaks of a paragraph
    sources = named(source or [], "--source", SOURCE_FORMS)
    relations = static_relations(static or [], sources)
    times = time_columns(time or [], sources)
    settings = named(conf or [], "--conf", "spark.executor.memory=2g")
    with failures(debug=debug) as report:
        report.hide([*sources.values(), *relations.values(), checkpoint, *(conf or [])])
        text, name = choose(report.read_script(file), query)
        place = checkpoint if "://" in checkpoint else str(Path(checkpoint).expanduser().absolute())
        if sources or relations:
            streams = {stream: Stream(given, times[stream], None) for stream, given in sources.items()}
            streams |= {relation: Stream(given, None, None) for relation, given in relations.items()}
            changes = _asking_spark(text, name, streams, place, settings, debug=debug)
        else:
            changes = _asking_the_checkpoint(text, name, place)
        if changes is None:
            output().print(f"there is no checkpoint in {redacted(place)}: {name} would begin there", soft_wrap=True)
            return
        output().print(f"{name} can go on from {redacted(place)}" + (":" if changes else ""), soft_wrap=True)
        for change in changes:
            output().print(f"- {change}", soft_wrap=True)


def _asking_spark(
    text: str, name: str, streams: Mapping[str, Stream], place: str, settings: Mapping[str, str], *, debug: bool
) -> list[str] | None:
    """What has changed, of a query over these streams; None: there is no checkpoint."""
    from thalweg.options import Options
    from thalweg.spark.checkpoint import Checkpoint

    with tempfile.TemporaryDirectory(prefix="thalweg-check-", ignore_cleanup_errors=True) as scratch, spark_failures():
        spark = start_spark(None if debug else Path(scratch) / "spark.log", settings)
        with activity() as doing:
            doing("opening the streams")
            app, _, answer = prepare(spark, text, name, streams, Options(), Path(scratch))
            if Checkpoint(app.spark, place).description() is None:
                return None
            return app.check(answer, place, name=name)


def _asking_the_checkpoint(text: str, name: str, place: str) -> list[str] | None:
    """What has changed, of a query over streams with the columns that the checkpoint has; None: there is none."""
    from thalweg.cql import Source, bind
    from thalweg.errors import CheckpointError, QueryError
    from thalweg.plan.partitioning import choose_partitioning
    from thalweg.spark.checkpoint import LocalCheckpoint
    from thalweg.spark.command_source import ended
    from thalweg.spark.compatibility import check as compare
    from thalweg.spark.description import BUCKETS, FORMAT, description
    from thalweg.spark.division import divide

    if "://" in place:
        raise CheckpointError(f"{place} is not on this machine. Name the streams (--source), so that Spark reads it.")
    checkpoint = LocalCheckpoint(place)
    known = checkpoint.description()
    if known is None:
        return None
    if checkpoint.has_ended:
        raise ended(name, place)
    if known.get("format") != FORMAT:
        return compare(name, known, {"format": FORMAT}, place).notes
    catalog = {
        stream["stream"]: Source(_schema(known, stream["stream"]), stream["time"]) for stream in known["streams"]
    }
    try:
        (bound,) = bind(text, catalog)
    except QueryError as error:
        hint = f"{error.hint} The columns are those that {place} has. With --source, streams have their own.".strip()
        raise type(error)(error.what, error.location, hint) from error
    division = divide(bound)
    described = description(bound, choose_partitioning(bound, known[BUCKETS]), division.carried, {}, known[BUCKETS])
    rows = {stream["stream"]: stream["rows"] for stream in known["streams"]}
    for stream in described["streams"]:  # static relations are not read here
        stream["rows"] = rows[stream["stream"]]
    return compare(name, known, described, place).notes


def _schema(known: Description, name: str) -> pa.Schema:
    """The columns that a checkpoint has of a stream, however often it is joined, and those that conditions read."""
    import pyarrow as pa

    found = [stream for stream in known["streams"] if stream["stream"] == name]
    columns = {c: kind for stream in found for c, kind in (stream["selects"] | stream["columns"]).items()}
    return pa.schema([(column, _type(name, column, kind)) for column, kind in columns.items()])


def _type(stream: str, column: str, kind: str) -> pa.DataType:
    """A type of Arrow from its text."""
    import pyarrow as pa

    from thalweg.errors import CheckpointError

    if zoned := _ZONED.fullmatch(kind):
        return pa.timestamp("us", zoned[1])
    if decimal := _DECIMAL.fullmatch(kind):
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    try:
        return pa.type_for_alias(kind)
    except ValueError as error:
        raise CheckpointError(
            f"column '{column}' of stream '{stream}' has the type {kind}, which this command cannot read from a "
            f"checkpoint. Name the streams, as in --source {SOURCE_FORMS}."
        ) from error
