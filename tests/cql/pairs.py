"""Reads ``fixtures/*.txt``: pairs of a text and what is expected of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

FIXTURES = Path(__file__).parent / "fixtures"


@dataclass(frozen=True)
class Pair:
    name: str
    text: str
    expected: str


def pairs(pattern: str) -> list[Pair]:
    """An entry is a title after '#', a text, '=>' and the expectation; '----' stands between entries."""
    found = []
    for path in sorted(FIXTURES.glob(pattern)):
        for entry in path.read_text().split("\n----\n"):
            title, _, rest = entry.strip().partition("\n")
            text, _, expected = f"\n{rest}".partition("\n=>\n")
            found.append(Pair(f"{path.stem}: {title.lstrip('# ')}", text.strip("\n"), expected.strip()))
    return found


GOOD = pairs("[!e]*.txt")
BAD = pairs("errors_*.txt")
