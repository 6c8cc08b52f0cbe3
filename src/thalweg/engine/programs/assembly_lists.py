"""What all parts of an assembly use: access paths, short lists of numbers, the fields of attribute classes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from thalweg.engine.rows.layout import StreamLayout
from thalweg.plan.program import Demand
from thalweg.plan.tree import Node

Path = tuple[int, tuple[int, ...]]
"""An access path of a base window: the stream, and the attribute classes it is looked up by."""


class Lists:
    """Short lists of numbers laid end to end."""

    def __init__(self) -> None:
        self.numbers: list[int] = []

    def add(self, numbers: Iterable[int], width: int = 1) -> tuple[int, int]:
        start = len(self.numbers)
        self.numbers += numbers
        return start, (len(self.numbers) - start) // width


def partner_paths(demand: Demand, layouts: Sequence[StreamLayout]) -> list[Path]:
    """The windows that a demand asks, each with the classes of the key that it carries."""
    return [(stream, tuple(c for c in demand.key if c in layouts[stream].codes)) for stream in demand.others]


def carrier(attribute: int, node: Node, layouts: Sequence[StreamLayout]) -> tuple[int, int, int]:
    stream = min(s for s in node if attribute in layouts[s].codes)
    return attribute, stream, layouts[stream].codes[attribute]
