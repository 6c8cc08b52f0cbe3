"""The random cases are worth running: most have results, and every feature turns up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given, settings

from tests.cases import Case, Out, Range, Rows, Star
from tests.expressions import Abs, Agg, Arith, Cmp, Col, Lit, aliases_of, parts
from tests.lifetimes import arrivals
from tests.oracle import expected, output_columns
from tests.properties import test_replay as families
from tests.properties.settings import randomized
from tests.properties.strategies import Profile, cases

PROFILES = {name.lower(): value for name, value in vars(families).items() if isinstance(value, Profile)}


def features(case: Case) -> Iterator[str]:
    """What a case exercises."""
    times = [row[0] for stream in case.streams for row in stream.rows]
    yield f"{len(case.items)} items"
    yield f"states {case.states}"
    for item in case.items:
        yield type(item.window).__name__
        if isinstance(item.window, Rows) and item.window.partition_by:
            yield "partition by"
        if item.window == Range(None):
            yield "unbounded"
    for stream in case.streams:
        yield from (type_ for _, type_ in stream.columns)
        if stream.static:
            yield "static"
        if not stream.rows:
            yield "empty stream"
        if len(set(map(repr, stream.rows))) < len(stream.rows):
            yield "duplicates"
        if any(value is None for row in stream.rows for value in row[1:]):
            yield "null value"
        if any(value != value for row in stream.rows for value in row):
            yield "nan"
        known = [row[0] for row in stream.rows if isinstance(row[0], int)]
        if known != sorted(known):
            yield "unsorted"
    if None in times:
        yield "null time"
    if len(set(times)) < len(times):
        yield "ties"
    if len(case.streams) < len(case.items):
        yield "one stream twice"
    for pred in case.where:
        yield "selection" if len(aliases_of(pred)) == 1 else type(pred).__name__
        yield from ("distance" for part in parts(pred) if isinstance(part, Abs))
        if isinstance(pred, Cmp):
            yield pred.op
    yield from ("star" for out in case.select if isinstance(out, Star))
    yield from read_by_select(case)
    yield from (case.output, case.join_style, "wrapped" if case.wrap else "not wrapped")
    for present, name in (
        (case.window, "window clause"),
        (case.having, "having"),
        (case.group_by, "group by"),
        (case.aggregated and not case.group_by, "one group"),
        (case.by, "corresponding by"),
        (case.lateness == 0, "lateness 0"),
        (sum(map(len, arrivals(case))) < len([t for t in times if t is not None]), "late rows"),
        (case.plan is None, "no plan"),
        (case.batch_size == 1, "batches of 1"),
        (case.eager, "eager"),
        (case.memory_limit, "memory limit"),
    ):
        if present:
            yield name
    for plan in filter(None, (case.plan, *(plan for _, plan in case.transitions))):
        if " - " in plan:
            yield "difference plan"
        else:
            yield "linear" if ":" in plan else "bushy" if ") (" in plan else "left-deep"
    yield from (name for name, _ in case.production) if isinstance(case.production, tuple) else (case.production,)
    positions = [position for position, _ in case.transitions]
    if 0 in positions:
        yield "transition at 0"
    if any(after - before <= 2 for before, after in pairwise(positions)):
        yield "two transitions at once"


def read_by_select(case: Case) -> Iterator[str]:
    """How much of the streams the SELECT list reads."""
    columns = [part for column in output_columns(case) for part in parts(column)]
    aliases = {column.alias for column in columns if isinstance(column, Col)}
    if all(isinstance(column, Lit) for column in columns):
        yield "literals alone"
    if len(columns) == 1 and aliases:
        yield "one column"
    if aliases and aliases != {item.alias for item in case.items}:
        yield "nothing of some stream"
    if any(out == Star() for out in case.select):
        yield "everything"
    if any(
        isinstance(out, Out) and isinstance(out.expr, Arith) and Agg("COUNT") in parts(out.expr) for out in case.select
    ):
        yield "call inside an expression"


ALWAYS = {
    *("int16", "binary"),
    *("states all", "states none", "states auto", "Range", "int64", "int32", "string", "decimal(10,2)"),
    *(
        "decimal(12,4)",
        "double",
        "float",
        "int16",
        "binary",
        "date",
        "bool",
        "empty stream",
        "duplicates",
        "null value",
        "nan",
        "unsorted",
    ),
    *("null time", "ties", "one stream twice", "selection", "no plan", "batches of 1"),
    *("comma", "join", "wrapped", "not wrapped"),
    *("push", "jit", "auto", "lattice", "filter_bits", "memory limit"),
}
WINDOWS = {"Rows", "partition by", "unbounded", "Now"}
THETA = {"distance", "Between", "<", "<=", ">", ">=", "<>"}
LINKS = {"=", "<=>", "linear", "left-deep", "eager"}
CHANGES = {"transition at 0", "two transitions at once", "linear", "left-deep", "bushy", "eager"}
OUTPUTS = {"istream", "dstream"}
LISTS = {"literals alone", "one column", "nothing of some stream", "everything"}
STATIC = {"static"}
SPECIAL: dict[str, set[str]] = {
    "one_class": LISTS | {"window clause", "star", "Either", "bushy", "6 items", *LINKS},
    "several_classes": LISTS | {"window clause", "star", "Either", "bushy", "6 items", *LINKS},
    "theta": THETA | LISTS | {"linear"},
    "mixed": LISTS | THETA | WINDOWS | LINKS | STATIC,
    "rows": WINDOWS | LINKS | LISTS,
    "intervals": {"NoneType", "Between", ">", ">="} | OUTPUTS | LINKS | STATIC,
    "leaving": WINDOWS | LINKS | STATIC | LISTS,
    "aggregates": {"call inside an expression", "having", "group by", "one group", "1 items"}
    | OUTPUTS
    | WINDOWS
    | STATIC,
    "differences": {"corresponding by", "difference plan", "two transitions at once"} | OUTPUTS | WINDOWS | STATIC,
    "late_rows": {"late rows", "lateness 0", "1 items"} | OUTPUTS | WINDOWS | LINKS | STATIC,
    "transitions": CHANGES,
    "mixed_transitions": CHANGES | WINDOWS | THETA | OUTPUTS | STATIC,
    "aggregates_under_transitions": CHANGES | {"group by"} | STATIC,
}


@pytest.mark.parametrize("name", PROFILES)
def test_most_cases_have_results_and_every_feature_turns_up(name: str) -> None:
    seen: Counter[str] = Counter()
    outcomes: list[bool] = []

    @settings(randomized(share=0), max_examples=220, derandomize=True)
    @given(cases(PROFILES[name]))
    def collect(case: Case) -> None:
        seen.update(set(features(case)))
        if len(outcomes) < 80:
            outcomes.append(bool(expected(case)))

    collect()
    assert not (ALWAYS | SPECIAL[name]) - set(seen)
    assert sum(outcomes) > len(outcomes) // 2
