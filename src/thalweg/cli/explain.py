"""``thalweg explain``: what a query means and how it would run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from thalweg.cli.arguments import named, time_columns
from thalweg.cli.console import output
from thalweg.cli.failures import failures
from thalweg.cli.replay import SOURCE_EXAMPLE

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA_EXAMPLE = "trades='sym STRING, price DOUBLE, ts TIMESTAMP'"


def explain(
    file: Annotated[str, typer.Argument(metavar="FILE", help="The query text; - reads it from stdin.")],
    source: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=PATH", help="A stream: .parquet, .csv or .jsonl, a directory of them, or a glob."),
    ] = None,
    schema: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=COLUMNS", help="A stream without data, as in trades='sym STRING, ts TIMESTAMP'."),
    ] = None,
    time: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Event time column: ts for every stream, trades=ts for one. Default: ts."),
    ] = None,
    plan: Annotated[
        str | None, typer.Option(metavar="PLAN", help='Explain this plan, such as "(A B) C", not the planner\'s.')
    ] = None,
    query: Annotated[str | None, typer.Option(metavar="NAME", help="Only this query of the file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON: an array with one object per query.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
) -> None:
    """Show what a query means and how it would run, without running it.

    Streams come from files (--source) or are just described (--schema).

    \b
    Example:
      thalweg explain spread.cql --source trades=trades.csv --source quotes=quotes.parquet
      thalweg explain abc.cql --schema A="k BIGINT, ts TIMESTAMP" --schema B="k BIGINT, ts TIMESTAMP"
    """  # noqa: D301 - \b keeps the line breaks of a paragraph
    paths = named(source or [], "--source", SOURCE_EXAMPLE)
    described = named(schema or [], "--schema", SCHEMA_EXAMPLE)
    for name in paths.keys() & described.keys():
        raise typer.BadParameter(f"'{name}' also has a --source, which has its own schema.", param_hint="--schema")
    times = time_columns(time or [], [*paths, *described])
    with failures(debug=debug) as report:
        cql = report.read_script(file)
