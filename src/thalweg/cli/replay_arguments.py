"""What ``thalweg replay`` can be told, and what it means together."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from thalweg.cli.arguments import (
    BudgetArguments,
    DebugOption,
    FileArguments,
    PlanArguments,
    ScriptArgument,
    SharingChoice,
    SharingOption,
)
from thalweg.cli.sources import SOURCE_EXAMPLE

if TYPE_CHECKING:
    from thalweg.options import Options


@dataclass(frozen=True, kw_only=True)
class ReplayArguments:
    """The options of ``thalweg replay``."""

    file: ScriptArgument
    files: FileArguments
    plans: PlanArguments
    switch: Annotated[
        list[str] | None,
        typer.Option(metavar="N:PLAN", help='Change the plan after N tuples, as in 100000:"(B C) A". Repeatable.'),
    ] = None
    budgets: BudgetArguments
    lateness: Annotated[
        str | None,
        typer.Option(metavar="SPAN", help='How far rows may lag, as in "5 seconds". Default: no row is late.'),
    ] = None
    query: Annotated[str | None, typer.Option(metavar="NAME", help="Only this query of the file.")] = None
    sharing: SharingOption = SharingChoice.AUTO
    enter: Annotated[
        list[str] | None,
        typer.Option(metavar="N:QUERY", help="The query comes after N tuples, as in 100000:spread. Repeatable."),
    ] = None
    leave: Annotated[
        list[str] | None,
        typer.Option(metavar="N:QUERY", help="The query goes after N tuples. It may enter again. Repeatable."),
    ] = None
    batch_size: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Tuples per batch; the answer does not depend on it.")
    ] = None
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="Write the results here: .parquet, .csv or .jsonl. Of several queries: a directory, or '{query}.csv'.",
        ),
    ] = None
    late_out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write the late rows here, one parquet file per stream.")
    ] = None
    debug: DebugOption = False

    def check(self) -> None:
        """Refuse what cannot be meant."""
        if not self.files.source:
            raise typer.BadParameter(f"name the streams, as in --source {SOURCE_EXAMPLE}.", param_hint="--source")
        if self.late_out is not None and self.lateness is None:
            raise typer.BadParameter("without --lateness no row is late.", param_hint="--late-out")

    def options(self) -> Options:
        """Those of the queries."""
        from thalweg.options import Options

        return self.plans.options(
            **self.budgets.options(),
            lateness=self.lateness,
            late_rows="count" if self.late_out is None else "table",
            sharing=self.sharing.value,
            batch_size=Options().batch_size if self.batch_size is None else self.batch_size,
        )
