"""The facts about queries that share a join, laid out for a person."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from thalweg.cql.durations import format_interval
from thalweg.plan.explain_text import (
    Facts,
    how_it_runs,
    lay_out,
    predicates_text,
    section,
    streams_text,
    table,
    what_is_joined,
    wrapped,
)

_MOST_NAMES = 6
"""Names of queries that are listed in a line; what is more is counted."""


def lay_out_any(facts: Facts) -> str:
    """A query by itself, or queries that share a join."""
    return lay_out_group(facts) if facts["kind"] == "group" else lay_out(facts)


def lay_out_group(facts: Facts) -> str:
    """Sections from what is joined, and for whom, to how it runs and what that costs."""
    queries, sharing = facts["queries"], facts["sharing"]
    what = what_is_joined(facts["streams"])
    lines = [f"{facts['query']}: {len(queries)} queries over one {what}, sharing {sharing['strategy']}", ""]
    lines += section("streams, with the widest window of each", streams_text(facts))
    lines += section("predicates", predicates_text(facts))
    lines += section("queries", _queries(facts))
    lines += section("signatures: who selects alike", _signatures(sharing["signatures"], len(queries)))
    lines += section("slices of windows, and the queries that they serve", _chains(sharing["chains"], len(queries)))
    lines += section("why these slices", iter(sharing["why"]))
    return "\n".join([*lines, *how_it_runs(facts)]).rstrip() + "\n"


def _queries(facts: Facts) -> Iterator[str]:
    """What each query has of its own."""
    rows = []
    for query in facts["queries"]:
        freshness = query["freshness_us"]
        parts = [_output(query), *(f"if {text}" for text in query["residual"])]
        parts += [] if freshness is None else [f"FRESHNESS {format_interval(freshness)}"]
        rows.append((query["query"], _windows(query["windows"]), "; ".join(parts)))
    yield from table(rows)


def _windows(windows: Facts) -> str:
    texts = {alias: each["window"] for alias, each in windows.items()}
    if len(set(texts.values())) == 1:
        return str(next(iter(texts.values())))
    return ", ".join(f"{alias} {text}" for alias, text in texts.items())


def _output(query: Facts) -> str:
    aggregation = query["aggregation"]
    leaving = ", as they leave" if query["output"] == "DSTREAM" else ""
    if aggregation is not None:
        keys = f" for each {', '.join(aggregation['keys'])}" if aggregation["keys"] else ""
        return f"{', '.join(aggregation['calls']) or 'groups'}{keys}{leaving}"
    names = [column["name"] for column in query["columns"]]
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"{', '.join(names[:_MOST_NAMES])}{more}{leaving}"


def _signatures(signatures: Sequence[Facts], queries: int) -> Iterator[str]:
    rows = []
    for each in signatures:
        selections = " and ".join(f"{alias}: {text}" for alias, text in each["selections"].items())
        again = "" if each["exact"] else "  (asked again of results)"
        rows.append((selections or "all rows", f"{names_text(each['queries'], queries)}{again}"))
    yield from table(rows)


def _chains(chains: Facts, queries: int) -> Iterator[str]:
    rows = []
    for alias, chain in chains.items():
        for number, each in enumerate(chain):
            keeps = each["keeps"]
            kept = keeps if each["end_us"] is None else f"tuples kept for {keeps}"
            kept = "tuples kept for ever" if keeps == "for ever" else kept
            served = names_text(each["queries"], queries) or "no query: its tuples are all of use for longer"
            rows.append(("" if number else alias, kept, served))
    yield from table(rows)


def names_text(names: Sequence[str], of: int) -> str:
    """Names of queries, or how many they are.

    >>> names_text(["a", "b"], 3), names_text(["a", "b"], 2), names_text([f"q{i}" for i in range(8)], 9)
    ('a, b', 'all', 'q0, q1, q2, q3, q4, q5 and 2 more')
    """
    if len(names) == of > 1:
        return "all"
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + more


def lay_out_overview(groups: Sequence[Facts]) -> str:
    """Which queries of a text share a join, and why others are by themselves.

    >>> print(lay_out_overview([{"queries": ["a", "b"], "apart": None}, {"queries": ["c"], "apart": "it is new"}]))
    3 queries, 2 joins
      a, b: share a join
      c: is by itself, since it is new
    """
    count = sum(len(group["queries"]) for group in groups)
    lines = [f"{count} queries, {len(groups)} join{'' if len(groups) == 1 else 's'}"]
    for group in groups:
        names, apart = list(wrapped(iter(group["queries"]))), group["apart"]
        lines += [f"  {line}" for line in names[:-1]]
        if len(group["queries"]) > 1:
            lines.append(f"  {names[-1]}: share a join" + ("" if apart is None else f", apart since {apart}"))
        else:
            lines.append(f"  {names[-1]}: is by itself, since {apart}")
    return "\n".join(lines)
