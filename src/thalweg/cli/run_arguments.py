"""What ``thalweg run`` can be told, and what it means together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from thalweg.cli.arguments import (
    BudgetArguments,
    DebugOption,
    PlanArguments,
    ScriptArgument,
    TargetOption,
    TimeUnitOption,
)
from thalweg.cli.connectors import SOURCE_FORMS
from thalweg.cli.job import Stream
from thalweg.cli.values import kept_columns, latenesses, named, pace_of, static_relations, time_columns, time_units

if TYPE_CHECKING:
    from thalweg.options import Options


@dataclass(frozen=True, kw_only=True)
class RunArguments:
    """The options of ``thalweg run``."""

    file: ScriptArgument
    source: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=SOURCE",
            help="A stream: a directory, file or glob of .parquet, .csv or .jsonl; rate:rowsPerSecond=N; "
            "or FORMAT:key=value,key=value for any source of Spark.",
        ),
    ] = None
    static: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=SOURCE", help="A static relation, read once at the start: files, or FORMAT:..."),
    ] = None
    sink: Annotated[
        str,
        typer.Option(metavar="SINK", help="A directory for parquet files; console; noop; or FORMAT:DIR, say csv:out/."),
    ] = "console"
    checkpoint: Annotated[
        str | None,
        typer.Option(
            metavar="DIR", help="What a restart goes on from. Default: SINK/_checkpoint; without one, nothing is kept."
        ),
    ] = None
    once: Annotated[
        bool,
        typer.Option(
            "--once", help="Take what is there, and stop. Windows stay open: the next run goes on with new rows."
        ),
    ] = False
    end: Annotated[
        bool,
        typer.Option(
            "--end",
            help="With --once: the input is complete, so time runs out for all windows. This is final: "
            "no later run can go on from the checkpoint.",
        ),
    ] = False
    trigger: Annotated[
        str | None,
        typer.Option(metavar="SPAN", help='Time between batches, as in "5 seconds". Default: as soon as possible.'),
    ] = None
    query: Annotated[
        str | None, typer.Option(metavar="NAME", help="One query of a file with several. Default: all.")
    ] = None
    plans: PlanArguments
    budgets: BudgetArguments
    target_trigger: TargetOption = None
    buckets: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Parts to divide the join into. Default: one for each core.")
    ] = None
    time: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN",
            help="Event time column: ts for every stream, trades=ts for one. Default: ts, else timestamp.",
        ),
    ] = None
    time_unit: TimeUnitOption = None
    lateness: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SPAN", help='How far rows may lag: "5 seconds" for every stream, trades="5 seconds" for one.'
        ),
    ] = None
    keep: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=COLUMNS",
            help="Columns of a stream that stay in the checkpoint for later queries, besides those that this one "
            'reads: trades="venue, px", or trades=all.',
        ),
    ] = None
    idle_timeout: Annotated[
        str | None,
        typer.Option(metavar="SPAN", help="Do not wait for a stream that says nothing for so long. Default: wait."),
    ] = None
    directory: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Where `thalweg control` puts commands, and Spark its log. Default: CHECKPOINT/thalweg."
        ),
    ] = None
    conf: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="A setting of Spark, as in spark.jars.packages=...")
    ] = None
    debug: DebugOption = False

    def streams(self) -> dict[str, Stream]:
        """The streams and static relations."""
        sources = named(self.source or [], "--source", SOURCE_FORMS)
        if not sources:
            raise typer.BadParameter(f"name the streams, as in --source {SOURCE_FORMS}.", param_hint="--source")
        relations = static_relations(self.static or [], sources)
        times = time_columns(self.time or [], sources)
        units = time_units(self.time_unit or [], sources)
        lags = latenesses(self.lateness or [], sources)
        kept = kept_columns(self.keep or [], sources, relations)
        streams = {
            stream: Stream(given, times[stream], lags[stream], units.get(stream), kept.get(stream))
            for stream, given in sources.items()
        }
        return streams | {relation: Stream(given, None, None) for relation, given in relations.items()}

    def check_end(self) -> None:
        """Refuse options about its end that contradict each other."""
        if self.once and self.trigger is not None:
            raise typer.BadParameter("--once takes everything there is, without waiting.", param_hint="--trigger")
        if self.end and not self.once:
            message = "it goes with --once: take what is there, and then end the input for good."
            raise typer.BadParameter(message, param_hint="--end")

    def settings(self) -> Mapping[str, str]:
        """Spark's."""
        return named(self.conf or [], "--conf", "spark.executor.memory=2g")

    def texts(self, streams: Iterable[Stream]) -> list[str]:
        """What may have a secret in it."""
        return [*(stream.source for stream in streams), self.sink, self.checkpoint or "", *(self.conf or [])]

    def given(self, *options: str) -> list[str]:
        """Those of these options that were given."""
        values = {"--checkpoint": self.checkpoint, "--directory": self.directory, "--plan": self.plans.plan}
        return [option for option in options if values[option] is not None]

    def options(self) -> Options:
        """Those of the queries."""
        return self.plans.options(
            **self.budgets.options(),
            target_trigger=self.target_trigger,
            buckets=self.buckets,
            idle_timeout=self.idle_timeout,
        )

    def pace(self) -> dict[str, Any]:
        """When batches run, in Spark's words."""
        return pace_of(self.trigger, once=self.once)
