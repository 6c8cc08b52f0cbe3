"""``thalweg explain``: what a query means and how it would run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from thalweg.cli.console import output
from thalweg.cli.explain_arguments import ExplainArguments
from thalweg.cli.failures import failures
from thalweg.cli.live import print_live, read_live
from thalweg.cli.parameters import takes

if TYPE_CHECKING:
    from thalweg.cql.query import Query


@takes(ExplainArguments)
def explain(given: ExplainArguments) -> None:
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
    given.check()
    if given.live is not None:
        with failures(debug=given.debug):
            _show_live(given.live, as_json=given.as_json)
        return
    schemas = given.schemas()
    files = given.files.named(schemas)
    with failures(debug=given.debug) as report:
        from thalweg.cql import bind
        from thalweg.explainer import explain_any, groups_of, several_as_text
        from thalweg.plan.explain_text import lay_out
        from thalweg.replayer import open_tables
        from thalweg.spark.division import carried_facts, divide

        options, buckets = given.options(), given.buckets
        cql = report.read_script(str(given.file))
        tables, catalog = open_tables(files.read() | schemas, files.times, files.units)
        tables = {name: table for name, table in tables.items() if name not in schemas}
        groups = groups_of(_wanted(bind(cql, catalog), given.query), options)
        carried = [None if buckets is None else carried_facts(divide(group.whole)) for group in groups]
        explained = [explain_any(group, tables, options, each) for group, each in zip(groups, carried, strict=True)]
        if given.as_json:
            typer.echo(json.dumps(explained, indent=2, ensure_ascii=False))
        elif len(groups) == len(groups[0].readers) == 1:
            output().print(lay_out(explained[0]).rstrip(), soft_wrap=True)
        else:
            output().print(several_as_text(groups, explained, options), soft_wrap=True)


def _show_live(directory: Path, *, as_json: bool) -> None:
    known = read_live(directory)
    if as_json:
        typer.echo(json.dumps([known], indent=2, ensure_ascii=False))
    else:
        print_live(output(), known)


def _wanted(queries: tuple[Query, ...], name: str | None) -> tuple[Query, ...]:
    from thalweg.errors import QueryError

    chosen = tuple(query for query in queries if name is None or query.name.lower() == name.lower())
    if not chosen:
        names = ", ".join(query.name for query in queries)
        raise QueryError(f"the text has no query '{name}'", None, f"Its queries are {names}.")
    return chosen
