"""``thalweg replay``: queries over finite files, in process."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
    SharingChoice,
    SharingOption,
    SourceOption,
    StatesChoice,
    StaticOption,
    TimeOption,
    TimeUnitOption,
    adaptivity,
    budget_of,
    entries,
    named,
    static_relations,
    switches,
    time_columns,
    time_units,
)
from thalweg.cli.console import activity, diagnostics, output, progress_bar
from thalweg.cli.failures import failures
from thalweg.cli.places import late_files, result_files
from thalweg.cli.render import counted, print_preview
from thalweg.cli.render_group import print_summaries
from thalweg.cli.sources import SOURCE_EXAMPLE, read_sources

if TYPE_CHECKING:
    from thalweg.replayer import ReplayResult


def replay(
    file: ScriptArgument,
    source: SourceOption = None,
    static: StaticOption = None,
    time: TimeOption = None,
    time_unit: TimeUnitOption = None,
    plan: Annotated[
        str | None, typer.Option(metavar="PLAN", help='Initial plan, such as "(A B) C". Default: the planner picks.')
    ] = None,
    switch: Annotated[
        list[str] | None,
        typer.Option(metavar="N:PLAN", help='Change the plan after N tuples, as in 100000:"(B C) A". Repeatable.'),
    ] = None,
    states: Annotated[
        StatesChoice, typer.Option(help="Which intermediate states to keep; auto: those that earn their keep.")
    ] = StatesChoice.AUTO,
    migration: MigrationOption = MigrationChoice.JISC,
    memory_limit: MemoryOption = None,
    production: ProductionOption = ProductionChoice.PUSH,
    adaptive: AdaptiveOption = None,
    budget: BudgetOption = None,
    allocation: AllocationOption = AllocationChoice.JAQPOT,
    lateness: Annotated[
        str | None,
        typer.Option(metavar="SPAN", help='How far rows may lag, as in "5 seconds". Default: no row is late.'),
    ] = None,
    query: Annotated[str | None, typer.Option(metavar="NAME", help="Only this query of the file.")] = None,
    sharing: SharingOption = SharingChoice.AUTO,
    enter: Annotated[
        list[str] | None,
        typer.Option(metavar="N:QUERY", help="The query comes after N tuples, as in 100000:spread. Repeatable."),
    ] = None,
    leave: Annotated[
        list[str] | None,
        typer.Option(metavar="N:QUERY", help="The query goes after N tuples. It may enter again. Repeatable."),
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Tuples per batch; the answer does not depend on it.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="Write the results here: .parquet, .csv or .jsonl. Of several queries: a directory, or '{query}.csv'.",
        ),
    ] = None,
    late_out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write the late rows here, one parquet file per stream.")
    ] = None,
    debug: DebugOption = False,
) -> None:
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
    paths = named(source or [], "--source", SOURCE_EXAMPLE)
    if not paths:
        raise typer.BadParameter(f"name the streams, as in --source {SOURCE_EXAMPLE}.", param_hint="--source")
    relations = static_relations(static or [], paths)
    times = {**time_columns(time or [], paths), **dict.fromkeys(relations)}
    units = time_units(time_unit or [], paths)
    transitions, coming_and_going = switches(switch or []), entries(enter or [], leave or [])
    if late_out is not None and lateness is None:
        raise typer.BadParameter("without --lateness no row is late.", param_hint="--late-out")
    with failures(debug=debug) as report:
        from thalweg.cql.parser import parse
        from thalweg.files import write_table
        from thalweg.options import Options
        from thalweg.replayer import run_all

        cql = report.read_script(file)
        names = [each.name for each in parse(cql) if query is None or each.name.lower() == query.lower()]
        files = result_files(out, names)  # a run should not end at a typing error
        options = Options(
            plan=plan,
            states=states.value,
            migration=migration.value,
            memory_limit=memory_limit,
            production=production.value,
            adaptive=adaptivity(adaptive),
            budget=budget_of(budget),
            allocation=allocation.value,
            lateness=lateness,
            late_rows="count" if late_out is None else "table",
            sharing=sharing.value,
            batch_size=Options().batch_size if batch_size is None else batch_size,
        )
        with activity() as doing:
            doing("reading the sources")
            tables = read_sources(paths | relations, times)
        with progress_bar("replay") as progress:
            found = run_all(
                cql,
                tables,
                time=times,
                time_unit=units,
                options=options,
                transitions=transitions,
                entries=coming_and_going,
                query=query,
                progress=progress,
            )
        results = {name: found[name] for name in names}
        for name, path in files.items():
            write_table(results[name].table, path)
        if late_out is not None:
            _write_late(results, late_out)
        _show(results, files)


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
