"""Random families: queries over one join that differ in windows, selections, residual predicates, lists and outputs."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, get_args

from hypothesis import assume
from hypothesis import strategies as st

from tests.cases import Case, Item, Range, Rows, Star, Window
from tests.expressions import Arith, Cmp, Col, Either, Lit, Pred
from tests.families import Change, Entry, Family, Sharing
from tests.lifetimes import contradictory
from tests.properties.pick import Pick
from tests.properties.predicates import edges, selection
from tests.properties.sketch import Sketch, a_sketch
from tests.properties.strategies import (
    MEMORY_LIMITS,
    MIGRATIONS,
    PRODUCTIONS,
    Profile,
    a_window,
    aggregation,
    difference,
    planned,
    select,
    static_relations,
)

_SHARINGS: tuple[Sharing, ...] = ("auto", "memory", "cpu", "pull_up", *get_args(Sharing))
_OTHER_NAMES = "uvwxyz"


@dataclass(frozen=True)
class FamilyProfile:
    """The features that families may have beside those of their first query."""

    base: Profile
    sizes: tuple[int, ...] = (2, 3, 3, 4, 5, 1)
    strangers: bool = False
    entries: bool = False
    outputs: tuple[str, ...] = ("list", "list", "list", "aggregate")


@st.composite
def families(draw: Any, profile: FamilyProfile) -> Family:
    """A family with features of the profile."""
    pick, base = Pick(draw), profile.base
    size = pick.one(*base.sizes)
    sketch = a_sketch(pick, size, base.classes, (2, 3, 1, 5) if size < 4 else (2, 3), disorder=base.lateness)
    if base.static and pick.chance(2):
        static_relations(sketch, base)
    links = tuple(dict.fromkeys(edges(sketch, base.edges)))
    lateness = pick.one(2, 0, 1, 4) * sketch.clock.unit if base.lateness else None
    kind = pick.one("unrelated", "nested", "equal")
    first = [None if sketch.is_static(item) else a_window(sketch, base) for item in sketch.items]
    drafts: list[tuple[Case, int]] = []
    for number in range(pick.one(*profile.sizes)):
        windows = [one and _varied(sketch, base, kind, number, one) for one in first]
        case = _a_query(sketch, profile, links, windows, lateness)
        stranger = profile.strangers and pick.chance(5)
        drafts.append(_as_stranger(sketch, case, links) if stranger else (case, 0))
    drafts = [draft for draft in drafts if draft[0].minus or not contradictory(draft[0])]
    assume(drafts)
    may_move = lateness is None and not any(isinstance(window, Rows) for window in first)
    dressed = [_dressed(pick, case, first=n == 0, may_move=may_move) for n, (case, _) in enumerate(drafts)]
    family = Family(
        cases=tuple(case for case, _ in dressed),
        places=tuple(places for _, places in dressed),
        joins=tuple(join for _, join in drafts),
        sharing=pick.one(*_SHARINGS),
        most_selections=pick.one(None, 1, 2, 3),
    )
    family = _with_settings(pick, family, base)
    return replace(family, entries=_entries(pick, family)) if profile.entries else family


# Queries ----------------------------------------------------------------------------------------


def _varied(sketch: Sketch, base: Profile, kind: str, number: int, window: Window) -> Window:
    """The window that a query has where the first has this one: of the same kind, so that they may share."""
    pick = sketch.pick
    if kind == "equal" and not pick.chance(6):
        return window
    if isinstance(window, Rows):
        if pick.chance(2):
            return window  # queries of results that leave share only what counts the same rows
        return replace(window, count=window.count + number if kind == "nested" else pick.one(3, 5, 2, 9, 1))
    if kind == "nested" and isinstance(window, Range) and window.width is not None:
        return Range(window.width + number * sketch.clock.unit)
    return a_window(sketch, replace(base, windows=("range", "range", "range", "range", "unbounded", "now")))


def _a_query(
    sketch: Sketch, profile: FamilyProfile, links: tuple[Pred, ...], windows: list[Window | None], lateness: int | None
) -> Case:
    pick = sketch.pick
    own = [selection(sketch, pick.one(*sketch.aliases)) for _ in range(pick.one(1, 0, 1, 2))]
    if pick.chance(10):
        own.append(Cmp("=", Lit(1, "int64"), Lit(0, "int64")))
    if len(sketch.items) > 1 and pick.chance(4):
        own.append(_own_residual(sketch))
    output = pick.one(*profile.outputs)
    lists = aggregation(sketch) if output == "aggregate" else select(sketch)
    return Case(
        streams=sketch.streams,
        items=tuple(replace(item, window=window) for item, window in zip(sketch.items, windows, strict=True)),
        where=tuple(dict.fromkeys(pick.order([*links, *own]) if pick.chance(2) else [*links, *own])),
        output=pick.one(*profile.base.outputs),
        join_style=pick.one("comma", "join"),
        lateness=lateness,
        **lists,
    )


def _own_residual(sketch: Sketch) -> Pred:
    """A predicate over two streams that no join knows."""
    pick = sketch.pick
    one, *others = pick.order(sketch.aliases)
    if sketch.number.family != "timestamp" and pick.chance(2):
        total = Arith("+", Col(one, sketch.number.name), Col(others[0], sketch.number.name))
        return Cmp("<=", total, Lit(pick.one(2, 4), "int64"))
    return Either(selection(sketch, one), selection(sketch, others[0]))


def _as_stranger(sketch: Sketch, case: Case, links: tuple[Pred, ...]) -> tuple[Case, int]:
    """A query over the same streams that joins them in another way; and the number of its join."""
    pick = sketch.pick
    if len(case.items) < 2:
        return case, 0
    if not sketch.is_static(case.items[0]) and pick.chance(3):
        own = tuple(pred for pred in case.where if pred not in links and not isinstance(pred, Cmp | Either))
        plain = {"group_by": (), "having": None, "where": own}
        return replace(case, **{**plain, **difference(sketch)}), -1
    if any(isinstance(pred, Cmp) and pred.op == "<>" for pred in links):
        return case, 0
    one, other = case.items[0].alias, case.items[1].alias
    unlike = Cmp("<>", Col(one, sketch.number.name), Col(other, sketch.number.name))
    return replace(case, where=(*case.where, unlike)), 1


def _dressed(pick: Pick, case: Case, *, first: bool, may_move: bool) -> tuple[Case, tuple[int, ...]]:
    """The same query in other words: its items in another order, under other aliases; and which items these are."""
    places = list(range(len(case.items)))
    if first or case.minus:
        return case, tuple(places)
    if may_move and pick.chance(2):
        wanted = pick.order(places)
        # Those of one stream stay in order: which of them is which would else be for the query to say.
        for name in {item.stream for item in case.items}:
            alike = [n for n, place in enumerate(wanted) if case.items[place].stream == name]
            for n, place in zip(alike, sorted(wanted[n] for n in alike), strict=True):
                wanted[n] = place
        places = wanted
        case = replace(case, items=tuple(case.items[place] for place in places))
    if pick.chance(2):
        case = renamed(case, {item.alias: _OTHER_NAMES[n] for n, item in enumerate(case.items)})
    return case, tuple(places)


def renamed(case: Case, names: dict[str, str]) -> Case:
    """A query with other aliases."""
    changed = {
        field: _renamed(getattr(case, field), names) for field in ("items", "select", "where", "group_by", "having")
    }
    return replace(case, **changed)


def _renamed(node: Any, names: dict[str, str]) -> Any:
    if isinstance(node, tuple):
        return tuple(_renamed(each, names) for each in node)
    if isinstance(node, Col | Item | Star):
        return node if node.alias is None else replace(node, alias=names[node.alias])
    if is_dataclass(node) and not isinstance(node, Lit):
        return type(node)(**{field.name: _renamed(getattr(node, field.name), names) for field in fields(node)})
    return node


# How they run -----------------------------------------------------------------------------------


def _with_settings(pick: Pick, family: Family, base: Profile) -> Family:
    """The family with settings, which are those of its first query; plans only where there is one join."""
    first, *others = family.cases
    first = replace(
        first,
        states=pick.one("all", "none", "auto"),
        batch_size=pick.one(65_536, 1, 2, 7, 16),
        production=pick.one(*PRODUCTIONS),
        migration=pick.one("jisc", "jisc", *MIGRATIONS),
    )
    if first.migration == "jisc":
        first = replace(first, memory_limit=pick.one(*MEMORY_LIMITS))
    if not first.minus and len(family.groups) == 1:
        first = planned(pick, first, base)
    return replace(family, cases=(first, *others))


def _entries(pick: Pick, family: Family) -> tuple[Entry, ...]:
    """Queries come and go, some of them at one position."""
    total = family.total
    places = sorted({pick.below(total + 1) for _ in range(4)} | ({0, total} if pick.chance(3) else set()))
    entries: list[Entry] = []
    for query, case in enumerate(family.cases):
        if case.minus:
            continue
        change: Change = pick.one("enter", "leave")
        for position in sorted(pick.one(*places) for _ in range(pick.one(1, 2, 0, 3))):
            entries.append((position, query, change))
            change = "leave" if change == "enter" else "enter"
    return tuple(pick.order(entries) if len({e[0] for e in entries}) == len(entries) else entries)
