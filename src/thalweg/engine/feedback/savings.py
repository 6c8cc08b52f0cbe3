"""What feedback between joins has saved (JIT V)."""

from __future__ import annotations

from dataclasses import astuple, dataclass, replace


@dataclass(frozen=True, slots=True)
class Savings:
    """What feedback did since the start.

    Attributes:
        suspensions: messages that stopped the production of something, by its values.
        resumptions: messages that resumed it.
        withheld: intermediate results that were found and not produced; what would have come of them is not counted.
        unprobed: probes that were not made, those of the tuples that stopped at once and of what was withheld.
        tests: searches for a partner that decided so.
        suspended: values that are suspended now.
        unstored_bytes: of the entries of states that those withheld would have become at once.

    """

    suspensions: int = 0
    resumptions: int = 0
    withheld: int = 0
    unprobed: int = 0
    tests: int = 0
    suspended: int = 0
    unstored_bytes: int = 0

    def __add__(self, other: Savings) -> Savings:
        return Savings(*(mine + theirs for mine, theirs in zip(astuple(self), astuple(other), strict=True)))

    def since(self, before: Savings) -> Savings:
        """What was added since ``before``; what is suspended now."""
        added = self + Savings(*(-count for count in astuple(before)))
        return replace(added, suspended=self.suspended)
