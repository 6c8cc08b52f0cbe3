"""What a person sees of a budget on Spark: the share of the answer that was found, who loses, how fresh it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from thalweg.cli.console import grid
from thalweg.cli.render import duration

if TYPE_CHECKING:
    from rich.table import Table

    from thalweg.cli.progress import Spent


def share_text(share: float | None, error: float | None) -> str:
    """How much of the answer there is.

    >>> share_text(0.753, 0.012), share_text(1.0, 0.0), share_text(None, None)
    ('75.3% ± 1.2%', 'all', 'unknown')
    """
    if share is None or error is None:
        return "unknown"
    return "all" if share == 1.0 and not error else f"{share:.1%} ± {error:.1%}"


def spent_text(spent: Spent) -> str:
    """What was left out in all batches of a run.

    >>> from thalweg.cli.progress import Spent
    >>> spent_text(Spent(wanted=5, allowed=5))
    'budget: nothing was refused, so the answer is complete.'
    >>> spent_text(Spent(wanted=10, allowed=5, found=3, full=4.0))
    'budget: 5 of 10 probes were refused. About 75.0% ± 0.0% of the results of the join were found.'
    """
    refused = spent.wanted - spent.allowed
    if not refused:
        return "budget: nothing was refused, so the answer is complete."
    known = spent.share
    found = (
        "Nobody knows how many results are missing" if known is None else f"About {share_text(*known)} of the results"
    )
    end = "." if known is None else " of the join were found."
    return f"budget: {refused:,} of {spent.wanted:,} probes were refused. {found}{end}"


def change_text(batch: int, before: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """What a batch has changed about the budget and about what is refused, and why; None: nothing.

    >>> whole, part = {"refused": 0, "budget": "auto"}, {"refused": 5, "budget": "auto", "share": 0.5, "error": 0.01}
    >>> change_text(7, whole, {**part, "reason": "a trigger is short"})
    'batch 7: 50.0% ± 1.0% of the answer from now on: a trigger is short'
    >>> change_text(9, part, whole)
    'batch 9: the full answer again'
    >>> change_text(9, part, {**whole, "budget": "none"})
    'batch 9: the budget is none instead of auto; the full answer again'
    """
    if not now:
        return None
    changes = []
    if before and before["budget"] != now["budget"]:
        changes.append(f"the budget is {now['budget']} instead of {before['budget']}")
    if now["refused"] and not (before and before["refused"]):
        changes.append(f"{share_text(now['share'], now['error'])} of the answer from now on: {now['reason']}")
    if before and before["refused"] and not now["refused"]:
        changes.append("the full answer again")
    return f"batch {batch:,}: {'; '.join(changes)}" if changes else None


def losers(spending: Mapping[str, Any]) -> str:
    """The streams whose probes were refused, and how many of them.

    >>> losers({"streams": {"a": {"wanted": 10, "refused": 5}, "b": {"wanted": 3, "refused": 0}}})
    'a 50%'
    >>> losers({"streams": {}})
    'none'
    """
    lost = {alias: each["refused"] / each["wanted"] for alias, each in spending["streams"].items() if each["refused"]}
    return ", ".join(f"{alias} {share:.0%}" for alias, share in sorted(lost.items(), key=lambda p: -p[1])) or "none"


def overload_rows(spending: Mapping[str, Any], freshness: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What is said of the last batch, in a few words each."""
    if spending:
        yield "share of the answer", share_text(spending["share"], spending["error"])
        queries = spending.get("queries", {})
        if len(queries) > 1:
            for name, each in queries.items():
                yield f"share of {name}", share_text(each["share"], each["error"])
        found = {alias: each for alias, each in spending["streams"].items() if each["share"] is not None}
        if spending["refused"] and found:
            texts = (f"{alias} {share_text(each['share'], each['error'])}" for alias, each in found.items())
            yield "found by tuples of", ", ".join(texts)
        yield "probes refused", f"{spending['refused']:,} of {spending['wanted']:,}"
        yield "who loses", losers(spending)
        yield "allowance", allowance_text(spending)
        yield "why", spending["reason"]
    for query, streams in freshness.items():
        for alias, each in streams.items():
            yield f"age of {alias} in {query}", age_text(each)


def allowance_text(spending: Mapping[str, Any]) -> str:
    """The probes that a batch may make.

    >>> allowance_text({"budget": "60%", "granted": 1234.5})
    '1,234 probes (60%)'
    """
    return f"{spending['granted']:,.0f} probes ({spending['budget']})"


def age_text(fresh: Mapping[str, Any]) -> str:
    """How old the tuples of a stream are in results.

    >>> age_text({"asked": 12.0, "results": 5, "stale": 0, "p50": 3.0, "p99": 9.5, "max": 10.0})
    '3.00 s, 99% within 9.50 s, at most 10.00 s; asked: 12.00 s; stale: 0'
    """
    if fresh["max"] is None:
        return "no results"
    ages = f"{duration(fresh['p50'])}, 99% within {duration(fresh['p99'])}, at most {duration(fresh['max'])}"
    return f"{ages}; asked: {duration(fresh['asked'])}; stale: {fresh['stale']:,}"


def prices_table(prices: Mapping[str, Any]) -> Table:
    """What triggers take, as it was measured."""
    table = grid("a trigger takes", "", right={""})
    table.add_row("in any case", duration(prices["fixed"]))
    for name, what in (("row", "a row"), ("tuple", "a row of one partition"), ("probe", "a probe there")):
        table.add_row(f"for a million times {what}", duration(1e6 * prices[name]))
    return table
