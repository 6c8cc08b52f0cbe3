"""What ``thalweg explain`` can be told, and what it means together."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from thalweg.cli.arguments import (
    BudgetArguments,
    DebugOption,
    FileArguments,
    OptionalScriptArgument,
    ProductionChoice,
    ProductionOption,
    SharingChoice,
    SharingOption,
    StatesChoice,
)
from thalweg.cli.schema import parse_schema
from thalweg.cli.values import named

if TYPE_CHECKING:
    import pyarrow as pa

    from thalweg.options import Options

_SCHEMA_EXAMPLE = "trades='sym STRING, price DOUBLE, ts TIMESTAMP'"


@dataclass(frozen=True, kw_only=True)
class ExplainArguments:
    """The options of ``thalweg explain``."""

    file: OptionalScriptArgument = None
    files: FileArguments
    schema: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=COLUMNS", help="A stream without data, as in trades='sym STRING, ts TIMESTAMP'."),
    ] = None
    plan: Annotated[
        str | None, typer.Option(metavar="PLAN", help='Explain this plan, such as "(A B) C", not the planner\'s.')
    ] = None
    states: Annotated[StatesChoice, typer.Option(help="Which intermediate states the plan keeps.")] = StatesChoice.AUTO
    query: Annotated[str | None, typer.Option(metavar="NAME", help="Only this query of the file.")] = None
    production: ProductionOption = ProductionChoice.PUSH
    sharing: SharingOption = SharingChoice.AUTO
    budgets: BudgetArguments
    buckets: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Also show what Spark would send to N buckets, and how.")
    ] = None
    live: Annotated[
        Path | None,
        typer.Option(
            metavar="DIRECTORY",
            help="Show the plans of a running query instead: the --directory of `thalweg run`, or CHECKPOINT/thalweg.",
        ),
    ] = None
    as_json: Annotated[
        bool,
        typer.Option(
            "--json", help="Print JSON: an array with an object per query. Queries that share a join are one."
        ),
    ] = False
    debug: DebugOption = False

    def check(self) -> None:
        """Refuse what cannot be meant."""
        if (self.file is None) == (self.live is None):
            raise typer.BadParameter("there must be either a query text or --live DIRECTORY.", param_hint="FILE")

    def schemas(self) -> dict[str, pa.Schema]:
        """The streams that are only described."""
        described = named(self.schema or [], "--schema", _SCHEMA_EXAMPLE)
        for name in self.files.paths().keys() & described.keys():
            raise typer.BadParameter(f"'{name}' also has a --source, which has its own schema.", param_hint="--schema")
        return {name: parse_schema(name, text) for name, text in described.items()}

    def options(self) -> Options:
        """Those of the queries."""
        from thalweg.options import Options

        return Options(
            plan=self.plan,
            states=self.states.value,
            production=self.production.value,
            sharing=self.sharing.value,
            buckets=self.buckets,
            **self.budgets.options(),
        )
