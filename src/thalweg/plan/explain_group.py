"""How queries over one join share it: as facts for programs. :mod:`~thalweg.plan.explain_group_text` lays them out.

The keys of a group are those of a single query's facts (:mod:`~thalweg.plan.explain`), but for what each query has of
its own. That is in ``queries``. How they share the join is in ``sharing``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from thalweg.cql.group import Group, placed_in
from thalweg.cql.query import JoinSpec, Query, Reader, RowsWindow
from thalweg.cql.rendering import render
from thalweg.plan.difference import AnyPlan
from thalweg.plan.explain import Facts, aggregation_facts, column_facts, explain_json, length_text, window_text
from thalweg.plan.slices import MOST_SELECTIONS, Shared, Span, share
from thalweg.plan.statistics import Statistics
from thalweg.policies import DEFAULT_POLICIES, Policies
from thalweg.settings import Sharing

_OF_EACH_QUERY = ("output", "freshness_us", "columns", "aggregation")
"""Keys of a query's facts that a group has once per query."""


def explain_group(
    group: Group,
    plan: AnyPlan | None,
    statistics: Statistics,
    policies: Policies = DEFAULT_POLICIES,
    *,
    basis: Sequence[str] | None = None,
) -> Facts:
    """A join, the queries that share it, and its plan. The arguments are those of the group's whole query."""
    whole, sharing = group.whole, policies.sharing
    facts = explain_json(whole, plan, statistics, replace(policies, budget=None), basis=basis)
    shared = share(group, sharing, is_keyed=bool(whole.classes))
    signature = {place: number for number, each in enumerate(shared.signatures) for place in each.readers}
    for key in _OF_EACH_QUERY:
        del facts[key]
    facts["kind"] = "group"
    facts["predicates"] |= {"selections": {}, "residual": []}
    facts["queries"] = [
        _reader(group.query(reader), reader, signature[place]) for place, reader in enumerate(group.readers)
    ]
    facts["sharing"] = {
        "strategy": sharing,
        "signatures": list(_signatures(group, shared)),
        "chains": {ref.alias: _chain(group, shared, s) for s, ref in enumerate(whole.streams) if not ref.is_static},
        "tells_apart": shared.slicing.is_aged,
        "why": list(_why(group, shared, sharing)),
    }
    return facts


def _reader(query: Query, reader: Reader, signature: int) -> Facts:
    """What a query has of its own, in the words of the group's join."""
    return {
        "query": reader.name,
        "output": reader.output.value,
        "freshness_us": reader.freshness_us,
        "columns": column_facts(query),
        "aggregation": aggregation_facts(query),
        "windows": {
            ref.alias: {
                "window": window_text(ref.window),
                "retention_us": ref.retention_us,
                "freshness_us": ref.freshness_us,
            }
            for ref in query.streams
            if not ref.is_static
        },
        "selections": {ref.alias: render(ref.selection) for ref in query.streams if ref.selection is not None},
        "residual": [render(predicate) for predicate in reader.residual],
        "signature": signature,
    }


def _signatures(group: Group, shared: Shared) -> Iterator[Facts]:
    aliases = [stream.alias for stream in group.join.streams]
    for number, (each, bit) in enumerate(zip(shared.signatures, shared.bits, strict=True)):
        yield {
            "selections": {
                alias: render(selection)
                for alias, selection in zip(aliases, each.selections, strict=True)
                if selection is not None
            },
            "queries": [group.readers[place].name for place in each.readers],
            "bit": bit,
            "exact": shared.is_exact(number),
        }


# Slices, and whom they serve ---------------------------------------------------------------------


def _chain(group: Group, shared: Shared, stream: int) -> list[Facts]:
    """The slices of a stream's window, the shortest first."""
    window = group.whole.streams[stream].window
    start: Span = 0
    chain = []
    for end in shared.slicing.ends[stream]:
        if isinstance(window, RowsWindow):
            keeps = window_text(window)
        else:
            keeps = "for ever" if end is None else length_text(end)
        serves = {
            place for number in _served(shared, stream, start, end) for place in shared.signatures[number].readers
        }
        names = [reader.name for place, reader in enumerate(group.readers) if place in serves]
        chain.append({"end_us": end, "keeps": keeps, "queries": names})
        start = end
    return chain


def _served(shared: Shared, stream: int, start: Span, end: Span) -> Iterator[int]:
    """The signatures of the tuples of a slice: of those that are of use for longer than ``start``, and up to ``end``.

    A tuple's lineage is the longest among the selections that it passes. What takes all tuples is among them always.
    """
    lengths = _lengths(shared, stream)
    always = max((length for _, length, takes_all in lengths if takes_all), default=-1.0)
    for number, bit in enumerate(shared.bits):
        mine = max(always, *(length for bits, length, _ in lengths if bits >> bit & 1))
        others = [length for _, length, _ in lengths if _length(start) < length <= _length(end)]
        if mine <= _length(end) and (mine > _length(start) or others):
            yield number


def _lengths(shared: Shared, stream: int) -> list[tuple[int, float, bool]]:
    """The selections of a stream: their bits, for how long what passes is of use, and whether they take all."""
    reach = shared.slicing.reach[stream]
    return [
        (bits, max(_length(span) for bit, span in enumerate(reach) if bits >> bit & 1), selection is None)
        for selection, bits in shared.selections(stream)
    ]


def _length(span: Span) -> float:
    return float("inf") if span is None else float(span)


# Why ---------------------------------------------------------------------------------------------


def _why(group: Group, shared: Shared, sharing: Sharing) -> Iterator[str]:
    for stream, ref in enumerate(group.whole.streams):
        if not ref.is_static:
            yield f"{ref.alias}: {_why_slices(group, shared, sharing, stream)}"
    if not shared.slicing.is_aged:
        yield "All of them select alike and have the same windows: every result is for each of them."
    elif len(shared.signatures) > MOST_SELECTIONS:
        yield (
            f"Masks tell {MOST_SELECTIONS} signatures apart, and there are {len(shared.signatures)}: some share a bit, "
            "and their selections are asked again of results."
        )


def _why_slices(group: Group, shared: Shared, sharing: Sharing, stream: int) -> str:
    if isinstance(group.whole.streams[stream].window, RowsWindow):
        return "one slice, since what counts rows is counted over all of them"
    slices, lengths = len(shared.slicing.ends[stream]), _lineages(shared, stream)
    if sharing == "pull_up" and shared.is_pulled_up:
        return "one slice: sharing pull_up keeps all tuples for the longest window, and asks selections of results"
    if sharing == "push_down" and shared.slicing.selections > 1:
        return "no slices: sharing push_down keeps and joins each part of it that the same selections take by itself"
    if lengths == 1:
        return "all of its tuples are of use for the same time"
    many = f"its tuples are of use for {lengths} lengths of time"
    if sharing == "memory":
        return f"{many}: a slice for each, so that no tuple stays longer"
    if slices >= lengths:
        return f"{many}: a slice for each costs a probe least"
    return f"{many}: to have them in {_counted(slices)} costs a probe least"


def _lineages(shared: Shared, stream: int) -> int:
    """How many lengths of time there are for which tuples of a stream are of use."""
    lengths = _lengths(shared, stream)
    always = max((length for _, length, takes_all in lengths if takes_all), default=-1.0)
    return len({max(always, length) for _, length, _ in lengths})


def _counted(slices: int) -> str:
    return "1 slice" if slices == 1 else f"{slices} slices"


NO_OTHER = "no other query joins the same streams"
"""Why a query is by itself, if there is nothing to compare it with."""


def why_apart(query: Query, others: Sequence[Group]) -> str:
    """Why a query does not read the join of any of these groups."""
    if query.kind == "difference":
        return "a set difference is no join"
    names = sorted(ref.stream for ref in query.streams)
    alike = [group for group in others if sorted(stream.stream for stream in group.join.streams) == names]
    alike = [group for group in alike if group.join.kind == "join"]
    if not alike:
        return NO_OTHER
    join = query.join
    other = min(  # the one that is most like it
        alike,
        key=lambda group: (placed_in(query, group.join) is None, _counted_rows(group.join) != _counted_rows(join)),
    )
    name = other.readers[0].name
    if placed_in(query, other.join) is not None:
        return f"its ROWS windows differ in size from those of {name}, and results that leave depend on that"
    if _counted_rows(join) != _counted_rows(other.join):
        return f"{name} counts rows where this one does not, or the other way round"
    if _counted_rows(join) and [ref.stream for ref in query.streams] != [
        stream.stream for stream in other.join.streams
    ]:
        return f"{name} names its streams in another order, by which rows are counted"
    return f"{name} joins the same streams by other predicates"


def _counted_rows(join: JoinSpec) -> list[str]:
    """The streams whose windows count rows."""
    return sorted(stream.stream for stream in join.streams if stream.partition_by is not None)
