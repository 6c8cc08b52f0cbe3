"""Random cases: a query in structured form, its streams, and a way to run it.

A :class:`Profile` says which features a family of cases may use; :func:`cases` draws from it.
All draws are small and independent, so that a counterexample shrinks to the features it needs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from hypothesis import strategies as st

from tests.cases import TIME, Case, Item, Now, Out, Range, Rows, Star, Window
from tests.expressions import Agg, Arith, Cmp, Col, Expr, Lit, Pred, ResultTime
from tests.lifetimes import arrivals
from tests.properties.pick import Pick
from tests.properties.plans import a_difference, a_plan
from tests.properties.predicates import EdgeKind, edges, interval, residual, selection
from tests.properties.sketch import Sketch, a_sketch

Migration = Literal["jisc", "moving_state", "parallel_track", "parallel_track_printed", "cacq", "stairs", "stairs_jisc"]
WindowKind = Literal["range", "now", "unbounded", "rows", "partition"]
RANGES: tuple[WindowKind, ...] = ("range",) * 14 + ("unbounded", "now")
MIGRATIONS: tuple[Migration, ...] = ("jisc", *get_args(Migration))
"""The policies under which the answer stays what it is."""
PRODUCTIONS: tuple[str | tuple[tuple[str, int], ...], ...] = (
    *("push",) * 5,
    *("jit",) * 2,
    "auto",
    *((("lattice", most),) for most in (2, 3, 4)),
    *((("filter_bits", bits),) for bits in (1, 64, 1024)),
    (("lattice", 2), ("filter_bits", 64)),
)
"""A third without feedback; the others by looking, or by filters that are too small or large enough."""
MEMORY_LIMITS = (None, None, None, 1, 20_000)
LITERALS = (Lit(1, "int64"), Lit("x", "string"), Lit(True, "bool"))
"""A list of these reads no column of any stream."""
ALL_WINDOWS: tuple[WindowKind, ...] = ("range",) * 5 + ("rows",) * 5 + ("partition",) * 4 + ("unbounded", "now")


@dataclass(frozen=True)
class Profile:
    """The features that cases may have; what is a tuple is drawn from, so repetition is weight."""

    kind: Literal["join", "aggregate", "except"] = "join"
    sizes: tuple[int, ...] = (2, 2, 3, 3, 4, 5, 6)
    edges: tuple[EdgeKind, ...] = ("key",)
    classes: int = 1
    windows: tuple[WindowKind, ...] = RANGES
    derived: bool = False
    outputs: tuple[Literal["istream", "dstream"], ...] = ("istream",)
    lateness: bool = False
    transitions: int = 0
    static: bool = False


@st.composite
def cases(draw: Any, profile: Profile) -> Case:
    """A case with features of the profile."""
    pick = Pick(draw)
    size = pick.one(*profile.sizes)
    domains = (3, 5, 2) if profile.kind == "except" else (2, 3, 1, 5) if size < 4 else (2, 3)
    sketch = a_sketch(pick, size, profile.classes, domains, disorder=profile.lateness)
    if profile.static and pick.chance(2):
        static_relations(sketch, profile)
    where: list[Pred] = []
    clause: Window | None = None
    if profile.derived:
        where += derived_windows(sketch, profile)
    else:
        clause = windows(sketch, profile)
    if profile.kind != "except":
        where += edges(sketch, profile.edges)
        where += [residual(sketch)] if pick.chance(8) else []
    selections = pick.one(0, 0, 0, 1, 2) if size < 4 else pick.one(0, 0, 0, 1)
    where += [selection(sketch, pick.one(*sketch.aliases)) for _ in range(selections)]
    lists = {"join": select, "aggregate": aggregation, "except": difference}[profile.kind](sketch)
    case = Case(
        streams=sketch.streams,
        items=tuple(sketch.items),
        where=tuple(dict.fromkeys(where)),
        output=pick.one(*profile.outputs),
        window=clause,
        join_style=pick.one("comma", "join"),
        wrap=pick.chance(4),
        lateness=pick.one(2, 0, 1, 4) * sketch.clock.unit if profile.lateness else None,
        states=pick.one("all", "none", "auto"),
        batch_size=pick.one(65_536, 1, 2, 7, 16),
        migration=pick.one(*MIGRATIONS) if profile.transitions else "jisc",
        production=pick.one(*PRODUCTIONS),
        **lists,
    )
    if case.migration == "jisc":
        case = replace(case, memory_limit=pick.one(*MEMORY_LIMITS))
    return planned(pick, case, profile)


def static_relations(sketch: Sketch, profile: Profile) -> None:
    """Make some of the streams static relations: not all, and not what an EXCEPT starts from."""
    pick = sketch.pick
    moving = sketch.items[0] if profile.kind == "except" else pick.one(*sketch.items)
    sketch.streams = tuple(
        replace(stream, static=stream.name != moving.stream and pick.chance(2)) for stream in sketch.streams
    )


# Windows ----------------------------------------------------------------------------------------


def windows(sketch: Sketch, profile: Profile) -> Window | None:
    """Give every stream its window; returns that of the WINDOW clause, if there is one.

    A single stream may do without one, unless results are to leave.
    """
    pick = sketch.pick
    clause = Range(sketch.clock.span(pick)) if pick.chance(5) else None
    moving = [s for s, item in enumerate(sketch.items) if not sketch.is_static(item)]
    if len(moving) == 1 and profile.kind == "join" and profile.outputs == ("istream",) and pick.chance(2):
        return clause
    for s in moving:
        if clause is None or pick.chance(2):
            sketch.items[s] = replace(sketch.items[s], window=a_window(sketch, profile))
    return clause


def a_window(sketch: Sketch, profile: Profile) -> Window:
    pick = sketch.pick
    kind = pick.one(*profile.windows)
    if kind == "range":
        return Range(sketch.clock.span(pick))
    if kind == "now":
        return Now()
    if kind == "unbounded":
        return Range(None)
    by = pick.one(*sketch.keys, sketch.number).name
    return Rows(pick.one(3, 5, 2, 9, 1), (by,) if kind == "partition" else ())


def derived_windows(sketch: Sketch, profile: Profile) -> list[Pred]:
    """Leave windows out where the interval predicates, which are returned, imply them.

    Static relations have none, and imply none. An item without a window is tied to one whose reach is
    known: one with a finite RANGE, or one tied in the same way. If no item has a window, every tie must bound both
    sides.
    """
    pick = sketch.pick
    predicates: list[Pred] = []
    moving = [s for s, item in enumerate(sketch.items) if not sketch.is_static(item)]
    none_at_all = len(moving) > 1 and pick.chance(2)
    bounded: list[Item] = []
    for s in moving:
        item, first = sketch.items[s], s == moving[0]
        derived = none_at_all or (not first and not pick.chance(3))
        if not derived:
            window = Range(sketch.clock.span(pick)) if first else a_window(sketch, profile)
            sketch.items[s] = item = replace(item, window=window)
        elif not first:
            anchor = pick.one(*bounded)
            both = anchor.window is None
            predicates.append(interval(sketch, Col(item.alias, TIME), Col(anchor.alias, TIME), both_sides=both))
        if derived or (isinstance(item.window, Range) and item.window.width is not None):
            bounded.append(item)
    return predicates


# Output lists -----------------------------------------------------------------------------------


def select(sketch: Sketch) -> dict[str, Any]:
    pick = sketch.pick
    form = pick.one("columns", "columns", "columns", "all", "one stream", "one column", "literals")
    outs: list[Out | Star] = []
    if form == "columns":
        outs += [Out(an_expression(sketch), f"c{c}") for c in range(pick.one(1, 2, 3))]
    elif form == "one column":
        outs.append(Out(sketch.a_column(), "c0"))
    elif form == "literals":
        outs += [Out(pick.one(*LITERALS), f"c{c}") for c in range(pick.one(1, 2))]
    else:
        outs.append(Star() if form == "all" else Star(pick.one(*sketch.aliases)))
    if form in ("columns", "all", "one stream") and not pick.chance(4):
        outs.append(Out(ResultTime(), "rt"))
    return {"select": tuple(outs)}


def an_expression(sketch: Sketch) -> Expr:
    if sketch.number.family != "timestamp" and sketch.pick.chance(5):
        return Arith(sketch.pick.one("+", "-"), sketch.a_number(), sketch.a_number())
    return sketch.a_column()


def aggregation(sketch: Sketch) -> dict[str, Any]:
    pick = sketch.pick
    keys = tuple(dict.fromkeys(an_expression(sketch) for _ in range(pick.one(1, 0, 2))))
    calls = [a_call(sketch) for _ in range(pick.one(1, 2, 3))]
    having: Pred | None = None
    if pick.chance(3):
        having = Cmp(pick.one(">", "<=", "="), Agg("COUNT"), Lit(pick.one(1, 2, 0), "int64"))
    elif sketch.number.family == "int" and pick.chance(4):
        having = Cmp(pick.one(">", "<="), Agg("SUM", sketch.a_number()), Lit(pick.one(2, 5), "int64"))
    shown: list[Expr] = [*keys[: pick.one(2, 1, 0)], *calls]
    if pick.chance(4):  # an aggregate that shows only inside an expression
        shown[-1] = Arith("-", Agg("COUNT"), Agg("COUNT", sketch.a_column()))
    outs = [Out(expr, f"c{c}") for c, expr in enumerate(shown)]
    if not pick.chance(4):
        outs.append(Out(ResultTime(), "rt"))
    return {"select": tuple(outs), "group_by": keys, "having": having}


def a_call(sketch: Sketch) -> Agg:
    pick = sketch.pick
    function: Literal["COUNT", "SUM", "MIN", "MAX", "AVG"] = pick.one("COUNT", "SUM", "MIN", "MAX", "AVG")
    if function == "COUNT":
        return Agg("COUNT", sketch.a_column() if pick.chance(2) else None)
    if function in ("SUM", "AVG"):
        number = sketch.a_number()
        return Agg(function, number) if sketch.number.family != "timestamp" else Agg("COUNT", number)
    column = sketch.a_column()
    return Agg("COUNT" if sketch.type_of(column) == "bool" else function, column)


def difference(sketch: Sketch) -> dict[str, Any]:
    """Lists for EXCEPT: only the key columns, or with CORRESPONDING BY also others."""
    pick = sketch.pick
    by = tuple(column.name for column in sketch.keys) if pick.chance(2) else ()
    lists = []
    for s, alias in enumerate(sketch.aliases):
        outs = [Out(Col(alias, column.name)) for column in sketch.keys]
        if by and (s == 0 or pick.chance(2)):
            outs.append(Out(Col(alias, sketch.number.name), "value"))
        if by and s == 0 and not pick.chance(4):
            outs.append(Out(ResultTime(), "rt"))
        lists.append(tuple(outs))
    return {"select": lists[0], "minus": tuple(lists[1:]), "by": by}


# How to run it ----------------------------------------------------------------------------------


def planned(pick: Pick, case: Case, profile: Profile) -> Case:
    """The case with a first plan (or none) and, if the profile has them, changes of plan."""

    def plan() -> str:
        aliases = [item.alias for item in case.items]
        if profile.kind == "except":
            return a_difference(pick, aliases)
        return a_plan(pick, aliases, linear=case.states != "all")  # a linear order has no states to keep

    first = None if pick.chance(4) else plan()
    tuples = sum(
        len(rows) for item, rows in zip(case.items, arrivals(case), strict=True) if not case.source(item).static
    )
    changes: list[tuple[int, str]] = []
    if profile.transitions:
        for _ in range(1 + pick.below(profile.transitions)):
            changes.append((0 if pick.chance(10) else pick.below(tuples + 1), plan()))
            if pick.chance(4):  # another one right behind it, or the same again
                position = min(changes[-1][0] + pick.below(3), tuples)
                changes.append((position, plan() if pick.chance(2) else changes[-1][1]))
    changes.sort(key=lambda change: change[0])
    eager = len(case.items) < 5 and pick.chance(2)  # beyond, searching plans takes most of the time
    return replace(case, plan=first, transitions=tuple(changes), eager=eager)
