"""Where in the text a piece of a query stands.

The parser stamps tokens' offsets on the nodes it makes. Lines and columns are worked
out from an offset only when an error needs them.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from thalweg.errors import Location


@dataclass(frozen=True, slots=True)
class SourceText:
    """A text of queries, able to say where a node of one of them came from."""

    text: str

    def at(self, offset: int) -> Location:
        r"""The line and column of a character.

        >>> SourceText("SELECT x\nFROM t").at(14)
        Location(line=2, column=6)
        """
        offset = min(offset, len(self.text))
        line_start = self.text.rfind("\n", 0, offset) + 1
        return Location(self.text.count("\n", 0, offset) + 1, offset - line_start + 1)

    def of(self, node: exp.Expr) -> Location | None:
        """Where ``node`` begins: its first token, or that of the nearest node around it."""
        around: exp.Expr | None = node
        while around is not None:
            offsets = [child.meta["start"] for child in around.walk() if "start" in child.meta]
            if offsets:
                return self.at(min(offsets))
            around = around.parent
        return None
