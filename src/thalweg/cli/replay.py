"""``thalweg replay``: a query over finite files, in process."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

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
    SourceOption,
    StatesChoice,
    StaticOption,
    TimeOption,
    TimeUnitOption,
    adaptivity,
    budget_of,
    named,
    static_relations,
    switches,
    time_columns,
    time_units,
)
from thalweg.cli.console import activity, diagnostics, output, progress_bar
from thalweg.cli.failures import failures
from thalweg.cli.render import counted, print_preview, print_summary
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
    query: Annotated[str | None, typer.Option(metavar="NAME", help="Which query, if the file has several.")] = None,
    batch_size: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Tuples per batch; the answer does not depend on it.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Write the results here: .parquet, .csv or .jsonl.")
    ] = None,
    late_out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write the late rows here, one parquet file per stream.")
    ] = None,
    debug: DebugOption = False,
) -> None:
    """Run a query over files and show or write its results.

    The answer depends on the query and the data alone, never on the plan:
    --plan and --switch change how fast it comes, and what is kept meanwhile.
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
    A stream joined with a table that stays as it is:
      thalweg replay sectors.cql --source trades=trades.csv --static sectors=sectors.csv
    """  # noqa: D301 - \b keeps the line breaks of a paragraph
    paths = named(source or [], "--source", SOURCE_EXAMPLE)
    if not paths:
        raise typer.BadParameter(f"name the streams, as in --source {SOURCE_EXAMPLE}.", param_hint="--source")
    relations = static_relations(static or [], paths)
    times = {**time_columns(time or [], paths), **dict.fromkeys(relations)}
    units = time_units(time_unit or [], paths)
    transitions = switches(switch or [])
    if late_out is not None and lateness is None:
        raise typer.BadParameter("without --lateness no row is late.", param_hint="--late-out")
    with failures(debug=debug) as report:
        from thalweg.files import check_place, format_of, write_table

        if out is not None:
            format_of(out)  # a run should not end at a typing error
            check_place(out)
        cql = report.read_script(file)
        from thalweg.options import Options
        from thalweg.replayer import run

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
            batch_size=Options().batch_size if batch_size is None else batch_size,
        )
        with activity() as doing:
            doing("reading the sources")
            tables = read_sources(paths | relations, times)
        with progress_bar("replay") as progress:
            result = run(
                cql,
                tables,
                time=times,
                time_unit=units,
                options=options,
                transitions=transitions,
                query=query,
                progress=progress,
            )
        if out is not None:
            write_table(result.table, out)
        if late_out is not None:
            _write_late(result, late_out)
        _show(result, out)


def _write_late(result: ReplayResult, directory: Path) -> None:
    from thalweg.files import write_table

    for alias, table in result.late.items():
        if table is not None and table.num_rows:
            file = directory / f"{quote(alias, safe='')}.parquet"
            write_table(table, file)
            diagnostics().print(f"{counted(table.num_rows, 'late row')} of {alias} in {file}")


def _show(result: ReplayResult, out: Path | None) -> None:
    console = output()
    if out is None:
        print_preview(console, result.table)
    else:
        console.print(f"{counted(result.table.num_rows, 'result')} in {out}")
    console.print()
    print_summary(console, result.summary)
