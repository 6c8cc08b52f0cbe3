"""How a stream's tuples look to the kernels: a fixed row of int64 words.

``time, row | a code per attribute class | a number per theta operand | partition``

The words after ``|`` are there only if the query needs them. Codes are equal when the
keys are; they are also well mixed, so that their low bits serve as a hash. Payload
columns never enter: ``row`` says where to find them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from thalweg.cql.query import Operand, Query, RowsWindow, Theta
from thalweg.engine.kernels.compiled import Int64s
from thalweg.engine.kernels.tables import CODES
from thalweg.engine.time_bounds import FOREVER


@dataclass(frozen=True, slots=True)
class StreamLayout:
    """The words of one stream's tuples.

    Attributes:
        codes: attribute class -> field.
        operands: (theta, side) -> field; side 0 is the left operand.
        partition: field of the partition number, in a ROWS window.
        width: words of a new tuple.
        lifetime: time until it expires (FOREVER in ROWS and unbounded windows).
        rows: size of a ROWS window, else 0.

    """

    codes: dict[int, int]
    operands: dict[tuple[int, int], int]
    partition: int | None
    width: int
    lifetime: int
    rows: int

    @property
    def first_link(self) -> int:
        """Where the links of access paths begin, in the base window: after its own words and those of a ROWS window."""
        return self.width + (0 if self.partition is None else 2)


def row_numbers(words: Int64s) -> Int64s:
    """Row numbers, also of tuples that can join nothing: those carry the complement of theirs."""
    return np.where(words < 0, ~words, words)


def layouts(query: Query) -> tuple[StreamLayout, ...]:
    """The layout of each stream of a query."""
    return tuple(_layout(query, stream) for stream in range(len(query.streams)))


def sides(theta: Theta) -> tuple[Operand, Operand]:
    """Both operands of a theta predicate."""
    return theta.left, theta.right


def _layout(query: Query, stream: int) -> StreamLayout:
    field = CODES
    codes: dict[int, int] = {}
    for index, attribute in enumerate(query.classes):
        if stream in attribute.members:
            codes[index] = field
            field += 1
    operands: dict[tuple[int, int], int] = {}
    for index, theta in enumerate(query.thetas):
        for side, operand in enumerate(sides(theta)):
            if operand.stream == stream:
                operands[index, side] = field
                field += 1
    ref = query.streams[stream]
    if isinstance(ref.window, RowsWindow):
        return StreamLayout(codes, operands, field, field + 1, FOREVER, ref.window.rows)
    lifetime = FOREVER if ref.retention_us is None else ref.retention_us
    return StreamLayout(codes, operands, None, field, lifetime, 0)
