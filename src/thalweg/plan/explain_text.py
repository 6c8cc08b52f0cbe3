"""The facts of an explanation, laid out for a person."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from thalweg.cql.durations import format_interval

Facts = dict[str, Any]

_CHANGES = {"ISTREAM": "enter", "DSTREAM": "leave"}
_POLICIES = {
    "push": "every join passes on all that it finds",
    "jit": "what the joins above have no partner for is not produced until one arrives",
    "auto": "as jit, where that saves more than it costs",
}


def lay_out(facts: Facts) -> str:
    """Sections from what is asked to how it runs and what that costs."""
    output = f"{facts['output']}: results as they {_CHANGES[facts['output']]}"
    what = what_is_joined(facts["streams"])
    if facts["kind"] == "difference":
        first, *others = (stream["alias"] for stream in facts["streams"])
        what = f"difference: {first} minus {' and '.join(others)}"
    freshness = f", FRESHNESS {format_interval(facts['freshness_us'])}" if facts["freshness_us"] is not None else ""
    lines = [f"{facts['query']}: {what}, {output}{freshness}", ""]
    lines += section("streams", streams_text(facts))
    lines += section("predicates", predicates_text(facts))
    lines += section("output", _output(facts))
    return "\n".join([*lines, *how_it_runs(facts)]).rstrip() + "\n"


def how_it_runs(facts: Facts) -> list[str]:
    """The sections about the plan, and what it costs."""
    lines: list[str] = []
    if facts["kind"] == "difference":
        lines += section(f"plan  {facts['plan']['text']}" if facts["plan"] else "plan", _difference(facts))
    elif facts["plan"] is not None:
        lines += section(f"plan  {facts['plan']['text']}", _plan(facts))
        lines += section("what a new tuple does", _programs(facts))
        lines += [f"production  {_production_line(facts['production'])}", *_indented(_production(facts))]
        if facts["budget"] is not None:
            lines += [f"budget  {_budget_line(facts['budget'])}", *_indented(_budget(facts["budget"]))]
        lines += section(f"cost  {_cost_line(facts['cost'])}", _cost_table(facts))
        lines += section("why", _why(facts))
    if facts["buckets"] is not None:
        lines += section("buckets", iter(facts["buckets"]["text"]))
    if facts["carried"] is not None:
        lines += section("columns that travel to the buckets", _carried(facts["carried"]))
    if facts["basis"] is not None:
        lines += section("where the numbers come from", iter(facts["basis"]))
    return lines


def what_is_joined(inputs: Sequence[Facts]) -> str:
    """How many streams and static relations there are."""
    static = sum(each["static"] for each in inputs)
    if len(inputs) == 1:
        return "window over one stream"
    streams = "1 stream" if len(inputs) == static + 1 else f"{len(inputs) - static} streams"
    return f"join of {streams}" + (f" and {static} static relation{'s' if static > 1 else ''}" if static else "")


def section(title: str, content: Iterator[str]) -> list[str]:
    """A title and what stands under it; nothing if that is nothing."""
    lines = _indented(content)
    return [title, *lines] if lines else []


def _indented(content: Iterator[str]) -> list[str]:
    return [f"  {line}" for line in content]


def streams_text(facts: Facts) -> Iterator[str]:
    """The streams of a join, with their windows."""
    rows = []
    for stream in facts["streams"]:
        name = stream["stream"] if stream["stream"] != stream["alias"] else ""
        if stream["static"]:
            rows.append((stream["alias"], name, stream["window"], "", f"~{count(stream['tuples'])} tuples"))
            continue
        window = stream["window"] + (f", {_derivation(stream)}" if stream["derived"] else "")
        if stream["grows_for_ever"]:
            window += ": this state grows for ever"
        elif stream["retention_us"] is not None and not stream["derived"] and _shorter(stream):
            window += f", kept for {stream['retention']}: interval predicates need no more"
        if stream["freshness_us"] is not None:
            window += f", FRESHNESS {format_interval(stream['freshness_us'])}"
        rows.append(
            (stream["alias"], name, window, f"~{count(stream['rate'])}/s", f"~{count(stream['tuples'])} tuples")
        )
    yield from table(rows, right=(3, 4))


def _derivation(stream: Facts) -> str:
    return "derived: no later tuple needs it" if stream["width_us"] == 1 else "derived from the interval predicates"


def _shorter(stream: Facts) -> bool:
    return stream["width_us"] is None or bool(stream["retention_us"] < stream["width_us"])


def predicates_text(facts: Facts) -> Iterator[str]:
    """The four kinds of predicates."""
    predicates = facts["predicates"]
    rows = [("equality", f"{p['text']}  ({p['type']})") for p in predicates["equalities"]]
    rows += [
        ("theta", f"{p['text']}  (holds for {percent(p['selectivity'])} of the pairs)") for p in predicates["thetas"]
    ]
    rows += [("selection", f"{alias}: {text}") for alias, text in predicates["selections"].items()]
    rows += [("residual", text) for text in predicates["residual"]]
    yield from table(rows)


def _output(facts: Facts) -> Iterator[str]:
    columns = (c["name"] if _plain(c) else f"{c['expression']} AS {c['name']}" for c in facts["columns"])
    yield from wrapped(columns)
    aggregation = facts["aggregation"]
    if aggregation is not None:
        groups = f"for each {', '.join(aggregation['keys'])}" if aggregation["keys"] else "over all results"
        yield f"aggregation: {', '.join(aggregation['calls']) or 'none'} {groups}, over what the windows hold"
        if aggregation["having"] is not None:
            yield f"having: {aggregation['having']}"


def _plain(column: Facts) -> bool:
    return bool(column["expression"].split(".")[-1].strip("`") == column["name"])


def _carried(carried: Facts) -> Iterator[str]:
    for alias, each in carried.items():
        computed = f", and {each['computed']} computed" if each["computed"] else ""
        count = f"{len(each['columns'])} of {each['of']}{computed}"
        first, *rest = wrapped(iter(each["columns"]))
        yield f"{alias}: {count}: {first}"
        yield from (f"  {line}" for line in rest)


def wrapped(words: Iterator[str], width: int = 100) -> Iterator[str]:
    """Words with commas between them, in lines that fit a screen."""
    line = ""
    for word in words:
        if line and len(line) + len(word) > width:
            yield f"{line},"
            line = word
        else:
            line = f"{line}, {word}" if line else word
    if line:
        yield line


def _difference(facts: Facts) -> Iterator[str]:
    first, *others = (stream["alias"] for stream in facts["streams"])
    keys = ", ".join(p["name"] for p in facts["predicates"]["equalities"])
    yield f"every stream has one window, indexed by {keys}"
    yield f"a tuple of {first} is in the result while no tuple of {' or '.join(others)} with its key is alive"
    for state in facts["states"]:
        yield f"{state['state']} ○ not kept: one look at a key finds what any stream has of it, in whatever order"


def _plan(facts: Facts) -> Iterator[str]:
    if facts["plan"]["tree"] is None:
        yield "a linear order for every stream, no intermediate states"
        return
    rows = list(_tree_rows(facts["plan"]["tree"], "", "", root=True))
    yield from table(rows, right=(2,))


def _tree_rows(tree: Facts, prefix: str, below: str, *, root: bool = False) -> Iterator[Sequence[str]]:
    """Label, method and estimate of every node, the root first."""
    if "children" not in tree:
        yield f"{prefix}{tree['node']}", "", f"~{count(tree['size'])} tuples"
        return
    method = _method(tree)
    if root:
        yield f"{prefix}⋈ results", method, f"~{count(tree['arrivals'])}/s"
    elif tree["kept"]:
        yield (
            f"{prefix}⋈ {tree['node']} ● kept",
            method,
            f"~{count(tree['size'])} entries, ~{count(tree['arrivals'])}/s",
        )
    else:
        yield f"{prefix}⋈ {tree['node']} ○ not kept", method, f"~{count(tree['arrivals'])}/s"
    left, right = tree["children"]
    yield from _tree_rows(left, f"{below}├─ ", f"{below}│  ")
    yield from _tree_rows(right, f"{below}└─ ", f"{below}   ")


def _method(tree: Facts) -> str:
    """How a join finds partners; thetas are spelled out while they fit, the section on predicates has them all."""
    method = f"hash on {', '.join(tree['key'])}" if tree["key"] else "nested loop"
    spelled = ", ".join([method, *tree["thetas"]])
    return spelled if len(spelled) <= 60 else f"{method}, {len(tree['thetas'])} thetas"


def _programs(facts: Facts) -> Iterator[str]:
    rows = []
    static = {stream["alias"] for stream in facts["streams"] if stream["static"]}
    for head, steps in facts["programs"].items():
        if head in static:
            continue
        parts = [head]
        for step in steps:
            how = f"by {', '.join(step['key'])}" if step["key"] else "by nested loop"
            parts.append(f"{step['probe']} {how}")
            if step["stores"] is not None:
                parts.append(f"store {step['stores']}")
        rows.append(" → ".join([*parts, "result"]))
    yield from rows


def _production_line(production: Facts) -> str:
    policy, bits = production["policy"], production["filter_bits"]
    words = [f"{policy}: {_POLICIES[policy]}"]
    if policy != "push" and production["lattice"] > 1:
        words.append(f"told apart by up to {production['lattice']} components")
    if bits is not None:
        words.append(f"told by Bloom filters of {bits:,} bit{'s' if bits > 1 else ''}")
    return ", ".join(words)


def _production(facts: Facts) -> Iterator[str]:
    """Who waits for what, and where new tuples stop meanwhile."""
    for demand in facts["production"]["demands"]:
        partners = " and ".join(demand["from"])
        wish = f"{partners} with its {' and '.join(demand['by'])}" if demand["by"] else f"any tuple of {partners}"
        places: dict[str, list[str]] = {}
        for stream, passed in demand["stops"].items():
            at_once = "at once for good, and is deleted" if demand["static"] else "at once"
            places.setdefault(f"after {' and '.join(passed)}" if passed else at_once, []).append(stream)
        stops = ", ".join(f"a new {' or '.join(streams)} stops {place}" for place, streams in places.items())
        yield f"{demand['of']} waits for {wish}: {stops}"
    if facts["production"]["policy"] != "push" and not facts["production"]["demands"]:
        yield "no join stands above another, so nothing is asked for"


def _budget_line(budget: Facts) -> str:
    if not budget["refuses"]:
        return f"enough: about {count(budget['needed'])} probes/s are needed, and none is refused"
    share = f"about {percent(budget['share'])} of the results" if budget["granted"] else "no results"
    probes = f"{count(budget['granted'])} of {count(budget['needed'])} probes/s"
    return f"{probes}, divided by {budget['allocation']}: {share}"


def _budget(budget: Facts) -> Iterator[str]:
    """What is wanted and allowed on the way of each stream's tuples; a plan under a budget keeps no states."""
    for alias, steps in budget["programs"].items():
        if budget["refuses"]:
            parts = (f"{step['probe']} {count(step['allowed'])} of {count(step['wanted'])}" for step in steps)
            yield f"{alias}: {' → '.join(parts)}"


def _cost_line(cost: Facts) -> str:
    kept = cost["storing"] / cost["total"]
    states = f", {percent(kept)} of it to keep states" if kept > 0 else ""
    cores = cost["total"] / 1e9
    busy = f"{percent(cores)} of a core" if cores <= 1 else f"{count(cores)} cores"
    return f"about {duration(cost['per_tuple'])} per tuple: {busy} at {count(cost['rate'])} tuples/s{states}"


def _cost_table(facts: Facts) -> Iterator[str]:
    rows = [("", "window", "probing", "storing", "results", "total")]
    static = {stream["alias"] for stream in facts["streams"] if stream["static"]}
    for alias, head in facts["cost"]["heads"].items():
        if alias in static:
            continue
        parts = (head[part] for part in ("base", "probing", "storing", "results", "total"))
        rows.append((alias, *(f"{work(part)}" for part in parts)))
    yield from table(rows, right=(1, 2, 3, 4, 5))


def _why(facts: Facts) -> Iterator[str]:
    yield from facts["why"]
    for state in facts["states"]:
        storing, recomputing = work(state["storing"]), work(state["recomputing"])
        pays = state["recomputing"] > state["storing"]
        if state["kept"]:
            verdict = "is kept" if pays else "is kept, though it does not pay"
            yield f"{state['state']} {verdict}: storing it takes {storing}, recomputing would take {recomputing}"
        else:
            verdict = "is not kept, though it would pay" if pays else "is not kept"
            yield f"{state['state']} {verdict}: recomputing takes {recomputing}, storing it would take {storing}"


def table(rows: Sequence[Sequence[str]], right: tuple[int, ...] = ()) -> Iterator[str]:
    """Rows with aligned columns; empty columns are left out."""
    columns = [i for i in range(max(map(len, rows), default=0)) if any(row[i] for row in rows)]
    widths = {i: max(len(row[i]) for row in rows) for i in columns}
    for row in rows:
        cells = (row[i].rjust(widths[i]) if i in right else row[i].ljust(widths[i]) for i in columns)
        yield "  ".join(cells).rstrip()


def count(number: float) -> str:
    """An estimate as a person says it.

    >>> count(12345.6), count(3.14159), count(0.00012), count(25_000_000)
    ('12,300', '3.1', '0.00012', '25 million')
    """
    number = float(f"{number:.3g}")
    if number >= 1e15:
        return f"{number:.0e}"
    for size, name in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million")):
        if number >= size:
            return f"{number / size:g} {name}"
    return f"{number:,.0f}" if number >= 10 else f"{number:.2g}"


def percent(share: float) -> str:
    """A share as a percentage.

    >>> percent(0.333), percent(0.00052), percent(12.0)
    ('33%', '0.052%', '1,200%')
    """
    return f"{count(100 * share)}%"


def duration(nanoseconds: float) -> str:
    """A time in the unit that suits it.

    >>> duration(1234.0), duration(5.6e7), duration(110)
    ('1.2 µs', '56 ms', '110 ns')
    """
    nanoseconds = float(f"{nanoseconds:.3g}")
    for size, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "µs")):
        if nanoseconds >= size:
            return f"{count(nanoseconds / size)} {unit}"
    return f"{count(nanoseconds)} ns"


def work(nanoseconds: float) -> str:
    """Work per second of stream.

    >>> work(1234.0), work(0)
    ('1.2 µs/s', '0')
    """
    return f"{duration(nanoseconds)}/s" if nanoseconds else "0"
