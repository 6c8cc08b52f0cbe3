"""``thalweg register``, ``deregister`` and ``queries``: who shares the runs of a directory, without Spark."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from thalweg.cli.arguments import DebugOption
from thalweg.cli.console import grid, output, show
from thalweg.cli.failures import Script, failures

if TYPE_CHECKING:
    from thalweg.spark.registry import Registry

DirectoryArgument = Annotated[
    Path,
    typer.Argument(
        metavar="DIRECTORY",
        help="Of the runs: what `thalweg run` with several queries has as its --sink, and app.start as its directory.",
        show_default=False,
    ),
]
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The name of the query.", show_default=False)]


def register(
    directory: DirectoryArgument,
    name: NameArgument,
    text: Annotated[
        str | None, typer.Argument(metavar="[QUERY]", help='The query: "SELECT ...".', show_default=False)
    ] = None,
    file: Annotated[
        str | None, typer.Option(metavar="FILE", help="A file with the query, instead; - reads it from stdin.")
    ] = None,
    debug: DebugOption = False,
) -> None:
    """Let one more query share a run, while that goes on or until it is started again.

    The query must join the same streams on the same predicates as the queries
    of the run. What else it asks is its own: windows, selections, SELECT list,
    aggregates. It sees what the windows hold, and has the results that come from
    then on. For the others nothing changes. Spark is not needed for this.

    \b
    Example:
      thalweg run spreads.cql --source trades=trades/ --source quotes=quotes/ --sink out/ &
      thalweg register out/ cheap "SELECT t.sym, q.bid FROM trades t, quotes q
                                   WHERE t.sym = q.sym AND t.px < 100 WINDOW RANGE 1 MINUTE"
      thalweg queries out/
    """  # noqa: D301 - \b keeps the line breaks of a paragraph
    if (text is None) == (file is None):
        message = "give the query as one argument in quotes, or a --file with it, and not both."
        raise typer.BadParameter(message, param_hint="QUERY")
    with failures(debug=debug) as report:
        from thalweg.errors import BindError, QueryError, UnsupportedError

        registry = _opened(directory)
        if file is not None:
            wanted = report.read_script(file)
        else:
            wanted = text or ""
            report.script = Script("QUERY", wanted)
        wanted = wanted.strip()
        report.script = None if report.script is None else Script(report.script.name, wanted)
        try:
            run = registry.register(name, wanted)
        except (UnsupportedError, BindError) as error:
            if "in process" not in str(error):
                raise
            raise UnsupportedError(
                error.what,
                error.location,
                "It cannot share a run, then. If Spark can compute it, it gets a run of its own: add it to the file of "
                "`thalweg run`, or call app.register, and start that again.",
            ) from error
        if run is None:
            raise QueryError(
                "; ".join(registry.why_apart(name, wanted)),
                None,
                "So it needs a run of its own, which only the program can start that has the streams: add the query to "
                "the file of `thalweg run`, or call app.register, and start that again.",
            )
        _tell(f"'{name}' was sent to {run}", registry)
        output().print(f"its results: {registry.outbox(run).places.reader(name)}", soft_wrap=True)


def deregister(directory: DirectoryArgument, name: NameArgument, debug: DebugOption = False) -> None:
    """Let a query go from the run that it shares. What was published for it stays where it is.

    A run ends with its last query: `thalweg run` stops it, and does not start it
    again.

    \b
    Example:
      thalweg deregister out/ cheap
    """  # noqa: D301 - \b keeps the line breaks of a paragraph
    with failures(debug=debug):
        registry = _opened(directory)
        run = registry.deregister(name)
        if registry.has_ended(run):
            output().print(f"'{name}' was the last query of {run}, which ends with it", soft_wrap=True)
        else:
            _tell(f"{run} was told to let '{name}' go", registry)


def queries(
    directory: DirectoryArgument,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list instead, with the texts.")] = False,
    debug: DebugOption = False,
) -> None:
    """List the queries that share the runs of a directory: what serves each, its results, its share of the cost.

    Slices are the rings of a run's windows that all its queries share. The cost
    share says which part of the work of its run a query causes, by its windows.
    A directory of results holds plain parquet files.

    \b
    Example:
      thalweg queries out/
      thalweg queries out/ --json | jq '.[] | .query, .results_so_far'
    """  # noqa: D301 - \b keeps the line breaks of a paragraph
    with failures(debug=debug):
        from thalweg.spark.overview import overview
        from thalweg.spark.queries_file import is_running

        registry = _opened(directory)
        rows = overview(registry)
        if as_json:
            output().print(json.dumps(rows, indent=2, ensure_ascii=False), soft_wrap=True)
            return
        state = "running" if is_running(registry.directory) else "not running"
        output().print(f"{registry.directory}: {state}", soft_wrap=True)
        output().print()
        print_queries(rows)


def print_queries(rows: list[dict[str, Any]], taken: Mapping[str, int] | None = None) -> None:
    """A table of queries; ``taken``: how many results each had since the program was started."""
    now = () if taken is None else ("results",)
    table = grid(
        "query",
        "run",
        "status",
        "slices",
        *now,
        "results so far",
        "cost share",
        "directory",
        right={"results", "results so far", "cost share"},
    )
    for row in rows:
        counts = () if taken is None else (f"{taken.get(row['query'], 0):,}",)
        table.add_row(
            row["query"],
            row["run"],
            row["status"],
            slices_text(row["slices"]),
            *counts,
            f"{row['results_so_far']:,}",
            f"{row['cost_share']:.0%}",
            row["directory"],
        )
    show(output(), table)
    for row in rows:
        if row["failure"] is not None:
            output().print(f"\n{row['query']} {row['failure']}", soft_wrap=True)


def slices_text(slices: Mapping[str, str]) -> str:
    """The slices of the streams, those of equal streams once.

    >>> slices_text({"t": "10 s | 30 s", "q": "10 s | 30 s"}), slices_text({"t": "10 s", "q": "5 s"})
    ('10 s | 30 s', 't: 10 s; q: 5 s')
    """
    if len(set(slices.values())) == 1:
        return next(iter(slices.values()))
    return "; ".join(f"{alias}: {text}" for alias, text in slices.items())


def _opened(directory: Path) -> Registry:
    """The registry of a directory in which queries were started."""
    from thalweg.errors import InputError
    from thalweg.spark.registry import Registry

    registry = Registry(directory)
    if not registry.exists:
        raise InputError(
            f"no queries share runs in {directory}. Give the --sink of a `thalweg run` with several queries, or the "
            "directory of app.start."
        )
    return registry


def _tell(what: str, registry: Registry) -> None:
    from thalweg.spark.queries_file import is_running

    when = "with its next batch but one at the latest" if is_running(registry.directory) else "when it is started again"
    output().print(f"{what}: it obeys {when}", soft_wrap=True)
