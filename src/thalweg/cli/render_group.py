"""What a replay of several queries did: one summary for each join."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from thalweg.cli.console import grid, show
from thalweg.cli.render import counted, duration, print_run, print_summary, speed

if TYPE_CHECKING:
    from rich.console import Console

    from thalweg.replayer import Summary

_MOST_NAMES = 6
"""Names of queries in a headline; the table below it has them all."""


def by_group(summaries: Sequence[Summary]) -> list[list[Summary]]:
    """Summaries of one replay together."""
    groups: dict[tuple[str, ...], list[Summary]] = {}
    for summary in summaries:
        groups.setdefault(summary.group, []).append(summary)
    return list(groups.values())


def print_summaries(console: Console, summaries: Sequence[Summary]) -> None:
    """A summary for each join: a query's own, or that of the queries that shared it."""
    for number, group in enumerate(by_group(summaries)):
        if number:
            console.print()
        if group[0].is_shared:
            print_group(console, group)
        else:
            print_summary(console, group[0])


def print_group(console: Console, group: Sequence[Summary]) -> None:
    """What each of these queries got, and what the join did that they shared."""
    shared = group[0]
    names = [summary.query for summary in group]
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    total, results = sum(shared.tuples_in.values()), sum(summary.results for summary in group)
    headline = f"{', '.join(names[:_MOST_NAMES])}{more}: {len(names)} queries over one join"
    found = f"{counted(results, 'result')} from {counted(total, 'tuple')} in {duration(shared.seconds)}"
    console.print(f"{headline}, {found}{speed(shared)}", style="bold")
    console.print()
    came_or_went = any(summary.present != ((0, total),) for summary in group)
    is_budgeted = shared.budget is not None and not shared.budget.is_complete
    columns = ["query", "results", *(["of its answer"] * is_budgeted), *(["there"] * came_or_went)]
    queries = grid(*columns, right={"results", "of its answer"})
    for summary in group:
        answer = None if summary.budget is None else summary.budget.answer
        share = [f"{answer.share:.1%} ± {answer.error:.1%}" if answer is not None else "unknown"] * is_budgeted
        presence = [", ".join(_presence(summary, total))] if came_or_went else []
        queries.add_row(summary.query, f"{summary.results:,}", *share, *presence)
    show(console, queries)
    console.print()
    console.print(f"What follows is of the join that they share. Its streams have their names from {shared.group[0]}.")
    console.print()
    print_run(console, shared)


def _presence(summary: Summary, total: int) -> Iterator[str]:
    for start, end in summary.present:
        if (start, end) == (0, total):
            yield "always"
        elif end == total:
            yield f"from tuple {start:,}"
        elif start == 0:
            yield f"up to tuple {end:,}"
        else:
            yield f"from tuple {start:,} up to {end:,}"
