"""``thalweg explain``: what a query means and how it would run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from thalweg.cli.arguments import (
    AllocationChoice,
    AllocationOption,
    BudgetOption,
    DebugOption,
    OptionalScriptArgument,
    ProductionChoice,
    ProductionOption,
    SharingChoice,
    SharingOption,
    SourceOption,
    StatesChoice,
    StaticOption,
    TimeOption,
    TimeUnitOption,
    budget_of,
    named,
    static_relations,
    time_columns,
    time_units,
)
from thalweg.cli.console import output
from thalweg.cli.failures import failures
from thalweg.cli.live import print_live, read_live
from thalweg.cli.schema import parse_schema
from thalweg.cli.sources import SOURCE_EXAMPLE, read_sources

if TYPE_CHECKING:
    from thalweg.cql.query import Query

SCHEMA_EXAMPLE = "trades='sym STRING, price DOUBLE, ts TIMESTAMP'"


def explain(
    file: OptionalScriptArgument = None,
    source: SourceOption = None,
    static: StaticOption = None,
    schema: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=COLUMNS", help="A stream without data, as in trades='sym STRING, ts TIMESTAMP'."),
    ] = None,
    time: TimeOption = None,
    time_unit: TimeUnitOption = None,
    plan: Annotated[
        str | None, typer.Option(metavar="PLAN", help='Explain this plan, such as "(A B) C", not the planner\'s.')
    ] = None,
    states: Annotated[StatesChoice, typer.Option(help="Which intermediate states the plan keeps.")] = StatesChoice.AUTO,
    query: Annotated[str | None, typer.Option(metavar="NAME", help="Only this query of the file.")] = None,
    production: ProductionOption = ProductionChoice.PUSH,
    sharing: SharingOption = SharingChoice.AUTO,
    budget: BudgetOption = None,
    allocation: AllocationOption = AllocationChoice.JAQPOT,
    buckets: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Also show what Spark would send to N buckets, and how.")
    ] = None,
    live: Annotated[
        Path | None,
        typer.Option(
            metavar="DIRECTORY",
            help="Show the plans of a running query instead: the --directory of `thalweg run`, or CHECKPOINT/thalweg.",
        ),
    ] = None,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json", help="Print JSON: an array with an object per query. Queries that share a join are one."
        ),
    ] = False,
    debug: DebugOption = False,
) -> None:
    """Show what a query means and how it would run, without running it.

    Streams come from files (--source), whose contents guide the planner,
    or are just described (--schema). Of several queries it is also shown which of
    them share a join in process, and how; --buckets is about each by itself.

    With --live, show instead which plans the buckets of a running query have had,
    why they changed, and how far the states of the last one are complete.

    \b
    Example:
      thalweg explain spread.cql --source trades=trades.csv \\
                                 --source quotes=quotes.parquet
      thalweg explain ab.cql --schema A="k BIGINT, ts TIMESTAMP" \\
                             --schema B="k BIGINT, ts TIMESTAMP" --plan "B A"
      thalweg explain --live out/_checkpoint/thalweg
    """  # noqa: D301 - \b keeps the line breaks of a paragraph
    if (file is None) == (live is None):
        raise typer.BadParameter("there must be either a query text or --live DIRECTORY.", param_hint="FILE")
    if live is not None:
        with failures(debug=debug):
            known = read_live(live)
            if as_json:
                typer.echo(json.dumps([known], indent=2, ensure_ascii=False))
            else:
                print_live(output(), known)
        return
    paths = named(source or [], "--source", SOURCE_EXAMPLE)
    described = named(schema or [], "--schema", SCHEMA_EXAMPLE)
    for name in paths.keys() & described.keys():
        raise typer.BadParameter(f"'{name}' also has a --source, which has its own schema.", param_hint="--schema")
    relations = static_relations(static or [], [*paths, *described])
    times = {**time_columns(time or [], [*paths, *described]), **dict.fromkeys(relations)}
    units = time_units(time_unit or [], [*paths, *described])
    schemas = {name: parse_schema(name, text) for name, text in described.items()}
    with failures(debug=debug) as report:
        from thalweg.cql import bind
        from thalweg.explainer import explain_any, groups_of, several_as_text
        from thalweg.options import Options
        from thalweg.plan.explain_text import lay_out
        from thalweg.replayer import open_tables
        from thalweg.spark.division import carried_facts, divide

        options = Options(
            plan=plan,
            states=states.value,
            production=production.value,
            sharing=sharing.value,
            buckets=buckets,
            budget=budget_of(budget),
            allocation=allocation.value,
        )
        cql = report.read_script(str(file))
        tables, catalog = open_tables(read_sources(paths | relations, times) | schemas, times, units)
        tables = {name: table for name, table in tables.items() if name not in schemas}
        groups = groups_of(_wanted(bind(cql, catalog), query), options)
        carried = [None if buckets is None else carried_facts(divide(group.whole)) for group in groups]
        explained = [explain_any(group, tables, options, each) for group, each in zip(groups, carried, strict=True)]
        if as_json:
            typer.echo(json.dumps(explained, indent=2, ensure_ascii=False))
        elif len(groups) == len(groups[0].readers) == 1:
            output().print(lay_out(explained[0]).rstrip(), soft_wrap=True)
        else:
            output().print(several_as_text(groups, explained, options), soft_wrap=True)


def _wanted(queries: tuple[Query, ...], name: str | None) -> tuple[Query, ...]:
    from thalweg.errors import QueryError

    chosen = tuple(query for query in queries if name is None or query.name.lower() == name.lower())
    if not chosen:
        names = ", ".join(query.name for query in queries)
        raise QueryError(f"the text has no query '{name}'", None, f"Its queries are {names}.")
    return chosen
