"""A case in the making: its streams, the columns they have in common, and the items of its FROM list."""

from __future__ import annotations

from dataclasses import dataclass

from tests.cases import Item, Stream
from tests.expressions import Col
from tests.properties.data import Clock, Column, a_stream
from tests.properties.pick import Pick

_FAMILIES = ("int", "int", "string", "decimal", "double", "number", "date", "timestamp", "bool", "binary")


@dataclass
class Sketch:
    """What queries are drawn over.

    Every stream has the ``keys``, the ``number`` and perhaps a text, each in a type of the column's
    family. ``key_ops`` says how each key is compared: by ``=``, by ``<=>``, or by either.
    """

    pick: Pick
    clock: Clock
    keys: tuple[Column, ...]
    key_ops: tuple[str, ...]
    number: Column
    streams: tuple[Stream, ...]
    items: list[Item]

    @property
    def aliases(self) -> list[str]:
        return [item.alias for item in self.items]

    def is_static(self, item: Item) -> bool:
        return self.source(item.alias).static

    def source(self, alias: str) -> Stream:
        name = next(item.stream for item in self.items if item.alias == alias)
        return next(stream for stream in self.streams if stream.name == name)

    def type_of(self, column: Col) -> str:
        return self.source(column.alias).type_of(column.name)

    def a_number(self) -> Col:
        return Col(self.pick.one(*self.aliases), self.number.name)

    def a_column(self) -> Col:
        alias = self.pick.one(*self.aliases)
        return Col(alias, self.pick.one(*self.source(alias).columns)[0])


def a_sketch(pick: Pick, size: int, classes: int, domains: tuple[int, ...], *, disorder: bool) -> Sketch:
    """Streams for so many items; now and then one stream serves two items."""
    clock = Clock.drawn(pick, size)
    odd = pick.chance(8)
    keys = tuple(
        Column(
            name=f"key {c}" if odd else f"k{c}",
            family=pick.one(*_FAMILIES),
            domain=pick.one(*domains),
            nullable=pick.chance(4),
        )
        for c in range(1 + pick.below(min(classes, 7 - size)))
    )
    number = Column(
        name="order" if odd else "x",
        family=pick.one("int", "int", "double", "timestamp", "decimal", "number"),
        domain=9,
        nullable=pick.chance(4),
        numeric=True,
    )
    text = (Column("s", "string", 3, pick.chance(4)),) if pick.chance(3) else ()
    full, aliased, disorder = pick.usually(10), pick.chance(2), disorder or pick.chance(4)
    streams: list[Stream] = []
    items: list[Item] = []
    for s in range(size):
        if s > 0 and pick.chance(8):
            name = pick.one(*streams).name
        else:
            name = f"S{s}"
            columns = (*keys, number, *text)
            streams.append(a_stream(pick, name, columns, clock, size, disorder=disorder, full=full))
        again = any(item.stream == name for item in items)
        items.append(Item(name, "abcdef"[s] if aliased or again else name))
    key_ops = tuple(pick.one("=", "=", "=", "=", "<=>", "either") for _ in keys)
    return Sketch(pick, clock, keys, key_ops, number, tuple(streams), items)
