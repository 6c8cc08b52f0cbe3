"""A compact text of a bound query, for comparing with what a test expects."""

from __future__ import annotations

from thalweg.cql import format_interval, render
from thalweg.cql.query import Query, RangeWindow, RowsWindow, Theta


def describe(query: Query) -> str:
    lines = [f"{query.name}: {query.output.value} {query.kind}"]
    for position, stream in enumerate(query.streams):
        line = (
            f"stream {stream.alias} = {stream.stream} {_window(query, position)} keeps {_length(stream.retention_us)}"
        )
        if stream.freshness_us is not None:
            line += f" fresh {_length(stream.freshness_us)}"
        if stream.selection is not None:
            line += f" where {render(stream.selection)}"
        lines.append(line)
    for attribute in query.classes:
        operator = " <=> " if attribute.null_safe else " = "
        members = operator.join(render(member) for member in attribute.members.values())
        lines.append(f"class {members} as {attribute.type}")
    lines += [f"theta {_theta(theta)}" for theta in query.thetas]
    lines += [f"residual {render(residual)}" for residual in query.residual]
    if query.aggregation is not None:
        lines += [f"key {key.name} {render(key.expression)} {key.type}" for key in query.aggregation.keys]
        for number, call in enumerate(query.aggregation.calls):
            argument = "*" if call.argument is None else render(call.argument)
            lines.append(f"call __a{number} {call.function}({argument}) {call.type}")
        if query.aggregation.having is not None:
            lines.append(f"having {render(query.aggregation.having)}")
    lines += [f"select {p.name}: {render(p.expression)} {p.type}" for p in query.select]
    if query.freshness_us is not None:
        lines.append(f"fresh {_length(query.freshness_us)}")
    if len(query.streams) > 1:
        rows = [" ".join("inf" if limit is None else str(limit) for limit in row) for row in query.differences]
        lines.append(f"differences {' | '.join(rows)}")
    return "\n".join(lines)


def _window(query: Query, position: int) -> str:
    if query.streams[position].is_static:
        return "static"
    window = query.streams[position].window
    if isinstance(window, RowsWindow):
        keys = ", ".join(render(key) for key in window.partition_by)
        return f"[PARTITION BY {keys} ROWS {window.rows}]" if keys else f"[ROWS {window.rows}]"
    assert isinstance(window, RangeWindow)
    return f"[{'derived ' if window.derived else ''}RANGE {_length(window.width_us)}]"


def _theta(theta: Theta) -> str:
    left, right = render(theta.left.expression), render(theta.right.expression)
    if theta.offset is None:
        return f"{left} {theta.op} {right} as {theta.type}"
    difference = f"|{left} - {right}|" if theta.absolute else f"{left} - {right}"
    return f"{difference} {theta.op} {theta.offset} as {theta.type}"


def _length(microseconds: int | None) -> str:
    return "for ever" if microseconds is None else format_interval(microseconds)
