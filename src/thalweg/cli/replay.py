"""``thalweg replay``: queries over finite files, in process."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from thalweg.cli.console import activity, diagnostics, output, progress_bar
from thalweg.cli.failures import failures
from thalweg.cli.parameters import takes
from thalweg.cli.places import late_files, result_files
from thalweg.cli.render import counted, print_preview
from thalweg.cli.render_group import print_summaries
from thalweg.cli.replay_arguments import ReplayArguments
from thalweg.cli.values import entries, switches

if TYPE_CHECKING:
    from thalweg.replayer import ReplayResult


@takes(ReplayArguments)
def replay(given: ReplayArguments) -> None:
    """Run queries over files and show or write their results.

    The answer depends on the query and the data alone, never on the plan:
    --plan and --switch change how fast it comes, and what is kept meanwhile.
    Queries of one file share a join where they can; see --sharing.
    With --budget some results are left out, and it is said how many.

    \b
    Example:
      echo "SELECT t.sym, t.price, q.bid
            FROM trades t [RANGE 10 SECONDS], quotes q [RANGE 5 SECONDS]
            WHERE t.sym = q.sym" > spread.cql
      thalweg replay spread.cql --source trades=trades.csv \\
                                --source "quotes=quotes/*.parquet"

    \b
    Results into a file, and another plan after 100,000 tuples:
      thalweg replay abc.cql --source A=a.csv --source B=b.csv --source C=c.csv \\
              --plan "(A B) C" --switch 100000:"(B C) A" --out results.parquet

    \b
    All queries of a file, a file of results for each; one of them enters later:
      thalweg replay spreads.cql --source trades=trades.csv --source quotes=quotes.csv \\
              --out results/ --enter 100000:hourly

    \b
    A stream joined with a table that stays as it is:
      thalweg replay sectors.cql --source trades=trades.csv --static sectors=sectors.csv
    """  # noqa: D301 - \b keeps the line breaks of a paragraph
    given.check()
    files = given.files.named()
    transitions, coming_and_going = switches(given.switch or []), entries(given.enter or [], given.leave or [])
    with failures(debug=given.debug) as report:
        from thalweg.cql.parser import parse
        from thalweg.files import write_table
        from thalweg.replayer import run_all

        cql, query = report.read_script(given.file), given.query
        names = [each.name for each in parse(cql) if query is None or each.name.lower() == query.lower()]
        places = result_files(given.out, names)  # a run should not end at a typing error
        options = given.options()
        with activity() as doing:
            doing("reading the sources")
            tables = files.read()
        with progress_bar("replay") as progress:
            found = run_all(
                cql,
                tables,
                time=files.times,
                time_unit=files.units,
                options=options,
                transitions=transitions,
                entries=coming_and_going,
                query=query,
                progress=progress,
            )
        results = {name: found[name] for name in names}
        for name, path in places.items():
            write_table(results[name].table, path)
        if given.late_out is not None:
            _write_late(results, given.late_out)
        _show(results, places)


def _write_late(results: Mapping[str, ReplayResult], directory: Path) -> None:
    """The late rows of each join, once."""
    from thalweg.files import write_table

    groups = {result.summary.group: result for result in results.values()}
    for group, result in groups.items():
        files = late_files(directory, group, list(result.late), len(groups))
        for alias, table in result.late.items():
            if table.num_rows:
                write_table(table, files[alias])
                diagnostics().print(f"{counted(table.num_rows, 'late row')} of {alias} in {files[alias]}")


def _show(results: Mapping[str, ReplayResult], files: Mapping[str, Path]) -> None:
    console = output()
    for name, result in results.items():
        whose = f" of {name}" if len(results) > 1 else ""
        if name in files:
            console.print(f"{counted(result.table.num_rows, 'result')}{whose} in {files[name]}")
        else:
            if len(results) > 1:
                console.print(name, style="bold")
            print_preview(console, result.table)
            if len(results) > 1:
                console.print()
    if files or len(results) == 1:
        console.print()
    print_summaries(console, [result.summary for result in results.values()])
