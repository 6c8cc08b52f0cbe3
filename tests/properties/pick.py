"""Small draws: every choice of a case is one integer, which shrinks towards the first option."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from hypothesis import strategies as st

T = TypeVar("T")

_INDEX = [st.nothing(), *(st.integers(0, most) for most in range(64))]
"""A place among so many options; made once, because building a strategy costs more than drawing from it."""


class Pick:
    """Draws for one case."""

    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any]) -> None:
        self._draw = draw

    def one(self, *options: T) -> T:
        """One of the options; to repeat an option is to weigh it."""
        return options[self.below(len(options))]

    def chance(self, one_in: int) -> bool:
        """True once in so many times; shrinks to False."""
        return self.below(one_in) == one_in - 1

    def usually(self, all_but_one_in: int) -> bool:
        """False once in so many times; shrinks to False too."""
        return self.below(all_but_one_in) > 0

    def below(self, limit: int) -> int:
        return int(self._draw(_INDEX[limit] if limit < len(_INDEX) else st.integers(0, limit - 1)))

    def order(self, options: Sequence[T]) -> list[T]:
        """The options in any order; shrinks to the given one."""
        left = list(options)
        return [left.pop(self.below(len(left))) for _ in options]

    def numbers(self, below: int, least: int, most: int) -> list[int]:
        """Between ``least`` and ``most`` numbers."""
        return list(self._draw(st.lists(st.integers(0, below - 1), min_size=least, max_size=most)))


class Dice(Pick):
    """The same choices from a random generator, for cases that are not worth shrinking."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def below(self, limit: int) -> int:
        return self._rng.randrange(limit)
