"""Names: which stream and column an identifier of a query means.

Like Spark, names are compared without regard to case, and a written name that
matches exactly wins. Resolved columns carry the alias and the column as they are spelled
in the query and the source, so everything after this compares plain strings.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as with_default

import pyarrow as pa
from sqlglot import exp

from thalweg.cql.locations import SourceText
from thalweg.cql.nodes import StreamItem, rewrite
from thalweg.cql.rendering import shorten
from thalweg.cql.types import canonical, cast_to, describe, needs_cast
from thalweg.errors import BindError

UNUSABLE = "Cast it in the DataFrame, to STRING say, or leave it out of the query."
"""What to do about a column that a query may not name."""


@dataclass(frozen=True, slots=True)
class Source:
    """What is known of a registered stream: its columns, and which of them is the event time.

    The event time is a timestamp, a date, or an integer of microseconds. What has none (``time=None``) is a
    static relation: rows that came before everything and stay.

    ``unusable`` are columns that a query may not name, each with the reason. Their types in the schema say nothing.
    """

    schema: pa.Schema
    time: str | None
    unusable: Mapping[str, str] = with_default(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NamedStream:
    """A stream of a query under its alias."""

    alias: str
    stream: str
    schema: pa.Schema
    time: str | None
    item: StreamItem
    unusable: Mapping[str, str] = with_default(default_factory=dict)

    @property
    def is_static(self) -> bool:
        """Whether this is a static relation."""
        return self.time is None


def open_streams(
    items: Sequence[StreamItem], catalog: Mapping[str, Source], source: SourceText
) -> tuple[NamedStream, ...]:
    """Look up the streams of a query in the catalog; at least one of them is more than a static relation."""
    streams: list[NamedStream] = []
    for item in items:
        name = match_name(item.name, catalog)
        if name is None:
            close = difflib.get_close_matches(item.name.lower(), [key.lower() for key in catalog], n=1)
            known = ", ".join(catalog) or "none"
            hint = (
                f"Did you mean '{_spelled(close[0], catalog)}'?" if close else f"The streams are {shorten(known, 200)}."
            )
            raise BindError(f"there is no stream '{item.name}'", source.of(item), hint)
        alias = item.args.get("alias")
        alias_name = alias.name if alias is not None else item.name
        for other in streams:
            if other.alias.lower() == alias_name.lower():
                hint = f"Give each its own alias: {item.name} AS {alias_name}2."
                raise BindError(f"two streams are called '{alias_name}'", source.of(alias or item), hint)
        time = _checked_time(name, catalog[name], source, item)
        streams.append(NamedStream(alias_name, name, catalog[name].schema, time, item, catalog[name].unusable))
        if time is None:
            _check_static(streams[-1], source)
    if all(stream.is_static for stream in streams):
        what = "the query reads nothing but static relations, so that no result would ever come"
        raise BindError(what, source.of(items[0]), "Join them with a stream.")
    return tuple(streams)


def _check_static(relation: NamedStream, source: SourceText) -> None:
    """A static relation has no time for windows and freshness to count in."""
    window = relation.item.args.get("window")
    what = f"'{relation.alias}' is a static relation, whose rows are alive for ever"
    if window is not None:
        raise BindError(f"{what}, and has a window", source.of(window), "Remove the window.")
    if relation.item.args.get("freshness") is not None:
        raise BindError(f"{what}, and has a FRESHNESS", source.of(relation.item), "Remove it.")


def _checked_time(name: str, stream: Source, source: SourceText, item: StreamItem) -> str | None:
    """The event time column as the source spells it, once its columns have been looked at."""
    seen: dict[str, str] = {}
    for column in stream.schema.names:
        twin = seen.setdefault(column.lower(), column)
        if twin is not column:
            what = f"stream '{name}' has two columns called '{twin}' and '{column}'"
            raise BindError(what, source.of(item), "Names are compared without regard to case; rename one.")
    if stream.time is None:
        return None
    time = match_name(stream.time, stream.schema.names)
    if time is None:
        columns = shorten(", ".join(stream.schema.names), 200)
        what = f"stream '{name}' has no column '{stream.time}', its event time"
        raise BindError(what, source.of(item), f"Its columns are {columns}.")
    kind = canonical(stream.schema.field(time).type)
    if not (pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_integer(kind)):
        what = f"the event time '{time}' of stream '{name}' is of type {describe(kind)}"
        raise BindError(what, source.of(item), "It must be a timestamp, a date or an integer of microseconds.")
    return time


def match_name(name: str, names: Iterable[str]) -> str | None:
    """The spelling of a name among ``names``: the same, or the same but for case."""
    insensitive = None
    for candidate in names:
        if candidate == name:
            return candidate
        if candidate.lower() == name.lower() and insensitive is None:
            insensitive = candidate
    return insensitive


def _spelled(lower: str, names: Iterable[str]) -> str:
    return next(name for name in names if name.lower() == lower)


class Scope:
    """The streams of a query, and the columns that USING made one."""

    def __init__(
        self, streams: Sequence[NamedStream], source: SourceText, visible: Sequence[int] | None = None
    ) -> None:
        self.streams = streams
        self.source = source
        self.visible: Sequence[int] = range(len(streams)) if visible is None else visible
        self.positions = {stream.alias: position for position, stream in enumerate(streams)}
        self.merged: dict[str, list[int]] = {}  # column of a USING, in lower case -> the streams it joins

    def column(self, stream: int, name: str, start: int | None = None) -> exp.Expression:
        """A column as bound expressions name it, in its canonical type."""
        named = self.streams[stream]
        if name in named.unusable:
            where = None if start is None else self.source.at(start)
            raise BindError(f"column '{name}' of stream '{named.stream}' {named.unusable[name]}", where, UNUSABLE)
        column = exp.Column(
            this=exp.to_identifier(name, quoted=True), table=exp.to_identifier(named.alias, quoted=True)
        )
        if start is not None:
            column.meta["start"] = start
        kind = named.schema.field(name).type
        return cast_to(column, kind, canonical(kind)) if needs_cast(kind) else column

    def resolve(self, expression: exp.Expr, visible: Sequence[int] | None = None) -> exp.Expression:
        """A copy of an expression with every column resolved among the visible streams."""
        streams = self.visible if visible is None else visible

        def bind(node: exp.Expr) -> exp.Expr:
            return self._resolve_column(node, streams) if isinstance(node, exp.Column) else node

        return rewrite(expression.copy(), bind)

    def find(self, name: str, streams: Iterable[int]) -> list[tuple[int, str]]:
        """All (stream, column) pairs that a bare column name can mean; columns joined by USING are one."""
        same = self.merged.get(name.lower(), [])[1:]
        found = [(s, match_name(name, self.streams[s].schema.names)) for s in streams if s not in same]
        return [(stream, column) for stream, column in found if column is not None]

    def _resolve_column(self, node: exp.Column, visible: Sequence[int]) -> exp.Expr:
        parts = node.parts
        start = min((part.meta["start"] for part in parts if "start" in part.meta), default=None)
        if len(parts) > 1:
            alias = match_name(parts[0].name, [self.streams[stream].alias for stream in visible])
            if alias is not None:
                return self._qualified(self.positions[alias], parts[1:], start)
        stream, column = self._bare(parts, visible)
        return self._fields(self.column(stream, column, start), self._type(stream, column), parts[1:])

    def _qualified(self, stream: int, parts: Sequence[exp.Expr], start: int | None) -> exp.Expr:
        named = self.streams[stream]
        column = match_name(parts[0].name, named.schema.names)
        if column is None:
            raise self._unknown_column(f"stream '{named.alias}' has no column '{parts[0].name}'", parts[0], [stream])
        return self._fields(self.column(stream, column, start), self._type(stream, column), parts[1:])

    def _bare(self, parts: Sequence[exp.Expr], visible: Sequence[int]) -> tuple[int, str]:
        first = parts[0]
        found = self.find(first.name, visible)
        if len(found) == 1:
            return found[0]
        location = self.source.of(first)
        if found:
            owners = [self.streams[stream].alias for stream, _ in found]
            what = f"column '{first.name}' is ambiguous: streams {_listed(owners)} have it"
            raise BindError(what, location, f"Write {owners[0]}.{first.name} or {owners[1]}.{first.name}.")
        if len(parts) > 1:
            raise self._unknown_stream(first, visible)
        aliases = [self.streams[stream].alias for stream in visible]
        what = (
            f"no stream has a column '{first.name}'"
            if len(aliases) > 1
            else f"stream '{aliases[0]}' has no column '{first.name}'"
        )
        raise self._unknown_column(what, first, visible)

    def _unknown_stream(self, name: exp.Expr, visible: Sequence[int]) -> BindError:
        location = self.source.of(name)
        later = match_name(name.name, [stream.alias for stream in self.streams])
        if later is not None:
            aliases = [self.streams[stream].alias for stream in visible]
            hint = f"Only {' and '.join(aliases)} can be used here."
            return BindError(f"stream '{later}' cannot be used here", location, hint)
        for stream in self.streams:
            if stream.stream.lower() == name.name.lower():
                hint = f"Write {stream.alias} instead."
                return BindError(f"stream '{stream.stream}' is called '{stream.alias}' in this query", location, hint)
        aliases = [self.streams[stream].alias for stream in visible]
        close = difflib.get_close_matches(name.name.lower(), [alias.lower() for alias in aliases], n=1)
        hint = f"Did you mean '{_spelled(close[0], aliases)}'?" if close else f"Its streams are {', '.join(aliases)}."
        return BindError(f"the query has no stream '{name.name}'", location, hint)

    def _unknown_column(self, what: str, name: exp.Expr, streams: Sequence[int]) -> BindError:
        columns = list(dict.fromkeys(column for s in streams for column in self.streams[s].schema.names))
        close = difflib.get_close_matches(name.name.lower(), [column.lower() for column in columns], n=1)
        hint = f"Did you mean '{_spelled(close[0], columns)}'? " if close else ""
        owner = "Its" if len(streams) == 1 else "The"
        return BindError(what, self.source.of(name), f"{hint}{owner} columns are {shorten(', '.join(columns), 200)}.")

    def _fields(self, column: exp.Expression, kind: pa.DataType, fields: Sequence[exp.Expr]) -> exp.Expression:
        """``column.field.field``: access to fields of a struct."""
        path = column
        for field in fields:
            names = [inner.name for inner in kind] if pa.types.is_struct(kind) else []
            name = match_name(field.name, names)
            if name is None:
                what = f"'{column.name}' has no field '{field.name}'"
                hint = f"Its fields are {', '.join(names)}." if names else f"It is of type {describe(kind)}."
                raise BindError(what, self.source.of(field), hint)
            path = exp.Dot(this=path, expression=exp.to_identifier(name, quoted=True))
            kind = kind.field(name).type
        return path

    def _type(self, stream: int, column: str) -> pa.DataType:
        return canonical(self.streams[stream].schema.field(column).type)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"'{name}'" for name in names[:-1]) + f" and '{names[-1]}'"
