"""How a stream's tuples look to the kernels: a fixed row of int64 words.

``time, row | mask | a code per attribute class | a number per theta operand | partition``

The words after ``|`` are there only if the query needs them. A tuple that is offered has its mask in any case: a bit
for each distinct selection that it passes. If there is a single selection, windows hold what passes it, and keep no
masks; then an offered tuple has its mask behind its other words. Else it has its slice there. Codes are equal when the
keys are; they are also well mixed, so that their low bits serve as a hash. Payload
columns never enter: ``row`` says where to find them.
"""

from __future__ import annotations

from dataclasses import dataclass

from thalweg.cql.query import Operand, Query, RowsWindow, Theta
from thalweg.engine.kernels.tables import FIRST_FIELD, ROWS_FIELDS
from thalweg.engine.time_bounds import FOREVER
from thalweg.plan.slices import Slicing


@dataclass(frozen=True, slots=True)
class StreamLayout:
    """The words of one stream's tuples.

    Attributes:
        codes: attribute class -> field.
        operands: (theta, side) -> field; side 0 is the left operand.
        partition: field of the partition number, in a ROWS window.
        width: words of a tuple that the window keeps.
        offered: words of a tuple that is offered.
        offered_mask: where among these its mask is.
        kept_mask: where the window has it; None: it keeps none.
        ends: for each slice of the window, the time until its tuples expire (FOREVER in ROWS and unbounded windows).
        rows: size of a ROWS window, else 0.

    """

    codes: dict[int, int]
    operands: dict[tuple[int, int], int]
    partition: int | None
    width: int
    ends: tuple[int, ...]
    rows: int
    kept_mask: int | None = None

    @property
    def lifetime(self) -> int:
        """The time until the last of its tuples expires."""
        return self.ends[-1]

    @property
    def is_sliced(self) -> bool:
        """Whether there are several slices."""
        return len(self.ends) > 1

    @property
    def offered(self) -> int:
        """The words of a tuple, and one more: its mask if the window keeps none, else its slice."""
        return self.width + 1

    @property
    def offered_mask(self) -> int:
        return self.width if self.kept_mask is None else self.kept_mask

    @property
    def first_link(self) -> int:
        """Where the links of access paths begin, in the base window: after its own words and those of a ROWS window."""
        return self.width + (0 if self.partition is None else ROWS_FIELDS)


def layouts(query: Query, slicing: Slicing | None = None) -> tuple[StreamLayout, ...]:
    """The layout of each stream of a query; ``slicing``: that of its windows, if it stands for several readers."""
    return tuple(_layout(query, stream, slicing) for stream in range(len(query.streams)))


def sides(theta: Theta) -> tuple[Operand, Operand]:
    """Both operands of a theta predicate."""
    return theta.left, theta.right


def until(time: int | None) -> int:
    """A length of time as the kernels have it."""
    return FOREVER if time is None else time


def _layout(query: Query, stream: int, slicing: Slicing | None) -> StreamLayout:
    field, kept_mask = FIRST_FIELD, None
    if slicing is not None and slicing.selections > 1:
        field, kept_mask = FIRST_FIELD + 1, FIRST_FIELD
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
        return StreamLayout(codes, operands, field, field + 1, (FOREVER,), ref.window.rows, kept_mask)
    ends = (ref.retention_us,) if slicing is None else slicing.ends[stream]
    return StreamLayout(codes, operands, None, field, tuple(map(until, ends)), 0, kept_mask)
