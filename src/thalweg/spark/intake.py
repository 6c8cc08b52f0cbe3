"""How many rows of each stream a bucket has been given, and how many of them it kept out.

These totals are part of the bucket's record, so they are exact over retries and restarts. The first bucket that a row
is copied to counts it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

LARGE_SHARE = 0.01
"""Of late rows among all rows of a stream, from which on there is a warning: disorder that a lateness is chosen for
leaves less."""


@dataclass(slots=True)
class Intake:
    """Numbers of rows, by position of the stream.

    Attributes:
        rows: all of them.
        late: those before the watermark.
        bad: those without an event time.

    """

    rows: list[int]
    late: list[int]
    bad: list[int]

    @staticmethod
    def of(streams: int) -> Intake:
        """Nothing yet."""
        return Intake([0] * streams, [0] * streams, [0] * streams)

    def add(self, other: Intake) -> None:
        self.rows = _added(self.rows, other.rows)
        self.late = _added(self.late, other.late)
        self.bad = _added(self.bad, other.bad)

    def to_json(self) -> dict[str, list[int]]:
        return asdict(self)

    @staticmethod
    def from_json(known: Mapping[str, list[int]], places: Sequence[int]) -> Intake:
        """What :meth:`to_json` was; ``places`` are the positions that its streams have now.

        >>> Intake.from_json({"rows": [5, 7], "late": [0, 1], "bad": [2, 0]}, [1, 0])
        Intake(rows=[7, 5], late=[1, 0], bad=[0, 2])
        """
        return Intake(**{name: _moved(counts, places) for name, counts in known.items()})


def _moved(counts: Sequence[int], places: Sequence[int]) -> list[int]:
    moved = [0] * len(counts)
    for count, place in zip(counts, places, strict=True):
        moved[place] = count
    return moved


def _added(one: list[int], other: list[int]) -> list[int]:
    return [a + b for a, b in zip(one, other, strict=True)]


def is_large(late: int, rows: int) -> bool:
    """Whether so many of so many rows are too many to be disorder as usual.

    >>> is_large(0, 0), is_large(9, 1000), is_large(10, 1000), is_large(1, 3)
    (False, False, True, True)
    """
    return late > 0 and late >= LARGE_SHARE * rows


def late_causes(*, ended: bool) -> str:
    """What may make many rows late; ``ended``: the input was, by a command."""
    if ended:
        return "The input was ended by the command 'end'. Rows that come after it are late."
    causes = [
        "files that are read out of order (Spark takes them by modification time, and those of one time in any order; "
        "if a trigger takes only some of the files, rows of the next may be older)",
        "event times far ahead of the others, in a few rows or in a whole stream",
        "a stream that was silent for longer than the idle timeout",
        "a lateness that is too small",
    ]
    return f"Likely causes: {'; '.join(causes)}."
